// Any description of gradients and of what training takes beside them: whatever plan comes of it keeps to the device's limits and to
// its workspace, and writes what there is to write.
#include "runtime/ops/operators.hpp"
#include "tests/fuzz/plan_limits.hpp"
#include "tests/fuzz/some_attention.hpp"

#include <algorithm>

namespace {

using namespace vkattn;

using Shape = std::initializer_list<std::uint64_t>;

vkattn_tensor some_floats(FuzzedDataProvider &data, Shape shape) {
    return some_tensor(data, data.PickValueInArray(kSomeFloats), shape);
}

// Absent half of the time.
vkattn_tensor perhaps(FuzzedDataProvider &data, vkattn_type type, Shape shape) {
    return data.ConsumeBool() ? some_tensor(data, type, shape) : vkattn_tensor{};
}

vkattn_tensor perhaps_floats(FuzzedDataProvider &data, Shape shape) {
    return perhaps(data, data.PickValueInArray(kSomeFloats), shape);
}

vkattn_optional_float perhaps_number(FuzzedDataProvider &data) {
    return data.ConsumeBool() ? vkattn_optional_float(data.ConsumeFloatingPoint<float>()) : vkattn_optional_float();
}

vkattn_activation some_activation(FuzzedDataProvider &data) {
    return static_cast<vkattn_activation>(data.ConsumeIntegralInRange(0, 9));
}

// Whether there is something to write: a tensor with elements.
bool any_of(std::initializer_list<vkattn_tensor> tensors) {
    for (const vkattn_tensor &tensor : tensors)
        if (present(tensor) && !is_empty(tensor)) return true;
    return false;
}

// The same of sums: of no rows 0, which are added to what there is without a step.
bool any_sum(std::uint32_t accumulate, const vkattn_tensor &rows, std::initializer_list<vkattn_tensor> tensors) {
    return (accumulate == 0 || !is_empty(rows)) && any_of(tensors);
}

using Planned = std::unique_ptr<const Plan>;

struct Given {
    vkattn_role role;
    vkattn_tensor tensor;
};

// What is bound of a role lies in the tensor that was given for it.
void expect_inside(const Plan &plan, std::initializer_list<Given> all) {
    for (const Step &step : plan.steps())
        for (const Step::Bound &bound : step.bound) {
            const Source &source = bound.source;
            if (bound.bytes == 0 || source.kind != Source::Kind::kRole || source.role == VKATTN_ROLE_WORKSPACE)
                continue;
            const auto given = std::ranges::find(all, source.role, &Given::role);
            expect(given != all.end() && present(given->tensor), "what is bound was given");
            expect(source.offset + bound.offset + bound.bytes <= extent_bytes(normalised(given->tensor, "tensor")),
                   "what is bound lies in the caller's tensor");
        }
}

Planned built(PlanBuilder &builder, std::initializer_list<Given> all, bool writes) {
    Planned plan = builder.build();
    expect(!writes || !plan->steps().empty(), "what there is to write is written");
    expect_inside(*plan, all);
    return plan;
}

Planned attention_backward(FuzzedDataProvider &data, PlanBuilder &builder) {
    vkattn_attention_desc attention = some_attention(data);
    if (data.ConsumeProbability<float>() < 0.9f) { // what has gradients
        attention.block_table = {};
        attention.attn_weights = {};
        for (vkattn_tensor *tensor : {&attention.key, &attention.value})
            if (present(*tensor)) tensor->type = data.PickValueInArray(kSomeFloats);
    }
    if (data.ConsumeBool()) attention.output = {};
    const auto like = [&](const vkattn_tensor &tensor, bool needed) {
        if (!present(tensor) || (!needed && data.ConsumeBool())) return vkattn_tensor{};
        if (tensor.rank != 4) return some_floats(data, {tensor.shape[0]});
        return some_floats(data, {tensor.shape[0], tensor.shape[1], tensor.shape[2], tensor.shape[3]});
    };
    vkattn_attention_backward_desc desc{};
    desc.attention = &attention;
    desc.d_output = some_floats(data, {attention.query.shape[0], attention.query.shape[1], attention.query.shape[2],
                                       present(attention.value) ? attention.value.shape[3] : 1});
    desc.d_query = like(attention.query, false);
    desc.d_key = like(attention.key, false);
    desc.d_value = like(attention.value, false);
    if (attention.attn_mask.rank == 2)
        desc.d_attn_mask = perhaps_floats(data, {attention.attn_mask.shape[0], attention.attn_mask.shape[1]});
    else
        desc.d_attn_mask = like(attention.attn_mask, false);
    desc.d_sinks = like(attention.sinks, false);
    plan_attention_backward(builder, desc);
    const auto has_none = [](const vkattn_tensor &offsets) { return present(offsets) && offsets.shape[0] == 1; };
    const bool has_sequences = !has_none(attention.cu_seqlens_q) && !has_none(attention.cu_seqlens_k);
    return built(builder,
                 {{VKATTN_ROLE_QUERY, attention.query},
                  {VKATTN_ROLE_KEY, attention.key},
                  {VKATTN_ROLE_VALUE, attention.value},
                  {VKATTN_ROLE_OUTPUT, attention.output},
                  {VKATTN_ROLE_LOG_SUM_EXP, attention.log_sum_exp},
                  {VKATTN_ROLE_ATTN_MASK, attention.attn_mask},
                  {VKATTN_ROLE_KEY_PADDING_MASK, attention.key_padding_mask},
                  {VKATTN_ROLE_KEY_LENGTHS, attention.key_lengths},
                  {VKATTN_ROLE_PAST_LENGTHS, attention.past_lengths},
                  {VKATTN_ROLE_ALIBI_SLOPES, attention.alibi_slopes},
                  {VKATTN_ROLE_SINKS, attention.sinks},
                  {VKATTN_ROLE_CU_SEQLENS_Q, attention.cu_seqlens_q},
                  {VKATTN_ROLE_CU_SEQLENS_K, attention.cu_seqlens_k},
                  {VKATTN_ROLE_BLOCK_MASK, attention.block_mask},
                  {VKATTN_ROLE_TREE_MASK, attention.tree_mask},
                  {VKATTN_ROLE_D_OUTPUT, desc.d_output},
                  {VKATTN_ROLE_D_QUERY, desc.d_query},
                  {VKATTN_ROLE_D_KEY, desc.d_key},
                  {VKATTN_ROLE_D_VALUE, desc.d_value},
                  {VKATTN_ROLE_D_ATTN_MASK, desc.d_attn_mask},
                  {VKATTN_ROLE_D_SINKS, desc.d_sinks}},
                 has_sequences && any_of({desc.d_query, desc.d_key, desc.d_value, desc.d_attn_mask, desc.d_sinks}));
}

// Of linear_backward and norm_backward, whose descriptions have the same tensors.
template <class Desc>
Planned built_layer(PlanBuilder &builder, const Desc &desc) {
    return built(builder,
                 {{VKATTN_ROLE_INPUT, desc.input},
                  {VKATTN_ROLE_WEIGHT, desc.weight},
                  {VKATTN_ROLE_D_OUTPUT, desc.d_output},
                  {VKATTN_ROLE_RESIDUAL, desc.residual},
                  {VKATTN_ROLE_D_INPUT, desc.d_input},
                  {VKATTN_ROLE_D_WEIGHT, desc.d_weight},
                  {VKATTN_ROLE_D_BIAS, desc.d_bias}},
                 any_of({desc.d_input}) || any_sum(desc.accumulate, desc.d_output, {desc.d_weight, desc.d_bias}));
}

Planned linear_backward(FuzzedDataProvider &data, PlanBuilder &builder) {
    const std::uint64_t batch = some_size(data), len = some_size(data), in = some_size(data), out = some_size(data);
    vkattn_linear_backward_desc desc{};
    desc.input = perhaps_floats(data, {batch, len, in});
    desc.weight =
        some_tensor(data, data.ConsumeBool() ? some_type(data) : data.PickValueInArray(kSomeFloats), {out, in});
    desc.d_output = some_floats(data, {batch, len, out});
    desc.residual = perhaps_floats(data, {batch, len, in});
    desc.d_input = perhaps_floats(data, {batch, len, in});
    desc.d_weight = perhaps_floats(data, {out, in});
    desc.d_bias = perhaps_floats(data, {out});
    desc.accumulate = data.ConsumeIntegralInRange(0u, 2u);
    plan_linear_backward(builder, desc);
    return built_layer(builder, desc);
}

Planned norm_backward(FuzzedDataProvider &data, PlanBuilder &builder) {
    const std::uint64_t batch = some_size(data), len = some_size(data), width = some_size(data);
    vkattn_norm_backward_desc desc{};
    desc.input = some_floats(data, {batch, len, width});
    desc.weight = perhaps_floats(data, {width});
    desc.d_output = some_floats(data, {batch, len, width});
    desc.residual = perhaps_floats(data, {batch, len, width});
    desc.d_input = perhaps_floats(data, {batch, len, width});
    desc.d_weight = perhaps_floats(data, {width});
    desc.d_bias = perhaps_floats(data, {width});
    desc.kind = static_cast<vkattn_norm_kind>(data.ConsumeIntegralInRange(0, 2));
    desc.epsilon = perhaps_number(data);
    desc.accumulate = data.ConsumeIntegralInRange(0u, 2u);
    plan_norm_backward(builder, desc);
    return built_layer(builder, desc);
}

Planned gated_activation(FuzzedDataProvider &data, PlanBuilder &builder) {
    const std::uint64_t batch = some_size(data), len = some_size(data), width = some_size(data);
    const auto rows = [&] { return some_floats(data, {batch, len, width}); };
    vkattn_gated_activation_desc desc{};
    desc.gate = rows();
    desc.input = rows();
    desc.output = rows();
    desc.activation = some_activation(data);
    plan_gated_activation(builder, desc);
    return built(
        builder,
        {{VKATTN_ROLE_MULTIPLIER, desc.gate}, {VKATTN_ROLE_INPUT, desc.input}, {VKATTN_ROLE_OUTPUT, desc.output}},
        any_of({desc.output}));
}

Planned gated_activation_backward(FuzzedDataProvider &data, PlanBuilder &builder) {
    const std::uint64_t batch = some_size(data), len = some_size(data), width = some_size(data);
    const auto rows = [&] { return some_floats(data, {batch, len, width}); };
    vkattn_gated_activation_backward_desc desc{};
    desc.gate = rows();
    desc.input = rows();
    desc.d_output = rows();
    desc.d_gate = data.ConsumeBool() ? rows() : vkattn_tensor{};
    desc.d_input = data.ConsumeBool() ? rows() : vkattn_tensor{};
    desc.activation = some_activation(data);
    plan_gated_activation_backward(builder, desc);
    return built(builder,
                 {{VKATTN_ROLE_MULTIPLIER, desc.gate},
                  {VKATTN_ROLE_INPUT, desc.input},
                  {VKATTN_ROLE_D_OUTPUT, desc.d_output},
                  {VKATTN_ROLE_D_GATE, desc.d_gate},
                  {VKATTN_ROLE_D_INPUT, desc.d_input}},
                 any_of({desc.d_gate, desc.d_input}));
}

Planned embedding_backward(FuzzedDataProvider &data, PlanBuilder &builder) {
    const std::uint64_t batch = some_size(data), len = some_size(data), width = some_size(data);
    vkattn_embedding_backward_desc desc{};
    desc.tokens = some_tensor(data, VKATTN_TYPE_I32, {batch, len});
    desc.d_output = some_floats(data, {batch, len, width});
    desc.d_weight = some_floats(data, {some_size(data), width});
    desc.accumulate = data.ConsumeIntegralInRange(0u, 2u);
    plan_embedding_backward(builder, desc);
    return built(builder,
                 {{VKATTN_ROLE_TOKENS, desc.tokens},
                  {VKATTN_ROLE_D_OUTPUT, desc.d_output},
                  {VKATTN_ROLE_D_WEIGHT, desc.d_weight}},
                 any_sum(desc.accumulate, desc.d_output, {desc.d_weight}));
}

Planned rotary_embedding(FuzzedDataProvider &data, PlanBuilder &builder) {
    const std::uint64_t batch = some_size(data), heads = some_size(data), len = some_size(data), size = some_size(data);
    vkattn_rotary_embedding_desc desc{};
    desc.input = some_floats(data, {batch, heads, len, size});
    desc.output = some_floats(data, {batch, heads, len, size});
    desc.positions = perhaps(data, VKATTN_TYPE_I32, {batch, len});
    desc.past_lengths = perhaps(data, VKATTN_TYPE_I32, {batch});
    desc.cu_seqlens = perhaps(data, VKATTN_TYPE_I32, {some_size(data)});
    if (data.ConsumeBool()) desc.max_seqlen = static_cast<std::uint32_t>(some_size(data));
    if (data.ConsumeBool()) desc.past_len = data.ConsumeIntegral<std::uint32_t>();
    if (data.ConsumeBool()) desc.rotary_dim = static_cast<std::uint32_t>(some_size(data));
    desc.rope_theta = data.ConsumeBool() ? 10000.0f : data.ConsumeFloatingPoint<float>();
    desc.rope_interleaved = data.ConsumeIntegralInRange(0u, 2u);
    desc.inverse = data.ConsumeIntegralInRange(0u, 2u);
    plan_rotary_embedding(builder, desc);
    return built(builder,
                 {{VKATTN_ROLE_INPUT, desc.input},
                  {VKATTN_ROLE_OUTPUT, desc.output},
                  {VKATTN_ROLE_POSITIONS, desc.positions},
                  {VKATTN_ROLE_PAST_LENGTHS, desc.past_lengths},
                  {VKATTN_ROLE_CU_SEQLENS_Q, desc.cu_seqlens}},
                 any_of({desc.output}));
}

Planned cross_entropy(FuzzedDataProvider &data, PlanBuilder &builder) {
    const std::uint64_t batch = some_size(data), len = some_size(data), width = some_size(data);
    vkattn_cross_entropy_desc desc{};
    desc.input = some_floats(data, {batch, len, width});
    desc.labels = some_tensor(data, VKATTN_TYPE_I32, {batch, len});
    desc.loss_scale = perhaps(data, VKATTN_TYPE_F32, {1});
    desc.loss = perhaps(data, VKATTN_TYPE_F32, {batch, len});
    desc.mean_loss = perhaps(data, VKATTN_TYPE_F32, {1});
    desc.d_input = perhaps_floats(data, {batch, len, width});
    if (data.ConsumeBool()) desc.ignore_label = vkattn_optional_uint(data.ConsumeIntegral<std::uint32_t>());
    plan_cross_entropy(builder, desc);
    return built(builder,
                 {{VKATTN_ROLE_INPUT, desc.input},
                  {VKATTN_ROLE_LABELS, desc.labels},
                  {VKATTN_ROLE_LOSS_SCALE, desc.loss_scale},
                  {VKATTN_ROLE_LOSS, desc.loss},
                  {VKATTN_ROLE_MEAN_LOSS, desc.mean_loss},
                  {VKATTN_ROLE_D_INPUT, desc.d_input}},
                 !is_empty(desc.labels) && any_of({desc.loss, desc.mean_loss, desc.d_input}));
}

Planned squared_norm(FuzzedDataProvider &data, PlanBuilder &builder) {
    vkattn_squared_norm_desc desc{};
    desc.gradient = some_floats(data, {some_size(data), some_size(data)});
    desc.squared_norm = some_tensor(data, VKATTN_TYPE_F32, {1});
    desc.accumulate = data.ConsumeIntegralInRange(0u, 2u);
    desc.scale = perhaps_number(data);
    plan_squared_norm(builder, desc);
    return built(builder, {{VKATTN_ROLE_GRADIENT, desc.gradient}, {VKATTN_ROLE_SQUARED_NORM, desc.squared_norm}},
                 any_sum(desc.accumulate, desc.gradient, {desc.squared_norm}));
}

Planned optimizer_step(FuzzedDataProvider &data, PlanBuilder &builder) {
    const auto number = [&](vkattn_type type) { return some_tensor(data, type, {1}); };
    vkattn_optimizer_step_desc desc{};
    desc.squared_norm = number(VKATTN_TYPE_F32);
    if (data.ConsumeBool()) desc.loss_scale = number(VKATTN_TYPE_F32);
    if (data.ConsumeBool()) desc.good_steps = number(VKATTN_TYPE_I32);
    desc.factor = number(VKATTN_TYPE_F32);
    desc.step = number(VKATTN_TYPE_I32);
    desc.max_norm = perhaps_number(data);
    desc.growth_factor = perhaps_number(data);
    desc.backoff_factor = perhaps_number(data);
    desc.growth_interval = data.ConsumeIntegral<std::uint32_t>();
    plan_optimizer_step(builder, desc);
    return built(builder,
                 {{VKATTN_ROLE_SQUARED_NORM, desc.squared_norm},
                  {VKATTN_ROLE_LOSS_SCALE, desc.loss_scale},
                  {VKATTN_ROLE_GOOD_STEPS, desc.good_steps},
                  {VKATTN_ROLE_FACTOR, desc.factor},
                  {VKATTN_ROLE_STEP, desc.step}},
                 true);
}

Planned adamw(FuzzedDataProvider &data, PlanBuilder &builder) {
    const std::uint64_t rows = some_size(data), width = some_size(data);
    vkattn_adamw_desc desc{};
    desc.parameter = some_tensor(data, VKATTN_TYPE_F32, {rows, width});
    desc.gradient = some_floats(data, {rows, width});
    desc.first_moment = some_tensor(data, VKATTN_TYPE_F32, {rows, width});
    desc.second_moment = some_tensor(data, VKATTN_TYPE_F32, {rows, width});
    desc.step = some_tensor(data, VKATTN_TYPE_I32, {1});
    desc.factor = perhaps(data, VKATTN_TYPE_F32, {1});
    desc.learning_rate = some_tensor(data, VKATTN_TYPE_F32, {1});
    desc.copy = perhaps_floats(data, {rows, width});
    for (vkattn_optional_float *number :
         {&desc.beta1, &desc.beta2, &desc.epsilon, &desc.weight_decay, &desc.copy_scale})
        *number = perhaps_number(data);
    plan_adamw(builder, desc);
    return built(builder,
                 {{VKATTN_ROLE_PARAMETER, desc.parameter},
                  {VKATTN_ROLE_GRADIENT, desc.gradient},
                  {VKATTN_ROLE_FIRST_MOMENT, desc.first_moment},
                  {VKATTN_ROLE_SECOND_MOMENT, desc.second_moment},
                  {VKATTN_ROLE_STEP, desc.step},
                  {VKATTN_ROLE_FACTOR, desc.factor},
                  {VKATTN_ROLE_LEARNING_RATE, desc.learning_rate},
                  {VKATTN_ROLE_COPY, desc.copy}},
                 any_of({desc.parameter}));
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *bytes, std::size_t size) {
    FuzzedDataProvider data(bytes, size);
    constexpr Planned (*kOperators[])(FuzzedDataProvider &, PlanBuilder &) = {attention_backward,
                                                                              linear_backward,
                                                                              norm_backward,
                                                                              gated_activation,
                                                                              gated_activation_backward,
                                                                              embedding_backward,
                                                                              rotary_embedding,
                                                                              cross_entropy,
                                                                              squared_norm,
                                                                              optimizer_step,
                                                                              adamw};
    plan_one_of(data, kOperators);
    return 0;
}
