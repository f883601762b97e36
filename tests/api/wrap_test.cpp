// Embedding: the caller's own instance, device, command buffers and descriptor pools.
#include "compare.hpp"
#include "device.hpp"

#include <doctest/doctest.h>
#include <vulkan/vulkan.h>

#include <algorithm>
#include <array>
#include <cstring>

using namespace vkattn_test;

namespace {

void require_vk(VkResult result) { REQUIRE(result == VK_SUCCESS); }

VKAPI_ATTR VkBool32 VKAPI_CALL on_message(VkDebugUtilsMessageSeverityFlagBitsEXT, VkDebugUtilsMessageTypeFlagsEXT,
                                          const VkDebugUtilsMessengerCallbackDataEXT *data, void *user) {
    static_cast<ValidationMessages *>(user)->add(data->pMessage);
    return VK_FALSE;
}

// An application that owns all its Vulkan objects, as one that embeds the library does.
class Application {
  public:
    explicit Application(bool with_wanted_extensions) {
        create_instance();
        choose_physical_device();
        create_device(with_wanted_extensions);
        const VkCommandPoolCreateInfo pool{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, nullptr, 0, queue_family};
        require_vk(vkCreateCommandPool(device, &pool, nullptr, &command_pool));
    }

    ~Application() {
        vkDestroyCommandPool(device, command_pool, nullptr);
        vkDestroyDevice(device, nullptr);
        if (messenger != VK_NULL_HANDLE) {
            const auto destroy = reinterpret_cast<PFN_vkDestroyDebugUtilsMessengerEXT>(
                vkGetInstanceProcAddr(instance, "vkDestroyDebugUtilsMessengerEXT"));
            destroy(instance, messenger, nullptr);
        }
        vkDestroyInstance(instance, nullptr);
    }

    Application(const Application &) = delete;
    Application &operator=(const Application &) = delete;

    vkattn_context_info context_info() const {
        vkattn_context_info info{};
        info.get_instance_proc_addr = vkGetInstanceProcAddr;
        info.instance = instance;
        info.physical_device = physical_device;
        info.device = device;
        info.queue = queue;
        info.queue_family = queue_family;
        info.api_version = VK_API_VERSION_1_1;
        info.enabled_extensions = extensions.data();
        info.enabled_extension_count = static_cast<std::uint32_t>(extensions.size());
        return info;
    }

    VkCommandBuffer begin() {
        VkCommandBufferAllocateInfo allocate{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, nullptr, command_pool,
                                             VK_COMMAND_BUFFER_LEVEL_PRIMARY, 1};
        VkCommandBuffer command_buffer = VK_NULL_HANDLE;
        require_vk(vkAllocateCommandBuffers(device, &allocate, &command_buffer));
        VkCommandBufferBeginInfo info{};
        info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
        require_vk(vkBeginCommandBuffer(command_buffer, &info));
        return command_buffer;
    }

    void submit_and_wait(VkCommandBuffer command_buffer) {
        require_vk(vkEndCommandBuffer(command_buffer));
        VkSubmitInfo submit{};
        submit.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
        submit.commandBufferCount = 1;
        submit.pCommandBuffers = &command_buffer;
        require_vk(vkQueueSubmit(queue, 1, &submit, VK_NULL_HANDLE));
        require_vk(vkQueueWaitIdle(queue));
    }

    VkInstance instance = VK_NULL_HANDLE;
    VkDebugUtilsMessengerEXT messenger = VK_NULL_HANDLE;
    VkPhysicalDevice physical_device = VK_NULL_HANDLE;
    VkDevice device = VK_NULL_HANDLE;
    VkQueue queue = VK_NULL_HANDLE;
    std::uint32_t queue_family = 0;
    VkCommandPool command_pool = VK_NULL_HANDLE;
    std::vector<const char *> extensions;

  private:
    void create_instance() {
        VkApplicationInfo application{};
        application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
        application.apiVersion = VK_API_VERSION_1_1;
        VkInstanceCreateInfo create{};
        create.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
        create.pApplicationInfo = &application;
        const char *layer = "VK_LAYER_KHRONOS_validation";
        const char *extension = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
        if (validation_wanted()) {
            create.enabledLayerCount = create.enabledExtensionCount = 1;
            create.ppEnabledLayerNames = &layer;
            create.ppEnabledExtensionNames = &extension;
        }
        require_vk(vkCreateInstance(&create, nullptr, &instance));
        if (validation_wanted()) create_messenger();
    }

