#include "runtime/plan/plan.hpp"

#include "runtime/plan/recorder.hpp"
#include "runtime/problem/attention_tensors.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/support/error.hpp"
#include "runtime/vulkan/memory.hpp"
#include "runtime/vulkan/submissions.hpp"

#include <algorithm>
#include <bit>
#include <optional>

namespace vkattn {
namespace {

constexpr uint64_t kBindingAlignment = 16;

// Of the roles that are none of attention's, in the order of their numbers.
constexpr const char *kOtherRoleNames[] = {"workspace",
                                           "past_key",
                                           "past_value",
                                           "present_key",
                                           "present_value",
                                           "partial_output",
                                           "partial_log_sum_exp",
                                           "input",
                                           "weight",
                                           "bias",
                                           "multiplier",
                                           "residual",
                                           "tokens",
                                           "source",
                                           "cache",
                                           "indices",
                                           "norm_weight",
                                           "decay",
                                           "beta",
                                           "initial_state",
                                           "final_state",
                                           "state_slots",
                                           "token_states",
                                           "accepted",
                                           "values",
                                           "positions",
                                           "d_output",
                                           "d_query",
                                           "d_key",
                                           "d_value",
                                           "d_attn_mask",
                                           "d_sinks",
                                           "d_input",
                                           "d_weight",
                                           "d_bias",
                                           "d_gate",
                                           "labels",
                                           "loss",
                                           "mean_loss",
                                           "loss_scale",
                                           "squared_norm",
                                           "good_steps",
                                           "factor",
                                           "step",
                                           "parameter",
                                           "gradient",
                                           "first_moment",
                                           "second_moment",
                                           "learning_rate",
                                           "copy",
                                           "activations",
                                           "d_norm_weight",
                                           "d_captured_0",
                                           "d_captured_1",
                                           "d_captured_2",
                                           "d_captured_3"};

constexpr auto kRoleNames = [] {
    std::array<const char *, VKATTN_ROLE_COUNT> names{};
    for (const AttentionTensor &tensor : kAttentionTensors) names[tensor.role] = tensor.name;
    const char *const *other = kOtherRoleNames;
    for (const char *&name : names)
        if (name == nullptr) name = *other++;
    return names;
}();
static_assert(std::size(kOtherRoleNames) + std::size(kAttentionTensors) == VKATTN_ROLE_COUNT);

} // namespace

const char *role_name(vkattn_role role) {
    const auto index = static_cast<uint32_t>(role);
    return index < VKATTN_ROLE_COUNT ? kRoleNames[index] : "unknown";
}

uint32_t dispatches_of(const Step &step) {
    const auto [x, y, z] = dispatches_along(step.groups, step.groups_per_dispatch);
    return x * y * z;
}

StepPart part_of(const Step &step, uint32_t dispatch) {
    const Grid count = dispatches_along(step.groups, step.groups_per_dispatch);
    StepPart part;
    for (size_t axis = 0; axis < count.size(); ++axis) {
        part.first[axis] = dispatch % count[axis] * step.groups_per_dispatch[axis];
        part.groups[axis] = std::min(step.groups_per_dispatch[axis], step.groups[axis] - part.first[axis]);
        dispatch /= count[axis];
    }
    return part;
}

bool PieceCutter::cuts_before(const Step &step, uint32_t dispatch) {
    const double flops_of_group = step.flops / std::max(volume(step.groups), 1.0);
    const double flops = volume(part_of(step, dispatch).groups) * flops_of_group;
    const bool cuts = most_ > 0 && spent_ > 0 && spent_ + flops > most_;
    spent_ = cuts ? flops : spent_ + flops;
    return cuts;
}

Plan::~Plan() {
    for (const UniformSlot &slot : uniforms_) context_.uniforms().give_back(slot);
}

uint64_t descriptor_alignment(const DeviceCaps &caps) {
    return std::max(kBindingAlignment, caps.min_storage_buffer_offset_alignment);
}

vkattn_requirements Plan::requirements() const {
    vkattn_requirements result{};
    result.workspace_bytes = workspace_bytes_;
    result.workspace_alignment = descriptor_alignment(context_.caps());
    if (context_.caps().push_descriptors != 0) return result;
    result.descriptor_sets = static_cast<uint32_t>(steps_.size());
    for (const Step &step : steps_) {
        result.storage_buffer_descriptors += static_cast<uint32_t>(std::popcount(step.pipeline->bindings));
        result.uniform_buffer_descriptors += step.pipeline->has_uniforms ? 1 : 0;
    }
    return result;
}

vkattn_measure Plan::measure() const {
    vkattn_measure taken{};
    taken.kernel = kernel_;
    taken.workspace_bytes = workspace_bytes_;
    taken.workspace_alignment = descriptor_alignment(context_.caps());
    taken.dispatches = dispatches_;
    if (context_.caps().push_descriptors != 0) return taken;
    taken.descriptor_sets = taken.uniform_buffer_descriptors = static_cast<uint32_t>(steps_.size());
    for (const Step &step : steps_)
        taken.storage_buffer_descriptors += static_cast<uint32_t>(
            std::ranges::count_if(step.bound, [](const Step::Bound &bound) { return bound.bytes != 0; }));
    return taken;
}

// Fails unless what is known of the buffer holds it.
void Plan::require_within(const vkattn_region &region, uint32_t index, const char *name) const {
    const std::optional<uint64_t> own = context_.buffer_bytes(region.buffer);
    require(!own.has_value() || (region.offset <= *own && region.bytes <= *own - region.offset), "bindings[", index,
            "]: role ", name, " has offset ", region.offset, " and bytes ", region.bytes,
            ", expected a region within the buffer's ", own.value_or(0), " bytes");
}

uint64_t Plan::alignment_of(vkattn_role role) const {
    return role == VKATTN_ROLE_WORKSPACE ? descriptor_alignment(context_.caps()) : region_alignment_;
}

uint64_t Plan::bytes_of(vkattn_role role) const {
    return role == VKATTN_ROLE_WORKSPACE ? workspace_bytes_ : role_bytes_[role];
}

Plan::Regions Plan::match(std::span<const vkattn_binding> bindings) const {
    Regions regions{};
    for (uint32_t i = 0; i < bindings.size(); ++i) {
        const vkattn_binding &binding = bindings[i];
        const auto role = static_cast<uint32_t>(binding.role);
        require(role < VKATTN_ROLE_COUNT, "bindings[", i, "]: role ", role, " is unknown, expected a vkattn_role");
        const char *name = role_name(binding.role);
        require(roles_.test(role) || (role == VKATTN_ROLE_WORKSPACE && workspace_bytes_ == 0), "bindings[", i,
                "]: role ", name, " is not used by this plan, expected only the tensors of its description");
        require(regions[role] == nullptr, "bindings[", i, "]: role ", name, " is bound twice, expected once");
        regions[role] = &binding;
        if (role_bytes_[role] == 0 && role != VKATTN_ROLE_WORKSPACE) continue;
        const vkattn_region &region = binding.region;
        require(region.buffer != VK_NULL_HANDLE, "bindings[", i, "]: role ", name,
                " has buffer VK_NULL_HANDLE, expected a buffer");
        const uint64_t alignment = alignment_of(binding.role);
        require(region.offset % alignment == 0, "bindings[", i, "]: role ", name, " has offset ", region.offset,
                ", expected a multiple of ", alignment);
        require_within(region, i, name);
        require(region.bytes >= bytes_of(binding.role), "bindings[", i, "]: role ", name, " has a region of ",
                region.bytes, " bytes, expected at least ", bytes_of(binding.role));
    }
    for (uint32_t role = 0; role < VKATTN_ROLE_COUNT; ++role)
        require(role_bytes_[role] == 0 || regions[role] != nullptr, "bindings: role ", kRoleNames[role],
                " is missing, expected a region for it");
    return regions;
}

std::vector<vkattn_plan_binding> Plan::bindings() const {
    std::bitset<VKATTN_ROLE_COUNT> written;
    for (const Step &step : steps_)
        for (uint32_t binding = 0; binding < kMostBindings; ++binding)
            if ((step.pipeline->written >> binding & 1) != 0 && step.bound[binding].source.kind == Source::Kind::kRole)
                written.set(static_cast<size_t>(step.bound[binding].source.role));
    std::vector<vkattn_plan_binding> all;
    for (uint32_t index = 0; index < VKATTN_ROLE_COUNT; ++index) {
        const auto role = static_cast<vkattn_role>(index);
        if (roles_.test(index) || (role == VKATTN_ROLE_WORKSPACE && workspace_bytes_ > 0))
            all.push_back({role, role_name(role), bytes_of(role), alignment_of(role), written.test(index) ? 1u : 0u});
    }
    return all;
}

void Plan::record(const vkattn_record_info &info) const {
    require(info.command_buffer != VK_NULL_HANDLE,
            "command_buffer: VK_NULL_HANDLE, expected a recording command buffer");
    require(info.bindings != nullptr || info.binding_count == 0, "bindings: NULL, expected binding_count entries");
    Recorder(*this, {info.bindings, info.binding_count}, info.descriptor_pool).record_all(info.command_buffer);
}

void FirstRun::add(std::span<const Step> steps) {
    for (const Step &step : steps) {
        const Attempt *own = step.pipeline->first_run.get();
        const auto is_same = [&](const Attempt &each) { return each.what == own->what; };
        if (own != nullptr && std::ranges::none_of(attempts_, is_same)) attempts_.push_back(*own);
    }
    is_over_ = attempts_.empty();
}

bool FirstRun::is_due(const Context &context) {
    if (is_over_) return false;
    is_over_ = context.journal()->knows_all(attempts_);
    return !is_over_;
}

FirstRun::Pending FirstRun::begin(Context &context) const {
    struct Kept {
        Kept(const Context &context, std::span<const Attempt> attempts, const std::atomic<bool> &lost)
            : trying(context.journal(), attempts), is_lost(lost) {}
        ~Kept() {
            if (is_lost) trying.end(CrashJournal::Outcome::kFailed);
        }
        Trying trying;
        const std::atomic<bool> &is_lost; // of the submissions, which let go of this before they end
    };
    const auto kept = std::make_shared<Kept>(context, attempts_, context.submissions().is_lost());
    return {kept, [kept] { kept->trying.end(CrashJournal::Outcome::kSurvived); }};
}

// The bindings, with a workspace of their own where none is given.
struct Plan::Bindings {
    std::vector<vkattn_binding> all;
    std::shared_ptr<Buffer> workspace; // or NULL
};

Plan::Bindings Plan::with_workspace(std::span<const vkattn_binding> bindings) const {
    Bindings result{{bindings.begin(), bindings.end()}, nullptr};
    const bool has_workspace =
        std::ranges::any_of(bindings, [](const auto &binding) { return binding.role == VKATTN_ROLE_WORKSPACE; });
    if (!has_workspace && workspace_bytes_ > 0) {
        result.workspace = std::make_shared<Buffer>(context_, workspace_bytes_, "vkattn workspace");
        result.all.push_back({VKATTN_ROLE_WORKSPACE, {result.workspace->handle(), 0, workspace_bytes_}});
    }
    match(result.all); // before anything is created
    return result;
}

void Plan::run(std::span<const vkattn_binding> bindings, double *gpu_ms) const {
    const Bindings all = with_workspace(bindings);
    grow_while(growth(), [&] {
        const DescriptorPool pool(context_, requirements());
        const Recorder recorder(*this, all.all, pool.handle());
        if (first_run_.is_due(context_)) {
            const double milliseconds = run_step_by_step(recorder);
            if (gpu_ms != nullptr) *gpu_ms = milliseconds;
            return;
        }
        auto piece = pieces_.begin();
        const auto record_piece = [&](VkCommandBuffer commands) { recorder.record(commands, *piece++); };
        if (gpu_ms != nullptr)
            *gpu_ms = context_.submissions().run_and_time(record_piece, submissions());
        else
            context_.submissions().run(record_piece, submissions());
    });
}

// So that a process that ends or a device that is lost tells over which pipeline. Returns the sum of their milliseconds.
double Plan::run_step_by_step(const Recorder &recorder) const {
    double milliseconds = 0.0;
    for (const Piece &piece : pieces_)
        for (size_t i = piece.first.step; i < steps_.size() && i <= piece.end.step; ++i) {
            const Piece part{i == piece.first.step ? piece.first : Position{i, 0},
                             i == piece.end.step ? piece.end : Position{i + 1, 0}};
            if (part.first.step == part.end.step && part.first.dispatch == part.end.dispatch) continue;
            FirstRun step;
            step.add({&steps_[i], 1});
            const FirstRun::Pending pending = step.begin(context_);
            const double own = context_.submissions().run_and_time(
                [&](VkCommandBuffer commands) { recorder.record(commands, part); }, 1);
            pending.done();
            milliseconds = own < 0.0 || milliseconds < 0.0 ? -1.0 : milliseconds + own;
        }
    return milliseconds;
}

void Plan::submit(std::span<const vkattn_binding> bindings, const vkattn_sync *sync) const {
    const Bindings all = with_workspace(bindings);
    grow_while(growth(), [&] {
        const auto pool = std::make_shared<DescriptorPool>(context_, requirements());
        const Recorder recorder(*this, all.all, pool->handle());
        auto piece = pieces_.begin();
        Submissions::Work work;
        work.record = [&](VkCommandBuffer commands) { recorder.record(commands, *piece++); };
        work.pieces = submissions();
        FirstRun::Pending first = first_run_.begin_if_due(context_);
        work.kept = {pool, all.workspace, std::move(first.kept), weak_from_this().lock()};
        for (const vkattn_binding &binding : bindings) work.kept.push_back(context_.keep_buffer(binding.region.buffer));
        work.done = std::move(first.done);
        context_.submissions().submit(Submissions::Lane::kCompute, std::move(work), sync);
    });
}

} // namespace vkattn
