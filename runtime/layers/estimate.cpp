#include "runtime/layers/estimate.hpp"

#include "runtime/layers/layer_spec.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/support/error.hpp"
#include "runtime/support/rounding.hpp"
#include "runtime/support/structures.hpp"

#include <algorithm>
#include <limits>

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

// A layer as its kind describes it, and what the estimate reads of it.
struct LayerShape {
    std::vector<WeightSpec> weights;
    AttentionSizes attention;
    std::optional<CacheSizes> cache; // in the estimate's type, with its scales
};

LayerShape layer_shape(const vkattn_layer_config &given) {
    const vkattn_layer_config config = checked_config(given);
    return {weight_specs(config), attention_sizes(config), decode_cache_sizes(config)};
}

void set_storage(const vkattn_estimate_info &info, CacheSizes &cache) {
    cache.key_type = cache.value_type = info.cache_type;
    check_scalings(info.key_scaling, info.value_scaling, cache);
    cache.key_scales.scaling = info.key_scaling;
    cache.value_scales.scaling = info.value_scaling;
}

uint64_t values_of(const WeightSpec &spec) {
    uint64_t values = 1;
    for (const uint64_t size : spec.shape) values = product(values, size);
    return values;
}

uint64_t row_bytes(vkattn_type type, uint32_t values) {
    const StorageBlock block = storage_block(type);
    return product(divide_up(values, block.elements), block.bytes);
}

uint64_t bytes_of_weight(const WeightSpec &spec, vkattn_type type) {
    const uint64_t row = spec.shape.back(), values = values_of(spec);
    return row == 0 ? 0 : product(values / row, row_bytes(type_of(spec, type), static_cast<uint32_t>(row)));
}

// Of all weights that a layer must have, and of its biases where asked for.
template <class Count>
uint64_t sum_of_weights(const LayerShape &shape, bool with_biases, Count count) {
    uint64_t total = 0;
    for (const WeightSpec &spec : shape.weights)
        if (is_counted(spec, with_biases)) total = sum(total, count(spec));
    return total;
}

uint64_t bytes_of_weights(const LayerShape &shape, bool with_biases, vkattn_type type) {
    return sum_of_weights(shape, with_biases, [&](const WeightSpec &spec) { return bytes_of_weight(spec, type); });
}

uint64_t cached_row_bytes(vkattn_type type, uint32_t values, const PartScales &scales) {
    return sum(row_bytes(type, values), scales.scaling == VKATTN_SCALING_ROW ? sizeof(float) : 0);
}

uint64_t key_bytes(const CacheSizes &cache) {
    return product(cache.heads, cached_row_bytes(cache.key_type, cache.key_width, cache.key_scales));
}

uint64_t cached_bytes(const std::optional<CacheSizes> &cache) {
    if (!cache) return 0;
    return sum(key_bytes(*cache),
               product(cache->heads, cached_row_bytes(cache->value_type, cache->value_width, cache->value_scales)));
}

double rows_of(MultipliedRows rows, const LayerShape &shape, double new_tokens, double keys) {
    switch (rows) {
    case MultipliedRows::kNewTokens:
        return new_tokens;
    case MultipliedRows::kEveryKey:
        return keys;
    case MultipliedRows::kLatents:
        return static_cast<double>(shape.attention.latent_queries);
    }
    return 0;
}

// In double: the attention FLOPs of long contexts overflow 64 bits, and nobody counts them to the last one.
double projection_flops(const LayerShape &shape, double new_tokens, double keys) {
    double total = 0;
    for (const WeightSpec &spec : shape.weights)
        if (is_counted(spec, true))
            total += 2 * rows_of(spec.use.rows, shape, new_tokens, keys) * spec.use.times *
                     static_cast<double>(values_of(spec));
    return total;
}

// Of so many queries, the last ones of a causal sequence of so many keys if `causal`: the keys that they see, counted once a
// query.
double seen_keys(double queries, double keys, bool causal) {
    return causal ? queries * keys - 0.5 * queries * queries : queries * keys;
}