    void create_messenger() {
        VkDebugUtilsMessengerCreateInfoEXT create{};
        create.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT;
        create.messageSeverity =
            VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT;
        create.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT;
        create.pfnUserCallback = on_message;
        create.pUserData = &validation_messages();
        const auto function = reinterpret_cast<PFN_vkCreateDebugUtilsMessengerEXT>(
            vkGetInstanceProcAddr(instance, "vkCreateDebugUtilsMessengerEXT"));
        require_vk(function(instance, &create, nullptr, &messenger));
    }

    // The device of the other tests.
    void choose_physical_device() {
        std::uint32_t count = 0;
        require_vk(vkEnumeratePhysicalDevices(instance, &count, nullptr));
        std::vector<VkPhysicalDevice> devices(count);
        require_vk(vkEnumeratePhysicalDevices(instance, &count, devices.data()));
        for (const VkPhysicalDevice candidate : devices) {
            VkPhysicalDeviceProperties properties{};
            vkGetPhysicalDeviceProperties(candidate, &properties);
            if (std::strcmp(properties.deviceName, test_device().facts().name) == 0) physical_device = candidate;
        }
        REQUIRE(physical_device != VK_NULL_HANDLE);
        vkGetPhysicalDeviceQueueFamilyProperties(physical_device, &count, nullptr);
        std::vector<VkQueueFamilyProperties> families(count);
        vkGetPhysicalDeviceQueueFamilyProperties(physical_device, &count, families.data());
        const auto compute = std::ranges::find_if(
            families, [](const auto &family) { return (family.queueFlags & VK_QUEUE_COMPUTE_BIT) != 0; });
        queue_family = static_cast<std::uint32_t>(compute - families.begin());
    }

    void choose_extensions() {
        std::uint32_t count = 0;
        vkattn_wanted_extensions(&count, nullptr);
        std::vector<const char *> wanted(count);
        vkattn_wanted_extensions(&count, wanted.data());
        require_vk(vkEnumerateDeviceExtensionProperties(physical_device, nullptr, &count, nullptr));
        std::vector<VkExtensionProperties> available(count);
        require_vk(vkEnumerateDeviceExtensionProperties(physical_device, nullptr, &count, available.data()));
        for (const char *name : wanted) {
            const auto is_it = [&](const auto &extension) { return std::strcmp(extension.extensionName, name) == 0; };
            if (std::ranges::any_of(available, is_it)) extensions.push_back(name);
        }
    }

    void create_device(bool with_wanted_extensions) {
        if (with_wanted_extensions) choose_extensions();
        const float priority = 1.0f;
        const VkDeviceQueueCreateInfo queues{
            VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, nullptr, 0, queue_family, 1, &priority};
        VkDeviceCreateInfo create{};
        create.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
        create.queueCreateInfoCount = 1;
        create.pQueueCreateInfos = &queues;
        create.enabledExtensionCount = static_cast<std::uint32_t>(extensions.size());
        create.ppEnabledExtensionNames = extensions.data();
        require_vk(vkCreateDevice(physical_device, &create, nullptr, &device));
        vkGetDeviceQueue(device, queue_family, 0, &queue);
    }
};

class DescriptorPool {
  public:
    // Room for exactly what the plans require.
    DescriptorPool(VkDevice device, std::span<const vkattn::Plan *const> plans) : device_(device) {
        std::uint32_t sets = 0;
        VkDescriptorPoolSize sizes[] = {{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 0}, {VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER, 0}};
        for (const vkattn::Plan *plan : plans) {
            sets += plan->requirements().descriptor_sets;
            sizes[0].descriptorCount += plan->requirements().storage_buffer_descriptors;
            sizes[1].descriptorCount += plan->requirements().uniform_buffer_descriptors;
        }
        if (sets == 0) return;
        const VkDescriptorPoolCreateInfo create{
            VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO, nullptr, 0, sets, 2, sizes};
        require_vk(vkCreateDescriptorPool(device, &create, nullptr, &handle_));
    }
    ~DescriptorPool() { vkDestroyDescriptorPool(device_, handle_, nullptr); }
    DescriptorPool(const DescriptorPool &) = delete;
    DescriptorPool &operator=(const DescriptorPool &) = delete;

