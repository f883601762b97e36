#include "runtime/ops/operators.hpp"

#include "runtime/device/bindable.hpp"
#include "runtime/device/grid.hpp"
#include "runtime/ops/token_sums.hpp"
#include "runtime/ops/tokens.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/problem/tensor_checks.hpp"
#include "runtime/support/error.hpp"
#include "shaders/interface/embedding_backward.h"
#include "vkattn_shaders/table.hpp"

#include <algorithm>

namespace vkattn {
namespace {

uint32_t word(uint64_t value) { return static_cast<uint32_t>(value); }

VKATTN_OPERATOR(EmbeddingBackward, EMBEDDING_BACKWARD_TENSORS)

EmbeddingBackwardTensors checked(const vkattn_embedding_backward_desc &desc) {
    EmbeddingBackwardTensors tensors = EmbeddingBackwardTensors::of(desc);
    vkattn_tensor &tokens = tensors.tokens.tensor, &weight = tensors.d_weight.tensor;
    tokens = checked_token_ids(tokens);
    weight = normalised(weight, "d_weight");
    require_float(weight, "d_weight");
    require(weight.rank == 2 && !is_empty(weight) && (weight.shape[1] == 1 || weight.strides[1] == 1),
            "d_weight: shape ", shape_text(weight), ", last stride ", weight.strides[1],
            ", expected [rows,N], both at least 1, with last stride 1");
    require_no_overlap(weight, "d_weight");
    checked_accumulate(desc.accumulate, tensors.d_weight, {});
    check_tensors(tensors, {{'B', tokens.shape[0]}, {'L', tokens.shape[1]}, {'N', weight.shape[1]}});
    return tensors;
}

// Some drivers bound the iterations of a shader's loops: all tokens are looked through twice, and may be one and the same.
void require_loops(const DeviceCaps &caps, uint64_t positions) {
    constexpr uint64_t kOfTokens = 4 * EMBEDDING_BACKWARD_TOKENS / 32; // of the tokens that are looked at together
    const uint64_t iterations = positions + (positions / EMBEDDING_BACKWARD_TOKENS + 2) * kOfTokens;
    if (caps.max_loop_iterations != 0 && iterations > caps.max_loop_iterations)
        fail(VKATTN_ERROR_UNSUPPORTED, "tokens: ", positions, " of them, expected fewer ", on_bounded_loops(caps));
}

struct Part {
    uint64_t first, count; // rows of d_weight
};

Step &add_rows(PlanBuilder &builder, EmbeddingBackwardTensors tensors, Part part, bool zeros, bool accumulates) {
    const vkattn_tensor &tokens = tensors.tokens.tensor;
    vkattn_tensor &weight = tensors.d_weight.tensor;
    gpu::EmbeddingBackwardPush push{};
    push.positions = word(tokens.shape[0] * tokens.shape[1]);
    push.len = word(tokens.shape[1]);
    push.first_row = word(part.first);
    push.part_rows = word(part.count);
    push.features = word(weight.shape[1]);
    push.row_stride = word(weight.strides[0]);
    gpu::EmbeddingBackwardConstants constants;
    constants.IN_FOURS =
        weight.shape[1] % 4 == 0 && rows_start_even(weight) && rows_start_even(tensors.d_output.tensor);
    constants.WRITES_ZEROS = zeros;
    constants.ACCUMULATES = accumulates;
    slice(weight, 0, part.first, part.count);
    Step &step = add_step(builder, shaders::embedding_backward, tensors, constants, push,
                          zeros ? binding_set({BINDING_EMBEDDING_BACKWARD_D_WEIGHT}) : kAllBindings);
    const uint64_t rows = zeros ? part.count : push.positions;
    step.groups = {tiles(push.features, EMBEDDING_BACKWARD_FEATURES), tiles(rows, 1), 1};
    const double compared = zeros ? 0 : static_cast<double>(push.positions) * step.groups[0];
    step.flops = static_cast<double>(rows) * (kFlopsOfElement * push.features + compared);
    return step;
}

} // namespace

void plan_embedding_backward(PlanBuilder &builder, const vkattn_embedding_backward_desc &desc) {
    const EmbeddingBackwardTensors tensors = checked(desc);
    const vkattn_tensor &weight = tensors.d_weight.tensor;
    const bool has_tokens = !is_empty(tensors.tokens.tensor), accumulates = desc.accumulate != 0;
    allow_roles(builder, tensors);
    require_loops(builder.context().caps(), tensors.tokens.tensor.shape[0] * tensors.tokens.tensor.shape[1]);
    const uint64_t rows = rows_that_fit(builder.context().caps(), weight);
    const auto add_parts = [&](bool zeros) { // parts of rows that lie between each other's wait for each other
        for (uint64_t first = 0; first < weight.shape[0]; first += rows) {
            builder.barrier();
            add_rows(builder, tensors, {first, std::min(rows, weight.shape[0] - first)}, zeros, accumulates);
        }
    };
    if (!accumulates) add_parts(true);
    if (has_tokens) add_parts(false);
}

} // namespace vkattn
