#include "runtime/device/bindable.hpp"
#include "runtime/emit/rows.hpp"
#include "runtime/ops/gradients.hpp"
#include "runtime/ops/operators.hpp"
#include "runtime/ops/token_sums.hpp"
#include "runtime/ops/tokens.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/problem/tensor_checks.hpp"
#include "runtime/support/error.hpp"
#include "runtime/support/rounding.hpp"

#include <algorithm>

namespace vkattn {
namespace {

View tokens_view(const vkattn_tensor &given, const char *name, vkattn_role role, const uint64_t (&shape)[3]) {
    return role_view(checked_tokens(given, name, shape[0], shape[1], shape[2]), role);
}

// Either one of the two.
uint64_t features_of(const vkattn_linear_backward_desc &desc, vkattn_tensor &weight) {
    const char *name = present(desc.d_input) ? "weight" : "input";
    if (!present(desc.d_input)) return present(desc.d_weight) ? checked_rank(desc.input, name, 3).shape[2] : 1;
    require(present(desc.weight), "weight: absent, expected [out,in] with d_input");
    weight = checked_rank(desc.weight, "weight", 2);
    require_weight(weight, "weight");
    return weight.shape[1];
}

void check_input_gradient(const vkattn_linear_backward_desc &desc, const vkattn_tensor &weight,
                          const uint64_t (&shape)[3], LinearGradients &problem) {
    const uint64_t out = problem.d_output.tensor.shape[2];
    require(weight.shape[0] == out && weight.shape[1] >= 1, "weight: shape ", shape_text(weight), ", expected [", out,
            ",in] with in at least 1, as d_output");
    problem.weight = role_view(weight, VKATTN_ROLE_WEIGHT);
    problem.d_input = tokens_view(desc.d_input, "d_input", VKATTN_ROLE_D_INPUT, shape);
    require_no_overlap(problem.d_input.tensor, "d_input");
    if (present(desc.residual)) problem.residual = tokens_view(desc.residual, "residual", VKATTN_ROLE_RESIDUAL, shape);
}

void check_weight_gradient(const vkattn_linear_backward_desc &desc, const uint64_t (&shape)[3],
                           LinearGradients &problem) {
    const uint64_t out = problem.d_output.tensor.shape[2], in = shape[2];
    problem.input = tokens_view(desc.input, "input", VKATTN_ROLE_INPUT, shape);
    require(in >= 1, "input: shape ", shape_text(problem.input.tensor), ", expected at least 1 feature");
    const vkattn_tensor d_weight = checked_rank(desc.d_weight, "d_weight", 2);
    require_float(d_weight, "d_weight");
    require(d_weight.shape[0] == out && d_weight.shape[1] == in && (in == 1 || d_weight.strides[1] == 1),
            "d_weight: shape ", shape_text(d_weight), ", expected [", out, ",", in, "], last stride 1");
    require_no_overlap(d_weight, "d_weight");
    problem.d_weight = role_view(d_weight, VKATTN_ROLE_D_WEIGHT);
}

LinearGradients checked(const vkattn_linear_backward_desc &desc) {
    require(present(desc.d_input) || present(desc.d_weight) || present(desc.d_bias),
            "d_input, d_weight, d_bias: absent, expected one of them at least");
    require(!present(desc.residual) || present(desc.d_input), "residual: given without d_input, expected none");
    const vkattn_tensor d_output = checked_rank(desc.d_output, "d_output", 3);
    require(d_output.shape[2] >= 1, "d_output: shape ", shape_text(d_output), ", expected at least 1 feature");
    LinearGradients problem{};
    problem.d_output =
        role_view(checked_tokens(d_output, "d_output", kAnySize, kAnySize, d_output.shape[2]), VKATTN_ROLE_D_OUTPUT);
    vkattn_tensor weight{};
    const uint64_t shape[3] = {d_output.shape[0], d_output.shape[1], features_of(desc, weight)};
    if (present(desc.d_input)) check_input_gradient(desc, weight, shape, problem);
    if (present(desc.d_weight)) check_weight_gradient(desc, shape, problem);
    problem.d_bias = role_view(checked_vector(desc.d_bias, "d_bias", d_output.shape[2]), VKATTN_ROLE_D_BIAS);
    problem.accumulates = checked_accumulate(desc.accumulate, problem.d_weight, problem.d_bias);
    return problem;
}

// The matrix with its dimensions the other way round.
View turned(const View &matrix) {
    View turned = matrix;
    std::swap(turned.tensor.shape[0], turned.tensor.shape[1]);
    std::swap(turned.tensor.strides[0], turned.tensor.strides[1]);
    return turned;
}

// CPU drivers multiply rows through addresses faster than tiles in shared memory, which alone turn their factors: a copy that is turned pays
// from so many tokens on. Of 512 (1024 to 1024 features) both gradients took 3.4 times the forward pass without, on lavapipe 26.
bool pays_to_copy(PlanBuilder &builder, uint64_t tokens) {
    constexpr uint64_t kFewestTokens = 16;
    return builder.context().caps().device_type == VK_PHYSICAL_DEVICE_TYPE_CPU && tokens >= kFewestTokens;
}

// Whether rows of the type are moved: all but super-blocks.
bool is_copied(vkattn_type type) { return !is_quantised(type) || storage_block(type).elements == QUANTISED_BLOCK; }

// The most elements, up to 256, of which a row of so many has whole parts.
uint64_t part_of_row(uint64_t elements) {
    uint64_t part = std::min<uint64_t>(elements, 256);
    while (elements % part != 0) --part;
    return part;
}

// The copy of a matrix whose rows are its columns; of a quantised one in f32.
vkattn_tensor turned_copy_of(const vkattn_tensor &matrix) {
    return contiguous(is_quantised(matrix.type) ? VKATTN_TYPE_F32 : matrix.type, {matrix.shape[1], matrix.shape[0]});
}

// Such a copy in the workspace.
View copy_turned(PlanBuilder &builder, const View &matrix) {
    const vkattn_tensor &from = matrix.tensor;
    const bool quantised = is_quantised(from.type);
    const uint64_t rows = from.shape[0], columns = from.shape[1];
    View turned{turned_copy_of(from), {}};
    turned.source = builder.reserve_workspace(extent_bytes(turned.tensor));
    // the rows of what is read where they are blocks, else of what is written
    const uint64_t size = quantised ? QUANTISED_BLOCK : part_of_row(rows);
    const uint64_t heads = (quantised ? columns : rows) / size, len = quantised ? rows : columns;
    View source = matrix, target = turned;
    const uint64_t offset = from.offset;
    source.tensor = contiguous(from.type, {1, heads, len, size});
    source.tensor.offset = offset;
    target.tensor = contiguous(turned.tensor.type, {1, heads, len, size});
    const uint64_t of_source[4] = {0, quantised ? size : size * from.strides[0], from.strides[quantised ? 0 : 1],
                                   quantised ? 1 : from.strides[0]};
    const uint64_t of_target[4] = {0, quantised ? size * rows : size, quantised ? 1 : rows, quantised ? rows : 1};
    std::copy(of_source, of_source + 4, source.tensor.strides);
    std::copy(of_target, of_target + 4, target.tensor.strides);
    add_rows(builder, {.source = source, .target = target});
    return turned;
}

// d_output weight + residual, of the weight's rows first .. first + count - 1.
LinearOperands input_gradient(const LinearGradients &problem, uint64_t first, uint64_t count) {
    LinearOperands operands{
        .input = problem.d_output, .weight = problem.weight, .output = problem.d_input, .residual = problem.residual};
    slice(operands.input.tensor, 2, first, count);
    slice(operands.weight.tensor, 0, first, count);
    const vkattn_tensor &weight = operands.weight.tensor;
    if (weight.strides[1] == 1 || weight.shape[1] == 1)
        operands.transposed = TRANSPOSED_WEIGHT;
    else
        operands.weight = turned(operands.weight); // whose rows lie one behind the other, or anyhow
    return operands;
}

// Where the device cannot bind the weight at a time, its rows come in parts, whose sums are added in f32.
std::string add_input_gradient(PlanBuilder &builder, const LinearGradients &problem) {
    const vkattn_tensor &weight = problem.weight.tensor, &d_input = problem.d_input.tensor;
    const uint64_t all = weight.shape[0], fitting = rows_that_fit(builder.context().caps(), weight);
    if (fitting >= all) {
        LinearOperands operands = input_gradient(problem, 0, all);
        const DeviceCaps &caps = builder.context().caps();
        if (operands.transposed != 0 && is_copied(weight.type) &&
            extent_bytes(turned_copy_of(weight)) <= caps.max_storage_buffer_range &&
            pays_to_copy(builder, d_input.shape[0] * d_input.shape[1])) {
            operands.weight = copy_turned(builder, problem.weight);
            operands.transposed = 0;
            builder.barrier();
        }
        return add_product(builder, problem_of(operands), operands);
    }
    View sums{contiguous(VKATTN_TYPE_F32, {d_input.shape[0], d_input.shape[1], d_input.shape[2]}), {}};
    sums.source = builder.reserve_workspace(extent_bytes(sums.tensor));
    std::string reason;
    for (uint64_t first = 0; first < all; first += fitting) {
        LinearOperands part = input_gradient(problem, first, std::min(fitting, all - first));
        if (first > 0) part.residual = sums;
        if (first + fitting < all) part.output = sums;
        builder.barrier();
        reason = add_product(builder, problem_of(part), part);
    }
    return text(reason, "; in ", divide_up(all, fitting),
                " parts, for a weight above maxStorageBufferRange or 2^32 elements");
}

// [out,in] seen as tokens [1,out,in].
View as_tokens(const View &matrix) {
    View tokens = matrix;
    vkattn_tensor &tensor = tokens.tensor;
    tensor.rank = 3;
    for (uint32_t dim = 2; dim > 0; --dim) {
        tensor.shape[dim] = tensor.shape[dim - 1];
        tensor.strides[dim] = tensor.strides[dim - 1];
    }
    tensor.shape[0] = 1;
    tensor.strides[0] = tensor.shape[1] * tensor.strides[1];
    return tokens;
}

// Tokens [B,L,N] of one stride seen as [B*L,N].
View as_matrix(const View &tokens) {
    View matrix = tokens;
    const vkattn_tensor &from = tokens.tensor;
    matrix.tensor.rank = 2;
    matrix.tensor.shape[0] = from.shape[0] * from.shape[1];
    matrix.tensor.shape[1] = from.shape[2];
    matrix.tensor.strides[0] = from.strides[from.shape[1] <= 1 ? 0 : 1];
    matrix.tensor.strides[1] = 1;
    for (uint32_t dim = 2; dim < 4; ++dim) matrix.tensor.shape[dim] = matrix.tensor.strides[dim] = 0;
    return matrix;
}

void add_weight_gradient(PlanBuilder &builder, const LinearGradients &problem) {
    if (is_empty(problem.d_output.tensor)) {
        if (!problem.accumulates) add_zeros(builder, problem.d_weight);
        return;
    }
    LinearOperands operands{.input = problem.d_output, .weight = problem.input, .output = as_tokens(problem.d_weight)};
    if (problem.accumulates) operands.residual = operands.output;
    operands.transposed = TRANSPOSED_WEIGHT | TRANSPOSED_INPUT;
    const vkattn_tensor &tokens = problem.input.tensor;
    if (is_one_sequence(problem.d_output.tensor) && is_one_sequence(tokens) &&
        pays_to_copy(builder, tokens.shape[0] * tokens.shape[1])) {
        operands.input = as_tokens(copy_turned(builder, as_matrix(problem.d_output)));
        operands.weight = copy_turned(builder, as_matrix(problem.input));
        operands.transposed = 0;
        builder.barrier();
    }
    add_product(builder, problem_of(operands), operands);
}

} // namespace

std::string add_linear_backward(PlanBuilder &builder, const LinearGradients &gradients) {
    std::string reason;
    if (present(gradients.d_input)) reason = add_input_gradient(builder, gradients);
    if (present(gradients.d_weight)) add_weight_gradient(builder, gradients);
    if (present(gradients.d_bias))
        add_token_sums(builder, {.d_output = gradients.d_output, .sums = gradients.d_bias}, gradients.accumulates);
    return reason;
}

void plan_linear_backward(PlanBuilder &builder, const vkattn_linear_backward_desc &desc) {
    const LinearGradients problem = checked(desc);
    for (const View *view : {&problem.input, &problem.weight, &problem.d_output, &problem.residual, &problem.d_input,
                             &problem.d_weight, &problem.d_bias})
        allow_role(builder, *view);
    const std::string reason = add_linear_backward(builder, problem);
    if (present(problem.d_input)) builder.set_choice(VKATTN_KERNEL_AUTO, reason);
}

} // namespace vkattn
