#include "runtime/ops/linear.hpp"

#include "runtime/device/bindable.hpp"
#include "runtime/ops/norm.hpp"
#include "runtime/ops/operators.hpp"
#include "runtime/ops/tokens.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/problem/tensor_checks.hpp"
#include "runtime/support/error.hpp"
#include "runtime/support/rounding.hpp"
#include "runtime/support/structures.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>

namespace vkattn {
namespace {

uint32_t word(uint64_t value) { return static_cast<uint32_t>(value); }

LinearProblem problem_of_push(const gpu::LinearPush &push, uint64_t groups, const LinearOperands &operands) {
    LinearProblem problem;
    problem.push = push;
    problem.groups = word(groups);
#define VKATTN_TENSOR(OPERATOR, binding, name, NAME, ROLE, Access, Form, dims) problem.name = operands.name.tensor;
    LINEAR_TENSORS(VKATTN_TENSOR)
#undef VKATTN_TENSOR
    problem.activation = operands.activation;
    problem.norm_epsilon = operands.norm_epsilon;
    return problem;
}

double flops_of(const LinearProblem &problem) {
    const gpu::LinearPush &push = problem.push;
    return 2.0 * problem.groups * push.rows * push.in_features * push.out_features;
}

// What tuning found for such a problem; if it normalises and nothing was found, for one that does not.
KernelTile tuned_tile(Context &context, const LinearProblem &problem) {
    const KernelTile tile = context.tunings().linear.find(class_of(problem));
    if (tile.kernel != 0 || !present(problem.norm_weight)) return tile;
    LinearProblem plain = problem;
    plain.norm_weight = {};
    return context.tunings().linear.find(class_of(plain));
}

// What tuning found is kept in the problem.
LinearChoice choose_untested(Context &context, LinearProblem &problem) {
    if (problem.tile.kernel == 0) problem.tile = tuned_tile(context, problem);
    return choose_linear(problem, *context.judged_caps());
}

} // namespace

LinearChoice choose_tested(Context &context, LinearProblem problem) {
    for (;;) {
        const std::shared_ptr<const DeviceCaps> known = context.judged_caps();
        LinearChoice choice = choose_untested(context, problem);
        context.verdicts().test_before_use(shader_name(*choice.shader, choice.constants), choice.paths);
        if (context.judged_caps() == known) return choice; // no new verdict
    }
}

std::string add_product(PlanBuilder &builder, const LinearProblem &problem, const LinearOperands &operands) {
    allow_roles(builder, operands);
    if (is_empty(operands.output.tensor)) return "there is nothing to multiply";
    Context &context = builder.context();
    if (!builder.is_measure() && problem.tile.kernel == 0 && context.tunings().measure_linear)
        context.tunings().measure_linear(problem, operands);
    LinearProblem untested = problem;
    const LinearChoice choice =
        builder.is_measure() ? choose_untested(context, untested) : choose_tested(context, problem);
    add_product(builder, problem, operands, choice);
    return choice.reason;
}

void add_product(PlanBuilder &builder, const LinearProblem &problem, const LinearOperands &operands,
                 const LinearChoice &choice) {
    Step &step = builder.add_step(*choice.shader, choice.constants, problem.push);
    builder.set_use({shader_name(*choice.shader, choice.constants), choice.paths});
    step.groups = choice.groups;
    step.flops = flops_of(problem);
    bind_tensors(builder, step, operands);
    if (!choice.addressed) return;
    pass_address(builder, step.addresses[0], offsetof(gpu::LinearPush, input_address) / sizeof(uint32_t),
                 operands.input);
    pass_address(builder, step.addresses[1], offsetof(gpu::LinearPush, weight_address) / sizeof(uint32_t),
                 operands.weight);
}

bool is_one_sequence(const vkattn_tensor &tokens) {
    return tokens.shape[0] <= 1 || tokens.shape[1] <= 1 || tokens.strides[0] == tokens.shape[1] * tokens.strides[1];
}

namespace {

// Of tokens that are features of a transposed factor, as gpu::LinearPush says.
void set_token_strides(const vkattn_tensor &tokens, gpu::uint (&strides)[3]) {
    strides[0] = word(tokens.strides[0]);
    strides[1] = word(tokens.strides[tokens.shape[1] <= 1 ? 0 : 1]);
    strides[2] = word(tokens.shape[1]);
}

LinearProblem transposed_problem_of(const LinearOperands &operands) {
    const vkattn_tensor &x = operands.input.tensor, &w = operands.weight.tensor, &y = operands.output.tensor;
    gpu::LinearPush push{};
    push.positions = word(y.shape[1]);
    push.rows = word(y.shape[0] * y.shape[1]);
    push.out_features = push.head_dim = word(y.shape[2]);
    for (uint32_t dim = 0; dim < 2; ++dim) {
        push.input_strides[dim] = word(x.strides[dim]);
        push.output_strides[dim] = word(y.strides[dim]);
        push.residual_strides[dim] = word(operands.residual.tensor.strides[dim]);
    }
    push.output_strides[3] = 1;
    uint32_t transposed = operands.transposed;
    if ((transposed & TRANSPOSED_INPUT) != 0) {
        push.in_features = word(x.shape[0] * x.shape[1]);
        if (!is_one_sequence(x) || !is_one_sequence(w)) transposed |= TRANSPOSED_BATCHES;
        set_token_strides(x, push.input_strides);
        set_token_strides(w, push.weight_strides);
    } else {
        push.in_features = word(w.shape[0]);
        push.weight_strides[1] = word(w.strides[0]);
    }
    LinearProblem problem = problem_of_push(push, 1, operands);
    problem.transposed = transposed;
    return problem;
}

} // namespace

LinearProblem problem_of(const LinearOperands &operands) {
    if (operands.transposed != 0) return transposed_problem_of(operands);
    const vkattn_tensor &x = operands.input.tensor, &w = operands.weight.tensor, &y = operands.output.tensor;
    const bool heads = y.rank == 4, gated = w.rank == 3;
    gpu::LinearPush push{};
    push.positions = word(x.shape[1]);
    push.rows = word(x.shape[0] * x.shape[1]);
    push.in_features = word(w.shape[w.rank - 1]);
    push.out_features = word(out_features_of(w) * (gated ? 2 : 1));
    push.head_dim = word(y.shape[y.rank - 1]);
    for (uint32_t dim = 0; dim < 2; ++dim) {
        push.input_strides[dim] = word(x.strides[dim]);
        push.weight_strides[dim] = word(w.strides[w.rank - 2 + dim]);
        push.residual_strides[dim] = word(operands.residual.tensor.strides[dim]);
        push.multiplier_strides[dim] = word(operands.multiplier.tensor.strides[dim]);
    }
    push.output_strides[0] = word(y.strides[0]);
    push.output_strides[1] = word(y.strides[heads ? 2 : 1]);
    push.output_strides[2] = heads ? word(y.strides[1]) : 0;
    push.output_strides[3] = word(y.strides[y.rank - 1]);
    if (gated) {
        push.weight_strides[2] = word(w.strides[0]);
        push.bias_stride = word(operands.bias.tensor.strides[0]);
    }
    LinearProblem problem = problem_of_push(push, 1, operands);
    problem.gated = gated;
    return problem;
}

namespace {

// Whether the kernel that serves a product of the tokens normalises them as well.
bool normalises(PlanBuilder &builder, const View &tokens, const View &weight) {
    const uint64_t *shape = tokens.tensor.shape;
    const View output{contiguous(VKATTN_TYPE_F32, {shape[0], shape[1], out_features_of(weight.tensor)}), {}};
    LinearProblem problem = problem_of(LinearOperands{.input = tokens, .weight = weight, .output = output});
    Context &context = builder.context();
    const LinearChoice choice =
        builder.is_measure() ? choose_untested(context, problem) : choose_tested(context, problem);
    return choice.normalises;
}

} // namespace

ProductInput normalise_for(PlanBuilder &builder, const View &tokens, const RmsNorm &norm, std::span<const View> weights,
                           vkattn_type type) {
    if (!present(norm.weight)) return tokens;
    const auto fuses = [&](const View &weight) { return normalises(builder, tokens, weight); };
    if (is_empty(tokens.tensor) || std::ranges::all_of(weights, fuses)) return {tokens, norm};
    const uint64_t *shape = tokens.tensor.shape;
    if (type == VKATTN_TYPE_NONE) type = tokens.tensor.type;
    View normed{contiguous(type, {shape[0], shape[1], shape[2]}), {}}; // so that the same kernels serve
    normed.source = builder.reserve_workspace(extent_bytes(normed.tensor));
    add_norm(builder, Norm::kRms, norm.epsilon, {.input = tokens, .weight = norm.weight, .output = normed});
    builder.barrier();
    return normed;
}

namespace {

// Output features first .. first + count - 1 of a product.
LinearOperands outputs_of(const LinearOperands &operands, uint64_t first, uint64_t count) {
    LinearOperands part = operands;
    slice(part.weight.tensor, 0, first, count);
    slice(part.bias.tensor, 0, first, count);
    slice(part.multiplier.tensor, 2, first, count);
    slice(part.residual.tensor, 2, first, count);
    vkattn_tensor &output = part.output.tensor;
    const uint64_t size = output.shape[3]; // of a head
    if (output.rank == 4)
        slice(output, 1, first / size, count / size);
    else
        slice(output, 2, first, count);
    return part;
}

// Output features of which the device can bind the weights at a time, of whole heads.
uint64_t outputs_that_fit(const LinearOperands &operands, const DeviceCaps &caps) {
    const vkattn_tensor &output = operands.output.tensor;
    const uint64_t fitting = rows_that_fit(caps, operands.weight.tensor);
    return output.rank == 4 ? fitting / output.shape[3] * output.shape[3] : fitting;
}

// Where the device cannot bind both matrices at a time, what the gate multiplies has a product of its own before.
std::string add_gated_in_two(PlanBuilder &builder, const LinearOperands &operands);

} // namespace

std::string add_products(PlanBuilder &builder, const LinearOperands &operands) {
    const DeviceCaps &caps = builder.context().caps();
    const vkattn_tensor &weight = operands.weight.tensor;
    if (weight.rank == 3) {
        if (is_bindable(caps, weight)) return add_product(builder, problem_of(operands), operands);
        return add_gated_in_two(builder, operands);
    }
    const uint64_t all = weight.shape[0], fitting = outputs_that_fit(operands, caps);
    if (fitting == 0 || fitting >= all) return add_product(builder, problem_of(operands), operands);
    std::string reason;
    for (uint64_t first = 0; first < all; first += fitting) {
        if (first > 0) builder.barrier(); // the parts' outputs lie between each other's
        const LinearOperands part = outputs_of(operands, first, std::min(fitting, all - first));
        reason = add_product(builder, problem_of(part), part);
    }
    return text(reason, "; in ", divide_up(all, fitting),
                " parts, for a weight above maxStorageBufferRange or 2^32 elements");
}

namespace {

// One of the matrices of a gated product, or of its biases.
View matrix_of(const View &view, uint64_t index) {
    if (!present(view)) return view;
    View matrix = view;
    vkattn_tensor &tensor = matrix.tensor;
    tensor.offset += index * tensor.strides[0];
    std::copy(tensor.shape + 1, tensor.shape + tensor.rank, tensor.shape);
    std::copy(tensor.strides + 1, tensor.strides + tensor.rank, tensor.strides);
    --tensor.rank;
    tensor.shape[tensor.rank] = tensor.strides[tensor.rank] = 0;
    return matrix;
}

std::string add_gated_in_two(PlanBuilder &builder, const LinearOperands &operands) {
    const vkattn_tensor &x = operands.input.tensor;
    LinearOperands up{.input = operands.input,
                      .weight = matrix_of(operands.weight, 1),
                      .bias = matrix_of(operands.bias, 1),
                      .norm_weight = operands.norm_weight,
                      .norm_epsilon = operands.norm_epsilon};
    LinearOperands gate = operands;
    up.output = {contiguous(VKATTN_TYPE_F32, {x.shape[0], x.shape[1], out_features_of(operands.weight.tensor)}), {}};
    up.output.source = builder.reserve_workspace(extent_bytes(up.output.tensor));
    add_products(builder, up);
    builder.barrier();
    gate.weight = matrix_of(operands.weight, 0);
    gate.bias = matrix_of(operands.bias, 0);
    gate.multiplier = up.output;
    return text(add_products(builder, gate),
                "; gated in two products, for weights above maxStorageBufferRange or 2^32 elements");
}

} // namespace

void add_linear(PlanBuilder &builder, const ProductInput &input, const View &weight, const View &output,
                const LinearEpilogue &epilogue) {
    add_products(builder, {.input = input.tokens,
                           .weight = weight,
                           .bias = epilogue.bias,
                           .output = output,
                           .residual = epilogue.residual,
                           .multiplier = epilogue.multiplier,
                           .norm_weight = input.norm.weight,
                           .activation = epilogue.activation,
                           .norm_epsilon = input.norm.epsilon});
}

namespace {

void add_heads(PlanBuilder &builder, const View &input, const View &weight, const View &bias, const View &output) {
    const vkattn_tensor &x = input.tensor, &w = weight.tensor, &y = output.tensor;
    gpu::LinearPush push{};
    push.positions = word(x.shape[2]);
    push.rows = word(x.shape[0] * x.shape[2]);
    push.in_features = word(w.shape[2]);
    push.out_features = word(w.shape[1]);
    push.head_dim = push.out_features;
    push.input_strides[0] = word(x.strides[0]);
    push.input_strides[1] = word(x.strides[2]);
    push.input_strides[2] = word(x.strides[1]);
    push.weight_strides[0] = word(w.strides[1]);
    push.weight_strides[1] = word(w.strides[2]);
    push.weight_strides[2] = word(w.strides[0]);
    push.bias_stride = word(bias.tensor.strides[0]);
    push.output_strides[0] = word(y.strides[0]);
    push.output_strides[1] = word(y.strides[2]);
    push.output_strides[3] = word(y.strides[3]);
    push.output_strides[4] = word(y.strides[1]);
    const LinearOperands operands{.input = input, .weight = weight, .bias = bias, .output = output};
    add_product(builder, problem_of_push(push, x.shape[1], operands), operands);
}

View heads_of(const View &view, uint32_t dim, uint64_t first, uint64_t count) {
    View part = view;
    slice(part.tensor, dim, first, count);
    return part;
}

} // namespace

void add_latent_up_projection(PlanBuilder &builder, const View &input, const View &weight, const View &bias,
                              const View &output) {
    const uint64_t all = weight.tensor.shape[0], fitting = rows_that_fit(builder.context().caps(), weight.tensor);
    for (uint64_t first = 0; first < all; first += fitting) {
        if (first > 0) builder.barrier();
        const uint64_t count = std::min(fitting, all - first);
        add_heads(builder, heads_of(input, 1, first, count), heads_of(weight, 0, first, count),
                  heads_of(bias, 0, first, count), heads_of(output, 1, first, count));
    }
}

namespace {

// Those of both matrices.
vkattn_tensor checked_gated_bias(const vkattn_tensor &given, uint64_t out) {
    const vkattn_tensor bias = normalised(given, "bias");
    if (!present(bias)) return bias;
    require_float(bias, "bias");
    require(bias.rank == 2 && bias.shape[0] == 2 && bias.shape[1] == out && (out <= 1 || bias.strides[1] == 1),
            "bias: shape ", shape_text(bias), ", expected [2,", out, "], last stride 1");
    return bias;
}

} // namespace

LinearOperands check_linear(const vkattn_linear_desc &desc) {
    require(present(desc.weight), "weight: absent, expected [out,in] or [2,out,in]");
    const vkattn_tensor weight = normalised(desc.weight, "weight");
    require_weight(weight, "weight");
    const bool gated = weight.rank == 3;
    require((weight.rank == 2 || (gated && weight.shape[0] == 2)) && weight.shape[weight.rank - 1] >= 1,
            "weight: shape ", shape_text(weight), ", expected [out,in] or [2,out,in] with in at least 1");
    require(!gated || !present(desc.multiplier), "multiplier: given with a weight [2,out,in], expected none");
    require(desc.activation >= VKATTN_ACTIVATION_NONE && desc.activation <= VKATTN_ACTIVATION_SOFTPLUS,
            "activation: ", static_cast<int>(desc.activation), ", expected a vkattn_activation");
    LinearOperands operands = LinearOperands::of(desc);
    const uint64_t out = out_features_of(weight);
    operands.weight.tensor = weight;
    check_tensors(operands, {{'I', weight.shape[weight.rank - 1]}, {'O', out}});
    operands.bias.tensor = gated ? checked_gated_bias(desc.bias, out) : checked_vector(desc.bias, "bias", out);
    operands.activation = desc.activation;
    return operands;
}

RmsNorm checked_input_norm(const vkattn_tensor &weight, vkattn_optional_float epsilon, uint64_t features) {
    const float added = epsilon_or(epsilon, 1e-6f, "norm_epsilon");
    if (!present(weight)) return {};
    return {role_view(checked_vector(weight, "norm_weight", features), VKATTN_ROLE_NORM_WEIGHT), added};
}

void plan_linear(PlanBuilder &builder, const vkattn_linear_desc &desc) {
    LinearOperands operands = check_linear(desc);
    const RmsNorm norm = checked_input_norm(desc.norm_weight, desc.norm_epsilon, operands.input.tensor.shape[2]);
    allow_role(builder, operands.input);
    allow_role(builder, norm.weight);
    const ProductInput input = normalise_for(builder, operands.input, norm, {&operands.weight, 1});
    operands.input = input.tokens;
    operands.norm_weight = input.norm.weight;
    operands.norm_epsilon = input.norm.epsilon;
    builder.set_choice(VKATTN_KERNEL_AUTO, add_products(builder, operands));
}

} // namespace vkattn
