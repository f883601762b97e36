#include "tools/bench/linear_attention.hpp"

#include "tools/io/input_error.hpp"
#include "tools/tensors/stored_types.hpp"

#include <map>

namespace vkattn::tools {
namespace {

vkattn_linear_attention_form form_named(const std::string &name) {
    const std::map<std::string, vkattn_linear_attention_form> forms = {
        {"auto", VKATTN_FORM_AUTO}, {"recurrent", VKATTN_FORM_RECURRENT}, {"chunked", VKATTN_FORM_CHUNKED}};
    const auto found = forms.find(name);
    if (found == forms.end()) throw InputError("--form", name + ", expected auto, recurrent or chunked");
    return found->second;
}

vkattn_linear_attention_desc problem_of(const AttentionShape &shape, vkattn_type type) {
    const std::uint32_t key_heads = shape.kv_heads != 0 ? shape.kv_heads : shape.heads;
    const std::uint32_t value_size = shape.v_head_dim != 0 ? shape.v_head_dim : shape.head_dim;
    vkattn_linear_attention_desc desc{};
    desc.query = desc.key = tensor(type, {shape.batch, key_heads, shape.q_len, shape.head_dim});
    desc.value = desc.output = tensor(type, {shape.batch, shape.heads, shape.q_len, value_size});
    desc.decay = desc.beta = tensor(VKATTN_TYPE_F32, {shape.batch, shape.heads, shape.q_len});
    desc.states.initial_state = desc.states.final_state =
        tensor(VKATTN_TYPE_F32, {shape.batch, shape.heads, shape.head_dim, value_size});
    desc.qk_l2norm = 1;
    return desc;
}

void fill_with(Buffer &buffer, std::uint64_t bytes, float value) {
    const std::vector<float> values(bytes / sizeof value, value);
    buffer.write(std::as_bytes(std::span(values)));
}

} // namespace

OperationTimes time_linear_attention(const Context &context, const AttentionShape &shape, const std::string &form,
                                     const RepeatOptions &options) {
    const NamedType type = named_type("--dtype", shape.dtype, is_float);
    vkattn_linear_attention_desc desc = problem_of(shape, type.type);
    desc.form = form_named(form);
    const auto bytes = [](const vkattn_tensor &each) { return vkattn_tensor_bytes(&each); };
    const std::uint64_t state_bytes = bytes(desc.states.initial_state);
    OperationTimes times = time_operation(
        context, options,
        static_cast<double>(2 * state_bytes + bytes(desc.query) + bytes(desc.key) + bytes(desc.value) +
                            bytes(desc.decay) + bytes(desc.beta) + bytes(desc.output)),
        [&] { return context.linear_attention_plan(desc); },
        [&](unsigned seed) {
            const RandomValues random(seed);
            InputSet set;
            for (const auto &[role, tensor] :
                 {std::pair(VKATTN_ROLE_QUERY, &desc.query), std::pair(VKATTN_ROLE_KEY, &desc.key),
                  std::pair(VKATTN_ROLE_VALUE, &desc.value)})
                random.fill(set.add(context, role, bytes(*tensor)), type.dtype, bytes(*tensor));
            fill_with(set.add(context, VKATTN_ROLE_DECAY, bytes(desc.decay)), bytes(desc.decay), -0.05F);
            fill_with(set.add(context, VKATTN_ROLE_BETA, bytes(desc.beta)), bytes(desc.beta), 0.5F);
            set.add(context, VKATTN_ROLE_OUTPUT, bytes(desc.output));
            fill_with(set.add(context, VKATTN_ROLE_INITIAL_STATE, state_bytes), state_bytes, 0.01F);
            vkattn_binding same_place = set.bindings.back();
            same_place.role = VKATTN_ROLE_FINAL_STATE;
            set.bindings.push_back(same_place);
            return set;
        });
    times.kernel = times.reason.substr(0, times.reason.find(':')); // plans name kernels of attention alone
    constexpr double kOfNumber = 6;                                // of the state: k S, k u, q S
    times.flops = kOfNumber * static_cast<double>(desc.output.shape[0] * desc.output.shape[1] * desc.output.shape[2]) *
                  static_cast<double>(desc.query.shape[3] * desc.output.shape[3]);
    return times;
}

} // namespace vkattn::tools
