// Embedding: the caller's own instance, device, command buffers and descriptor pools.
#include "application.hpp"
#include "compare.hpp"
#include "counted_vulkan.hpp"
#include "device.hpp"
#include "small_decoder.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <mutex>
#include <thread>

using namespace vkattn_test;

namespace {

class DescriptorPool {
  public:
    // Room for exactly what the plans require.
    DescriptorPool(VkDevice device, std::span<const vkattn::Plan *const> plans) : device_(device) {
        std::vector<vkattn_requirements> each;
        for (const vkattn::Plan *plan : plans) each.push_back(plan->requirements());
        const vkattn_requirements needed = vkattn::together(each);
        if (needed.descriptor_sets == 0) return;
        const std::vector<VkDescriptorPoolSize> sizes = vkattn::descriptor_pool_sizes(needed);
        const VkDescriptorPoolCreateInfo create{
            VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO, nullptr,     0, needed.descriptor_sets,
            static_cast<std::uint32_t>(sizes.size()),      sizes.data()};
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
    Application app({.wanted_extensions = with_wanted_extensions});
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
    Application app;
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
    CHECK_THROWS_WITH_AS(plan.record(app.begin(), bindings), doctest::Contains("descriptor_pool"), vkattn::Error);
}

TEST_CASE_FIXTURE(DeviceTest, "recording demands the workspace that running would bring") {
    Application app({.wanted_extensions = true});
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
    CHECK_THROWS_WITH_AS(plan.record(app.begin(), bindings, pool.get()), doctest::Contains("workspace"), vkattn::Error);
}

TEST_CASE_FIXTURE(DeviceTest, "addresses beside a chain of features without them are refused") {
    const Application app({.addresses = true});
    vkattn_context_info info = app.context_info();
    VkPhysicalDeviceBufferDeviceAddressFeatures addresses{};
    addresses.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES;
    VkPhysicalDeviceFeatures2 features{};
    features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    features.pNext = &addresses;
    info.buffers_have_addresses = 1;
    info.enabled_features = &features;
    CHECK_THROWS_WITH_AS(vkattn::Context{info}, doctest::Contains("buffers_have_addresses: 1, expected 0"),
                         vkattn::Error);
    if (!app.has_addresses) return;
    addresses.bufferDeviceAddress = VK_TRUE;
    for (const VkPhysicalDeviceFeatures2 *chain : {&features, static_cast<VkPhysicalDeviceFeatures2 *>(nullptr)}) {
        info.enabled_features = chain;
        const vkattn::Context context(info);
        CHECK(context.facts().buffers_have_addresses == 1);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "the queue is used by the caller's function only, whose failure is the call's") {
    Application app;
    struct Submissions {
        int count = 0;
        VkResult failure = VK_SUCCESS;
    } submissions;
    vkattn_context_info info = app.context_info();
    info.get_instance_proc_addr = counted_instance_function; // which the function does not call
    info.submit_user = &submissions;
    info.submit = [](void *user, VkQueue queue, std::uint32_t count, const VkSubmitInfo *submits, VkFence fence) {
        auto &own = *static_cast<Submissions *>(user);
        ++own.count;
        return own.failure != VK_SUCCESS ? own.failure : vkQueueSubmit(queue, count, submits, fence);
    };
    vulkan_calls().clear();
    const vkattn::Context context(info);
    vkattn::Buffer buffer = context.buffer(1024);
    buffer.write(std::vector<float>(256, 1.0f));
    vkattn_attention_desc desc{};
    for (vkattn_tensor *t : {&desc.query, &desc.key, &desc.value, &desc.output}) {
        *t = vkattn::tensor(VKATTN_TYPE_F32, {1, 1, 4, 8});
    }
    const vkattn::Plan plan = context.attention_plan(desc);
    const auto run = [&] {
        plan.run({vkattn::bind(VKATTN_ROLE_QUERY, buffer, 0), vkattn::bind(VKATTN_ROLE_KEY, buffer, 128),
                  vkattn::bind(VKATTN_ROLE_VALUE, buffer, 256), vkattn::bind(VKATTN_ROLE_OUTPUT, buffer, 384)});
    };
    const int before = submissions.count;
    run();
    CHECK(submissions.count > before);
    submissions.failure = VK_ERROR_OUT_OF_DEVICE_MEMORY;
    CHECK_THROWS_WITH_AS(run(), doctest::Contains("vkQueueSubmit"), vkattn::Error);
    submissions.failure = VK_SUCCESS;
    run();
    CHECK(vulkan_calls().queue_submits == 0);
}

namespace {

// An application's lock of the queue, which tells who comes to it.
struct QueueLock {
    std::mutex mutex;
    std::atomic<int> arrivals{0};

    vkattn_context_info with(vkattn_context_info info) {
        info.submit_user = this;
        info.submit = [](void *user, VkQueue queue, std::uint32_t count, const VkSubmitInfo *submits, VkFence fence) {
            auto *lock = static_cast<QueueLock *>(user);
            ++lock->arrivals;
            const std::lock_guard held(lock->mutex);
            return vkQueueSubmit(queue, count, submits, fence);
        };
        return info;
    }
};

} // namespace

// Makes every call that does not use the queue, while the application holds what submit takes and a submission of another thread
// waits for it.
TEST_CASE_FIXTURE(DeviceTest, "calls that do not use the queue go on while a submission waits for the caller's lock") {
    const Application app;
    QueueLock lock;
    const vkattn::Context context(lock.with(app.context_info()));
    vkattn_attention_desc desc{};
    for (vkattn_tensor *t : {&desc.query, &desc.key, &desc.value, &desc.output})
        *t = vkattn::tensor(VKATTN_TYPE_F32, {1, 1, 4, 8});
    const vkattn::Plan plan = context.attention_plan(desc);
    vkattn::Buffer buffer = context.buffer(1024);
    const std::vector<float> ones(256, 1.0f);
    buffer.write(ones);
    vkattn_cache_info info{};
    info.kv_heads = info.batch = 1;
    info.head_dim = info.v_head_dim = info.capacity = 8;
    info.key_type = info.value_type = VKATTN_TYPE_F32;
    const vkattn::Cache cache = context.cache(info);

    std::unique_lock held(lock.mutex);
    const int before = lock.arrivals;
    auto submission = std::async(std::launch::async, [&] { buffer.upload(ones); });
    while (lock.arrivals == before) std::this_thread::yield();
    auto others = std::async(std::launch::async, [&] {
        context.wait();
        static_cast<void>(context.facts());
        static_cast<void>(context.save());
        static_cast<void>(plan.requirements());
        static_cast<void>(plan.report());
        static_cast<void>(context.buffer(64));
        static_cast<void>(cache.lengths());
        static_cast<void>(cache.bytes());
        static_cast<void>(cache.tensor(VKATTN_CACHE_KEYS));
        static_cast<void>(cache.free_pages());
    });
    const bool went_on = others.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
    CHECK(went_on);
    CHECK(lock.arrivals == before + 1); // nobody else came
    held.unlock();
    submission.get();
    others.get();
    context.wait();
}

// What must not be called with the lock held.
TEST_CASE_FIXTURE(DeviceTest, "the calls that use the queue, and those that do not") {
    const Application app;
    QueueLock lock;
    const ContextRequest few_shaders(kFewShaders);
    vkattn_context_info with_lock = lock.with(app.context_info());
    few_shaders.give_traits(with_lock);
    const vkattn::Context context(with_lock);
    const auto uses = [&](auto &&call) {
        const int before = lock.arrivals;
        call();
        return lock.arrivals != before;
    };
    vkattn_cache_info info{};
    info.kv_heads = 1;
    info.batch = 2;
    info.head_dim = info.v_head_dim = info.page_len = 8;
    info.capacity = 16;
    info.page_count = 4;
    info.key_type = info.value_type = VKATTN_TYPE_F32;
    vkattn::Cache cache;
    CHECK(uses([&] { cache = context.cache(info); }));
    CHECK(uses([&] { cache.reserve(std::array<std::uint32_t, 2>{4, 0}); }));
    CHECK(uses([&] { cache.share_prefix(0, 1, 4); }));
    CHECK(uses([&] { cache.rewind(1, 0); }));
    CHECK(uses([&] { cache.keep(0, 0, std::array<std::uint32_t, 4>{0, 1, 2, 3}); }));
    CHECK(uses([&] { cache.copy_sequence_to(0, cache, 1); }));
    std::vector<float> keys(32);
    CHECK(uses([&] { cache.read(VKATTN_CACHE_KEYS, 0, keys); }));
    CHECK(uses([&] { static_cast<void>(context.self_test()); }));
    vkattn_attention_desc desc{};
    for (vkattn_tensor *t : {&desc.query, &desc.key, &desc.value, &desc.output})
        *t = vkattn::tensor(VKATTN_TYPE_F32, {1, 1, 4, 8});
    CHECK(uses([&] { static_cast<void>(context.tune(desc)); }));
    CHECK_FALSE(uses([&] { static_cast<void>(context.explain(desc)); }));
    vkattn::Buffer buffer = context.buffer(1024);
    std::vector<float> values(256, 1.0f);
    CHECK(uses([&] { buffer.upload(values); }));
    CHECK(uses([&] { buffer.download(values); }));
    CHECK_FALSE(uses([&] { context.wait(); }));
    vkattn::Plan plan;
    CHECK_FALSE(uses([&] { plan = context.attention_plan(desc); })); // where all kernels have been tested
    const std::array bindings = {vkattn::bind(VKATTN_ROLE_QUERY, buffer, 0), vkattn::bind(VKATTN_ROLE_KEY, buffer, 128),
                                 vkattn::bind(VKATTN_ROLE_VALUE, buffer, 256),
                                 vkattn::bind(VKATTN_ROLE_OUTPUT, buffer, 384)};
    CHECK(uses([&] { plan.run(bindings); }));
    CHECK(uses([&] { plan.submit(bindings); }));
    vkattn::Program program;
    CHECK_FALSE(uses([&] { program = context.program(std::array{vkattn::bind(plan, bindings)}); }));
    CHECK(uses([&] { program.run(); }));
    CHECK(uses([&] { program.submit(); }));
    CHECK_FALSE(uses([&] { context.wait(); })); // for the program, too
    CHECK_FALSE(uses([&] { static_cast<void>(program.report()); }));
    program.submit();
    CHECK_FALSE(uses([&] {
        static_cast<void>(context.save());
        static_cast<void>(context.facts());
        context.wait();
        program = vkattn::Program();
        plan = vkattn::Plan();
        buffer = vkattn::Buffer();
        cache = vkattn::Cache();
    }));
}

TEST_CASE_FIXTURE(DeviceTest, "what was submitted is visible to command buffers of the application that follow it") {
    const Application app;
    vkattn_context_info info = app.context_info();
    info.get_instance_proc_addr = counted_instance_function;
    const vkattn::Context context(info);
    vkattn::Buffer buffer = context.buffer(1024);
    const std::vector<float> ones(256, 1.0f);
    buffer.upload(ones);
    CHECK((VulkanCalls::last_barrier_to & VK_PIPELINE_STAGE_ALL_COMMANDS_BIT) != 0);
    CHECK((VulkanCalls::last_barrier_to & VK_PIPELINE_STAGE_HOST_BIT) != 0);
    constexpr VkAccessFlags kAll = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT;
    CHECK((VulkanCalls::last_barrier_access & kAll) == kAll);
    context.wait();
}

TEST_SUITE_END();
