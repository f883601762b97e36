#include "runtime/layers/compressed_kv.hpp"

#include "runtime/ops/rope.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/support/error.hpp"

namespace vkattn {
namespace {

// A matrix given as [in,out] (x M), seen as a linear's weight [out,in].
View transposed(const View &matrix) {
    const vkattn_tensor &tensor = matrix.tensor;
    return reshaped(matrix, {tensor.shape[1], tensor.shape[0]}, {tensor.strides[1], tensor.strides[0]});
}

// latents [B,1,T,latent] -> [B,T,d_model] of the type: x D, and + (x A) B.
View add_decompression(PlanBuilder &builder, const Layer &layer, const View &latents, vkattn_type type) {
    const vkattn_layer_config &config = layer.config();
    const vkattn_tensor &tensor = latents.tensor;
    const uint64_t batch = tensor.shape[0], len = tensor.shape[2];
    const View tokens =
        reshaped(latents, {batch, len, tensor.shape[3]}, {tensor.strides[0], tensor.strides[2], tensor.strides[3]});
    const View lifted = workspace_view(builder, type, {batch, len, config.embed_dim});
    add_linear(builder, tokens, transposed(layer.weight("decompress_matrix")), lifted);
    if (config.decompress_lora_rank == 0) return lifted;
    const View low_rank = workspace_view(builder, type, {batch, len, config.decompress_lora_rank});
    add_linear(builder, tokens, transposed(layer.weight("decompress_lora_a")), low_rank);
    builder.barrier();
    LinearEpilogue epilogue;
    epilogue.residual = lifted;
    add_linear(builder, low_rank, transposed(layer.weight("decompress_lora_b")), lifted, epilogue);
    return lifted;
}

} // namespace

vkattn_layer_config checked_compressed_kv_config(const vkattn_layer_config &config) {
    vkattn_layer_config checked = config;
    check_size("embed_dim", config.embed_dim);
    check_size("num_heads", config.num_heads);
    require(config.embed_dim % config.num_heads == 0, "num_heads: ", config.num_heads,
            ", expected a divisor of embed_dim ", config.embed_dim);
    check_size("latent_dim", config.latent_dim);
    check_size("decompress_lora_rank", config.decompress_lora_rank, 0);
    checked.head_dim = config.embed_dim / config.num_heads;
    checked.rotary_dim = checked_rotary_dim(config, checked.head_dim);
    return checked;
}

std::vector<WeightSpec> compressed_kv_weights(const vkattn_layer_config &config) {
    const uint64_t width = config.embed_dim, latent = config.latent_dim, rank = config.decompress_lora_rank;
    // the latents of K and of V share their matrices: two uses for a token
    constexpr uint32_t kLatentsOfToken = 2;
    constexpr WeightUse kLifts{.rows = MultipliedRows::kEveryKey, .times = kLatentsOfToken, .by_columns = true};
    std::vector<WeightSpec> specs;
    add_linear_specs(specs, "uqkv_proj", width + 2 * latent, width);
    add_linear_specs(specs, "latent_proj", latent, latent, {.times = kLatentsOfToken});
    add_linear_specs(specs, "out_proj", width, width);
    specs.push_back({"decompress_matrix", {latent, width}, false, kLifts});
    if (rank > 0) {
        specs.push_back({"decompress_lora_a", {latent, rank}, false, kLifts});
        specs.push_back({"decompress_lora_b", {rank, width}, false, kLifts});
    }
    return specs;
}

AttentionSizes compressed_kv_attention(const vkattn_layer_config &config) {
    return {.query_heads = config.num_heads, .head_dim = config.head_dim, .v_head_dim = config.head_dim};
}

void plan_compressed_kv(PlanBuilder &builder, const Layer &layer, const LayerCall &call) {
    const vkattn_layer_config &config = layer.config();
    const uint64_t width = config.embed_dim, latent = config.latent_dim, heads = config.num_heads;
    require_absent(call.key, call.value, "key, value", "compressed_kv");
    const View input = role_view(checked_tokens(call.query, "query", kAnySize, kAnySize, width), VKATTN_ROLE_QUERY);
    const uint64_t batch = input.tensor.shape[0], len = input.tensor.shape[1];
    const View output = role_view(checked_output(call, batch, len, width), VKATTN_ROLE_OUTPUT);
    require_paired_cache(call);
    require(call.object == nullptr || call.object->sizes().rotation == KvRotation{},
            "cache: of rotated latents, expected none of a layer that lifts them");
    require(call.object == nullptr ||
                (call.object->sizes().key_scales == PartScales{} && call.object->sizes().value_scales == PartScales{}),
            "cache: with scales beside its latents, expected none of a layer that lifts them");
    const Positions positions = checked_positions(layer, call, input.tensor);
    const CacheTokens tokens{0, latent, len};
    const CacheTensors keys = checked_cache(call, VKATTN_CACHE_KEYS, tokens, positions);
    const CacheTensors values = checked_cache(call, VKATTN_CACHE_VALUES, tokens, positions);

    const vkattn_type type = workspace_type(builder, call, input);
    const View joint = workspace_view(builder, type, {batch, len, width + 2 * latent});
    const View key_latents = workspace_view(builder, type, {batch, len, latent});
    const View value_latents = workspace_view(builder, type, {batch, len, latent});
    add_projection(builder, layer, "uqkv_proj", input, joint);
    builder.barrier();
    add_projection(builder, layer, "latent_proj", slice(joint, width, latent), key_latents);
    add_projection(builder, layer, "latent_proj", slice(joint, width + latent, latent), value_latents);
    builder.barrier();
    const CachedRows query =
        add_past_rows(builder, {}, heads_of(slice(joint, 0, width), heads), positions, layer.rotation());
    const CachedRows key = add_past_rows(builder, keys, as_one_head(key_latents), positions);
    const CachedRows value = add_past_rows(builder, values, as_one_head(value_latents), positions);
    builder.barrier();
    add_new_rows(builder, {query.new_rows, key.new_rows, value.new_rows});
    builder.barrier();
    const Heads attended = workspace_heads(builder, type, batch, len, heads, config.head_dim);
    CoreAttention core;
    core.query = query.all;
    core.key = heads_of(add_decompression(builder, layer, key.all, type), heads);
    core.value = heads_of(add_decompression(builder, layer, value.all, type), heads);
    core.output = attended.heads;
    core.block_table = keys.block_table;
    core.positions = positions;
    builder.barrier();
    add_core_attention(builder, layer, call, core);
    builder.barrier();
    add_count(builder, call);
    add_projection(builder, layer, "out_proj", attended.tokens, output);
}

} // namespace vkattn
