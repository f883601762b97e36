#include "runtime/kernels/matrix_tiles.hpp"

#include "runtime/kernels/matrix_shapes.hpp"
#include "runtime/kernels/parameters.hpp"
#include "runtime/support/rounding.hpp"
#include "shaders/interface/common.h"

#include <algorithm>
#include <array>
#include <bit>
#include <span>

namespace vkattn {
namespace {

constexpr uint32_t kVectorElements = 8; // of 16 bits, of a uvec4
constexpr uint32_t kVectorBytes = 16;
constexpr uint32_t kMostLoads = 8;     // MOST_LOADS of shaders/kernels/coopmat/staging.glsl
constexpr uint32_t kMostSubgroups = 8; // of a workgroup, where the table says nothing
constexpr uint32_t kMostDimSubgroups = 16;
constexpr uint32_t kMostKeys = 256;

// So that two workgroups share a core whose shared memory is twice what one may have.
constexpr uint64_t kSharedBytesOfChoice = 32 * 1024;

// The tile of a class of devices, for heads up to a size. Judged by the figures of bench/gpu_lab: no spills, the share of the
// matrix units in what the loop over keys issues, subgroups that a core keeps.
struct TileRule {
    uint32_t m, n;              // of the matrix shape
    uint32_t narrowest, widest; // subgroups that the device has
    bool bf16;                  // of devices alone that multiply bf16 as well
    uint32_t subgroup_size;     // to ask for
    uint32_t most_dims;         // of K or V
    uint32_t row_subgroups, dim_subgroups, keys;
    uint32_t chunk_dims; // of K, where it does not come whole: at most
    uint32_t query_dims; // that registers hold: at most
};

constexpr uint32_t kAnyDims = UINT32_MAX;
constexpr TileRule kRules[] = {
    // AMD's RDNA3 and RDNA4. In subgroups of 64, RDNA3 keeps each factor in four groups of lanes, and RDNA4, whose drivers
    // have bf16, in none.
    {16, 16, 32, 64, false, 32, 128, 8, 1, 32, 64, 128},
    {16, 16, 32, 64, true, 64, 256, 8, 1, 32, 64, 256},
    {16, 16, 32, 64, true, 64, kAnyDims, 2, 4, 64, 64, 576},
    {16, 16, 32, 64, false, 32, 256, 4, 2, 32, 64, 256},
    {16, 16, 32, 64, false, 32, kAnyDims, 1, 8, 128, 64, 0},
    // NVIDIA
    {16, 16, 32, 32, false, 32, 64, 8, 1, 64, 64, 64},
    {16, 16, 32, 32, false, 32, 128, 8, 1, 32, 64, 128},
    {16, 16, 32, 32, false, 32, 256, 4, 2, 32, 64, 256},
    {16, 16, 32, 32, false, 32, kAnyDims, 1, 8, 128, 64, 0},
    // Intel's Xe2: 8 rows of 128 sums are half of its registers
    {8, 16, 16, 32, false, 16, 64, 8, 2, 64, 64, 64},
    {8, 16, 16, 32, false, 16, 128, 4, 4, 64, 64, 0},
    {8, 16, 16, 32, false, 16, 256, 2, 8, 128, 32, 0},
    {8, 16, 16, 32, false, 16, kAnyDims, 1, 16, 256, 32, 0},
    // Intel's Xe-HPG
    {8, 8, 8, 32, false, 8, 64, 8, 4, 32, 64, 64},
    {8, 8, 8, 32, false, 8, 128, 4, 8, 64, 64, 0},
    {8, 8, 8, 32, false, 8, kAnyDims, 2, 16, 128, 32, 0},
};
// Of a device that is none of the table's.
constexpr TileRule kNarrowRule = {0, 0, 0, 0, false, 0, 64, kMostSubgroups, 1, 64, 64, 64};
constexpr TileRule kWideRule = {0, 0, 0, 0, false, 0, kAnyDims, kMostSubgroups, 1, 32, 64, 256};

bool multiplies_bf16(const DeviceCaps &caps) {
    const auto shapes = std::span(caps.matrix_shapes).first(caps.matrix_shape_count);
    return std::ranges::any_of(shapes, [](const auto &shape) { return shape.type == VKATTN_TYPE_BF16; });
}

bool is_for(const TileRule &rule, const vkattn_matrix_shape &shape, const DeviceCaps &caps) {
    return rule.m == shape.m && rule.n == shape.n && rule.narrowest == caps.min_subgroup_size &&
           rule.widest == caps.max_subgroup_size && (!rule.bf16 || multiplies_bf16(caps)) &&
           has_subgroups_of(caps, rule.subgroup_size);
}

TileRule rule_for(const vkattn_matrix_shape &shape, const AttentionProblem &problem, const DeviceCaps &caps) {
    const uint32_t dims = std::max(problem.head_dim, problem.v_head_dim);
    const auto *rule = std::ranges::find_if(
        kRules, [&](const TileRule &each) { return is_for(each, shape, caps) && dims <= each.most_dims; });
    if (rule != std::end(kRules)) return *rule;
    TileRule plain = dims <= kNarrowRule.most_dims ? kNarrowRule : kWideRule;
    plain.subgroup_size = caps.subgroup_size;
    return plain;
}

// What tuning found or the largest.
const vkattn_matrix_shape &matrix_shape_of(const AttentionProblem &problem, const DeviceCaps &caps,
                                           const Shader &shader) {
    const MatrixUse use{&shader, problem.query.type, paths_of(problem)};
    const uint32_t tuned = problem.tile.matrix_shape;
    if (tuned != 0 && is_usable_shape(caps, use, tuned - 1)) return caps.matrix_shapes[tuned - 1];
    return *largest_matrix_shape(caps, use);
}

uint32_t dims_of_strip(const MatrixTile &tile) { return tile.shape.n * tile.dim_subgroups; }

uint32_t key_dims(const MatrixTile &tile, const AttentionProblem &problem) {
    return round_up(problem.head_dim, tile.shape.k);
}

uint32_t value_dims(const MatrixTile &tile, const AttentionProblem &problem) {
    return round_up(problem.v_head_dim, dims_of_strip(tile));
}

// f32 sums of the output that an invocation holds.
uint32_t outputs_of_invocation(const MatrixTile &tile, const AttentionProblem &problem) {
    const uint32_t rows = tile.shape.m * tile.row_matrices;
    return value_dims(tile, problem) / tile.dim_subgroups * rows / tile.subgroup_size;
}

// Keys of a chunk of V are whole matrices and whole vectors, those of a tile are so for every subgroup that shares it.
uint32_t unit_of_chunk(const MatrixTile &tile) { return std::max(tile.shape.k, kVectorElements); }
uint32_t unit_of_keys(const MatrixTile &tile) { return std::max(dims_of_strip(tile), unit_of_chunk(tile)); }

// Shared memory that shaders/kernels/coopmat/tiles.glsl, staging.glsl and softmax.glsl declare.
uint64_t shared_bytes(const MatrixTile &tile, const AttentionProblem &problem) {
    const auto pitch = [](uint64_t elements) { return elements / kVectorElements + 1; };
    const uint64_t rows = rows_of(tile), rows_of_subgroup = uint64_t{tile.row_matrices} * tile.shape.m;
    const uint64_t keys = tile.keys * pitch(tile.chunk_dims);
    const uint64_t values = value_dims(tile, problem) * pitch(tile.chunk_keys);
    const uint64_t both = tile.takes_turns ? std::max(keys, values) : keys + values;
    const uint64_t query = tile.query_in_registers ? 0 : rows * pitch(round_up(problem.head_dim, tile.chunk_dims));
    const uint64_t strip = rows_of_subgroup * (tile.shape.n / 4 + 1);
    const uint64_t strips = strip * subgroups_of(tile);
    const bool shares = tile.dim_subgroups > 1, over_keys = strips <= (tile.takes_turns ? both : keys);
    const uint64_t weights =
        tile.row_subgroups * std::max(rows_of_subgroup * pitch(tile.keys), shares ? uint64_t{0} : strip);
    const uint64_t vectors = both + query + weights + (shares && !over_keys ? strips : 0);
    const uint64_t blocks = std::max(tile.chunk_dims / QUANTISED_BLOCK, 1u);
    const uint64_t scales =
        is_quantised(problem.key.type) ? blocks * tile.keys * (has_minimum(problem.key.type) ? 2 : 1) : 4;
    const uint64_t parts = shares ? rows * tile.dim_subgroups : 1;
    return kVectorBytes * vectors + sizeof(float) * (3 * rows + parts + scales + 2);
}

// Whether a chunk of K is staged without a loop.
bool stages_keys_at_once(const MatrixTile &tile, const AttentionProblem &problem) {
    const uint32_t loads = tile.keys * (tile.chunk_dims / kVectorElements);
    const uint32_t invocations = subgroups_of(tile) * tile.subgroup_size;
    return problem.key.type == problem.query.type && rows_are_aligned(problem.key) && loads % invocations == 0 &&
           loads / invocations <= kMostLoads;
}

// Where query rows are loaded sixteen bytes at a time, and pass a strip in whole matrices; see QUERY_IN_REGISTERS.
bool can_keep_query_in_registers(const MatrixTile &tile, const AttentionProblem &problem) {
    const bool whole = tile.chunk_dims == key_dims(tile, problem);
    return 2 * tile.shape.n >= tile.shape.k && rows_are_aligned(problem.query) &&
           (whole || stages_keys_at_once(tile, problem));
}

// A tile, and what of its rule and of its problem bounds its chunks.
struct Fit {
    MatrixTile tile;
    const TileRule &rule;
    const AttentionProblem &problem;

