// Failing devices: each Vulkan call of a small program fails once, with each error that the specification allows it;
// then each allocation of host memory. Every failure must come back as the right result with a message, leave nothing
// behind, and the same call must work when it is made again; but a device that was lost stays lost.
#include "application.hpp"
#include "compare.hpp"
#include "device.hpp"

#include "runtime/vulkan/functions.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <new>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <vector>

#ifdef __has_feature
#if __has_feature(address_sanitizer)
#include <sanitizer/lsan_interface.h>
#define VKATTN_TEST_LEAK_CHECK
#endif
#endif

using namespace vkattn_test;

namespace {

// ---------------------------------------------------------------- Vulkan, failing on demand

std::mutex state_mutex;
struct State {
    std::vector<std::string> calls; // that can fail, so far
    std::size_t fails_at = 0;       // the number of the one that fails; 0: none
    std::string fails_next;         // the function whose next call fails; "": none
    std::string always_fails;       // the function all of whose calls fail; "": none
    VkResult error = VK_SUCCESS;
    std::string failed;                            // its name, once it has failed
    std::map<std::string, int> live;               // handles, by type
    std::map<VkShaderModule, std::size_t> modules; // bytes of their code
    std::vector<std::size_t> pipelines;            // of the module of each
    std::vector<std::int64_t> places; // allocations of host memory by the time of each module and each buffer
} state;

thread_local int driver_depth = 0; // inside Vulkan, whose allocations are its own

struct InDriver {
    InDriver() { ++driver_depth; }
    ~InDriver() { --driver_depth; }
};

// What a call may return besides success, as far as the specification says so for the functions that vkattn uses.
std::vector<VkResult> errors_of(std::string_view name) {
    std::vector<VkResult> errors = {VK_ERROR_OUT_OF_HOST_MEMORY, VK_ERROR_OUT_OF_DEVICE_MEMORY};
    const auto also = [&](std::initializer_list<VkResult> more) { errors.insert(errors.end(), more); };
    if (name == "vkCreateInstance")
        also({VK_ERROR_INITIALIZATION_FAILED, VK_ERROR_LAYER_NOT_PRESENT, VK_ERROR_INCOMPATIBLE_DRIVER});
    if (name == "vkCreateDevice")
        also({VK_ERROR_INITIALIZATION_FAILED, VK_ERROR_EXTENSION_NOT_PRESENT, VK_ERROR_FEATURE_NOT_PRESENT,
              VK_ERROR_TOO_MANY_OBJECTS, VK_ERROR_DEVICE_LOST});
    if (name == "vkEnumeratePhysicalDevices") also({VK_ERROR_INITIALIZATION_FAILED});
    if (name == "vkQueueSubmit" || name == "vkWaitForFences" || name == "vkGetQueryPoolResults")
        also({VK_ERROR_DEVICE_LOST});
    if (name == "vkAllocateMemory") also({VK_ERROR_TOO_MANY_OBJECTS});
    if (name == "vkMapMemory") also({VK_ERROR_MEMORY_MAP_FAILED});
    if (name == "vkAllocateDescriptorSets") also({VK_ERROR_FRAGMENTED_POOL, VK_ERROR_OUT_OF_POOL_MEMORY});
    if (name == "vkCreateDescriptorPool") also({VK_ERROR_FRAGMENTATION});
    if (name == "vkCreateComputePipelines" || name == "vkCreateShaderModule") also({VK_ERROR_INVALID_SHADER_NV});
    return errors;
}

// Whether this is the call that fails.
bool fails(const char *name) {
    const std::lock_guard lock(state_mutex);
    state.calls.emplace_back(name);
    if (state.fails_next == name || state.always_fails == name) {
        state.fails_next.clear();
        state.failed = name;
        return true;
    }
    if (state.calls.size() != state.fails_at) return false;
    const std::vector<VkResult> errors = errors_of(name);
    if (std::ranges::find(errors, state.error) == errors.end()) return false;
    state.failed = name;
    return true;
}

template <class... Arguments>
void count_handle(std::string_view name, bool succeeded, const Arguments &...arguments) {
    const std::lock_guard lock(state_mutex);
    const auto all = std::tie(arguments...);
    if (succeeded && name.starts_with("vkCreate")) ++state.live[std::string(name.substr(8))];
    if (succeeded && name == "vkCreateComputePipelines") --state.live["ComputePipelines"], ++state.live["Pipeline"];
    if (succeeded && name == "vkAllocateMemory") ++state.live["Memory"];
    if constexpr (sizeof...(Arguments) >= 2) {
        const auto &handle = std::get<sizeof...(Arguments) - 2>(all);
        if constexpr (std::is_pointer_v<std::remove_cvref_t<decltype(handle)>> ||
                      std::is_integral_v<std::remove_cvref_t<decltype(handle)>>) {
            const bool given = handle != std::remove_cvref_t<decltype(handle)>{};
            if (given && name.starts_with("vkDestroy")) --state.live[std::string(name.substr(9))];
            if (given && name == "vkFreeMemory") --state.live["Memory"];
        }
    }
}

// What a call that fails has written where its handle belongs is undefined, but where the specification says otherwise.
template <class Tag, class... Arguments>
void spoil_output(const Arguments &...arguments) {
    constexpr std::string_view name = Tag::name;
    if constexpr ((name.starts_with("vkCreate") && name != "vkCreateComputePipelines") || name == "vkAllocateMemory" ||
                  name == "vkMapMemory") {
        const auto output = std::get<sizeof...(Arguments) - 1>(std::tie(arguments...));
        std::memset(output, 0x5a, sizeof *output);
    }
}

std::atomic<std::int64_t> allocations{0}; // of host memory by the library, since they are counted

void note_module(const VkShaderModuleCreateInfo &info, VkShaderModule module) {
    const std::lock_guard lock(state_mutex);
    state.modules[module] = info.codeSize;
}

void note_pipeline(const VkComputePipelineCreateInfo &info) {
    const std::lock_guard lock(state_mutex);
    state.pipelines.push_back(state.modules[info.stage.module]);
}

void note_place() {
    const std::lock_guard lock(state_mutex);
    state.places.push_back(allocations);
}

// The driver that does nothing reports the least that a device must have.
void raise_limits(VkPhysicalDeviceLimits &limits) {
    for (std::uint32_t *limit : {&limits.maxPerStageDescriptorStorageBuffers, &limits.maxDescriptorSetStorageBuffers,
                                 &limits.maxPerStageResources})
        *limit = std::max(*limit, 64u);
}

template <class Tag, class Result, class... Arguments>
VKAPI_ATTR Result VKAPI_CALL wrapped(Arguments... arguments) {
    const InDriver inside;
    if constexpr (std::is_same_v<Result, VkResult>) {
        if (fails(Tag::name)) {
            const bool lost_at_work =
                state.error == VK_ERROR_DEVICE_LOST && std::string_view(Tag::name) == "vkWaitForFences";
            if (lost_at_work) Tag::next(arguments...); // this device works on what a lost one would drop
            spoil_output<Tag>(arguments...);
            return state.error;
        }
        const VkResult result = Tag::next(arguments...);
        if constexpr (std::string_view(Tag::name) == "vkCreateComputePipelines")
            note_pipeline(*std::get<3>(std::tie(arguments...)));
        if constexpr (std::string_view(Tag::name) == "vkCreateShaderModule")
            note_module(*std::get<1>(std::tie(arguments...)), *std::get<3>(std::tie(arguments...)));
        if constexpr (std::string_view(Tag::name) == "vkCreateShaderModule" ||
                      std::string_view(Tag::name) == "vkBindBufferMemory")
            note_place();
        count_handle(Tag::name, result == VK_SUCCESS, arguments...);
        return result;
    } else {
        count_handle(Tag::name, true, arguments...);
        if constexpr (std::is_same_v<Result, void>) {
            Tag::next(arguments...);
            const auto all = std::tie(arguments...);
            if constexpr (std::string_view(Tag::name) == "vkGetPhysicalDeviceProperties")
                raise_limits(std::get<1>(all)->limits);
            if constexpr (std::string_view(Tag::name) == "vkGetPhysicalDeviceProperties2")
                raise_limits(std::get<1>(all)->properties.limits);
        } else {
            return Tag::next(arguments...);
        }
    }
}

template <class Tag, class Result, class... Arguments>
PFN_vkVoidFunction hook(Result(VKAPI_PTR *next)(Arguments...)) {
    Tag::next = next;
    return reinterpret_cast<PFN_vkVoidFunction>(&wrapped<Tag, Result, Arguments...>);
}

#define TAG(function)                                                                                                  \
    struct Tag_##function {                                                                                            \
        static constexpr const char *name = #function;                                                                 \
        static inline decltype(vkattn::Functions::function) next = nullptr;                                            \
    };
