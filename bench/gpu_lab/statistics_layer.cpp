// A Vulkan layer: has the driver capture statistics and machine code of every compute pipeline, writes them down
// (pipeline_record.hpp), and lets no work reach the device. For drivers that compile for a GPU that is not there: what a
// program submits counts as done at once, timestamps are 0, timeline semaphores have the values that would be signalled.
#include "layer_chain.hpp"
#include "pipeline_record.hpp"
#include "printed_code.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace vkattn::gpu_lab {

namespace {

constexpr char kExtension[] = VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME;

struct Instance {
    VkInstance handle = VK_NULL_HANDLE;
    PFN_vkGetInstanceProcAddr next = nullptr;
    PFN_vkDestroyInstance destroy = nullptr; // asked for at once: older layers answer no more while they destroy
    bool names_objects = false;
};

struct Device {
    VkDevice handle = VK_NULL_HANDLE;
    PFN_vkGetDeviceProcAddr next = nullptr;
    std::string name; // of the GPU, as the driver calls it
    bool has_statistics = false;
    bool names_objects = false; // pipelines may get names
    ExecutableFunctions executables;

    std::mutex mutex;
    std::unordered_map<VkShaderModule, GivenModule> modules;
    std::unordered_map<VkSemaphore, std::uint64_t> semaphores;

    template <class Function>
    Function get(const char *function) const {
        return reinterpret_cast<Function>(next(handle, function));
    }

    void signal(VkSemaphore semaphore, std::uint64_t value) {
        const std::lock_guard lock(mutex);
        std::uint64_t &now = semaphores[semaphore];
        now = std::max(now, value);
    }
};

Registry<Instance> &instances() {
    static Registry<Instance> all;
    return all;
}

Registry<Device> &devices() {
    static Registry<Device> all;
    return all;
}

Records &records() {
    static Records all;
    return all;
}

VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo *info, const VkAllocationCallbacks *allocator,
                                    VkInstance *instance) {
    auto *link = layer_link<VkLayerInstanceCreateInfo>(info->pNext, VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO);
    if (link == nullptr) return VK_ERROR_INITIALIZATION_FAILED;
    const PFN_vkGetInstanceProcAddr next = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    const auto create = reinterpret_cast<PFN_vkCreateInstance>(next(VK_NULL_HANDLE, "vkCreateInstance"));
    if (create == nullptr) return VK_ERROR_INITIALIZATION_FAILED;
    const VkResult result = create(info, allocator, instance);
    if (result != VK_SUCCESS) return result;
    const bool names_objects =
        std::ranges::any_of(std::span(info->ppEnabledExtensionNames, info->enabledExtensionCount),
                            [](std::string_view name) { return name == VK_EXT_DEBUG_UTILS_EXTENSION_NAME; });
    const auto destroy = reinterpret_cast<PFN_vkDestroyInstance>(next(*instance, "vkDestroyInstance"));
    instances().add(*instance, std::make_unique<Instance>(Instance{*instance, next, destroy, names_objects}));
    return result;
}

void VKAPI_CALL destroy_instance(VkInstance instance, const VkAllocationCallbacks *allocator) {
    if (instance == VK_NULL_HANDLE) return;
    void *key = Registry<Instance>::key(instance);
    const PFN_vkDestroyInstance destroy = instances().of(instance).destroy;
    instances().remove(key);
    destroy(instance, allocator);
}

bool has_extension(const Instance &instance, VkPhysicalDevice physical) {
    const auto enumerate = reinterpret_cast<PFN_vkEnumerateDeviceExtensionProperties>(
        instance.next(instance.handle, "vkEnumerateDeviceExtensionProperties"));
    std::uint32_t count = 0;
    enumerate(physical, nullptr, &count, nullptr);
    std::vector<VkExtensionProperties> extensions(count);
    enumerate(physical, nullptr, &count, extensions.data());
    return std::ranges::any_of(extensions, [](const VkExtensionProperties &extension) {
        return std::string_view(extension.extensionName) == kExtension;
    });
}

