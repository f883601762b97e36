#include "runtime/kernels/decode_tile.hpp"

#include "runtime/device/gpu_tiles.hpp"
#include "runtime/kernels/flash.hpp"
#include "runtime/kernels/halves.hpp"
#include "runtime/kernels/parameters.hpp"

#include <algorithm>
#include <bit>

namespace vkattn {
namespace {

constexpr uint32_t kWorkgroup = 128;
constexpr uint32_t kVector = 8; // dims; what an invocation reads at a time

uint32_t keys_of(const DecodeLayout &layout, bool halves, uint32_t rows) {
    if (!halves) return layout.keys_of_others;
    return rows == 1 ? layout.keys_of_one_row : layout.keys_of_rows;
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

bool is_decode(const AttentionShape::Dispatch &dispatch) { return are_variants(*dispatch.shader, shaders::decode); }

uint32_t keys_of_step(const AttentionShape::Dispatch &dispatch) {
    const gpu::AttentionConstants &c = dispatch.constants;
    return c.WORKGROUP_SIZE / c.COLUMNS * c.KEYS_OF_INVOCATION;
}

DecodeTile decode_tile(const AttentionProblem &problem, const DeviceCaps &caps) {
    static constexpr uint32_t kMostColumns = 32, kMostTuned = 8;
    const DecodeLayout layout = decode_layout(caps);
    const auto [halves, subgroups] =
        sound_reading({is_in_halves(problem), layout.subgroups && has_subgroups(caps)}, problem, caps);
    const uint32_t subgroup_size = subgroups ? subgroup_size_of(caps) : 0;
    const uint32_t most_columns = subgroups ? std::min(kMostColumns, subgroup_size) : kMostColumns;
    const auto rows = static_cast<uint32_t>(std::min<uint64_t>(std::bit_ceil(rows_of(problem)), layout.most_rows));
    DecodeTile tile{.shader = &shader_of(halves, subgroups),
                    .workgroup = kWorkgroup,
                    .subgroup_size = subgroup_size,
                    .columns = columns_of(problem, most_columns),
                    .rows = rows,
                    .keys = keys_of(layout, halves, rows),
                    .query_staged = !halves || layout.stages_halves};
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
    const uint32_t registers = layout.registers - (present(problem.block_table) ? layout.of_pages : 0);
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
