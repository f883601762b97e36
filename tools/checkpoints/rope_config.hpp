// The rotary embedding that a config.json describes.
#pragma once

#include "tools/cases/case_file.hpp"
#include "tools/checkpoints/model_keys.hpp"

namespace vkattn::tools {

// What a family of models takes for granted.
struct RopeDefaults {
    float theta = 10000.0F;
    float window_theta = 0.0F; // of layers with a window; 0: as all layers, and scaled like them
};

// The layer whose embedding is asked for.
struct RopeUse {
    bool has_window = false;
    std::uint64_t sequence_len = 0; // tokens of the longest sequence: LongRoPE has factors for short and for long ones
};

// Sets rope_theta, rotary_dim and rope_scaling, and for MLA the scale, which YaRN changes in DeepSeek's models. Returns what
// rope_scaling.factors points to, or NULL. Throws InputError, naming what is not supported.
RopeFactors read_rope(const ModelKeys &keys, const RopeDefaults &defaults, const RopeUse &use,
                      vkattn_layer_config &layer);

} // namespace vkattn::tools
