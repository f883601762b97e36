#include "runtime/programs/program.hpp"

#include "runtime/plan/recorder.hpp"
#include "runtime/programs/hazards.hpp"
#include "runtime/support/error.hpp"
#include "runtime/support/rounding.hpp"
#include "runtime/vulkan/command_buffers.hpp"
#include "runtime/vulkan/memory.hpp"
#include "runtime/vulkan/submissions.hpp"

#include <algorithm>
#include <optional>

namespace vkattn {
namespace {

// Dispatches of a step of a plan that no other submission interrupts.
struct Stretch {
    size_t plan, step;
    uint32_t first, end;
    bool barrier_before;
};
using Piece = std::vector<Stretch>; // of a program: what one submission computes

// Puts the plan's place before what it says.
template <class Body>
auto name_plan(size_t plan, Body &&body) {
    try {
        return body();
    } catch (const Error &error) {
        fail(error.result(), "plans[", plan, "]: ", error.what());
    }
}

// Deals out a workspace from its start again and again, so that plans that are close to each other share none of it unless they
// are large: they need not wait for each other on its account.
class WorkspaceRing {
  public:
    explicit WorkspaceRing(const DeviceCaps &caps) : alignment_(descriptor_alignment(caps)) {}

    uint64_t take(uint64_t bytes) {
        if (next_ + bytes > std::max(kBytes, bytes)) next_ = 0;
        const uint64_t offset = next_;
        next_ = round_up(offset + bytes, alignment_);
        most_ = std::max(most_, offset + bytes);
        return offset;
    }
    uint64_t bytes() const { return most_; } // that all of them take

  private:
    static constexpr uint64_t kBytes = uint64_t{1} << 20;

    uint64_t alignment_, next_ = 0, most_ = 0;
};

// The plans' bindings, with their parts of the program's workspace.
struct Bindings {
    std::vector<std::vector<vkattn_binding>> all;
    uint64_t workspace_bytes = 0;

    Bindings(const Context &context, std::span<const BoundPlan> plans) {
        WorkspaceRing ring(context.caps());
        for (const BoundPlan &bound : plans) {
            name_plan(all.size(), [&] { add(context, bound, ring); });
        }
        workspace_bytes = ring.bytes();
    }

    void set_workspace(VkBuffer buffer) {
        for (std::vector<vkattn_binding> &bindings : all)
            for (vkattn_binding &binding : bindings)
                if (binding.role == VKATTN_ROLE_WORKSPACE) binding.region.buffer = buffer;
    }

  private:
    void add(const Context &context, const BoundPlan &bound, WorkspaceRing &ring) {
        require(&bound.plan->context() == &context, "plan: made in another context, expected one of the program's");
        for (const vkattn_binding &binding : bound.bindings)
            require(binding.role != VKATTN_ROLE_WORKSPACE,
                    "bindings: role workspace is bound, expected none: the program has one for all its plans");
        std::vector<vkattn_binding> &bindings = all.emplace_back(bound.bindings.begin(), bound.bindings.end());
        const uint64_t bytes = bound.plan->workspace_bytes();
        if (bytes > 0) bindings.push_back({VKATTN_ROLE_WORKSPACE, {VK_NULL_HANDLE, ring.take(bytes), bytes}});
    }
};

// What the descriptor sets of all plans take.
vkattn_requirements requirements_of(std::span<const BoundPlan> plans) {
    vkattn_requirements all{};
    for (const BoundPlan &bound : plans) {
        const vkattn_requirements own = bound.plan->requirements();
        all.descriptor_sets += own.descriptor_sets;
        all.storage_buffer_descriptors += own.storage_buffer_descriptors;
        all.uniform_buffer_descriptors += own.uniform_buffer_descriptors;
    }
    return all;
}

// Divides the plans' steps into submissions, and finds which have to wait for those before.
std::vector<Piece> schedule(const Context &context, std::span<const BoundPlan> plans,
                            std::span<const Recorder> recorders) {
    std::vector<Piece> pieces(1);
    PieceCutter cutter(context.caps());
    Hazards hazards;
    for (size_t plan = 0; plan < plans.size(); ++plan) {
        const std::vector<Step> &steps = plans[plan].plan->steps();
        for (size_t step = 0; step < steps.size(); ++step) {
            const std::vector<Access> accesses = recorders[plan].accesses(step);
            const bool waits = hazards.conflict(accesses);
            if (waits) hazards.clear();
            hazards.add(accesses);
            Stretch stretch{plan, step, 0, 0, waits};
            for (uint32_t dispatch = 0; dispatch < dispatches_of(steps[step]); ++dispatch) {
                if (cutter.cuts_before(steps[step], dispatch)) {
                    if (stretch.end > stretch.first) pieces.back().push_back(stretch);
                    pieces.emplace_back();
                    stretch = {plan, step, dispatch, dispatch, waits && dispatch == 0};
                }
                ++stretch.end;
            }
            pieces.back().push_back(stretch);
        }
    }
    return pieces;
}

} // namespace

// What the device needs of a program. Plans keep what their dispatches read.
struct Program::Recording {
    Recording(Context &context, std::span<const BoundPlan> bound)
        : descriptors(context, requirements_of(bound)),
          commands(context, context.queue_family(), CommandBuffers::Use::kAgain) {
        for (const BoundPlan &each : bound) {
            plans.push_back(each.plan);
            for (const vkattn_binding &binding : each.bindings)
                buffers.push_back(context.keep_buffer(binding.region.buffer));
        }
    }

