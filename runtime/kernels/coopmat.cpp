// coopmat: every row's keys in turn on matrix units, or in parts joined by a merge.
#include "runtime/device/device_table.hpp"
#include "runtime/device/gpu_tiles.hpp"
#include "runtime/kernels/matrix_shapes.hpp"
#include "runtime/kernels/parameters.hpp"
#include "runtime/kernels/split_keys.hpp"
#include "runtime/support/error.hpp"
#include "runtime/support/rounding.hpp"
#include "shaders/interface/common.h"

#include <algorithm>
#include <array>
#include <bit>

namespace vkattn {
namespace {

// How a workgroup of coopmat divides its tile: see ATTENTION_CONSTANTS in shaders/interface/attention.h.
struct MatrixTile {
    vkattn_matrix_shape shape;
    uint32_t subgroup_size;
    uint32_t row_subgroups; // 0: no tile fits the device
    uint32_t dim_subgroups;
    uint32_t row_matrices;
    uint32_t keys;
    uint32_t chunk_dims = 0; // of K in shared memory at a time
    uint32_t chunk_keys = 0; // of V in shared memory at a time
    bool takes_turns = false;
    bool query_in_registers = false;
    bool ahead = false; // of the shader that loads the next one meanwhile
    bool keeps_weights = false;
};

// Places in KernelTile::knobs.
enum MatrixKnob : uint32_t { kRowSubgroupsKnob, kMatrixKeysKnob, kDimSubgroupsKnob };

uint32_t tile_rows(const MatrixTile &tile) { return tile.row_subgroups * tile.row_matrices * tile.shape.m; }
uint32_t subgroups_of(const MatrixTile &tile) { return tile.row_subgroups * tile.dim_subgroups; }

constexpr uint32_t kVectorElements = 8; // of 16 bits, of a uvec4
constexpr uint32_t kVectorBytes = 16;
constexpr uint32_t kMostLoads = 8;     // MOST_LOADS of shaders/kernels/coopmat/staging.glsl
constexpr uint32_t kMostSubgroups = 8; // of a workgroup, as tuning has it
constexpr uint32_t kMostDimSubgroups = 16;
constexpr uint32_t kMostKeys = 256;

// So that two workgroups share a core whose shared memory is twice what one may have.
constexpr uint64_t kSharedBytesOfChoice = 32 * 1024;

MatrixUse use_of(const AttentionProblem &problem, const Shader &shader) {
    return {&shader, matrix_type(problem), paths_of(problem)};
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
    const uint64_t rows = tile_rows(tile), rows_of_subgroup = uint64_t{tile.row_matrices} * tile.shape.m;
    const uint64_t keys = tile.keys * pitch(tile.chunk_dims);
    const uint64_t values =
        tile.ahead ? tile.keys * pitch(value_dims(tile, problem)) : value_dims(tile, problem) * pitch(tile.chunk_keys);
    const uint64_t both = tile.takes_turns ? std::max(keys, values) : keys + values;
    const uint64_t query = tile.query_in_registers ? 0 : rows * pitch(round_up(problem.head_dim, tile.chunk_dims));
    const uint64_t strip = rows_of_subgroup * (tile.shape.n / 4 + 1);
    const uint64_t strips = strip * subgroups_of(tile);
    const bool shares = tile.dim_subgroups > 1, over_keys = strips <= (tile.takes_turns ? both : keys);
    const uint64_t weights = tile.row_subgroups * std::max(tile.keeps_weights ? 0 : rows_of_subgroup * pitch(tile.keys),
                                                           shares ? uint64_t{0} : strip);
    const uint64_t vectors = both + query + weights + (shares && !over_keys ? strips : 0);
    const uint64_t blocks = std::max(tile.chunk_dims / QUANTISED_BLOCK, 1u);
    const uint64_t key_scales =
        is_quantised(problem.key.type) ? blocks * tile.keys * (has_minimum(problem.key.type) ? 2 : 1) : 0;
    const uint64_t scales = std::max<uint64_t>(key_scales + (scales_values_by_key(problem) ? tile.keys : 0), 4);
    const uint64_t parts = shares ? rows * tile.dim_subgroups : 1;
    const bool biased = present(problem.alibi_slopes) && !problem.mask_times_slopes && problem.variant == nullptr;
    const uint64_t biases = biased ? 2 * rows + tile.shape.n : 12;
    return kVectorBytes * vectors + sizeof(float) * (3 * rows + parts + scales + biases + 2);
}

// Whether a chunk of K is staged without a loop.
bool stages_keys_at_once(const MatrixTile &tile, const AttentionProblem &problem) {
    const uint32_t loads = tile.keys * (tile.chunk_dims / kVectorElements);
    const uint32_t invocations = subgroups_of(tile) * tile.subgroup_size;
    return problem.key.type == matrix_type(problem) && rows_are_aligned(problem, problem.key) &&
           loads % invocations == 0 && loads / invocations <= kMostLoads;
}

// Where query rows are loaded sixteen bytes at a time, and pass a strip in whole matrices; see QUERY_IN_REGISTERS.
bool can_keep_query_in_registers(const MatrixTile &tile, const AttentionProblem &problem) {
    const bool whole = tile.chunk_dims == key_dims(tile, problem);
    return 2 * tile.shape.n >= tile.shape.k && rows_are_aligned(problem, problem.query) &&
           (whole || stages_keys_at_once(tile, problem));
}

// A tile, and what of its rule and of its problem bounds its chunks.
struct Fit {
    MatrixTile tile;
    const MatrixLayout &rule;
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

MatrixTile tile_by_rule(const MatrixLayout &rule, const vkattn_matrix_shape &shape) {
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
    while (tile.row_subgroups > 1 && uint64_t{tile_rows(tile)} / 2 >= rows_that_share_keys(problem)) {
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

// Whether a tile of K, and one of V, is staged without a loop, as LOADS_AHEAD has it: whole items of eight dims each.
bool stages_all_at_once(const MatrixTile &tile, const AttentionProblem &problem) {
    const uint32_t blocks = round_up(value_dims(tile, problem) / kVectorElements, 4u);
    const uint32_t invocations = subgroups_of(tile) * tile.subgroup_size;
    return tiles(tile.keys * (tile.chunk_dims / kVectorElements), invocations) <= kMostLoads &&
           2 * tiles(blocks * tile.keys / 2, invocations) <= kMostLoads;
}

const Shader &shader_ahead(const AttentionProblem &problem) {
    return matrix_type(problem) == VKATTN_TYPE_BF16 ? shaders::coopmat_ahead_bf16 : shaders::coopmat_ahead;
}

// Of K and V of the query's type, by devices that convert sums into factors. A variant's functions are compiled into the
// other shaders alone.
bool may_load_ahead(const AttentionProblem &problem, const DeviceCaps &caps) {
    return is_built(shader_ahead(problem)) && caps.api_version >= VK_API_VERSION_1_3 && // of its SPIR-V
           caps.features.maintenance4 && // sizes of its workgroups are specialised as SPIR-V 1.6 has it
           caps.features.cooperative_matrix_reductions && caps.traits.unroll_matrices != 0 &&
           problem.variant == nullptr && problem.key.type == matrix_type(problem) &&
           problem.value.type == matrix_type(problem) && rows_are_aligned(problem, problem.key) &&
           rows_are_aligned(problem, problem.value) &&
           matrix_obstacle(caps, {&shader_ahead(problem), matrix_type(problem), paths_of(problem)}).empty();
}

// K and V whole, beside each other, in the shared memory there is. No row subgroups: they find no room there.
MatrixTile tile_ahead(const AttentionProblem &problem, const DeviceCaps &caps) {
    const vkattn_matrix_shape &shape =
        matrix_shape_of(caps, use_of(problem, shader_ahead(problem)), problem.tile.matrix_shape);
    const MatrixLayout rule = matrix_layout(caps, shape, std::max(problem.head_dim, problem.v_head_dim));
    MatrixTile tile = tile_by_rule(rule, shape);
    if (rule.keys_ahead == 0) return {};
    tile.ahead = true;
    tile.keys = rule.keys_ahead;
    const auto &knobs = problem.tile.knobs;
    if (knobs[kDimSubgroupsKnob] + knobs[kRowSubgroupsKnob] == 0) share_few_rows(tile, problem);
    apply_tuning(tile, problem.tile);
    tile.keys = round_up(tile.keys, unit_of_keys(tile));
    tile.chunk_dims = key_dims(tile, problem);
    tile.chunk_keys = tile.keys;
    tile.keeps_weights = tile.dim_subgroups == 1 && problem.dropout_p == 0.0f;
    tile.query_in_registers = problem.head_dim <= rule.query_dims && can_keep_query_in_registers(tile, problem);
    const uint32_t subgroups = subgroups_of(tile);
    const bool has_room = subgroups * tile.subgroup_size <= caps.max_workgroup_invocations &&
                          (caps.max_workgroup_subgroups == 0 || subgroups <= caps.max_workgroup_subgroups) &&
                          shared_bytes(tile, problem) <= caps.max_shared_memory_bytes;
    return has_room && stages_all_at_once(tile, problem) ? tile : MatrixTile{};
}

// Takes the tuned values, else the row of the device's class in the table, else the rule. Clamps them to the problem's rows and to
// shared memory.
MatrixTile matrix_tile(const AttentionProblem &problem, const DeviceCaps &caps, const Shader &shader) {
    const vkattn_matrix_shape &shape = matrix_shape_of(caps, use_of(problem, shader), problem.tile.matrix_shape);
    const MatrixLayout rule = matrix_layout(caps, shape, std::max(problem.head_dim, problem.v_head_dim));
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

bool is_factor(vkattn_type type, vkattn_type factors) {
    return type == factors || (factors == VKATTN_TYPE_F16 && is_quantised(type));
}

const char *missing(const DeviceCaps &caps) {
    if (const char *arrays = obstacle_of_arrays(caps); *arrays != '\0') return arrays;
    if (!is_built(shaders::coopmat)) return shaders::coopmat.code.why_empty();
    return obstacle_of_matrices(caps);
}

// No driver that wants loops rolled multiplies matrices of bf16.
const Shader &shader_of(const AttentionProblem &problem, const DeviceCaps &caps) {
    if (matrix_type(problem) == VKATTN_TYPE_BF16) return shaders::coopmat_bf16;
    const bool is_rolled = caps.traits.unroll_matrices == 0 && is_built(shaders::coopmat_rolled);
    return is_rolled ? shaders::coopmat_rolled : shaders::coopmat;
}

std::string obstacle_of_types(const AttentionProblem &problem, const DeviceCaps &caps) {
    const vkattn_type factors = matrix_type(problem);
    if (factors != VKATTN_TYPE_F16 && factors != VKATTN_TYPE_BF16)
        return text("query is ", type_name(factors), ", expected f16 or bf16, or query_rounding that allows one");
    if (!is_factor(problem.key.type, factors) || !is_factor(problem.value.type, factors))
        return text("key is ", type_name(problem.key.type), " and value ", type_name(problem.value.type), ", expected ",
                    type_name(factors),
                    factors == VKATTN_TYPE_F16 ? " or a quantised type as query is f16" : " as query");
    return obstacle_of_lists(problem, caps);
}

// Whether the rows fill matrices well enough.
bool pays(const AttentionProblem &problem, const DeviceCaps &caps) {
    return caps.traits.matrix_units == 1 && rows_that_share_keys(problem) >= caps.traits.fewest_matrix_rows;
}

gpu::AttentionConstants constants_of_tile(const MatrixTile &tile, const AttentionProblem &problem) {
    gpu::AttentionConstants constants = constants_of(problem, tile.subgroup_size * subgroups_of(tile));
    constants.MATRIX_M = tile.shape.m;
    constants.MATRIX_N = tile.shape.n;
    constants.MATRIX_K = tile.shape.k;
    constants.SUBGROUP_SIZE = tile.subgroup_size;
    constants.DIM_SUBGROUPS = tile.dim_subgroups;
    constants.ROW_MATRICES = tile.row_matrices;
    constants.KEYS_OF_TILE = tile.keys;
    constants.DIMS_OF_CHUNK = tile.chunk_dims;
    constants.KEYS_OF_CHUNK = tile.chunk_keys;
    constants.TAKES_TURNS = tile.takes_turns ? 1 : 0;
    constants.QUERY_IN_REGISTERS = tile.query_in_registers ? 1 : 0;
    return constants;
}

AttentionAnswer answer(const AttentionProblem &problem, const DeviceCaps &caps) {
    AttentionAnswer answer{pays(problem, caps) ? Rank::kMatrices : Rank::kMatricesDoNotPay,
                           obstacle_of_types(problem, caps)};
    if (!answer.obstacle.empty()) return answer;
    if (may_load_ahead(problem, caps))
        if (const MatrixTile tile = tile_ahead(problem, caps); tile.row_subgroups != 0) {
            answer.shape = shape_of_row_tiles(problem, caps, shader_ahead(problem), constants_of_tile(tile, problem),
                                              tile_rows(tile));
            return answer;
        }
    const Shader &shader = shader_of(problem, caps);
    answer.obstacle = matrix_obstacle(caps, use_of(problem, shader));
    if (!answer.obstacle.empty()) return answer;
    const MatrixTile tile = matrix_tile(problem, caps, shader);
    if (tile.row_subgroups == 0)
        answer.obstacle = text("head sizes ", problem.head_dim, " and ", problem.v_head_dim,
                               " need more shared memory than ", caps.max_shared_memory_bytes, " bytes");
    else
        answer.shape = shape_of_row_tiles(problem, caps, shader, constants_of_tile(tile, problem), tile_rows(tile));
    return answer;
}

std::string describe(const AttentionShape &shape) {
    const gpu::AttentionConstants &c = shape.dispatches[0].constants;
    const Shader *shader = shape.dispatches[0].shader;
    return text(c.MATRIX_M, "x", c.MATRIX_N, "x", c.MATRIX_K, " matrices, ",
                c.WORKGROUP_SIZE / c.SUBGROUP_SIZE / c.DIM_SUBGROUPS, " x ", c.DIM_SUBGROUPS, " subgroups, ",
                c.KEYS_OF_TILE, " keys", converts_sums(*shader) ? ", loaded ahead" : "");
}

constexpr uint32_t kRows[] = {1, 2, 4, 8}, kKeys[] = {8, 16, 32, 64, 128}, kSubgroups[] = {1, 2, 4};
constexpr Knob kKnobs[] = {{"rows", kRows},                // subgroups along the rows
                           {"keys", kKeys},                // of a tile
                           {"dim_subgroups", kSubgroups}}; // that share their query rows

constexpr const Shader *kShaders[] = {&shaders::coopmat, &shaders::coopmat_rolled, &shaders::coopmat_bf16,
                                      &shaders::coopmat_ahead, &shaders::coopmat_ahead_bf16};

} // namespace

const AttentionKernel kCoopmat = {.kernel = VKATTN_KERNEL_COOPMAT,
                                  .name = "coopmat",
                                  .shaders = kShaders,
                                  .merit = "the matrix units take the types of query, key and value",
                                  .missing = missing,
                                  .answer = answer,
                                  .describe = describe,
                                  .knobs = kKnobs};

} // namespace vkattn
