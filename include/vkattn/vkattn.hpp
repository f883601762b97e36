// vkattn.hpp: header-only C++20 over vkattn.h. Owning, move-only objects, spans and exceptions; no logic of its own, so
// vkattn.h is the reference for what every call means, takes and refuses.
//
// Compiled without exceptions (-fno-exceptions), functions that can fail return Result<T> in place of T, and
// vkattn_result in place of void; a constructor that fails leaves an object that tests false. vkattn_last_error has the
// message.
//
//     vkattn::Context context;
//     vkattn_attention_desc desc{};
//     desc.query = vkattn::tensor(VKATTN_TYPE_F32, {1, 8, 128, 64});
//     ...
//     vkattn::Plan plan = context.attention_plan(desc);
//     plan.run({vkattn::bind(VKATTN_ROLE_QUERY, query), ...});
#ifndef VKATTN_VKATTN_HPP
#define VKATTN_VKATTN_HPP

#if !defined(__cplusplus) || (__cplusplus <= 201703L && (!defined(_MSVC_LANG) || _MSVC_LANG <= 201703L))
#error "vkattn.hpp needs C++20 (-std=c++20, /std:c++20); vkattn.h serves C and older C++"
#else

#include <vkattn/vkattn.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <ranges>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace vkattn {
// Keeps these inline symbols apart from those inside a statically linked library, and from other versions of this file.
inline namespace v0 {

#if defined(__cpp_exceptions)

// A failed call: its result, and its message in what().
class Error : public std::runtime_error {
  public:
    Error(vkattn_result result, const std::string &message) : std::runtime_error(message), result_(result) {}

    // Returns the result that the C function returned; never VKATTN_SUCCESS.
    vkattn_result result() const noexcept { return result_; }

  private:
    vkattn_result result_;
};

using Status = void; // what a function returns that can fail and has nothing else to return
template <typename T>
using Returned = T;

// Throws Error with the message of vkattn_last_error unless result is VKATTN_SUCCESS.
inline Status check(vkattn_result result) {
    if (result == VKATTN_SUCCESS) return;
    const std::string message = vkattn_last_error();
    throw Error(result, message.empty() ? vkattn_result_name(result) : message);
}

namespace detail {
template <typename T>
T returned(vkattn_result result, T value) {
    check(result);
    return value;
}
inline void require_constructed(vkattn_result result) { check(result); }
} // namespace detail

#else

// What a function made, or the result that says why it could not.
template <typename T>
struct [[nodiscard]] Result {
    vkattn_result result;
    T value; // empty unless result is VKATTN_SUCCESS

    explicit operator bool() const noexcept { return result == VKATTN_SUCCESS; }
    T &operator*() noexcept { return value; }
    const T &operator*() const noexcept { return value; }
    T *operator->() noexcept { return &value; }
    const T *operator->() const noexcept { return &value; }
};

using Status = vkattn_result;
template <typename T>
using Returned = Result<T>;

[[nodiscard]] inline Status check(vkattn_result result) { return result; }

namespace detail {
template <typename T>
Result<T> returned(vkattn_result result, T value) {
    return {result, std::move(value)};
}
inline void require_constructed(vkattn_result) {}
} // namespace detail

#endif

// Describes a tensor: sizes and strides outermost first, strides and offset in elements; no strides means contiguous.
// A shape that has not 1 to 4 dimensions, or strides of another number (unless none), are refused by whatever takes the
// tensor.
inline vkattn_tensor tensor(vkattn_type type, std::span<const std::uint64_t> shape,
                            std::span<const std::uint64_t> strides = {}, std::uint64_t offset = 0) {
    vkattn_tensor described{};
    described.type = type;
    const bool agree = strides.empty() || strides.size() == shape.size();
    described.rank = agree ? static_cast<std::uint32_t>(shape.size()) : 0; // 0 and above 4 are no ranks
    std::ranges::copy(shape.first(std::min<std::size_t>(shape.size(), 4)), described.shape);
    std::ranges::copy(strides.first(std::min<std::size_t>(strides.size(), 4)), described.strides);
    described.offset = offset;
    return described;
}

// The same from lists: tensor(VKATTN_TYPE_F16, {batch, heads, len, head_dim}).
inline vkattn_tensor tensor(vkattn_type type, std::initializer_list<std::uint64_t> shape,
                            std::initializer_list<std::uint64_t> strides = {}, std::uint64_t offset = 0) {
    return tensor(type, std::span(shape.begin(), shape.size()), std::span(strides.begin(), strides.size()), offset);
}

// Lists every Vulkan device with its facts, in the order of the loader. Throws Error if there is no Vulkan loader.
inline Returned<std::vector<vkattn_device_facts>> devices(PFN_vkGetInstanceProcAddr get_instance_proc_addr = nullptr) {
    std::uint32_t count = 0;
    vkattn_result result = vkattn_enumerate_devices(get_instance_proc_addr, &count, nullptr);
    std::vector<vkattn_device_facts> facts(count);
    if (result == VKATTN_SUCCESS && count != 0)
        result = vkattn_enumerate_devices(get_instance_proc_addr, &count, facts.data());
    // A device may have been unplugged between the two calls.
    facts.resize(std::min<std::size_t>(facts.size(), count));
    return detail::returned(result, std::move(facts));
}

// A contiguous range of values that may be copied byte by byte: a vector, an array, a span.
template <typename Range>
concept ValueRange = std::ranges::contiguous_range<Range> && std::ranges::sized_range<Range> &&
    std::is_trivially_copyable_v<std::ranges::range_value_t<Range>>;

// A storage buffer on the device. Must be destroyed before its context, and after the device has finished with it.
class Buffer {
  public:
    // Creates a buffer of bytes > 0; its contents are undefined.
    Buffer(vkattn_context context, std::uint64_t bytes) {
        vkattn_buffer created = nullptr;
        detail::require_constructed(vkattn_buffer_create(context, bytes, &created));
        handle_.reset(created);
    }

    // Copies all values into the buffer, from offset_bytes on, and waits.
    template <ValueRange Range>
    Status write(const Range &values, std::uint64_t offset_bytes = 0) {
        return check(vkattn_buffer_write(get(), offset_bytes, std::ranges::data(values), byte_size(values)));
    }

    // Fills values from the buffer, from offset_bytes on, and waits.
    template <ValueRange Range>
    Status read(Range &&values, std::uint64_t offset_bytes = 0) const {
        return check(vkattn_buffer_read(get(), offset_bytes, std::ranges::data(values), byte_size(values)));
    }

    // Returns the Vulkan handle, owned by the buffer.
    VkBuffer vulkan() const noexcept { return vkattn_buffer_handle(get()); }

    // Returns the C handle, owned by this object.
    vkattn_buffer get() const noexcept { return handle_.get(); }
    explicit operator bool() const noexcept { return handle_ != nullptr; }

  private:
    template <typename Range>
    static std::uint64_t byte_size(const Range &values) {
        return std::uint64_t{std::ranges::size(values)} * sizeof(std::ranges::range_value_t<Range>);
    }

    struct Destroy {
        void operator()(vkattn_buffer buffer) const noexcept { vkattn_buffer_destroy(buffer); }
    };
    std::unique_ptr<std::remove_pointer_t<vkattn_buffer>, Destroy> handle_;
};

// Says that a role's tensor lies in a buffer, from offset_bytes on (a multiple of 16).
inline vkattn_binding bind(vkattn_role role, VkBuffer buffer, VkDeviceSize offset_bytes = 0) {
    return {role, buffer, offset_bytes};
}
inline vkattn_binding bind(vkattn_role role, const Buffer &buffer, VkDeviceSize offset_bytes = 0) {
    return {role, buffer.vulkan(), offset_bytes};
}

// A checked problem with its kernel chosen and its pipelines built. Immutable: may be recorded from many threads at
// once.
class Plan {
  public:
    // Takes ownership of a plan made by the C functions.
    explicit Plan(vkattn_plan owned) : handle_(owned) {}

    // Returns what recording needs: workspace bytes, descriptors.
    vkattn_requirements requirements() const {
        vkattn_requirements needed{};
        vkattn_plan_requirements(get(), &needed);
        return needed;
    }

    // Returns the kernel taken, and why. The strings belong to the plan.
    vkattn_report report() const {
        vkattn_report chosen{};
        vkattn_plan_report(get(), &chosen);
        return chosen;
    }

    // Returns what the driver's compiler made of the plan's pipelines; the context must capture shaders. Belongs to the
    // plan.
    Returned<std::span<const vkattn_shader>> shaders() const {
        std::uint32_t count = 0;
        const vkattn_shader *first = nullptr;
        const vkattn_result result = vkattn_plan_shaders(get(), &count, &first);
        return detail::returned(result, std::span<const vkattn_shader>(first, count));
    }

    // Records the dispatches into a command buffer that is recording. The barriers around them are the caller's, see
    // vkattn_record; pool is needed only where requirements() asks for descriptor sets.
    Status record(VkCommandBuffer command_buffer, std::span<const vkattn_binding> bindings,
                  VkDescriptorPool pool = VK_NULL_HANDLE) const {
        const vkattn_record_info info{command_buffer, pool, bindings.data(),
                                      static_cast<std::uint32_t>(bindings.size())};
        return check(vkattn_record(get(), &info));
    }
    Status record(VkCommandBuffer command_buffer, std::initializer_list<vkattn_binding> bindings,
                  VkDescriptorPool pool = VK_NULL_HANDLE) const {
        return record(command_buffer, std::span(bindings.begin(), bindings.size()), pool);
    }

    // Records, submits and waits. Returns the milliseconds on the GPU, negative where the queue has no timestamps.
    Returned<double> run(std::span<const vkattn_binding> bindings) const {
        double gpu_ms = -1.0;
        const vkattn_result result =
            vkattn_run(get(), bindings.data(), static_cast<std::uint32_t>(bindings.size()), &gpu_ms);
        return detail::returned(result, gpu_ms);
    }
    Returned<double> run(std::initializer_list<vkattn_binding> bindings) const {
        return run(std::span(bindings.begin(), bindings.size()));
    }

    // Returns the C handle, owned by this object.
    vkattn_plan get() const noexcept { return handle_.get(); }
    explicit operator bool() const noexcept { return handle_ != nullptr; }

  private:
    struct Destroy {
        void operator()(vkattn_plan plan) const noexcept { vkattn_plan_destroy(plan); }
    };
    std::unique_ptr<std::remove_pointer_t<vkattn_plan>, Destroy> handle_;
};

// A layer with its weights on the device. Immutable; must be destroyed after its plans and before its context.
class Layer {
  public:
    // Uploads the weights, which may be freed afterwards.
    Layer(vkattn_context context, const vkattn_layer_config &config, std::span<const vkattn_weight> weights) {
        vkattn_layer created = nullptr;
        detail::require_constructed(vkattn_layer_create(context, &config, weights.data(),
                                                        static_cast<std::uint32_t>(weights.size()), &created));
        handle_.reset(created);
    }

    // Plans one use of the layer: the whole layer records as one plan.
    Returned<Plan> plan(const vkattn_layer_call &call) const {
        vkattn_plan created = nullptr;
        const vkattn_result result = vkattn_layer_plan(get(), &call, &created);
        return detail::returned(result, Plan(created));
    }

    // Returns the C handle, owned by this object.
    vkattn_layer get() const noexcept { return handle_.get(); }
    explicit operator bool() const noexcept { return handle_ != nullptr; }

  private:
    struct Destroy {
        void operator()(vkattn_layer layer) const noexcept { vkattn_layer_destroy(layer); }
    };
    std::unique_ptr<std::remove_pointer_t<vkattn_layer>, Destroy> handle_;
};

// Keys and values of earlier tokens; see vkattn_cache_info.
class Cache {
  public:
    // Takes ownership.
    explicit Cache(vkattn_cache cache) : handle_(cache) {}

    std::uint64_t bytes() const { return vkattn_cache_bytes(get()); }
    // Of as many sequences as `lengths` has room for, which must be the batch.
    Status lengths(std::span<std::uint32_t> lengths) const {
        return check(vkattn_cache_lengths(get(), lengths.data()));
    }
    Status reserve(std::uint32_t tokens) const { return check(vkattn_cache_reserve(get(), tokens)); }
    Status rewind(std::uint32_t sequence, std::uint32_t length) const {
        return check(vkattn_cache_rewind(get(), sequence, length));
    }
    Status copy_sequence_to(std::uint32_t sequence, const Cache &to, std::uint32_t to_sequence) const {
        return check(vkattn_cache_copy_sequence(get(), sequence, to.get(), to_sequence));
    }
    Status read(vkattn_cache_part part, std::uint32_t sequence, std::span<float> values) const {
        return check(vkattn_cache_read(get(), part, sequence, values.data(), values.size()));
    }

    // Returns the C handle, owned by this object.
    vkattn_cache get() const noexcept { return handle_.get(); }
    explicit operator bool() const noexcept { return handle_ != nullptr; }

  private:
    struct Destroy {
        void operator()(vkattn_cache cache) const noexcept { vkattn_cache_destroy(cache); }
    };
    std::unique_ptr<std::remove_pointer_t<vkattn_cache>, Destroy> handle_;
};

// A Vulkan device in use. May be used from many threads at once; must outlive all that is made with it.
class Context {
  public:
    // Creates a context on a device of its own, or around the caller's if info.device is set.
    explicit Context(const vkattn_context_info &info = {}) {
        vkattn_context created = nullptr;
        detail::require_constructed(vkattn_context_create(&info, &created));
        handle_.reset(created);
    }

    // Creates a context on a device of its own: "" for the best, an index, or a part of its name.
    explicit Context(const std::string &device_selector) : Context(with_selector(device_selector.c_str())) {}

    // Returns the device's facts, as the context uses it.
    Returned<vkattn_device_facts> facts() const {
        vkattn_device_facts known{};
        const vkattn_result result = vkattn_context_facts(get(), &known);
        return detail::returned(result, known);
    }

    // What the context has learned, for vkattn_context_info.saved_data of a later run.
    Returned<std::vector<std::uint8_t>> save() const {
        std::uint64_t bytes = 0;
        vkattn_result result = vkattn_context_save(get(), &bytes, nullptr);
        std::vector<std::uint8_t> data(bytes);
        if (result == VKATTN_SUCCESS) result = vkattn_context_save(get(), &bytes, data.data());
        return detail::returned(result, std::move(data));
    }

    // Checks the numbers of every kernel; what fails is off for this context.
    Returned<std::vector<vkattn_check>> self_test() const {
        std::vector<vkattn_check> checks(VKATTN_MAX_CHECKS);
        auto count = static_cast<std::uint32_t>(checks.size());
        const vkattn_result result = vkattn_self_test(get(), &count, checks.data());
        checks.resize(result == VKATTN_SUCCESS ? std::min<std::size_t>(count, checks.size()) : 0);
        return detail::returned(result, std::move(checks));
    }

    // Creates a storage buffer of bytes > 0.
    Buffer buffer(std::uint64_t bytes) const { return Buffer(get(), bytes); }

    // Creates a storage buffer that holds the tensor.
    Buffer buffer(const vkattn_tensor &held) const { return Buffer(get(), vkattn_tensor_bytes(&held)); }

    // Creates a cache on the device.
    Returned<Cache> cache(const vkattn_cache_info &info) const {
        vkattn_cache created = nullptr;
        const vkattn_result result = vkattn_cache_create(get(), &info, &created);
        return detail::returned(result, Cache(created));
    }

    // Checks an attention problem, chooses its kernel and builds its pipelines.
    Returned<Plan> attention_plan(const vkattn_attention_desc &desc) const {
        return planned(vkattn_attention_plan, desc);
    }

    // What every kernel would make of an attention problem, or what stands in its way, the best first.
    Returned<std::vector<vkattn_option>> explain(const vkattn_attention_desc &desc) const {
        std::vector<vkattn_option> options(VKATTN_KERNEL_COUNT);
        auto count = static_cast<std::uint32_t>(options.size());
        const vkattn_result result = vkattn_explain(get(), &desc, &count, options.data());
        options.resize(result == VKATTN_SUCCESS ? std::min<std::size_t>(count, options.size()) : 0);
        return detail::returned(result, std::move(options));
    }

    // Builds what plans of these problems need, on so many threads.
    Status prewarm(std::span<const vkattn_attention_desc> descs, std::uint32_t threads = 1) const {
        return check(vkattn_prewarm(get(), descs.data(), static_cast<std::uint32_t>(descs.size()), threads));
    }

    // Measures the fastest way of computing an attention problem, for plans of such problems from then on.
    Returned<std::vector<vkattn_candidate>> tune(const vkattn_attention_desc &desc) const {
        return tuned(vkattn_tune, desc);
    }

    // The same of a linear layer.
    Returned<std::vector<vkattn_candidate>> tune(const vkattn_linear_desc &desc) const {
        return tuned(vkattn_tune_linear, desc);
    }

    // Plans one append to a cache.
    Returned<Plan> kv_append_plan(const vkattn_kv_append_desc &desc) const {
        return planned(vkattn_kv_append_plan, desc);
    }

    // Plans one merge of partial results.
    Returned<Plan> merge_plan(const vkattn_merge_desc &desc) const { return planned(vkattn_merge_plan, desc); }

    // Plans one product with a weight.
    Returned<Plan> linear_plan(const vkattn_linear_desc &desc) const { return planned(vkattn_linear_plan, desc); }

    // Plans one norm.
    Returned<Plan> norm_plan(const vkattn_norm_desc &desc) const { return planned(vkattn_norm_plan, desc); }

    // Plans one lookup of tokens.
    Returned<Plan> embedding_plan(const vkattn_embedding_desc &desc) const {
        return planned(vkattn_embedding_plan, desc);
    }

    // Bytes of workspace of a call of such a layer.
    Returned<std::uint64_t> layer_workspace(const vkattn_layer_config &config, const vkattn_layer_call &call) const {
        std::uint64_t bytes = 0;
        const vkattn_result result = vkattn_layer_workspace(get(), &config, &call, &bytes);
        return detail::returned(result, bytes);
    }

    // Creates a layer from named weights in host memory, which may be freed afterwards.
    Layer layer(const vkattn_layer_config &config, std::span<const vkattn_weight> weights) const {
        return Layer(get(), config, weights);
    }

    // Returns the C handle, owned by this object.
    vkattn_context get() const noexcept { return handle_.get(); }
    explicit operator bool() const noexcept { return handle_ != nullptr; }

  private:
    static vkattn_context_info with_selector(const char *selector) {
        vkattn_context_info info{};
        info.device_selector = selector;
        return info;
    }

    template <typename Desc>
    Returned<std::vector<vkattn_candidate>> tuned(vkattn_result (*measure)(vkattn_context, const Desc *,
                                                                           std::uint32_t *, vkattn_candidate *),
                                                  const Desc &desc) const {
        std::vector<vkattn_candidate> candidates(VKATTN_MAX_CANDIDATES);
        auto count = static_cast<std::uint32_t>(candidates.size());
        const vkattn_result result = measure(get(), &desc, &count, candidates.data());
        candidates.resize(result == VKATTN_SUCCESS ? std::min<std::size_t>(count, candidates.size()) : 0);
        return detail::returned(result, std::move(candidates));
    }

    template <typename Desc>
    Returned<Plan> planned(vkattn_result (*create)(vkattn_context, const Desc *, vkattn_plan *),
                           const Desc &desc) const {
        vkattn_plan created = nullptr;
        const vkattn_result result = create(get(), &desc, &created);
        return detail::returned(result, Plan(created));
    }

    struct Destroy {
        void operator()(vkattn_context context) const noexcept { vkattn_context_destroy(context); }
    };
    std::unique_ptr<std::remove_pointer_t<vkattn_context>, Destroy> handle_;
};

} // namespace v0
} // namespace vkattn

#endif
#endif
