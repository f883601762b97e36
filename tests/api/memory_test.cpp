// Device memory by the application, and regions and weights in buffers of its own.
#include "application.hpp"
#include "counted_vulkan.hpp"
#include "device.hpp"
#include "limited_device.hpp"
#include "skips.hpp"
#include "small_decoder.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <set>
#include <thread>

using namespace vkattn_test;

namespace {

// What an allocation is given in place of memory.
enum class Fault { kNone, kError, kErrorAfterWriting, kNoMemory, kMisaligned, kNotMapped };

// An application's allocator: every buffer gets a part of a larger memory, whose other bytes must stay as they are.
class Allocator {
  public:
    explicit Allocator(const Application &app, bool maps_device_memory = true)
        : app_(app), maps_device_memory_(maps_device_memory) {
        callbacks_.allocate = [](void *user, const vkattn_memory_request *request, vkattn_memory *memory) {
            return static_cast<Allocator *>(user)->allocate(*request, *memory);
        };
        callbacks_.free = [](void *user, const vkattn_memory *memory) {
            static_cast<Allocator *>(user)->free(*memory);
        };
        callbacks_.user = this;
    }
    Allocator(const Allocator &) = delete;
    Allocator &operator=(const Allocator &) = delete;
    ~Allocator() { CHECK(live() == 0); }

    const vkattn_memory_callbacks &callbacks() const { return callbacks_; }
    std::size_t live() const { return allocations_.size(); }
    const std::string &complaints() const { return complaints_; }

    std::size_t asked = 0; // allocations so far
    std::size_t fails_at = 0;
    Fault fault = Fault::kNone;
    VkResult error = VK_ERROR_OUT_OF_DEVICE_MEMORY;
    std::set<vkattn_memory_use> uses;

  private:
    struct Allocation {
        vkattn_memory given;
        VkDeviceMemory whole = VK_NULL_HANDLE; // VK_NULL_HANDLE: none
        std::uint8_t *mapped = nullptr;
        VkDeviceSize first = 0, last = 0, bytes = 0; // what is the buffer's, of so many bytes
    };

    VkResult allocate(const vkattn_memory_request &request, vkattn_memory &memory) {
        const std::lock_guard lock(mutex_);
        const Fault now = ++asked == fails_at ? fault : Fault::kNone;
        uses.insert(request.use);
        if (request.buffer == VK_NULL_HANDLE) complaints_ += "a request is not as described\n";
        if (now == Fault::kError) return error;
        if (now == Fault::kErrorAfterWriting) {
            std::memset(&memory, 0x5a, sizeof memory); // of a failed call nothing may be used
            return error;
        }
        auto own = std::make_unique<Allocation>();
        if (now != Fault::kNoMemory) take(request, *own);
        own->given = {own->whole, own->first, own->mapped + own->first, own.get()};
        if (request.use == VKATTN_MEMORY_DEVICE && !maps_device_memory_) own->given.mapped = nullptr;
        if (now == Fault::kMisaligned) own->given.offset += request.requirements.alignment / 2;
        if (now == Fault::kNotMapped) own->given.mapped = nullptr;
        memory = own->given;
        allocations_.push_back(std::move(own));
        return VK_SUCCESS;
    }

    void take(const vkattn_memory_request &request, Allocation &own) const {
        own.first = 3 * request.requirements.alignment;
        own.last = own.first + request.requirements.size;
        own.bytes = own.last + 64;
        VkMemoryAllocateFlagsInfo flags{};
        flags.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO;
        flags.flags = request.flags;
        VkMemoryAllocateInfo allocate{};
        allocate.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
        if (request.flags != 0) allocate.pNext = &flags;
        allocate.allocationSize = own.bytes;
        allocate.memoryTypeIndex =
            memory_type(app_.physical_device, request.requirements.memoryTypeBits,
                        VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT);
        require_vk(vkAllocateMemory(app_.device, &allocate, nullptr, &own.whole));
        void *mapped = nullptr;
        require_vk(vkMapMemory(app_.device, own.whole, 0, VK_WHOLE_SIZE, 0, &mapped));
        own.mapped = static_cast<std::uint8_t *>(mapped);
        std::memset(own.mapped, kGapByte, own.bytes);
    }

