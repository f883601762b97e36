#include "runtime/vulkan/context.hpp"

#include "runtime/device/device_overrides.hpp"
#include "runtime/device/emulated_subgroups.hpp"
#include "runtime/support/error.hpp"
#include "runtime/support/structures.hpp"
#include "runtime/vulkan/device_query.hpp"
#include "runtime/vulkan/devices.hpp"
#include "runtime/vulkan/feature_chain.hpp"
#include "runtime/vulkan/handles.hpp"
#include "runtime/vulkan/memory.hpp"
#include "runtime/vulkan/submissions.hpp"
#include "runtime/vulkan/uniforms.hpp"

#include <algorithm>
#include <mutex>
#include <new>
#include <span>

namespace vkattn {
namespace {

constexpr const char *kValidationLayer = "VK_LAYER_KHRONOS_validation";

bool has_layer(const Functions &vk, const char *name) {
    uint32_t count = 0;
    check(vk.vkEnumerateInstanceLayerProperties(&count, nullptr), "vkEnumerateInstanceLayerProperties");
    std::vector<VkLayerProperties> layers(count);
    check(vk.vkEnumerateInstanceLayerProperties(&count, layers.data()), "vkEnumerateInstanceLayerProperties");
    return std::any_of(layers.begin(), layers.end(),
                       [&](const VkLayerProperties &layer) { return std::string(layer.layerName) == name; });
}

std::vector<std::string> extensions_of(const vkattn_context_info &info) {
    return {info.enabled_extensions, info.enabled_extensions + info.enabled_extension_count};
}

std::span<const vkattn_trait> traits_of(const vkattn_context_info &info) {
    require(info.traits != nullptr || info.trait_count == 0, "traits: NULL, expected trait_count traits");
    return {info.traits, info.trait_count};
}

// Whether the device knows timeline semaphores. One of our own is made with them where they are a part of Vulkan.
bool has_timelines(const vkattn_context_info &info, const DeviceCaps &caps) {
    return caps.api_version >= VK_API_VERSION_1_2 ||
           (info.device != VK_NULL_HANDLE &&
            has_extension(extensions_of(info), VK_KHR_TIMELINE_SEMAPHORE_EXTENSION_NAME));
}

void require_capture(vkattn_shader_capture capture, const DeviceCaps &caps) {
    require(capture >= VKATTN_SHADER_CAPTURE_NONE && capture <= VKATTN_SHADER_CAPTURE_TEXTS,
            "capture_shaders: ", static_cast<int>(capture), " is unknown, expected a vkattn_shader_capture");
    if (capture != VKATTN_SHADER_CAPTURE_NONE && !caps.features.pipeline_executable_info)
        fail(VKATTN_ERROR_UNSUPPORTED, "device ", caps.name,
             ": no VK_KHR_pipeline_executable_properties, expected a driver that has it, and a device created with it "
             "and its feature pipelineExecutableInfo, to capture shaders");
}

} // namespace

Context::Context(const vkattn_context_info &info)
    : message_callback_(info.message_callback), message_user_(info.message_user), submit_(info.submit),
      submit_user_(info.submit_user) {
    try {
        set_memory_callbacks(info.memory);
        vk_ = load_global_functions(info.get_instance_proc_addr);
        if (info.device != VK_NULL_HANDLE)
            borrow(info);
        else
            create_own(info);
        if constexpr (kSubgroupsAreEmulated) emulate_subgroups(caps_);
        override_caps(caps_, traits_of(info));
        require_capture(info.capture_shaders, caps_);
        has_memory_budget_ =
            has_extension(device_extensions(vk_, physical_device_), VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
        debug_labels_.emplace(vk_, device_, info.debug_labels != 0);
        pipelines_ =
            std::make_unique<Pipelines>(vk_, device_, info.pipeline_cache, caps_, info.capture_shaders, *debug_labels_);
        staging_ = std::make_unique<Staging>(*this);
        submissions_ = std::make_unique<Submissions>(*this, has_timelines(info, caps_));
        uniforms_ = std::make_unique<Uniforms>(*this);
    } catch (...) {
        destroy();
        throw;
    }
}

Context::~Context() { destroy(); }

void Context::set_journal(std::shared_ptr<CrashJournal> journal, uint64_t device) {
    journal_ = std::move(journal);
    journal_device_ = device;
    pipelines_->set_journal(journal_, device);
}

void Context::read_matrices() {
    const bool are_emulated = caps_.matrix_shape_count != 0;
    if (may_use_matrices(caps_) && !are_emulated) {
        const Attempt asked{journal_device_, 1, Stage::kQuery, 0, 0, "matrix shapes"};
        Trying trying(journal_, {&asked, 1});
        if (journal_ != nullptr && journal_->has_failed(asked)) return warn("vkattn: " + failure_text(asked));
        vkattn::read_matrices(vk_, physical_device_, caps_);
        trying.end(CrashJournal::Outcome::kSurvived);
    }
    caps_.matrices_are_unasked = false;
    add_matrix_shape(caps_);
}

void Context::set_memory_callbacks(const vkattn_memory_callbacks *memory) {
    if (memory == nullptr) return;
    const vkattn_memory_callbacks given = sized(memory, "memory");
    require(given.allocate != nullptr && given.free != nullptr, "memory: allocate or free is NULL, expected both");
    memory_ = given;
}

void Context::destroy() noexcept {
    submissions_.reset(); // waits, and lets go of staging
    if (is_abandoned()) return leak();
    uniforms_.reset();
    staging_.reset();
    pipelines_.reset();
    if (!owns_device_) return;
    if (device_ != VK_NULL_HANDLE && vk_.vkDestroyDevice != nullptr) vk_.vkDestroyDevice(device_, nullptr);
    if (messenger_ != VK_NULL_HANDLE) vk_.vkDestroyDebugUtilsMessengerEXT(instance_, messenger_, nullptr);
    if (instance_ != VK_NULL_HANDLE && vk_.vkDestroyInstance != nullptr) vk_.vkDestroyInstance(instance_, nullptr);
}

// Nothing that the device may use is destroyed, nor is the loader closed.
void Context::leak() noexcept {
    static_cast<void>(uniforms_.release());
    static_cast<void>(staging_.release());
    static_cast<void>(pipelines_.release());
    static_cast<void>(new (std::nothrow) std::shared_ptr<void>(vk_.loader));
}

void Context::borrow(const vkattn_context_info &info) {
    require(info.instance != VK_NULL_HANDLE, "instance: VK_NULL_HANDLE, expected the instance of device");
    require(info.physical_device != VK_NULL_HANDLE, "physical_device: VK_NULL_HANDLE, expected that of device");
    require(info.queue != VK_NULL_HANDLE, "queue: VK_NULL_HANDLE, expected a compute queue of device");
    require(info.api_version >= VK_API_VERSION_1_1, "api_version: ", VK_API_VERSION_MAJOR(info.api_version), ".",
            VK_API_VERSION_MINOR(info.api_version), ", expected at least 1.1");
    require(info.enabled_extensions != nullptr || info.enabled_extension_count == 0,
            "enabled_extensions: NULL, expected enabled_extension_count names");
    instance_ = info.instance;
    physical_device_ = info.physical_device;
    device_ = info.device;
    queue_ = info.queue;
    queue_family_ = info.queue_family;
    transfer_queue_ = info.transfer_queue != VK_NULL_HANDLE ? info.transfer_queue : queue_;
    transfer_queue_family_ = info.transfer_queue != VK_NULL_HANDLE ? info.transfer_queue_family : queue_family_;
    load_instance_functions(vk_, instance_);
    load_device_functions(vk_, device_);
    const std::vector<std::string> extensions = extensions_of(info);
    caps_ = read_device_caps(vk_, physical_device_, info.api_version, extensions);
    caps_.features = enabled_device_features(info.enabled_features);
    require(info.buffers_have_addresses == 0 || vk_.vkGetBufferDeviceAddress != nullptr,
            "buffers_have_addresses: 1, expected 0, since device was created without bufferDeviceAddress");
    require(info.buffers_have_addresses == 0 || info.enabled_features == nullptr ||
                caps_.features.buffer_device_address,
            "buffers_have_addresses: 1, expected 0, or enabled_features with bufferDeviceAddress");
    caps_.buffers_have_addresses = info.buffers_have_addresses != 0;
    timestamp_bits_ = checked_compute_family(vk_, physical_device_, queue_family_).timestampValidBits;
    caps_.timestamps = timestamp_bits_ != 0;
    checked_queue_family(vk_, physical_device_, transfer_queue_family_, "transfer_queue_family"); // which may copy
}

void Context::create_own(const vkattn_context_info &info) {
    owns_device_ = true;
    create_instance(info);
    choose_device(info.device_selector);
    if (info.capture_shaders == VKATTN_SHADER_CAPTURE_NONE) caps_.features.pipeline_executable_info = false;
    create_device();
    load_device_functions(vk_, device_);
    vk_.vkGetDeviceQueue(device_, queue_family_, 0, &queue_);
    transfer_queue_ = queue_;
    transfer_queue_family_ = queue_family_;
    caps_.buffers_have_addresses = caps_.buffer_device_address != 0 && vk_.vkGetBufferDeviceAddress != nullptr;
}

void Context::create_instance(const vkattn_context_info &info) {
    std::vector<const char *> layers;
    std::vector<const char *> extensions;
    const VkValidationFeatureEnableEXT synchronisation = VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT;
    VkValidationFeaturesEXT validation{
        VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT, nullptr, 1, &synchronisation, 0, nullptr};
    if (info.enable_validation != 0) {
        if (!has_layer(vk_, kValidationLayer))
            fail(VKATTN_ERROR_UNSUPPORTED, "enable_validation: ", kValidationLayer,
                 " is not installed, expected it (Debian: vulkan-validationlayers)");
        layers.push_back(kValidationLayer);
    }
    if (info.enable_validation != 0 ||
        (info.debug_labels != 0 && has_instance_extension(vk_, VK_EXT_DEBUG_UTILS_EXTENSION_NAME)))
        extensions.push_back(VK_EXT_DEBUG_UTILS_EXTENSION_NAME);
    instance_ = make_instance(vk_, layers, extensions, info.enable_validation != 0 ? &validation : nullptr);
    load_instance_functions(vk_, instance_);
    if (info.enable_validation != 0) create_messenger(info);
}

void Context::create_messenger(const vkattn_context_info &info) {
    if (info.message_callback == nullptr || vk_.vkCreateDebugUtilsMessengerEXT == nullptr) return;
    VkDebugUtilsMessengerCreateInfoEXT create{};
    create.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT;
    create.messageSeverity =
        VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT;
    create.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT;
    create.pfnUserCallback = on_message;
    create.pUserData = this;
    make_handle(messenger_, "vkCreateDebugUtilsMessengerEXT", vk_.vkCreateDebugUtilsMessengerEXT, instance_, &create,
                nullptr);
}

VkBool32 Context::on_message(VkDebugUtilsMessageSeverityFlagBitsEXT severity, VkDebugUtilsMessageTypeFlagsEXT,
                             const VkDebugUtilsMessengerCallbackDataEXT *data, void *user) {
    const auto *context = static_cast<const Context *>(user);
    const bool is_error = severity >= VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
    context->message_callback_(context->message_user_, is_error ? VKATTN_SEVERITY_ERROR : VKATTN_SEVERITY_WARNING,
                               data->pMessage);
    return VK_FALSE;
}

void Context::choose_device(const char *selector) {
    const std::vector<ListedDevice> devices = list_devices(vk_, instance_);
    const ListedDevice chosen = select_device(devices, selector == nullptr ? "" : selector);
    physical_device_ = chosen.handle;
    caps_ = chosen.caps;
    if (caps_.api_version < VK_API_VERSION_1_1)
        fail(VKATTN_ERROR_NO_DEVICE, "device ", caps_.name, ": Vulkan ", VK_API_VERSION_MAJOR(caps_.api_version), ".",
             VK_API_VERSION_MINOR(caps_.api_version), ", expected at least 1.1");
    queue_family_ = compute_queue_family(vk_, physical_device_, caps_.name);
    timestamp_bits_ = checked_compute_family(vk_, physical_device_, queue_family_).timestampValidBits;
    caps_.timestamps = timestamp_bits_ != 0;
}

void Context::create_device() {
    const std::vector<std::string> available = device_extensions(vk_, physical_device_);
    std::vector<const char *> enabled;
    const auto enable = [&](const char *name) {
        if (std::find(available.begin(), available.end(), name) != available.end()) enabled.push_back(name);
    };
    for (const char *name : wanted_device_extensions()) enable(name);
    enable("VK_KHR_portability_subset"); // a device that has it demands it
    if (caps_.features.pipeline_executable_info) enable(VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME);

    const float priority = 1.0f;
    VkDeviceQueueCreateInfo queue{};
    queue.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
    queue.queueFamilyIndex = queue_family_;
    queue.queueCount = 1;
    queue.pQueuePriorities = &priority;
    const FeatureChain features(caps_.features);
    VkPhysicalDeviceTimelineSemaphoreFeatures timelines{};
    timelines.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES;
    timelines.pNext = const_cast<void *>(features.head()); // only read
    timelines.timelineSemaphore = VK_TRUE;                 // which every device of Vulkan 1.2 has
    VkDeviceCreateInfo create{};
    create.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
    create.pNext = caps_.api_version >= VK_API_VERSION_1_2 ? &timelines : features.head();
    create.queueCreateInfoCount = 1;
    create.pQueueCreateInfos = &queue;
    create.enabledExtensionCount = static_cast<uint32_t>(enabled.size());
    create.ppEnabledExtensionNames = enabled.data();
    make_handle(device_, "vkCreateDevice", vk_.vkCreateDevice, physical_device_, &create, nullptr);
}

void Context::warn(const std::string &message) const {
    if (message_callback_ != nullptr) message_callback_(message_user_, VKATTN_SEVERITY_WARNING, message.c_str());
}

void Context::add_buffer(VkBuffer buffer, uint64_t bytes) {
    const std::lock_guard lock(buffers_mutex_);
    buffers_[buffer] = {bytes, {}};
}

void Context::remove_buffer(VkBuffer buffer) noexcept {
    const std::lock_guard lock(buffers_mutex_);
    buffers_.erase(buffer);
}

std::optional<uint64_t> Context::buffer_bytes(VkBuffer buffer) const {
    const std::lock_guard lock(buffers_mutex_);
    const auto found = buffers_.find(buffer);
    return found == buffers_.end() ? std::nullopt : std::optional(found->second.bytes);
}

void Context::share_buffer(VkBuffer buffer, std::weak_ptr<const void> owner) {
    const std::lock_guard lock(buffers_mutex_);
    buffers_[buffer].owner = std::move(owner);
}

std::shared_ptr<const void> Context::keep_buffer(VkBuffer buffer) const {
    const std::lock_guard lock(buffers_mutex_);
    const auto found = buffers_.find(buffer);
    return found == buffers_.end() ? nullptr : found->second.owner.lock();
}

VkResult Context::submit(VkQueue queue, uint32_t count, const VkSubmitInfo *submits, VkFence fence) {
    if (submit_ != nullptr) return submit_(submit_user_, queue, count, submits, fence);
    const std::lock_guard lock(queue_mutex_);
    return vk_.vkQueueSubmit(queue, count, submits, fence);
}

std::vector<DeviceCaps> enumerate_devices(PFN_vkGetInstanceProcAddr get_instance_proc_addr) {
    Functions vk = load_global_functions(get_instance_proc_addr);
    const VkInstance instance = make_instance(vk, {}, {}, nullptr);
    std::vector<DeviceCaps> all;
    try {
        load_instance_functions(vk, instance);
        for (const ListedDevice &device : list_devices(vk, instance)) all.push_back(device.caps);
    } catch (...) {
        if (vk.vkDestroyInstance != nullptr) vk.vkDestroyInstance(instance, nullptr);
        throw;
    }
    vk.vkDestroyInstance(instance, nullptr);
    return all;
}

} // namespace vkattn