    VkDescriptorPool get() const { return handle_; }

  private:
    VkDevice device_;
    VkDescriptorPool handle_ = VK_NULL_HANDLE;
};

void compute_barrier(VkCommandBuffer command_buffer) {
    const VkMemoryBarrier barrier{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, VK_ACCESS_SHADER_WRITE_BIT,
                                  VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT};
    vkCmdPipelineBarrier(command_buffer, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0,
                         1, &barrier, 0, nullptr, 0, nullptr);
}

AttentionProblem chain_problem() {
    std::mt19937 random(41);
    AttentionProblem problem;
    problem.query = normal_tensor(VKATTN_TYPE_F32, {1, 2, 9, 16}, random);
    problem.key = normal_tensor(VKATTN_TYPE_F32, {1, 2, 35, 16}, random);
    problem.value = normal_tensor(VKATTN_TYPE_F32, {1, 2, 35, 16}, random);
    return problem;
}

// Attention, then attention again with the first output as the query, in one command buffer.
HostTensor run_chain(Application &app, const vkattn::Context &context, const AttentionProblem &p) {
    AttentionResults results;
    results.output = HostTensor(VKATTN_TYPE_F32, p.query.shape());
    const vkattn::Plan first = context.attention_plan(describe(p, results, VKATTN_KERNEL_FLASH));
    const vkattn::Plan second = context.attention_plan(describe(p, results, VKATTN_KERNEL_UNFUSED));
    const std::array plans = {&first, &second};
    const DescriptorPool pool(app.device, plans);
    vkattn::Buffer query = context.buffer(p.query.view());
    vkattn::Buffer key = context.buffer(p.key.view());
    vkattn::Buffer value = context.buffer(p.value.view());
    const vkattn::Buffer between = context.buffer(p.query.view());
    const vkattn::Buffer output = context.buffer(p.query.view());
    const std::uint64_t workspace_bytes =
        std::max(first.requirements().workspace_bytes, second.requirements().workspace_bytes);
    const vkattn::Buffer workspace = context.buffer(std::max<std::uint64_t>(workspace_bytes, 4));
    query.write(p.query.bytes());
    key.write(p.key.bytes());
    value.write(p.value.bytes());
    const auto bindings = [&](const vkattn::Plan &plan, const vkattn::Buffer &from, const vkattn::Buffer &to) {
        std::vector<vkattn_binding> list = {vkattn::bind(VKATTN_ROLE_QUERY, from), vkattn::bind(VKATTN_ROLE_KEY, key),
                                            vkattn::bind(VKATTN_ROLE_VALUE, value),
                                            vkattn::bind(VKATTN_ROLE_OUTPUT, to)};
        if (plan.requirements().workspace_bytes > 0) list.push_back(vkattn::bind(VKATTN_ROLE_WORKSPACE, workspace));
        return list;
    };
    const VkCommandBuffer command_buffer = app.begin();
    first.record(command_buffer, bindings(first, query, between), pool.get());
    compute_barrier(command_buffer);
    second.record(command_buffer, bindings(second, between, output), pool.get());
    app.submit_and_wait(command_buffer);
    output.read(results.output.bytes());
    return results.output;
}

void check_chain(bool with_wanted_extensions) {
    Application app(with_wanted_extensions);
    const vkattn::Context context(app.context_info());
    AttentionProblem problem = chain_problem();
    const HostTensor actual = run_chain(app, context, problem);
    const AttentionReference first = reference_attention(problem);
    for (std::uint64_t i = 0; i < first.output.size(); ++i) problem.query.set(i, static_cast<float>(first.output[i]));
    const Comparison comparison = compare("output", actual.shape(), reference_attention(problem).output,
                                          actual.floats(), nmse_bound({VKATTN_TYPE_F32}));
    CHECK_MESSAGE(comparison.passed, comparison.report);
}

} // namespace

TEST_SUITE_BEGIN("api.wrap");

TEST_CASE_FIXTURE(DeviceTest, "a device with no feature and no extension at all, two plans in one command buffer") {
    check_chain(false);
}

TEST_CASE_FIXTURE(DeviceTest, "a device with the wanted extensions, two plans in one command buffer") {
    check_chain(true);
}

