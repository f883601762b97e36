// The kernels of linear layers that need nothing of a device, and how one of them all is chosen.
#include "runtime/kernels/linear.hpp"

#include "runtime/device/gpu_tiles.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/support/error.hpp"
#include "runtime/support/rounding.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <utility>

namespace vkattn {
namespace {

// linear_vector serves instead of the tiled kernel, as neighbours that share the weights take a few rows each.
constexpr uint32_t kMostVectorRows = 4 * LINEAR_VECTOR_ROWS;

constexpr uint32_t kFeatures = 8; // that the kernels load at a time, from rows that are aligned

static_assert(ACTIVATION_RELU == VKATTN_ACTIVATION_RELU && ACTIVATION_SOFTPLUS == VKATTN_ACTIVATION_SOFTPLUS);

// Two neighbouring output features share a word: even heads, and every token starts at an even element.
bool outputs_in_pairs(const LinearProblem &problem) {
    const gpu::LinearPush &push = problem.push;
    bool even = problem.output.offset % 2 == 0 && push.head_dim % 2 == 0 && push.output_strides[3] == 1;
    for (uint32_t i : {0u, 1u, 2u, 4u}) even = even && push.output_strides[i] % 2 == 0;
    return even;
}

// Fails where a driver that limits a shader's loop iterations allows too few. Every 32 input features take 9 to multiply, 36 to load
// unaligned rows and up to 11 in loops that a driver may unroll. linear_vector and the kernels of addresses need fewer.
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

uint32_t elements_of_vector(const vkattn_tensor &tensor) { return tensor.type == VKATTN_TYPE_F32 ? 4 : 8; } // 16 bytes

// Whether linear_vector loads input, weight and norm without a branch.
bool vector_is_aligned(const LinearProblem &problem, uint32_t aligned) {
    const uint32_t wanted = ALIGNED_INPUT | (is_quantised(problem.weight.type) ? 0 : ALIGNED_WEIGHT) |
                            (present(problem.norm_weight) ? ALIGNED_NORM : 0);
    return (aligned & wanted) == wanted;
}

// Eights of features, of quantised weights pairs of them, that a lane of linear_vector takes at a time.
uint32_t vector_blocks(const LinearProblem &problem) {
    return tiles(problem.push.in_features, (is_quantised(problem.weight.type) ? 2 : 1) * kFeatures);
}

// Of linear_vector: how many invocations share outputs, and how many outputs.
struct VectorTile {
    uint32_t lanes, outputs;
};
constexpr VectorTile kSmallestVectorTile{16, 1};
constexpr uint32_t kMoreLanes = 2 * kSmallestVectorTile.lanes, kMostLaneOutputs = 4;

enum VectorPlace : uint32_t { kLaneOutputsKnob, kLanesKnob };
constexpr uint32_t kLaneOutputsToTry[] = {1, 2, kMostLaneOutputs};
constexpr uint32_t kLanesToTry[] = {kSmallestVectorTile.lanes, kMoreLanes};
constexpr Knob kVectorKnobs[] = {{"outputs", kLaneOutputsToTry}, // of an invocation
                                 {"lanes", kLanesToTry}};        // that share them

Grid vector_grid(const LinearProblem &problem, const VectorTile &tile) {
    const uint32_t outputs = LINEAR_WORKGROUP_SIZE / tile.lanes * tile.outputs;
    return {tiles(problem.push.out_features, outputs) * tiles(problem.push.rows, LINEAR_VECTOR_ROWS), 1,
            problem.groups};
}

// The most outputs of an invocation, which share what it loads of the input, that leave a core enough workgroups: a row of f32 by q4_K
// weights of 4,096 to 14,336 features takes vega10 91.6 us with one, 68.3 with two or four, which is the memory's. Of f16 weights one
// row's is the memory's either way. Where there are few workgroups, each has two outputs: a row by 2,048 to 640 features takes 4.8 us
// in lanes of 16, 3.8 of 32 (modelled).
VectorTile vector_tile_of_rule(const LinearProblem &problem, const DeviceCaps &caps) {
    const bool one_row = problem.push.rows == 1, shares = !one_row || is_quantised(problem.weight.type);
    const struct {
        VectorTile tile;
        uint32_t workgroups_of_core;
    } choices[] = {{{16, 4}, 24}, {{32, 4}, 5}, {one_row ? VectorTile{16, 1} : VectorTile{32, 2}, 3}, {{32, 1}, 0}};
    for (const auto &[tile, fewest] : choices) {
        if (tile.outputs > 1 && !shares) continue;
        if (workgroup_count(vector_grid(problem, tile)) >= uint64_t{fewest} * cores_of(caps.traits)) return tile;
    }
    return kSmallestVectorTile;
}

VectorTile vector_tile(const LinearProblem &problem, uint32_t aligned, const DeviceCaps &caps) {
    const uint32_t outputs = problem.tile.knobs[kLaneOutputsKnob], lanes = problem.tile.knobs[kLanesKnob];
    if (!vector_is_aligned(problem, aligned)) return kSmallestVectorTile;
    VectorTile tile = linear_vector_blocks(caps) > 1 ? vector_tile_of_rule(problem, caps) : kSmallestVectorTile;
    if (outputs != 0) tile.outputs = std::bit_floor(std::min(outputs, kMostLaneOutputs));
    if (lanes != 0) tile.lanes = lanes < kMoreLanes ? kSmallestVectorTile.lanes : kMoreLanes;
    const bool has_work = vector_blocks(problem) > kSmallestVectorTile.lanes; // for more lanes
    const bool has_pair = tile.outputs > 1 || !problem.gated;                 // of gated outputs, which are four
    if (!has_work || !has_pair) tile.lanes = kSmallestVectorTile.lanes;
    return tile;
}

// Blocks of features of linear_vector, whose loads are under way together: half as many of several rows, one where rows are not
// aligned.
uint32_t blocks_at_a_time(const LinearProblem &problem, const gpu::LinearConstants &constants, const DeviceCaps &caps) {
    if (!vector_is_aligned(problem, constants.ALIGNED)) return 1;
    const uint32_t shares = (constants.ROWS > 1 ? 2 : 1) * constants.TILES;
    const uint32_t most = std::max(linear_vector_blocks(caps) / shares, 1u);
    const uint32_t blocks = tiles(vector_blocks(problem), constants.OUTPUT_LANES);
    return tiles(blocks, tiles(blocks, most)); // of turns that are about equally long
}

// Each lane weighs its part of the input anew for its outputs. Of quantised weights, whose products are bound by arithmetic, a
// dispatch that does it once costs less from so many numbers an output of a lane on: on Navi 31 some 2.3 us, as much as weighing for
// 2^24 of q4_K (modelled).
bool vector_normalises(const LinearProblem &problem, const VectorTile &tile) {
    constexpr uint64_t kMostNumbers = uint64_t{1} << 25;
    const uint64_t weighings = tiles(problem.push.out_features, tile.outputs) * uint64_t{problem.groups};
    return !is_quantised(problem.weight.type) || weighings * problem.push.in_features <= kMostNumbers;
}

LinearAnswer answer_of_vector(const LinearProblem &problem, const DeviceCaps &caps) {
    LinearAnswer answer{Rank::kFewRows};
    if (problem.push.rows > kMostVectorRows) {
        answer.obstacle = text(problem.push.rows, " rows, expected at most ", kMostVectorRows);
        return answer;
    }
    uint32_t aligned = aligned_factors(problem);
    if (present(problem.norm_weight) && problem.push.in_features % kFeatures == 0 &&
        problem.norm_weight.offset % elements_of_vector(problem.norm_weight) == 0)
        aligned |= ALIGNED_NORM;
    const VectorTile tile = vector_tile(problem, aligned, caps);
    const uint32_t neighbours = tiles(problem.push.rows, LINEAR_VECTOR_ROWS);
    answer.shape = {&variant_of(problem, shaders::linear_vector, shaders::linear_vector_quantised),
                    constants_of(problem), vector_grid(problem, tile), paths_of(problem)};
    answer.shape.normalises = vector_normalises(problem, tile);
    gpu::LinearConstants &constants = answer.shape.constants;
    constants.ALIGNED = aligned;
    constants.ROWS = tiles(problem.push.rows, neighbours);
    constants.TILES = tile.outputs;
    constants.OUTPUT_LANES = tile.lanes;
    constants.BLOCKS = blocks_at_a_time(problem, constants, caps);
    return answer;
}

std::string words_of_vector(const LinearShape &shape) {
    const gpu::LinearConstants &c = shape.constants;
    return text(", ", c.TILES, c.TILES == 1 ? " output of " : " outputs of ", c.OUTPUT_LANES, " lanes");
}

enum TilesPlace : uint32_t { kFeaturePartsKnob, kRowLinesKnob };
constexpr uint32_t kRowLinesToTry[] = {4, 8};
constexpr Knob kTilesKnobs[] = {{"parts", kPartsToTry},    // of the features
                                {"rows", kRowLinesToTry}}; // of an invocation

constexpr uint32_t kOutputLines = 4; // of an invocation: more have no registers on most GPUs

// How linear and linear_transposed divide their work: rows of an invocation, features in shared memory at a time, parts of all features.
struct TilesDivision {
    uint32_t rows, step, parts;
};

Grid grid_of(const LinearProblem &problem, const TilesDivision &tiles) {
    return grid(problem, kOutputLines * LINEAR_SIDE, tiles.rows * LINEAR_SIDE);
}

uint32_t parts_of(const LinearProblem &problem, const TilesDivision &tiles, uint32_t wanted, const DeviceCaps &caps) {
    const uint32_t bytes = (tiles.rows + kOutputLines) * LINEAR_SIDE * (tiles.step / 4 + 1) * 16;
    return feature_parts(problem, grid_of(problem, tiles), tiles.step, bytes, wanted, caps);
}

// Of cores each of whose SIMDs takes whole workgroups, the division with which the busiest SIMD is done soonest; one workgroup at a time
// would wait as long as two. An invocation of few rows loads more a product, and parts store each tile together: 512 rows of 576 features
// to 576 outputs take vega10 64.1 us in 4 rows and one part, 46.9 in two, 44.3 in four; 512 of 640 to 2,048 135 in 4 rows, 128 in 8
// (modelled).
TilesDivision division_by_simds(const LinearProblem &problem, uint32_t simds_of_core, const DeviceCaps &caps) {
    constexpr uint32_t kStep = 16; // leaves room in shared memory to more workgroups
    constexpr double kCostOfFewRows = 1.06, kCostOfParts = 1.03;
    TilesDivision best{};
    double least = 0;
    for (const uint32_t rows : kRowLinesToTry) {
        for (const uint32_t wanted : kPartsToTry) {
            TilesDivision tiles{rows, kStep, 1};
            tiles.parts = parts_of(problem, tiles, wanted, caps);
            const uint64_t workgroups = workgroup_count(grid_of(problem, tiles)) * tiles.parts;
            const uint64_t simds = uint64_t{simds_of_core} * std::max(cores_of(caps.traits), 1u);
            const auto turns = static_cast<double>(std::max<uint64_t>(divide_up(workgroups, simds), 2));
            const double cost = turns * rows / tiles.parts * (rows == 4 ? kCostOfFewRows : 1) *
                                std::pow(kCostOfParts, std::bit_width(tiles.parts) - 1);
            if (least != 0 && cost >= least) continue;
            least = cost;
            best = tiles;
        }
    }
    return best;
}

TilesDivision division_of(const LinearProblem &problem, const DeviceCaps &caps) {
    constexpr uint32_t kStep = 32, kStepOfParts = 16;
    const uint32_t wanted_parts = problem.tile.knobs[kFeaturePartsKnob],
                   wanted_rows = problem.tile.knobs[kRowLinesKnob];
    const uint32_t simds = problem.transposed != 0 ? 0 : linear_simds_of_core(caps);
    TilesDivision tiles{4, kStepOfParts, 1};
    if (simds != 0) tiles = division_by_simds(problem, simds, caps);
    if (wanted_rows != 0) tiles.rows = wanted_rows <= 4 ? 4 : 8;
    if (simds == 0 || wanted_rows != 0 || wanted_parts != 0) tiles.parts = parts_of(problem, tiles, wanted_parts, caps);
    if (simds == 0 && tiles.parts == 1) tiles.step = kStep;
    return tiles;
}

LinearAnswer answer_of_tiles(const LinearProblem &problem, const DeviceCaps &caps) {
    LinearAnswer answer{Rank::kTiles};
    const bool transposed = problem.transposed != 0;
    const Shader &floats = transposed ? shaders::linear_transposed : shaders::linear;
    const Shader &quantised = transposed ? shaders::linear_transposed_quantised : shaders::linear_quantised;
    const TilesDivision tiles = division_of(problem, caps);
    answer.shape = {&variant_of(problem, floats, quantised), constants_of(problem), grid_of(problem, tiles),
                    paths_of(problem)};
    gpu::LinearConstants &constants = answer.shape.constants;
    constants.ALIGNED = aligned_factors(problem);
    if (!transposed && problem.push.in_features % (tiles.step * tiles.parts) == 0) constants.ALIGNED |= ALIGNED_STEPS;
    constants.TILES = kOutputLines;
    constants.ROW_TILES = tiles.rows;
    constants.MATRIX_STEP = tiles.step;
    constants.WORKGROUP_SIZE = tiles.parts * LINEAR_WORKGROUP_SIZE;
    return answer;
}

std::string describe_tiles(const LinearShape &shape) {
    return text(", ", shape.constants.ROW_TILES, " rows of an invocation", words_of_parts(shape));
}

constexpr const Shader *kVectorShaders[] = {&shaders::linear_vector, &shaders::linear_vector_quantised};
constexpr const Shader *kTilesShaders[] = {&shaders::linear, &shaders::linear_quantised};
constexpr const Shader *kTransposedShaders[] = {&shaders::linear_transposed, &shaders::linear_transposed_quantised};

constexpr const LinearKernel *kKernels[] = {
    &kLinearCoopmat, &kLinearAddresses, &kLinearVector,     &kLinearTiles,
    &kLinearDots,    &kLinearUniform,   &kLinearTransposed, &kLinearTransposedCoopmat};

LinearAnswer ask(const LinearKernel &kernel, const LinearProblem &given, const DeviceCaps &caps) {
    if (kernel.transposes != (given.transposed != 0))
        return {Rank::kByTuningAlone, "takes other layouts of the factors"};
    if (const char *missing = kernel.missing(caps); *missing != '\0') return {Rank::kByTuningAlone, missing};
    LinearProblem problem = given;
    if (problem.tile.kernel != number_of(kernel)) problem.tile = {};
    LinearAnswer answer = kernel.answer(problem, caps);
    if (answer.obstacle.empty() && present(problem.norm_weight) && !answer.shape.normalises)
        answer.obstacle = "does not normalise such an input";
    if (answer.obstacle.empty()) answer.obstacle = answer.shape.shader->code.why_empty();
    if (answer.obstacle.empty())
        answer.obstacle = why_off(caps, shader_name(*answer.shape.shader, answer.shape.constants), answer.shape.paths);
    return answer;
}

LinearChoice choice_of(const LinearKernel &kernel, const LinearAnswer &answer, const char *why) {
    return {answer.shape, &kernel, text(kernel.name, ": ", why)};
}

// What tuning found, if it can still be followed.
std::optional<LinearChoice> tuned_choice(const LinearProblem &problem, const DeviceCaps &caps) {
    if (problem.tile.kernel == 0 || problem.tile.kernel > std::size(kKernels)) return std::nullopt;
    const LinearKernel &kernel = *kKernels[problem.tile.kernel - 1];
    LinearAnswer answer = ask(kernel, problem, caps);
    if (!answer.obstacle.empty()) return std::nullopt;
    return choice_of(kernel, answer, "the fastest that tuning found for such layers");
}

} // namespace

std::string words_of_parts(const LinearShape &shape) {
    const uint32_t parts = shape.constants.WORKGROUP_SIZE / LINEAR_WORKGROUP_SIZE;
    return parts == 1 ? "" : text(", ", parts, " parts of the features");
}

uint32_t feature_parts(const LinearProblem &problem, const Grid &groups, uint32_t step, uint32_t bytes, uint32_t wanted,
                       const DeviceCaps &caps) {
    constexpr uint32_t kMost = 4, kFewestSteps = 2;
    const uint32_t steps = tiles(problem.push.in_features, step);
    uint32_t parts = 1;
    const auto may_double = [&] {
        const uint32_t more = 2 * parts;
        return more <= kMost && more * kFewestSteps <= steps && more * bytes <= caps.max_shared_memory_bytes &&
               more * LINEAR_WORKGROUP_SIZE <= caps.max_workgroup_invocations;
    };
    const auto wants_more = [&] {
        return wanted != 0 ? parts < wanted : workgroup_count(groups) * parts <= uint64_t{4} * cores_of(caps.traits);
    };
    while (may_double() && wants_more()) parts *= 2;
    return parts;
}

const Shader &variant_of(const LinearProblem &problem, const Shader &floats, const Shader &quantised) {
    return is_quantised(problem.weight.type) ? quantised : floats;
}

bool input_is_aligned(const LinearProblem &problem, uint32_t elements) {
    const uint32_t(&strides)[3] = problem.push.input_strides;
    return rows_are_aligned(problem.input, {strides[0], strides[1], strides[2]}, elements);
}

bool weight_is_aligned(const LinearProblem &problem, uint32_t elements) {
    const uint32_t(&strides)[3] = problem.push.weight_strides;
    return strides[1] == 1 && rows_are_aligned(problem.weight, {strides[0], strides[2]}, elements);
}

namespace {

// The same of factors whose outputs, or rows, lie beside each other.
uint32_t aligned_transposed(const LinearProblem &problem) {
    const gpu::LinearPush &push = problem.push;
    const auto are_aligned = [](const vkattn_tensor &factor, const uint32_t(&strides)[3], uint32_t lines) {
        return lines % kFeatures == 0 && rows_are_aligned(factor, {strides[0], strides[1]}, elements_of_vector(factor));
    };
    const bool input =
        (problem.transposed & TRANSPOSED_INPUT) != 0
            ? are_aligned(problem.input, push.input_strides, push.rows)
            : push.in_features % kFeatures == 0 && input_is_aligned(problem, elements_of_vector(problem.input));
    const bool weight = are_aligned(problem.weight, push.weight_strides, push.out_features);
    return (input ? ALIGNED_INPUT : 0) | (weight ? ALIGNED_WEIGHT : 0);
}

} // namespace

uint32_t aligned_factors(const LinearProblem &problem) {
    if (problem.transposed != 0) return aligned_transposed(problem);
    if (problem.push.in_features % kFeatures != 0) return 0;
    const bool input = input_is_aligned(problem, elements_of_vector(problem.input));
    const bool weight = weight_is_aligned(problem, elements_of_vector(problem.weight));
    return (input ? ALIGNED_INPUT : 0) | (weight ? ALIGNED_WEIGHT : 0);
}

gpu::LinearConstants constants_of(const LinearProblem &problem) {
    gpu::LinearConstants constants;
#define VKATTN_FORMAT(OPERATOR, binding, name, NAME, ROLE, Access, Form, dims)                                         \
    constants.NAME##_FORMAT = format_of(problem.name);
    LINEAR_TENSORS(VKATTN_FORMAT)
#undef VKATTN_FORMAT
    constants.ACTIVATION = static_cast<uint32_t>(problem.activation);
    constants.OUTPUT_PAIRS = outputs_in_pairs(problem);
    constants.GATED = problem.gated ? 1 : 0;
    constants.TRANSPOSED = problem.transposed;
    if (present(problem.norm_weight)) constants.NORM_EPSILON = std::bit_cast<uint32_t>(problem.norm_epsilon);
    return constants;
}

Grid grid(const LinearProblem &problem, uint32_t outputs, uint32_t rows) {
    return {tiles(problem.push.out_features, outputs), tiles(problem.push.rows, rows), problem.groups};
}

CodePaths paths_of(const LinearProblem &problem) { return path_of(problem.input.type) | path_of(problem.weight.type); }

const LinearKernel kLinearVector = {.name = "linear_vector",
                                    .shaders = kVectorShaders,
                                    .merit = "few rows, whose time goes into reading the weight",
                                    .missing = nothing_missing,
                                    .answer = answer_of_vector,
                                    .describe = words_of_vector,
                                    .knobs = kVectorKnobs,
                                    .trial_rows = 1};

const LinearKernel kLinearTiles = {.name = "linear",
                                   .shaders = kTilesShaders,
                                   .merit = "tiles in shared memory",
                                   .missing = nothing_missing,
                                   .answer = answer_of_tiles,
                                   .describe = describe_tiles,
                                   .knobs = kTilesKnobs};

const LinearKernel kLinearTransposed = {.name = "linear_transposed",
                                        .shaders = kTransposedShaders,
                                        .merit = "tiles in shared memory, transposed on their way",
                                        .missing = nothing_missing,
                                        .answer = answer_of_tiles,
                                        .describe = describe_tiles,
                                        .knobs = kTilesKnobs,
                                        .trial_rows = 24,
                                        .transposes = true};

std::span<const LinearKernel *const> linear_kernels() { return kKernels; }

uint32_t number_of(const LinearKernel &kernel) {
    return 1 + static_cast<uint32_t>(std::ranges::find(kKernels, &kernel) - std::begin(kKernels));
}

LinearClass class_of(const LinearProblem &problem) {
    LinearClass layers{};
    layers.input_type = format_of(problem.input);
    layers.weight_type = format_of(problem.weight);
    layers.output_type = format_of(problem.output);
    layers.flags = aligned_factors(problem) | (outputs_in_pairs(problem) ? 4 : 0) | (problem.gated ? 8 : 0) |
                   (present(problem.norm_weight) ? 16 : 0) | problem.transposed << 5;
    layers.in_features = problem.push.in_features;
    layers.out_features = problem.push.out_features;
    layers.log2_rows = log2_up(problem.push.rows);
    layers.log2_groups = log2_up(problem.groups);
    return layers;
}

LinearChoice choose_linear(const LinearProblem &problem, const DeviceCaps &caps) {
    require_loops(caps, problem.push.in_features);
    if (std::optional<LinearChoice> tuned = tuned_choice(problem, caps)) return *std::move(tuned);
    LinearProblem untuned = problem;
    untuned.tile = {};
    const LinearKernel *best = nullptr;
    LinearAnswer answer{Rank::kByTuningAlone};
    std::string off;
    for (const LinearKernel *kernel : kKernels) {
        LinearAnswer each = ask(*kernel, untuned, caps);
        if (kernel == &kLinearTiles || (kernel == &kLinearTransposed && problem.transposed != 0))
            off = each.obstacle; // which serve whatever the others do not
        if (!each.obstacle.empty() || each.rank <= answer.rank) continue;
        best = kernel;
        answer = std::move(each);
    }
    if (best == nullptr) fail(VKATTN_ERROR_UNSUPPORTED, "linear on ", caps.name, ": no shader serves: ", off);
    return choice_of(*best, answer, best->merit);
}

std::string words(const LinearChoice &choice) { return choice.kernel->name + choice.kernel->describe(choice); }

} // namespace vkattn
