#pragma once

#include "runtime/layers/cache_sizes.hpp"
#include "runtime/problem/stored_types.hpp"

#include <optional>
#include <string>
#include <vector>

namespace vkattn {

// What a layer of a kind consists of, from its config alone. Layers are made by it and estimates count by it. No Vulkan.

// Which rows of a call a weight matrix multiplies.
enum class MultipliedRows {
    kNewTokens, // the call's own tokens
    kEveryKey,  // those in the cache too: the matrix expands what the cache holds compressed
    kLatents,   // the learned queries, however long the sequence
};

struct WeightUse {
    MultipliedRows rows = MultipliedRows::kNewTokens;
    uint32_t times = 0;      // how often it multiplies each row; 0: it is no matrix, but a norm, a bias or learned rows
    bool by_columns = false; // it is read so
};

// What a layer kind expects of one weight. A bias is optional, and its name ends in ".bias".
struct WeightSpec {
    std::string name;
    std::vector<uint64_t> shape;
    bool optional = false;
    WeightUse use = {};
    bool of_optional = false; // the bias of a matrix that is optional
};

// Whether a layer that is counted or measured, and not made, has the weight: no optional matrix.
inline bool is_counted(const WeightSpec &spec, bool with_biases) {
    return !spec.optional || (with_biases && !spec.of_optional && spec.name.ends_with(".bias"));
}

// What a weight is stored as in a model whose weights have a type: blocks of quantised types lie along the rows of matrices
// that are read by rows; every other weight is F32 there.
vkattn_type type_of(const WeightSpec &spec, vkattn_type type);

// The attention inside a layer.
struct AttentionSizes {
    uint64_t query_heads;
    uint64_t head_dim; // of Q and K
    uint64_t v_head_dim;
    uint64_t latent_queries = 0; // learned ones; 0: the tokens are the queries
    uint64_t listed_keys = 0;    // that a query attends at most, chosen by the next two; 0: all
    uint64_t index_heads = 0, index_head_dim = 0;
};

// A config with its defaults filled in; fails, naming the member, if its sizes are impossible.
vkattn_layer_config checked_config(const vkattn_layer_config &config);

// What follows takes a checked config.

std::vector<WeightSpec> weight_specs(const vkattn_layer_config &config);

AttentionSizes attention_sizes(const vkattn_layer_config &config);

// Heads and widths of what the layer caches; fails for kinds that keep no cache. Batch, capacity and types are left 0.
CacheSizes cache_sizes(const vkattn_layer_config &config);

// Heads and widths of what decode steps keep of each token; none: such a layer reads a whole sequence at once.
std::optional<CacheSizes> decode_cache_sizes(const vkattn_layer_config &config);

// Fails, naming the part, where a cache of these widths and types cannot have such scales.
void check_scalings(vkattn_scaling key, vkattn_scaling value, const CacheSizes &sizes);

// For the kinds' own files: a linear's weight and optional bias, and the check of a size, which is a part of some
// weight's dimension.
void add_linear_specs(std::vector<WeightSpec> &specs, const std::string &name, uint64_t out_features,
                      uint64_t in_features, WeightUse use = {.times = 1});
void check_size(const char *name, uint32_t size, uint32_t least = 1);

// How many elements of a head of this size the rotary embedding turns, the first; 0: there is none. Fails, naming the member.
uint32_t checked_rotary_dim(const vkattn_layer_config &config, uint32_t head_dim);

} // namespace vkattn
