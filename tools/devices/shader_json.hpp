#pragma once

#include <vkattn/shaders.h>

#include <nlohmann/json.hpp>

namespace vkattn::tools {

// What the driver's compiler says of a shader: an object, with its assembly where it was captured.
nlohmann::ordered_json to_json(const vkattn_shader &shader);

// A number as the driver gave it: most are whole.
nlohmann::ordered_json number(double value);

bool is_assembly(const vkattn_shader_text &text);

} // namespace vkattn::tools