    std::vector<std::shared_ptr<const Plan>> plans;
    std::vector<std::shared_ptr<const void>> buffers; // NULL of the application's own
    std::optional<Buffer> workspace;
    DescriptorPool descriptors;
    CommandBuffers commands;
};

Program::Program(Context &context, std::span<const BoundPlan> plans)
    : context_(context), recording_(std::make_shared<Recording>(context, plans)) {
    Bindings bindings(context, plans);
    if (bindings.workspace_bytes > 0) {
        recording_->workspace.emplace(context, bindings.workspace_bytes, "vkattn workspace");
        bindings.set_workspace(recording_->workspace->handle());
    }
    std::vector<Recorder> recorders;
    for (size_t i = 0; i < plans.size(); ++i) {
        recorders.push_back(
            name_plan(i, [&] { return Recorder(*plans[i].plan, bindings.all[i], recording_->descriptors.handle()); }));
        count_growth(*plans[i].plan);
        first_run_.add(plans[i].plan->steps());
        report_.dispatches += plans[i].plan->dispatches();
    }
    const std::vector<Piece> pieces = schedule(context, plans, recorders);
    auto piece = pieces.begin();
    const auto record_piece = [&](VkCommandBuffer commands) {
        context.debug_labels().begin(commands, "vkattn program");
        for (const Stretch &stretch : *piece++) {
            if (stretch.barrier_before) record_barrier(context.vk(), commands);
            report_.barriers += stretch.barrier_before ? 1 : 0;
            recorders[stretch.plan].record_step(commands, stretch.step, stretch.first, stretch.end);
        }
        context.debug_labels().end(commands);
    };
    report_.submissions = static_cast<uint32_t>(pieces.size());
    report_.plans = static_cast<uint32_t>(plans.size());
    report_.workspace_bytes = bindings.workspace_bytes;
    recording_->commands.record(record_piece, report_.submissions);
}

// Plans may append to the same cache: a replay counts their tokens at once.
void Program::count_growth(const Plan &plan) {
    for (const Growth &growth : plan.growth()) {
        const auto known = std::ranges::find(growths_, growth.what, &Growth::what);
        if (known == growths_.end())
            growths_.push_back(growth);
        else
            known->tokens += growth.tokens;
    }
}

void Program::run(double *gpu_ms) const {
    grow_while(growths_, [&] {
        const FirstRun::Pending first = first_run_.begin_if_due(context_);
        const std::span<const VkCommandBuffer> recorded = recording_->commands.recorded();
        if (gpu_ms != nullptr)
            *gpu_ms = context_.submissions().run_and_time(recorded);
        else
            context_.submissions().run(recorded);
        if (first.done) first.done();
    });
}

void Program::submit(const vkattn_sync *sync) const {
    grow_while(growths_, [&] {
        Submissions::Work work;
        work.recorded = recording_->commands.recorded();
        FirstRun::Pending first = first_run_.begin_if_due(context_);
        work.kept = {recording_, std::move(first.kept)};
        work.done = std::move(first.done);
        context_.submissions().submit(Submissions::Lane::kCompute, std::move(work), sync);
    });
}

} // namespace vkattn
