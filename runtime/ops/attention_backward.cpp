#include "runtime/emit/attention.hpp"
#include "runtime/emit/judged.hpp"
#include "runtime/emit/rows.hpp"
#include "runtime/emit/sorted_lists.hpp"
#include "runtime/kernels/backward.hpp"
#include "runtime/kernels/parameters.hpp"
#include "runtime/kernels/split_keys.hpp"
#include "runtime/ops/gradients.hpp"
#include "runtime/ops/operators.hpp"
#include "runtime/problem/attention_tensors.hpp"
#include "runtime/problem/tensor_checks.hpp"
#include "runtime/support/error.hpp"
#include "runtime/support/rounding.hpp"
#include "runtime/support/structures.hpp"
#include "runtime/vulkan/variant.hpp"
#include "shaders/interface/sort_lists.h"

#include <algorithm>
#include <optional>

namespace vkattn {
namespace {

// A captured tensor, and what its gradient is called.
struct Captured {
    vkattn_tensor AttentionProblem::*tensor;
    vkattn_tensor vkattn_attention_backward_desc::*gradient;
    const char *name, *of;
    vkattn_role role;
};
constexpr Captured kCaptured[] = {
#define VKATTN_CAPTURED(number)                                                                                        \
    {                                                                                                                  \
        &AttentionProblem::captured_##number, &vkattn_attention_backward_desc::d_captured_##number,                    \
            "d_captured_" #number, "captured_" #number, VKATTN_ROLE_D_CAPTURED_##number                                \
    }
    VKATTN_CAPTURED(0), VKATTN_CAPTURED(1), VKATTN_CAPTURED(2), VKATTN_CAPTURED(3)
#undef VKATTN_CAPTURED
};
static_assert(std::size(kCaptured) == CAPTURED_TENSORS);

// A problem and its gradients, checked.
struct Backward {
    AttentionProblem problem;
    bool computes_output; // and log_sum_exp
#define VKATTN_MEMBER(binding, name, NAME) View name;
    ATTENTION_GRADIENTS(VKATTN_MEMBER) // d_attn_mask is 4-D, as the problem's mask
#undef VKATTN_MEMBER
    View d_sinks;
    std::array<View, CAPTURED_TENSORS> d_captured;
    KernelTile tile; // of rows or keys, where tuning tries it
};

void refuse(bool given, const char *what) {
    if (given) fail(VKATTN_ERROR_UNSUPPORTED, what, ": given, expected none: it has no gradients yet");
}

void refuse_functions(const Variant &variant) {
    refuse(variant.defines(VKATTN_VARIANT_LSE_MOD), "variant: lse_mod");
    refuse(variant.defines(VKATTN_VARIANT_OUTPUT_MOD), "variant: output_mod");
    if (variant.defines(VKATTN_VARIANT_SCORE_MOD) && !variant.defines(VKATTN_VARIANT_SCORE_MOD_GRAD))
        fail(VKATTN_ERROR_UNSUPPORTED,
             "variant: score_mod without score_mod_grad, expected both: gradients take the derivative");
}

void refuse_what_has_no_gradients(const vkattn_attention_desc &desc) {
    if (desc.variant != nullptr) refuse_functions(*desc.variant->variant);
    refuse(present(desc.block_table), "block_table");
    refuse(present(desc.key_scales), "key_scales");
    refuse(present(desc.value_scales), "value_scales");
    refuse(desc.key_rotation != VKATTN_ROTATION_NONE, "key_rotation");
    refuse(desc.value_rotation != VKATTN_ROTATION_NONE, "value_rotation");
    require(!present(desc.attn_weights) && !present(desc.qk_matmul_output),
            "attn_weights, qk_matmul_output: given, expected none beside gradients");
    if (!present(desc.value))
        fail(VKATTN_ERROR_UNSUPPORTED, "value: absent, expected one: V in K's rows has no gradients yet");
}

void refuse_stored_type(const vkattn_tensor &tensor, const char *name) {
    if (!is_float(tensor.type))
        fail(VKATTN_ERROR_UNSUPPORTED, name, ": type ", type_name(tensor.type),
             ", expected F32, F16 or BF16: other types have no gradients yet");
}

// [B,H,L,D] of floats, as another tensor is.
View checked_rows(const vkattn_tensor &given, const char *name, vkattn_role role, const vkattn_tensor &like) {
    if (!present(given)) return {};
    const vkattn_tensor tensor = checked_rank(given, name, 4);
    require_float(tensor, name);
    require_shape(tensor, name, like);
    return role_view(tensor, role);
}

View checked_written_rows(const vkattn_tensor &given, const char *name, vkattn_role role, const vkattn_tensor &like) {
    const View view = checked_rows(given, name, role, like);
    if (present(view)) require_no_overlap(view.tensor, name);
    return view;
}

View checked_mask_gradient(const vkattn_attention_backward_desc &desc, const vkattn_tensor &mask,
                           const AttentionProblem &problem) {
    const vkattn_tensor &given = desc.d_attn_mask;
    if (!present(given)) return {};
    require(present(mask) && mask.type != VKATTN_TYPE_BOOL,
            "d_attn_mask: given, expected only beside an attn_mask of type F32 or F16");
    const vkattn_tensor tensor = checked_rank(given, "d_attn_mask", mask.rank);
    require_float(tensor, "d_attn_mask");
    require_shape(tensor, "d_attn_mask", normalised(mask, "attn_mask"));
    require_no_overlap(tensor, "d_attn_mask");
    vkattn_tensor full = problem.attn_mask;
    full.type = tensor.type;
    full.offset = tensor.offset;
    const uint32_t from[3][4] = {{4, 4, 0, 1}, {0, 4, 1, 2}, {0, 1, 2, 3}}; // 4: absent
    for (uint32_t dim = 0; dim < 4; ++dim) {
        const uint32_t source = from[tensor.rank - 2][dim];
        full.strides[dim] = full.shape[dim] == 1 || source == 4 ? 0 : tensor.strides[source];
    }
    return role_view(full, VKATTN_ROLE_D_ATTN_MASK);
}

View checked_captured_gradient(const vkattn_attention_backward_desc &desc, const Captured &captured,
                               const AttentionProblem &problem) {
    const vkattn_tensor &given = desc.*captured.gradient;
    if (!present(given)) return {};
    vkattn_tensor expected = problem.*captured.tensor;
    require(present(expected) && is_float(expected.type), captured.name, ": given, expected only beside ", captured.of,
            " of type F32, F16 or BF16");
    if (!problem.variant->variant->defines(VKATTN_VARIANT_SCORE_MOD_GRAD_CAPTURED))
        fail(VKATTN_ERROR_UNSUPPORTED, captured.name,
             ": given without score_mod_grad_captured, expected a variant that defines it");
    expected.type = VKATTN_TYPE_F32;
    return role_view(checked_contiguous(given, captured.name, expected), captured.role);
}

Backward check_backward(const vkattn_attention_backward_desc &desc) {
    vkattn_attention_desc attention = sized(desc.attention, "attention");
    refuse_what_has_no_gradients(attention);
    Backward backward{};
    backward.computes_output = !present(attention.output);
    require(present(attention.log_sum_exp) != backward.computes_output,
            "output, log_sum_exp: one of them absent, expected both or neither");
    if (backward.computes_output) {
        const auto &q = attention.query.shape;
        attention.output = contiguous(VKATTN_TYPE_F32, {q[0], q[1], q[2], attention.value.shape[3]});
        const bool packed = present(attention.cu_seqlens_q);
        attention.log_sum_exp =
            packed ? contiguous(VKATTN_TYPE_F32, {q[1], q[2]}) : contiguous(VKATTN_TYPE_F32, {q[0], q[1], q[2]});
    }
    AttentionProblem &problem = backward.problem;
    problem = check_attention(attention);
    refuse_stored_type(problem.key, "key");
    refuse_stored_type(problem.value, "value");
    require(present(desc.d_output), "d_output: absent, expected the gradient of output");
    backward.d_output = checked_rows(desc.d_output, "d_output", VKATTN_ROLE_D_OUTPUT, problem.output);
    backward.d_query = checked_written_rows(desc.d_query, "d_query", VKATTN_ROLE_D_QUERY, problem.query);
    backward.d_key = checked_written_rows(desc.d_key, "d_key", VKATTN_ROLE_D_KEY, problem.key);
    backward.d_value = checked_written_rows(desc.d_value, "d_value", VKATTN_ROLE_D_VALUE, problem.value);
    backward.d_attn_mask = checked_mask_gradient(desc, attention.attn_mask, problem);
    require(!present(desc.d_sinks) || present(problem.sinks), "d_sinks: given, expected only beside sinks");
    if (present(desc.d_sinks))
        backward.d_sinks = role_view(checked_contiguous(desc.d_sinks, "d_sinks", problem.sinks), VKATTN_ROLE_D_SINKS);
    for (uint32_t i = 0; i < CAPTURED_TENSORS; ++i)
        backward.d_captured[i] = checked_captured_gradient(desc, kCaptured[i], problem);
    const auto is_present = [](const View &view) { return present(view); };
    const bool any = std::ranges::any_of(backward.d_captured, is_present) || present(backward.d_query) ||
                     present(backward.d_key) || present(backward.d_value) || present(backward.d_attn_mask) ||
                     present(backward.d_sinks);
    require(any, "d_query, d_key, d_value, d_attn_mask, d_sinks, d_captured: absent, expected one gradient at least");
    return backward;
}

bool is_wanted(const View &gradient) { return present(gradient) && !is_empty(gradient.tensor); }

// Lists without entries hide every key, and with them the mask, of which a gradient may be wanted all the same.
AttentionProblem with_memory_and_mask(const AttentionProblem &problem) {
    AttentionProblem result = with_memory(problem);
    if (!has_keys(problem)) return result;
    result.attn_mask = problem.attn_mask;
    result.mask_in_turn = problem.mask_in_turn;
    result.mask_times_slopes = problem.mask_times_slopes;
    return result;
}

// Whether the problem's variant, if it has one, can be in the shader.
bool serves(const AttentionProblem &problem, const Shader &shader) {
    return problem.variant == nullptr || problem.variant->variant->serves(shader);
}

// Of shaders that the self-test has not found wrong.
BackwardChoice choose_right(const PlanBuilder &builder, const BackwardProblem &problem) {
    return choose_backward(problem, builder.context().caps(), [&](const Shader &shader) {
        return serves(problem.attention, shader) && is_right(builder, shader);
    });
}

// Adds the steps of a checked problem.
class BackwardSteps {
  public:
    BackwardSteps(PlanBuilder &builder, const Backward &given, const AttentionSources &sources)
        : builder_(builder), caps_(builder.context().caps()), given_(given), problem_(given.problem),
          sources_(sources) {}

