#include "runtime/ops/argmax.hpp"

#include "runtime/ops/tokens.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/problem/tensor_checks.hpp"
#include "runtime/support/error.hpp"
#include "shaders/interface/argmax.h"
#include "vkattn_shaders/table.hpp"

namespace vkattn {
namespace {

struct Argmax {
    View input, tokens, values; // values may be absent
    View parts;                 // absent where a row is one part
};

gpu::ArgmaxPush push_of(const Argmax &argmax, uint32_t parts) {
    const auto strides = [](const View &view, uint32_t(&to)[2]) {
        for (uint32_t dim = 0; dim < 2; ++dim) to[dim] = static_cast<uint32_t>(view.tensor.strides[dim]);
    };
    gpu::ArgmaxPush push{};
    push.features = static_cast<uint32_t>(argmax.input.tensor.shape[2]);
    push.parts = parts;
    push.rows = static_cast<uint32_t>(argmax.input.tensor.shape[1]);
    strides(argmax.input, push.input_strides);
    strides(argmax.tokens, push.token_strides);
    if (present(argmax.values)) strides(argmax.values, push.value_strides);
    return push;
}

// One dispatch: reads elements or parts of each row, writes parts or tokens.
void add_step(PlanBuilder &builder, const Argmax &argmax, uint32_t parts, bool reads_parts, bool writes_parts) {
    const vkattn_tensor &input = argmax.input.tensor;
    gpu::ArgmaxConstants constants;
    constants.INPUT_FORMAT = format_of(input);
    constants.READS_PARTS = reads_parts;
    constants.WRITES_PARTS = writes_parts;
    constants.HAS_VALUES = present(argmax.values) && !writes_parts;
    Step &step = builder.add_step(shaders::argmax, constants, push_of(argmax, parts));
    step.groups = {writes_parts ? parts : 1, tiles(input.shape[1], 1), tiles(input.shape[0], 1)};
    const double elements = reads_parts ? parts : static_cast<double>(input.shape[2]);
    step.flops = kFlopsOfElement * elements * static_cast<double>(input.shape[0] * input.shape[1]);
    if (!reads_parts || constants.HAS_VALUES != 0) bind(builder, step, BINDING_ARGMAX_INPUT, argmax.input);
    if (reads_parts || writes_parts) bind(builder, step, BINDING_ARGMAX_PARTS, argmax.parts);
    if (writes_parts) return;
    bind(builder, step, BINDING_ARGMAX_TOKENS, argmax.tokens);
    bind(builder, step, BINDING_ARGMAX_VALUES, argmax.values);
}

} // namespace

void plan_argmax(PlanBuilder &builder, const vkattn_argmax_desc &desc) {
    const vkattn_tensor given = normalised(desc.input, "input");
    require(present(given) && given.rank == 3 && given.shape[2] >= 1, "input: shape ", shape_text(given),
            ", expected [B,L,N] with N at least 1");
    const vkattn_tensor input = checked_tokens(given, "input", kAnySize, kAnySize, given.shape[2]);
    const auto checked_result = [&](const vkattn_tensor &result, const char *name, vkattn_type type) {
        const vkattn_tensor tensor = checked_optional(result, name, contiguous(type, {input.shape[0], input.shape[1]}));
        if (present(tensor)) require_no_overlap(tensor, name);
        return tensor;
    };
    const vkattn_tensor tokens = checked_result(desc.tokens, "tokens", VKATTN_TYPE_I32);
    require(present(tokens), "tokens: absent, expected I32 [", input.shape[0], ",", input.shape[1], "]");
    Argmax argmax{role_view(input, VKATTN_ROLE_INPUT),
                  role_view(tokens, VKATTN_ROLE_TOKENS),
                  role_view(checked_result(desc.values, "values", VKATTN_TYPE_F32), VKATTN_ROLE_OUTPUT),
                  {}};
    const uint32_t parts = tiles(input.shape[2], ARGMAX_PART_ELEMENTS);
    if (parts == 1) return add_step(builder, argmax, 1, false, false);
    argmax.parts.tensor = contiguous(VKATTN_TYPE_I32, {input.shape[0], input.shape[1], parts, 2});
    argmax.parts.source = builder.reserve_workspace(extent_bytes(argmax.parts.tensor));
    add_step(builder, argmax, parts, false, true);
    builder.barrier();
    add_step(builder, argmax, parts, true, false);
}

} // namespace vkattn