// Calls next with the extension and its feature, whether or not the program asks for them itself.
VkResult create_with_statistics(PFN_vkCreateDevice create, VkPhysicalDevice physical, VkDeviceCreateInfo info,
                                const VkAllocationCallbacks *allocator, VkDevice *device) {
    std::vector<const char *> extensions(info.ppEnabledExtensionNames,
                                         info.ppEnabledExtensionNames + info.enabledExtensionCount);
    if (std::ranges::find(extensions, std::string_view(kExtension)) == extensions.end())
        extensions.push_back(kExtension);
    info.ppEnabledExtensionNames = extensions.data();
    info.enabledExtensionCount = static_cast<std::uint32_t>(extensions.size());

    using Features = VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR;
    constexpr VkStructureType type = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR;
    Features ours{type, const_cast<void *>(info.pNext), VK_TRUE};
    auto *theirs = const_cast<Features *>(in_chain<Features>(info.pNext, type));
    if (theirs == nullptr) {
        info.pNext = &ours;
        return create(physical, &info, allocator, device);
    }
    const VkBool32 wanted = std::exchange(theirs->pipelineExecutableInfo, VK_TRUE); // a chain may have one alone
    const VkResult result = create(physical, &info, allocator, device);
    theirs->pipelineExecutableInfo = wanted;
    return result;
}

std::string name_of(const Instance &instance, VkPhysicalDevice physical) {
    VkPhysicalDeviceProperties properties{};
    reinterpret_cast<PFN_vkGetPhysicalDeviceProperties>(
        instance.next(instance.handle, "vkGetPhysicalDeviceProperties"))(physical, &properties);
    return properties.deviceName;
}

void add_device(VkDevice handle, PFN_vkGetDeviceProcAddr next, const Instance &instance, VkPhysicalDevice physical,
                bool has_statistics) {
    auto device = std::make_unique<Device>();
    device->handle = handle;
    device->next = next;
    device->name = name_of(instance, physical);
    device->names_objects = instance.names_objects;
    device->has_statistics = has_statistics;
    if (has_statistics)
        device->executables = {
            device->get<PFN_vkGetPipelineExecutablePropertiesKHR>("vkGetPipelineExecutablePropertiesKHR"),
            device->get<PFN_vkGetPipelineExecutableStatisticsKHR>("vkGetPipelineExecutableStatisticsKHR"),
            device->get<PFN_vkGetPipelineExecutableInternalRepresentationsKHR>(
                "vkGetPipelineExecutableInternalRepresentationsKHR")};
    devices().add(handle, std::move(device));
}

VkResult VKAPI_CALL create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
                                  const VkAllocationCallbacks *allocator, VkDevice *device) {
    auto *link = layer_link<VkLayerDeviceCreateInfo>(info->pNext, VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO);
    if (link == nullptr) return VK_ERROR_INITIALIZATION_FAILED;
    const PFN_vkGetInstanceProcAddr next_of_instance = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
    const PFN_vkGetDeviceProcAddr next = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    const Instance &instance = instances().of(physical);
    const auto create = reinterpret_cast<PFN_vkCreateDevice>(next_of_instance(instance.handle, "vkCreateDevice"));
    if (create == nullptr) return VK_ERROR_INITIALIZATION_FAILED;
    const bool has_statistics = has_extension(instance, physical);
    const VkResult result = has_statistics ? create_with_statistics(create, physical, *info, allocator, device)
                                           : create(physical, info, allocator, device);
    if (result == VK_SUCCESS) add_device(*device, next, instance, physical, has_statistics);
    return result;
}

void VKAPI_CALL destroy_device(VkDevice handle, const VkAllocationCallbacks *allocator) {
    if (handle == VK_NULL_HANDLE) return;
    void *key = Registry<Device>::key(handle);
    devices().of(handle).get<PFN_vkDestroyDevice>("vkDestroyDevice")(handle, allocator);
    devices().remove(key);
}

// ---- modules and pipelines

GivenModule given_module(const VkShaderModuleCreateInfo &info) {
    return {info.codeSize, spirv::WorkgroupSize({info.pCode, info.codeSize / sizeof(std::uint32_t)})};
}

VkResult VKAPI_CALL create_shader_module(VkDevice handle, const VkShaderModuleCreateInfo *info,
                                         const VkAllocationCallbacks *allocator, VkShaderModule *module) {
    Device &device = devices().of(handle);
    const VkResult result =
        device.get<PFN_vkCreateShaderModule>("vkCreateShaderModule")(handle, info, allocator, module);
    if (result != VK_SUCCESS) return result;
    const std::lock_guard lock(device.mutex);
    device.modules[*module] = given_module(*info);
    return result;
}

