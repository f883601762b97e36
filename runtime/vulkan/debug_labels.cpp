#include "runtime/vulkan/debug_labels.hpp"

namespace vkattn {

DebugLabels::DebugLabels(const Functions &vk, VkDevice device, bool wanted)
    : vk_(vk), device_(device),
      is_on_(wanted && vk.vkSetDebugUtilsObjectNameEXT != nullptr && vk.vkCmdBeginDebugUtilsLabelEXT != nullptr &&
             vk.vkCmdEndDebugUtilsLabelEXT != nullptr) {}

void DebugLabels::set_name(VkObjectType type, uint64_t handle, const char *text) const {
    VkDebugUtilsObjectNameInfoEXT info{};
    info.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_OBJECT_NAME_INFO_EXT;
    info.objectType = type;
    info.objectHandle = handle;
    info.pObjectName = text;
    (void)vk_.vkSetDebugUtilsObjectNameEXT(device_, &info); // a name that is missing harms nobody
}

void DebugLabels::begin(VkCommandBuffer commands, const char *text) const {
    if (!is_on_) return;
    VkDebugUtilsLabelEXT label{};
    label.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_LABEL_EXT;
    label.pLabelName = text;
    vk_.vkCmdBeginDebugUtilsLabelEXT(commands, &label);
}

void DebugLabels::end(VkCommandBuffer commands) const {
    if (is_on_) vk_.vkCmdEndDebugUtilsLabelEXT(commands);
}

} // namespace vkattn
