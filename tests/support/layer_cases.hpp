// Layers with random weights, and what the tests of layers do with them.
#pragma once

#include "device.hpp"

namespace vkattn_test {

struct LayerCase {
    std::string name;
    vkattn_layer_config config;
    std::map<std::string, Shape> linears; // [out, in], each with a bias
    std::map<std::string, Shape> others;
};

// With every weight that a layer of such sizes has, optional ones too.
LayerCase layer_case(const std::string &name, const vkattn_layer_config &config);

// Small layers of every cached kind. wide: with sizes that quantised caches can hold.
LayerCase mla_case(vkattn_mla_form form, std::uint32_t q_lora_rank, bool interleaved, bool wide = false);
// With an indexer of few keys.
LayerCase sparse_mla_case(vkattn_mla_form form, bool wide = false);
std::vector<LayerCase> cached_layers(bool wide = false);

// rounded: what the values are rounded to; they are stored so, or as the F32 of the same values.
struct WeightStorage {
    vkattn_type rounded = VKATTN_TYPE_F32;
    bool as_f32 = false;
};
using Weights = std::map<std::string, HostTensor>;
Weights random_weights(const LayerCase &c, std::mt19937 &random, const WeightStorage &storage = {});

vkattn::Layer make_layer(const vkattn_layer_config &config, const Weights &weights,
                         const vkattn::Context &context = test_device().context());
// The same weights for the same names, whatever else differs.
vkattn::Layer make_layer(const LayerCase &c, const WeightStorage &storage = {});

// What is asked of a call: tensors that are not present are not.
struct LayerResults {
    HostTensor output;
    HostTensor present_key;
    HostTensor present_value;
    HostTensor attn_weights;
    // The caches hold the past already and are not poisoned.
    bool in_place = false;
};

vkattn_layer_call call_of(const LayerProblem &problem, const LayerResults &results, vkattn_kernel kernel);

// What a call reads, but for its past.
std::vector<Region> regions_of_inputs(const LayerProblem &problem);

// Both return what is wrong, one line each, "" for nothing: what a run touched that it should not have, and what
// differs from the reference.
std::string run_layer(const LayerProblem &problem, LayerResults &results, const vkattn::Plan &plan);
std::string compare_layer(const LayerProblem &problem, const LayerReference &reference, const LayerResults &results);

// The layer's cache of so many tokens of each sequence; in so many pages of 8 tokens, if any. info: what else it has.
vkattn::Cache make_cache(const vkattn::Layer &layer, std::uint32_t batch, std::uint32_t capacity, vkattn_type keys,
                         vkattn_type values, std::uint32_t pages = 0, vkattn_cache_info info = {});

// Appends tokens [B,L,N] and returns the layer's output for them.
HostTensor append(const vkattn::Layer &layer, const vkattn::Cache &cache, HostTensor input,
                  std::uint32_t mask_flags = VKATTN_MASK_CAUSAL);

// Appends keys and values [B,H,L,D], without the layer.
void fill(const vkattn::Cache &cache, HostTensor keys, HostTensor values);

// What a sequence's part holds: so many numbers, [H,L,D].
std::vector<float> read(const vkattn::Cache &cache, vkattn_cache_part part, std::uint32_t sequence,
                        std::uint64_t count);

// Tokens first .. first + len - 1 of [B,L,N].
HostTensor tokens_of(const HostTensor &all, std::uint64_t first, std::uint64_t len);

// The layer's output for a causal sequence, without a cache. norm: weights by which the layer normalises its input; absent: it
// does not.
HostTensor prefill(const vkattn::Layer &layer, HostTensor input, HostTensor norm = {});

void check_equal(const char *what, const HostTensor &actual, const HostTensor &expected, double bound);

} // namespace vkattn_test