    void free(const vkattn_memory &memory) {
        const std::lock_guard lock(mutex_);
        const auto found = std::ranges::find_if(
            allocations_, [&](const auto &allocation) { return allocation.get() == memory.allocation; });
        if (found == allocations_.end()) {
            complaints_ += "memory was freed twice, or never given\n";
            return;
        }
        const Allocation &own = **found;
        if (memory.memory != own.given.memory || memory.offset != own.given.offset || memory.mapped != own.given.mapped)
            complaints_ += "memory came back other than it was given\n";
        const auto is_gap = [](std::uint8_t byte) { return byte == kGapByte; };
        if (!std::all_of(own.mapped, own.mapped + own.first, is_gap) ||
            !std::all_of(own.mapped + own.last, own.mapped + own.bytes, is_gap))
            complaints_ += "bytes beside the buffer's were written\n";
        vkFreeMemory(app_.device, own.whole, nullptr);
        allocations_.erase(found);
    }

    const Application &app_;
    bool maps_device_memory_;
    vkattn_memory_callbacks callbacks_{};
    std::mutex mutex_;
    std::vector<std::unique_ptr<Allocation>> allocations_;
    std::string complaints_;
};

// The driver's pipelines for all contexts of a test.
class PipelineCache {
  public:
    explicit PipelineCache(const Application &app) : device_(app.device) {
        VkPipelineCacheCreateInfo create{};
        create.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO;
        require_vk(vkCreatePipelineCache(device_, &create, nullptr, &handle_));
    }
    PipelineCache(const PipelineCache &) = delete;
    PipelineCache &operator=(const PipelineCache &) = delete;
    ~PipelineCache() { vkDestroyPipelineCache(device_, handle_, nullptr); }
    VkPipelineCache get() const { return handle_; }

