// linear_addresses and linear_uniform: rows through device addresses, without shared memory.
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
constexpr uint32_t kUniformRows = 8;               // of a workgroup of linear_uniform
// The most outputs of which each workgroup normalises its rows: for more a dispatch that does it once costs less.
constexpr uint32_t kMostNormalisedOutputs = 4096;
constexpr uint32_t kFewestFeatures = 128;                          // of several turns of its loop
constexpr uint32_t kUniformLanes = QUANTISED_BLOCK / kLinearBlock; // the most of its subgroups

enum Place : uint32_t { kRowsKnob, kBlocksKnob };
constexpr uint32_t kRowsToTry[] = {1, 2, 4, 8}, kBlocksToTry[] = {1, 2, 4};
constexpr Knob kKnobs[] = {{"rows", kRowsToTry}, {"blocks", kBlocksToTry}}; // blocks: of four features

const char *missing(const DeviceCaps &caps) {
    if (const char *arrays = obstacle_of_arrays(caps); *arrays != '\0') return arrays;
    if (!is_built(shaders::linear_addresses)) return shaders::linear_addresses.code.why_empty();
    if (caps.buffers_have_addresses == 0) return "buffers have no device addresses";
    return may_diverge(caps) ? "" : "its subgroups are too wide for addresses that differ (widest_divergent_addresses)";
}

const char *missing_of_uniform(const DeviceCaps &caps) {
    if (const char *addresses = missing(caps); *addresses != '\0') return addresses;
    if (caps.traits.scalar_address_loads == 0) return "loads that invocations share are no scalars";
    if (caps.storage_16bit == 0 || !caps.features.storage_16bit) return "no 16-bit storage";
    constexpr uint32_t kNeeded = VK_SUBGROUP_FEATURE_BASIC_BIT | VK_SUBGROUP_FEATURE_SHUFFLE_BIT;
    if (!has_subgroup_operations(caps, kNeeded)) return "no subgroup shuffles";
    const uint32_t lanes = caps.subgroup_size;
    const bool fits = std::has_single_bit(lanes) && lanes <= kUniformLanes && has_subgroups_of(caps, lanes);
    return fits ? "" : "its subgroups are not of one size of at most eight invocations";
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

// Elements of a quantised type that fill whole words: of a block, or of two.
uint32_t elements_of_words(const vkattn_tensor &weight) {
    const auto [elements, bytes] = storage_block(weight.type);
    return bytes % sizeof(uint32_t) == 0 ? elements : 2 * elements;
}

// Whether each of such steps begins at a whole word of the row.
uint32_t aligned_steps(const LinearProblem &problem, uint32_t blocks) {
    const uint32_t elements = storage_block(problem.weight.type).elements;
    const uint32_t in_words = elements_of_words(problem.weight);
    const bool steps = elements > QUANTISED_BLOCK ? in_words == elements : blocks * kLinearBlock % in_words == 0;
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

// A turn of linear_uniform's loop: as many whole blocks as its input fits a CPU's first cache. All turns begin at whole words,
// or none need.
void take_turns(const LinearProblem &problem, gpu::LinearConstants &constants) {
    constexpr uint32_t kMostFeatures = 1536, kMostInputs = 5120; // features of a row, of all rows
    const uint32_t features = problem.push.in_features, in_words = elements_of_words(problem.weight);
    const bool aligned = features % in_words == 0 && weight_is_aligned(problem, in_words);
    const uint32_t unit = aligned ? in_words : storage_block(problem.weight.type).elements;
    uint32_t turns = tiles(features, std::min(kMostFeatures, kMostInputs / constants.ROWS));
    while (features / unit % turns != 0) ++turns; // all are equally long
    constants.ALIGNED = aligned ? ALIGNED_WEIGHT : 0;
    constants.BLOCKS = features / turns / (kLinearBlock * constants.SUBGROUP_SIZE);
}

LinearAnswer answer_of_uniform(const LinearProblem &problem, const DeviceCaps &caps) {
    LinearAnswer answer{Rank::kByTuningAlone};
    if (!is_quantised(problem.weight.type)) {
        answer.obstacle = "weights are not quantised";
        return answer;
    }
    if (!in_blocks(problem)) {
        answer.obstacle = "rows are not in whole blocks of four features";
        return answer;
    }
    gpu::LinearConstants constants = constants_of(problem);
    constants.WORKGROUP_SIZE = constants.SUBGROUP_SIZE = caps.subgroup_size;
    constants.ROWS = std::bit_floor(std::min(problem.push.rows, kUniformRows));
    take_turns(problem, constants);
    const uint32_t features =
        kLinearBlock * constants.SUBGROUP_SIZE * constants.BLOCKS; // of a turn, after which lanes add up
    const bool pays = features == problem.push.in_features || features >= kFewestFeatures;
    if (pays && problem.push.rows <= caps.traits.most_addressed_linear_rows) answer.rank = Rank::kScalars;
    Grid groups = grid(problem, LINEAR_UNIFORM_OUTPUTS, constants.ROWS);
    std::swap(groups[0], groups[1]); // rows first, so that neighbours share weights
    answer.shape = {&shaders::linear_uniform, constants, groups, paths_of(problem), true};
    const bool aligned_norm = !present(problem.norm_weight) || problem.norm_weight.offset % kLinearBlock == 0;
    answer.shape.normalises =
        problem.push.rows <= kUniformRows && problem.push.out_features <= kMostNormalisedOutputs && aligned_norm;
    return answer;
}

std::string describe(const LinearShape &shape) {
    const gpu::LinearConstants &c = shape.constants;
    return text(", ", c.ROWS, c.ROWS == 1 ? " row, " : " rows, ", c.BLOCKS, c.BLOCKS == 1 ? " block" : " blocks");
}

constexpr const Shader *kUniformShaders[] = {&shaders::linear_uniform};
constexpr const Shader *kShaders[] = {&shaders::linear_addresses, &shaders::linear_addresses_quantised};

} // namespace

const LinearKernel kLinearAddresses = {.name = "linear_addresses",
                                       .shaders = kShaders,
                                       .merit = "rows are read through device addresses, without shared memory",
                                       .missing = missing,
                                       .answer = answer,
                                       .describe = describe,
                                       .knobs = kKnobs};

const LinearKernel kLinearUniform = {.name = "linear_uniform",
                                     .shaders = kUniformShaders,
                                     .merit = "weights are read at addresses that invocations share: a scalar each",
                                     .missing = missing_of_uniform,
                                     .answer = answer_of_uniform,
                                     .describe = describe,
                                     .trial_rows = 3};

} // namespace vkattn
