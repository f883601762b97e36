#include "runtime/ops/token_sums.hpp"

#include "runtime/device/grid.hpp"
#include "runtime/problem/tiles.hpp"
#include "runtime/support/error.hpp"
#include "runtime/support/rounding.hpp"
#include "vkattn_shaders/table.hpp"

#include <algorithm>
#include <cmath>

namespace vkattn {
namespace {

constexpr uint64_t kFewestTokens = 16, kTokens = 8; // of a part, and of an invocation's loads at a time

// So many tokens that there are about as many parts as each has tokens.
uint64_t tokens_of_part(uint64_t tokens) {
    const auto root = static_cast<uint64_t>(std::ceil(std::sqrt(static_cast<double>(tokens))));
    return std::max(kFewestTokens, round_up(root, kTokens));
}

// Tokens in parts of so many, each a row of sums [P,N].
void add_parts(PlanBuilder &builder, const TokenSumsTensors &tensors, uint64_t part, bool accumulates) {
    const vkattn_tensor &sums = tensors.sums.tensor, &d_output = tensors.d_output.tensor;
    const uint64_t features = sums.shape[1];
    gpu::TokenSumsConstants constants;
    constants.ACCUMULATES = accumulates ? 1 : 0;
    constants.IN_FOURS = features % 4 == 0;
    for (const View *view : {&tensors.d_output, &tensors.input})
        if (present(*view) && !rows_start_even(view->tensor)) constants.IN_FOURS = 0;
    gpu::TokenSumsPush push{};
    push.tokens = static_cast<uint32_t>(d_output.shape[0] * d_output.shape[1]);
    push.positions = static_cast<uint32_t>(d_output.shape[1]);
    push.tokens_of_part = static_cast<uint32_t>(part);
    push.features = static_cast<uint32_t>(features);
    Step &step = add_step(builder, shaders::token_sums, tensors, constants, push);
    step.groups = {tiles(features, 4 * TOKEN_SUMS_WORKGROUP_SIZE), tiles(sums.shape[0], 1), 1};
    step.flops = kFlopsOfElement * static_cast<double>(push.tokens) * static_cast<double>(features);
}

// [N] seen as one row.
View as_row(const View &vector) {
    View row = vector;
    const uint64_t features = vector.tensor.shape[0], offset = vector.tensor.offset;
    row.tensor = contiguous(vector.tensor.type, {1, features});
    row.tensor.offset = offset;
    return row;
}

} // namespace

void add_token_sums(PlanBuilder &builder, const TokenSumsTensors &tensors, bool accumulates) {
    const vkattn_tensor &d_output = tensors.d_output.tensor;
    const uint64_t tokens = d_output.shape[0] * d_output.shape[1], part = tokens_of_part(tokens);
    const View sums = as_row(tensors.sums);
    if (tokens == 0) {
        if (!accumulates) add_zeros(builder, sums);
        return;
    }
    TokenSumsTensors first = tensors;
    first.sums = sums;
    if (tokens <= part) return add_parts(builder, first, part, accumulates);
    const uint64_t parts = divide_up(tokens, part), features = sums.tensor.shape[1];
    first.sums.tensor = contiguous(VKATTN_TYPE_F32, {parts, features});
    first.sums.source = builder.reserve_workspace(extent_bytes(first.sums.tensor));
    add_parts(builder, first, part, false);
    builder.barrier();
    View summed = first.sums;
    summed.tensor = contiguous(VKATTN_TYPE_F32, {1, parts, features});
    add_parts(builder, {.d_output = summed, .sums = sums}, parts, accumulates);
}

void add_zeros(PlanBuilder &builder, const View &rows) { add_parts(builder, {.sums = rows}, 1, false); }

bool checked_accumulate(uint32_t accumulate, const View &d_weight, const View &d_bias) {
    require(accumulate <= 1, "accumulate: ", accumulate, ", expected 0 or 1");
    const auto check = [&](const View &gradient, const char *name) {
        require(accumulate == 0 || !present(gradient) || gradient.tensor.type == VKATTN_TYPE_F32, name, ": type ",
                type_name(gradient.tensor.type), ", expected F32 with accumulate");
    };
    check(d_weight, "d_weight");
    check(d_bias, "d_bias");
    return accumulate != 0;
}

} // namespace vkattn
