#pragma once

#include "runtime/vulkan/context.hpp"

#include <string>

namespace vkattn {

// Computes a small problem of a shader of lists of keys, of the choice of keys or of top_k on the device and on the host.
// Returns what is wrong, "" if nothing is. Fails as plans do.
std::string check_list_shader(Context &context, const Shader &shader);

} // namespace vkattn