    void add() {
        if (has_queries(problem_))
            add_rows();
        else
            stand_in_for_queries();
        if (wants_queries()) add_queries();
        if (wants_keys()) add_keys();
        if (is_wanted(given_.d_attn_mask)) add_mask();
        if (is_wanted(given_.d_sinks)) add_sinks();
        if (std::ranges::any_of(given_.d_captured, is_wanted)) add_captured();
    }

    // The names of its shaders, and those that tuning found.
    std::string names() const {
        std::string tuned;
        for (const std::optional<BackwardChoice> &choice : {queries_, keys_})
            if (choice.has_value() && choice->is_tuned) tuned += text(tuned.empty() ? "" : ", ", choice->shader->name);
        return tuned.empty() ? names_ : text(names_, "; by tuning: ", tuned);
    }

  private:
    View reserve(const vkattn_tensor &tensor) { return {tensor, builder_.reserve_workspace(extent_bytes(tensor))}; }

    bool wants_queries() const { return is_wanted(given_.d_query) && has_queries(given_.problem); }
    bool wants_keys() const { return is_wanted(given_.d_key) || is_wanted(given_.d_value); }

    // What is computed of the rows alone: the output, where it is not given, deltas, sorted lists.
    void add_rows() {
        deltas_ = reserve(problem_.log_sum_exp);
        if (given_.computes_output) add_output();
        problem_ = with_memory_and_mask(problem_);
        if (!has_keys(given_.problem)) sources_[BINDING_KEY] = sources_[BINDING_VALUE] = sources_[BINDING_QUERY];
        if (present(problem_.key_indices)) add_sorted_lists();
        if (wants_queries()) queries_ = choose(BackwardSums::kQueries);
        if (wants_keys()) keys_ = choose(BackwardSums::kKeys);
        add_deltas();
        builder_.barrier();
    }

