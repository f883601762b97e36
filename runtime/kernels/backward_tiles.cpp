// Attention's gradients in tiles in shared memory, as shaders/kernels/backward/tiles.glsl has them: of any problem.
#include "runtime/device/gpu_tiles.hpp"
#include "runtime/kernels/backward.hpp"
#include "runtime/kernels/parameters.hpp"
#include "runtime/kernels/split_keys.hpp"
#include "runtime/support/error.hpp"
#include "runtime/support/rounding.hpp"

#include <algorithm>
#include <bit>

namespace vkattn {
namespace {

constexpr uint32_t kWorkgroup = 128, kColumns = 16, kMostRows = 4, kMostKeys = 4, kChunk = 32; // dims
constexpr uint32_t kMostSums = 16; // blocks of four numbers, of an invocation: registers

// The knobs, by their places.
enum Place : uint32_t {
    kBackwardRowsKnob,
    kBackwardKeysKnob,
    kBackwardDimsKnob,
    kBackwardWorkgroupKnob,
    kBackwardAheadKnob
};
constexpr uint32_t kFewToTry[] = {1, 2, 4}, kDimsToTry[] = {16, 32, 64}, kWorkgroupsToTry[] = {64, 128, 256};
constexpr uint32_t kAheadToTry[] = {1, 2};
constexpr Knob kKnobs[] = {{"rows", kFewToTry}, // of an invocation, or own keys
                           {"keys", kFewToTry}, // that pass by an invocation, or rows
                           {"dims", kDimsToTry},
                           {"workgroup", kWorkgroupsToTry},
                           {"ahead", kAheadToTry}}; // 1: loads are under way together, 2: one after the other

struct BackwardTile {
    uint32_t workgroup, columns;
    uint32_t rows, keys; // of an invocation: its own, and of those that pass by
    uint32_t dims_of_chunk, keys_of_chunk;
    bool reads_ahead; // see GradientsLayout

