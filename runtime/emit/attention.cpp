#include "runtime/emit/attention.hpp"

#include "runtime/emit/judged.hpp"
#include "runtime/emit/rows.hpp"
#include "runtime/emit/sorted_lists.hpp"
#include "runtime/problem/attention_tensors.hpp"
#include "runtime/support/error.hpp"
#include "runtime/support/rounding.hpp"
#include "runtime/vulkan/variant.hpp"
#include "shaders/interface/sort_lists.h"
#include "vkattn_shaders/table.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace vkattn {
namespace {

// A tensor of the workspace; absent where it is.
View reserve(PlanBuilder &builder, const vkattn_tensor &tensor) {
    View view{tensor, {}};
    if (present(view)) view.source = builder.reserve_workspace(extent_bytes(tensor));
    return view;
}

// Where a dispatch that reads its keys through device addresses finds them: in K and V themselves, or in copies made before it.
class AddressedKeys {
  public:
    explicit AddressedKeys(const AttentionCall &call)
        : call_(call), step_(call.shape.dispatches[0].constants.STEP),
          staged_key_(reserve(call.builder, call.shape.staged_key)),
          staged_value_(reserve(call.builder, call.shape.staged_value)) {}

    void prepare(gpu::AttentionPush &push) {
        if (!call_.shape.addressed) return;
        push.addressed_begin = 0;
        push.addressed_end = slots_of(call_.problem);
        key_ = {call_.problem.key, call_.sources[BINDING_KEY]};
        value_ = {call_.problem.value, call_.sources[BINDING_VALUE]};
        if (!present(staged_key_)) return;
        push.addressed_end = push.last_key;
        push.addressed_begin = std::min(push.first_key, push.last_key - step_);
        copy(push);
    }

    void complete(Step &step) {
        if (!call_.shape.addressed) return;
        constexpr uint32_t kKeyWord = offsetof(gpu::AttentionPush, key_address) / sizeof(uint32_t);
        constexpr uint32_t kValueWord = offsetof(gpu::AttentionPush, value_address) / sizeof(uint32_t);
        pass_address(call_.builder, step.addresses[0], kKeyWord, key_);
        pass_address(call_.builder, step.addresses[1], kValueWord, value_);
    }

  private:
    void copy(const gpu::AttentionPush &push) {
        MovedRows rows{.source = key_, .target = staged_key_};
        rows.cu_seqlens = {call_.problem.cu_seqlens_k, call_.sources[BINDING_CU_SEQLENS_K]};
        rows.block_table = {call_.problem.block_table, call_.sources[BINDING_BLOCK_TABLE]};
        rows.source_scales = {call_.problem.key_scales, call_.sources[BINDING_KEY_SCALES]};
        rows.gathers = true;
        limit_to_lengths(rows);
        rows.first = push.addressed_begin;
        rows.batch = call_.problem.batch;
        rows.positions = push.addressed_end - push.addressed_begin;
        add_rows(call_.builder, rows);
        key_ = staged_key_;
        if (present(staged_value_)) {
            rows.source = value_;
            rows.source_scales = {call_.problem.value_scales, call_.sources[BINDING_VALUE_SCALES]};
            rows.target = staged_value_;
            add_rows(call_.builder, rows);
        }
        value_ = present(staged_value_) ? staged_value_ : staged_key_;
        call_.builder.barrier();
    }

    // Copies only the keys that a sequence has, and up to one step of rows beyond: the kernel's last step loads them.
    void limit_to_lengths(MovedRows &rows) const {
        const AttentionProblem &problem = call_.problem;
        rows.beyond = step_;
        if (present(problem.key_lengths)) {
            rows.lengths = {problem.key_lengths, call_.sources[BINDING_KEY_LENGTHS]};
        } else if (present(problem.past_lengths) && problem.keys_to_last_query) {
            rows.lengths = {problem.past_lengths, call_.sources[BINDING_PAST_LENGTHS]};
            rows.beyond += problem.q_len;
        }
    }

    const AttentionCall &call_;
    uint32_t step_; // keys
    View staged_key_, staged_value_;
    View key_, value_; // of the current stretch
};

} // namespace

