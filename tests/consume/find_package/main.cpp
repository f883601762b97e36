// vkattn.hpp from an install tree: one query that sees one key returns its value.
#include <vkattn/vkattn.hpp>

#include <cstdio>

namespace {

bool attend() {
    const vkattn::Context context;
    vkattn_attention_desc desc{};
    desc.query = desc.key = desc.value = desc.output = vkattn::tensor(VKATTN_TYPE_F32, {1, 1, 1, 4});
    const vkattn::Plan plan = context.attention_plan(desc);
    const std::vector<float> values = {1.0f, -2.0f, 3.0f, 0.25f};
    vkattn::Buffer input = context.buffer(desc.value);
    const vkattn::Buffer output = context.buffer(desc.output);
    input.write(values);
    plan.run({vkattn::bind(VKATTN_ROLE_QUERY, input), vkattn::bind(VKATTN_ROLE_KEY, input),
              vkattn::bind(VKATTN_ROLE_VALUE, input), vkattn::bind(VKATTN_ROLE_OUTPUT, output)});
    std::vector<float> result(values.size());
    output.read(result);
    std::printf("vkattn %s on %s: %g %g %g %g\n", vkattn_version(), context.facts().name,
                static_cast<double>(result[0]), static_cast<double>(result[1]), static_cast<double>(result[2]),
                static_cast<double>(result[3]));
    return result == values;
}

} // namespace

int main() {
    try {
        return attend() ? 0 : 1;
    } catch (const vkattn::Error &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
