#include "runtime/plan/builder.hpp"

#include "runtime/device/bindable.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/support/error.hpp"
#include "runtime/support/rounding.hpp"

#include <algorithm>

namespace vkattn {
namespace {

Step::Bound bound_of(PlanBuilder &builder, const View &view) {
    const vkattn_tensor &tensor = view.tensor;
    if (view.source.kind == Source::Kind::kRole)
        builder.use_role(view.source.role, view.source.offset + extent_bytes(tensor));
    return {view.source, bytes_of(tensor.type, tensor.offset), bytes_of(tensor.type, span_elements(tensor))};
}

} // namespace

std::unique_ptr<const Plan> PlanBuilder::build() {
    drop_steps_of_nothing();
    for (size_t i = 0; !is_measure() && i < shaders_.size(); ++i) {
        Step &step = plan_->steps_[i];
        BindingSet bindings = 0;
        for (uint32_t binding = 0; binding < kMostBindings; ++binding)
            if (step.bound[binding].bytes != 0) bindings |= BindingSet{1} << binding;
        step.pipeline =
            &context().pipelines().get(*shaders_[i].shader, bindings, shaders_[i].constants, shaders_[i].use);
    }
    if (purpose_ == Purpose::kRun) plan_->first_run_.add(plan_->steps_);
    if (purpose_ == Purpose::kWarm) empty_steps();
    divide_steps();
    cut_pieces();
    return std::move(plan_);
}

// Drops dispatches without workgroups; steps that waited for one wait for the steps before it.
void PlanBuilder::drop_steps_of_nothing() {
    std::vector<Step> &steps = plan_->steps_;
    size_t kept = 0;
    bool barrier = false;
    for (size_t i = 0; i < steps.size(); ++i) {
        barrier = barrier || steps[i].barrier_before;
        if (std::ranges::count(steps[i].groups, 0u) != 0) continue;
        steps[i].barrier_before = barrier && kept > 0;
        barrier = false;
        if (kept != i) {
            steps[kept] = steps[i];
            shaders_[kept] = std::move(shaders_[i]);
        }
        ++kept;
    }
    if (kept == 0) plan_->role_bytes_ = {};
    if (kept == 0) plan_->workspace_bytes_ = 0;
    steps.resize(kept);
    shaders_.resize(kept);
}

void PlanBuilder::empty_steps() {
    constexpr uint64_t kBytes = 16; // that a binding of nothing takes
    const Step::Bound nothing{{Source::Kind::kRole, VKATTN_ROLE_WORKSPACE}, 0, kBytes};
    for (Step &step : plan_->steps_) {
        for (Step::Bound &bound : step.bound)
            if (bound.bytes != 0) bound = nothing;
        for (Step::Address &address : step.addresses)
            if (address.push_word != 0) address.bound = nothing;
        step.groups = {0, 0, 0};
        step.flops = 0;
    }
    plan_->role_bytes_ = {};
    use_role(VKATTN_ROLE_WORKSPACE, kBytes);
    plan_->workspace_bytes_ = kBytes;
}

void PlanBuilder::divide_steps() {
    constexpr double kMostDispatches = 1 << 20;
    double dispatches = 0;
    for (Step &step : plan_->steps_) {
        step.groups_per_dispatch = grid_of_dispatch(step.groups, step.flops, context().caps());
        dispatches += volume(dispatches_along(step.groups, step.groups_per_dispatch));
    }
    if (dispatches > kMostDispatches)
        fail(VKATTN_ERROR_UNSUPPORTED, "plan: ", dispatches, " dispatches, expected at most ", kMostDispatches,
             ": a smaller problem");
    plan_->dispatches_ = static_cast<uint32_t>(dispatches);
}

void PlanBuilder::cut_pieces() {
    PieceCutter cutter(context().caps());
    Plan::Position first;
    for (size_t i = 0; i < plan_->steps_.size(); ++i)
        for (uint32_t dispatch = 0; dispatch < dispatches_of(plan_->steps_[i]); ++dispatch) {
            if (!cutter.cuts_before(plan_->steps_[i], dispatch)) continue;
            plan_->pieces_.push_back({first, {i, dispatch}});
            first = {i, dispatch};
        }
    plan_->pieces_.push_back({first, {plan_->steps_.size(), 0}});
}

Source PlanBuilder::reserve_workspace(uint64_t bytes) {
    // descriptors then start at the tensors themselves: no two tensors share a bound range, nor seem to
    const uint64_t start = round_up(workspace_next_, descriptor_alignment(context().caps()));
    workspace_next_ = start + bytes;
    plan_->workspace_bytes_ = std::max(plan_->workspace_bytes_, workspace_next_);
    return {Source::Kind::kRole, VKATTN_ROLE_WORKSPACE, VK_NULL_HANDLE, start};
}

void PlanBuilder::reuse_workspace(uint64_t from) {
    workspace_next_ = from;
    barrier();
}

void PlanBuilder::set_choice(vkattn_kernel kernel, std::string reason) {
    plan_->kernel_ = kernel;
    plan_->reason_ = std::move(reason);
}

Step &PlanBuilder::new_step(const Shader &shader, std::span<const uint32_t> constants) {
    constexpr size_t kMostSteps = 1 << 16;
    std::vector<Step> &steps = plan_->steps_;
    if (steps.size() >= kMostSteps)
        fail(VKATTN_ERROR_UNSUPPORTED, "plan: more than ", kMostSteps, " steps, expected a smaller problem");
    Step &step = steps.emplace_back();
    shaders_.push_back({&shader, {constants.begin(), constants.end()}, {shader.name, 0}});
    step.barrier_before = barrier_pending_;
    barrier_pending_ = false;
    return step;
}

UniformSlot PlanBuilder::keep_bytes(const void *data, uint64_t bytes) {
    if (is_measure()) return {};
    std::vector<UniformSlot> &slots = plan_->uniforms_;
    slots.reserve(slots.size() + 1);
    slots.push_back(context().uniforms().take(data, bytes));
    return slots.back();
}

void bind(PlanBuilder &builder, Step &step, uint32_t binding, const View &view) {
    if (!present(view)) return;
    step.bound[binding] = bound_of(builder, view);
    require_bindable(builder.context().caps(), view.tensor, role_name(view.source.role));
}

void allow_role(PlanBuilder &builder, const View &view) {
    if (present(view) && view.source.kind == Source::Kind::kRole) builder.use_role(view.source.role, 0);
}

void pass_address(PlanBuilder &builder, Step::Address &address, uint32_t push_word, const View &view) {
    address = {bound_of(builder, view), push_word};
}

} // namespace vkattn