  private:
    VkDevice device_;
    VkPipelineCache handle_ = VK_NULL_HANDLE;
};

vkattn_context_info info_of(const Application &app, const Allocator &allocator) {
    vkattn_context_info info = app.context_info();
    info.get_instance_proc_addr = counted_instance_function;
    info.memory = &allocator.callbacks();
    return info;
}

// Calls until it works: the first time it may fail for want of memory, and must say so.
void try_twice(int &failures, const std::function<void()> &call) {
    try {
        call();
    } catch (const vkattn::Error &error) {
        ++failures;
        CHECK(error.result() == VKATTN_ERROR_OUT_OF_DEVICE_MEMORY);
        CHECK_MESSAGE(std::string(error.what()).find("memory.allocate") != std::string::npos, error.what());
        call();
    }
}

// Everything in a context that takes memory, with numbers that are checked. Returns how many calls failed once.
int use_all_memory(const vkattn_context_info &info) {
    int failures = 0;
    vkattn::Context context(nullptr);
    try_twice(failures, [&] { context = vkattn::Context(info); });

    std::mt19937 random(3);
    AttentionProblem problem;
    problem.query = normal_tensor(VKATTN_TYPE_F32, {1, 2, 5, 16}, random);
    problem.key = problem.value = normal_tensor(VKATTN_TYPE_F32, {1, 2, 40, 16}, random);
    vkattn_attention_desc desc{};
    desc.query = desc.output = problem.query.view();
    desc.key = desc.value = problem.key.view();
    desc.kernel = VKATTN_KERNEL_UNFUSED;
    vkattn::Plan plan;
    try_twice(failures, [&] { plan = context.attention_plan(desc); });
    REQUIRE(plan.requirements().workspace_bytes > 0);
    std::array<vkattn::Buffer, 3> buffers;
    for (std::size_t i = 0; i < 3; ++i)
        try_twice(failures, [&] { buffers[i] = context.buffer(i == 1 ? desc.key : desc.query); });
    const std::array bindings = {vkattn::bind(VKATTN_ROLE_QUERY, buffers[0]), vkattn::bind(VKATTN_ROLE_KEY, buffers[1]),
                                 vkattn::bind(VKATTN_ROLE_VALUE, buffers[1]),
                                 vkattn::bind(VKATTN_ROLE_OUTPUT, buffers[2])};
    std::vector<float> output(problem.query.elements()), downloaded(output.size());
    try_twice(failures, [&] { buffers[0].write(problem.query.bytes()); });
    try_twice(failures, [&] { buffers[1].write(problem.key.bytes()); });
    try_twice(failures, [&] { plan.run(bindings); });
    try_twice(failures, [&] { buffers[2].read(output); });
    try_twice(failures, [&] { buffers[0].upload(problem.query.bytes()); });
    try_twice(failures, [&] { plan.submit(bindings); });
    try_twice(failures, [&] { buffers[2].download(downloaded); });
    context.wait();
    const AttentionReference reference = reference_attention(problem);
    const auto is_right = [](float a, double b) { return std::fabs(a - b) < 1e-5; };
    CHECK(std::ranges::equal(output, reference.output, is_right));
    CHECK(std::ranges::equal(downloaded, reference.output, is_right));

    vkattn::Layer layer;
    try_twice(failures, [&] { layer = small_layer(context); });
    std::unique_ptr<SmallDecoder> decoder;
    try_twice(failures, [&] { decoder = std::make_unique<SmallDecoder>(context, layer, 4); });
    const HostTensor token = normal_tensor(VKATTN_TYPE_F32, {kDecoderWidth}, random);
    std::vector<std::uint32_t> first, again;
    try_twice(failures, [&] { first = decoder->step(token.bytes()); });
    decoder->rewind();
    try_twice(failures, [&] { again = decoder->step(token.bytes()); });
    CHECK(again == first);
    return failures;
}

void check_all_freed(const Allocator &allocator) {
    CHECK(allocator.live() == 0);
    CHECK_MESSAGE(allocator.complaints().empty(), allocator.complaints());
}

// Makes a context, whose first buffer meets a fault; returns the message.
std::string message_of_fault(const Application &app, Fault fault, vkattn_result expected,
                             const std::function<void(const vkattn::Context &)> &first_use) {
    Allocator allocator(app, false);
    std::string message = "no error";
    {
        const vkattn::Context context(info_of(app, allocator));
        allocator.fails_at = allocator.asked + 1;
        allocator.fault = fault;
        try {
            first_use(context);
        } catch (const vkattn::Error &error) {
            message = error.what();
            CHECK(error.result() == expected);
        }
        CHECK(allocator.live() == 0);
        CHECK_NOTHROW(context.buffer(64)); // serves on
    }
    check_all_freed(allocator);
    return message;
}

} // namespace

TEST_SUITE_BEGIN("memory");

TEST_CASE_FIXTURE(DeviceTest, "the application gives all memory, at offsets, and gets it back once") {
    for (const bool addresses : {false, true}) {
        const Application app({.addresses = addresses});
        for (const bool maps_device_memory : {true, false}) {
            CAPTURE(addresses);
            CAPTURE(maps_device_memory);
            Allocator allocator(app, maps_device_memory);
            vkattn_context_info info = info_of(app, allocator);
            info.buffers_have_addresses = app.has_addresses ? 1 : 0;
            vulkan_calls().clear();
            CHECK(use_all_memory(info) == 0);
            CHECK(vulkan_calls().allocations == 0);
            CHECK(vulkan_calls().buffers == vulkan_calls().fewer_buffers);
            CHECK(allocator.asked == static_cast<std::size_t>(vulkan_calls().buffers));
            for (const auto use : {VKATTN_MEMORY_DEVICE, VKATTN_MEMORY_UPLOAD, VKATTN_MEMORY_READBACK})
                CHECK(allocator.uses.contains(use));
            check_all_freed(allocator);
        }
    }
}

TEST_CASE_FIXTURE(DeviceTest, "the self-test and constants of plans take the application's memory, too") {
    const Application app;
    Allocator allocator(app);
    const ContextRequest few_shaders(kFewShaders);
    vkattn_context_info info = info_of(app, allocator);
    few_shaders.give_traits(info);
    vulkan_calls().clear();
    {
        const vkattn::Context context(info);
        for (const vkattn_check &check : context.self_test())
            CHECK_MESSAGE(check.passed, std::string(check.name) << ": " << std::string(check.reason));
    }
    CHECK(vulkan_calls().allocations == 0);
    CHECK(allocator.uses.contains(VKATTN_MEMORY_UNIFORM));
    CHECK(allocator.uses.contains(VKATTN_MEMORY_DEVICE));
    check_all_freed(allocator);
}

