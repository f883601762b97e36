// What an estimate takes from a Hugging Face config.json.
#pragma once

#include "tools/estimate/model.hpp"

#include <nlohmann/json_fwd.hpp>

namespace vkattn::tools {

// Makes a model of the sizes that the file's keys say: decoders, also those of which some layers attend alone, and
// BERT's kind of encoder. Throws InputError, which names what cannot be counted.
EstimateModel hugging_face_model(const std::string &file, const std::string &name, const nlohmann::json &json);

} // namespace vkattn::tools
