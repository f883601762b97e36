// The attention of one layer of a Hugging Face checkpoint, as a case.
#pragma once

#include "tools/cases/case_file.hpp"
#include "tools/checkpoints/checkpoint.hpp"
#include "tools/checkpoints/hugging_face_config.hpp"

#include <filesystem>

namespace vkattn::tools {

struct CheckpointOptions {
    std::string model;  // .safetensors, its index, or the folder of either
    std::string config; // config.json; "": the one beside the model
    std::uint32_t layer = 0;
    std::string input; // safetensors: hidden_states [B,L,width], and masks and caches by their case-file names
};

// Reads the weights of a layer's attention, under the library's names. Throws InputError: names what is missing and
// what is not known.
TensorMap read_attention_weights(Checkpoint &checkpoint, const ModelAttention &attention, std::uint32_t layer);

// Reads the config, the layer's weights under the library's names, and the input. Throws InputError: names what is
// missing and what is not known.
CaseFile read_checkpoint_case(const CheckpointOptions &options);

} // namespace vkattn::tools