    void add_output() {
        sources_[BINDING_OUTPUT] = reserve(problem_.output).source;
        sources_[BINDING_LOG_SUM_EXP] = reserve(problem_.log_sum_exp).source;
        const uint64_t workspace = builder_.reserved_workspace();
        add_attention(builder_, problem_, sources_);
        builder_.reuse_workspace(workspace);
    }

    void add_sorted_lists() {
        require_right(builder_, shaders::sort_lists);
        if (problem_.key_indices.shape[3] > SORT_LISTS_CHUNK) require_right(builder_, shaders::merge_lists);
        const View sorted = sort_lists(builder_, {problem_.key_indices, sources_[BINDING_KEY_INDICES]},
                                       tiles(problem_.kv_len, problem_.key_block_len));
        problem_.key_indices = sorted.tensor;
        sources_[BINDING_KEY_INDICES] = sorted.source;
        builder_.barrier();
    }

    // Without queries sums are empty: shaders read nothing, but have something bound.
    void stand_in_for_queries() {
        View any{problem_.key, sources_[BINDING_KEY]};
        if (!has_keys(problem_)) {
            const bool has_mask = is_wanted(given_.d_attn_mask);
            any = has_mask ? View{problem_.attn_mask, sources_[BINDING_ATTN_MASK]}
                           : View{problem_.sinks, sources_[BINDING_SINKS]};
            problem_.key = problem_.value = any.tensor;
            sources_[BINDING_KEY] = sources_[BINDING_VALUE] = any.source;
            problem_.cu_seqlens_k = {};
        }
        problem_.query = problem_.output = problem_.log_sum_exp = any.tensor;
        sources_[BINDING_QUERY] = sources_[BINDING_OUTPUT] = sources_[BINDING_LOG_SUM_EXP] = any.source;
        given_.d_output = deltas_ = any;
        problem_.block_mask = problem_.tree_mask = problem_.key_indices = problem_.cu_seqlens_q = {};
        problem_.block_q_len = problem_.block_kv_len = problem_.key_block_len = 0;
        problem_.kv_heads = problem_.query_heads = std::max(problem_.kv_heads, 1u);
        problem_.q_len = 0;
    }

