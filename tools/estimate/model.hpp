// What an estimate is asked for: layers from names and configuration files.
#pragma once

#include <vkattn/estimate.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vkattn::tools {

// One layer to estimate; what its file does not say is left to the command line.
struct EstimateModel {
    std::string name;
    vkattn_layer_config config{};
    std::uint32_t num_layers = 0;               // 0: not said
    vkattn_type weight_type = VKATTN_TYPE_NONE; // NONE: not said
    bool with_biases = false;
    std::uint64_t state_bytes = 0;  // of a sequence of any length, in all layers that keep a state in place of a cache
    std::vector<std::string> notes; // what the estimate leaves out, in words
};

// Reads a configuration: Hugging Face's config.json, or an object with "op" and the configuration keys of case files.
// Throws InputError.
EstimateModel read_model(const std::string &path);

// Makes the variant of a name. Throws InputError.
EstimateModel named_model(const std::string &name, std::uint32_t d_model, std::uint32_t num_heads);

// The variants that are compared when none is named: those among mha, gqa-8, gqa-4, mqa and mla that these heads allow.
std::vector<EstimateModel> usual_models(std::uint32_t d_model, std::uint32_t num_heads);

} // namespace vkattn::tools
