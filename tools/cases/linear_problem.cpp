// Ops "linear" (gated with a weight [2,out,in]), "linear_attention" and "causal_conv1d" as problems: the tensors of the file.
#include "tools/cases/case_problem.hpp"
#include "tools/io/input_error.hpp"
#include "tools/tensors/stored_types.hpp"

#include <string>

namespace vkattn::tools {
namespace {

constexpr std::string_view kLinearInputs[] = {"x", "weight", "bias"};

// The weight in its storage type. The device quantises rows of heads, of which it is one.
vkattn_tensor add_weight(ProblemBuilder &builder, const HostTensor &weight) {
    vkattn_tensor layout = builder.contiguous("weight", type_of(weight.dtype), weight.shape);
    const std::optional<vkattn_type> type = builder.input().linear.weight_dtype;
    if (!type || *type == layout.type) return builder.add(VKATTN_ROLE_WEIGHT, layout, weight);
    layout.type = *type;
    const HostTensor &stored = builder.keep(tensor_of(dtype_of(*type), weight.shape, values_of(weight)));
    if (is_quantised(*type) && weight.shape.back() % 32 != 0)
        builder.fail("tensor 'weight' is " + shape_text(weight.shape) + ", expected rows of a multiple of 32 for " +
                     type_name(*type));
    const std::uint64_t rows = weight.shape.size() == 3 ? weight.shape[0] * weight.shape[1] : weight.shape[0];
    const std::uint64_t shape[] = {1, 1, rows, weight.shape.back()};
    builder.add(VKATTN_ROLE_WEIGHT, builder.contiguous("weight", *type, shape), stored);
    return layout;
}

} // namespace

Problem make_linear_problem(const CaseFile &input, std::span<const std::string> wanted) {
    ProblemBuilder builder(input, wanted);
    builder.check_inputs(kLinearInputs);
    const std::string_view outputs[] = {"output"};
    builder.check_wanted(outputs);
    const HostTensor &x = builder.required_float("x", 3, 3), &weight = builder.required_float("weight", 2, 3);
    vkattn_linear_desc desc{};
    desc.input = builder.add(VKATTN_ROLE_INPUT, builder.contiguous("x", type_of(x.dtype), x.shape), x);
    desc.weight = add_weight(builder, weight);
    if (const HostTensor *bias = input.find("bias")) {
        const std::uint64_t rank = weight.shape.size() - 1;
        builder.check_float("bias", *bias, rank, rank);
        desc.bias = builder.add(VKATTN_ROLE_BIAS, builder.contiguous("bias", type_of(bias->dtype), bias->shape), *bias);
    }
    desc.activation = input.linear.activation;
    desc.output = builder.add_output("output", VKATTN_ROLE_OUTPUT, x.dtype,
                                     {x.shape[0], x.shape[1], weight.shape[weight.shape.size() - 2]});
    return builder.finish(desc);
}

namespace {

constexpr std::string_view kLinearAttentionInputs[] = {"q", "k", "v", "g", "beta", "initial_state", "cu_seqlens_q"};
constexpr std::string_view kConvolutionInputs[] = {"x", "weight", "bias", "initial_state", "cu_seqlens_q"};
constexpr std::string_view kOutputs[] = {"output", "final_state"};

vkattn_tensor add_float(ProblemBuilder &builder, vkattn_role role, const std::string &name, std::size_t rank,
                        std::size_t other_rank) {
    const HostTensor &tensor = builder.required_float(name, rank, other_rank);
    return builder.add(role, builder.contiguous(name, type_of(tensor.dtype), tensor.shape), tensor);
}

vkattn_tensor add_optional(ProblemBuilder &builder, vkattn_role role, const std::string &name, std::size_t rank,
                           std::size_t other_rank) {
    return builder.input().find(name) != nullptr ? add_float(builder, role, name, rank, other_rank) : vkattn_tensor{};
}

// The states before and after, of so many sequences unless cu_seqlens_q says how many. shape: of one state.
vkattn_recurrent_states add_states(ProblemBuilder &builder, const vkattn_tensor &cu_seqlens, std::uint64_t sequences,
                                   std::vector<std::uint64_t> shape) {
    if (cu_seqlens.type != VKATTN_TYPE_NONE && cu_seqlens.shape[0] != 0) sequences = cu_seqlens.shape[0] - 1;
    shape.insert(shape.begin(), sequences);
    vkattn_recurrent_states states{};
    states.initial_state =
        add_optional(builder, VKATTN_ROLE_INITIAL_STATE, "initial_state", shape.size(), shape.size());
    if (builder.wants("final_state"))
        states.final_state = builder.add_output("final_state", VKATTN_ROLE_FINAL_STATE, Dtype::kF32, std::move(shape));
    return states;
}

} // namespace

Problem make_linear_attention_problem(const CaseFile &input, std::span<const std::string> wanted) {
    ProblemBuilder builder(input, wanted);
    builder.check_inputs(kLinearAttentionInputs);
    builder.check_wanted(kOutputs);
    const LinearAttentionConfig &config = input.linear_attention;
    vkattn_linear_attention_desc desc{};
    desc.query = add_float(builder, VKATTN_ROLE_QUERY, "q", 4, 4);
    desc.key = add_float(builder, VKATTN_ROLE_KEY, "k", 4, 4);
    desc.value = add_float(builder, VKATTN_ROLE_VALUE, "v", 4, 4);
    desc.decay = add_optional(builder, VKATTN_ROLE_DECAY, "g", 3, 4);
    desc.beta = add_optional(builder, VKATTN_ROLE_BETA, "beta", 3, 3);
    desc.cu_seqlens_q = builder.add_integers(VKATTN_ROLE_CU_SEQLENS_Q, "cu_seqlens_q");
    const HostTensor &q = *input.find("q"), &v = *input.find("v");
    desc.states = add_states(builder, desc.cu_seqlens_q, q.shape[0], {v.shape[1], q.shape[3], v.shape[3]});
    desc.rule = config.rule;
    if (config.scale) desc.scale = *config.scale;
    desc.qk_l2norm = config.qk_l2norm;
    desc.output =
        builder.add_output("output", VKATTN_ROLE_OUTPUT, q.dtype, {q.shape[0], v.shape[1], q.shape[2], v.shape[3]});
    return builder.finish(desc);
}

Problem make_causal_conv1d_problem(const CaseFile &input, std::span<const std::string> wanted) {
    ProblemBuilder builder(input, wanted);
    builder.check_inputs(kConvolutionInputs);
    builder.check_wanted(kOutputs);
    vkattn_causal_conv1d_desc desc{};
    desc.input = add_float(builder, VKATTN_ROLE_INPUT, "x", 3, 3);
    desc.weight = add_float(builder, VKATTN_ROLE_WEIGHT, "weight", 2, 2);
    desc.bias = add_optional(builder, VKATTN_ROLE_BIAS, "bias", 1, 1);
    desc.cu_seqlens_q = builder.add_integers(VKATTN_ROLE_CU_SEQLENS_Q, "cu_seqlens_q");
    const HostTensor &x = *input.find("x"), &weight = *input.find("weight");
    if (weight.shape[1] < 2)
        builder.fail("tensor 'weight' is " + shape_text(weight.shape) + ", expected [C,K] with K from 2 to 4");
    desc.states = add_states(builder, desc.cu_seqlens_q, x.shape[0], {weight.shape[1] - 1, x.shape[2]});
    desc.activation = input.linear.activation;
    desc.output = builder.add_output("output", VKATTN_ROLE_OUTPUT, x.dtype, x.shape);
    return builder.finish(desc);
}

} // namespace vkattn::tools
