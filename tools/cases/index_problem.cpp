// Op "index": the choice of keys by their scores.
#include "tools/cases/case_problem.hpp"
#include "tools/tensors/stored_types.hpp"

#include <array>
#include <string_view>

namespace vkattn::tools {
namespace {

constexpr std::array<std::string_view, 7> kIndexInputs{
    "q", "k", "weights", "nonpad_kv_seqlen", "cu_seqlens_q", "cu_seqlens_k", "block_table"};
constexpr std::array<std::string_view, 1> kIndexOutputs{"indices"};

vkattn_tensor add_rows(ProblemBuilder &builder, vkattn_role role, const std::string &name,
                       const std::optional<vkattn_type> &storage) {
    const HostTensor *tensor = &builder.required_float(name, 4, 4);
    const vkattn_type type = storage.value_or(type_of(tensor->dtype));
    if (type != type_of(tensor->dtype))
        tensor = &builder.keep(tensor_of(dtype_of(type), tensor->shape, values_of(*tensor)));
    return builder.add(role, builder.contiguous(name, type, tensor->shape), *tensor);
}

vkattn_tensor add_weights(ProblemBuilder &builder) {
    const HostTensor *weights = builder.input().find("weights");
    if (weights == nullptr) return {};
    builder.check_float("weights", *weights, 3, 3);
    if (weights->dtype != Dtype::kF32)
        weights = &builder.keep(tensor_of(Dtype::kF32, weights->shape, values_of(*weights)));
    return builder.add(VKATTN_ROLE_WEIGHT, builder.contiguous("weights", VKATTN_TYPE_F32, weights->shape), *weights);
}

void fill_config(const CaseFile &input, vkattn_index_desc &desc) {
    const IndexConfig &index = input.index;
    if (input.attention.scale) desc.scale = *input.attention.scale;
    desc.mask_flags = input.mask.flags;
    desc.causal_alignment = input.causal_alignment();
    desc.window_left = input.mask.window_left;
    desc.window_right = input.mask.window_right;
    desc.key_block_len = input.attention.key_block_len;
    desc.activation = index.activation;
    desc.head_reduce = index.head_reduce;
    desc.block_reduce = index.block_reduce;
    desc.forced_first = index.forced_first;
    desc.forced_last = index.forced_last;
}

} // namespace

Problem make_index_problem(const CaseFile &input, std::span<const std::string> wanted) {
    ProblemBuilder builder(input, wanted);
    builder.check_inputs(kIndexInputs);
    builder.check_wanted(kIndexOutputs);
    vkattn_index_desc desc{};
    fill_config(input, desc);
    desc.query = add_rows(builder, VKATTN_ROLE_QUERY, "q", std::nullopt);
    desc.key = add_rows(builder, VKATTN_ROLE_KEY, "k", input.attention.k_dtype);
    desc.weights = add_weights(builder);
    desc.key_lengths = builder.add_integers(VKATTN_ROLE_KEY_LENGTHS, "nonpad_kv_seqlen");
    desc.cu_seqlens_q = builder.add_integers(VKATTN_ROLE_CU_SEQLENS_Q, "cu_seqlens_q");
    desc.cu_seqlens_k = builder.add_integers(VKATTN_ROLE_CU_SEQLENS_K, "cu_seqlens_k");
    desc.block_table = builder.add_integers(VKATTN_ROLE_BLOCK_TABLE, "block_table");
    const auto &q = desc.query.shape;
    desc.indices = builder.add_output("indices", VKATTN_ROLE_INDICES, Dtype::kI32, {q[0], 1, q[2], input.index.top_k});
    return builder.finish(desc);
}

} // namespace vkattn::tools
