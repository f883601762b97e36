// linear_addresses: rows through device addresses, without shared memory.
#include "runtime/kernels/linear.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/support/error.hpp"
#include "shaders/interface/stored_types.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace vkattn {
namespace {

constexpr uint32_t kMostRows = 8, kMostBlocks = 4; // of an invocation: rows, and blocks of a row at a time

enum Place : uint32_t { kRowsKnob, kBlocksKnob };
constexpr uint32_t kRowsToTry[] = {1, 2, 4, 8}, kBlocksToTry[] = {1, 2, 4};
constexpr Knob kKnobs[] = {{"rows", kRowsToTry}, {"blocks", kBlocksToTry}}; // blocks: of four features

const char *missing(const DeviceCaps &caps) {
    if (const char *arrays = obstacle_of_arrays(caps); *arrays != '\0') return arrays;
    if (!is_built(shaders::linear_addresses)) return "built without kernels for CPU drivers";
    if (caps.buffers_have_addresses == 0) return "buffers have no device addresses";
    return may_diverge(caps) ? "" : "its subgroups are too wide for addresses that differ (widest_divergent_addresses)";
}

bool in_blocks(const LinearProblem &problem) {
    return is_float(problem.input.type) && problem.push.in_features % kLinearBlock == 0 &&
           input_is_aligned(problem, kLinearBlock) &&
           (is_quantised(problem.weight.type) || weight_is_aligned(problem, kLinearBlock));
}

// Blocks of a quantised weight's row at a time: two of the type's, where they fill words that one does not.
uint32_t quantised_blocks(const LinearProblem &problem) {
    constexpr uint32_t kBlocks = QUANTISED_BLOCK / kLinearBlock;
    return problem.push.in_features % (2 * QUANTISED_BLOCK) == 0 ? 2 * kBlocks : kBlocks;
}

// Whether each of such steps begins at a whole word of the row.
uint32_t aligned_steps(const LinearProblem &problem, uint32_t blocks) {
    const auto [elements, bytes] = storage_block(problem.weight.type);
    const uint32_t in_words = bytes % sizeof(uint32_t) == 0 ? elements : 2 * elements;
    const bool steps =
        elements > QUANTISED_BLOCK ? bytes % sizeof(uint32_t) == 0 : blocks * kLinearBlock % in_words == 0;
    return steps && weight_is_aligned(problem, in_words) ? ALIGNED_WEIGHT : 0;
}

LinearAnswer answer(const LinearProblem &problem, const DeviceCaps &caps) {
    const bool pays = problem.push.rows <= caps.traits.most_addressed_linear_rows;
    LinearAnswer answer{pays ? Rank::kAddresses : Rank::kByTuningAlone};
    if (!in_blocks(problem)) {
        answer.obstacle = "rows are not in whole blocks of four features";
        return answer;
    }
    const uint32_t rows = problem.tile.knobs[kRowsKnob], blocks = problem.tile.knobs[kBlocksKnob];
    const uint32_t most_blocks = std::min(kMostBlocks, 1u << std::countr_zero(problem.push.in_features / kLinearBlock));
    gpu::LinearConstants constants = constants_of(problem);
    constants.WORKGROUP_SIZE = caps.subgroup_size;
    constants.ROWS = std::bit_floor(std::min(rows == 0 ? problem.push.rows : rows, kMostRows));
    constants.BLOCKS = blocks == 0 ? most_blocks : std::bit_floor(std::min(blocks, most_blocks));
    if (is_quantised(problem.weight.type)) {
        constants.BLOCKS = quantised_blocks(problem);
        constants.ALIGNED = aligned_steps(problem, constants.BLOCKS);
    }
    Grid groups = grid(problem, caps.subgroup_size * LINEAR_ADDRESSES_OUTPUTS, constants.ROWS);
    std::swap(groups[0], groups[1]); // rows first, so that neighbours share weights
    answer.shape = {&variant_of(problem, shaders::linear_addresses, shaders::linear_addresses_quantised), constants,
                    groups, paths_of(problem), true};
    return answer;
}

std::string describe(const LinearShape &shape) {
    const gpu::LinearConstants &c = shape.constants;
    return text(", ", c.ROWS, c.ROWS == 1 ? " row, " : " rows, ", c.BLOCKS, c.BLOCKS == 1 ? " block" : " blocks");
}

constexpr const Shader *kShaders[] = {&shaders::linear_addresses, &shaders::linear_addresses_quantised};

} // namespace

const LinearKernel kLinearAddresses = {.name = "linear_addresses",
                                       .shaders = kShaders,
                                       .merit = "rows are read through device addresses, without shared memory",
                                       .missing = missing,
                                       .answer = answer,
                                       .describe = describe,
                                       .knobs = kKnobs};

} // namespace vkattn
