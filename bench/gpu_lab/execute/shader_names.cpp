#include "shader_names.hpp"

#include "../layer_chain.hpp"
#include "runtime/spirv/numbers.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <span>
#include <string_view>
#include <vector>

namespace execute {
namespace {

using namespace vkattn::spirv;
using vkattn::gpu_lab::layer_link;
using vkattn::gpu_lab::Registry;

struct Recorded {
    Shader shader;
    bool has_groups;
    std::array<uint32_t, 3> groups;
};

struct Commands {
    Shader shader; // of the pipeline that is bound
    std::vector<Recorded> dispatches;
};

struct Device {
    VkDevice handle;
    PFN_vkGetDeviceProcAddr next;
    template <class Function>
    Function get(const char *function) const {
        return reinterpret_cast<Function>(next(handle, function));
    }
};
struct Instance {
    VkInstance handle;
    PFN_vkGetInstanceProcAddr next;
};

Registry<Instance> instances;
Registry<Device> devices;
std::mutex mutex; // of what follows
std::map<VkShaderModule, Shader> modules;
std::map<VkPipeline, Shader> pipelines;
std::map<VkCommandBuffer, Commands> recorded;
thread_local std::deque<Recorded> submitted;

// A module's words without the numbers of its bindings, which the library chooses anew.
using Code = std::vector<uint32_t>;
Code code_of(const char *bytes, size_t size) {
    Code code(size / 4);
    memcpy(code.data(), bytes, code.size() * 4);
    for (size_t at = kHeaderWords; at < code.size() && code[at] >> 16; at += code[at] >> 16)
        if ((code[at] & 0xffff) == OpDecorate && at + 3 < code.size() && code[at + 2] == kBinding) code[at + 3] = 0;
    return code;
}

std::map<Code, std::string> read_modules() {
    std::map<Code, std::string> result;
    const char *folder = getenv("VKATTN_EXECUTE_MODULES");
    if (!folder || !std::filesystem::is_directory(folder)) return result;
    for (const auto &file : std::filesystem::directory_iterator(folder)) {
        if (file.path().extension() != ".spv") continue;
        std::ifstream stream(file.path(), std::ios::binary);
        const std::string bytes(std::istreambuf_iterator<char>(stream), {});
        result[code_of(bytes.data(), bytes.size())] = file.path().stem().string();
    }
    return result;
}

// The name that a module gives its entry point: one that the library has specialised has its shader's.
std::string entry_name(const Code &code) {
    uint32_t entry = 0;
    for (size_t at = kHeaderWords; at < code.size() && code[at] >> 16; at += code[at] >> 16) {
        const uint32_t opcode = code[at] & 0xffff, words = code[at] >> 16;
        if (words < 3 || at + words > code.size()) continue;
        if (opcode == OpEntryPoint) entry = code[at + 2];
        if (opcode != OpName || code[at + 1] != entry) continue;
        const char *name = reinterpret_cast<const char *>(&code[at + 2]);
        return {name, strnlen(name, (words - 2) * sizeof(uint32_t))};
    }
    return "";
}

std::string name_of(const VkShaderModuleCreateInfo &info) {
    static const std::map<Code, std::string> known = read_modules();
    const Code code = code_of(reinterpret_cast<const char *>(info.pCode), info.codeSize);
    if (const auto found = known.find(code); found != known.end()) return found->second;
    const std::string name = entry_name(code);
    const bool is_known = std::ranges::any_of(known, [&](const auto &each) { return each.second == name; });
    return is_known ? name : "";
}

// The file that the module's words were written to, if $VKATTN_EXECUTE_GIVEN names a folder.
std::string write_given(const VkShaderModuleCreateInfo &info) {
    static size_t written = 0; // by the mutex of what is known
    const char *folder = getenv("VKATTN_EXECUTE_GIVEN");
    if (!folder) return "";
    const std::filesystem::path file = std::filesystem::path(folder) / (std::to_string(written++) + ".spv");
    std::ofstream stream(file, std::ios::binary);
    stream.write(reinterpret_cast<const char *>(info.pCode), std::streamsize(info.codeSize));
    return stream.flush() ? file.string() : "";
}

VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo *info, const VkAllocationCallbacks *allocator,
                                    VkInstance *instance) {
    auto *link = layer_link<VkLayerInstanceCreateInfo>(info->pNext, VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO);
    if (!link) return VK_ERROR_INITIALIZATION_FAILED;
    const PFN_vkGetInstanceProcAddr next = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    const auto create = reinterpret_cast<PFN_vkCreateInstance>(next(VK_NULL_HANDLE, "vkCreateInstance"));
    const VkResult result = create ? create(info, allocator, instance) : VK_ERROR_INITIALIZATION_FAILED;
    if (result == VK_SUCCESS) instances.add(*instance, std::make_unique<Instance>(Instance{*instance, next}));
    return result;
}

VkResult VKAPI_CALL create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
                                  const VkAllocationCallbacks *allocator, VkDevice *device) {
    auto *link = layer_link<VkLayerDeviceCreateInfo>(info->pNext, VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO);
    if (!link) return VK_ERROR_INITIALIZATION_FAILED;
    const PFN_vkGetInstanceProcAddr next_of_instance = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
    const PFN_vkGetDeviceProcAddr next = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    const auto create =
        reinterpret_cast<PFN_vkCreateDevice>(next_of_instance(instances.of(physical).handle, "vkCreateDevice"));
    const VkResult result = create ? create(physical, info, allocator, device) : VK_ERROR_INITIALIZATION_FAILED;
    if (result == VK_SUCCESS) devices.add(*device, std::make_unique<Device>(Device{*device, next}));
    return result;
}

