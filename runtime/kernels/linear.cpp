#include "runtime/kernels/linear.hpp"

#include "runtime/kernels/kernel.hpp"
#include "runtime/kernels/matrix_shapes.hpp"
#include "runtime/kernels/matrix_tiles.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/support/error.hpp"
#include "runtime/support/rounding.hpp"

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

namespace vkattn {
namespace {

// Rows up to which linear_vector, which reads each weight once, serves instead of matrix units; and instead of the tiled
// kernel, as neighbours that share the weights take a few rows each.
constexpr uint32_t kFewRows = LINEAR_VECTOR_ROWS, kMostVectorRows = 4 * LINEAR_VECTOR_ROWS;

// Of linear_coopmat: the rule's and the most subgroups of a workgroup, the most matrices of a subgroup either way.
constexpr uint32_t kSubgroups = 4, kMostSubgroups = 8, kMostMatrices = 4;

constexpr uint32_t kMostRowsOfReading = 32; // of a tile of linear_coopmat whose time goes into reading the weight

constexpr uint32_t kFeatures = 8; // that the kernels load at a time, from rows that are aligned

// Of an invocation of linear_addresses, at most: rows, and blocks of a row at a time.
constexpr uint32_t kAddressedRows = 8, kAddressedBlocks = 4;

static_assert(ACTIVATION_RELU == VKATTN_ACTIVATION_RELU && ACTIVATION_LEAKY_RELU == VKATTN_ACTIVATION_LEAKY_RELU);

const char *name_of(LinearShader shader) {
    switch (shader) {
    case LinearShader::kVector:
        return "linear_vector";
    case LinearShader::kAddresses:
        return "linear_addresses";
    case LinearShader::kMatrices:
        return "linear_coopmat";
    default:
        return "linear";
    }
}

// Two neighbouring output features share a word: even heads, and every token starts at an even element.
bool in_pairs(const LinearProblem &problem) {
    const gpu::LinearPush &push = problem.push;
    bool even = problem.output.offset % 2 == 0 && push.head_dim % 2 == 0 && push.output_strides[3] == 1;
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

// Every row begins at a multiple of so many elements.
bool rows_are_aligned(const vkattn_tensor &tensor, std::initializer_list<uint32_t> strides, uint32_t elements) {
    return tensor.offset % elements == 0 &&
           std::all_of(strides.begin(), strides.end(), [&](uint32_t s) { return s % elements == 0; });
}

bool input_is_aligned(const LinearProblem &problem, uint32_t elements) {
    const uint32_t(&strides)[3] = problem.push.input_strides;
    return rows_are_aligned(problem.input, {strides[0], strides[1], strides[2]}, elements);
}

// Without gaps between elements, too.
bool weight_is_aligned(const LinearProblem &problem, uint32_t elements) {
    const uint32_t(&strides)[3] = problem.push.weight_strides;
    return strides[1] == 1 && rows_are_aligned(problem.weight, {strides[0], strides[2]}, elements);
}

uint32_t elements_of_vector(const vkattn_tensor &tensor) { return tensor.type == VKATTN_TYPE_F32 ? 4 : 8; } // 16 bytes

uint32_t aligned_factors(const LinearProblem &problem) {
    if (problem.push.in_features % kFeatures != 0) return 0;
    const bool input = input_is_aligned(problem, elements_of_vector(problem.input));
    const bool weight = weight_is_aligned(problem, elements_of_vector(problem.weight));
    return (input ? ALIGNED_INPUT : 0) | (weight ? ALIGNED_WEIGHT : 0);
}

// What every shader takes.
gpu::LinearConstants constants_of(const LinearProblem &problem) {
    gpu::LinearConstants constants;
    constants.INPUT_FORMAT = format_of(problem.input);
    constants.WEIGHT_FORMAT = format_of(problem.weight);
    constants.BIAS_FORMAT = format_of(problem.bias);
    constants.OUTPUT_FORMAT = format_of(problem.output);
    constants.RESIDUAL_FORMAT = format_of(problem.residual);
    constants.MULTIPLIER_FORMAT = format_of(problem.multiplier);
    constants.ACTIVATION = static_cast<uint32_t>(problem.activation);
    constants.OUTPUT_PAIRS = in_pairs(problem);
    return constants;
}

// Workgroups of a tile of so many outputs and rows.
Grid grid(const LinearProblem &problem, uint32_t outputs, uint32_t rows) {
    return {tiles(problem.push.out_features, outputs), tiles(problem.push.rows, rows), problem.groups};
}

// How a workgroup of linear_coopmat divides its tile.
struct LinearMatrixTile {
    vkattn_matrix_shape shape;
    uint32_t subgroup_size;
    uint32_t row_subgroups, output_subgroups;
    uint32_t row_matrices, output_matrices; // of a subgroup
    uint32_t step;                          // input features in shared memory at a time
};

uint32_t rows_of(const LinearMatrixTile &tile) { return tile.row_subgroups * tile.row_matrices * tile.shape.n; }
uint32_t outputs_of(const LinearMatrixTile &tile) {
    return tile.output_subgroups * tile.output_matrices * tile.shape.m;
}

// Shared memory that linear_coopmat.comp declares.
uint64_t shared_bytes(const LinearMatrixTile &tile) {
    const uint64_t inputs = uint64_t{rows_of(tile) + outputs_of(tile)} * (tile.step / 8 + 1);
    const uint64_t strips =
        uint64_t{tile.row_subgroups} * tile.output_subgroups * tile.shape.n * (tile.shape.m / 4 + 1);
    return 16 * std::max(inputs, strips);
}

constexpr uint32_t kStep = 32, kStepOfFewRows = 128;

LinearMatrixTile tile_of(const vkattn_matrix_shape &shape, uint32_t subgroup_size, uint32_t subgroups,
                         uint32_t matrices) {
    const uint32_t row_subgroups = subgroups > 1 ? subgroups / 2 : 1;
    return {shape, subgroup_size, row_subgroups, subgroups / row_subgroups, matrices, matrices, kStep};
}

// Rows of matrices that would be empty are left out. Then the time goes into reading the weight: more of it is on its way at
// a time, and more workgroups share it.
void drop_empty_rows(LinearMatrixTile &tile, uint32_t rows) {
    while (tile.row_subgroups > 1 && rows_of(tile) / 2 >= rows) {
        tile.row_subgroups /= 2;
        tile.output_subgroups *= 2;
    }
    while (tile.row_matrices > 1 && rows_of(tile) / 2 >= rows) tile.row_matrices /= 2;
    if (rows_of(tile) > kMostRowsOfReading) return;
    tile.output_matrices = 1;
    tile.step = kStepOfFewRows;
}

// Of a workgroup in subgroups of such a size.
uint32_t most_subgroups(const LinearTile &tuned, uint32_t subgroup_size, const DeviceCaps &caps) {
    const uint32_t wanted = tuned.subgroups == 0 ? kSubgroups : std::min(tuned.subgroups, kMostSubgroups);
    const uint32_t told = caps.max_workgroup_subgroups == 0 ? wanted : caps.max_workgroup_subgroups;
    return std::min({wanted, told, caps.max_workgroup_invocations / subgroup_size});
}

// An invocation of Intel's has 64 registers, which several matrices' sums take.
bool has_room_for_loads(const LinearMatrixTile &tile, const DeviceCaps &caps) {
    return static_cast<GpuClass>(caps.traits.gpu_class) != GpuClass::kIntel ||
           tile.row_matrices * tile.output_matrices == 1;
}

CodePaths paths_of(const LinearProblem &problem) { return path_of(problem.input.type) | path_of(problem.weight.type); }

MatrixUse matrices_of(const LinearProblem &problem) {
    const vkattn_type type = problem.input.type;
    return {type == VKATTN_TYPE_F16 ? &shaders::linear_coopmat : &shaders::linear_coopmat_bf16, type,
            paths_of(problem)};
}

// What tuning found or the rule's, less where shared memory ends; the largest shape for which that suffices.
std::optional<LinearMatrixTile> linear_matrix_tile(const LinearProblem &problem, const DeviceCaps &caps) {
    const LinearTile &tuned = problem.tile;
    std::vector<uint32_t> indices = usable_shapes(caps, matrices_of(problem));
    const auto given = std::ranges::find(indices, tuned.matrix_shape - 1);
    if (given != indices.end()) std::rotate(indices.begin(), given, given + 1);
    const uint32_t rule = caps.traits.unroll_matrices != 0 ? 2 : 1;
    const uint32_t matrices = tuned.matrices == 0 ? rule : std::bit_floor(std::min(tuned.matrices, kMostMatrices));
    for (const uint32_t index : indices) {
        const vkattn_matrix_shape &shape = caps.matrix_shapes[index];
        if (shape.k > kStep) continue;
        const uint32_t size = matrix_subgroup_size(shape, caps);
        for (uint32_t subgroups = std::bit_floor(most_subgroups(tuned, size, caps)); subgroups > 0; subgroups /= 2) {
            LinearMatrixTile tile = tile_of(shape, size, subgroups, matrices);
            if (tuned.matrices == 0) drop_empty_rows(tile, problem.push.rows);
            if (shared_bytes(tile) <= caps.max_shared_memory_bytes) return tile;
        }
    }
    return std::nullopt;
}

// The matrix units take f16 or bf16, with weights of the same type.
bool has_matrices(const LinearProblem &problem, const DeviceCaps &caps) {
    const vkattn_type type = problem.input.type;
    const bool half = type == VKATTN_TYPE_F16 || type == VKATTN_TYPE_BF16;
    return half && problem.weight.type == type && std::string_view(kCoopmat.missing(caps)).empty() &&
           is_built(*matrices_of(problem).shader) && matrix_obstacle(caps, matrices_of(problem)).empty();
}

bool has_addresses(const LinearProblem &problem, const DeviceCaps &caps) {
    return is_built(shaders::linear_addresses) && !is_off(caps, shaders::linear_addresses, paths_of(problem)) &&
           caps.buffers_have_addresses != 0 && may_diverge(caps) && caps.traits.specialised_arrays != 0 &&
           !is_quantised(problem.input.type) && problem.push.in_features % kLinearBlock == 0 &&
           input_is_aligned(problem, kLinearBlock) && weight_is_aligned(problem, kLinearBlock);
}

// Each of the following: nothing where the shader does not serve.

std::optional<LinearChoice> choose_matrices(const LinearProblem &problem, const DeviceCaps &caps) {
    if (!has_matrices(problem, caps)) return std::nullopt;
    const std::optional<LinearMatrixTile> tile = linear_matrix_tile(problem, caps);
    if (!tile.has_value()) return std::nullopt;
    gpu::LinearConstants constants = constants_of(problem);
    constants.ALIGNED = aligned_factors(problem) | (problem.push.in_features % tile->step == 0 ? ALIGNED_STEPS : 0);
    constants.SUBGROUP_SIZE = tile->subgroup_size;
    constants.ROW_SUBGROUPS = tile->row_subgroups;
    constants.WORKGROUP_SIZE = tile->row_subgroups * tile->output_subgroups * tile->subgroup_size;
    constants.TILES = tile->output_matrices;
    constants.ROW_TILES = tile->row_matrices;
    constants.MATRIX_STEP = tile->step;
    constants.LOADS_AHEAD = has_room_for_loads(*tile, caps) ? 1 : 0;
    constants.MATRIX_M = tile->shape.m;
    constants.MATRIX_N = tile->shape.n;
    constants.MATRIX_K = tile->shape.k;
    return LinearChoice{LinearShader::kMatrices,
                        matrices_of(problem).shader,
                        constants,
                        grid(problem, outputs_of(*tile), rows_of(*tile)),
                        paths_of(problem),
                        "the matrix units take inputs and weights of the type"};
}

std::optional<LinearChoice> choose_addresses(const LinearProblem &problem, const DeviceCaps &caps) {
    if (!has_addresses(problem, caps)) return std::nullopt;
    const LinearTile &tuned = problem.tile;
    const uint32_t most_blocks =
        std::min(kAddressedBlocks, 1u << std::countr_zero(problem.push.in_features / kLinearBlock));
    gpu::LinearConstants constants = constants_of(problem);
    constants.WORKGROUP_SIZE = caps.subgroup_size;
    constants.ROWS = std::bit_floor(std::min(tuned.rows == 0 ? problem.push.rows : tuned.rows, kAddressedRows));
    constants.BLOCKS = tuned.blocks == 0 ? most_blocks : std::bit_floor(std::min(tuned.blocks, most_blocks));
    LinearChoice choice{LinearShader::kAddresses,
                        &shaders::linear_addresses,
                        constants,
                        grid(problem, caps.subgroup_size * LINEAR_ADDRESSES_OUTPUTS, constants.ROWS),
                        paths_of(problem),
                        "rows are read through device addresses, without shared memory"};
    std::swap(choice.groups[0], choice.groups[1]); // rows first, so that neighbours share weights
    return choice;
}

std::optional<LinearChoice> choose_vector(const LinearProblem &problem, const DeviceCaps &caps) {
    if (problem.push.rows > kMostVectorRows || is_off(caps, shaders::linear_vector, paths_of(problem)))
        return std::nullopt;
    gpu::LinearConstants constants = constants_of(problem);
    constants.ALIGNED = aligned_factors(problem);
    const uint32_t neighbours = tiles(problem.push.rows, LINEAR_VECTOR_ROWS);
    constants.ROWS = tiles(problem.push.rows, neighbours);
    return LinearChoice{LinearShader::kVector,
                        &shaders::linear_vector,
                        constants,
                        {tiles(problem.push.out_features, LINEAR_VECTOR_OUTPUTS) * neighbours, 1, problem.groups},
                        paths_of(problem),
                        "few rows, whose time goes into reading the weight"};
}

// Serves always, unless the self-test has ruled it out.
LinearChoice choose_tiles(const LinearProblem &problem, const DeviceCaps &caps) {
    if (const auto off = why_off(caps, shaders::linear.name, paths_of(problem)); !off.empty())
        fail(VKATTN_ERROR_UNSUPPORTED, "linear on ", caps.name, ": no shader serves: ", off);
    gpu::LinearConstants constants = constants_of(problem);
    constants.ALIGNED = aligned_factors(problem);
    return {LinearShader::kTiles, &shaders::linear,        constants, grid(problem, LINEAR_TILE, LINEAR_TILE),
            paths_of(problem),    "tiles in shared memory"};
}

// What tuning found, if it can still be followed.
std::optional<LinearChoice> tuned_choice(const LinearProblem &problem, const DeviceCaps &caps) {
    std::optional<LinearChoice> choice;
    switch (static_cast<LinearShader>(problem.tile.shader)) {
    case LinearShader::kMatrices:
        choice = choose_matrices(problem, caps);
        break;
    case LinearShader::kAddresses:
        choice = choose_addresses(problem, caps);
        break;
    case LinearShader::kVector:
        choice = choose_vector(problem, caps);
        break;
    case LinearShader::kTiles:
        if (!is_off(caps, shaders::linear, paths_of(problem))) choice = choose_tiles(problem, caps);
        break;
    default:
        break;
    }
    if (!choice.has_value()) return std::nullopt;
    choice->reason = "the fastest that tuning found for such layers";
    return choice;
}

LinearChoice ruled_choice(const LinearProblem &problem, const DeviceCaps &caps) {
    const uint32_t rows = problem.push.rows;
    std::optional<LinearChoice> choice;
    if (rows > kFewRows && caps.traits.matrix_units != 0) choice = choose_matrices(problem, caps);
    if (!choice.has_value() && rows <= caps.traits.most_addressed_linear_rows) choice = choose_addresses(problem, caps);
    if (!choice.has_value()) choice = choose_vector(problem, caps);
    return choice.has_value() ? *std::move(choice) : choose_tiles(problem, caps);
}

LinearChoice named(LinearChoice choice) {
    choice.reason = text(name_of(choice.shader), ": ", choice.reason);
    return choice;
}

} // namespace

LinearClass class_of(const LinearProblem &problem) {
    LinearClass layers{};
    layers.input_type = format_of(problem.input);
    layers.weight_type = format_of(problem.weight);
    layers.output_type = format_of(problem.output);
    layers.flags = aligned_factors(problem) | (in_pairs(problem) ? 4 : 0);
    layers.in_features = problem.push.in_features;
    layers.out_features = problem.push.out_features;
    layers.log2_rows = log2_up(problem.push.rows);
    layers.log2_groups = log2_up(problem.groups);
    return layers;
}

LinearChoice choose_linear(const LinearProblem &problem, const DeviceCaps &caps) {
    require_loops(caps, problem.push.in_features);
    if (std::optional<LinearChoice> tuned = tuned_choice(problem, caps)) return named(*std::move(tuned));
    LinearProblem untuned = problem;
    untuned.tile = {};
    return named(ruled_choice(untuned, caps));
}

std::string words(const LinearChoice &choice) {
    const gpu::LinearConstants &c = choice.constants;
    std::string tile = name_of(choice.shader);
    if (choice.shader == LinearShader::kAddresses)
        tile += text(", ", c.ROWS, c.ROWS == 1 ? " row, " : " rows, ", c.BLOCKS, c.BLOCKS == 1 ? " block" : " blocks");
    if (choice.shader == LinearShader::kMatrices)
        tile += text(", ", c.MATRIX_M, "x", c.MATRIX_N, "x", c.MATRIX_K, " matrices, ", c.TILES, " x ", c.ROW_TILES,
                     ", ", c.WORKGROUP_SIZE / c.SUBGROUP_SIZE, " subgroups");
    return tile;
}

} // namespace vkattn