    uint32_t own() const { return workgroup / columns * rows; }
    uint32_t passing() const { return columns * keys; }
};

uint32_t blocks_of(uint32_t dims, const BackwardTile &tile) { return tiles(tiles(dims, 4), tile.columns); }

uint32_t sums_of_row(const AttentionProblem &problem, const BackwardTile &tile, BackwardSums sums) {
    if (sums == BackwardSums::kMask) return 0;
    const uint32_t of_first = blocks_of(problem.head_dim, tile), of_second = blocks_of(problem.v_head_dim, tile);
    return sums == BackwardSums::kQueries ? of_first : of_first + of_second;
}

// Elements of a passing one whose vectors are summed.
uint64_t sum_pitch(const AttentionProblem &problem, const BackwardTile &tile) {
    return blocks_of(std::max(problem.head_dim, problem.v_head_dim), tile) * uint64_t{tile.columns} + 1;
}

uint64_t shared_bytes(const AttentionProblem &problem, const BackwardTile &tile) {
    constexpr uint64_t kElement = 16, kNumbers = 8; // of a block; of a row
    const uint64_t pitch = tile.dims_of_chunk / 4 + 1, own = tile.own(), passing = tile.passing();
    const uint64_t numbers = passing + (tile.reads_ahead ? 2 : 0); // of an own one
    return kElement * (own * pitch + std::max(passing * pitch, tile.keys_of_chunk * sum_pitch(problem, tile))) +
           2 * sizeof(float) * own * numbers + kNumbers * std::max(own, passing) + sizeof(uint32_t) * (1 + passing);
}

// As many as fit where the products' tile lies.
uint32_t keys_of_chunk(const AttentionProblem &problem, const BackwardTile &tile) {
    const uint64_t elements = tile.passing() * uint64_t{tile.dims_of_chunk / 4 + 1};
    return static_cast<uint32_t>(std::clamp(std::bit_floor(std::max<uint64_t>(elements / sum_pitch(problem, tile), 1)),
                                            uint64_t{1}, uint64_t{tile.passing()}));
}

// The power of two that tuning wants, of those that shaders can have, or the rule's.
uint32_t wanted(const KernelTile &tuned, Place place, uint32_t least, uint32_t most, uint32_t of_rule) {
    return tuned.knobs[place] == 0 ? of_rule : std::bit_floor(std::clamp(tuned.knobs[place], least, most));
}

bool reads_ahead(const DeviceCaps &caps, const KernelTile &tuned) {
    if (caps.device_type == VK_PHYSICAL_DEVICE_TYPE_CPU)
        return false; // whatever tuning found elsewhere: llvmpipe would crash
    const uint32_t wanted = tuned.knobs[kBackwardAheadKnob];
    return wanted == 0 ? gradients_layout(caps).reads_ahead : wanted == 1;
}

BackwardTile backward_tile(const AttentionProblem &problem, const DeviceCaps &caps, BackwardSums sums,
                           const KernelTile &tuned) {
    BackwardTile tile{.workgroup = std::min(wanted(tuned, kBackwardWorkgroupKnob, 64, 256, kWorkgroup),
                                            std::bit_floor(caps.max_workgroup_invocations)),
                      .columns = kColumns,
                      .rows = wanted(tuned, kBackwardRowsKnob, 1, kMostRows, kMostRows),
                      .keys = wanted(tuned, kBackwardKeysKnob, 1, kMostKeys, kMostKeys),
                      .dims_of_chunk = wanted(tuned, kBackwardDimsKnob, 8, 128, kChunk),
                      .keys_of_chunk = 1,
                      .reads_ahead = reads_ahead(caps, tuned)};
    // beside the keys' loads of 16 bits and both sums of large heads, whose code takes more registers
    const bool large = sums == BackwardSums::kKeys && problem.head_dim + problem.v_head_dim > 128;
    const uint32_t of_rule = large ? gradients_layout(caps).sums_of_two : kMostSums;
    const uint32_t most = tuned.knobs[kBackwardRowsKnob] == 0 ? of_rule : 2 * kMostSums;
    while (tile.rows > 1 && tile.rows * sums_of_row(problem, tile, sums) > most) tile.rows /= 2;
    const auto fits = [&] {
        tile.keys_of_chunk = keys_of_chunk(problem, tile);
        return shared_bytes(problem, tile) <= caps.max_shared_memory_bytes;
    };
    while (!fits() && tile.keys > 1) tile.keys /= 2;
    while (!fits() && tile.rows > 1) tile.rows /= 2;
    while (!fits() && tile.dims_of_chunk > kChunk) tile.dims_of_chunk /= 2;
    return tile;
}

BackwardShape shape_of(const AttentionProblem &problem, const DeviceCaps &caps, BackwardSums sums,
                       const KernelTile &tuned, const Shader &shader) {
    const BackwardTile tile = backward_tile(problem, caps, sums, tuned);
    gpu::AttentionConstants constants = constants_of(problem, tile.workgroup);
    constants.COLUMNS = tile.columns;
    constants.ROWS = tile.rows;
    constants.KEYS_OF_INVOCATION = tile.keys;
    constants.DIMS_OF_CHUNK = tile.dims_of_chunk;
    constants.KEYS_OF_CHUNK = tile.keys_of_chunk;
    constants.READS_AHEAD = tile.reads_ahead ? 1 : 0;
    return {&shader, constants, tile.own(), tile.passing()};
}

BackwardAnswer answer(const BackwardProblem &problem, const DeviceCaps &caps) {
    const Shader &shader = problem.sums == BackwardSums::kQueries ? shaders::backward_queries : shaders::backward_keys;
    return {Rank::kTiles, "", shape_of(problem.attention, caps, problem.sums, problem.tile, shader)};
}

std::string describe(const BackwardShape &shape) {
    const gpu::AttentionConstants &c = shape.constants;
    return text(c.ROWS, " x ", c.KEYS_OF_INVOCATION, " of an invocation, workgroups of ", c.WORKGROUP_SIZE,
                ", chunks of ", c.DIMS_OF_CHUNK, " dims", c.READS_AHEAD != 0 ? ", loaded ahead" : "");
}

constexpr const Shader *kShaders[] = {&shaders::backward_queries, &shaders::backward_keys};

} // namespace

BackwardShape mask_shape(const AttentionProblem &problem, const DeviceCaps &caps) {
    return shape_of(problem, caps, BackwardSums::kMask, {}, shaders::backward_mask);
}

uint32_t passing_of_dispatch(const AttentionProblem &problem, const DeviceCaps &caps, const BackwardShape &shape,
                             uint64_t all, uint32_t iterations_of_tile) {
    if (caps.max_loop_iterations == 0) return static_cast<uint32_t>(all);
    if (present(problem.block_mask)) return keys_of_dispatch(problem, caps, shape.passing);
    return std::max(caps.max_loop_iterations / iterations_of_tile, 1u) * shape.passing;
}

const BackwardKernel kBackwardTiles = {.shaders = kShaders, .answer = answer, .describe = describe, .knobs = kKnobs};

} // namespace vkattn
