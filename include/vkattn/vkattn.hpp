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
#include <concepts>
#include <cstddef>
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

// What a call has found: structures with their texts, which belong to the list.
template <typename Structure>
class List {
  public:
    // An empty list.
    List() = default;
    // Takes ownership of a list of such structures made by the C functions.
    explicit List(vkattn_list owned) : handle_(owned) {}

    std::size_t size() const noexcept { return vkattn_list_count(get()); }
    bool empty() const noexcept { return size() == 0; }
    const Structure &operator[](std::size_t index) const noexcept {
        return *static_cast<const Structure *>(vkattn_list_get(get(), static_cast<std::uint32_t>(index)));
    }
    const Structure &front() const noexcept { return (*this)[0]; }
    const Structure &back() const noexcept { return (*this)[size() - 1]; }

    class Iterator {
      public:
        using value_type = Structure;
        using difference_type = std::ptrdiff_t;
        Iterator() = default;
        Iterator(const List &list, std::size_t index) : list_(&list), index_(index) {}
        const Structure &operator*() const noexcept { return (*list_)[index_]; }
        const Structure *operator->() const noexcept { return &(*list_)[index_]; }
        Iterator &operator++() noexcept {
            ++index_;
            return *this;
        }
        Iterator operator++(int) noexcept {
            Iterator before = *this;
            ++*this;
            return before;
        }
        bool operator==(const Iterator &other) const noexcept { return index_ == other.index_; }

      private:
        const List *list_ = nullptr;
        std::size_t index_ = 0;
    };
    Iterator begin() const noexcept { return {*this, 0}; }
    Iterator end() const noexcept { return {*this, size()}; }

    // Returns the C handle, owned by this object.
    vkattn_list get() const noexcept { return handle_.get(); }

  private:
    struct Destroy {
        void operator()(vkattn_list list) const noexcept { vkattn_list_destroy(list); }
    };
    std::unique_ptr<std::remove_pointer_t<vkattn_list>, Destroy> handle_;
};

namespace detail {
// The list that make(vkattn_list *) gives.
template <typename Structure, typename Make>
Returned<List<Structure>> list(const Make &make) {
    vkattn_list made = nullptr;
    const vkattn_result result = make(&made);
    return returned(result, List<Structure>(made));
}
} // namespace detail

// What the types are that tensors are stored in, in the order of their numbers.
inline Returned<List<vkattn_type_info>> enumerate_types() {
    return detail::list<vkattn_type_info>(vkattn_enumerate_types);
}

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

// Names a contiguous weight in host memory, of so many bytes, for a layer to copy.
inline vkattn_weight weight(const char *name, const vkattn_tensor &layout, const void *data, std::uint64_t bytes) {
    return {name, layout, data, bytes, {}};
}
// The same of one in a storage buffer, for a layer to read there.
inline vkattn_weight weight(const char *name, const vkattn_tensor &layout, const vkattn_region &region) {
    return {name, layout, nullptr, 0, region};
}

// Lists every Vulkan device with its facts, in the order of the loader. Throws Error if there is no Vulkan loader.
inline Returned<List<vkattn_device_facts>> devices(PFN_vkGetInstanceProcAddr get_instance_proc_addr = nullptr) {
    return detail::list<vkattn_device_facts>(
        [&](vkattn_list *found) { return vkattn_enumerate_devices(get_instance_proc_addr, found); });
}

// A contiguous range of values that may be copied byte by byte: a vector, an array, a span.
template <typename Range>
concept ValueRange = std::ranges::contiguous_range<Range> && std::ranges::sized_range<Range> &&
    std::is_trivially_copyable_v<std::ranges::range_value_t<Range>>;

// The same, of values that outlive the call that is given them: an object with a name, or a view of one.
template <typename Range>
concept LastingRange = ValueRange<Range> && std::ranges::borrowed_range<Range>;

// A part of a cache: its layout, and where it lies in a buffer that the cache owns.
struct CacheTensor {
    vkattn_tensor layout;
    vkattn_region region;
};

// A storage buffer on the device. Must be destroyed after the device has finished with it.
class Buffer {
  public:
    // An empty object, which tests false: to be assigned to.
    Buffer() = default;
    // Creates a buffer of so many bytes, or none; its contents are undefined.
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

