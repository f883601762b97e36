#include "runtime/kernels/decode_tile.hpp"

#include "runtime/kernels/flash.hpp"
#include "runtime/kernels/halves.hpp"
#include "runtime/kernels/parameters.hpp"

#include <algorithm>
#include <bit>

namespace vkattn {
namespace {

constexpr uint32_t kWorkgroup = 128;
constexpr uint32_t kVector = 8; // dims; what an invocation reads at a time

// What a kind of GPU likes best: found by what Mesa's compilers make of the shader (scripts/gpu-lab search; its evidence is
// bench/results/gpu-lab/tiles).
struct Liking {
    bool subgroups;           // sums go through them
    uint32_t keys_of_one_row; // of a group at a time, where K and V are read as 16-bit values
    uint32_t keys_of_rows;    // the same of more rows
    uint32_t keys_of_others;  // of other types, which take more registers
    bool stages_halves;       // queries in shared memory, where they are 16-bit values, too; others always are
    uint32_t registers = 96;  // numbers that an invocation holds, at most
    uint32_t most_rows = 4;   // fewer would leave registers to more subgroups, and read K and V several times
    uint32_t of_pages = 0;    // registers that finding keys in pages takes from these
};

constexpr Liking liking_of(GpuClass gpu) {
    switch (gpu) {
    case GpuClass::kRdna:
        return {true, 4, 4, 2, false};
    case GpuClass::kGcn:
        return {true, 2, 4, 1, false};
    case GpuClass::kNvidia:
        return {true, 2, 2, 2, true};
    case GpuClass::kAdreno:
        return {true, 4, 2, 2, true};
    case GpuClass::kApple: // a shuffle is a dozen instructions
        return {false, 4, 4, 2, true};
    case GpuClass::kIntel: // its compiler takes subgroups of 8 here
        return {false, 4, 2, 2, true};
    case GpuClass::kMali: // an invocation has 64 registers at most, and addresses in shared memory take two
        return {false, 4, 2, 2, true, 40, 2, 12};
    default:
        return {false, 2, 2, 2, true};
    }
}

uint32_t keys_of(const Liking &liking, bool halves, uint32_t rows) {
    if (!halves) return liking.keys_of_others;
    return rows == 1 ? liking.keys_of_one_row : liking.keys_of_rows;
}

// The size of subgroups that a pipeline has: 32 or the nearest to it, where it can be asked for; 0: it is not known.
uint32_t subgroup_size_of(const DeviceCaps &caps) {
    constexpr uint32_t kLiked = 32;
    const uint32_t size = std::clamp(kLiked, caps.min_subgroup_size, caps.max_subgroup_size);
    return has_subgroups_of(caps, size) ? size : 0;
}

// Whether groups of invocations can lie in subgroups of one known size.
bool has_subgroups(const DeviceCaps &caps) {
    constexpr uint32_t kNeeded = VK_SUBGROUP_FEATURE_BASIC_BIT | VK_SUBGROUP_FEATURE_SHUFFLE_BIT;
    const uint32_t size = subgroup_size_of(caps);
    return (caps.subgroup_features & kNeeded) == kNeeded && size != 0 && kWorkgroup % size == 0 &&
           (caps.max_workgroup_subgroups == 0 || kWorkgroup / size <= caps.max_workgroup_subgroups);
}

const Shader &shader_of(bool halves, bool subgroups) {
    if (halves) return subgroups ? shaders::decode_halves_subgroups : shaders::decode_halves;
    return subgroups ? shaders::decode_subgroups : shaders::decode;
}

// What K and V are read as, and what sums go through.
struct Reading {
    bool halves, subgroups;
};

// What is liked best and possible, or the next that the self-test has not ruled out.
Reading sound_reading(const Reading &best, const AttentionProblem &problem, const DeviceCaps &caps) {
    const CodePaths paths = paths_of(problem) | kPathParts;
    for (const bool halves : {true, false})
        for (const bool subgroups : {true, false})
            if (halves <= best.halves && subgroups <= best.subgroups &&
                !is_off(caps, shader_of(halves, subgroups), paths))
                return {halves, subgroups};
    return best;
}

uint32_t vectors_of(uint32_t dims, const DecodeTile &tile) { return tiles(dims, kVector * tile.columns); }

uint64_t shared_bytes(const AttentionProblem &problem, const DecodeTile &tile, bool halves) {
    const uint64_t groups = tile.workgroup / tile.columns, scores = groups * tile.rows * tile.keys;
    const uint64_t outputs = uint64_t{tile.workgroup} * kVector * vectors_of(problem.v_head_dim, tile);
    const uint64_t queries = tile.rows * tile.columns * vectors_of(problem.head_dim, tile);
    return 4 * (std::max(scores * (tile.columns + 1), outputs) + scores + 2 * groups * tile.rows) +
           (tile.query_staged ? queries * (halves ? 16 : 32) : 16);
}

// Numbers that an invocation holds: its part of the output, of K and of V.
uint32_t registers_of(const AttentionProblem &problem, const DecodeTile &tile, bool halves) {
    const uint32_t keys = vectors_of(problem.head_dim, tile), values = vectors_of(problem.v_head_dim, tile);
    const uint32_t read = problem.value_in_key ? std::max(keys, values) : keys + values;
    return tile.rows * values * kVector + tile.keys * read * (halves ? kVector / 2 : kVector);
}

// Fewer keys at a time where heads are large, and fewer rows where those are not enough.
void fit(const AttentionProblem &problem, const DeviceCaps &caps, bool halves, uint32_t registers, DecodeTile &tile) {
    const auto smaller = [&] {
        if (tile.rows * tile.keys == 1) return false;
        (tile.keys > 1 ? tile.keys : tile.rows) /= 2;
        return tile.rows * tile.keys > 1;
    };
    while (registers_of(problem, tile, halves) > registers && smaller()) {
    }
    while (shared_bytes(problem, tile, halves) > caps.max_shared_memory_bytes && smaller()) {
    }
}

constexpr uint32_t kFewestColumns = 4;

// As many as a row of K has vectors.
uint32_t columns_of(const AttentionProblem &problem, uint32_t most) {
    const uint32_t dims = std::max(problem.head_dim, problem.v_head_dim);
    return std::min(std::max(std::bit_ceil(tiles(dims, kVector)), kFewestColumns), most);
}

} // namespace

bool is_decode(const AttentionShape::Dispatch &dispatch) {
    return are_variants(*dispatch.shader, shaders::decode);
}

// Read off the counters of executed machine code (bench/results/split-keys-amd.md), where there is such: by then flash's
// tiles fill the device.
uint32_t most_latent_rows(const DeviceCaps &caps) {
    const auto gpu = static_cast<GpuClass>(caps.traits.gpu_class);
    return gpu == GpuClass::kRdna || gpu == GpuClass::kGcn ? 32 : kRowsOfDecodeShader;
}

uint32_t keys_of_step(const AttentionShape::Dispatch &dispatch) {
    const gpu::AttentionConstants &c = dispatch.constants;
    return c.WORKGROUP_SIZE / c.COLUMNS * c.KEYS_OF_INVOCATION;
}

DecodeTile decode_tile(const AttentionProblem &problem, const DeviceCaps &caps) {
    static constexpr uint32_t kMostColumns = 32, kMostTuned = 8;
    const Liking liking = liking_of(static_cast<GpuClass>(caps.traits.gpu_class));
    const auto [halves, subgroups] =
        sound_reading({is_in_halves(problem), liking.subgroups && has_subgroups(caps)}, problem, caps);
    const uint32_t subgroup_size = subgroups ? subgroup_size_of(caps) : 0;
    const uint32_t most_columns = subgroups ? std::min(kMostColumns, subgroup_size) : kMostColumns;
    const auto rows = static_cast<uint32_t>(std::min<uint64_t>(std::bit_ceil(rows_of(problem)), liking.most_rows));
    DecodeTile tile{.shader = &shader_of(halves, subgroups),
                    .workgroup = kWorkgroup,
                    .subgroup_size = subgroup_size,
                    .columns = columns_of(problem, most_columns),
                    .rows = rows,
                    .keys = keys_of(liking, halves, rows),
                    .query_staged = !halves || liking.stages_halves};
    const auto tuned = [](uint32_t wanted) { return std::bit_floor(std::clamp(wanted, 1u, kMostTuned)); };
    if (problem.tile.knobs[kColumnsKnob] != 0) { // unless not even the smallest tile of so many fits
        DecodeTile smallest = tile;
        smallest.rows = smallest.keys = 1;
        smallest.columns =
            std::min(std::bit_floor(std::max(problem.tile.knobs[kColumnsKnob], kFewestColumns)), most_columns);
        if (shared_bytes(problem, smallest, halves) <= caps.max_shared_memory_bytes) tile.columns = smallest.columns;
    }
    if (problem.tile.knobs[kRowsKnob] != 0) tile.rows = tuned(problem.tile.knobs[kRowsKnob]);
    if (problem.tile.knobs[kKeysKnob] != 0) tile.keys = tuned(problem.tile.knobs[kKeysKnob]);
    const bool is_tuned = problem.tile.knobs[kRowsKnob] + problem.tile.knobs[kKeysKnob] != 0;
    const uint32_t registers = liking.registers - (present(problem.block_table) ? liking.of_pages : 0);
    fit(problem, caps, halves, is_tuned ? UINT32_MAX : registers, tile);
    return tile;
}

AttentionShape::Dispatch decode_dispatch(const AttentionProblem &problem, const DecodeTile &tile) {
    AttentionShape::Dispatch dispatch{tile.shader,
                                      constants_of(problem, tile.workgroup),
                                      {tiles(rows_of(problem), tile.rows), problem.kv_heads, problem.batch}};
    dispatch.constants.ROWS = tile.rows;
    if (tile.subgroup_size != 0) dispatch.constants.SUBGROUP_SIZE = tile.subgroup_size;
    dispatch.constants.COLUMNS = tile.columns;
    dispatch.constants.KEYS_OF_INVOCATION = tile.keys;
    dispatch.constants.QUERY_STAGED = tile.query_staged ? 1 : 0;
    dispatch.constants.VALUE_IN_KEY = problem.value_in_key ? 1 : 0;
    return dispatch;
}

} // namespace vkattn