    gpu::AttentionParameters with_gradients(gpu::AttentionParameters parameters) const {
        const auto set = [](const View &view, gpu::uvec4 &strides) {
            for (uint32_t dim = 0; dim < 4; ++dim)
                strides[dim] = view.tensor.shape[dim] == 1 ? 0 : static_cast<uint32_t>(view.tensor.strides[dim]);
        };
#define VKATTN_SET(binding, name, NAME) set(given_.name, parameters.name##_strides);
        ATTENTION_GRADIENTS(VKATTN_SET)
#undef VKATTN_SET
        return parameters;
    }

    void set_constants(gpu::AttentionConstants &constants) const {
#define VKATTN_SET(binding, name, NAME) constants.NAME##_FORMAT = format_of(given_.name.tensor);
        ATTENTION_GRADIENTS(VKATTN_SET)
#undef VKATTN_SET
        const View *const of_bits[] = {&given_.d_output, &given_.d_query, &given_.d_key, &given_.d_value};
        for (uint32_t bit = 0; bit < std::size(of_bits); ++bit)
            constants.GRADIENT_PAIRS |= uint32_t{present(*of_bits[bit]) && in_pairs(of_bits[bit]->tensor)} << bit;
        if (rows_are_aligned(problem_, given_.d_output.tensor)) constants.GRADIENT_PAIRS |= GRADIENTS_ALIGNED;
        if (caps_.device_type != VK_PHYSICAL_DEVICE_TYPE_CPU) constants.GRADIENT_PAIRS |= GRADIENTS_UNGUARDED;
        constants.MASK_ROWS = static_cast<uint32_t>(problem_.attn_mask.shape[2]);
    }

    // A dispatch that reads the problem, and writes some of its gradients.
    Step &add_step(const AttentionShape::Dispatch &dispatch, const gpu::AttentionPush &push, UniformSlot parameters) {
        if (dispatch.shader != &shaders::backward_captured) // which has no code without a variant
            require_right(builder_, *dispatch.shader);
        gpu::AttentionConstants constants = dispatch.constants;
        set_constants(constants);
        if (names_.find(dispatch.shader->name) == std::string::npos)
            names_ += text(names_.empty() ? "" : ", ", dispatch.shader->name);
        Step &step = builder_.add_step(shader_of(builder_, problem_.variant, *dispatch.shader), constants, push);
        step.groups = dispatch.groups;
        step.flops = dispatch.flops;
        step.uniforms = parameters;
        for (const AttentionTensor &tensor : kAttentionTensors)
            bind(builder_, step, tensor.binding, {problem_.*tensor.member, sources_[tensor.binding]});
        bind(builder_, step, BINDING_D_OUTPUT, given_.d_output);
        bind(builder_, step, BINDING_DELTA, deltas_);
        return step;
    }

