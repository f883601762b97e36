#include "runtime/ops/operators.hpp"

#include "runtime/device/bindable.hpp"
#include "runtime/ops/tokens.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/problem/tensor_checks.hpp"
#include "runtime/support/error.hpp"
#include "shaders/interface/embedding.h"
#include "vkattn_shaders/table.hpp"

#include <algorithm>

namespace vkattn {
namespace {

uint32_t word(uint64_t value) { return static_cast<uint32_t>(value); }

VKATTN_OPERATOR(Embedding, EMBEDDING_TENSORS)

// In rows first .. first + count - 1 of the weight.
void add_lookup(PlanBuilder &builder, EmbeddingTensors tensors, uint64_t first, uint64_t count) {
    vkattn_tensor &part = tensors.weight.tensor;
    gpu::EmbeddingPush push{};
    push.rows = word(part.shape[0]);
    push.first_row = word(first);
    push.part_rows = word(count);
    push.features = word(part.shape[1]);
    push.row_stride = word(part.strides[0]);
    slice(part, 0, first, count);
    const Shader &shader = is_quantised(part.type) ? shaders::embedding_quantised : shaders::embedding;
    Step &step = add_step(builder, shader, tensors, {}, push);
    set_token_grid(step, tensors.output.tensor);
}

} // namespace

void plan_embedding(PlanBuilder &builder, const vkattn_embedding_desc &desc) {
    EmbeddingTensors tensors = EmbeddingTensors::of(desc);
    vkattn_tensor &tokens = tensors.tokens.tensor, &weight = tensors.weight.tensor;
    tokens = checked_token_ids(tokens);
    weight = normalised(weight, "weight");
    require_weight(weight, "weight");
    require(weight.rank == 2 && !is_empty(weight) && (weight.shape[1] == 1 || weight.strides[1] == 1), "weight: shape ",
            shape_text(weight), ", last stride ", weight.strides[1],
            ", expected [rows,N], both at least 1, with last stride 1");
    check_tensors(tensors, {{'B', tokens.shape[0]}, {'L', tokens.shape[1]}, {'N', weight.shape[1]}});

    const uint64_t rows = rows_that_fit(builder.context().caps(), weight);
    for (uint64_t first = 0; first < weight.shape[0]; first += rows) {
        if (first > 0) builder.barrier(); // the parts' outputs lie between each other's
        add_lookup(builder, tensors, first, std::min(rows, weight.shape[0] - first));
    }
}

} // namespace vkattn