void VKAPI_CALL destroy_shader_module(VkDevice handle, VkShaderModule module, const VkAllocationCallbacks *allocator) {
    Device &device = devices().of(handle);
    {
        const std::lock_guard lock(device.mutex);
        device.modules.erase(module);
    }
    device.get<PFN_vkDestroyShaderModule>("vkDestroyShaderModule")(handle, module, allocator);
}

GivenModule module_of(Device &device, const VkPipelineShaderStageCreateInfo &stage) {
    if (stage.module == VK_NULL_HANDLE) { // since maintenance5 the code may be here itself
        const auto *code = in_chain<VkShaderModuleCreateInfo>(stage.pNext, VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO);
        return code != nullptr ? given_module(*code) : GivenModule{};
    }
    const std::lock_guard lock(device.mutex);
    const auto found = device.modules.find(stage.module);
    return found != device.modules.end() ? found->second : GivenModule{};
}

// The milliseconds that the driver takes, which keeps figures alone: to keep the code takes some drivers far longer than to make it.
double time_to_compile(Device &device, const VkComputePipelineCreateInfo &info) {
    const auto create = device.get<PFN_vkCreateComputePipelines>("vkCreateComputePipelines");
    VkPipeline pipeline = VK_NULL_HANDLE;
    std::string printed;
    std::chrono::duration<double, std::milli> time{};
    with_printed_code(
        [&] {
            const auto start = std::chrono::steady_clock::now();
            const VkResult result = create(device.handle, VK_NULL_HANDLE, 1, &info, nullptr, &pipeline);
            time = std::chrono::steady_clock::now() - start;
            return result;
        },
        printed);
    device.get<PFN_vkDestroyPipeline>("vkDestroyPipeline")(device.handle, pipeline, nullptr);
    return time.count();
}

// One pipeline, so that its time is its own.
VkResult create_pipeline(Device &device, VkPipelineCache cache, VkComputePipelineCreateInfo info,
                         const VkAllocationCallbacks *allocator, VkPipeline *pipeline) {
    if (device.has_statistics) info.flags |= VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR;
    const double compile_ms = time_to_compile(device, info);
    if (device.has_statistics) info.flags |= VK_PIPELINE_CREATE_CAPTURE_INTERNAL_REPRESENTATIONS_BIT_KHR;
    const auto create = device.get<PFN_vkCreateComputePipelines>("vkCreateComputePipelines");
    std::string printed;
    const VkResult result =
        with_printed_code([&] { return create(device.handle, cache, 1, &info, allocator, pipeline); }, printed);
    if (result != VK_SUCCESS) return result;
    nlohmann::ordered_json record =
        describe_pipeline(device.executables, device.handle, *pipeline, constants_of(info.stage),
                          module_of(device, info.stage), compile_ms);
    record["device"] = device.name;
    if (!printed.empty()) record["texts"]["AGX assembly"] = printed;
    records().add(*pipeline, std::move(record), device.names_objects);
    return result;
}

VkResult VKAPI_CALL create_compute_pipelines(VkDevice handle, VkPipelineCache cache, std::uint32_t count,
                                             const VkComputePipelineCreateInfo *infos,
                                             const VkAllocationCallbacks *allocator, VkPipeline *pipelines) {
    VkResult result = VK_SUCCESS;
    for (std::uint32_t i = 0; i < count; ++i) {
        VkComputePipelineCreateInfo info = infos[i];
        if ((info.flags & VK_PIPELINE_CREATE_DERIVATIVE_BIT) != 0 && info.basePipelineIndex >= 0) {
            info.basePipelineHandle = pipelines[info.basePipelineIndex]; // an index into this call's
            info.basePipelineIndex = -1;
        }
        pipelines[i] = VK_NULL_HANDLE;
        const VkResult one = create_pipeline(devices().of(handle), cache, info, allocator, &pipelines[i]);
        if (one != VK_SUCCESS) result = one;
    }
    return result;
}

VkResult VKAPI_CALL set_object_name(VkDevice handle, const VkDebugUtilsObjectNameInfoEXT *info) {
    if (info->objectType == VK_OBJECT_TYPE_PIPELINE) records().name(info->objectHandle, info->pObjectName);
    const auto next = devices().of(handle).get<PFN_vkSetDebugUtilsObjectNameEXT>("vkSetDebugUtilsObjectNameEXT");
    return next != nullptr ? next(handle, info) : VK_SUCCESS;
}