    bool fits(uint64_t bytes) {
        tile.query_in_registers = problem.head_dim <= rule.query_dims && can_keep_query_in_registers(tile, problem);
        return shared_bytes(tile, problem) <= bytes;
    }
    bool fit_whole(uint64_t bytes);
    bool fit_chunks(uint64_t bytes);
    bool fit(const DeviceCaps &caps);
};

// K and V whole, beside each other or in turns.
bool Fit::fit_whole(uint64_t bytes) {
    tile.chunk_dims = key_dims(tile, problem);
    tile.chunk_keys = tile.keys;
    tile.takes_turns = false;
    if (fits(bytes)) return true;
    tile.takes_turns = true;
    return fits(bytes);
}

// A chunk leaves no dims over, and which of them an invocation loads is a shift and not a division.
bool divides_evenly(uint32_t chunk, uint32_t dims) { return dims % chunk == 0 && std::has_single_bit(chunk); }

// In turns, V in as few chunks as there is room for, and then K.
bool Fit::fit_chunks(uint64_t bytes) {
    const uint32_t dims = key_dims(tile, problem), unit = unit_of_chunk(tile);
    tile.takes_turns = true;
    for (tile.chunk_keys = tile.keys; tile.chunk_keys >= unit; tile.chunk_keys -= unit)
        for (tile.chunk_dims = rule.chunk_dims; tile.chunk_dims >= tile.shape.k; tile.chunk_dims /= 2)
            if (tile.keys % tile.chunk_keys == 0 && divides_evenly(tile.chunk_dims, dims) && fits(bytes)) return true;
    return false;
}

// The most rows that share K and V, in what shared memory there is.
bool Fit::fit(const DeviceCaps &caps) {
    const uint64_t most = caps.max_shared_memory_bytes;
    for (; tile.row_subgroups > 0; tile.row_subgroups /= 2) {
        if (subgroups_of(tile) * tile.subgroup_size > caps.max_workgroup_invocations) continue;
        if (caps.max_workgroup_subgroups != 0 && subgroups_of(tile) > caps.max_workgroup_subgroups) continue;
        const uint64_t choice = std::min(most, kSharedBytesOfChoice);
        if (fit_whole(choice) || fit_whole(most) || fit_chunks(choice) || fit_chunks(most)) return true;
    }
    return false;
}

MatrixTile tile_by_rule(const TileRule &rule, const vkattn_matrix_shape &shape) {
    return {.shape = shape,
            .subgroup_size = rule.subgroup_size,
            .row_subgroups = rule.row_subgroups,
            .dim_subgroups = rule.dim_subgroups,
            .row_matrices = 1,
            .keys = rule.keys};
}

// Sums that are too many for an invocation are shared out.
void share_sums(MatrixTile &tile, const AttentionProblem &problem, const DeviceCaps &caps) {
    while (tile.dim_subgroups < kMostDimSubgroups &&
           outputs_of_invocation(tile, problem) > caps.traits.matrix_outputs) {
        tile.dim_subgroups *= 2;
        tile.row_subgroups = std::max(tile.row_subgroups / 2, 1u);
    }
}

// Where the problem has few rows, more subgroups share them: one alone would have a core's shared memory to itself.
void share_few_rows(MatrixTile &tile, const AttentionProblem &problem) {
    constexpr uint32_t kMostSharing = 4; // more would make tiles of more keys than a part of them has
    while (tile.row_subgroups > 1 && uint64_t{rows_of(tile)} / 2 >= rows_of(problem)) {
        tile.row_subgroups /= 2;
        if (tile.dim_subgroups < kMostSharing && 2 * dims_of_strip(tile) <= problem.v_head_dim) tile.dim_subgroups *= 2;
    }
}

void apply_tuning(MatrixTile &tile, const KernelTile &tuned) {
    const auto [tuned_rows, tuned_keys, tuned_dims] =
        std::array{tuned.knobs[kRowSubgroupsKnob], tuned.knobs[kMatrixKeysKnob], tuned.knobs[kDimSubgroupsKnob]};
    const uint32_t subgroups = std::max(subgroups_of(tile), kMostSubgroups);
    if (tuned_dims != 0) tile.dim_subgroups = std::bit_floor(std::min(tuned_dims, kMostDimSubgroups));
    const uint32_t rows = tuned_rows == 0 ? tile.row_subgroups : std::bit_floor(tuned_rows);
    tile.row_subgroups = std::max(std::min(rows, subgroups / tile.dim_subgroups), 1u);
    if (tuned_keys != 0) tile.keys = std::min(tuned_keys, kMostKeys);
}

} // namespace

uint32_t matrix_subgroup_size(const vkattn_matrix_shape &shape, const DeviceCaps &caps) {
    const auto *rule = std::ranges::find_if(kRules, [&](const TileRule &each) { return is_for(each, shape, caps); });
    return rule != std::end(kRules) ? rule->subgroup_size : caps.subgroup_size;
}

MatrixTile matrix_tile(const AttentionProblem &problem, const DeviceCaps &caps, const Shader &shader) {
    const vkattn_matrix_shape &shape = matrix_shape_of(problem, caps, shader);
    const TileRule rule = rule_for(shape, problem, caps);
    Fit fit{tile_by_rule(rule, shape), rule, problem};
    MatrixTile &tile = fit.tile;
    const auto &knobs = problem.tile.knobs;
    if (knobs[kDimSubgroupsKnob] == 0) share_sums(tile, problem, caps);
    if (knobs[kDimSubgroupsKnob] + knobs[kRowSubgroupsKnob] == 0) share_few_rows(tile, problem);
    apply_tuning(tile, problem.tile);
    const uint32_t keys = tile.keys, rows = tile.row_subgroups;
    for (;; tile.dim_subgroups /= 2) { // fewer subgroups make the output's last strip narrower
        tile.keys = round_up(keys, unit_of_keys(tile));
        tile.row_subgroups = rows;
        if (fit.fit(caps) || tile.dim_subgroups == 1) return tile;
    }
}

} // namespace vkattn
