// The rotary embedding that a config.json describes.
#pragma once

#include "model_keys.hpp"

#include <vkattn/vkattn.h>

namespace vkattn::tools {

// What a family of models takes for granted.
struct RopeDefaults {
    float theta = 10000.0F;
    float window_theta = 0.0F; // of layers with a window; 0: as all layers, and scaled like them
};

// Sets rope_theta and rope_scaling, and for MLA the scale, which YaRN changes in DeepSeek's models.
// Throws InputError, naming what is not supported.
void read_rope(const ModelKeys &keys, const RopeDefaults &defaults, bool has_window, vkattn_layer_config &layer);

} // namespace vkattn::tools
