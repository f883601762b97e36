#include "runtime/ops/operators.hpp"

#include "runtime/ops/recurrent_states.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/problem/tensor_checks.hpp"
#include "runtime/support/error.hpp"
#include "runtime/support/rounding.hpp"
#include "shaders/interface/causal_conv1d.h"
#include "shaders/interface/linear.h"
#include "vkattn_shaders/table.hpp"

namespace vkattn {
namespace {

static_assert(CAUSAL_CONV1D_TOKENS >= VKATTN_MAX_DRAFT_TOKENS && CAUSAL_CONV1D_TOKENS >= CAUSAL_CONV1D_MOST_TAPS);
static_assert(int{VKATTN_ACTIVATION_SILU} == ACTIVATION_SILU && int{VKATTN_ACTIVATION_NONE} == 0);

struct CausalConv1dTensors : RecurrentTensors {
    CAUSAL_CONV1D_OWN_TENSORS(VKATTN_TENSOR_MEMBER)
    VKATTN_OPERATOR_TABLE(CausalConv1dTensors, CausalConv1d, CAUSAL_CONV1D_TENSORS)
};

struct Convolution {
    CausalConv1dTensors tensors;
    RecurrentSequences sequences;
    uint32_t taps, activation;
};

// [C,K], of the input's channels.
vkattn_tensor checked_weight(const vkattn_tensor &given, uint64_t channels) {
    const vkattn_tensor weight = checked_rank(given, "weight", 2);
    require_float(weight, "weight");
    require(weight.shape[0] == channels && weight.shape[1] >= 2 && weight.shape[1] <= CAUSAL_CONV1D_MOST_TAPS &&
                is_contiguous(weight),
            "weight: shape ", shape_text(weight), ", expected contiguous [", channels, ",K] with K from 2 to ",
            CAUSAL_CONV1D_MOST_TAPS);
    return weight;
}

Convolution check_convolution(const vkattn_causal_conv1d_desc &desc) {
    require(desc.activation == VKATTN_ACTIVATION_NONE || desc.activation == VKATTN_ACTIVATION_SILU,
            "activation: ", static_cast<int>(desc.activation),
            ", expected VKATTN_ACTIVATION_NONE or VKATTN_ACTIVATION_SILU");
    CausalConv1dTensors tensors = CausalConv1dTensors::of(desc);
    const uint64_t channels = check_tensors(tensors)['N'];
    const vkattn_tensor &input = tensors.input.tensor, &weight = tensors.weight.tensor;
    tensors.weight.tensor = checked_weight(weight, channels);
    const bool packed = present(desc.cu_seqlens_q);
    require(!packed || input.shape[0] == 1, "input: shape ", shape_text(input),
            ", expected [1,total,C] with cu_seqlens_q");
    const vkattn_tensor rows = contiguous(input.type, {input.shape[0], 1, input.shape[1], channels});
    const uint64_t shape[] = {weight.shape[1] - 1, channels};
    const RecurrentSequences sequences = check_recurrent(tensors, rows, "input", desc.max_seqlen_q, desc.states, shape);
    return {tensors, sequences, static_cast<uint32_t>(weight.shape[1]), static_cast<uint32_t>(desc.activation)};
}

gpu::CausalConv1dPush push_of(const Convolution &problem) {
    gpu::CausalConv1dPush push{};
    const vkattn_tensor &input = problem.tensors.input.tensor;
    push.channels = static_cast<uint32_t>(input.shape[2]);
    push.len = push.total = static_cast<uint32_t>(input.shape[1]);
    push.longest = static_cast<uint32_t>(problem.sequences.longest);
    push.sequences = problem.sequences.sequences;
    push.states = problem.sequences.states;
    push.drafts = problem.sequences.drafts;
    return push;
}

} // namespace

void plan_causal_conv1d(PlanBuilder &builder, const vkattn_causal_conv1d_desc &desc) {
    const Convolution problem = check_convolution(desc);
    const auto &[sequences, longest, packed, states, drafts, keeps_tokens] = problem.sequences;
    allow_roles(builder, problem.tensors);
    if (sequences == 0 || (longest == 0 && !present(problem.tensors.final_state))) return;
    gpu::CausalConv1dConstants constants;
    constants.TAPS = problem.taps;
    constants.ACTIVATION = problem.activation;
    constants.KEEPS_TOKEN_STATES = keeps_tokens;
    Step &step = add_step(builder, shaders::causal_conv1d, problem.tensors, constants, push_of(problem));
    const vkattn_tensor &input = problem.tensors.input.tensor;
    const uint64_t len = input.shape[1];
    const uint64_t tiles_of_tokens = packed ? len / CAUSAL_CONV1D_TOKENS + sequences
                                            : std::max<uint64_t>(divide_up(len, uint64_t{CAUSAL_CONV1D_TOKENS}), 1);
    step.groups = {tiles(input.shape[2], 2 * CAUSAL_CONV1D_WORKGROUP_SIZE), tiles(tiles_of_tokens, 1),
                   packed ? 1 : sequences};
    step.flops = kFlopsOfElement * static_cast<double>(input.shape[0] * len) * static_cast<double>(input.shape[2]);
}

} // namespace vkattn