    // Dispatches in turn over what passes by, `each` of `all` at a time; sums wait in the workspace between them, so many numbers.
    template <class Bind>
    void add_in_turn(AttentionShape::Dispatch dispatch, const gpu::AttentionParameters &parameters, uint64_t all,
                     uint32_t each, uint64_t carried, const Bind &bind_gradients) {
        View carries;
        if (each < all) {
            dispatch.constants.FEATURES |= FEATURE_SPLIT_KEYS;
            carries = reserve(contiguous(VKATTN_TYPE_F32, {carried}));
        }
        const UniformSlot uniforms = builder_.keep_uniforms(with_gradients(parameters));
        for (uint64_t first = 0; first == 0 || first < all; first += each) {
            if (first > 0) builder_.barrier();
            gpu::AttentionPush push{};
            push.first_key = static_cast<uint32_t>(first);
            push.last_key = static_cast<uint32_t>(std::min(first + each, all));
            Step &step = add_step(dispatch, push, uniforms);
            bind(builder_, step, BINDING_CARRIES, carries);
            bind_gradients(step);
            if (each == 0) break;
        }
    }

    // Of a workgroup for each tile of so many rows.
    AttentionShape shape_of_rows(const Shader &shader, const gpu::AttentionConstants &constants, uint32_t rows) const {
        AttentionShape shape{};
        shape.parts = 1;
        shape.keys_per_dispatch = slots_of(problem_);
        shape.dispatches[0] = {
            &shader, constants, {tiles(row_tiles(problem_, rows), 1), problem_.kv_heads, grid_sequences(problem_)}};
        finish_parts(problem_, caps_, shape);
        return shape;
    }

    void add_deltas() {
        constexpr uint32_t kWorkgroup = 64;
        AttentionShape shape = shape_of_rows(shaders::backward_deltas, constants_of(problem_, kWorkgroup), kWorkgroup);
        AttentionShape::Dispatch &deltas = shape.dispatches[0];
        deltas.flops = kFlopsOfElement * static_cast<double>(extent_elements(problem_.output));
        gpu::AttentionPush push{};
        push.first_key = deltas.groups[0];
        push.last_key = deltas.groups[1];
        const auto takes_matrices = [](const std::optional<BackwardChoice> &choice) {
            return choice.has_value() && choice->kernel == &kBackwardCoopmat;
        };
        if (problem_.query.type == VKATTN_TYPE_F16 && (takes_matrices(queries_) || takes_matrices(keys_))) {
            largest_ = reserve(
                contiguous(VKATTN_TYPE_F32, {uint64_t{deltas.groups[0]} * deltas.groups[1] * deltas.groups[2], 2}));
            deltas.constants.GRADIENT_PAIRS |= GRADIENTS_LARGEST;
        }
        Step &step = add_step(deltas, push, builder_.keep_uniforms(with_gradients(shape.parameters)));
        bind(builder_, step, BINDING_CARRIES, largest_);
    }

    // Shaders of sums that are empty find nothing to pass by, and need tiles for that.
    BackwardChoice choose(BackwardSums sums) {
        BackwardProblem problem{sums, problem_, given_.d_output.tensor};
        if (sums == BackwardSums::kQueries) {
            problem.d_query = given_.d_query.tensor;
        } else {
            problem.d_key = given_.d_key.tensor;
            problem.d_value = given_.d_value.tensor;
        }
        if (!has_queries(given_.problem) || !has_keys(given_.problem))
            return choose_backward(problem, caps_, [](const Shader &) { return false; });
        problem.tile = given_.tile.kernel != 0 ? given_.tile : tuned_tile(problem);
        return choose_right(builder_, problem);
    }

    KernelTile tuned_tile(const BackwardProblem &problem) const {
        Tunings &tunings = builder_.context().tunings();
        if (!builder_.is_measure() && tunings.measure_backward) tunings.measure_backward(problem);
        return tunings.backward.find(class_of(problem));
    }

    // In one dispatch.
    Step &add_matrices(AttentionShape::Dispatch dispatch, const gpu::AttentionParameters &parameters) {
        gpu::AttentionPush push{};
        push.first_row = static_cast<uint32_t>(largest_.tensor.shape[0]);
        Step &step = add_step(dispatch, push, builder_.keep_uniforms(with_gradients(parameters)));
        bind(builder_, step, BINDING_CARRIES, largest_);
        return step;
    }

    // Where CPU drivers read rows that pass by, in f32: as they are, or copies of them.
    View passing(const View &rows) {
        if (passes_in_place(problem_, rows.tensor)) return rows;
        const auto &shape = rows.tensor.shape;
        const View copy = reserve(contiguous(VKATTN_TYPE_F32, {shape[0], shape[1], shape[2], shape[3]}));
        vkattn::add_rows(builder_, {.source = rows, .target = copy, .keeps_places = true});
        builder_.barrier();
        return copy;
    }