void require_own(const PlanBuilder &builder, vkattn_variant variant) {
    require(variant == nullptr || variant->owner == &builder.context(),
            "variant: of another context, expected the plan's");
}

const Shader &shader_of(PlanBuilder &builder, vkattn_variant variant, const Shader &shader) {
    if (variant == nullptr || builder.is_measure()) return shader;
    builder.keep(variant->variant);
    return variant->variant->shader_of(shader);
}

Step &add_dispatch(const AttentionCall &call, const AttentionShape::Dispatch &dispatch, const gpu::AttentionPush &push,
                   UniformSlot parameters, const View &scores) {
    const Shader &shader = shader_of(call.builder, call.problem.variant, *dispatch.shader);
    Step &step = call.builder.add_step(shader, dispatch.constants, push);
    if (&shader == dispatch.shader) // a variant's code is nobody else's
        call.builder.set_use({shader_name(shader, dispatch.constants), dispatch.paths});
    step.groups = dispatch.groups;
    step.flops = dispatch.flops;
    step.uniforms = parameters;
    for (const AttentionTensor &tensor : kAttentionTensors)
        bind(call.builder, step, tensor.binding, {call.problem.*tensor.member, call.sources[tensor.binding]});
    bind(call.builder, step, BINDING_SCORES, scores);
    return step;
}

namespace {

// The steps of a shape, over keys in the order of memory, or over sorted lists.
class ShapeSteps {
  public:
    explicit ShapeSteps(const AttentionCall &call)
        : call_(call), keys_(call), parameters_(call.builder.keep_uniforms(call.shape.parameters)),
          scores_(reserve(call.builder, call.shape.scores)) {}

    // Goes through the keys.
    void attend() {
        const AttentionShape &shape = call_.shape;
        const uint64_t slots = slots_of(call_.problem);
        for (uint64_t first = 0; first < slots; first += shape.keys_per_dispatch) {
            if (first > 0) call_.builder.barrier();
            gpu::AttentionPush push{};
            push.first_key = static_cast<uint32_t>(first);
            push.last_key = static_cast<uint32_t>(std::min<uint64_t>(first + shape.keys_per_dispatch, slots));
            keys_.prepare(push);
            Step &step = add_dispatch(call_, shape.dispatches[0], push, parameters_, scores_);
            if (shape.parts > 1) // the merge writes them, and others may meanwhile
                for (uint32_t binding : {BINDING_OUTPUT, BINDING_LOG_SUM_EXP}) step.bound[binding] = {};
            keys_.complete(step);
        }
    }

    // What follows, after barriers.
    void finish() {
        for (const AttentionShape::Dispatch &dispatch : std::span(call_.shape.dispatches).subspan(1)) {
            if (dispatch.groups[0] == 0) continue;
            call_.builder.barrier();
            add_dispatch(call_, dispatch, {}, parameters_, scores_);
        }
    }

  private:
    const AttentionCall &call_;
    AddressedKeys keys_;
    UniformSlot parameters_;
    View scores_;
};

void emit_shape(const AttentionCall &call) {
    ShapeSteps steps(call);
    steps.attend();
    steps.finish();
}

} // namespace

void emit_side_by_side(std::span<const AttentionCall> calls) {
    std::vector<ShapeSteps> steps;
    for (const AttentionCall &call : calls) steps.emplace_back(call);
    for (ShapeSteps &each : steps) each.attend();
    for (auto each = steps.rbegin(); each != steps.rend(); ++each) each->finish();
}

void emit_attention(const AttentionCall &call) {
    if (!present(call.problem.key_indices)) return emit_shape(call);
    AttentionProblem problem = call.problem;
    AttentionSources sources = call.sources;
    require_right(call.builder, shaders::sort_lists);
    if (problem.key_indices.shape[3] > SORT_LISTS_CHUNK) require_right(call.builder, shaders::merge_lists);
    const View sorted = sort_lists(call.builder, {problem.key_indices, sources[BINDING_KEY_INDICES]},
                                   static_cast<uint32_t>(divide_up(problem.kv_len, problem.key_block_len)));
    problem.key_indices = sorted.tensor;
    sources[BINDING_KEY_INDICES] = sorted.source;
    call.builder.barrier();
    emit_shape({call.builder, problem, sources, call.shape});
}

} // namespace vkattn