    // The same without a wait, between what sync says: values are read before the return, but written until
    // Context::wait returns, so that a temporary is no place for them.
    template <ValueRange Range>
    Status upload(const Range &values, std::uint64_t offset_bytes = 0, const vkattn_sync &sync = {}) {
        return check(vkattn_buffer_upload(get(), offset_bytes, std::ranges::data(values), byte_size(values), &sync));
    }
    template <LastingRange Range>
    Status download(Range &&values, std::uint64_t offset_bytes = 0, const vkattn_sync &sync = {}) const {
        return check(vkattn_buffer_download(get(), offset_bytes, std::ranges::data(values), byte_size(values), &sync));
    }

    // Returns the Vulkan handle, owned by the buffer.
    VkBuffer vulkan() const noexcept { return vkattn_buffer_handle(get()); }
    // Returns all of the buffer from offset_bytes on.
    vkattn_region region(VkDeviceSize offset_bytes = 0) const noexcept {
        vkattn_region whole = vkattn_buffer_region(get());
        whole.offset = offset_bytes;
        whole.bytes -= std::min(whole.bytes, offset_bytes);
        return whole;
    }

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

// Says where a role's tensor lies.
inline vkattn_binding bind(vkattn_role role, const vkattn_region &region) { return {role, region}; }
inline vkattn_binding bind(vkattn_role role, VkBuffer buffer, VkDeviceSize offset_bytes, VkDeviceSize bytes) {
    return {role, {buffer, offset_bytes, bytes}};
}
// The same of vkattn's own buffer, from offset_bytes on.
inline vkattn_binding bind(vkattn_role role, const Buffer &buffer, VkDeviceSize offset_bytes = 0) {
    return {role, buffer.region(offset_bytes)};
}
// The same of a part of a cache.
inline vkattn_binding bind(vkattn_role role, const CacheTensor &part) { return {role, part.region}; }

// What a submission waits for and signals. The spans must live until it is submitted.
inline vkattn_sync sync(std::span<const vkattn_semaphore> waits, std::span<const vkattn_semaphore> signals) {
    return {.waits = waits.data(),
            .wait_count = static_cast<std::uint32_t>(waits.size()),
            .signals = signals.data(),
            .signal_count = static_cast<std::uint32_t>(signals.size())};
}

// What plans need that are recorded one after the other, with a barrier before each: one workspace for all, descriptors for each.
inline vkattn_requirements together(std::span<const vkattn_requirements> plans) {
    vkattn_requirements all{};
    for (const vkattn_requirements &plan : plans) {
        all.workspace_bytes = std::max(all.workspace_bytes, plan.workspace_bytes);
        all.workspace_alignment = std::max(all.workspace_alignment, plan.workspace_alignment);
        all.descriptor_sets += plan.descriptor_sets;
        all.storage_buffer_descriptors += plan.storage_buffer_descriptors;
        all.uniform_buffer_descriptors += plan.uniform_buffer_descriptors;
    }
    return all;
}

// For VkDescriptorPoolCreateInfo, whose maxSets are needed.descriptor_sets; empty: no pool is needed.
inline std::vector<VkDescriptorPoolSize> descriptor_pool_sizes(const vkattn_requirements &needed) {
    std::vector<VkDescriptorPoolSize> sizes;
    if (needed.storage_buffer_descriptors != 0)
        sizes.push_back({VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, needed.storage_buffer_descriptors});
    if (needed.uniform_buffer_descriptors != 0)
        sizes.push_back({VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER, needed.uniform_buffer_descriptors});
    return sizes;
}

// A checked problem with its kernel chosen and its pipelines built. Immutable: may be recorded from many threads at
// once.
class Plan {
  public:
    // An empty object, which tests false: to be assigned to.
    Plan() = default;
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
        vkattn_plan_get_report(get(), &chosen);
        return chosen;
    }

    // Lists what it binds, the workspace too.
    Returned<List<vkattn_plan_binding>> bindings() const {
        return detail::list<vkattn_plan_binding>(
            [&](vkattn_list *found) { return vkattn_plan_bindings(get(), found); });
    }