TEST_CASE_FIXTURE(DeviceTest,
                  "each allocation fails once: the call says so, leaves nothing, and works when made again") {
    const Application app;
    const PipelineCache pipelines(app);
    std::size_t count = 0;
    for (std::size_t at = 0; at <= count; ++at) { // first to count them
        CAPTURE(at);
        Allocator allocator(app, false); // so that staging is needed
        allocator.fails_at = at;
        allocator.fault = at % 2 == 0 ? Fault::kError : Fault::kErrorAfterWriting;
        constexpr std::array kErrors = {VK_ERROR_OUT_OF_DEVICE_MEMORY, VK_ERROR_OUT_OF_HOST_MEMORY,
                                        VK_ERROR_TOO_MANY_OBJECTS};
        allocator.error = kErrors[at % kErrors.size()];
        vkattn_context_info info = info_of(app, allocator);
        info.pipeline_cache = pipelines.get();
        vulkan_calls().clear();
        CHECK(use_all_memory(info) == (at == 0 ? 0 : 1));
        CHECK(vulkan_calls().allocations == 0);
        CHECK(vulkan_calls().buffers == vulkan_calls().fewer_buffers);
        check_all_freed(allocator);
        if (at == 0) count = allocator.asked;
    }
    MESSAGE(count << " allocations");
    CHECK(count >= 8);
}

TEST_CASE_FIXTURE(DeviceTest, "memory that is not as described is refused by name, and given back") {
    const Application app;
    const auto make_buffer = [](const vkattn::Context &context) { context.buffer(64); };
    CHECK(message_of_fault(app, Fault::kNoMemory, VKATTN_ERROR_INVALID_ARGUMENT, make_buffer) ==
          "memory.allocate: VK_NULL_HANDLE, expected memory");
    const std::string misaligned =
        message_of_fault(app, Fault::kMisaligned, VKATTN_ERROR_INVALID_ARGUMENT, make_buffer);
    CHECK_MESSAGE(misaligned.find("memory.allocate: offset ") == 0, misaligned);
    // Of a device buffer that is no fault; of what the host writes it is.
    CHECK(message_of_fault(app, Fault::kNotMapped, VKATTN_ERROR_INVALID_ARGUMENT, make_buffer) == "no error");
    Allocator allocator(app, false);
    {
        const vkattn::Context context(info_of(app, allocator));
        vkattn::Buffer buffer = context.buffer(64);
        const std::size_t before = allocator.live();
        allocator.fails_at = allocator.asked + 1;
        allocator.fault = Fault::kNotMapped;
        CHECK_THROWS_WITH_AS(buffer.upload(std::vector<float>(16)),
                             doctest::Contains("memory.allocate: mapped NULL, expected an address"), vkattn::Error);
        CHECK(allocator.live() == before);
        CHECK_NOTHROW(buffer.upload(std::vector<float>(16)));
        context.wait();
    }
    check_all_freed(allocator);
}

