#include "runtime/ops/block_mask.hpp"

#include "runtime/device/grid.hpp"
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
    require(problem.variant->owner == &builder.context(), "variant: of another context, expected the plan's");
    require(present(problem.block_mask), "block_mask: absent, expected a tensor to fill in");
    require_no_overlap(normalised(desc.block_mask, "block_mask"), "block_mask");
    const uint64_t blocks = divide_up(problem.q_len, problem.block_q_len);
    require(problem.block_mask.shape[2] == blocks, "block_mask: ", problem.block_mask.shape[2],
            " blocks of queries, expected ", blocks, ", for ", problem.q_len, " queries");
    return problem;
}

} // namespace

void plan_block_mask(PlanBuilder &builder, const vkattn_attention_desc &desc) {
    const AttentionProblem problem = checked_problem(builder, desc);
    const AttentionSources sources = roles_of(problem);
    for (const AttentionTensor &tensor : kAttentionTensors)
        allow_role(builder, {problem.*tensor.member, sources[tensor.binding]});
    if (is_empty(problem.block_mask)) return;
    Variant &variant = *problem.variant->variant;
    builder.keep(problem.variant->variant);
    if (!variant.serves(shaders::block_mask))
        fail(VKATTN_ERROR_UNSUPPORTED, "variant: has no module ", shaders::block_mask.name);
    const Shader &shader = builder.is_measure() ? shaders::block_mask : variant.shader_of(shaders::block_mask);
    Step &step = builder.add_step(shader, constants_of(problem, BLOCK_MASK_WORKGROUP_SIZE), gpu::AttentionPush{});
    const vkattn_tensor &blocks = problem.block_mask;
    const auto size = [&](uint32_t dim) { return static_cast<uint32_t>(blocks.shape[dim]); };
    step.groups = {size(3), size(2), size(0) * size(1)};
    step.flops =
        kFlopsOfElement * static_cast<double>(blocks.shape[0] * blocks.shape[1]) * problem.q_len * problem.kv_len;
    step.uniforms = builder.keep_uniforms(parameters_of(problem));
    for (const AttentionTensor &tensor : kAttentionTensors)
        if (std::ranges::find(kRead, tensor.binding) != std::end(kRead))
            bind(builder, step, tensor.binding, {problem.*tensor.member, sources[tensor.binding]});
}

} // namespace vkattn