    // Returns what the driver's compiler made of the plan's pipelines; the context must capture shaders.
    Returned<List<vkattn_shader>> shaders() const {
        return detail::list<vkattn_shader>([&](vkattn_list *found) { return vkattn_plan_shaders(get(), found); });
    }

    // Records the dispatches into a command buffer that is recording. The barriers around them are the caller's, see
    // vkattn_record; pool is needed only where requirements() asks for descriptor sets.
    Status record(VkCommandBuffer command_buffer, std::span<const vkattn_binding> bindings,
                  VkDescriptorPool pool = VK_NULL_HANDLE) const {
        const vkattn_record_info info{.command_buffer = command_buffer,
                                      .descriptor_pool = pool,
                                      .bindings = bindings.data(),
                                      .binding_count = static_cast<std::uint32_t>(bindings.size())};
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

    // Records and submits on the context's queue, without a wait, between what sync says.
    Status submit(std::span<const vkattn_binding> bindings, const vkattn_sync &sync = {}) const {
        return check(vkattn_submit(get(), bindings.data(), static_cast<std::uint32_t>(bindings.size()), &sync));
    }
    Status submit(std::initializer_list<vkattn_binding> bindings, const vkattn_sync &sync = {}) const {
        return submit(std::span(bindings.begin(), bindings.size()), sync);
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

// A plan of a program, and what it is bound to. Both must live until the program is made.
inline vkattn_bound_plan bind(const Plan &plan, std::span<const vkattn_binding> bindings) {
    return {plan.get(), bindings.data(), static_cast<std::uint32_t>(bindings.size())};
}

// Plans that were recorded as one, to be replayed with what their buffers hold then. Keeps its plans; buffers must outlive it.
class Program {
  public:
    // An empty object, which tests false: to be assigned to.
    Program() = default;
    // Takes ownership of a program made by the C functions.
    explicit Program(vkattn_program owned) : handle_(owned) {}

    // Returns what it is made of: dispatches, barriers, workspace.
    vkattn_program_report report() const {
        vkattn_program_report made{};
        vkattn_program_get_report(get(), &made);
        return made;
    }

    // Replays and waits. Returns the milliseconds on the GPU, negative where the queue has no timestamps.
    Returned<double> run() const {
        double gpu_ms = -1.0;
        const vkattn_result result = vkattn_program_run(get(), &gpu_ms);
        return detail::returned(result, gpu_ms);
    }

    // Replays without a wait, between what sync says.
    Status submit(const vkattn_sync &sync = {}) const { return check(vkattn_program_submit(get(), &sync)); }

    // Returns the C handle, owned by this object.
    vkattn_program get() const noexcept { return handle_.get(); }
    explicit operator bool() const noexcept { return handle_ != nullptr; }

  private:
    struct Destroy {
        void operator()(vkattn_program program) const noexcept { vkattn_program_destroy(program); }
    };
    std::unique_ptr<std::remove_pointer_t<vkattn_program>, Destroy> handle_;
};

// A layer with its weights on the device. Immutable; its plans keep it.
class Layer {
  public:
    // An empty object, which tests false: to be assigned to.
    Layer() = default;
    // Uploads the weights, which may be freed afterwards; those in buffers of the caller's are read there.
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

    // Describes what a call saves for its backward pass: the call's activations, and those of backward_plan.
    Returned<vkattn_tensor> activations(const vkattn_layer_call &call) const {
        vkattn_tensor described{};
        const vkattn_result result = vkattn_layer_activations(get(), &call, &described);
        return detail::returned(result, described);
    }

    // Plans the backward pass of one use of the layer.
    Returned<Plan> backward_plan(const vkattn_layer_backward_desc &desc) const {
        vkattn_plan created = nullptr;
        const vkattn_result result = vkattn_layer_backward_plan(get(), &desc, &created);
        return detail::returned(result, Plan(created));
    }

    // What such a plan would take.
    Returned<vkattn_measure> measure_backward(const vkattn_layer_backward_desc &desc) const {
        vkattn_measure measured{};
        const vkattn_result result = vkattn_layer_backward_measure(get(), &desc, &measured);
        return detail::returned(result, measured);
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
    // An empty object, which tests false: to be assigned to.
    Cache() = default;
    // Takes ownership.
    explicit Cache(vkattn_cache cache) : handle_(cache) {}

    std::uint64_t bytes() const { return vkattn_cache_bytes(get()); }
    // The tokens that each sequence holds.
    Returned<std::vector<std::uint32_t>> lengths() const {
        vkattn_tensor layout{};
        vkattn_result result = vkattn_cache_tensor(get(), VKATTN_CACHE_LENGTHS, &layout, nullptr);
        std::vector<std::uint32_t> held(layout.shape[0]);
        if (result == VKATTN_SUCCESS)
            result = vkattn_cache_lengths(get(), held.data(), static_cast<std::uint32_t>(held.size()));
        return detail::returned(result, std::move(held));
    }
    // The layout and the region of a part, to bind it in plans of the operators.
    Returned<CacheTensor> tensor(vkattn_cache_part part) const {
        CacheTensor found{};
        const vkattn_result result = vkattn_cache_tensor(get(), part, &found.layout, &found.region);
        return detail::returned(result, found);
    }
    // Of a cache with pages: those that no sequence holds.
    std::uint32_t free_pages() const { return vkattn_cache_free_pages(get()); }
    // Counts an append of so many tokens to every sequence.
    Status reserve(std::uint32_t tokens) const { return check(vkattn_cache_reserve(get(), &tokens, 1)); }
    // The same, to each sequence its own number.
    Status reserve(std::span<const std::uint32_t> tokens) const {
        return check(vkattn_cache_reserve(get(), tokens.data(), static_cast<std::uint32_t>(tokens.size())));
    }
    Status rewind(std::uint32_t sequence, std::uint32_t length) const {
        return check(vkattn_cache_rewind(get(), sequence, length));
    }
    // The first `length` tokens and, behind them, those at the places `tokens`, ascending.
    Status keep(std::uint32_t sequence, std::uint32_t length, std::span<const std::uint32_t> tokens) const {
        return check(
            vkattn_cache_keep(get(), sequence, length, tokens.data(), static_cast<std::uint32_t>(tokens.size())));
    }
    Status copy_sequence_to(std::uint32_t sequence, const Cache &to, std::uint32_t to_sequence) const {
        return check(vkattn_cache_copy_sequence(get(), sequence, to.get(), to_sequence));
    }
    Status share_prefix(std::uint32_t sequence, std::uint32_t to_sequence, std::uint32_t length) const {
        return check(vkattn_cache_share_prefix(get(), sequence, to_sequence, length));
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

// Functions of the user's own in every kernel, see variants.h. Plans that were made with it
// stay as they are. jit.hpp makes one of text.
class Variant {
  public:
    // An empty object, which tests false: to be assigned to.
    Variant() = default;
    // Takes ownership of a variant made by the C functions.
    explicit Variant(vkattn_variant owned) : handle_(owned) {}

    // Gives the variant to a description, with the tensors that its functions read.
    template <std::same_as<vkattn_tensor>... Tensors>
    void set_in(vkattn_attention_desc &desc, const Tensors &...captured) const {
        static_assert(sizeof...(captured) <= VKATTN_CAPTURED_TENSORS, "more captured tensors than a variant reads");
        const vkattn_tensor given[VKATTN_CAPTURED_TENSORS] = {captured...};
        desc.variant = get();
        desc.captured_0 = given[0];
        desc.captured_1 = given[1];
        desc.captured_2 = given[2];
        desc.captured_3 = given[3];
    }

    // Returns the C handle, owned by this object.
    vkattn_variant get() const noexcept { return handle_.get(); }
    explicit operator bool() const noexcept { return handle_ != nullptr; }

  private:
    struct Destroy {
        void operator()(vkattn_variant variant) const noexcept { vkattn_variant_destroy(variant); }
    };
    std::unique_ptr<std::remove_pointer_t<vkattn_variant>, Destroy> handle_;
};

// A Vulkan device in use. May be used from many threads at once; what is made with it keeps it.
class Context {
  public:
    // An empty object, which tests false: to be assigned to.
    explicit Context(std::nullptr_t) noexcept {}
    // Creates a context on a device of its own, or around the caller's if info.device is set.
    explicit Context(const vkattn_context_info &info = {}) {
        vkattn_context created = nullptr;
        detail::require_constructed(vkattn_context_create(&info, &created));
        handle_.reset(created);
    }

    // Creates a context on a device of its own: "" for the best, an index, or a part of its name.
    explicit Context(const std::string &device_selector) : Context(with_selector(device_selector.c_str())) {}

    // Returns the device's facts, as the context uses it. Their texts are the context's.
    Returned<vkattn_device_facts> facts() const && = delete;
    Returned<vkattn_device_facts> facts() const & {
        vkattn_device_facts known{};
        const vkattn_result result = vkattn_context_facts(get(), &known);
        return detail::returned(result, known);
    }

    // What the context has learned, for vkattn_context_info.saved_data of a later run. Asks again where it has grown
    // since its size was asked for: other threads make plans.
    Returned<std::vector<std::uint8_t>> save() const {
        std::vector<std::uint8_t> data;
        std::uint64_t bytes = 0;
        vkattn_result result = VKATTN_SUCCESS;
        do {
            result = vkattn_context_save(get(), nullptr, &bytes);
            if (result != VKATTN_SUCCESS) break;
            data.resize(bytes);
            result = vkattn_context_save(get(), data.data(), &bytes);
        } while (result == VKATTN_ERROR_NO_ROOM);
        data.resize(result == VKATTN_SUCCESS ? bytes : 0); // it may also have shrunk
        return detail::returned(result, std::move(data));
    }

    // What the context's tune_budget_ms has gone into so far.
    Returned<vkattn_tune_budget_report> tune_budget() const {
        vkattn_tune_budget_report report{};
        const vkattn_result result = vkattn_context_tune_budget(get(), &report);
        return detail::returned(result, report);
    }

    // Checks the numbers of every kernel; what fails is off for this context.
    Returned<List<vkattn_check>> self_test() const {
        return detail::list<vkattn_check>(
            [&](vkattn_list *checks) { return vkattn_self_test(get(), nullptr, nullptr, checks); });
    }

    // The same, where one wants to see it go on: tell(const vkattn_check &) is called with each check, and may not throw.
    template <typename Tell>
    Returned<List<vkattn_check>> self_test(Tell &&tell) const {
        auto tell_one = [&tell](const vkattn_check &each) { tell(each); }; // tell may be constant, or a function
        const auto callback = [](void *user, const vkattn_check *each) {
            (*static_cast<decltype(tell_one) *>(user))(*each);
        };
        return detail::list<vkattn_check>(
            [&](vkattn_list *checks) { return vkattn_self_test(get(), callback, &tell_one, checks); });
    }

    // Waits until all is done that was submitted without a wait; fails with VKATTN_ERROR_TIMEOUT where it is not in time.
    Status wait(std::uint64_t timeout_ns = UINT64_MAX) const { return check(vkattn_wait(get(), timeout_ns)); }

    // Creates a storage buffer of so many bytes, or none.
    Buffer buffer(std::uint64_t bytes) const { return Buffer(get(), bytes); }

    // Creates a storage buffer that holds the tensor.
    Buffer buffer(const vkattn_tensor &held) const { return Buffer(get(), vkattn_tensor_bytes(&held)); }

    // Creates a cache on the device.
    Returned<Cache> cache(const vkattn_cache_info &info) const {
        vkattn_cache created = nullptr;
        const vkattn_result result = vkattn_cache_create(get(), &info, &created);
        return detail::returned(result, Cache(created));
    }

    // Records plans as a program, in the order in which they are computed.
    Returned<Program> program(std::span<const vkattn_bound_plan> plans) const {
        const vkattn_program_info info{.plans = plans.data(), .plan_count = static_cast<std::uint32_t>(plans.size())};
        vkattn_program created = nullptr;
        const vkattn_result result = vkattn_program_create(get(), &info, &created);
        return detail::returned(result, Program(created));
    }
    Returned<Program> program(std::initializer_list<vkattn_bound_plan> plans) const {
        return program(std::span(plans.begin(), plans.size()));
    }

    // Plans a call of each operator: attention_plan(const vkattn_attention_desc &), linear_plan ... as VKATTN_OPERATORS lists them.
#define VKATTN_PLAN(name)                                                                                              \
    Returned<Plan> name##_plan(const vkattn_##name##_desc &desc) const { return planned(vkattn_##name##_plan, desc); }
    VKATTN_OPERATORS(VKATTN_PLAN)
#undef VKATTN_PLAN

    // Makes a variant of attention; see vkattn_variant_info.
    Returned<Variant> variant(const vkattn_variant_info &info) const {
        vkattn_variant created = nullptr;
        const vkattn_result result = vkattn_variant_create(get(), &info, &created);
        return detail::returned(result, Variant(created));
    }

    // The same of the bytes of a file that `vkattn compile-variant` wrote.
    template <ValueRange Range>
    Returned<Variant> variant(const Range &compiled) const {
        vkattn_variant_info info{};
        info.compiled = std::ranges::data(compiled);
        info.compiled_bytes = std::uint64_t{std::ranges::size(compiled)} * sizeof(std::ranges::range_value_t<Range>);
        return variant(info);
    }

    // Plans what fills in the description's block_mask from the mask_mod of its variant.
    Returned<Plan> block_mask_plan(const vkattn_attention_desc &desc) const {
        return planned(vkattn_block_mask_plan, desc);
    }

    // What every kernel would make of an attention problem, or what stands in its way, the best first.
    Returned<List<vkattn_option>> explain(const vkattn_attention_desc &desc) const {
        return detail::list<vkattn_option>([&](vkattn_list *options) { return vkattn_explain(get(), &desc, options); });
    }

    // What a plan would take, without making it.
    Returned<vkattn_measure> measure(const vkattn_attention_desc &desc) const {
        return measured([&](vkattn_measure *taken) { return vkattn_attention_measure(get(), &desc, taken); });
    }
    Returned<vkattn_measure> measure(const vkattn_linear_desc &desc) const {
        return measured([&](vkattn_measure *taken) { return vkattn_linear_measure(get(), &desc, taken); });
    }
    Returned<vkattn_measure> measure(const vkattn_layer_config &config, const vkattn_layer_call &call) const {
        return measured([&](vkattn_measure *taken) { return vkattn_layer_measure(get(), &config, &call, taken); });
    }

    // Builds what plans of these problems need, on so many threads.
    Status prewarm(std::span<const vkattn_attention_desc> descs, std::uint32_t threads = 1) const {
        return check(vkattn_prewarm(get(), descs.data(), static_cast<std::uint32_t>(descs.size()), threads));
    }
    Status prewarm(std::span<const vkattn_linear_desc> descs, std::uint32_t threads = 1) const {
        return check(vkattn_prewarm_linear(get(), descs.data(), static_cast<std::uint32_t>(descs.size()), threads));
    }

    // Measures the fastest way of computing an attention problem, for plans of such problems from then on.
    Returned<List<vkattn_candidate>> tune(const vkattn_attention_desc &desc) const { return tuned(vkattn_tune, desc); }

    // The same of its gradients: the candidates of d_query, then those of d_key and d_value.
    Returned<List<vkattn_candidate>> tune(const vkattn_attention_backward_desc &desc) const {
        return tuned(vkattn_tune_attention_backward, desc);
    }

    // The same of a linear layer.
    Returned<List<vkattn_candidate>> tune(const vkattn_linear_desc &desc) const {
        return tuned(vkattn_tune_linear, desc);
    }

    // Plans one append to a cache object, which counts it.
    Returned<Plan> cache_append_plan(const vkattn_cache_append_desc &desc) const {
        return planned(vkattn_cache_append_plan, desc);
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
    Returned<List<vkattn_candidate>> tuned(vkattn_result (*measure_all)(vkattn_context, const Desc *, vkattn_list *),
                                           const Desc &desc) const {
        return detail::list<vkattn_candidate>(
            [&](vkattn_list *candidates) { return measure_all(get(), &desc, candidates); });
    }

    template <typename Fill>
    static Returned<vkattn_measure> measured(const Fill &fill) {
        vkattn_measure taken{};
        const vkattn_result result = fill(&taken);
        return detail::returned(result, taken);
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