// A plan waits for what another thread signals later; the caller of a read or a write does so, too.
TEST_CASE_FIXTURE(DeviceTest, "reads and writes wait for what was submitted before, mapped or not") {
    const Application app({.timelines = true});
    std::mt19937 random(6);
    AttentionProblem problem;
    problem.query = normal_tensor(VKATTN_TYPE_F32, {1, 2, 5, 16}, random);
    problem.key = problem.value = normal_tensor(VKATTN_TYPE_F32, {1, 2, 40, 16}, random);
    const std::vector<double> expected = reference_attention(problem).output;
    for (const bool maps_device_memory : {true, false}) {
        CAPTURE(maps_device_memory);
        Allocator allocator(app, maps_device_memory);
        {
            const Semaphore gate(app.device, VK_SEMAPHORE_TYPE_TIMELINE);
            const vkattn::Context context(info_of(app, allocator));
            vkattn_attention_desc desc{};
            desc.query = desc.output = problem.query.view();
            desc.key = desc.value = problem.key.view();
            const vkattn::Plan plan = context.attention_plan(desc);
            vkattn::Buffer query = context.buffer(desc.query), key = context.buffer(desc.key),
                           output = context.buffer(desc.output);
            const std::array bindings = {vkattn::bind(VKATTN_ROLE_QUERY, query), vkattn::bind(VKATTN_ROLE_KEY, key),
                                         vkattn::bind(VKATTN_ROLE_VALUE, key),
                                         vkattn::bind(VKATTN_ROLE_OUTPUT, output)};
            std::vector<float> values(problem.query.elements(), 77.0f);
            const std::vector<float> zeros(values.size());
            const auto is_right = [](float a, double b) { return std::fabs(a - b) < 1e-5; };
            for (const bool writes_first : {false, true}) {
                CAPTURE(writes_first);
                query.write(problem.query.bytes());
                key.write(problem.key.bytes());
                output.write(zeros);
                const std::uint64_t value = writes_first ? 2 : 1;
                const vkattn_semaphore opens = gate.at(value);
                plan.submit(bindings, vkattn::sync({&opens, 1}, {}));
                std::jthread opener([&] {
                    std::this_thread::sleep_for(std::chrono::milliseconds(50));
                    gate.signal(value);
                });
                if (writes_first) query.write(zeros); // which the plan must not see
                output.read(values);
                CHECK(std::ranges::equal(values, expected, is_right));
            }
        }
        check_all_freed(allocator);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "an error that is no shortage keeps its VkResult") {
    const Application app;
    Allocator allocator(app);
    const vkattn::Context context(info_of(app, allocator));
    allocator.fails_at = allocator.asked + 1;
    allocator.fault = Fault::kError;
    allocator.error = VK_ERROR_UNKNOWN;
    vkattn_buffer buffer = nullptr;
    CHECK(vkattn_buffer_create(context.get(), 64, &buffer) == VKATTN_ERROR_VULKAN);
    const std::string message = vkattn_last_error();
    CHECK_MESSAGE(message.find("memory.allocate") != std::string::npos, message);
    CHECK_MESSAGE(message.find("-13") != std::string::npos, message);
    CHECK(buffer == nullptr);
}

TEST_CASE_FIXTURE(DeviceTest, "callbacks that are incomplete are refused by name") {
    const Application app;
    const Allocator allocator(app);
    for (const bool allocates : {false, true}) {
        vkattn_memory_callbacks callbacks = allocator.callbacks();
        if (allocates)
            callbacks.free = nullptr;
        else
            callbacks.allocate = nullptr;
        vkattn_context_info info = app.context_info();
        info.memory = &callbacks;
        CHECK_THROWS_WITH_AS(vkattn::Context{info},
                             doctest::Contains("memory: allocate or free is NULL, expected both"), vkattn::Error);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "two contexts, each with an allocator of its own, side by side") {
    const Application app;
    Allocator one(app), other(app, false);
    std::mutex queue; // which both use
    const auto use = [&](const Allocator &allocator) {
        vkattn_context_info info = info_of(app, allocator);
        info.submit_user = &queue;
        info.submit = [](void *user, VkQueue to, std::uint32_t count, const VkSubmitInfo *submits, VkFence fence) {
            const std::lock_guard lock(*static_cast<std::mutex *>(user));
            return vkQueueSubmit(to, count, submits, fence);
        };
        CHECK(use_all_memory(info) == 0);
    };
    {
        const std::jthread beside([&] { use(one); });
        use(other);
    }
    check_all_freed(one);
    check_all_freed(other);
}

TEST_CASE_FIXTURE(DeviceTest, "weights in the caller's buffers give the bits of uploaded ones") {
    const Application app;
    const vkattn::Context context(app.context_info());
    std::mt19937 random(8);
    vkattn_layer_config config{};
    config.kind = VKATTN_LAYER_MHA;
    config.embed_dim = kDecoderWidth;
    config.num_heads = 2;
    constexpr std::array kNames = {"q_proj.weight", "k_proj.weight", "v_proj.weight", "out_proj.weight"};
    constexpr std::uint64_t kOffset = 48, kBytes = kDecoderWidth * kDecoderWidth * sizeof(float);
    const OwnBuffer own(app, kOffset + 4 * kBytes);
    std::vector<HostTensor> tensors;
    std::vector<vkattn_weight> uploaded, there;
    for (std::size_t i = 0; i < 4; ++i)
        tensors.push_back(normal_tensor(VKATTN_TYPE_F32, {kDecoderWidth, kDecoderWidth}, random, 0.2f));
    for (std::size_t i = 0; i < 4; ++i) {
        uploaded.push_back(vkattn::weight(kNames[i], tensors[i].view(), tensors[i].bytes().data(), kBytes));
        there.push_back(vkattn::weight(kNames[i], tensors[i].view(), {own.get(), kOffset + i * kBytes, kBytes}));
    }
    const auto run = [&](const vkattn::Layer &layer) {
        vkattn_layer_call call{};
        call.query = call.output = vkattn::tensor(VKATTN_TYPE_F32, {1, 3, kDecoderWidth});
        vkattn::Buffer in = context.buffer(call.query);
        const vkattn::Buffer out = context.buffer(call.output);
        in.write(std::vector<float>(3 * kDecoderWidth, 0.25f));
        layer.plan(call).run({vkattn::bind(VKATTN_ROLE_QUERY, in), vkattn::bind(VKATTN_ROLE_OUTPUT, out)});
        std::vector<std::uint32_t> bits(3 * kDecoderWidth);
        out.read(bits);
        return bits;
    };
    const std::vector<std::uint32_t> expected = run(context.layer(config, uploaded));
    const vkattn::Layer layer = context.layer(config, there);
    for (std::size_t i = 0; i < 4; ++i) // after the layer was made: they are read there
        std::ranges::copy(tensors[i].bytes(), own.mapped() + kOffset + i * kBytes);
    CHECK(run(layer) == expected);
    std::vector<vkattn_weight> mixed = there;
    mixed[1] = uploaded[1];
    CHECK(run(context.layer(config, mixed)) == expected);

    std::vector<vkattn_weight> wrong = there;
    wrong[2].region.offset = 8;
    CHECK_THROWS_WITH_AS(context.layer(config, wrong),
                         doctest::Contains("v_proj.weight has offset 8, expected a multiple of 16"), vkattn::Error);
    wrong = there;
    wrong[2].region.bytes = kBytes - 4;
    CHECK_THROWS_WITH_AS(context.layer(config, wrong), doctest::Contains("v_proj.weight has a region of "),
                         vkattn::Error);
    wrong = uploaded;
    wrong[2].bytes = kBytes - 1;
    CHECK_THROWS_WITH_AS(
        context.layer(config, wrong),
        doctest::Contains(
            ("v_proj.weight has " + std::to_string(kBytes - 1) + " bytes, expected " + std::to_string(kBytes)).c_str()),
        vkattn::Error);
    wrong = there;
    wrong[2].data = tensors[2].bytes().data();
    CHECK_THROWS_WITH_AS(context.layer(config, wrong),
                         doctest::Contains("v_proj.weight has data and a region, expected one of the two"),
                         vkattn::Error);
    wrong[2].data = nullptr;
    wrong[2].region.buffer = VK_NULL_HANDLE;
    CHECK_THROWS_WITH_AS(context.layer(config, wrong),
                         doctest::Contains("v_proj.weight has neither data nor a region, expected one of the two"),
                         vkattn::Error);
}

TEST_CASE_FIXTURE(DeviceTest, "a region says its bytes: exact ones serve, smaller ones are refused by role") {
    const Application app;
    const vkattn::Context context(app.context_info());
    vkattn_attention_desc desc{};
    desc.query = desc.output = vkattn::tensor(VKATTN_TYPE_F32, {1, 1, 3, 8});
    desc.key = desc.value = vkattn::tensor(VKATTN_TYPE_F32, {1, 1, 5, 8});
    desc.kernel = VKATTN_KERNEL_UNFUSED;
    const vkattn::Plan plan = context.attention_plan(desc);
    const std::uint64_t few = vkattn_tensor_bytes(&desc.query), many = vkattn_tensor_bytes(&desc.key);
    const std::uint64_t workspace_bytes = plan.requirements().workspace_bytes;
    REQUIRE(workspace_bytes > 0);
    const OwnBuffer foreign(app, 4096);
    const vkattn::Buffer own = context.buffer(16 + many), workspace = context.buffer(workspace_bytes);
    const auto all = [&] {
        return std::vector<vkattn_binding>{vkattn::bind(VKATTN_ROLE_QUERY, foreign.get(), 0, few),
                                           vkattn::bind(VKATTN_ROLE_KEY, foreign.get(), 1024, many),
                                           vkattn::bind(VKATTN_ROLE_VALUE, own.vulkan(), 16, many),
                                           vkattn::bind(VKATTN_ROLE_OUTPUT, foreign.get(), 2048, few),
                                           vkattn::bind(VKATTN_ROLE_WORKSPACE, workspace)};
    };
    CHECK_NOTHROW(plan.run(all()));
    const auto refused = [&](std::size_t which, auto &&change) {
        std::vector<vkattn_binding> bindings = all();
        change(bindings[which]);
        try {
            plan.run(bindings);
        } catch (const vkattn::Error &error) {
            CHECK(error.result() == VKATTN_ERROR_INVALID_ARGUMENT);
            CHECK(vkattn_last_failure()->entry == which);
            return std::string(error.what());
        }
        return std::string("no error");
    };
    CHECK(refused(0, [](vkattn_binding &query) { query.region.bytes -= 1; }) ==
          "bindings[0]: role query has a region of 95 bytes, expected at least 96");
    CHECK(refused(3, [](vkattn_binding &output) { output.region.bytes = 0; }) ==
          "bindings[3]: role output has a region of 0 bytes, expected at least 96");
    CHECK(refused(2, [](vkattn_binding &value) { value.region.bytes -= 4; }) ==
          "bindings[2]: role value has a region of 156 bytes, expected at least 160");
    CHECK(refused(2, [](vkattn_binding &value) { value.region.offset += 16; }) ==
          "bindings[2]: role value has offset 32 and bytes 160, expected a region within the buffer's 176 bytes");
    CHECK(refused(2, [](vkattn_binding &value) {
              value.region.bytes = UINT64_MAX - 8;
          }).find("role value has offset 16") != std::string::npos);
    CHECK(refused(2, [](vkattn_binding &value) {
              value.region.offset = 1 << 20;
          }).find("role value has offset 1048576") != std::string::npos);
    CHECK(refused(2, [](vkattn_binding &value) { value.region.offset = 32, value.region.bytes = 144; }) ==
          "bindings[2]: role value has a region of 144 bytes, expected at least 160");
    CHECK(refused(4, [](vkattn_binding &room) { room.region.bytes -= 1; }).find("role workspace has a region of ") !=
          std::string::npos);
}

TEST_CASE_FIXTURE(DeviceTest, "subgroups are asked to be full, of a given size or of the device's only one") {
    if (test_device().facts().subgroup_size_control == 0) return skip("no full subgroups");
    for (const char *traits : {"self_test=0,gpu_class=1", "self_test=0,gpu_class=1,subgroup_size_control=0"}) {
        INFO(std::string(traits));
        const LimitedDevice device(traits, counted_instance_function);
        if (device.context().facts().min_subgroup_size != device.context().facts().max_subgroup_size) continue;
        vulkan_calls().clear();
        vkattn_attention_desc desc{};
        desc.query = desc.output = vkattn::tensor(VKATTN_TYPE_F16, {1, 4, 1, 64});
        desc.key = desc.value = vkattn::tensor(VKATTN_TYPE_F16, {1, 1, 512, 64});
        desc.kernel = VKATTN_KERNEL_DECODE; // whose sums go through subgroups
        device.context().attention_plan(desc);
        CHECK(vulkan_calls().full_subgroups > 0);
    }
}

TEST_SUITE_END();
