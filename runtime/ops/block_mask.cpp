#include "runtime/ops/operators.hpp"

#include "runtime/device/grid.hpp"
#include "runtime/emit/attention.hpp"
#include "runtime/kernels/parameters.hpp"
#include "runtime/ops/attention.hpp"
#include "runtime/problem/attention_tensors.hpp"
#include "runtime/problem/tensor_checks.hpp"
#include "runtime/support/error.hpp"
#include "runtime/support/rounding.hpp"
#include "runtime/vulkan/variant.hpp"
#include "vkattn_shaders/table.hpp"

namespace vkattn {
namespace {

constexpr uint32_t kRead[] = {BINDING_KEY_LENGTHS,  BINDING_PAST_LENGTHS, BINDING_CU_SEQLENS_Q,
                              BINDING_CU_SEQLENS_K, BINDING_CAPTURED_0,   BINDING_CAPTURED_1,
                              BINDING_CAPTURED_2,   BINDING_CAPTURED_3,   BINDING_BLOCK_MASK};

AttentionProblem checked_problem(const PlanBuilder &builder, const vkattn_attention_desc &desc) {
    const AttentionProblem problem = check_attention(desc);
    require(problem.variant != nullptr && problem.variant->variant->defines(VKATTN_VARIANT_MASK_MOD),
            "variant: ", problem.variant == nullptr ? "absent" : "defines no mask_mod", ", expected one with mask_mod");
    require_own(builder, problem.variant);
    require(present(problem.block_mask), "block_mask: absent, expected a tensor to fill in");
    require_no_overlap(normalised(desc.block_mask, "block_mask"), "block_mask");
    const uint64_t blocks = divide_up(problem.q_len, problem.block_q_len);
    require(problem.block_mask.shape[2] == blocks, "block_mask: ", problem.block_mask.shape[2],
            " blocks of queries, expected ", blocks, ", for ", problem.q_len, " queries");
    return problem;
}

// Pairs of a query and a key that a workgroup takes, so that no dispatch is long.
constexpr uint64_t kMostPairs = 1 << 21;
constexpr uint64_t kMostDispatches = 1 << 16;

// Sequences that an entry of block_mask stands for, as far as they differ in lengths or positions.
uint32_t sequences_of_entry(const AttentionProblem &problem) {
    const bool differ = present(problem.key_lengths) || present(problem.past_lengths) ||
                        present(problem.cu_seqlens_q) || present(problem.cu_seqlens_k);
    return problem.block_mask.shape[0] == 1 && differ ? problem.batch : 1;
}

// Queries of a block that a dispatch takes. Each workgroup looks at all their keys, in each of the sequences.
uint32_t queries_of_dispatch(const gpu::AttentionConstants &constants, uint32_t sequences, const DeviceCaps &caps) {
    const uint64_t keys = constants.BLOCK_KV_LEN, most = caps.max_loop_iterations;
    uint64_t pairs = kMostPairs / sequences;
    if (most != 0)
        pairs =
            std::min(pairs, (most / sequences - std::min<uint64_t>(most / sequences, 1)) * constants.WORKGROUP_SIZE);
    if (most != 0 && pairs < keys)
        fail(VKATTN_ERROR_UNSUPPORTED, "block_mask ", on_bounded_loops(caps), ": blocks of ", keys, " keys in ",
             sequences, " sequences, expected at most ", pairs, " keys");
    const uint64_t queries = std::clamp<uint64_t>(pairs / keys, 1, constants.BLOCK_Q_LEN);
    if (divide_up(constants.BLOCK_Q_LEN, queries) > kMostDispatches)
        fail(VKATTN_ERROR_UNSUPPORTED, "block_mask: blocks of ", constants.BLOCK_Q_LEN, " x ", keys, " in ", sequences,
             " sequences, expected at most ", kMostDispatches * queries, " queries");
    return static_cast<uint32_t>(queries);
}

// Blocks larger than the problem are as large as it.
gpu::AttentionConstants block_mask_constants(const AttentionProblem &problem, uint32_t sequences,
                                             const DeviceCaps &caps) {
    gpu::AttentionConstants constants = constants_of(problem, BLOCK_MASK_WORKGROUP_SIZE);
    constants.BLOCK_Q_LEN = std::min(constants.BLOCK_Q_LEN, problem.q_len);
    constants.BLOCK_KV_LEN = std::clamp(problem.kv_len, 1u, constants.BLOCK_KV_LEN);
    constants.ROWS = queries_of_dispatch(constants, sequences, caps);
    return constants;
}

} // namespace

void plan_block_mask(PlanBuilder &builder, const vkattn_attention_desc &desc) {
    const AttentionProblem problem = checked_problem(builder, desc);
    const AttentionSources sources = roles_of(problem);
    for (const AttentionTensor &tensor : kAttentionTensors)
        allow_role(builder, {problem.*tensor.member, sources[tensor.binding]});
    if (is_empty(problem.block_mask)) return;
    if (!problem.variant->variant->serves(shaders::block_mask))
        fail(VKATTN_ERROR_UNSUPPORTED, "variant: has no module ", shaders::block_mask.name);
    const Shader &shader = shader_of(builder, problem.variant, shaders::block_mask);
    const uint32_t sequences = sequences_of_entry(problem);
    const gpu::AttentionConstants constants = block_mask_constants(problem, sequences, builder.context().caps());
    gpu::AttentionParameters parameters = parameters_of(problem);
    parameters.sequences = sequences;
    const UniformSlot uniforms = builder.keep_uniforms(parameters);
    const vkattn_tensor &blocks = problem.block_mask;
    const auto size = [&](uint32_t dim) { return static_cast<uint32_t>(blocks.shape[dim]); };
    gpu::AttentionPush push{};
    for (; push.first_row < constants.BLOCK_Q_LEN; push.first_row += constants.ROWS) {
        if (push.first_row > 0) builder.barrier();
        Step &step = builder.add_step(shader, constants, push);
        step.groups = {size(3), size(2), size(0) * size(1)};
        step.flops = kFlopsOfElement * static_cast<double>(blocks.shape[0] * blocks.shape[1] * sequences) *
                     problem.kv_len * problem.q_len * constants.ROWS / constants.BLOCK_Q_LEN;
        step.uniforms = uniforms;
        for (const AttentionTensor &tensor : kAttentionTensors)
            if (std::ranges::find(kRead, tensor.binding) != std::end(kRead))
                bind(builder, step, tensor.binding, {problem.*tensor.member, sources[tensor.binding]});
    }
}

} // namespace vkattn
