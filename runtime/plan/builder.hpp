#pragma once

#include "runtime/plan/plan.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <span>
#include <vector>

namespace vkattn {

// Makes a plan, dispatch by dispatch.
class PlanBuilder {
  public:
    // kMeasure: to learn what the plan would take; nothing is compiled, tested or allocated, and it cannot be recorded.
    // kWarm: to make drivers compile that do so at a pipeline's first dispatch; every dispatch is empty, and a run needs
    // no bindings.
    enum class Purpose { kRun, kMeasure, kWarm };

    explicit PlanBuilder(Context &context, Purpose purpose = Purpose::kRun)
        : plan_(new Plan(context)), purpose_(purpose) {}

    // The plan, with its pipelines; nothing may be added after it.
    std::unique_ptr<const Plan> build();

    // Requires a region of so many bytes for the role; 0: a region is optional.
    void use_role(vkattn_role role, uint64_t bytes) {
        plan_->roles_.set(static_cast<size_t>(role));
        uint64_t &most = plan_->role_bytes_[static_cast<size_t>(role)];
        most = std::max(most, bytes);
    }
    // Offsets of regions that are multiples of so many bytes suffice, a power of two from 4 to 16.
    void set_region_alignment(uint64_t bytes) { plan_->region_alignment_ = bytes; }
    Source reserve_workspace(uint64_t bytes);
    // Gives what was reserved since `from` to later reservations. Adds a barrier.
    void reuse_workspace(uint64_t from);
    uint64_t reserved_workspace() const { return workspace_next_; }
    void set_choice(vkattn_kernel kernel, std::string reason);
    // Each run counts so many tokens more of what it makes longer, which must outlive the plan.
    void set_growth(Growing &what, uint32_t tokens) { plan_->growth_ = Growth{&what, tokens}; }

    // Adds a step. The caller sets its grid, which may have any size, its operations and its bindings. constants, push:
    // structs of shaders/interface; constant id n is the n-th member.
    template <class Constants, class Push>
    Step &add_step(const Shader &shader, const Constants &constants, const Push &push) {
        static_assert(sizeof(Push) <= sizeof(Step::push));
        static_assert(offsetof(Push, first_group) == 0 && sizeof Push::first_group == offsetof(Push, bases));
        Step &step = new_step(shader, words_of(constants));
        std::ranges::copy(words_of(push), step.push.begin());
        step.push_bytes = sizeof(Push);
        return step;
    }
    // What the last step takes of a shader that is judged, for verdicts and crash journals.
    void set_use(ShaderUse use) { shaders_.back().use = std::move(use); }
    // A copy of the block on the device, for as long as the plan lives.
    template <class Block>
    UniformSlot keep_uniforms(const Block &block) {
        static_assert(sizeof(Block) <= Uniforms::kSlotBytes);
        return keep_bytes(&block, sizeof(Block));
    }
    // Keeps what a shader of a step belongs to for as long as the plan lives.
    void keep(std::shared_ptr<const void> owner) {
        if (std::ranges::find(plan_->kept_, owner) == plan_->kept_.end()) plan_->kept_.push_back(std::move(owner));
    }
    // What is added next waits for what was added before.
    void barrier() { barrier_pending_ = !plan_->steps_.empty(); }

    Context &context() const { return plan_->context_; }
    bool is_measure() const { return purpose_ == Purpose::kMeasure; }

  private:
    struct StepShader {
        const Shader *shader;
        std::vector<uint32_t> constants;
        ShaderUse use;
    };

    template <class Struct>
    static std::array<uint32_t, sizeof(Struct) / sizeof(uint32_t)> words_of(const Struct &words) {
        static_assert(sizeof(Struct) % sizeof(uint32_t) == 0);
        return std::bit_cast<std::array<uint32_t, sizeof(Struct) / sizeof(uint32_t)>>(words);
    }
    Step &new_step(const Shader &shader, std::span<const uint32_t> constants);
    UniformSlot keep_bytes(const void *data, uint64_t bytes);
    void drop_steps_of_nothing();
    void empty_steps();
    void divide_steps();
    void cut_pieces();

    std::unique_ptr<Plan> plan_;
    std::vector<StepShader> shaders_; // of the plan's steps
    Purpose purpose_;
    uint64_t workspace_next_ = 0;
    bool barrier_pending_ = false;
};

// Binds a view at a binding number of a step; fails as require_bindable does.
void bind(PlanBuilder &builder, Step &step, uint32_t binding, const View &view);

// Makes the region of a view's role optional: no step reads or writes a tensor without elements, or one that is used only
// together with it.
void allow_role(PlanBuilder &builder, const View &view);

// Puts the device address of a view's first element into push words `push_word` and the next.
void pass_address(PlanBuilder &builder, Step::Address &address, uint32_t push_word, const View &view);

} // namespace vkattn