    Step &add_addressed(AttentionShape::Dispatch dispatch, gpu::AttentionParameters parameters, const View &first,
                        const View &second) {
        const View rows[] = {passing(first), passing(second)};
        set_addressed_rows(dispatch.constants, rows[0].tensor, rows[1].tensor);
        parameters.addressed_strides = addressed_strides(rows[0].tensor, rows[1].tensor);
        gpu::AttentionPush push{};
        push.addressed_end = static_cast<uint32_t>(rows[0].tensor.shape[2]);
        Step &step = add_step(dispatch, push, builder_.keep_uniforms(with_gradients(parameters)));
        constexpr size_t kWords[] = {offsetof(gpu::AttentionPush, key_address),
                                     offsetof(gpu::AttentionPush, value_address)};
        for (uint32_t i = 0; i < 2; ++i)
            pass_address(builder_, step.addresses[i], static_cast<uint32_t>(kWords[i] / sizeof(uint32_t)), rows[i]);
        return step;
    }

    void add_queries() {
        const AttentionShape shape = shape_of_rows(*queries_->shader, queries_->constants, queries_->own);
        const AttentionShape::Dispatch &dispatch = shape.dispatches[0];
        const auto bind_gradients = [&](Step &step) { bind(builder_, step, BINDING_D_QUERY, given_.d_query); };
        if (queries_->kernel == &kBackwardAddresses)
            return bind_gradients(add_addressed(dispatch, shape.parameters, {problem_.key, sources_[BINDING_KEY]},
                                                {problem_.value, sources_[BINDING_VALUE]}));
        if (queries_->kernel == &kBackwardCoopmat) return bind_gradients(add_matrices(dispatch, shape.parameters));
        const uint64_t rows = extent_elements(problem_.log_sum_exp);
        add_in_turn(dispatch, shape.parameters, slots_of(problem_),
                    passing_of_dispatch(problem_, caps_, *queries_, slots_of(problem_)), rows * problem_.head_dim,
                    bind_gradients);
    }

    double flops_of_products() const {
        return 4.0 * static_cast<double>(query_positions(problem_)) * problem_.query_heads *
               static_cast<double>(slots_of(problem_)) * (problem_.head_dim + problem_.v_head_dim);
    }

    void add_keys() {
        if (!keys_.has_value()) keys_ = choose(BackwardSums::kKeys); // without queries
        const AttentionShape::Dispatch dispatch{keys_->shader,
                                                keys_->constants,
                                                {tiles(problem_.kv_len, keys_->own), problem_.kv_heads, problem_.batch},
                                                0,
                                                flops_of_products()};
        const gpu::AttentionParameters parameters = parameters_of(problem_);
        const auto bind_gradients = [&](Step &step) {
            bind(builder_, step, BINDING_D_KEY, given_.d_key);
            bind(builder_, step, BINDING_D_VALUE, given_.d_value);
        };
        if (keys_->kernel == &kBackwardAddresses)
            return bind_gradients(
                add_addressed(dispatch, parameters, {problem_.query, sources_[BINDING_QUERY]}, given_.d_output));
        if (keys_->kernel == &kBackwardCoopmat) return bind_gradients(add_matrices(dispatch, parameters));
        const uint64_t rows = rows_of(problem_);
        const auto &shape = problem_.key.shape;
        add_in_turn(dispatch, parameters, rows, passing_of_dispatch(problem_, caps_, *keys_, rows),
                    shape[0] * shape[1] * shape[2] * (problem_.head_dim + problem_.v_head_dim), bind_gradients);
    }

    void add_mask() {
        const BackwardShape tile = mask_shape(problem_, caps_);
        const auto [entries, heads, rows, len] = std::to_array(given_.d_attn_mask.tensor.shape);
        const uint32_t query_tiles = tiles(problem_.q_len, tile.own);
        const uint64_t passing =
            problem_.batch / entries * (problem_.query_heads / heads) * (rows == 1 ? query_tiles : 1);
        const uint32_t each = passing_of_dispatch(problem_, caps_, tile, passing * tile.passing) / tile.passing;
        const AttentionShape::Dispatch dispatch{&shaders::backward_mask,
                                                tile.constants,
                                                {tiles(len, tile.passing) * (rows == 1 ? 1 : query_tiles),
                                                 static_cast<uint32_t>(heads), static_cast<uint32_t>(entries)},
                                                0,
                                                flops_of_products() / 2};
        add_in_turn(dispatch, parameters_of(problem_), passing, each, entries * heads * rows * len,
                    [&](Step &step) { bind(builder_, step, BINDING_D_ATTN_MASK, given_.d_attn_mask); });
    }

