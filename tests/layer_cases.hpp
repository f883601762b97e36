// Small layers of every cached kind with random weights, and what the tests of layers do with them.
#pragma once

#include "device.hpp"

namespace vkattn_test {

struct LayerCase {
    const char *name;
    vkattn_layer_config config;
    std::map<std::string, Shape> linears; // [out, in], each with a bias
    std::map<std::string, Shape> others;
};

// wide: with sizes that quantised caches can hold.
LayerCase mla_case(vkattn_mla_form form, std::uint32_t q_lora_rank, bool interleaved, bool wide = false);
std::vector<LayerCase> cached_layers(bool wide = false);

// The same weights for the same names, whatever else differs. rounded: F16 or BF16, what the values are rounded to;
// they are stored so, or as the F32 of the same values.
struct WeightStorage {
    vkattn_type rounded = VKATTN_TYPE_F32;
    bool as_f32 = false;
};
vkattn::Layer make_layer(const LayerCase &c, const WeightStorage &storage = {});

// Tokens first .. first + len - 1 of [B,L,N].
HostTensor tokens_of(const HostTensor &all, std::uint64_t first, std::uint64_t len);

// The layer's output for a causal sequence, without a cache.
HostTensor prefill(const vkattn::Layer &layer, HostTensor input);

void check_equal(const char *what, const HostTensor &actual, const HostTensor &expected, double bound);

} // namespace vkattn_test
