#pragma once

#include "runtime/device/grid.hpp"
#include "runtime/plan/growth.hpp"
#include "runtime/vulkan/context.hpp"
#include "runtime/vulkan/uniforms.hpp"

#include <array>
#include <atomic>
#include <bitset>
#include <functional>
#include <memory>
#include <optional>
#include <span>
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

constexpr uint32_t kMostBindings = 32; // a byte of `bases` each, in the push words after first_group

// One grid, in as many dispatches as the device wants, ready to record but for the buffers.
struct Step {
    struct Bound {
        Source source;
        uint64_t offset = 0; // bytes from the source's start to the tensor's first element
        uint64_t bytes = 0;  // from there to the end of its last element; 0: unused by this step
    };
    const Pipeline *pipeline = nullptr;
    Grid groups{1, 1, 1};
    double flops = 0;                // of the whole grid, at most
    Grid groups_per_dispatch{};      // filled when the plan is built
    std::array<uint32_t, 32> push{}; // words; the first are first_group and the bases, filled at recording
    uint32_t push_bytes = 0;
    UniformSlot uniforms; // buffer VK_NULL_HANDLE: none
    std::array<Bound, kMostBindings> bound{};
    struct Address {
        Bound bound;
        uint32_t push_word = 0; // of two, low word first; 0: none
    };
    std::array<Address, 2> addresses{}; // device addresses of tensors' first elements, filled at recording
    bool barrier_before = false;        // against the plan's earlier steps
};

// The dispatches of a step, and what each computes.
struct StepPart {
    Grid first, groups;
};
uint32_t dispatches_of(const Step &step);
StepPart part_of(const Step &step, uint32_t dispatch);

class Recorder;

// What pipelines do when they run for the first time, as a crash journal notes it.
class FirstRun {
  public:
    void add(std::span<const Step> steps);
    // Whether there is a journal that does not know all of them yet. Once it does, costs nothing.
    bool is_due(const Context &context);
    std::span<const Attempt> attempts() const { return attempts_; }
    // Notes them until the device is done with what is submitted, in one: then `done` is to be called, and all is to be let go
    // of. Where the device is lost before, they have failed.
    struct Pending {
        std::shared_ptr<void> kept;
        std::function<void()> done;
    };
    Pending begin(Context &context) const;
    Pending begin_if_due(Context &context) { return is_due(context) ? begin(context) : Pending{}; }

  private:
    std::vector<Attempt> attempts_;
    std::atomic<bool> is_over_{true};
};

// A checked problem as a list of dispatches. Immutable; recorded from any thread. Made by PlanBuilder.
class Plan : public std::enable_shared_from_this<Plan> {
  public:
    ~Plan();
    Plan(const Plan &) = delete;
    Plan &operator=(const Plan &) = delete;

    void record(const vkattn_record_info &info) const;
    // Records, submits and waits, with a workspace of its own where none is bound. gpu_ms, if not NULL: milliseconds,
    // negative without timestamps.
    void run(std::span<const vkattn_binding> bindings, double *gpu_ms = nullptr) const;
    // The same without a wait, between what sync, which may be NULL, says.
    void submit(std::span<const vkattn_binding> bindings, const vkattn_sync *sync) const;
    vkattn_requirements requirements() const; // of a plan that runs
    uint64_t workspace_bytes() const { return workspace_bytes_; }

    Context &context() const { return context_; }
    vkattn_kernel kernel() const { return kernel_; }
    const std::string &reason() const { return reason_; }
    const std::vector<Step> &steps() const { return steps_; }
    uint32_t dispatches() const { return dispatches_; }
    // Submissions of a run: none has more than max_dispatch_megaflops, but for a single dispatch that alone has more.
    uint32_t submissions() const { return static_cast<uint32_t>(pieces_.size()); }
    // What each run makes longer: nothing, or one cache.
    std::span<const Growth> growth() const { return {growth_ ? &*growth_ : nullptr, growth_ ? 1u : 0u}; }

    // A dispatch of the plan: the dispatch-th of a step.
    struct Position {
        size_t step = 0;
        uint32_t dispatch = 0;
    };
    struct Piece { // of a run: what one submission computes
        Position first, end;
    };
    // What callers bind, in the order of the roles' numbers.
    std::vector<vkattn_plan_binding> bindings() const;
    // The binding of each role, or NULL. Fails, naming the role, unless they are what the plan needs.
    using Regions = std::array<const vkattn_binding *, VKATTN_ROLE_COUNT>;
    Regions match(std::span<const vkattn_binding> bindings) const;

  private:
    friend class PlanBuilder;
    explicit Plan(Context &context) : context_(context) {}

    struct Bindings;
    double run_step_by_step(const Recorder &recorder) const;
    Bindings with_workspace(std::span<const vkattn_binding> bindings) const;
    void require_within(const vkattn_region &region, uint32_t index, const char *name) const;
    uint64_t alignment_of(vkattn_role role) const;
    uint64_t bytes_of(vkattn_role role) const;

    Context &context_;
    std::vector<Step> steps_;
    std::vector<Piece> pieces_;
    uint32_t dispatches_ = 0;
    std::vector<UniformSlot> uniforms_;
    std::vector<std::shared_ptr<const void>> kept_;        // what its pipelines are made of
    std::bitset<VKATTN_ROLE_COUNT> roles_;                 // that may be bound
    std::array<uint64_t, VKATTN_ROLE_COUNT> role_bytes_{}; // that a role's region must hold; 0: it need not be bound
    uint64_t workspace_bytes_ = 0;
    std::optional<Growth> growth_;
    vkattn_kernel kernel_ = VKATTN_KERNEL_AUTO;
    std::string reason_;
    mutable FirstRun first_run_;
};

// Fills submissions with dispatches, in their order, up to the operations that one dispatch may have.
class PieceCutter {
  public:
    explicit PieceCutter(const DeviceCaps &caps) : most_(caps.traits.max_dispatch_megaflops * 1e6) {}
    // Whether the next dispatch, this one of the step, begins another submission.
    bool cuts_before(const Step &step, uint32_t dispatch);

  private:
    double most_; // 0: any number
    double spent_ = 0;
};

// What the offset of a descriptor must be a multiple of.
uint64_t descriptor_alignment(const DeviceCaps &caps);

// "query", "attn_mask" ...
const char *role_name(vkattn_role role);

} // namespace vkattn
