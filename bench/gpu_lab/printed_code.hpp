// Honeykrisp hands out no machine code, but prints it when AGX_MESA_DEBUG says shaders.
#pragma once

#include <vulkan/vulkan.h>

#include <functional>
#include <string>

namespace vkattn::gpu_lab {

// Calls create. Where the driver prints code, printed is what goes to the standard output meanwhile: one thread at a time.
VkResult with_printed_code(const std::function<VkResult()> &create, std::string &printed);

} // namespace vkattn::gpu_lab
