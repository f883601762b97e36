#include "shaders/interface/argmax.h"
#include "shaders/interface/causal_conv1d.h"
#include "shaders/interface/embedding.h"
#include "shaders/interface/linear.h"
#include "shaders/interface/linear_attention.h"
#include "shaders/interface/mask_indices.h"
#include "shaders/interface/merge.h"
#include "shaders/interface/norm.h"
#include "shaders/interface/rows.h"
// Any description of linear, norm, embedding, argmax, kv_append, merge and the operators with states: whatever plan comes of it reaches nothing outside what
// it binds, by a calculation of its own from the push constants and the grid.
#include "runtime/ops/linear.hpp"
#include "runtime/ops/norm.hpp"
#include "runtime/ops/operators.hpp"
#include "tests/fuzz/plan_limits.hpp"
#include "tests/fuzz/some_tensor.hpp"

#include <algorithm>
#include <cstring>

namespace {

using namespace vkattn;

template <class Push>
Push push_of(const Step &step) {
    Push push;
    std::memcpy(&push, step.push.data(), sizeof push);
    return push;
}

struct Dimension {
    std::uint64_t size, stride;
};

// The last element of the dimensions lies in what is bound.
void expect_inside(const Step &step, std::uint32_t binding, vkattn_type type,
                   std::initializer_list<Dimension> dimensions) {
    if (step.bound[binding].bytes == 0) return;
    const StorageBlock block = storage_block(type);
    const std::uint64_t elements = step.bound[binding].bytes / block.bytes * block.elements;
    std::uint64_t last = 0; // of factors of 32 bits: cannot wrap in so few
    for (const Dimension &dimension : dimensions) {
        expect(dimension.size >= 1, "no dimension is empty");
        const std::uint64_t reach = (dimension.size - 1) * dimension.stride;
        expect(reach < elements, "a dimension ends in what is bound");
        last += reach;
    }
    expect(last < elements, "what is reached is bound");
}

// A stride that 32 bits hold, wherever it is used.
void expect_strides(const vkattn_tensor &tensor, std::initializer_list<std::uint32_t> pushed) {
    std::uint32_t dim = 0;
    for (const std::uint32_t stride : pushed) {
        expect(tensor.shape[dim] == 1 || tensor.strides[dim] == stride, "strides arrive as they were given");
        ++dim;
    }
}

// Whether a plan has no step, which it may only where there is nothing to write.
bool writes_nothing(const Plan &plan, bool may) {
    expect(may || !plan.steps().empty(), "what there is to write is written");
    return plan.steps().empty();
}

std::unique_ptr<const Plan> linear(FuzzedDataProvider &data, PlanBuilder &builder) {
    const std::uint64_t batch = some_size(data), len = some_size(data), in = some_size(data), out = some_size(data);
    const auto tokens = [&](std::uint64_t width) {
        return some_tensor(data, data.PickValueInArray(kSomeFloats), {batch, len, width});
    };
    vkattn_linear_desc desc{};
    desc.input = tokens(in);
    desc.weight = some_tensor(data, data.PickValueInArray(kSomeFloats), {out, in});
    desc.output = tokens(out);
    if (data.ConsumeBool()) desc.bias = some_tensor(data, data.PickValueInArray(kSomeFloats), {out});
    if (data.ConsumeBool()) desc.multiplier = tokens(out);
    if (data.ConsumeBool()) desc.residual = tokens(out);
    desc.activation = static_cast<vkattn_activation>(data.ConsumeIntegralInRange(0, 5));
    if (data.ConsumeBool()) { // gated
        desc.weight = some_tensor(data, desc.weight.type, {2, out, in});
        if (present(desc.bias)) desc.bias = some_tensor(data, desc.bias.type, {2, out});
    }
    plan_linear(builder, desc);
    std::unique_ptr<const Plan> plan = builder.build();
    if (writes_nothing(*plan, is_empty(desc.output))) return plan;
    const LinearOperands operands = check_linear(desc);
    const vkattn_tensor &x = operands.input.tensor, &w = operands.weight.tensor;
    const std::uint64_t matrices = w.rank - 1, all = matrices * out; // of a gated product two
    const bool both =
        matrices == 2 && plan->steps().size() == 1; // at once; else what is gated first, into the workspace
    const std::uint64_t together = both ? 2 : 1;    // matrices of a step
    std::uint64_t computed = 0;
    for (const Step &step : plan->steps()) { // a part of the outputs each, where the weights are more than can be bound
        const auto push = push_of<gpu::LinearPush>(step);
        const std::uint64_t outputs = both ? push.out_features / 2 : push.out_features;
        const bool last = both || computed >= all - out; // rather than what is gated
        expect(push.rows == x.shape[0] * x.shape[1] && push.positions == x.shape[1], "every row is computed");
        expect(push.in_features == w.shape[w.rank - 1], "all features are read");
        expect_strides(x, {push.input_strides[0], push.input_strides[1]});
        if (both) expect_strides(w, {push.weight_strides[2], push.weight_strides[0], push.weight_strides[1]});
        if (matrices == 1 && outputs > 1) // a part of one row steps to no other
            expect_strides(w, {push.weight_strides[0], push.weight_strides[1]});
        if (last) expect_strides(operands.output.tensor, {push.output_strides[0], push.output_strides[1]});
        const std::uint64_t batches = push.rows / push.positions;
        const auto expect_tokens = [&](std::uint32_t binding, vkattn_type type, const std::uint32_t *strides,
                                       std::uint64_t width) {
            expect_inside(step, binding, type, {{batches, strides[0]}, {push.positions, strides[1]}, {width, 1}});
        };
        const vkattn_type hidden = VKATTN_TYPE_F32, given = desc.multiplier.type;
        expect_tokens(BINDING_LINEAR_INPUT, x.type, push.input_strides, push.in_features);
        expect_tokens(BINDING_LINEAR_OUTPUT, last ? desc.output.type : hidden, push.output_strides, outputs);
        expect_tokens(BINDING_LINEAR_MULTIPLIER, present(desc.multiplier) ? given : hidden, push.multiplier_strides,
                      outputs);
        if (present(desc.residual))
            expect_tokens(BINDING_LINEAR_RESIDUAL, desc.residual.type, push.residual_strides, outputs);
        expect_inside(step, BINDING_LINEAR_WEIGHT, w.type,
                      {{together, push.weight_strides[2]},
                       {outputs, push.weight_strides[0]},
                       {push.in_features, push.weight_strides[1]}});
        if (present(desc.bias))
            expect_inside(step, BINDING_LINEAR_BIAS, desc.bias.type, {{together, push.bias_stride}, {outputs, 1}});
        computed += push.out_features;
    }
    expect(computed == all, "all features are computed, once");
    return plan;
}

std::unique_ptr<const Plan> norm(FuzzedDataProvider &data, PlanBuilder &builder) {
    const std::uint64_t batch = some_size(data), len = some_size(data), features = some_size(data);
    vkattn_norm_desc desc{};
    desc.input = some_tensor(data, data.PickValueInArray(kSomeFloats), {batch, len, features});
    desc.output = some_tensor(data, data.PickValueInArray(kSomeFloats), {batch, len, features});
    desc.weight = some_tensor(data, data.PickValueInArray(kSomeFloats), {features});
    if (data.ConsumeBool()) desc.bias = some_tensor(data, data.PickValueInArray(kSomeFloats), {features});
    desc.kind = static_cast<vkattn_norm_kind>(data.ConsumeIntegralInRange(0, 2));
    desc.epsilon = data.ConsumeFloatingPoint<float>();
    if (data.ConsumeBool())
        desc.residual = some_tensor(data, data.PickValueInArray(kSomeFloats), {batch, len, features});
    plan_norm(builder, desc);
    std::unique_ptr<const Plan> plan = builder.build();
    if (writes_nothing(*plan, is_empty(desc.output))) return plan;
    const Step &step = plan->steps().front();
    const auto push = push_of<gpu::NormPush>(step);
    const std::uint64_t rows = step.groups[0], batches = step.groups[1];
    expect_inside(step, BINDING_NORM_INPUT, desc.input.type,
                  {{batches, push.input_strides[0]}, {rows, push.input_strides[1]}, {push.features, 1}});
    expect_inside(step, BINDING_NORM_OUTPUT, desc.output.type,
                  {{batches, push.output_strides[0]}, {rows, push.output_strides[1]}, {push.features, 1}});
    expect_inside(step, BINDING_NORM_WEIGHT, desc.weight.type, {{push.features, 1}});
    if (present(desc.bias)) expect_inside(step, BINDING_NORM_BIAS, desc.bias.type, {{push.features, 1}});
    expect_strides(normalised(desc.input, "input"), {push.input_strides[0], push.input_strides[1]});
    expect_strides(normalised(desc.output, "output"), {push.output_strides[0], push.output_strides[1]});
    if (!present(desc.residual)) return plan;
    expect_inside(step, BINDING_NORM_RESIDUAL, desc.residual.type,
                  {{batches, push.residual_strides[0]}, {rows, push.residual_strides[1]}, {push.features, 1}});
    expect_strides(normalised(desc.residual, "residual"), {push.residual_strides[0], push.residual_strides[1]});
    return plan;
}

std::unique_ptr<const Plan> embedding(FuzzedDataProvider &data, PlanBuilder &builder) {
    const std::uint64_t batch = some_size(data), len = some_size(data), rows = some_size(data), width = some_size(data);
    vkattn_embedding_desc desc{};
    desc.tokens = some_tensor(data, VKATTN_TYPE_I32, {batch, len});
    desc.weight = some_tensor(data, data.PickValueInArray(kSomeFloats), {rows, width});
    desc.output = some_tensor(data, data.PickValueInArray(kSomeFloats), {batch, len, width});
    plan_embedding(builder, desc);
    std::unique_ptr<const Plan> plan = builder.build();
    if (writes_nothing(*plan, is_empty(desc.output))) return plan;
    std::uint64_t found = 0;
    for (const Step &step : plan->steps()) { // a part of the rows each, where they are more than can be bound
        const auto push = push_of<gpu::EmbeddingPush>(step);
        expect(push.rows == desc.weight.shape[0] && push.first_row == found, "every row can be found, once");
        found += push.part_rows;
        expect_inside(step, BINDING_EMBEDDING_TOKENS, VKATTN_TYPE_I32,
                      {{step.groups[1], push.tokens_strides[0]}, {step.groups[0], push.tokens_strides[1]}});
        expect_inside(step, BINDING_EMBEDDING_WEIGHT, desc.weight.type,
                      {{push.part_rows, push.row_stride}, {push.features, 1}});
        expect_inside(
            step, BINDING_EMBEDDING_OUTPUT, desc.output.type,
            {{step.groups[1], push.output_strides[0]}, {step.groups[0], push.output_strides[1]}, {push.features, 1}});
    }
    expect(found == desc.weight.shape[0], "every row can be found");
    return plan;
}

std::unique_ptr<const Plan> argmax(FuzzedDataProvider &data, PlanBuilder &builder) {
    const std::uint64_t batch = some_size(data), len = some_size(data), width = some_size(data);
    vkattn_argmax_desc desc{};
    desc.input = some_tensor(data, data.PickValueInArray(kSomeFloats), {batch, len, width});
    desc.tokens = some_tensor(data, VKATTN_TYPE_I32, {batch, len});
    if (data.ConsumeBool()) desc.values = some_tensor(data, VKATTN_TYPE_F32, {batch, len});
    plan_argmax(builder, desc);
    std::unique_ptr<const Plan> plan = builder.build();
    if (writes_nothing(*plan, is_empty(desc.tokens))) return plan;
    const Step &reads = plan->steps().front(), &writes = plan->steps().back();
    const auto push = push_of<gpu::ArgmaxPush>(reads);
    const std::uint64_t numbers = desc.input.shape[2]; // no other tensor has as many
    expect(plan->steps().size() == (push.parts > 1 ? 2 : 1), "parts are joined");
    expect(push.rows == reads.groups[1] && push.features == numbers, "every number is looked at");
    expect(std::uint64_t{push.parts} * ARGMAX_PART_ELEMENTS >= numbers, "no number is left out");
    expect_inside(reads, BINDING_ARGMAX_INPUT, desc.input.type,
                  {{reads.groups[2], push.input_strides[0]}, {push.rows, push.input_strides[1]}, {push.features, 1}});
    expect_inside(writes, BINDING_ARGMAX_TOKENS, VKATTN_TYPE_I32,
                  {{writes.groups[2], push.tokens_strides[0]}, {push.rows, push.tokens_strides[1]}});
    if (present(desc.values))
        expect_inside(writes, BINDING_ARGMAX_VALUES, VKATTN_TYPE_F32,
                      {{writes.groups[2], push.values_strides[0]}, {push.rows, push.values_strides[1]}});
    return plan;
}

std::unique_ptr<const Plan> mask_indices(FuzzedDataProvider &data, PlanBuilder &builder) {
    constexpr vkattn_type kMasks[] = {VKATTN_TYPE_BOOL, VKATTN_TYPE_F32, VKATTN_TYPE_F16};
    const std::uint64_t batch = some_size(data), heads = some_size(data), queries = some_size(data);
    vkattn_mask_indices_desc desc{};
    desc.attn_mask = some_tensor(data, data.PickValueInArray(kMasks),
                                 {data.ConsumeBool() ? batch : 1, data.ConsumeBool() ? heads : 1,
                                  data.ConsumeBool() ? queries : 1, some_size(data)});
    desc.key_indices = some_tensor(data, VKATTN_TYPE_I32, {batch, heads, queries, some_size(data)});
    plan_mask_indices(builder, desc);
    std::unique_ptr<const Plan> plan = builder.build();
    if (writes_nothing(*plan, is_empty(desc.key_indices))) return plan;
    const Step &step = plan->steps().front();
    const auto push = push_of<gpu::MaskIndicesPush>(step);
    const auto expect_rows = [&](std::uint32_t binding, vkattn_type type, const gpu::uint(&strides)[3],
                                 std::uint32_t len) {
        expect_inside(
            step, binding, type,
            {{step.groups[2], strides[0]}, {step.groups[1], strides[1]}, {step.groups[0], strides[2]}, {len, 1}});
    };
    expect_rows(BINDING_MASK_INDICES_MASK, desc.attn_mask.type, push.attn_mask_strides, push.mask_len);
    expect_rows(BINDING_MASK_INDICES_KEY_INDICES, VKATTN_TYPE_I32, push.key_indices_strides, push.list_len);
    return plan;
}

vkattn_kv_append_desc some_append(FuzzedDataProvider &data) {
    const std::uint64_t batch = some_size(data), heads = some_size(data), len = some_size(data);
    const std::uint64_t size = data.ConsumeBool() ? 64 : some_size(data), capacity = some_size(data);
    const bool packed = data.ConsumeBool(), paged = data.ConsumeBool();
    vkattn_kv_append_desc desc{};
    desc.source = some_tensor(data, data.PickValueInArray(kSomeFloats), {packed ? 1 : batch, heads, len, size});
    desc.cache = some_tensor(data, some_cached_type(data),
                             {paged ? some_size(data) : batch, heads,
                              paged ? std::uint64_t{1} << data.ConsumeIntegralInRange(0, 12) : capacity, size});
    if (packed) desc.cu_seqlens = some_tensor(data, VKATTN_TYPE_I32, {batch + 1});
    if (paged) desc.block_table = some_tensor(data, VKATTN_TYPE_I32, {batch, some_size(data)});
    if (data.ConsumeBool()) desc.past_lengths = some_tensor(data, VKATTN_TYPE_I32, {batch});
    if (data.ConsumeBool()) desc.max_seqlen = static_cast<std::uint32_t>(some_size(data));
    desc.offset = data.ConsumeBool() ? data.ConsumeIntegral<std::uint32_t>() : 0;
    return desc;
}

std::unique_ptr<const Plan> kv_append(FuzzedDataProvider &data, PlanBuilder &builder) {
    const vkattn_kv_append_desc desc = some_append(data);
    plan_kv_append(builder, desc);
    std::unique_ptr<const Plan> plan = builder.build();
    const bool packed = present(desc.cu_seqlens), paged = present(desc.block_table);
    const bool no_place = is_empty(desc.cache) || (paged && is_empty(desc.block_table));
    const bool no_sequences = packed && desc.cu_seqlens.shape[0] == 1;
    if (writes_nothing(*plan, is_empty(desc.source) || no_place || no_sequences)) return plan;
    const Step &step = plan->steps().front();
    const auto push = push_of<gpu::RowsPush>(step);
    const std::uint64_t sequences = step.groups[2], heads = step.groups[1], size = desc.source.shape[3];
    const std::uint64_t capacity = desc.cache.shape[2] * (paged ? desc.block_table.shape[1] : 1);
    expect(push.capacity == capacity, "the cache is as long as it is");
    if (!present(desc.past_lengths))
        expect(std::uint64_t{push.offset} + push.positions <= capacity, "every row has a place");
    expect(packed ? push.positions <= desc.source.shape[2] : push.positions == desc.source.shape[2],
           "every row is appended");
    const std::uint64_t elements = is_quantised(desc.cache.type) ? QUANTISED_BLOCK : 4; // of an invocation
    const std::uint64_t lanes = std::min<std::uint64_t>((size + elements - 1) / elements, ROWS_WORKGROUP_SIZE);
    expect(step.groups[0] * (ROWS_WORKGROUP_SIZE / lanes) >= push.positions, "every row has invocations");
    expect_inside(step, BINDING_ROWS_SOURCE, desc.source.type,
                  {{packed ? 1 : sequences, push.source_strides[0]},
                   {heads, push.source_strides[1]},
                   {packed ? push.source_total : push.positions, push.source_strides[2]},
                   {size, push.source_strides[3]}});
    expect_inside(step, BINDING_ROWS_TARGET, desc.cache.type,
                  {{paged ? push.pool_pages : sequences, push.target_strides[0]},
                   {heads, push.target_strides[1]},
                   {paged ? desc.cache.shape[2] : capacity, push.target_strides[2]},
                   {size, push.target_strides[3]}});
    expect_inside(step, BINDING_ROWS_PAST_LENGTHS, VKATTN_TYPE_I32, {{sequences, 1}});
    expect_inside(step, BINDING_ROWS_CU_SEQLENS, VKATTN_TYPE_I32, {{sequences + 1, 1}});
    if (paged) expect_inside(step, BINDING_ROWS_BLOCK_TABLE, VKATTN_TYPE_I32, {{sequences * push.table_pages, 1}});
    return plan;
}

std::unique_ptr<const Plan> merge(FuzzedDataProvider &data, PlanBuilder &builder) {
    const std::uint64_t batch = some_size(data), heads = some_size(data), len = some_size(data), size = some_size(data);
    vkattn_merge_desc desc{};
    desc.part_count = data.ConsumeBool() ? data.ConsumeIntegralInRange(0u, 16u) : data.ConsumeIntegral<std::uint32_t>();
    desc.partial_output = some_tensor(data, data.PickValueInArray(kSomeFloats), {batch, heads, len, size});
    desc.partial_log_sum_exp = some_tensor(data, VKATTN_TYPE_F32, {batch, heads, len});
    desc.output = some_tensor(data, data.PickValueInArray(kSomeFloats), {batch, heads, len, size});
    if (data.ConsumeBool()) desc.log_sum_exp = some_tensor(data, VKATTN_TYPE_F32, {batch, heads, len});
    const auto some_stride = [&] {
        return data.ConsumeBool() ? some_size(data) : data.ConsumeIntegral<std::uint64_t>();
    };
    desc.partial_output_stride = some_stride();
    desc.partial_log_sum_exp_stride = some_stride();
    desc.accumulate = data.ConsumeBool();
    plan_merge(builder, desc);
    std::unique_ptr<const Plan> plan = builder.build();
    if (writes_nothing(*plan, is_empty(desc.output))) return plan;
    const Step &step = plan->steps().front();
    const auto push = push_of<gpu::MergePush>(step);
    const std::uint64_t rows = step.groups[0], step_heads = step.groups[1], batches = step.groups[2];
    expect(push.parts == 1 || (push.output_part_stride == desc.partial_output_stride &&
                               push.log_sum_exp_part_stride == desc.partial_log_sum_exp_stride),
           "the parts lie where they were said to");
    expect_inside(step, BINDING_MERGE_PARTIAL_OUTPUT, desc.partial_output.type,
                  {{push.parts, push.output_part_stride},
                   {batches, push.partial_output_strides[0]},
                   {step_heads, push.partial_output_strides[1]},
                   {rows, push.partial_output_strides[2]},
                   {push.dims, push.partial_output_strides[3]}});
    expect_inside(step, BINDING_MERGE_PARTIAL_LOG_SUM_EXP, VKATTN_TYPE_F32,
                  {{push.parts, push.log_sum_exp_part_stride},
                   {batches, push.partial_log_sum_exp_strides[0]},
                   {step_heads, push.partial_log_sum_exp_strides[1]},
                   {rows, push.partial_log_sum_exp_strides[2]}});
    expect_inside(step, BINDING_MERGE_OUTPUT, desc.output.type,
                  {{batches, push.output_strides[0]},
                   {step_heads, push.output_strides[1]},
                   {rows, push.output_strides[2]},
                   {push.dims, push.output_strides[3]}});
    expect_inside(step, BINDING_MERGE_LOG_SUM_EXP, VKATTN_TYPE_F32, {{batches * step_heads * rows, 1}});
    return plan;
}

// shape: of one state.
vkattn_recurrent_states some_states(FuzzedDataProvider &data, std::uint64_t sequences, const vkattn_tensor &shape) {
    vkattn_recurrent_states states{};
    const bool has_slots = data.ConsumeBool();
    const std::uint64_t count = has_slots ? some_size(data) : sequences;
    const auto some_state = [&](std::uint64_t of) {
        vkattn_tensor state = shape;
        std::copy_backward(shape.shape, shape.shape + shape.rank, state.shape + shape.rank + 1);
        state.shape[0] = of;
        ++state.rank;
        std::fill(state.strides, state.strides + 4, 0);
        state.offset = data.ConsumeBool() ? some_size(data) : 0;
        return state;
    };
    if (data.ConsumeBool()) states.initial_state = some_state(count);
    if (data.ConsumeBool()) states.final_state = some_state(count);
    if (has_slots) states.state_slots = some_tensor(data, VKATTN_TYPE_I32, {sequences});
    if (!data.ConsumeBool()) return states;
    states.draft_tokens = data.ConsumeIntegralInRange(0u, 17u);
    states.token_states = some_state(count * states.draft_tokens);
    if (data.ConsumeBool()) states.accepted = some_tensor(data, VKATTN_TYPE_I32, {sequences});
    return states;
}

// Every state that a slot may name lies in what is bound.
void expect_states(const Step &step, const vkattn_recurrent_states &states, std::uint64_t count,
                   std::uint64_t sequences, std::uint64_t elements, std::initializer_list<std::uint32_t> bindings) {
    const std::uint32_t *binding = bindings.begin(); // initial, final, token states, slots, accepted
    for (std::uint32_t i = 0; i < 2; ++i)
        if (count != 0) expect_inside(step, binding[i], VKATTN_TYPE_F32, {{count, elements}, {elements, 1}});
    if (count != 0 && states.draft_tokens != 0)
        expect_inside(step, binding[2], VKATTN_TYPE_F32, {{count * states.draft_tokens, elements}, {elements, 1}});
    for (std::uint32_t i = 3; i < 5; ++i) expect_inside(step, binding[i], VKATTN_TYPE_I32, {{sequences, 1}});
}

std::unique_ptr<const Plan> linear_attention(FuzzedDataProvider &data, PlanBuilder &builder) {
    const std::uint64_t batch = some_size(data), group = data.ConsumeIntegralInRange(1, 4), key_heads = some_size(data),
                        len = some_size(data), size = some_size(data), value_size = some_size(data);
    const bool packed = data.ConsumeBool();
    const std::uint64_t heads = key_heads * group, rows = packed ? 1 : batch;
    const auto some_rows = [&](std::uint64_t of_heads, std::uint64_t width) {
        return some_tensor(data, data.PickValueInArray(kSomeFloats), {rows, of_heads, len, width});
    };
    vkattn_linear_attention_desc desc{};
    desc.query = some_rows(key_heads, size);
    desc.key = some_rows(key_heads, size);
    desc.value = some_rows(heads, value_size);
    desc.output = some_rows(heads, value_size);
    if (data.ConsumeBool()) desc.decay = some_tensor(data, VKATTN_TYPE_F32, {rows, heads, len});
    if (data.ConsumeBool()) desc.decay = some_tensor(data, VKATTN_TYPE_F32, {rows, heads, len, size});
    if (data.ConsumeBool()) desc.beta = some_tensor(data, VKATTN_TYPE_F32, {rows, heads, len});
    if (packed) desc.cu_seqlens_q = some_tensor(data, VKATTN_TYPE_I32, {batch + 1});
    if (packed && data.ConsumeBool()) desc.max_seqlen_q = static_cast<std::uint32_t>(some_size(data));
    desc.states = some_states(data, batch, contiguous(VKATTN_TYPE_F32, {heads, size, value_size}));
    desc.rule = static_cast<vkattn_linear_attention_rule>(data.ConsumeIntegralInRange(0, 2));
    desc.form = static_cast<vkattn_linear_attention_form>(data.ConsumeIntegralInRange(0, 3));
    if (data.ConsumeBool()) desc.scale = data.ConsumeFloatingPoint<float>();
    desc.qk_l2norm = data.ConsumeIntegralInRange(0u, 2u);
    plan_linear_attention(builder, desc);
    std::unique_ptr<const Plan> plan = builder.build();
    const bool nothing = is_empty(desc.value) && (desc.value.shape[2] != 0 || !present(desc.states.final_state));
    const std::uint64_t sequences = present(desc.cu_seqlens_q) ? desc.cu_seqlens_q.shape[0] - 1 : desc.query.shape[0];
    if (writes_nothing(*plan, nothing || sequences == 0)) return plan;
    std::uint64_t next_chunk = 0;
    for (const Step &step : plan->steps()) {
        const auto push = push_of<gpu::LinearAttentionPush>(step);
        expect(push.heads == desc.value.shape[1] && push.group * desc.query.shape[1] == push.heads,
               "heads have groups");
        expect(step.groups[1] == push.heads, "every head is computed");
        if (push.end_chunk == 0) { // token by token
            expect(step.groups[2] == sequences, "every sequence is computed");
        } else if (step.groups[2] == 1 && step.groups[0] == push.end_chunk - push.first_chunk &&
                   step.bound[BINDING_LINEAR_ATTENTION_QUERY].bytes != 0) {
            expect(push.first_chunk == next_chunk, "every chunk is computed, once");
            next_chunk = push.end_chunk;
        }
        const vkattn_recurrent_states &states = desc.states;
        std::uint64_t count = sequences;
        if (present(states.state_slots))
            count = present(states.initial_state) ? states.initial_state.shape[0]
                    : present(states.final_state) ? states.final_state.shape[0]
                    : states.draft_tokens != 0    ? states.token_states.shape[0] / states.draft_tokens
                                                  : 0;
        expect_states(step, states, count, sequences, push.heads * desc.query.shape[3] * desc.value.shape[3],
                      {BINDING_LINEAR_ATTENTION_INITIAL, BINDING_LINEAR_ATTENTION_FINAL,
                       BINDING_LINEAR_ATTENTION_TOKEN_STATES, BINDING_LINEAR_ATTENTION_SLOTS,
                       BINDING_LINEAR_ATTENTION_ACCEPTED});
    }
    return plan;
}

std::unique_ptr<const Plan> causal_conv1d(FuzzedDataProvider &data, PlanBuilder &builder) {
    const std::uint64_t batch = some_size(data), len = some_size(data), channels = some_size(data),
                        taps = data.ConsumeIntegralInRange(1, 5);
    const bool packed = data.ConsumeBool();
    const auto rows = [&] {
        return some_tensor(data, data.PickValueInArray(kSomeFloats), {packed ? 1 : batch, len, channels});
    };
    vkattn_causal_conv1d_desc desc{};
    desc.input = rows();
    desc.output = rows();
    desc.weight = some_tensor(data, data.PickValueInArray(kSomeFloats), {channels, taps});
    if (data.ConsumeBool()) desc.bias = some_tensor(data, data.PickValueInArray(kSomeFloats), {channels});
    if (packed) desc.cu_seqlens_q = some_tensor(data, VKATTN_TYPE_I32, {batch + 1});
    if (packed && data.ConsumeBool()) desc.max_seqlen_q = static_cast<std::uint32_t>(some_size(data));
    desc.states = some_states(data, batch, contiguous(VKATTN_TYPE_F32, {taps - 1, channels}));
    desc.activation = static_cast<vkattn_activation>(data.ConsumeIntegralInRange(0, 4));
    plan_causal_conv1d(builder, desc);
    std::unique_ptr<const Plan> plan = builder.build();
    const bool nothing = is_empty(desc.input) && (desc.input.shape[1] != 0 || !present(desc.states.final_state));
    const std::uint64_t sequences = present(desc.cu_seqlens_q) ? desc.cu_seqlens_q.shape[0] - 1 : desc.input.shape[0];
    if (writes_nothing(*plan, nothing || sequences == 0)) return plan;
    const Step &step = plan->steps().front();
    const auto push = push_of<gpu::CausalConv1dPush>(step);
    expect(push.channels == channels && push.sequences == sequences, "every channel is computed");
    const std::uint64_t batches = present(desc.cu_seqlens_q) ? 1 : sequences;
    if (push.total != 0) {
        expect_inside(step, BINDING_CAUSAL_CONV1D_INPUT, desc.input.type,
                      {{batches, push.input_strides[0]}, {push.total, push.input_strides[1]}, {channels, 1}});
        expect_inside(step, BINDING_CAUSAL_CONV1D_OUTPUT, desc.output.type,
                      {{batches, push.output_strides[0]}, {push.total, push.output_strides[1]}, {channels, 1}});
    }
    expect_inside(step, BINDING_CAUSAL_CONV1D_WEIGHT, desc.weight.type, {{channels, taps}, {taps, 1}});
    expect_states(step, desc.states, push.states, sequences, (taps - 1) * channels,
                  {BINDING_CAUSAL_CONV1D_INITIAL, BINDING_CAUSAL_CONV1D_FINAL, BINDING_CAUSAL_CONV1D_TOKEN_STATES,
                   BINDING_CAUSAL_CONV1D_SLOTS, BINDING_CAUSAL_CONV1D_ACCEPTED});
    return plan;
}

std::unique_ptr<const Plan> gated_rms_norm(FuzzedDataProvider &data, PlanBuilder &builder) {
    const std::uint64_t batch = some_size(data), len = some_size(data), features = some_size(data);
    const auto rows = [&] { return some_tensor(data, data.PickValueInArray(kSomeFloats), {batch, len, features}); };
    vkattn_gated_rms_norm_desc desc{};
    desc.input = rows();
    desc.gate = rows();
    desc.output = rows();
    desc.weight = some_tensor(data, data.PickValueInArray(kSomeFloats), {features});
    desc.epsilon = data.ConsumeFloatingPoint<float>();
    plan_gated_rms_norm(builder, desc);
    std::unique_ptr<const Plan> plan = builder.build();
    if (writes_nothing(*plan, is_empty(desc.output))) return plan;
    const Step &step = plan->steps().front();
    const auto push = push_of<gpu::NormPush>(step);
    expect_inside(step, BINDING_NORM_GATE, desc.gate.type,
                  {{step.groups[1], push.gate_strides[0]}, {step.groups[0], push.gate_strides[1]}, {push.features, 1}});
    expect_strides(normalised(desc.gate, "gate"), {push.gate_strides[0], push.gate_strides[1]});
    return plan;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *bytes, std::size_t size) {
    FuzzedDataProvider data(bytes, size);
    constexpr std::unique_ptr<const Plan> (*kOperators[])(FuzzedDataProvider &, PlanBuilder &) = {
        linear, norm,         embedding,        kv_append,     merge,
        argmax, mask_indices, linear_attention, causal_conv1d, gated_rms_norm};
    plan_one_of(data, kOperators);
    return 0;
}