VkResult VKAPI_CALL create_shader_module(VkDevice device, const VkShaderModuleCreateInfo *info,
                                         const VkAllocationCallbacks *allocator, VkShaderModule *module) {
    const auto create = devices.of(device).get<PFN_vkCreateShaderModule>("vkCreateShaderModule");
    const VkResult result = create(device, info, allocator, module);
    const std::lock_guard lock(mutex);
    if (result == VK_SUCCESS) modules[*module] = {name_of(*info), write_given(*info)};
    return result;
}

VkResult VKAPI_CALL create_compute_pipelines(VkDevice device, VkPipelineCache cache, uint32_t count,
                                             const VkComputePipelineCreateInfo *infos,
                                             const VkAllocationCallbacks *allocator, VkPipeline *made) {
    const auto create = devices.of(device).get<PFN_vkCreateComputePipelines>("vkCreateComputePipelines");
    const VkResult result = create(device, cache, count, infos, allocator, made);
    const std::lock_guard lock(mutex);
    for (uint32_t k = 0; k < count; k++)
        if (const auto module = modules.find(infos[k].stage.module); made[k] && module != modules.end())
            pipelines[made[k]] = module->second;
    return result;
}

VkResult VKAPI_CALL begin_commands(VkCommandBuffer commands, const VkCommandBufferBeginInfo *info) {
    {
        const std::lock_guard lock(mutex);
        recorded[commands] = {};
    }
    return devices.of(commands).get<PFN_vkBeginCommandBuffer>("vkBeginCommandBuffer")(commands, info);
}

void VKAPI_CALL bind_pipeline(VkCommandBuffer commands, VkPipelineBindPoint point, VkPipeline pipeline) {
    if (point == VK_PIPELINE_BIND_POINT_COMPUTE) {
        const std::lock_guard lock(mutex);
        const auto found = pipelines.find(pipeline);
        recorded[commands].shader = found == pipelines.end() ? Shader{} : found->second;
    }
    devices.of(commands).get<PFN_vkCmdBindPipeline>("vkCmdBindPipeline")(commands, point, pipeline);
}

void note_dispatch(VkCommandBuffer commands, bool has_groups, std::array<uint32_t, 3> groups) {
    const std::lock_guard lock(mutex);
    Commands &all = recorded[commands];
    all.dispatches.push_back({all.shader, has_groups, groups});
}

void VKAPI_CALL dispatch(VkCommandBuffer commands, uint32_t x, uint32_t y, uint32_t z) {
    note_dispatch(commands, true, {x, y, z});
    devices.of(commands).get<PFN_vkCmdDispatch>("vkCmdDispatch")(commands, x, y, z);
}

void VKAPI_CALL dispatch_base(VkCommandBuffer commands, uint32_t first_x, uint32_t first_y, uint32_t first_z,
                              uint32_t x, uint32_t y, uint32_t z) {
    note_dispatch(commands, true, {x, y, z});
    devices.of(commands).get<PFN_vkCmdDispatchBase>("vkCmdDispatchBase")(commands, first_x, first_y, first_z, x, y, z);
}

void VKAPI_CALL dispatch_indirect(VkCommandBuffer commands, VkBuffer buffer, VkDeviceSize offset) {
    note_dispatch(commands, false, {});
    devices.of(commands).get<PFN_vkCmdDispatchIndirect>("vkCmdDispatchIndirect")(commands, buffer, offset);
}

