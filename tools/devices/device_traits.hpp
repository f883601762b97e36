// Traits of a device as text: "name=number,name=number".
#pragma once

#include <vkattn/vkattn.h>

#include <string_view>
#include <vector>

namespace vkattn::tools {

// Reads traits. Throws InputError, whose message begins with source, where the text came from.
std::vector<vkattn_trait> parse_traits(std::string_view text, std::string_view source);

// Reads those of the environment variable VKATTN_DEVICE_TRAITS; none where it is not set.
std::vector<vkattn_trait> traits_of_environment();

} // namespace vkattn::tools
