#pragma once

#include "runtime/vulkan/functions.hpp"

namespace vkattn {

// Names of objects and labels around commands for RenderDoc, Nsight and the validation layers (VK_EXT_debug_utils). Does
// nothing where it is off.
class DebugLabels {
  public:
    DebugLabels(const Functions &vk, VkDevice device, bool wanted);

    template <class Handle>
    void name(VkObjectType type, Handle handle, const char *text) const {
        if (is_on_) set_name(type, (uint64_t)handle, text); // a pointer or a number
    }
    // Around commands: an end for every begin.
    void begin(VkCommandBuffer commands, const char *text) const;
    void end(VkCommandBuffer commands) const;

  private:
    void set_name(VkObjectType type, uint64_t handle, const char *text) const;

    const Functions &vk_;
    VkDevice device_;
    bool is_on_;
};

} // namespace vkattn