void note_submitted(VkCommandBuffer commands) {
    const std::lock_guard lock(mutex);
    const auto &dispatches = recorded[commands].dispatches;
    submitted.insert(submitted.end(), dispatches.begin(), dispatches.end());
}

VkResult VKAPI_CALL submit(VkQueue queue, uint32_t count, const VkSubmitInfo *infos, VkFence fence) {
    submitted.clear();
    for (const VkSubmitInfo &info : std::span(infos, count))
        for (uint32_t k = 0; k < info.commandBufferCount; k++) note_submitted(info.pCommandBuffers[k]);
    return devices.of(queue).get<PFN_vkQueueSubmit>("vkQueueSubmit")(queue, count, infos, fence);
}

VkResult VKAPI_CALL submit_2(VkQueue queue, uint32_t count, const VkSubmitInfo2 *infos, VkFence fence) {
    submitted.clear();
    for (const VkSubmitInfo2 &info : std::span(infos, count))
        for (uint32_t k = 0; k < info.commandBufferInfoCount; k++)
            note_submitted(info.pCommandBufferInfos[k].commandBuffer);
    const Device &device = devices.of(queue);
    auto next = device.get<PFN_vkQueueSubmit2>("vkQueueSubmit2");
    if (!next) next = device.get<PFN_vkQueueSubmit2>("vkQueueSubmit2KHR");
    return next(queue, count, infos, fence);
}

PFN_vkVoidFunction VKAPI_CALL instance_function(VkInstance instance, const char *name);
PFN_vkVoidFunction VKAPI_CALL device_function(VkDevice device, const char *name);

template <class Function>
PFN_vkVoidFunction erased(Function *function) {
    return reinterpret_cast<PFN_vkVoidFunction>(function);
}

PFN_vkVoidFunction own_function(std::string_view name) {
    static const std::map<std::string_view, PFN_vkVoidFunction> all = {
        {"vkGetInstanceProcAddr", erased(instance_function)},
        {"vkCreateInstance", erased(create_instance)},
        {"vkCreateDevice", erased(create_device)},
        {"vkGetDeviceProcAddr", erased(device_function)},
        {"vkCreateShaderModule", erased(create_shader_module)},
        {"vkCreateComputePipelines", erased(create_compute_pipelines)},
        {"vkBeginCommandBuffer", erased(begin_commands)},
        {"vkCmdBindPipeline", erased(bind_pipeline)},
        {"vkCmdDispatch", erased(dispatch)},
        {"vkCmdDispatchBase", erased(dispatch_base)},
        {"vkCmdDispatchIndirect", erased(dispatch_indirect)},
        {"vkQueueSubmit", erased(submit)},
        {"vkQueueSubmit2", erased(submit_2)},
        {"vkQueueSubmit2KHR", erased(submit_2)},
    };
    const auto found = all.find(name);
    return found == all.end() ? nullptr : found->second;
}

// A function that the device lacks stays absent.
PFN_vkVoidFunction VKAPI_CALL device_function(VkDevice device, const char *name) {
    const PFN_vkVoidFunction own = own_function(name), next = devices.of(device).next(device, name);
    return own && next ? own : next;
}

PFN_vkVoidFunction VKAPI_CALL instance_function(VkInstance instance, const char *name) {
    const PFN_vkVoidFunction own = own_function(name);
    if (!instance) return own;
    const Instance &known = instances.of(instance);
    const PFN_vkVoidFunction next = known.next(known.handle, name);
    return own && next ? own : next;
}

} // namespace

Shader next_shader(const std::array<uint32_t, 3> *groups) {
    if (submitted.empty()) return {};
    const Recorded next = submitted.front();
    if (next.has_groups != (groups != nullptr) || (groups && next.groups != *groups)) return {};
    submitted.pop_front();
    return next.shader;
}

} // namespace execute

extern "C" __attribute__((visibility("default"))) VKAPI_ATTR VkResult VKAPI_CALL
vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface *version) {
    if (version->loaderLayerInterfaceVersion < 2) return VK_ERROR_INITIALIZATION_FAILED;
    version->loaderLayerInterfaceVersion = 2;
    version->pfnGetInstanceProcAddr = execute::instance_function;
    version->pfnGetDeviceProcAddr = execute::device_function;
    version->pfnGetPhysicalDeviceProcAddr = nullptr;
    return VK_SUCCESS;
}