TEST_CASE_FIXTURE(DeviceTest, "without push descriptors a plan asks for a pool and refuses to do without") {
    Application app(false);
    const vkattn::Context context(app.context_info());
    CHECK(context.facts().push_descriptors == 0);
    const AttentionProblem problem = chain_problem();
    AttentionResults results;
    results.output = HostTensor(VKATTN_TYPE_F32, problem.query.shape());
    const vkattn::Plan plan = context.attention_plan(describe(problem, results, VKATTN_KERNEL_FLASH));
    CHECK(plan.requirements().descriptor_sets > 0);
    CHECK(plan.requirements().storage_buffer_descriptors >= 4);
    const vkattn::Buffer buffer = context.buffer(problem.key.view());
    std::vector<vkattn_binding> bindings;
    for (const auto role : {VKATTN_ROLE_QUERY, VKATTN_ROLE_KEY, VKATTN_ROLE_VALUE, VKATTN_ROLE_OUTPUT}) {
        bindings.push_back(vkattn::bind(role, buffer));
    }
    if (plan.requirements().workspace_bytes > 0) bindings.push_back(vkattn::bind(VKATTN_ROLE_WORKSPACE, buffer));
    const vkattn_record_info info{app.begin(), VK_NULL_HANDLE, bindings.data(),
                                  static_cast<std::uint32_t>(bindings.size()), nullptr};
    CHECK(vkattn_record(plan.get(), &info) == VKATTN_ERROR_INVALID_ARGUMENT);
    CHECK(std::string(vkattn_last_error()).find("descriptor_pool") != std::string::npos);
}

TEST_CASE_FIXTURE(DeviceTest, "recording demands the workspace that running would bring") {
    Application app(true);
    const vkattn::Context context(app.context_info());
    const AttentionProblem problem = chain_problem();
    AttentionResults results;
    results.output = HostTensor(VKATTN_TYPE_F32, problem.query.shape());
    const vkattn::Plan plan = context.attention_plan(describe(problem, results, VKATTN_KERNEL_UNFUSED));
    REQUIRE(plan.requirements().workspace_bytes > 0);
    const vkattn::Buffer buffer = context.buffer(problem.key.view());
    std::vector<vkattn_binding> bindings;
    for (const auto role : {VKATTN_ROLE_QUERY, VKATTN_ROLE_KEY, VKATTN_ROLE_VALUE, VKATTN_ROLE_OUTPUT}) {
        bindings.push_back(vkattn::bind(role, buffer));
    }
    const std::array plans = {&plan};
    const DescriptorPool pool(app.device, plans);
    const vkattn_record_info info{app.begin(), pool.get(), bindings.data(), static_cast<std::uint32_t>(bindings.size()),
                                  nullptr};
    CHECK(vkattn_record(plan.get(), &info) == VKATTN_ERROR_INVALID_ARGUMENT);
    CHECK(std::string(vkattn_last_error()).find("workspace") != std::string::npos);
}

TEST_CASE_FIXTURE(DeviceTest, "the queue is used under the caller's lock only") {
    Application app(false);
    struct Lock {
        int depth = 0;
        int locked = 0;
    } lock;
    vkattn_context_info info = app.context_info();
    info.lock_user = &lock;
    info.lock_queue = [](void *user) {
        auto *l = static_cast<Lock *>(user);
        ++l->locked;
        ++l->depth;
    };
    info.unlock_queue = [](void *user) { --static_cast<Lock *>(user)->depth; };
    const vkattn::Context context(info);
    vkattn::Buffer buffer = context.buffer(1024);
    buffer.write(std::vector<float>(256, 1.0f));
    vkattn_attention_desc desc{};
    for (vkattn_tensor *t : {&desc.query, &desc.key, &desc.value, &desc.output}) {
        *t = vkattn::tensor(VKATTN_TYPE_F32, {1, 1, 4, 8});
    }
    const int before = lock.locked;
    context.attention_plan(desc).run(
        {vkattn::bind(VKATTN_ROLE_QUERY, buffer, 0), vkattn::bind(VKATTN_ROLE_KEY, buffer, 128),
         vkattn::bind(VKATTN_ROLE_VALUE, buffer, 256), vkattn::bind(VKATTN_ROLE_OUTPUT, buffer, 384)});
    CHECK(lock.locked > before);
    CHECK(lock.depth == 0);
}

TEST_SUITE_END();
