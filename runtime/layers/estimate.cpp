#include "runtime/layers/estimate.hpp"

#include "runtime/support/error.hpp"
#include "runtime/support/rounding.hpp"

#include <limits>
#include <vector>

namespace vkattn {
namespace {

constexpr uint64_t kUnbounded = std::numeric_limits<uint64_t>::max();

uint64_t product(uint64_t a, uint64_t b) {
    require(a == 0 || b <= kUnbounded / a, "the estimate's bytes overflow, expected sizes whose bytes fit 64 bits");
    return a * b;
}

uint64_t sum(uint64_t a, uint64_t b) {
    require(b <= kUnbounded - a, "the estimate's bytes overflow, expected sizes whose bytes fit 64 bits");
    return a + b;
}

// Which rows of a call a weight matrix multiplies.
enum class AppliedTo {
    kNewTokens, // the call's own tokens
    kEveryKey,  // those in the cache too: it expands what the cache holds compressed
    kLatents,   // the learned queries, however long the sequence
};

struct WeightMatrix {
    uint64_t outputs;
    uint64_t inputs;
    AppliedTo applied_to = AppliedTo::kNewTokens;
    uint64_t times = 1; // a row
    bool may_have_bias = true;
};

// What a layer is made of, as far as costs go.
struct LayerShape {
    std::vector<WeightMatrix> matrices;
    uint64_t other_parameters = 0; // norms and learned latents
    uint64_t other_biases = 0;     // of LayerNorms
    uint64_t query_heads = 0;
    uint64_t head_dim = 0;
    uint64_t v_head_dim = 0;
    uint64_t latent_queries = 0; // 0: the tokens are the queries
    uint64_t cache_rows = 0;     // stored for each token
    uint64_t cache_row_values = 0;
};

void require_positive(uint32_t value, const char *name) { require(value > 0, name, " is 0, expected at least 1"); }

uint64_t even_share(uint32_t width, uint32_t heads, const char *name) {
    require_positive(width, name);
    require(width % heads == 0, name, " is ", width, ", expected a multiple of num_heads = ", heads);
    return width / heads;
}

LayerShape mha_shape(const vkattn_layer_config &config) {
    const uint64_t embed_dim = config.embed_dim;
    require_positive(config.embed_dim, "embed_dim");
    const uint64_t kv_heads = config.num_kv_heads != 0 ? config.num_kv_heads : config.num_heads;
    require(config.num_heads % kv_heads == 0, "num_heads is ", config.num_heads,
            ", expected a multiple of num_kv_heads = ", kv_heads);
    const uint64_t head_dim =
        config.head_dim != 0 ? config.head_dim : even_share(config.embed_dim, config.num_heads, "embed_dim");
    const uint64_t q_width = config.num_heads * head_dim;
    const uint64_t kv_width = kv_heads * head_dim;
    return {.matrices = {{.outputs = q_width, .inputs = embed_dim},
                         {.outputs = kv_width, .inputs = embed_dim},
                         {.outputs = kv_width, .inputs = embed_dim},
                         {.outputs = embed_dim, .inputs = q_width}},
            .query_heads = config.num_heads,
            .head_dim = head_dim,
            .v_head_dim = head_dim,
            .cache_rows = 2 * kv_heads,
            .cache_row_values = head_dim};
}

LayerShape latent_mha_shape(const vkattn_layer_config &config) {
    const uint64_t embed_dim = config.embed_dim;
    const uint64_t latent_dim = config.latent_dim;
    even_share(config.embed_dim, config.num_heads, "embed_dim");
    require_positive(config.latent_dim, "latent_dim");
    // Each head lifts its own latent with its own rows of up_proj: together one use of the whole matrix.
    return {.matrices = {{.outputs = config.num_heads * latent_dim, .inputs = embed_dim},
                         {.outputs = 2 * latent_dim, .inputs = embed_dim},
                         {.outputs = embed_dim, .inputs = latent_dim}},
            .query_heads = config.num_heads,
            .head_dim = latent_dim,
            .v_head_dim = latent_dim,
            .cache_rows = 2,
            .cache_row_values = latent_dim};
}

LayerShape latent_query_shape(const vkattn_layer_config &config) {
    const uint64_t latent_dim = config.latent_dim;
    require_positive(config.input_dim, "input_dim");
    require_positive(config.num_latents, "num_latents");
    const uint64_t head_dim = even_share(config.latent_dim, config.num_heads, "latent_dim");
    return {.matrices = {{.outputs = latent_dim, .inputs = latent_dim, .applied_to = AppliedTo::kLatents},
                         {.outputs = latent_dim, .inputs = config.input_dim},
                         {.outputs = latent_dim, .inputs = config.input_dim},
                         {.outputs = latent_dim, .inputs = latent_dim, .applied_to = AppliedTo::kLatents}},
            .other_parameters = config.num_latents * latent_dim,
            .query_heads = config.num_heads,
            .head_dim = head_dim,
            .v_head_dim = head_dim,
            .latent_queries = config.num_latents};
}

void require_mla_sizes(const vkattn_layer_config &config) {
    require_positive(config.embed_dim, "embed_dim");
    require_positive(config.qk_nope_head_dim, "qk_nope_head_dim");
    require_positive(config.v_head_dim, "v_head_dim");
    require_positive(config.kv_lora_rank, "kv_lora_rank");
    require(config.qk_rope_head_dim > 0 && config.qk_rope_head_dim % 2 == 0, "qk_rope_head_dim is ",
            config.qk_rope_head_dim, ", expected an even number of at least 2");
    require(config.mla_form == VKATTN_MLA_NAIVE || config.mla_form == VKATTN_MLA_ABSORB, "mla_form is ",
            static_cast<int>(config.mla_form), ", expected a vkattn_mla_form");
}

void add_mla_query(const vkattn_layer_config &config, uint64_t q_width, LayerShape &shape) {
    const uint64_t rank = config.q_lora_rank;
    if (rank == 0) {
        shape.matrices.push_back({.outputs = q_width, .inputs = config.embed_dim});
        return;
    }
    shape.matrices.push_back({.outputs = rank, .inputs = config.embed_dim});
    shape.matrices.push_back({.outputs = q_width, .inputs = rank});
    shape.other_parameters += rank; // q_norm
}

LayerShape mla_shape(const vkattn_layer_config &config) {
    require_mla_sizes(config);
    const bool absorb = config.mla_form == VKATTN_MLA_ABSORB;
    const uint64_t heads = config.num_heads;
    const uint64_t rank = config.kv_lora_rank;
    const uint64_t nope = config.qk_nope_head_dim;
    const uint64_t row = rank + config.qk_rope_head_dim;
    const uint64_t q_head_dim = nope + config.qk_rope_head_dim;

    LayerShape shape{.matrices = {},
                     .other_parameters = rank, // kv_norm
                     .query_heads = heads,
                     .head_dim = absorb ? row : q_head_dim,
                     .v_head_dim = absorb ? rank : config.v_head_dim,
                     .cache_rows = 1,
                     .cache_row_values = row};
    add_mla_query(config, product(heads, q_head_dim), shape);
    shape.matrices.push_back({.outputs = row, .inputs = config.embed_dim});
    // Absorbed, the key rows of wkv_b multiply the new queries and its value rows the new outputs: one use for a token.
    shape.matrices.push_back({.outputs = product(heads, nope + config.v_head_dim),
                              .inputs = rank,
                              .applied_to = absorb ? AppliedTo::kNewTokens : AppliedTo::kEveryKey});
    shape.matrices.push_back({.outputs = config.embed_dim, .inputs = heads * config.v_head_dim});
    return shape;
}

LayerShape compressed_kv_shape(const vkattn_layer_config &config) {
    const uint64_t d_model = config.embed_dim;
    const uint64_t latent_dim = config.latent_dim;
    const uint64_t lora_rank = config.decompress_lora_rank;
    const uint64_t head_dim = even_share(config.embed_dim, config.num_heads, "embed_dim");
    require_positive(config.latent_dim, "latent_dim");
    // The latents of K and of V share their matrices: two uses for a token.
    const auto lift = [](uint64_t outputs, uint64_t inputs) {
        return WeightMatrix{outputs, inputs, AppliedTo::kEveryKey, 2, false};
    };
    LayerShape shape{.matrices = {{.outputs = d_model + 2 * latent_dim, .inputs = d_model},
                                  {.outputs = latent_dim, .inputs = latent_dim, .times = 2},
                                  lift(d_model, latent_dim),
                                  {.outputs = d_model, .inputs = d_model}},
                     .query_heads = config.num_heads,
                     .head_dim = head_dim,
                     .v_head_dim = head_dim,
                     .cache_rows = 2,
                     .cache_row_values = latent_dim};
    if (lora_rank != 0) {
        shape.matrices.push_back(lift(lora_rank, latent_dim));
        shape.matrices.push_back(lift(d_model, lora_rank));
    }
    return shape;
}

void add_feed_forward(uint64_t width, uint64_t hidden_width, LayerShape &shape) {
    shape.matrices.push_back({.outputs = hidden_width, .inputs = width});
    shape.matrices.push_back({.outputs = width, .inputs = hidden_width});
    shape.other_parameters += 2 * width; // norm1, norm2
}

LayerShape encoder_shape(const vkattn_layer_config &config) {
    LayerShape shape = mha_shape(config);
    require_positive(config.ffn_dim, "ffn_dim");
    add_feed_forward(config.embed_dim, config.ffn_dim, shape);
    shape.other_biases = 2 * uint64_t{config.embed_dim};
    shape.cache_rows = 0;
    shape.cache_row_values = 0;
    return shape;
}

LayerShape mla_block_shape(const vkattn_layer_config &config) {
    LayerShape shape = mla_shape(config);
    require_positive(config.mlp_ratio, "mlp_ratio");
    add_feed_forward(config.embed_dim, uint64_t{config.embed_dim} * config.mlp_ratio, shape);
    return shape;
}

LayerShape layer_shape(const vkattn_layer_config &config) {
    require_positive(config.num_heads, "num_heads");
    switch (config.kind) {
    case VKATTN_LAYER_MHA:
        return mha_shape(config);
    case VKATTN_LAYER_LATENT_MHA:
        return latent_mha_shape(config);
    case VKATTN_LAYER_LATENT_QUERY:
        return latent_query_shape(config);
    case VKATTN_LAYER_MLA:
        return mla_shape(config);
    case VKATTN_LAYER_COMPRESSED_KV:
        return compressed_kv_shape(config);
    case VKATTN_LAYER_ENCODER:
        return encoder_shape(config);
    case VKATTN_LAYER_MLA_BLOCK:
        return mla_block_shape(config);
    default:
        fail(VKATTN_ERROR_INVALID_ARGUMENT, "kind is ", static_cast<int>(config.kind),
             ", expected a vkattn_layer_kind");
    }
}

uint64_t weight_value_bytes(vkattn_type type) {
    switch (type) {
    case VKATTN_TYPE_F32:
        return 4;
    case VKATTN_TYPE_F16:
    case VKATTN_TYPE_BF16:
        return 2;
    default:
        fail(VKATTN_ERROR_INVALID_ARGUMENT, "weight_type is ", static_cast<int>(type), ", expected F32, F16 or BF16");
    }
}

uint64_t cache_row_bytes(vkattn_type type, uint64_t values) {
    constexpr uint64_t kBlockValues = 32;
    const uint64_t blocks = divide_up(values, kBlockValues);
    switch (type) {
    case VKATTN_TYPE_F32:
        return product(values, 4);
    case VKATTN_TYPE_F16:
    case VKATTN_TYPE_BF16:
        return product(values, 2);
    case VKATTN_TYPE_Q8_0:
        return product(blocks, 34);
    case VKATTN_TYPE_Q4_0:
        return product(blocks, 18);
    default:
        fail(VKATTN_ERROR_INVALID_ARGUMENT, "cache_type is ", static_cast<int>(type),
             ", expected F32, F16, BF16, Q8_0 or Q4_0");
    }
}

uint64_t count_parameters(const LayerShape &shape, bool with_biases) {
    uint64_t total = sum(shape.other_parameters, with_biases ? shape.other_biases : 0);
    for (const WeightMatrix &matrix : shape.matrices) {
        total = sum(total, product(matrix.outputs, matrix.inputs));
        if (with_biases && matrix.may_have_bias) total = sum(total, matrix.outputs);
    }
    return total;
}

// In double: the attention FLOPs of long contexts overflow 64 bits, and nobody counts them to the last one.
double projection_flops(const LayerShape &shape, double new_tokens, double keys) {
    double total = 0;
    for (const WeightMatrix &matrix : shape.matrices) {
        const double rows = matrix.applied_to == AppliedTo::kNewTokens  ? new_tokens
                            : matrix.applied_to == AppliedTo::kEveryKey ? keys
                                                                        : static_cast<double>(shape.latent_queries);
        total += 2 * rows * static_cast<double>(matrix.times) * static_cast<double>(matrix.outputs) *
                 static_cast<double>(matrix.inputs);
    }
    return total;
}

double attention_flops(const LayerShape &shape, double queries, double keys) {
    return 2 * static_cast<double>(shape.query_heads) * queries * keys *
           static_cast<double>(shape.head_dim + shape.v_head_dim);
}

vkattn_estimate_info with_defaults(vkattn_estimate_info info) {
    if (info.batch == 0) info.batch = 1;
    if (info.context_len == 0) info.context_len = 1;
    if (info.prefill_len == 0) info.prefill_len = info.context_len;
    if (info.num_layers == 0) info.num_layers = 1;
    if (info.weight_type == VKATTN_TYPE_NONE) info.weight_type = VKATTN_TYPE_F16;
    if (info.cache_type == VKATTN_TYPE_NONE) info.cache_type = info.weight_type;
    return info;
}

void add_sizes(const LayerShape &shape, const vkattn_estimate_info &info, vkattn_estimate_result &result) {
    result.parameters = product(count_parameters(shape, info.with_biases != 0), info.num_layers);
    result.weight_bytes = product(result.parameters, weight_value_bytes(info.weight_type));
    const uint64_t row_bytes = cache_row_bytes(info.cache_type, shape.cache_row_values);
    result.cache_bytes_per_token = product(product(shape.cache_rows, row_bytes), info.num_layers);
    result.cache_bytes = product(product(result.cache_bytes_per_token, info.context_len), info.batch);
}

void add_prefill(const LayerShape &shape, const vkattn_estimate_info &info, vkattn_estimate_result &result) {
    const double repeats = static_cast<double>(info.batch) * info.num_layers;
    const auto tokens = static_cast<double>(info.prefill_len);
    const bool reads_latents = shape.latent_queries != 0;
    const double queries = reads_latents ? static_cast<double>(shape.latent_queries) : tokens;
    const double visible = info.causal != 0 && !reads_latents ? 0.5 : 1.0;
    result.prefill_projection_flops = repeats * projection_flops(shape, tokens, tokens);
    result.prefill_attention_flops = repeats * visible * attention_flops(shape, queries, tokens);
}

void add_decode_step(const LayerShape &shape, const vkattn_estimate_info &info, vkattn_estimate_result &result) {
    if (result.cache_bytes_per_token == 0) return;
    const double repeats = static_cast<double>(info.batch) * info.num_layers;
    const auto keys = static_cast<double>(info.context_len);
    result.decode_projection_flops = repeats * projection_flops(shape, 1, keys);
    result.decode_attention_flops = repeats * attention_flops(shape, 1, keys);
    const uint64_t written = product(result.cache_bytes_per_token, info.batch);
    result.decode_bytes = sum(result.weight_bytes, sum(result.cache_bytes, written));
    result.decode_intensity =
        (result.decode_projection_flops + result.decode_attention_flops) / static_cast<double>(result.decode_bytes);
}

void add_reach(const vkattn_estimate_info &info, vkattn_estimate_result &result) {
    if (info.memory_bytes == 0 || result.weight_bytes > info.memory_bytes) return;
    if (result.cache_bytes_per_token == 0) {
        result.max_context_len = result.max_sequences = kUnbounded;
        return;
    }
    const uint64_t room = info.memory_bytes - result.weight_bytes;
    result.max_context_len = room / product(result.cache_bytes_per_token, info.batch);
    result.max_sequences = room / product(result.cache_bytes_per_token, info.context_len);
}

} // namespace

vkattn_estimate_result estimate(const vkattn_layer_config &config, const vkattn_estimate_info &given) {
    const vkattn_estimate_info info = with_defaults(given);
    const LayerShape shape = layer_shape(config);
    vkattn_estimate_result result{};
    add_sizes(shape, info, result);
    add_prefill(shape, info, result);
    add_decode_step(shape, info, result);
    add_reach(info, result);
    return result;
}

} // namespace vkattn

vkattn_result vkattn_estimate(const vkattn_layer_config *config, const vkattn_estimate_info *info,
                              vkattn_estimate_result *result) {
    return vkattn::guard([&] {
        vkattn::require(config != nullptr, "config is NULL, expected a layer's configuration");
        vkattn::require(result != nullptr, "result is NULL, expected room for the estimate");
        *result = vkattn::estimate(*config, info != nullptr ? *info : vkattn_estimate_info{});
    });
}
