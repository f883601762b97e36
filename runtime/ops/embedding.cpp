#include "runtime/ops/embedding.hpp"

#include "runtime/ops/tokens.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/problem/tensor_checks.hpp"
#include "runtime/support/error.hpp"
#include "shaders/interface/embedding.h"
#include "vkattn_shaders/table.hpp"

namespace vkattn {
namespace {

uint32_t word(uint64_t value) { return static_cast<uint32_t>(value); }

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

    gpu::EmbeddingPush push{};
    push.rows = word(weight.shape[0]);
    push.features = word(weight.shape[1]);
    push.row_stride = word(weight.strides[0]);
    for (uint32_t dim = 0; dim < 2; ++dim) {
        push.token_strides[dim] = word(tokens.strides[dim]);
        push.output_strides[dim] = word(output.strides[dim]);
    }
    gpu::EmbeddingConstants constants;
    constants.WEIGHT_FORMAT = format_of(weight);
    constants.OUTPUT_FORMAT = format_of(output);
    constants.OUTPUT_PAIRS = rows_start_even(output);
    Step &step = builder.add_step(is_quantised(weight.type) ? shaders::embedding_quantised : shaders::embedding,
                                  constants, push);
    set_token_grid(step, output);
    bind(builder, step, BINDING_EMBEDDING_TOKENS, role_view(tokens, VKATTN_ROLE_TOKENS));
    bind(builder, step, BINDING_EMBEDDING_WEIGHT, role_view(weight, VKATTN_ROLE_WEIGHT));
    bind(builder, step, BINDING_EMBEDDING_OUTPUT, role_view(output, VKATTN_ROLE_OUTPUT));
}

} // namespace vkattn
