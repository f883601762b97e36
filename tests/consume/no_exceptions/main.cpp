// One attention, and one that is refused, without exceptions.
#include <vkattn/vkattn.hpp>

#include <cstdio>

namespace {

int failed(const char *what) {
    std::fprintf(stderr, "%s: %s\n", what, vkattn_last_error());
    return 1;
}

} // namespace

int main() {
    const vkattn::Context context;
    if (!context) return failed("context");
    vkattn_attention_desc desc{};
    desc.query = desc.key = desc.value = desc.output = vkattn::tensor(VKATTN_TYPE_F32, {1, 1, 1, 4});
    const vkattn::Result<vkattn::Plan> plan = context.attention_plan(desc);
    if (!plan) return failed("plan");
    const std::vector<float> values = {1.0f, -2.0f, 3.0f, 0.25f};
    vkattn::Buffer input = context.buffer(desc.value);
    const vkattn::Buffer output = context.buffer(desc.output);
    if (!input || !output || input.write(values) != VKATTN_SUCCESS) return failed("buffers");
    if (!plan->run({vkattn::bind(VKATTN_ROLE_QUERY, input), vkattn::bind(VKATTN_ROLE_KEY, input),
                    vkattn::bind(VKATTN_ROLE_VALUE, input), vkattn::bind(VKATTN_ROLE_OUTPUT, output)}))
        return failed("run");
    std::vector<float> result(values.size());
    if (output.read(result) != VKATTN_SUCCESS || result != values) return failed("read");

    desc.query = vkattn::tensor(VKATTN_TYPE_F32, {1, 1, 1, 1, 4});
    const vkattn::Result<vkattn::Plan> refused = context.attention_plan(desc);
    if (refused || refused.result != VKATTN_ERROR_INVALID_ARGUMENT || refused->get() != nullptr)
        return failed("five dimensions were taken");
    std::printf("refused as it should be: %s\n", vkattn_last_error());
    const vkattn::Context none("no such device");
    if (none) return failed("a device of no name");
    const vkattn::Result<vkattn::List<vkattn_device_facts>> devices = vkattn::devices();
    return devices && !devices->empty() ? 0 : failed("devices");
}
