#include "runtime/ops/embedding.hpp"

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

struct Lookup {
    const vkattn_tensor &tokens, &weight, &output;
};

// In rows first .. first + count - 1 of the weight.
void add_lookup(PlanBuilder &builder, const Lookup &lookup, uint64_t first, uint64_t count) {
    vkattn_tensor part = lookup.weight;
    slice(part, 0, first, count);
    gpu::EmbeddingPush push{};
    push.rows = word(lookup.weight.shape[0]);
    push.first_row = word(first);
    push.part_rows = word(count);
    push.features = word(part.shape[1]);
    push.row_stride = word(part.strides[0]);
    for (uint32_t dim = 0; dim < 2; ++dim) {
        push.token_strides[dim] = word(lookup.tokens.strides[dim]);
        push.output_strides[dim] = word(lookup.output.strides[dim]);
    }
    gpu::EmbeddingConstants constants;
    constants.WEIGHT_FORMAT = format_of(part);
    constants.OUTPUT_FORMAT = format_of(lookup.output);
    constants.OUTPUT_PAIRS = rows_start_even(lookup.output);
    Step &step =
        builder.add_step(is_quantised(part.type) ? shaders::embedding_quantised : shaders::embedding, constants, push);
    set_token_grid(step, lookup.output);
    bind(builder, step, BINDING_EMBEDDING_TOKENS, role_view(lookup.tokens, VKATTN_ROLE_TOKENS));
    bind(builder, step, BINDING_EMBEDDING_WEIGHT, role_view(part, VKATTN_ROLE_WEIGHT));
    bind(builder, step, BINDING_EMBEDDING_OUTPUT, role_view(lookup.output, VKATTN_ROLE_OUTPUT));
}

} // namespace

void plan_embedding(PlanBuilder &builder, const vkattn_embedding_desc &desc) {
    const vkattn_tensor tokens = normalised(desc.tokens, "tokens");
    require(tokens.type == VKATTN_TYPE_I32 && tokens.rank == 2, "tokens: type ", type_name(tokens.type), ", shape ",
            shape_text(tokens), ", expected I32 [B,L]");
    const vkattn_tensor weight = normalised(desc.weight, "weight");
    require_weight(weight, "weight");
    require(weight.rank == 2 && !is_empty(weight) && (weight.shape[1] == 1 || weight.strides[1] == 1), "weight: shape ",
            shape_text(weight), ", last stride ", weight.strides[1],
            ", expected [rows,N], both at least 1, with last stride 1");
    const vkattn_tensor output = checked_output_tokens(desc.output, tokens.shape[0], tokens.shape[1], weight.shape[1]);

    const uint64_t rows = rows_that_fit(builder.context().caps(), weight);
    for (uint64_t first = 0; first < weight.shape[0]; first += rows) {
        if (first > 0) builder.barrier(); // the parts' outputs lie between each other's
        add_lookup(builder, {tokens, weight, output}, first, std::min(rows, weight.shape[0] - first));
    }
}

} // namespace vkattn