VKATTN_GLOBAL_FUNCTIONS(TAG)
VKATTN_INSTANCE_FUNCTIONS(TAG)
VKATTN_DEVICE_FUNCTIONS(TAG)
VKATTN_DEBUG_FUNCTIONS(TAG)
VKATTN_MATRIX_FUNCTIONS(TAG)
VKATTN_OPTIONAL_DEVICE_FUNCTIONS(TAG)
#undef TAG

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL device_function(VkDevice device, const char *name);

PFN_vkVoidFunction hooked(PFN_vkVoidFunction real, std::string_view name) {
    if (real == nullptr) return nullptr;
    if (name == "vkGetDeviceProcAddr") {
        Tag_vkGetDeviceProcAddr::next = reinterpret_cast<PFN_vkGetDeviceProcAddr>(real);
        return reinterpret_cast<PFN_vkVoidFunction>(&device_function);
    }
#define HOOK(function)                                                                                                 \
    if (name == #function) return hook<Tag_##function>(reinterpret_cast<decltype(Tag_##function::next)>(real));
    VKATTN_GLOBAL_FUNCTIONS(HOOK)
    VKATTN_INSTANCE_FUNCTIONS(HOOK)
    VKATTN_DEVICE_FUNCTIONS(HOOK)
    VKATTN_DEBUG_FUNCTIONS(HOOK)
    VKATTN_MATRIX_FUNCTIONS(HOOK)
    VKATTN_OPTIONAL_DEVICE_FUNCTIONS(HOOK)
#undef HOOK
    return real;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL device_function(VkDevice device, const char *name) {
    const InDriver inside;
    return hooked(Tag_vkGetDeviceProcAddr::next(device, name), name);
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL instance_function(VkInstance instance, const char *name) {
    const InDriver inside;
    return hooked(vkGetInstanceProcAddr(instance, name), name);
}

// ---------------------------------------------------------------- host memory, failing on demand

std::atomic<std::int64_t> allocation_that_fails{0}; // 0: none
thread_local bool counts_allocations = false;
std::atomic<bool> others_have_no_memory{false}; // threads that count no allocations

bool allocation_fails() {
    if (driver_depth != 0) return false;
    if (!counts_allocations) return others_have_no_memory;
    if (others_have_no_memory) std::this_thread::sleep_for(std::chrono::microseconds(200)); // the others' turn
    return ++allocations == allocation_that_fails;
}

} // namespace

// GCC takes the pair below for a mismatch where it inlines one of them.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
void *operator new(std::size_t bytes) {
    void *memory = allocation_fails() ? nullptr : std::malloc(bytes != 0 ? bytes : 1);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
}
void *operator new(std::size_t bytes, const std::nothrow_t &) noexcept {
    return allocation_fails() ? nullptr : std::malloc(bytes != 0 ? bytes : 1);
}
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, std::size_t) noexcept { std::free(memory); }
#pragma GCC diagnostic pop

namespace {

// ---------------------------------------------------------------- the program

constexpr std::uint64_t kHeads = 4, kKvHeads = 2, kKeys = 300, kSize = 32, kWidth = kHeads * kSize;

// Ends a program: nothing in its context works any more.
struct DeviceLost {};

// A call of the library: fails once at most, with the result that the injected error stands for, and works when
// repeated, unless the device was lost.
class Caller {
  public:
    explicit Caller(vkattn_result expected) : expected_(expected) {}

    void operator()(const char *name, const std::function<vkattn_result()> &call) {
        counts_allocations = true;
        const vkattn_result result = call();
        counts_allocations = false;
        if (result == VKATTN_SUCCESS) return;
        const std::string message = vkattn_last_error();
        INFO(std::string(name), ": ", message, " (", state.failed, ")");
        REQUIRE_FALSE(failed);
        failed = true;
        CHECK_FALSE(message.empty());
        CHECK(message.find('\n') == std::string::npos);
        if (expected_ != VKATTN_ERROR_VULKAN) CHECK(result == expected_);
        if (expected_ == VKATTN_ERROR_VULKAN) {
            const bool says_what = result == VKATTN_ERROR_VULKAN || result == VKATTN_ERROR_NO_VULKAN ||
                                   result == VKATTN_ERROR_UNSUPPORTED || result == VKATTN_ERROR_NO_DEVICE ||
                                   result == VKATTN_ERROR_OUT_OF_DEVICE_MEMORY;
            CHECK(says_what);
        }
        if (result == VKATTN_ERROR_DEVICE_LOST && state.failed != "vkCreateDevice") {
            CHECK(call() == VKATTN_ERROR_DEVICE_LOST);
            throw DeviceLost{};
        }
        REQUIRE(call() == VKATTN_SUCCESS);
    }

    bool failed = false;

  private:
    vkattn_result expected_;
};

vkattn_result result_of(VkResult error) {
    switch (error) {
    case VK_ERROR_OUT_OF_HOST_MEMORY:
        return VKATTN_ERROR_OUT_OF_HOST_MEMORY;
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
        return VKATTN_ERROR_OUT_OF_DEVICE_MEMORY;
    case VK_ERROR_DEVICE_LOST:
        return VKATTN_ERROR_DEVICE_LOST;
    default:
        return VKATTN_ERROR_VULKAN;
    }
}

struct Objects {
    vkattn_context context = nullptr;
    vkattn_plan attention = nullptr, append = nullptr, step = nullptr;
    vkattn_layer layer = nullptr;
    vkattn_cache cache = nullptr, paged = nullptr;
    std::array<vkattn_buffer, 4> buffers{};

    Objects() = default;
    Objects(const Objects &) = delete;
    Objects &operator=(const Objects &) = delete;
    ~Objects() {
        vkattn_context_destroy(context); // what was made with it keeps what it needs
        vkattn_layer_destroy(layer);
        vkattn_cache_destroy(cache);
        vkattn_cache_destroy(paged);
        for (const vkattn_plan plan : {attention, append, step}) vkattn_plan_destroy(plan);
        for (const vkattn_buffer buffer : buffers) vkattn_buffer_destroy(buffer);
    }
};

vkattn_attention_desc attention_desc() {
    vkattn_attention_desc desc{};
    desc.query = desc.output = vkattn::tensor(VKATTN_TYPE_F32, {1, kHeads, 1, kSize});
    desc.key = desc.value = vkattn::tensor(VKATTN_TYPE_F32, {1, kKvHeads, kKeys, kSize});
    return desc;
}

void plan_and_run_attention(Objects &o, Caller &call) {
    const vkattn_attention_desc desc = attention_desc();
    call("prewarm", [&] { return vkattn_prewarm(o.context, &desc, 1, 1); });
    call("attention_plan", [&] { return vkattn_attention_plan(o.context, &desc, &o.attention); });
    const vkattn_tensor *tensors[] = {&desc.query, &desc.key, &desc.value, &desc.output};
    const vkattn_role roles[] = {VKATTN_ROLE_QUERY, VKATTN_ROLE_KEY, VKATTN_ROLE_VALUE, VKATTN_ROLE_OUTPUT};
    std::array<vkattn_binding, 4> bindings{};
    for (std::size_t i = 0; i < 4; ++i) {
        call("buffer_create",
             [&] { return vkattn_buffer_create(o.context, vkattn_tensor_bytes(tensors[i]), &o.buffers[i]); });
        bindings[i] = {roles[i], vkattn_buffer_region(o.buffers[i])};
    }
    const std::vector<float> alike(kKvHeads * kKeys * kSize, 0.5f);
    for (std::size_t i = 0; i < 3; ++i)
        call("buffer_write",
             [&] { return vkattn_buffer_write(o.buffers[i], 0, alike.data(), vkattn_tensor_bytes(tensors[i])); });
    call("run", [&] { return vkattn_run(o.attention, bindings.data(), 4, nullptr); });
}

void make_layer_and_step(Objects &o, Caller &call) {
    vkattn_layer_config config{};
    config.kind = VKATTN_LAYER_MHA;
    config.embed_dim = kWidth;
    config.num_heads = kHeads;
    config.rope_theta = 10000.0f;
    const std::vector<float> values(kWidth * kWidth, 0.01f);
    std::vector<vkattn_weight> weights;
    for (const char *name : {"q_proj.weight", "k_proj.weight", "v_proj.weight", "out_proj.weight"})
        weights.push_back(vkattn::weight(name, vkattn::tensor(VKATTN_TYPE_F32, {kWidth, kWidth}), values.data(),
                                         values.size() * sizeof values[0]));
    call("layer_create", [&] { return vkattn_layer_create(o.context, &config, weights.data(), 4, &o.layer); });
    vkattn_cache_info info{};
    info.layer = o.layer;
    info.batch = 1;
    info.capacity = 8;
    info.key_type = info.value_type = VKATTN_TYPE_F16;
    call("cache_create", [&] { return vkattn_cache_create(o.context, &info, &o.cache); });
    vkattn_layer_call step{};
    step.query = step.output = vkattn::tensor(VKATTN_TYPE_F32, {1, 1, kWidth});
    step.mask_flags = VKATTN_MASK_CAUSAL;
    step.cache = o.cache;
    call("layer_plan", [&] { return vkattn_layer_plan(o.layer, &step, &o.step); });
    const std::array<vkattn_binding, 2> bindings = {{{VKATTN_ROLE_QUERY, vkattn_buffer_region(o.buffers[1])},
                                                     {VKATTN_ROLE_OUTPUT, vkattn_buffer_region(o.buffers[2])}}};
    call("layer run", [&] { return vkattn_run(o.step, bindings.data(), 2, nullptr); });
    std::vector<float> keys(kWidth * 8);
    std::uint32_t length = 0;
    call("cache_lengths", [&] { return vkattn_cache_lengths(o.cache, &length, 1); });
    CHECK(length == 1); // however often the step was tried
    call("cache_read", [&] { return vkattn_cache_read(o.cache, VKATTN_CACHE_KEYS, 0, keys.data(), kWidth * length); });
    call("cache_rewind", [&] { return vkattn_cache_rewind(o.cache, 0, 0); });
}

void append_and_share_pages(Objects &o, Caller &call) {
    vkattn_cache_info info{};
    info.kv_heads = kKvHeads;
    info.head_dim = info.v_head_dim = kSize;
    info.batch = 2;
    info.capacity = 16;
    info.key_type = info.value_type = VKATTN_TYPE_F16;
    info.page_len = 8;
    info.page_count = 4;
    call("paged cache_create", [&] { return vkattn_cache_create(o.context, &info, &o.paged); });
    vkattn_cache_append_desc desc{};
    desc.cache = o.paged;
    desc.key = desc.value = vkattn::tensor(VKATTN_TYPE_F32, {1, kKvHeads, 4, kSize});
    desc.cu_seqlens = vkattn::tensor(VKATTN_TYPE_I32, {3});
    call("cache_append_plan", [&] { return vkattn_cache_append_plan(o.context, &desc, &o.append); });
    const std::array<std::int32_t, 3> cu_seqlens = {0, 4, 4};
    call("buffer_write", [&] { return vkattn_buffer_write(o.buffers[0], 0, cu_seqlens.data(), sizeof cu_seqlens); });
    const std::array<vkattn_binding, 3> bindings = {{{VKATTN_ROLE_KEY, vkattn_buffer_region(o.buffers[1])},
                                                     {VKATTN_ROLE_VALUE, vkattn_buffer_region(o.buffers[2])},
                                                     {VKATTN_ROLE_CU_SEQLENS_Q, vkattn_buffer_region(o.buffers[0])}}};
    const auto reserve = [&](std::array<std::uint32_t, 2> tokens) {
        call("cache_reserve", [&] { return vkattn_cache_reserve(o.paged, tokens.data(), 2); });
    };
    reserve({4, 0});
    call("append run", [&] { return vkattn_run(o.append, bindings.data(), 3, nullptr); });
    CHECK(vkattn_cache_free_pages(o.paged) == 3);
    call("cache_share_prefix", [&] { return vkattn_cache_share_prefix(o.paged, 0, 1, 4); });
    CHECK(vkattn_cache_free_pages(o.paged) == 3);
    reserve({1, 0}); // the page is copied
    CHECK(vkattn_cache_free_pages(o.paged) == 2);
    const std::uint32_t kept = 4;
    call("cache_keep", [&] { return vkattn_cache_keep(o.paged, 0, 4, &kept, 1); });
    call("cache_rewind", [&] { return vkattn_cache_rewind(o.paged, 0, 0); });
    CHECK(vkattn_cache_free_pages(o.paged) == 3);
    call("cache_copy_sequence", [&] { return vkattn_cache_copy_sequence(o.paged, 1, o.paged, 0); });
    CHECK(vkattn_cache_free_pages(o.paged) == 2);
}

// Traits. Modules are given to the driver as they are: what specialises them calls no driver, and would be most of the time.
constexpr const char *kUntested = "self_test=0,specialised_modules=0";
constexpr const char *kSpecialised = "self_test=0";

void make_context(Objects &o, Caller &call, const char *traits = kUntested) {
    load_vulkan();
    ContextRequest request(traits);
    vkattn_context_info &info = request.info;
    info.get_instance_proc_addr = instance_function;
    call("context_create", [&] { return vkattn_context_create(&info, &o.context); });
}

// What is done in a context. real: what the device computes counts.
using Program = void (*)(Objects &o, Caller &call, bool real);

void compute(Objects &o, Caller &call, bool real) {
    plan_and_run_attention(o, call);
    std::vector<float> output(kHeads * kSize);
    call("buffer_read", [&] { return vkattn_buffer_read(o.buffers[3], 0, output.data(), output.size() * 4); });
    if (real)
        for (const float value : output) CHECK(std::abs(value - 0.5f) < 1e-5f);
    make_layer_and_step(o, call);
    append_and_share_pages(o, call);
    std::uint64_t bytes = 0;
    call("context_save", [&] { return vkattn_context_save(o.context, nullptr, &bytes); });
}

// A candidate that lacks what it needs is passed over; what is left is tuned.
void tune(Objects &o, Caller &call, bool) {
    vkattn_linear_desc linear{};
    linear.input = linear.output = vkattn::tensor(VKATTN_TYPE_F32, {1, 3, kWidth});
    linear.weight = vkattn::tensor(VKATTN_TYPE_F32, {kWidth, kWidth});
    vkattn::List<vkattn_candidate> candidates;
    const auto tuned = [&](auto tune_problem, const auto &desc) {
        vkattn_list tried = nullptr;
        const vkattn_result result = tune_problem(o.context, &desc, &tried);
        candidates = vkattn::List<vkattn_candidate>(tried);
        return result;
    };
    call("tune", [&] { return tuned(vkattn_tune, attention_desc()); });
    CHECK(std::ranges::count(candidates, 1u, &vkattn_candidate::kept) == 1);
    call("tune_linear", [&] { return tuned(vkattn_tune_linear, linear); });
    CHECK(std::ranges::count(candidates, 1u, &vkattn_candidate::kept) == 1);
    vkattn_attention_desc attention = attention_desc();
    attention.output = {};
    vkattn_attention_backward_desc gradients{};
    gradients.attention = &attention;
    gradients.d_output = gradients.d_query = attention.query;
    call("tune_attention_backward", [&] { return tuned(vkattn_tune_attention_backward, gradients); });
    CHECK(std::ranges::count(candidates, 1u, &vkattn_candidate::kept) == 1);
}

void test_kernels(Objects &o, Caller &call, bool) {
    call("self_test", [&] {
        vkattn_list checks = nullptr;
        const vkattn_result result = vkattn_self_test(o.context, nullptr, nullptr, &checks);
        CHECK((checks != nullptr) == (result == VKATTN_SUCCESS));
        vkattn_list_destroy(checks);
        return result;
    });
}

// In a context that tests a kernel before it is first used: one that could not be tested, for want of memory or of the
// device, is not off for that.
void use_tested_kernel(Objects &o, Caller &call, bool) {
    plan_and_run_attention(o, call);
    vkattn_report chosen{};
    vkattn_plan_get_report(o.attention, &chosen);
    CHECK(chosen.kernel == VKATTN_KERNEL_DECODE);
}

// The program in a context of its own, of which nothing is left. Returns whether a call of the library failed.
bool run_alone(Program program, vkattn_result expected, bool real, const char *traits = kUntested) {
    Caller call(expected);
    {
        Objects o;
        try {
            make_context(o, call, traits);
            program(o, call, real);
        } catch (const DeviceLost &) {
        }
    }
    for (const auto &handles : state.live) CHECK_MESSAGE(handles.second == 0, handles.first, " ", handles.second);
    return call.failed;
}

void reset(std::size_t fails_at, VkResult error) {
    state = {};
    state.fails_at = fails_at;
    state.error = error;
}

// The driver that does nothing: what it "computes" is not looked at, and every call can be tried in a second.
bool is_null_driver() {
    const char *name = std::getenv("VK_ICD_FILENAMES");
    return name != nullptr && std::string_view(name).find("null_driver") != std::string_view::npos;
}

// Of each function and each error that it may return, but of one of these on a real device: so many of its calls fail, one
// in each run, spread over the program. functions: which; none: all. Returns how many errors there were.
std::size_t fail_calls(Program program, std::size_t most, bool real, const std::set<std::string> &functions = {},
                       const char *traits = kUntested) {
    reset(0, VK_SUCCESS);
    REQUIRE_FALSE(run_alone(program, VKATTN_SUCCESS, real, traits));
    std::map<std::string, std::vector<std::size_t>> places;
    for (std::size_t i = 0; i < state.calls.size(); ++i)
        if (functions.empty() || functions.contains(state.calls[i])) places[state.calls[i]].push_back(i + 1);
    const std::size_t calls = state.calls.size();
    REQUIRE(calls > 50);
    std::set<std::string> tolerated;
    std::size_t injected = 0, number_of_function = 0;
    for (const auto &place : places) {
        const std::string &name = place.first; // no structured binding: clang 14 captures none in lambdas
        const std::vector<std::size_t> &of_name = place.second;
        std::vector<VkResult> errors = errors_of(name);
        if (real) errors = {errors[number_of_function++ % errors.size()]}; // its pipelines take their time
        for (const VkResult error : errors) {
            const std::size_t tries = std::min(most, of_name.size());
            for (std::size_t i = 0; i < tries; ++i) {
                reset(of_name[(i + 1) * of_name.size() / tries - 1], error);
                INFO("call ", state.fails_at, " ", name, ", VkResult ", static_cast<int>(error));
                const bool failed = run_alone(program, result_of(error), real, traits);
                if (state.failed.empty()) continue; // another call had this number in this run
                ++injected;
                if (!failed) tolerated.insert(state.failed);
            }
        }
    }
    std::string names;
    for (const std::string &name : tolerated) names += " " + name;
    MESSAGE(injected << " errors in " << calls << " calls of " << places.size()
                     << " functions; done without:" << names);
    CHECK(injected >= (real ? 1 : 2) * std::max(places.size(), functions.size()));
    return injected;
}

} // namespace

TEST_SUITE_BEGIN("faults");

TEST_CASE("every Vulkan call fails once") {
    const bool real = !is_null_driver();
    CHECK(fail_calls(compute, real ? 1 : SIZE_MAX, real) > (real ? 8 : 200));
}

TEST_CASE("every Vulkan function fails while kernels are tested") {
    if (is_null_driver())
        fail_calls(test_kernels, 2, false); // one of half the way, and the last
    else
        fail_calls(use_tested_kernel, 2, true, {"vkAllocateMemory", "vkMapMemory", "vkQueueSubmit"},
                   "self_test=1,specialised_modules=0");
}

// Where runs take no time.
TEST_CASE("every Vulkan function fails while kernels are tuned" * doctest::skip(!is_null_driver())) {
    fail_calls(tune, 2, false);
}

TEST_CASE("every allocation of host memory fails once") {
    const bool real = !is_null_driver();
    for (const char *traits : {kUntested, kSpecialised}) {
        reset(0, VK_SUCCESS);
        allocations = allocation_that_fails = 0;
        run_alone(compute, VKATTN_SUCCESS, real, traits);
        const std::int64_t count = allocations, tries = traits == kSpecialised || real ? 10 : 200;
        REQUIRE(count > 100);
        for (std::int64_t i = 0; i < tries; ++i) {
            const std::int64_t at = 1 + i * count / tries;
            INFO("allocation ", at, " of ", count, ", ", traits);
            reset(0, VK_SUCCESS);
            allocations = 0;
            allocation_that_fails = at;
            run_alone(compute, VKATTN_ERROR_OUT_OF_HOST_MEMORY, real, traits);
            allocation_that_fails = 0;
        }
        MESSAGE(tries << " of " << count << " allocations");
    }
}

TEST_CASE("a plan that is made again after host memory ran out compiles what it would have") {
    const vkattn_attention_desc desc = attention_desc();
    const auto modules_of_plan = [&](std::int64_t failing) {
        reset(0, VK_SUCCESS);
        Objects o;
        Caller call(VKATTN_ERROR_OUT_OF_HOST_MEMORY);
        make_context(o, call, kSpecialised);
        allocations = 0;
        allocation_that_fails = failing;
        call("attention_plan", [&] { return vkattn_attention_plan(o.context, &desc, &o.attention); });
        allocation_that_fails = 0;
        return state.pipelines;
    };
    const std::vector<std::size_t> expected = modules_of_plan(0);
    const std::vector<std::int64_t> places = state.places;
    const std::int64_t count = allocations, most = is_null_driver() ? 60 : 4;
    REQUIRE(places.size() >= 2);
    REQUIRE(expected.size() > 0);
    for (const std::int64_t place : places) // where what belongs to a module or a buffer of constants is kept
        for (std::int64_t at = std::max<std::int64_t>(place, 1); at <= std::min(place + most, count); ++at) {
            INFO("allocation ", at, " of ", count);
            CHECK(modules_of_plan(at) == expected);
        }
}

// Where the driver has no threads of its own, which would have no memory either.
TEST_CASE("threads that prewarm without host memory say so" * doctest::skip(!is_null_driver())) {
    reset(0, VK_SUCCESS);
    Objects o;
    Caller call(VKATTN_SUCCESS);
    make_context(o, call);
    const std::vector<vkattn_attention_desc> descs(64, attention_desc());
    vkattn_result result = VKATTN_SUCCESS;
    for (int tries = 0; tries < 1000 && result == VKATTN_SUCCESS;
         ++tries) { // until the other thread has had one of them
        others_have_no_memory = true;
        counts_allocations = true;
        result = vkattn_prewarm(o.context, descs.data(), static_cast<std::uint32_t>(descs.size()), 2);
        counts_allocations = false;
        others_have_no_memory = false;
    }
    CHECK(result == VKATTN_ERROR_OUT_OF_HOST_MEMORY);
    const std::string message = vkattn_last_error();
    CHECK_MESSAGE(message.find("descs[") == 0, message);
    CHECK_MESSAGE(message.find("]: out of host memory") != std::string::npos, message); // whole
    CHECK(vkattn_prewarm(o.context, descs.data(), 2, 2) == VKATTN_SUCCESS);
}

TEST_CASE("memory of a buffer that cannot be mapped serves without") {
    const bool real = !is_null_driver();
    reset(0, VK_ERROR_MEMORY_MAP_FAILED);
    Objects o;
    Caller call(VKATTN_SUCCESS);
    make_context(o, call);
    state.fails_next = "vkMapMemory";
    CHECK(vkattn_buffer_create(o.context, 256, &o.buffers[0]) == VKATTN_SUCCESS);
    CHECK(state.failed == "vkMapMemory");
    const std::vector<float> values(64, 2.5f);
    std::vector<float> back(64);
    CHECK(vkattn_buffer_write(o.buffers[0], 0, values.data(), 256) == VKATTN_SUCCESS);
    CHECK(vkattn_buffer_read(o.buffers[0], 0, back.data(), 256) == VKATTN_SUCCESS);
    if (real) CHECK(back == values);
}

TEST_CASE("a device that was lost stays lost, and what was not downloaded never is") {
    reset(0, VK_ERROR_DEVICE_LOST);
    std::vector<float> values(64, 2.5f), back(64, 7.5f);
    {
        Objects o;
        Caller call(VKATTN_SUCCESS);
        make_context(o, call);
        call("buffer_create", [&] { return vkattn_buffer_create(o.context, 256, &o.buffers[0]); });
        call("buffer_write", [&] { return vkattn_buffer_write(o.buffers[0], 0, values.data(), 256); });
        call("download", [&] { return vkattn_buffer_download(o.buffers[0], 0, back.data(), 256, nullptr); });
        state.fails_next = "vkWaitForFences";
        CHECK(vkattn_wait(o.context, UINT64_MAX) == VKATTN_ERROR_DEVICE_LOST);
        for (int i = 0; i < 2; ++i) {
            CHECK(vkattn_wait(o.context, UINT64_MAX) == VKATTN_ERROR_DEVICE_LOST);
            CHECK(vkattn_buffer_write(o.buffers[0], 0, values.data(), 256) == VKATTN_ERROR_DEVICE_LOST);
            CHECK(vkattn_buffer_read(o.buffers[0], 0, values.data(), 256) == VKATTN_ERROR_DEVICE_LOST);
            CHECK(vkattn_buffer_upload(o.buffers[0], 0, values.data(), 256, nullptr) == VKATTN_ERROR_DEVICE_LOST);
            CHECK(vkattn_buffer_download(o.buffers[0], 0, back.data(), 256, nullptr) == VKATTN_ERROR_DEVICE_LOST);
        }
        const std::string message = vkattn_last_error();
        CHECK_MESSAGE(message.find("lost in an earlier call") != std::string::npos, message);
    }
    CHECK(values == std::vector<float>(64, 2.5f));
    CHECK(back == std::vector<float>(64, 7.5f));
    for (const auto &handles : state.live) CHECK_MESSAGE(handles.second == 0, handles.first, " ", handles.second);
}

TEST_CASE("what nobody can wait for is taken for lost, and never destroyed") {
#ifdef VKATTN_TEST_LEAK_CHECK
    const __lsan::ScopedDisabler meant; // the leaks below
#endif
    reset(0, VK_ERROR_OUT_OF_HOST_MEMORY);
    std::vector<float> values(64, 2.5f);
    {
        Objects o;
        Caller call(VKATTN_SUCCESS);
        make_context(o, call);
        call("buffer_create", [&] { return vkattn_buffer_create(o.context, 256, &o.buffers[0]); });
        call("upload", [&] { return vkattn_buffer_upload(o.buffers[0], 0, values.data(), 256, nullptr); });
        state.always_fails = "vkWaitForFences";
        CHECK(vkattn_wait(o.context, UINT64_MAX) == VKATTN_ERROR_DEVICE_LOST);
        const std::string message = vkattn_last_error();
        CHECK_MESSAGE(message.find("taken for lost") != std::string::npos, message);
        CHECK(vkattn_wait(o.context, UINT64_MAX) == VKATTN_ERROR_DEVICE_LOST);
    }
    CHECK(state.live["Buffer"] == 2); // and the staging
    CHECK(state.live["Memory"] == 2);
    for (const char *kept : {"Fence", "CommandPool", "Device", "Instance"}) CHECK_MESSAGE(state.live[kept] == 1, kept);
    state.always_fails.clear();
}

TEST_SUITE_END();
