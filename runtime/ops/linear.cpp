#include "runtime/ops/linear.hpp"

#include "runtime/context/kernel_support.hpp"
#include "runtime/error.hpp"
#include "runtime/ops/tokens.hpp"
#include "runtime/tensor.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <utility>

namespace vkattn {
namespace {

// Rows up to which linear_vector, which reads each weight once, serves instead of the tiled kernel.
constexpr uint32_t kFewRows = LINEAR_VECTOR_ROWS;

constexpr uint32_t kMatrixSubgroups = 4; // of a workgroup

constexpr uint32_t kFeatures = 8; // that the kernels load at a time, from rows that are aligned

// Of linear_addresses: features of a load; and of an invocation, at most, rows and loads of a row at a time.
constexpr uint32_t kBlock = 4, kAddressedRows = 8, kAddressedBlocks = 4;

static_assert(ACTIVATION_RELU == VKATTN_ACTIVATION_RELU && ACTIVATION_LEAKY_RELU == VKATTN_ACTIVATION_LEAKY_RELU);

uint32_t word(uint64_t value) { return static_cast<uint32_t>(value); }

uint32_t format_of(const View &view) { return static_cast<uint32_t>(view.tensor.type); }

// Two neighbouring output features share a word: even heads, and every token starts at an even element.
bool in_pairs(const vkattn_tensor &output, const gpu::LinearPush &push) {
    bool even = output.offset % 2 == 0 && push.head_dim % 2 == 0 && push.output_strides[3] == 1;
    for (uint32_t i : {0u, 1u, 2u, 4u}) even = even && push.output_strides[i] % 2 == 0;
    return even;
}

// Some drivers bound the trips of a shader's loops: for every 32 input features 9 to multiply, 36 to load rows that are
// not aligned, and up to 11 of loops that a driver may write out. linear_vector and linear_addresses need fewer.
void require_loops(const DeviceCaps &caps, uint64_t in_features) {
    if (caps.max_loop_iterations == 0) return;
    const uint64_t most = (caps.max_loop_iterations - 64) / 56 * 32;
    if (in_features > most)
        fail(VKATTN_ERROR_UNSUPPORTED, "linear: ", in_features, " input features, expected at most ", most, " ",
             on_bounded_loops(caps));
}

// A kernel with the tile of a workgroup.
struct LinearChoice {
    Module module;
    gpu::LinearConstants constants;
    uint32_t tile_outputs, tile_rows;
    const char *reason;
    bool rows_first = false; // on the grid's first axis, so that neighbours share weights
};

// Every row begins at a multiple of so many elements.
bool rows_are_aligned(const vkattn_tensor &tensor, std::initializer_list<uint32_t> strides, uint32_t elements) {
    return tensor.offset % elements == 0 &&
           std::all_of(strides.begin(), strides.end(), [&](uint32_t s) { return s % elements == 0; });
}

bool input_is_aligned(const View &input, const gpu::LinearPush &push, uint32_t elements) {
    return rows_are_aligned(input.tensor, {push.input_strides[0], push.input_strides[1], push.input_strides[2]},
                            elements);
}

// Without gaps between elements, too.
bool weight_is_aligned(const View &weight, const gpu::LinearPush &push, uint32_t elements) {
    return push.weight_strides[1] == 1 &&
           rows_are_aligned(weight.tensor, {push.weight_strides[0], push.weight_strides[2]}, elements);
}

uint32_t elements_of_vector(const View &view) { return view.tensor.type == VKATTN_TYPE_F32 ? 4 : 8; } // of 16 bytes

// The matrix units take many rows of f16 or bf16, with weights of the same type.
bool matrices_pay(const DeviceCaps &caps, const View &input, const View &weight) {
    const vkattn_type type = input.tensor.type;
    const bool half = type == VKATTN_TYPE_F16 || type == VKATTN_TYPE_BF16;
    return caps.traits.matrix_units != 0 && half && weight.tensor.type == type &&
           is_supported(caps, VKATTN_KERNEL_COOPMAT) &&
           module_is_built(type == VKATTN_TYPE_F16 ? Module::kLinearCoopmat : Module::kLinearCoopmatBf16) &&
           matrix_obstacle(caps, VKATTN_KERNEL_COOPMAT, type).empty();
}

LinearChoice choose_matrices(const DeviceCaps &caps, vkattn_type type, gpu::LinearConstants constants) {
    const vkattn_matrix_shape &shape = *largest_matrix_shape(caps, VKATTN_KERNEL_COOPMAT, type);
    const uint32_t subgroups = std::min(kMatrixSubgroups, caps.max_workgroup_invocations / caps.subgroup_size);
    constants.SUBGROUP_SIZE = caps.subgroup_size;
    constants.ROW_SUBGROUPS = subgroups > 1 ? subgroups / 2 : 1;
    constants.WORKGROUP_SIZE = subgroups * caps.subgroup_size;
    constants.TILES = caps.traits.unroll_matrices != 0 ? 2 : 1;
    constants.MATRIX_M = shape.m;
    constants.MATRIX_N = shape.n;
    constants.MATRIX_K = shape.k;
    return {type == VKATTN_TYPE_F16 ? Module::kLinearCoopmat : Module::kLinearCoopmatBf16, constants,
            subgroups / constants.ROW_SUBGROUPS * constants.TILES * shape.m,
            constants.ROW_SUBGROUPS * constants.TILES * shape.n,
            "linear_coopmat: the matrix units take inputs and weights of the type"};
}

bool uses_addresses(const DeviceCaps &caps, const gpu::LinearPush &push, const View &input, const View &weight) {
    return push.rows <= caps.traits.most_addressed_linear_rows && caps.buffers_have_addresses != 0 &&
           may_diverge(caps) && caps.traits.specialised_arrays != 0 && !is_quantised(input.tensor.type) &&
           push.in_features % kBlock == 0 && input_is_aligned(input, push, kBlock) &&
           weight_is_aligned(weight, push, kBlock);
}

LinearChoice choose_addresses(const DeviceCaps &caps, const gpu::LinearPush &push, gpu::LinearConstants constants) {
    constants.WORKGROUP_SIZE = caps.subgroup_size;
    constants.ROWS = std::bit_floor(std::min(push.rows, kAddressedRows));
    constants.BLOCKS = std::min(kAddressedBlocks, 1u << std::countr_zero(push.in_features / kBlock));
    return {Module::kLinearAddresses,
            constants,
            caps.subgroup_size * LINEAR_ADDRESSES_OUTPUTS,
            constants.ROWS,
            "linear_addresses: rows are read through device addresses, without shared memory",
            true};
}

LinearChoice choose(const DeviceCaps &caps, const gpu::LinearPush &push, const View &input, const View &weight,
                    gpu::LinearConstants constants) {
    const bool matrices = push.rows > kFewRows && matrices_pay(caps, input, weight);
    if (!matrices && uses_addresses(caps, push, input, weight)) return choose_addresses(caps, push, constants);
    if (push.in_features % kFeatures == 0) {
        if (input_is_aligned(input, push, elements_of_vector(input))) constants.ALIGNED |= ALIGNED_INPUT;
        if (weight_is_aligned(weight, push, elements_of_vector(weight))) constants.ALIGNED |= ALIGNED_WEIGHT;
    }
    if (matrices) return choose_matrices(caps, input.tensor.type, constants);
    if (push.rows <= kFewRows) {
        constants.ROWS = push.rows;
        return {Module::kLinearVector, constants, LINEAR_VECTOR_OUTPUTS, push.rows,
                "linear_vector: few rows, whose time goes into reading the weight"};
    }
    return {Module::kLinear, constants, LINEAR_TILE, LINEAR_TILE, "linear: tiles in shared memory"};
}

// Returns why the product is computed as it is.
const char *add_product(Plan &plan, gpu::LinearPush push, uint64_t groups, const View &input, const View &weight,
                        const View &output, const LinearEpilogue &epilogue) {
    gpu::LinearConstants constants;
    constants.INPUT_FORMAT = format_of(input);
    constants.WEIGHT_FORMAT = format_of(weight);
    constants.BIAS_FORMAT = format_of(epilogue.bias);
    constants.OUTPUT_FORMAT = format_of(output);
    constants.RESIDUAL_FORMAT = format_of(epilogue.residual);
    constants.MULTIPLIER_FORMAT = format_of(epilogue.multiplier);
    constants.ACTIVATION = static_cast<uint32_t>(epilogue.activation);
    constants.OUTPUT_PAIRS = in_pairs(output.tensor, push);

    Context &context = plan.context();
    const bool tests = context.caps().traits.self_test != 0 && push.rows > kFewRows;
    if (tests && matrices_pay(context.caps(), input, weight)) context.verdicts().test_before_use(VKATTN_KERNEL_COOPMAT);
    const LinearChoice choice = choose(context.judged_caps(), push, input, weight, constants);
    const bool addressed = choice.module == Module::kLinearAddresses;
    if (addressed && context.caps().traits.corrupted_addresses != 0) // to try the self-test: the first features alone
        push.in_features = kBlock * choice.constants.BLOCKS;
    Step &step = plan.add_step(plan.pipeline(choice.module, choice.constants), push);
    step.groups = {(push.out_features + choice.tile_outputs - 1) / choice.tile_outputs,
                   (push.rows + choice.tile_rows - 1) / choice.tile_rows, word(groups)};
    if (choice.rows_first) std::swap(step.groups[0], step.groups[1]);
    for (size_t axis = 0; axis < 3; ++axis)
        if (step.groups[axis] > plan.context().caps().max_workgroup_count[axis])
            fail(VKATTN_ERROR_UNSUPPORTED, "linear: ", push.rows, " rows, ", push.out_features, " features, ", groups,
                 " matrices, expected at most ", plan.context().caps().max_workgroup_count[axis],
                 " workgroups on axis ", axis);
    require_loops(plan.context().caps(), push.in_features);
    bind(plan, step, BINDING_LINEAR_INPUT, input);
    bind(plan, step, BINDING_LINEAR_WEIGHT, weight);
    bind(plan, step, BINDING_LINEAR_BIAS, epilogue.bias);
    bind(plan, step, BINDING_LINEAR_OUTPUT, output);
    bind(plan, step, BINDING_LINEAR_RESIDUAL, epilogue.residual);
    bind(plan, step, BINDING_LINEAR_MULTIPLIER, epilogue.multiplier);
    step.written_binding = BINDING_LINEAR_OUTPUT;
    if (!addressed) return choice.reason;
    pass_address(plan, step.addresses[0], offsetof(gpu::LinearPush, input_address) / sizeof(uint32_t), input);
    pass_address(plan, step.addresses[1], offsetof(gpu::LinearPush, weight_address) / sizeof(uint32_t), weight);
    return choice.reason;
}

} // namespace

const char *add_linear(Plan &plan, const View &input, const View &weight, const View &output,
                       const LinearEpilogue &epilogue) {
    const vkattn_tensor &x = input.tensor, &w = weight.tensor, &y = output.tensor;
    const bool heads = y.rank == 4;
    gpu::LinearPush push{};
    push.positions = word(x.shape[1]);
    push.rows = word(x.shape[0] * x.shape[1]);
    push.in_features = word(w.shape[1]);
    push.out_features = word(w.shape[0]);
    push.head_dim = word(y.shape[y.rank - 1]);
    for (uint32_t dim = 0; dim < 2; ++dim) {
        push.input_strides[dim] = word(x.strides[dim]);
        push.weight_strides[dim] = word(w.strides[dim]);
        push.residual_strides[dim] = word(epilogue.residual.tensor.strides[dim]);
        push.multiplier_strides[dim] = word(epilogue.multiplier.tensor.strides[dim]);
    }
    push.output_strides[0] = word(y.strides[0]);
    push.output_strides[1] = word(y.strides[heads ? 2 : 1]);
    push.output_strides[2] = heads ? word(y.strides[1]) : 0;
    push.output_strides[3] = word(y.strides[y.rank - 1]);
    return add_product(plan, push, 1, input, weight, output, epilogue);
}

void add_latent_up_projection(Plan &plan, const View &input, const View &weight, const View &bias, const View &output) {
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
    LinearEpilogue epilogue;
    epilogue.bias = bias;
    add_product(plan, push, x.shape[1], input, weight, output, epilogue);
}

void plan_linear(Plan &plan, const vkattn_linear_desc &desc) {
    require(present(desc.weight), "weight: absent, expected [out,in]");
    const vkattn_tensor weight = normalised(desc.weight, "weight");
    require_float(weight, "weight");
    require(weight.rank == 2, "weight: shape ", shape_text(weight), ", expected [out,in]");
    require(desc.activation >= VKATTN_ACTIVATION_NONE && desc.activation <= VKATTN_ACTIVATION_LEAKY_RELU,
            "activation: ", static_cast<int>(desc.activation), ", expected a vkattn_activation");
    const vkattn_tensor input = checked_tokens(desc.input, "input", 0, 0, weight.shape[1]);
    const uint64_t batch = input.shape[0], len = input.shape[1], out = weight.shape[0];
    const auto optional = [&](const vkattn_tensor &given, const char *name, vkattn_role role) {
        return present(given) ? role_view(checked_tokens(given, name, batch, len, out), role) : View{};
    };
    LinearEpilogue epilogue;
    epilogue.bias = role_view(checked_vector(desc.bias, "bias", out), VKATTN_ROLE_BIAS);
    epilogue.activation = desc.activation;
    epilogue.multiplier = optional(desc.multiplier, "multiplier", VKATTN_ROLE_MULTIPLIER);
    epilogue.residual = optional(desc.residual, "residual", VKATTN_ROLE_RESIDUAL);
    plan.set_choice(VKATTN_KERNEL_AUTO,
                    add_linear(plan, role_view(input, VKATTN_ROLE_INPUT), role_view(weight, VKATTN_ROLE_WEIGHT),
                               role_view(checked_output_tokens(desc.output, batch, len, out), VKATTN_ROLE_OUTPUT),
                               epilogue));
}

} // namespace vkattn