    void add_sinks() {
        constexpr uint32_t kWorkgroup = 128;
        const double rows = static_cast<double>(query_positions(problem_)) * problem_.query_heads;
        const uint64_t iterations = problem_.batch * uint64_t{tiles(std::max(problem_.q_len, 1u), kWorkgroup)};
        if (caps_.max_loop_iterations != 0 && iterations > caps_.max_loop_iterations)
            fail(VKATTN_ERROR_UNSUPPORTED, "d_sinks: of ", problem_.batch, " sequences of ", problem_.q_len,
                 " queries, too many ", on_bounded_loops(caps_));
        const AttentionShape::Dispatch dispatch{&shaders::backward_sinks,
                                                constants_of(problem_, kWorkgroup),
                                                {given_.problem.query_heads, 1, 1},
                                                0,
                                                kFlopsOfElement * rows};
        Step &step = add_step(dispatch, {}, builder_.keep_uniforms(with_gradients(parameters_of(problem_))));
        bind(builder_, step, BINDING_D_SINKS, given_.d_sinks);
    }

    // Sums in the workspace become 0, tiles add to them, and they become the gradients.
    void add_captured() {
        if (!serves(problem_, shaders::backward_captured))
            fail(VKATTN_ERROR_UNSUPPORTED, "variant: has no module ", shaders::backward_captured.name);
        const BackwardShape tile = mask_shape(problem_, caps_);
        gpu::AttentionConstants constants = tile.constants;
        uint64_t words = 0;
        for (uint32_t i = 0; i < CAPTURED_TENSORS; ++i) {
            if (!is_wanted(given_.d_captured[i])) continue;
            constants.CAPTURED_GRADIENTS |= 1u << i;
            words += CAPTURED_SUM_WORDS * extent_elements(given_.d_captured[i].tensor);
        }
        const uint64_t most = std::min<uint64_t>(caps_.max_storage_buffer_range / sizeof(uint32_t), UINT32_MAX);
        if (words > most)
            fail(VKATTN_ERROR_UNSUPPORTED, "d_captured: ", words / CAPTURED_SUM_WORDS, " elements, expected at most ",
                 most / CAPTURED_SUM_WORDS, ": sums take ", CAPTURED_SUM_WORDS * sizeof(uint32_t), " bytes each");
        const View sums = reserve(contiguous(VKATTN_TYPE_F32, {words}));
        const UniformSlot uniforms = builder_.keep_uniforms(with_gradients(parameters_of(problem_)));
        builder_.barrier();
        add_captured_stage(CAPTURED_STAGE_ZEROS, constants, uniforms, sums, {}, 0, words);
        builder_.barrier();
        if (has_queries(given_.problem) && has_keys(given_.problem)) add_captured_tiles(tile, constants, sums);
        builder_.barrier();
        uint64_t first = 0;
        for (const View &gradient : given_.d_captured) {
            if (!is_wanted(gradient)) continue;
            const uint64_t elements = extent_elements(gradient.tensor);
            add_captured_stage(CAPTURED_STAGE_VALUES, constants, uniforms, sums, gradient, first, elements);
            first += elements;
        }
    }

    void add_captured_stage(uint32_t stage, gpu::AttentionConstants constants, UniformSlot uniforms, const View &sums,
                            const View &gradient, uint64_t first, uint64_t count) {
        constants.CAPTURED_STAGE = stage;
        gpu::AttentionPush push{};
        push.first_key = static_cast<uint32_t>(first);
        push.last_key = static_cast<uint32_t>(count);
        const uint32_t groups = static_cast<uint32_t>(divide_up(count, uint64_t{constants.WORKGROUP_SIZE}));
        Step &step = add_step(
            {&shaders::backward_captured, constants, {groups, 1, 1}, 0, kFlopsOfElement * static_cast<double>(count)},
            push, uniforms);
        bind(builder_, step, BINDING_CAPTURED_SUMS, sums);
        bind(builder_, step, BINDING_D_CAPTURED, gradient);
    }

    // Of 16 pairs of an invocation: some hundred turns of loops of the user's own, or the additions to 64 sums.
    static constexpr uint32_t kIterationsOfCapturedTile = 16384;

