#include "runtime/layers/estimate.hpp"

#include "runtime/support/error.hpp"
#include "runtime/support/structures.hpp"

#include <charconv>
#include <limits>

namespace vkattn {
namespace {

constexpr uint32_t kDefaultLatents = 256;
constexpr float kDefaultRopeTheta = 10000.0f;
constexpr uint32_t kLargestWidth = std::numeric_limits<uint32_t>::max() / 4; // four times it is still a size

vkattn_layer_config mla_by_proportion(vkattn_layer_config config, uint32_t head_dim) {
    config.kind = VKATTN_LAYER_MLA;
    config.qk_nope_head_dim = head_dim;
    config.v_head_dim = head_dim;
    config.qk_rope_head_dim = (head_dim / 2 + head_dim % 2 + 1) / 2 * 2;
    config.kv_lora_rank = 4 * head_dim;
    config.mla_form = VKATTN_MLA_ABSORB;
    config.rope_theta = kDefaultRopeTheta;
    config.rope_interleaved = 1;
    return config;
}

vkattn_layer_config grouped_query(vkattn_layer_config config, std::string_view name) {
    const std::string_view count = name.substr(name.find('-') + 1);
    uint32_t kv_heads = 0;
    const auto [end, error] = std::from_chars(count.data(), count.data() + count.size(), kv_heads);
    require(error == std::errc() && end == count.data() + count.size() && kv_heads > 0, "variant is \"", name,
            "\", expected gqa-N with N KV heads, for instance gqa-8");
    require(config.num_heads % kv_heads == 0, "variant ", name, " needs num_heads to be a multiple of ", kv_heads,
            ", it is ", config.num_heads);
    config.num_kv_heads = kv_heads;
    return config;
}

vkattn_layer_config latent_query(vkattn_layer_config config, uint32_t d_model) {
    config.kind = VKATTN_LAYER_LATENT_QUERY;
    config.embed_dim = 0;
    config.input_dim = config.latent_dim = d_model;
    config.num_latents = kDefaultLatents;
    return config;
}

vkattn_layer_config compressed_kv(vkattn_layer_config config, uint32_t d_model) {
    require(d_model % 8 == 0, "variant compressed_kv needs d_model to be a multiple of 8, it is ", d_model);
    config.kind = VKATTN_LAYER_COMPRESSED_KV;
    config.latent_dim = d_model / 8;
    config.rope_theta = kDefaultRopeTheta;
    return config;
}

vkattn_layer_config encoder(vkattn_layer_config config, uint32_t d_model) {
    config.kind = VKATTN_LAYER_ENCODER;
    config.num_kv_heads = config.num_heads;
    config.ffn_dim = 4 * d_model;
    config.activation = VKATTN_ACTIVATION_GELU;
    config.norm_first = 1;
    return config;
}

vkattn_layer_config mla_block(const vkattn_layer_config &base, uint32_t head_dim) {
    vkattn_layer_config config = mla_by_proportion(base, head_dim);
    config.kind = VKATTN_LAYER_MLA_BLOCK;
    config.mlp_ratio = 4;
    return config;
}

vkattn_layer_config latent_mha(vkattn_layer_config config, uint32_t head_dim) {
    config.kind = VKATTN_LAYER_LATENT_MHA;
    config.latent_dim = head_dim;
    return config;
}

vkattn_layer_config with_kv_heads(vkattn_layer_config config, uint32_t kv_heads) {
    config.num_kv_heads = kv_heads;
    return config;
}

} // namespace

vkattn_layer_config config_from_name(std::string_view name, uint32_t d_model, uint32_t num_heads) {
    require(d_model > 0 && d_model <= kLargestWidth, "d_model is ", d_model, ", expected 1 to ", kLargestWidth);
    require(num_heads > 0, "num_heads is 0, expected at least 1");
    require(d_model % num_heads == 0, "d_model is ", d_model, ", expected a multiple of num_heads = ", num_heads);
    const uint32_t head_dim = d_model / num_heads;
    vkattn_layer_config base{};
    base.kind = VKATTN_LAYER_MHA;
    base.embed_dim = d_model;
    base.num_heads = num_heads;
    if (name == "mha") return with_kv_heads(base, num_heads);
    if (name == "mqa") return with_kv_heads(base, 1);
    if (name.starts_with("gqa-")) return grouped_query(base, name);
    if (name == "latent_mha") return latent_mha(base, head_dim);
    if (name == "latent_query") return latent_query(base, d_model);
    if (name == "mla") return mla_by_proportion(base, head_dim);
    if (name == "compressed_kv") return compressed_kv(base, d_model);
    if (name == "encoder_layer") return encoder(base, d_model);
    if (name == "mla_block") return mla_block(base, head_dim);
    fail(VKATTN_ERROR_INVALID_ARGUMENT, "variant \"", name,
         "\" is unknown, expected mha, mqa, gqa-N, latent_mha, latent_query, mla, compressed_kv, encoder_layer or "
         "mla_block");
}

} // namespace vkattn

vkattn_result vkattn_layer_config_from_name(const char *name, uint32_t d_model, uint32_t num_heads,
                                            vkattn_layer_config *config) {
    return vkattn::guard([&] {
        vkattn::require(name != nullptr, "name is NULL, expected a variant");
        vkattn::fill_in(config, vkattn::config_from_name(name, d_model, num_heads), "config");
    });
}
