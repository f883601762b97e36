#include "runtime/ops/causal_conv1d.hpp"

#include "runtime/ops/recurrent_states.hpp"
#include "runtime/ops/tokens.hpp"
#include "runtime/problem/sequences.hpp"
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

struct Convolution {
    View input, weight, bias, output, cu_seqlens;
    RecurrentStates states;
    uint64_t sequences, longest;
    uint32_t taps, activation;
};

void check_sequences(const vkattn_causal_conv1d_desc &desc, Convolution &problem) {
    const vkattn_tensor &input = problem.input.tensor;
    const vkattn_tensor rows = contiguous(input.type, {1, 1, input.shape[1], input.shape[2]});
    const vkattn_tensor bounds = checked_cu_seqlens(desc.cu_seqlens_q, "cu_seqlens_q", rows, "input");
    const bool packed = present(bounds);
    require(!packed || input.shape[0] == 1, "input: shape ", shape_text(input),
            ", expected [1,total,C] with cu_seqlens_q");
    require(packed || desc.max_seqlen_q == 0, "max_seqlen_q: ", desc.max_seqlen_q, " without cu_seqlens_q, expected 0");
    problem.cu_seqlens = role_view(bounds, VKATTN_ROLE_CU_SEQLENS_Q);
    problem.sequences = packed ? sequences_of(bounds) : input.shape[0];
    problem.longest = packed ? longest_sequence(desc.max_seqlen_q, "max_seqlen_q", rows) : input.shape[1];
    const uint64_t shape[] = {problem.taps - 1, input.shape[2]};
    problem.states = checked_states(desc.states, problem.sequences, problem.longest, shape);
}

Convolution check_convolution(const vkattn_causal_conv1d_desc &desc) {
    const vkattn_tensor given = checked_rank(desc.input, "input", 3);
    const vkattn_tensor input = checked_tokens(given, "input", kAnySize, kAnySize, given.shape[2]);
    const vkattn_tensor weight = checked_rank(desc.weight, "weight", 2);
    require_float(weight, "weight");
    require(weight.shape[0] == input.shape[2] && weight.shape[1] >= 2 && weight.shape[1] <= CAUSAL_CONV1D_MOST_TAPS &&
                is_contiguous(weight),
            "weight: shape ", shape_text(weight), ", expected contiguous [", input.shape[2], ",K] with K from 2 to ",
            CAUSAL_CONV1D_MOST_TAPS);
    require(desc.activation == VKATTN_ACTIVATION_NONE || desc.activation == VKATTN_ACTIVATION_SILU,
            "activation: ", static_cast<int>(desc.activation),
            ", expected VKATTN_ACTIVATION_NONE or VKATTN_ACTIVATION_SILU");
    Convolution problem{};
    problem.input = role_view(input, VKATTN_ROLE_INPUT);
    problem.weight = role_view(weight, VKATTN_ROLE_WEIGHT);
    problem.bias = role_view(checked_vector(desc.bias, "bias", input.shape[2]), VKATTN_ROLE_BIAS);
    problem.output = role_view(checked_output_tokens(desc.output, input.shape[0], input.shape[1], input.shape[2]),
                               VKATTN_ROLE_OUTPUT);
    problem.taps = static_cast<uint32_t>(weight.shape[1]);
    problem.activation = static_cast<uint32_t>(desc.activation);
    check_sequences(desc, problem);
    return problem;
}

gpu::CausalConv1dPush push_of(const Convolution &problem) {
    gpu::CausalConv1dPush push{};
    const vkattn_tensor &input = problem.input.tensor;
    push.channels = static_cast<uint32_t>(input.shape[2]);
    push.len = push.total = static_cast<uint32_t>(input.shape[1]);
    push.longest = static_cast<uint32_t>(problem.longest);
    push.sequences = static_cast<uint32_t>(problem.sequences);
    push.states = problem.states.states;
    push.drafts = problem.states.drafts;
    for (uint32_t dim = 0; dim < 2; ++dim) {
        push.input_strides[dim] = static_cast<uint32_t>(input.strides[dim]);
        push.output_strides[dim] = static_cast<uint32_t>(problem.output.tensor.strides[dim]);
    }
    return push;
}

gpu::CausalConv1dConstants constants_of(const Convolution &problem) {
    gpu::CausalConv1dConstants constants;
    constants.INPUT_FORMAT = format_of(problem.input.tensor);
    constants.WEIGHT_FORMAT = format_of(problem.weight.tensor);
    constants.BIAS_FORMAT = format_of(problem.bias.tensor);
    constants.OUTPUT_FORMAT = format_of(problem.output.tensor);
    constants.OUTPUT_PAIRS = rows_start_even(problem.output.tensor);
    constants.TAPS = problem.taps;
    constants.ACTIVATION = problem.activation;
    constants.HAS_CU_SEQLENS = present(problem.cu_seqlens);
    set_states(constants, problem.states);
    return constants;
}

} // namespace

void plan_causal_conv1d(PlanBuilder &builder, const vkattn_causal_conv1d_desc &desc) {
    const Convolution problem = check_convolution(desc);
    const RecurrentStates &states = problem.states;
    const std::pair<uint32_t, const View *> views[] = {{BINDING_CAUSAL_CONV1D_INPUT, &problem.input},
                                                       {BINDING_CAUSAL_CONV1D_WEIGHT, &problem.weight},
                                                       {BINDING_CAUSAL_CONV1D_BIAS, &problem.bias},
                                                       {BINDING_CAUSAL_CONV1D_OUTPUT, &problem.output},
                                                       {BINDING_CAUSAL_CONV1D_INITIAL, &states.initial},
                                                       {BINDING_CAUSAL_CONV1D_FINAL, &states.final},
                                                       {BINDING_CAUSAL_CONV1D_CU_SEQLENS, &problem.cu_seqlens},
                                                       {BINDING_CAUSAL_CONV1D_SLOTS, &states.slots},
                                                       {BINDING_CAUSAL_CONV1D_TOKEN_STATES, &states.tokens},
                                                       {BINDING_CAUSAL_CONV1D_ACCEPTED, &states.accepted}};
    for (const auto &[binding, view] : views) allow_role(builder, *view);
    if (problem.sequences == 0 || (problem.longest == 0 && !present(states.final))) return;
    const uint64_t len = problem.input.tensor.shape[1];
    const bool packed = present(problem.cu_seqlens);
    Step &step = builder.add_step(shaders::causal_conv1d, constants_of(problem), push_of(problem));
    const uint64_t tiles_of_tokens = packed ? len / CAUSAL_CONV1D_TOKENS + problem.sequences
                                            : std::max<uint64_t>(divide_up(len, uint64_t{CAUSAL_CONV1D_TOKENS}), 1);
    step.groups = {tiles(problem.input.tensor.shape[2], 2 * CAUSAL_CONV1D_WORKGROUP_SIZE), tiles(tiles_of_tokens, 1),
                   packed ? 1 : static_cast<uint32_t>(problem.sequences)};
    step.flops = kFlopsOfElement * static_cast<double>(problem.input.tensor.shape[0] * len) *
                 static_cast<double>(problem.input.tensor.shape[2]);
    for (const auto &[binding, view] : views) bind(builder, step, binding, *view);
}

} // namespace vkattn
