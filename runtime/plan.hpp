#pragma once

#include "runtime/context/context.hpp"
#include "runtime/context/uniforms.hpp"
#include "runtime/grid.hpp"

#include <array>
#include <optional>
#include <vector>

namespace vkattn {

// Where a tensor lives when the plan is recorded: a region that the caller binds, a part of the workspace, or a buffer
// that the library owns (a layer's weights).
struct Source {
    enum class Kind { kRole, kOwned };
    Kind kind = Kind::kRole;
    vkattn_role role = VKATTN_ROLE_WORKSPACE;
    VkBuffer buffer = VK_NULL_HANDLE;
    uint64_t offset = 0; // bytes, a multiple of 16
    bool operator==(const Source &) const = default;
};

// A tensor and its place: what operators read and write. The layout is normalised.
struct View {
    vkattn_tensor tensor{};
    Source source;
};

// What callers bind for the role.
inline View role_view(const vkattn_tensor &tensor, vkattn_role role) { return {tensor, {Source::Kind::kRole, role}}; }

inline bool present(const View &view) { return view.tensor.type != VKATTN_TYPE_NONE; }

constexpr uint32_t kMostBindings = 20; // a byte of `bases` each, in the first push words

// One dispatch, ready to record but for the buffers.
struct Step {
    struct Bound {
        Source source;
        uint64_t offset = 0; // bytes from the source's start to the tensor's first element
        uint64_t bytes = 0;  // from there to the end of its last element; 0: unused by this step
    };
    const Pipeline *pipeline = nullptr;
    Grid groups{1, 1, 1};
    std::array<uint32_t, 32> push{}; // words; the first are the bases, filled at recording
    uint32_t push_bytes = 0;
    UniformSlot uniforms; // buffer VK_NULL_HANDLE: none
    std::array<Bound, kMostBindings> bound{};
    struct Address {
        Bound bound;
        uint32_t push_word = 0; // of two, low word first; 0: none
    };
    std::array<Address, 2> addresses{}; // device addresses of tensors' first elements, filled at recording
    uint32_t written_binding = 0;       // one that the kernel always writes: stands in for the unused ones
    bool barrier_before = false;        // against the plan's earlier steps
};

class Cache;
struct Descriptors;

// A checked problem as a list of dispatches. Immutable after building; recorded from any thread.
class Plan {
  public:
    // kMeasure: to learn what the plan would take; nothing is compiled or allocated, and it cannot be recorded.
    enum class Purpose { kRun, kMeasure };

    explicit Plan(Context &context, Purpose purpose = Purpose::kRun) : context_(context), purpose_(purpose) {}
    ~Plan();
    Plan(const Plan &) = delete;
    Plan &operator=(const Plan &) = delete;

    void record(const vkattn_record_info &info) const;
    double run(std::span<const vkattn_binding> bindings) const; // milliseconds, negative without timestamps
    vkattn_requirements requirements() const;

    // Building. A role's region must hold `bytes`.
    void use_role(vkattn_role role);
    Source reserve_workspace(uint64_t bytes);
    // What is reserved between two calls of it is given to whoever reserves next, after a barrier.
    void reuse_workspace(uint64_t from);
    uint64_t reserved_workspace() const { return workspace_next_; }
    void set_choice(vkattn_kernel kernel, std::string reason);
    // Every run appends so many tokens to every sequence of the cache, which must outlive the plan.
    void set_appended(Cache &cache, uint32_t tokens);

    template <class Constants>
    const Pipeline &pipeline(Module module, const Constants &constants) const {
        static const Pipeline none{};
        return purpose_ == Purpose::kMeasure ? none : context_.pipelines().get(module, constants);
    }
    template <class Push>
    Step &add_step(const Pipeline &pipeline, const Push &push) {
        static_assert(sizeof(Push) <= sizeof(Step::push));
        require_room_for_step();
        Step &step = steps_.emplace_back();
        step.pipeline = &pipeline;
        const auto *words = reinterpret_cast<const uint32_t *>(&push);
        std::copy(words, words + sizeof(Push) / sizeof(uint32_t), step.push.begin());
        step.push_bytes = sizeof(Push);
        step.barrier_before = barrier_pending_;
        barrier_pending_ = false;
        return step;
    }
    // A copy of the block on the device, for as long as the plan lives.
    template <class Block>
    UniformSlot keep_uniforms(const Block &block) {
        static_assert(sizeof(Block) <= Uniforms::kSlotBytes);
        if (purpose_ == Purpose::kMeasure) return {};
        uniforms_.reserve(uniforms_.size() + 1);
        uniforms_.push_back(context_.uniforms().take(&block, sizeof(Block)));
        return uniforms_.back();
    }
    // What is added next waits for what was added before.
    void barrier() { barrier_pending_ = !steps_.empty(); }

    Context &context() const { return context_; }
    vkattn_kernel kernel() const { return kernel_; }
    const std::string &reason() const { return reason_; }
    const std::vector<Step> &steps() const { return steps_; }

  private:
    void require_room_for_step() const;

    using Regions = std::array<const vkattn_binding *, VKATTN_ROLE_COUNT>;
    struct Region {
        VkBuffer buffer;
        uint64_t offset;
        uint64_t bytes;
    };

    uint64_t descriptor_alignment() const; // what the offset of a descriptor must be a multiple of
    Regions match(std::span<const vkattn_binding> bindings) const;
    // One for each step; none where the device has push descriptors.
    std::vector<VkDescriptorSet> allocate_sets(VkDescriptorPool pool) const;
    Region region_of(const Step::Bound &bound, const Regions &regions) const;
    void push_addresses(const Step &step, const Regions &regions, std::array<uint32_t, 32> &push) const;
    void describe(const Step &step, const Regions &regions, VkDescriptorSet set, std::array<uint32_t, 32> &push,
                  Descriptors &descriptors) const;
    void record_barrier(VkCommandBuffer commands) const;
    void record_step(VkCommandBuffer commands, const Step &step, const Regions &regions, VkDescriptorSet set) const;

    Context &context_;
    Purpose purpose_;
    std::vector<Step> steps_;
    std::vector<UniformSlot> uniforms_;
    std::array<bool, VKATTN_ROLE_COUNT> roles_{};
    uint64_t workspace_bytes_ = 0;
    uint64_t workspace_next_ = 0;
    bool barrier_pending_ = false;
    Cache *cache_ = nullptr;
    uint32_t appended_tokens_ = 0;
    vkattn_kernel kernel_ = VKATTN_KERNEL_AUTO;
    std::string reason_;
};

// "query", "attn_mask" ...
const char *role_name(vkattn_role role);

// Binds a view at a binding number of a step; fails as require_bindable does.
void bind(Plan &plan, Step &step, uint32_t binding, const View &view);

// Puts the device address of a view's first element into push words `push_word` and the next.
void pass_address(Plan &plan, Step::Address &address, uint32_t push_word, const View &view);

} // namespace vkattn