    void add_captured_tiles(const BackwardShape &tile, const gpu::AttentionConstants &constants, const View &sums) {
        const AttentionShape::Dispatch dispatch{&shaders::backward_captured,
                                                constants,
                                                {tiles(problem_.q_len, tile.own), problem_.query_heads, problem_.batch},
                                                0,
                                                flops_of_products() / 2};
        add_in_turn(dispatch, parameters_of(problem_), problem_.kv_len,
                    passing_of_dispatch(problem_, caps_, tile, problem_.kv_len, kIterationsOfCapturedTile), 1,
                    [&](Step &step) { bind(builder_, step, BINDING_CAPTURED_SUMS, sums); });
    }

    PlanBuilder &builder_;
    const DeviceCaps &caps_;
    Backward given_;
    AttentionProblem problem_; // as the shaders have it
    AttentionSources sources_;
    std::string names_;
    std::optional<BackwardChoice> queries_, keys_; // how gradients of them are computed
    View deltas_, largest_;                        // largest_: see shaders/kernels/backward_deltas.comp
};

void allow_roles(PlanBuilder &builder, const Backward &backward, const AttentionSources &sources) {
    for (const AttentionTensor &tensor : kAttentionTensors) {
        const bool computed = tensor.binding == BINDING_OUTPUT || tensor.binding == BINDING_LOG_SUM_EXP;
        if (!backward.computes_output || !computed)
            allow_role(builder, {backward.problem.*tensor.member, sources[tensor.binding]});
    }
#define VKATTN_ALLOW(binding, name, NAME) allow_role(builder, backward.name);
    ATTENTION_GRADIENTS(VKATTN_ALLOW)
#undef VKATTN_ALLOW
    allow_role(builder, backward.d_sinks);
    for (const View &gradient : backward.d_captured) allow_role(builder, gradient);
}

void add_steps(PlanBuilder &builder, const Backward &backward, const AttentionSources &sources) {
    require_own(builder, backward.problem.variant);
    allow_roles(builder, backward, sources);
    BackwardSteps steps(builder, backward, sources);
    steps.add();
    builder.set_choice(VKATTN_KERNEL_AUTO,
                       text(backward.computes_output ? "output and log_sum_exp computed again, " : "", steps.names()));
}

} // namespace

void add_attention_backward(PlanBuilder &builder, const vkattn_attention_desc &attention,
                            const AttentionSources &sources, const AttentionGradients &gradients) {
    refuse_what_has_no_gradients(attention);
    Backward backward{};
    backward.problem = check_attention(attention);
    backward.d_output = gradients.d_output;
    backward.d_query = gradients.d_query;
    backward.d_key = gradients.d_key;
    backward.d_value = gradients.d_value;
    add_steps(builder, backward, sources);
}

std::vector<BackwardProblem> backward_problems(const vkattn_attention_backward_desc &desc) {
    const Backward backward = check_backward(desc);
    if (!has_queries(backward.problem) || !has_keys(backward.problem)) return {};
    const BackwardProblem neither{BackwardSums::kQueries, with_memory_and_mask(backward.problem),
                                  backward.d_output.tensor};
    std::vector<BackwardProblem> problems;
    if (is_wanted(backward.d_query)) problems.emplace_back(neither).d_query = backward.d_query.tensor;
    if (!is_wanted(backward.d_key) && !is_wanted(backward.d_value)) return problems;
    BackwardProblem &keys = problems.emplace_back(neither);
    keys.sums = BackwardSums::kKeys;
    keys.d_key = backward.d_key.tensor;
    keys.d_value = backward.d_value.tensor;
    return problems;
}

BackwardChoice choose_tested(Context &context, const BackwardProblem &problem) {
    return choose_right(PlanBuilder(context), problem);
}

void add_attention_backward(PlanBuilder &builder, const BackwardProblem &problem) {
    Backward backward{};
    backward.problem = problem.attention;
    backward.tile = problem.tile;
    const auto bound = [](const vkattn_tensor &tensor, vkattn_role role) {
        return present(tensor) ? role_view(tensor, role) : View{};
    };
    backward.d_output = bound(problem.d_output, VKATTN_ROLE_D_OUTPUT);
    backward.d_query = bound(problem.d_query, VKATTN_ROLE_D_QUERY);
    backward.d_key = bound(problem.d_key, VKATTN_ROLE_D_KEY);
    backward.d_value = bound(problem.d_value, VKATTN_ROLE_D_VALUE);
    add_steps(builder, backward, roles_of(backward.problem));
}

void plan_attention_backward(PlanBuilder &builder, const vkattn_attention_backward_desc &desc) {
    const Backward backward = check_backward(desc);
    builder.set_region_alignment(backward.problem.region_alignment);
    add_steps(builder, backward, roles_of(backward.problem));
}

} // namespace vkattn
