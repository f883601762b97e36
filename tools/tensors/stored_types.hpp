// The library's table of the types that tensors are stored in, as the command asks it.
#pragma once

#include "tools/tensors/safetensors.hpp"

#include <vkattn/vkattn.hpp>

#include <string>

namespace vkattn::tools {

// Questions of a type of the table.
bool is_float(vkattn_type type);
bool is_quantised(vkattn_type type);
bool is_key_value(vkattn_type type);
bool is_weight(vkattn_type type);

std::string type_name(vkattn_type type); // "q8_0"; "none"

// "f32, f16, bf16": the types of which a question is true; last: what stands before the last of them.
std::string type_names(bool (*is_one)(vkattn_type), const std::string &last = ", ");

// Returns the type that an option names, of those of which a question is true. Throws InputError, naming the option.
vkattn_type type_named(const std::string &option, const std::string &name, bool (*is_one)(vkattn_type));

// What holds values of the type on the host: of a quantised one, before they are quantised.
Dtype dtype_of(vkattn_type type);

// Writes rows of heads into a buffer of the layout, on the device, as an append does. values: of the same layout, f32 for
// quantised types. rotated: as VKATTN_ROTATION_HADAMARD says.
void store(const Context &context, const vkattn_tensor &layout, const Buffer &values, const Buffer &stored,
           bool rotated = false);

} // namespace vkattn::tools