// ---- submissions, none of which reaches the device

VkResult VKAPI_CALL submit(VkQueue queue, std::uint32_t count, const VkSubmitInfo *submits, VkFence) {
    Device &device = devices().of(queue);
    for (const VkSubmitInfo &one : std::span(submits, count)) {
        const auto *timeline =
            in_chain<VkTimelineSemaphoreSubmitInfo>(one.pNext, VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO);
        if (timeline == nullptr) continue;
        for (std::uint32_t i = 0; i < std::min(one.signalSemaphoreCount, timeline->signalSemaphoreValueCount); ++i)
            device.signal(one.pSignalSemaphores[i], timeline->pSignalSemaphoreValues[i]);
    }
    return VK_SUCCESS;
}

VkResult VKAPI_CALL submit2(VkQueue queue, std::uint32_t count, const VkSubmitInfo2 *submits, VkFence) {
    Device &device = devices().of(queue);
    for (const VkSubmitInfo2 &one : std::span(submits, count))
        for (const auto &signal : std::span(one.pSignalSemaphoreInfos, one.signalSemaphoreInfoCount))
            device.signal(signal.semaphore, signal.value);
    return VK_SUCCESS;
}

VkResult VKAPI_CALL create_semaphore(VkDevice handle, const VkSemaphoreCreateInfo *info,
                                     const VkAllocationCallbacks *allocator, VkSemaphore *semaphore) {
    Device &device = devices().of(handle);
    const VkResult result = device.get<PFN_vkCreateSemaphore>("vkCreateSemaphore")(handle, info, allocator, semaphore);
    const auto *type = in_chain<VkSemaphoreTypeCreateInfo>(info->pNext, VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO);
    if (result != VK_SUCCESS) return result;
    const std::lock_guard lock(device.mutex);
    device.semaphores[*semaphore] = type != nullptr ? type->initialValue : 0;
    return result;
}

void VKAPI_CALL destroy_semaphore(VkDevice handle, VkSemaphore semaphore, const VkAllocationCallbacks *allocator) {
    Device &device = devices().of(handle);
    {
        const std::lock_guard lock(device.mutex);
        device.semaphores.erase(semaphore);
    }
    device.get<PFN_vkDestroySemaphore>("vkDestroySemaphore")(handle, semaphore, allocator);
}

VkResult VKAPI_CALL signal_semaphore(VkDevice handle, const VkSemaphoreSignalInfo *info) {
    devices().of(handle).signal(info->semaphore, info->value);
    return VK_SUCCESS;
}

VkResult VKAPI_CALL semaphore_value(VkDevice handle, VkSemaphore semaphore, std::uint64_t *value) {
    Device &device = devices().of(handle);
    const std::lock_guard lock(device.mutex);
    *value = device.semaphores[semaphore];
    return VK_SUCCESS;
}

VkResult VKAPI_CALL wait_for_semaphores(VkDevice, const VkSemaphoreWaitInfo *, std::uint64_t) { return VK_SUCCESS; }
VkResult VKAPI_CALL wait_for_fences(VkDevice, std::uint32_t, const VkFence *, VkBool32, std::uint64_t) {
    return VK_SUCCESS;
}
VkResult VKAPI_CALL fence_status(VkDevice, VkFence) { return VK_SUCCESS; }
VkResult VKAPI_CALL wait_for_queue(VkQueue) { return VK_SUCCESS; }
VkResult VKAPI_CALL wait_for_device(VkDevice) { return VK_SUCCESS; }

// Zeros, and available.
VkResult VKAPI_CALL query_results(VkDevice, VkQueryPool, std::uint32_t, std::uint32_t count, std::size_t size,
                                  void *data, VkDeviceSize stride, VkQueryResultFlags flags) {
    std::memset(data, 0, size);
    const std::size_t width = (flags & VK_QUERY_RESULT_64_BIT) != 0 ? sizeof(std::uint64_t) : sizeof(std::uint32_t);
    const std::uint64_t available = 1;
    for (std::size_t i = 0; (flags & VK_QUERY_RESULT_WITH_AVAILABILITY_BIT) != 0 && i < count; ++i)
        if (const std::size_t at = i * stride + width; at + width <= size) // behind a result of one number
            std::memcpy(static_cast<char *>(data) + at, &available, width);
    return VK_SUCCESS;
}

