// Any layer of any sizes and any call of it: whatever plan comes of it stays inside the call's tensors, the workspace and
// the device's limits.
#include "runtime/layers/layer_backward.hpp"
#include "runtime/ops/rope.hpp"
#include "runtime/support/error.hpp"
#include "tests/fuzz/plan_limits.hpp"
#include "tests/fuzz/some_tensor.hpp"

#include <algorithm>

namespace {

using namespace vkattn;

std::uint32_t some_width(FuzzedDataProvider &data) {
    return data.ConsumeProbability<float>() < 0.8f ? data.ConsumeIntegralInRange(1u, 64u)
                                                   : static_cast<std::uint32_t>(some_size(data));
}

vkattn_layer_config some_config(FuzzedDataProvider &data) {
    vkattn_layer_config config{};
    config.kind = static_cast<vkattn_layer_kind>(data.ConsumeIntegralInRange<int>(0, VKATTN_LAYER_KIND_COUNT));
    config.num_heads = data.ConsumeBool() ? 1u << data.ConsumeIntegralInRange(0, 6) : some_width(data);
    config.num_kv_heads = data.ConsumeBool() ? 0 : 1u << data.ConsumeIntegralInRange(0, 4);
    config.head_dim = data.ConsumeBool() ? 0 : 2 * some_width(data);
    config.embed_dim = data.ConsumeBool() ? config.num_heads * some_width(data) : some_width(data);
    config.kv_head_mapping = static_cast<vkattn_kv_head_mapping>(data.ConsumeIntegralInRange(0, 1));
    config.input_dim = some_width(data);
    config.latent_dim = data.ConsumeBool() ? config.num_heads * some_width(data) : some_width(data);
    config.num_latents = some_width(data);
    config.qk_nope_head_dim = some_width(data);
    config.qk_rope_head_dim = 2 * some_width(data);
    config.v_head_dim = some_width(data);
    config.q_lora_rank = data.ConsumeBool() ? 0 : some_width(data);
    config.kv_lora_rank = some_width(data);
    config.mla_form = static_cast<vkattn_mla_form>(data.ConsumeIntegralInRange(0, 1));
    config.decompress_lora_rank = data.ConsumeBool() ? 0 : some_width(data);
    config.ffn_dim = some_width(data);
    config.activation = static_cast<vkattn_activation>(data.ConsumeIntegralInRange(0, 5));
    config.norm_first = data.ConsumeBool();
    config.mlp_ratio = some_width(data);
    config.rope_theta = data.ConsumeBool() ? 10000.0f : data.ConsumeFloatingPoint<float>();
    config.rope_interleaved = data.ConsumeBool();
    config.softcap = data.ConsumeBool() ? 0.0f : 30.0f;
    config.rotary_dim = data.ConsumeBool() ? 0 : some_width(data);
    if (data.ConsumeProbability<float>() < 0.2f)
        for (std::uint32_t &pairs : config.rope_sections) pairs = data.ConsumeIntegralInRange(0u, 40u);
    config.rope_sections_interleaved = data.ConsumeBool();
    return config;
}

// Of MLA; as often of sizes that a layer takes.
void add_indexer(FuzzedDataProvider &data, vkattn_layer_config &config) {
    config.index_n_heads = some_width(data);
    config.index_head_dim = data.ConsumeBool() ? config.qk_rope_head_dim : some_width(data);
    config.index_topk = data.ConsumeIntegralInRange(0u, 4096u);
    config.index_rope_interleaved = data.ConsumeBool();
}

std::uint64_t query_width(const vkattn_layer_config &config) {
    return config.kind == VKATTN_LAYER_LATENT_QUERY ? config.input_dim : config.embed_dim;
}

vkattn_layer_call some_call(FuzzedDataProvider &data, const vkattn_layer_config &config) {
    constexpr vkattn_type kFloats[] = {VKATTN_TYPE_F32, VKATTN_TYPE_F16, VKATTN_TYPE_BF16};
    const bool latent_query = config.kind == VKATTN_LAYER_LATENT_QUERY;
    const std::uint64_t batch = some_size(data), len = some_size(data), past = some_size(data) - 1;
    const auto floats = [&](std::initializer_list<std::uint64_t> shape) {
        return some_tensor(data, data.PickValueInArray(kFloats), shape);
    };
    vkattn_layer_call call{};
    call.query = floats({batch, len, query_width(config)});
    call.output = latent_query ? floats({batch, config.num_latents, config.latent_dim})
                               : floats({batch, len, query_width(config)});
    std::uint64_t keys = len + past;
    if (data.ConsumeProbability<float>() < 0.3f) {
        const std::uint64_t key_len = some_size(data);
        call.key = floats({batch, key_len, query_width(config)});
        if (data.ConsumeBool()) call.value = floats({batch, key_len, query_width(config)});
        keys = key_len + past;
    }
    const std::uint64_t kv_heads = config.num_kv_heads != 0 ? config.num_kv_heads : config.num_heads;
    const std::uint64_t head_dim = config.head_dim != 0 ? config.head_dim : config.embed_dim / config.num_heads;
    const auto cached = [&](std::uint64_t tokens) {
        switch (config.kind) {
        case VKATTN_LAYER_MLA:
        case VKATTN_LAYER_MLA_BLOCK:
            return floats({batch, tokens, config.kv_lora_rank + config.qk_rope_head_dim});
        case VKATTN_LAYER_COMPRESSED_KV:
            return floats({batch, tokens, config.latent_dim});
        default:
            return floats({batch, kv_heads, tokens, head_dim});
        }
    };
    const bool two = config.kind != VKATTN_LAYER_MLA && config.kind != VKATTN_LAYER_MLA_BLOCK;
    if (data.ConsumeBool()) {
        call.past_key = cached(past);
        if (two) call.past_value = cached(past);
    }
    if (data.ConsumeBool()) {
        call.present_key = cached(keys);
        if (two) call.present_value = cached(keys);
    }
    call.past_len = data.ConsumeBool() ? static_cast<std::uint32_t>(past) : 0;
    if (data.ConsumeProbability<float>() < 0.3f) call.attn_mask = floats({len, keys});
    if (data.ConsumeProbability<float>() < 0.3f)
        call.key_padding_mask = some_tensor(data, VKATTN_TYPE_BOOL, {batch, keys});
    if (data.ConsumeProbability<float>() < 0.3f) call.key_lengths = some_tensor(data, VKATTN_TYPE_I32, {batch});
    if (data.ConsumeProbability<float>() < 0.2f)
        call.attn_weights = some_tensor(data, VKATTN_TYPE_F32, {batch, config.num_heads, len, keys});
    if (data.ConsumeProbability<float>() < 0.3f) call.residual = floats({batch, len, query_width(config)});
    if (data.ConsumeProbability<float>() < 0.3f) {
        const std::uint64_t streams = data.ConsumeBool() ? position_streams(config) : some_size(data);
        call.positions = some_tensor(data, VKATTN_TYPE_I32, {streams, batch, len});
    }
    call.mask_flags = data.ConsumeIntegralInRange(0u, 8u);
    call.window_left = data.ConsumeIntegral<std::int32_t>();
    call.window_right = data.ConsumeIntegral<std::int32_t>();
    call.causal_alignment = static_cast<vkattn_causal_alignment>(data.ConsumeIntegralInRange(0, 2));
    call.kernel = static_cast<vkattn_kernel>(data.ConsumeIntegralInRange<int>(0, VKATTN_KERNEL_COUNT));
    return call;
}

// The tensor that the caller binds for a role. backward: of a backward pass; else empty.
const vkattn_tensor &tensor_of(const vkattn_layer_call &call, const vkattn_layer_backward_desc &backward,
                               vkattn_role role) {
    static const vkattn_tensor none{};
    switch (role) {
    case VKATTN_ROLE_ACTIVATIONS:
        return call.activations;
    case VKATTN_ROLE_NORM_WEIGHT:
        return call.norm_weight;
    case VKATTN_ROLE_D_OUTPUT:
        return backward.d_output;
    case VKATTN_ROLE_D_QUERY:
        return backward.d_query;
    case VKATTN_ROLE_D_KEY:
        return backward.d_key;
    case VKATTN_ROLE_D_VALUE:
        return backward.d_value;
    case VKATTN_ROLE_D_NORM_WEIGHT:
        return backward.d_norm_weight;
    case VKATTN_ROLE_QUERY:
        return call.query;
    case VKATTN_ROLE_KEY:
        return call.key;
    case VKATTN_ROLE_VALUE:
        return call.value;
    case VKATTN_ROLE_OUTPUT:
        return call.output;
    case VKATTN_ROLE_ATTN_MASK:
        return call.attn_mask;
    case VKATTN_ROLE_KEY_PADDING_MASK:
        return call.key_padding_mask;
    case VKATTN_ROLE_KEY_LENGTHS:
        return call.key_lengths;
    case VKATTN_ROLE_ATTN_WEIGHTS:
        return call.attn_weights;
    case VKATTN_ROLE_PAST_KEY:
        return call.past_key;
    case VKATTN_ROLE_PAST_VALUE:
        return call.past_value;
    case VKATTN_ROLE_PRESENT_KEY:
        return call.present_key;
    case VKATTN_ROLE_PRESENT_VALUE:
        return call.present_value;
    case VKATTN_ROLE_POSITIONS:
        return call.positions;
    case VKATTN_ROLE_RESIDUAL:
        return present(backward.d_output) ? backward.residual : call.residual;
    default:
        return none;
    }
}

// Where the last of a layer's weights ends: they lie behind each other, and several may be read as one.
std::uint64_t end_of_weights(const Layer &layer) {
    const auto end_of = [](const View &weight) { return weight.source.offset + extent_bytes(weight.tensor); };
    std::uint64_t end = end_of(layer.rotation().frequencies);
    for (const WeightSpec &spec : weight_specs(layer.config())) end = std::max(end, end_of(layer.weight(spec.name)));
    return end;
}

void expect_inside_tensors(const Plan &plan, const Layer &layer, const vkattn_layer_call &call,
                           const vkattn_layer_backward_desc &backward = {}) {
    for (const Step &step : plan.steps())
        for (const Step::Bound &bound : step.bound) {
            if (bound.bytes == 0) continue;
            if (bound.source.kind == Source::Kind::kOwned) {
                expect(bound.source.offset + bound.offset + bound.bytes <= end_of_weights(layer),
                       "what is read of weights lies in them");
            } else if (bound.source.role != VKATTN_ROLE_WORKSPACE) {
                const vkattn_tensor &tensor = tensor_of(call, backward, bound.source.role);
                expect(present(tensor), "what is bound was given");
                expect(bound.source.offset + bound.offset + bound.bytes <= extent_bytes(normalised(tensor, "tensor")),
                       "what is bound lies in the caller's tensor");
                expect(bound.source.offset == 0 || bound.source.role == VKATTN_ROLE_ACTIVATIONS,
                       "a tensor of the caller's begins where it is bound");
            }
        }
}

// The backward pass of the call, of some gradients, with activations that the forward pass saves or without.
void plan_gradients(FuzzedDataProvider &data, const Layer &layer, vkattn_layer_call call) {
    constexpr vkattn_type kFloats[] = {VKATTN_TYPE_F32, VKATTN_TYPE_F16, VKATTN_TYPE_BF16};
    const auto maybe_like = [&](const vkattn_tensor &tensor) {
        if (!present(tensor) || data.ConsumeProbability<float>() < 0.2f) return vkattn_tensor{};
        return some_tensor(data, data.PickValueInArray(kFloats), {tensor.shape[0], tensor.shape[1], tensor.shape[2]});
    };
    vkattn_layer_backward_desc desc{};
    desc.d_output = maybe_like(call.query);
    desc.residual = data.ConsumeBool() ? maybe_like(call.query) : vkattn_tensor{};
    desc.d_query = maybe_like(call.query);
    desc.d_key = maybe_like(call.key);
    desc.d_value = maybe_like(call.value);
    if (present(call.norm_weight)) desc.d_norm_weight = contiguous(VKATTN_TYPE_F32, {call.norm_weight.shape[0]});
    desc.accumulate = data.ConsumeIntegralInRange(0u, 2u);
    const std::vector<WeightSpec> specs = weight_specs(layer.config());
    std::vector<vkattn_weight_gradient> gradients;
    for (const WeightSpec &spec : specs)
        if (present(layer.weight(spec.name)) && data.ConsumeBool())
            gradients.push_back({spec.name.c_str(), layer.weight(spec.name).tensor, {}});
    desc.gradients = gradients.data();
    desc.gradient_count = static_cast<uint32_t>(gradients.size());
    if (data.ConsumeBool()) {
        desc.activations = call.activations = layer_activations(layer, {call, nullptr});
        PlanBuilder builder(layer.context(), PlanBuilder::Purpose::kMeasure);
        plan_layer(builder, layer, {call, nullptr});
        const auto plan = builder.build();
        expect_within_limits(*plan);
        expect_inside_tensors(*plan, layer, call);
    }
    PlanBuilder builder(layer.context(), PlanBuilder::Purpose::kMeasure);
    plan_layer_backward(builder, layer, {call, nullptr}, desc);
    const auto plan = builder.build();
    expect_within_limits(*plan);
    expect_inside_tensors(*plan, layer, call, desc);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *bytes, std::size_t size) {
    FuzzedDataProvider data(bytes, size);
    try {
        Context &context = context_of_limits(data);
        vkattn_layer_config config = some_config(data);
        if (data.ConsumeProbability<float>() < 0.2f) add_indexer(data, config);
        const Layer layer(context, config);
        vkattn_layer_call call = some_call(data, layer.config());
        const bool of_gradients = data.ConsumeBool();
        if (of_gradients && data.ConsumeBool()) {
            call.past_key = call.past_value = call.present_key = call.present_value = {};
            call.past_len = 0;
            if (data.ConsumeBool()) call.norm_weight = contiguous(VKATTN_TYPE_F32, {query_width(config)});
        }
        if (of_gradients) return plan_gradients(data, layer, call), 0;
        PlanBuilder builder(context, PlanBuilder::Purpose::kMeasure);
        plan_layer(builder, layer, {call, nullptr});
        const auto plan = builder.build();
        expect_within_limits(*plan);
        expect_inside_tensors(*plan, layer, call);
    } catch (const Error &error) {
        expect(error.result() == VKATTN_ERROR_INVALID_ARGUMENT || error.result() == VKATTN_ERROR_UNSUPPORTED,
               "what is refused is refused as a wrong or an unserved request");
    }
    return 0;
}
