// Layers of every kind drawn at random, with biases and without, pasts, caches and masks.
#pragma once

#include "layer_cases.hpp"
#include "random_draws.hpp"

#include <string>

namespace vkattn_test {

struct LayerDraw {
    unsigned seed = 0; // of the contents
    vkattn_layer_config config{};
    vkattn_type weights = VKATTN_TYPE_F32, tokens = VKATTN_TYPE_F32, output = VKATTN_TYPE_F32, cache = VKATTN_TYPE_F32;
    unsigned biases = 0; // a bit a linear, in the order of their names
    bool head_norms = false;
    std::uint64_t batch = 1, len = 1, other_len = 0; // other_len: of key and value, 0: self attention
    std::uint64_t past_len = 0;
    bool present = false, with_weights = false;
    bool causal = false, bottom_right = false, window = false, key_padding = false, key_lengths = false, mask = false,
         blocks = false, trees = false;
    int window_left = -1, window_right = -1;
    std::uint64_t position_streams = 0; // 0: no positions
};

// What the number is drawn to.
LayerDraw draw_layer(unsigned seed);
LayerProblem problem_of(const LayerDraw &d);
LayerResults results_of(const LayerDraw &d);
std::string text(const LayerDraw &d);
bool operator==(const LayerDraw &a, const LayerDraw &b);

} // namespace vkattn_test