// The same where a query sees at most so many.
double seen_keys(double queries, double keys, bool causal, double most) {
    if (keys <= most) return seen_keys(queries, keys, causal);
    if (!causal) return queries * most;
    const double short_queries = std::max(most - (keys - queries), 0.0); // those that see fewer
    return seen_keys(short_queries, most, true) + (queries - short_queries) * most;
}

double attention_flops(const AttentionSizes &sizes, double queries, double keys, bool causal) {
    const bool listed = sizes.listed_keys != 0;
    const double seen = seen_keys(queries, keys, causal);
    const double attended = listed ? seen_keys(queries, keys, causal, static_cast<double>(sizes.listed_keys)) : seen;
    return 2 *
           (static_cast<double>(sizes.query_heads) * attended * static_cast<double>(sizes.head_dim + sizes.v_head_dim) +
            static_cast<double>(sizes.index_heads) * seen * static_cast<double>(sizes.index_head_dim));
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

void check_types(const vkattn_estimate_info &info) {
    require(is_weight(info.weight_type), "weight_type is ", static_cast<int>(info.weight_type), ", expected ",
            type_names(is_weight));
    require(is_cached(info.cache_type), "cache_type is ", static_cast<int>(info.cache_type), ", expected ",
            type_names(is_cached));
}

void add_sizes(const LayerShape &shape, const vkattn_estimate_info &info, vkattn_estimate_result &result) {
    const bool with_biases = info.with_biases != 0;
    result.parameters = product(sum_of_weights(shape, with_biases, values_of), info.num_layers);
    result.weight_bytes = product(bytes_of_weights(shape, with_biases, info.weight_type), info.num_layers);
    result.cache_bytes_per_token = product(cached_bytes(shape.cache), info.num_layers);
    result.cache_bytes = product(product(result.cache_bytes_per_token, info.context_len), info.batch);
}

void add_prefill(const LayerShape &shape, const vkattn_estimate_info &info, vkattn_estimate_result &result) {
    const double repeats = static_cast<double>(info.batch) * info.num_layers;
    const auto tokens = static_cast<double>(info.prefill_len);
    const uint64_t latent_queries = shape.attention.latent_queries;
    const bool reads_latents = latent_queries != 0;
    const double queries = reads_latents ? static_cast<double>(latent_queries) : tokens;
    const bool causal = info.causal != 0 && !reads_latents;
    result.prefill_projection_flops = repeats * projection_flops(shape, tokens, tokens);
    result.prefill_attention_flops = repeats * attention_flops(shape.attention, queries, tokens, causal);
}

// Of the cache, in a decode step: the latents of keys that are not listed.
uint64_t unread_bytes(const LayerShape &shape, const vkattn_estimate_info &info) {
    const uint64_t listed = shape.attention.listed_keys;
    if (listed == 0 || info.context_len <= listed) return 0;
    return product(product(product(info.context_len - listed, key_bytes(*shape.cache)), info.num_layers), info.batch);
}

void add_decode_step(const LayerShape &shape, const vkattn_estimate_info &info, vkattn_estimate_result &result) {
    if (!shape.cache) return;
    const double repeats = static_cast<double>(info.batch) * info.num_layers;
    const auto keys = static_cast<double>(info.context_len);
    result.decode_projection_flops = repeats * projection_flops(shape, 1, keys);
    result.decode_attention_flops = repeats * attention_flops(shape.attention, 1, keys, false);
    const uint64_t written = product(result.cache_bytes_per_token, info.batch);
    const uint64_t read = sum(result.cache_bytes, written) - unread_bytes(shape, info);
    result.decode_bytes = sum(result.weight_bytes, read);
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

uint64_t weight_bytes(const vkattn_layer_config &config, bool with_biases, vkattn_type type) {
    return bytes_of_weights(layer_shape(config), with_biases, type);
}

vkattn_estimate_result estimate(const vkattn_layer_config &config, const vkattn_estimate_info &given) {
    const vkattn_estimate_info info = with_defaults(given);
    check_types(info);
    LayerShape shape = layer_shape(config);
    if (shape.cache) set_storage(info, *shape.cache);
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
        const vkattn_layer_config layer = vkattn::sized(config, "config");
        vkattn::fill_in(result, vkattn::estimate(layer, vkattn::sized_or_default(info, "info")), "result");
    });
}