// ---- what the loader asks for

PFN_vkVoidFunction VKAPI_CALL instance_function(VkInstance instance, const char *name);
PFN_vkVoidFunction VKAPI_CALL device_function(VkDevice device, const char *name);

PFN_vkVoidFunction find_in(const std::unordered_map<std::string_view, PFN_vkVoidFunction> &all, const char *name) {
    const auto found = all.find(name);
    return found != all.end() ? found->second : nullptr;
}

template <class Function>
PFN_vkVoidFunction erased(Function *function) {
    return reinterpret_cast<PFN_vkVoidFunction>(function);
}

PFN_vkVoidFunction our_instance_function(const char *name) {
    static const std::unordered_map<std::string_view, PFN_vkVoidFunction> all = {
        {"vkGetInstanceProcAddr", erased(instance_function)},
        {"vkCreateInstance", erased(create_instance)},
        {"vkDestroyInstance", erased(destroy_instance)},
        {"vkCreateDevice", erased(create_device)},
    };
    return find_in(all, name);
}

PFN_vkVoidFunction our_device_function(const char *name) {
    static const std::unordered_map<std::string_view, PFN_vkVoidFunction> all = {
        {"vkGetDeviceProcAddr", erased(device_function)},
        {"vkDestroyDevice", erased(destroy_device)},
        {"vkCreateShaderModule", erased(create_shader_module)},
        {"vkDestroyShaderModule", erased(destroy_shader_module)},
        {"vkCreateComputePipelines", erased(create_compute_pipelines)},
        {"vkSetDebugUtilsObjectNameEXT", erased(set_object_name)},
        {"vkQueueSubmit", erased(submit)},
        {"vkQueueSubmit2", erased(submit2)},
        {"vkQueueSubmit2KHR", erased(submit2)},
        {"vkCreateSemaphore", erased(create_semaphore)},
        {"vkDestroySemaphore", erased(destroy_semaphore)},
        {"vkSignalSemaphore", erased(signal_semaphore)},
        {"vkSignalSemaphoreKHR", erased(signal_semaphore)},
        {"vkGetSemaphoreCounterValue", erased(semaphore_value)},
        {"vkGetSemaphoreCounterValueKHR", erased(semaphore_value)},
        {"vkWaitSemaphores", erased(wait_for_semaphores)},
        {"vkWaitSemaphoresKHR", erased(wait_for_semaphores)},
        {"vkWaitForFences", erased(wait_for_fences)},
        {"vkGetFenceStatus", erased(fence_status)},
        {"vkQueueWaitIdle", erased(wait_for_queue)},
        {"vkDeviceWaitIdle", erased(wait_for_device)},
        {"vkGetQueryPoolResults", erased(query_results)},
    };
    return find_in(all, name);
}

// A function that the device lacks stays absent, but for names, which the layer takes itself.
PFN_vkVoidFunction VKAPI_CALL device_function(VkDevice device, const char *name) {
    const PFN_vkVoidFunction ours = our_device_function(name);
    const PFN_vkVoidFunction next = devices().of(device).next(device, name);
    const bool always = std::string_view(name) == "vkSetDebugUtilsObjectNameEXT";
    return ours != nullptr && (next != nullptr || always) ? ours : next;
}

PFN_vkVoidFunction VKAPI_CALL instance_function(VkInstance instance, const char *name) {
    if (const PFN_vkVoidFunction ours = our_instance_function(name); ours != nullptr) return ours;
    if (instance == VK_NULL_HANDLE) return nullptr;
    const PFN_vkVoidFunction next = instances().of(instance).next(instance, name);
    const PFN_vkVoidFunction ours = our_device_function(name);
    return ours != nullptr && next != nullptr ? ours : next;
}

} // namespace

} // namespace vkattn::gpu_lab

extern "C" __attribute__((visibility("default"))) VKAPI_ATTR VkResult VKAPI_CALL
vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface *version) {
    if (version->loaderLayerInterfaceVersion < 2) return VK_ERROR_INITIALIZATION_FAILED;
    version->loaderLayerInterfaceVersion = 2;
    version->pfnGetInstanceProcAddr = vkattn::gpu_lab::instance_function;
    version->pfnGetDeviceProcAddr = vkattn::gpu_lab::device_function;
    version->pfnGetPhysicalDeviceProcAddr = nullptr;
    return VK_SUCCESS;
}
