// linear_vector: few rows, whose time goes into reading the weight.
#include "runtime/kernels/linear.hpp"

#include "runtime/device/gpu_tiles.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/support/error.hpp"
#include "runtime/support/rounding.hpp"

#include <algorithm>
#include <bit>

namespace vkattn {
namespace {

// Serves instead of the tiled kernel, as neighbours that share the weights take a few rows each.
constexpr uint32_t kMostVectorRows = 4 * LINEAR_VECTOR_ROWS;

// Whether linear_vector loads input, weight and norm without a branch.
bool vector_is_aligned(const LinearProblem &problem, uint32_t aligned) {
    const uint32_t wanted = ALIGNED_INPUT | (is_quantised(problem.weight.type) ? 0 : ALIGNED_WEIGHT) |
                            (present(problem.norm_weight) ? ALIGNED_NORM : 0);
    return (aligned & wanted) == wanted;
}

// Eights of features, of quantised weights pairs of them, that a lane of linear_vector takes at a time.
uint32_t vector_blocks(const LinearProblem &problem) {
    return tiles(problem.push.in_features, (is_quantised(problem.weight.type) ? 2 : 1) * kLinearFeatures);
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
    if (present(problem.norm_weight) && problem.push.in_features % kLinearFeatures == 0 &&
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

constexpr const Shader *kVectorShaders[] = {&shaders::linear_vector, &shaders::linear_vector_quantised};

} // namespace

const LinearKernel kLinearVector = {.name = "linear_vector",
                                    .shaders = kVectorShaders,
                                    .merit = "few rows, whose time goes into reading the weight",
                                    .missing = nothing_missing,
                                    .answer = answer_of_vector,
                                    .describe = words_of_vector,
                                    .knobs = kVectorKnobs,
                                    .trial_rows = 1};

} // namespace vkattn
