#include "runtime/flash_planner.hpp"

#include "runtime/context/kernel_support.hpp"
#include "runtime/context/pipelines.hpp"
#include "runtime/error.hpp"
#include "runtime/rounding.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace vkattn {
namespace {

constexpr uint32_t kAddressedRows = 32; // of a workgroup, at most
constexpr uint32_t kElementsOfBlock = 4;
constexpr uint64_t kStagedBytes = uint64_t{64} << 20; // of K and V together
constexpr uint64_t kFewestStagedKeys = 256;
constexpr uint32_t kStateHeader = 4;        // STATE_HEADER of shaders/attention/states.glsl
constexpr uint64_t kDecodeRows = 64;        // of a KV head: more fill a device by themselves
constexpr uint64_t kLatentDecodeRows = 512; // the only KV head's: all heads of a few tokens
constexpr uint32_t kFewestKeysOfPart = 256;
constexpr uint32_t kMergeWorkgroup = 32;
constexpr uint32_t kTileRowGroups = 16; // at most
constexpr uint32_t kTilePitch = 9;      // vectors of four; PITCH of shaders/kernels/flash.comp
constexpr uint32_t kTileChunk = 32;     // dims; CHUNK of shaders/kernels/flash.comp
constexpr uint32_t kTileSums = 64;      // numbers of the output that an invocation holds
// Keys that a workgroup attends in one dispatch on a device that ends a shader's loops: few enough for the largest heads.
// Masks in blocks take a loop for each pair of blocks, and so one tile.
constexpr uint32_t kKeysOfBoundedLoops = 256;

uint64_t shared_bytes_of_tile(uint32_t rows) {
    const uint64_t tile_rows = uint64_t{rows} * kTileRowGroups;
    constexpr uint64_t kVector = 4 * sizeof(float);
    return kTilePitch * (2 * tile_rows * kVector + tile_rows * sizeof(float) + KEYS_OF_FLASH_TILE * kVector);
}

// Query rows of an invocation of flash: four share each load of K and V from shared memory, unless their sums need
// too many registers, the tile too much shared memory, or the problem has no more rows. Tuning may think otherwise of
// all but shared memory.
uint32_t rows_of_tile(const AttentionProblem &problem, const DeviceCaps &caps) {
    constexpr uint32_t kMostRows = 4;
    const bool tuned = problem.tile.rows != 0;
    const uint32_t sums_of_row = tiles(problem.v_head_dim, kTileChunk) * 4;
    uint32_t rows = tuned ? std::bit_floor(std::min(problem.tile.rows, kMostRows)) : kMostRows;
    const auto is_poor = [&] {
        return rows * sums_of_row > kTileSums ||
               (!problem.batch_invariant && rows / 2 * kTileRowGroups >= rows_of(problem));
    };
    while (rows > 1 && (shared_bytes_of_tile(rows) > caps.max_shared_memory_bytes || (!tuned && is_poor()))) rows /= 2;
    return rows;
}

// Keys of a step of the bodies that read through addresses: what tuning found, or the rule.
uint32_t step_of(const AttentionProblem &problem, uint32_t rule) {
    constexpr uint32_t kFewestKeys = 3, kMostKeys = 16;
    return problem.tile.keys == 0 ? rule : std::clamp(problem.tile.keys, kFewestKeys, kMostKeys);
}

// ROW_GROUPS of shaders/kernels/flash.comp: no more than the problem has rows, as long as the workgroup fills a subgroup.
uint32_t row_groups_of_tile(const AttentionProblem &problem, const DeviceCaps &caps) {
    uint32_t groups = kTileRowGroups;
    if (problem.batch_invariant) return groups;
    while (groups / 2 >= rows_of(problem) && groups / 2 * COLUMNS_OF_FLASH_TILE >= caps.subgroup_size) groups /= 2;
    return groups;
}

vkattn_tensor states_of(const AttentionProblem &problem, uint32_t parts) {
    const uint32_t size = kStateHeader + (problem.v_head_dim + 3) / 4 * 4;
    return contiguous(VKATTN_TYPE_F32, {uint64_t{problem.batch} * problem.query_heads, problem.q_len, parts, size});
}

// Whole blocks of four neighbours, as the bodies that read through addresses load them; quantised rows begin at whole
// words, that is at every second quantised block.
bool in_blocks(const vkattn_tensor &tensor) {
    const uint32_t elements = is_quantised(tensor.type) ? 2 * QUANTISED_BLOCK : kElementsOfBlock;
    bool fits = tensor.strides[3] == 1 && tensor.offset % elements == 0;
    for (uint32_t dim = 0; dim < 3; ++dim)
        fits = fits && (tensor.shape[dim] == 1 || tensor.strides[dim] % elements == 0) &&
               tensor.strides[dim] <= UINT32_MAX / sizeof(float);
    return fits;
}

// Neither packed nor in pages: as flash_addresses reads K and V.
bool has_dense_keys(const AttentionProblem &problem) {
    return !present(problem.cu_seqlens_k) && !present(problem.block_table);
}

bool has_f32_keys(const AttentionProblem &problem) {
    return problem.key.type == VKATTN_TYPE_F32 && problem.value.type == VKATTN_TYPE_F32;
}

// Whether flash_addresses reads K and V where they are. Every workgroup widens other formats than f32 anew: several are
// better off with copies.
bool reads_in_place(const AttentionProblem &problem) {
    return has_dense_keys(problem) && in_blocks(problem.key) && in_blocks(problem.value) &&
           (has_f32_keys(problem) || rows_of(problem) <= kAddressedRows);
}

struct AddressedTile {
    uint32_t workgroup_size;
    uint32_t step; // keys
    bool reads_ahead;
};

// Measured on llvmpipe 26. Above 128 the rows' arrays leave less of the first cache for K and V. One vector of rows
// waits for memory: H32/8 Lk4096 D128 (f32) takes 4.4 ms at 8 keys a step, 1.8 at 3 with reads ahead (AMD Zen 4); many
// rows have what was read ahead in the second cache, and would only load it twice.
AddressedTile addressed_tile(const AttentionProblem &problem, const DeviceCaps &caps) {
    const uint32_t subgroups = tiles(std::min<uint64_t>(rows_of(problem), kAddressedRows), caps.subgroup_size);
    const uint32_t dims = problem.head_dim;
    const bool reads_ahead = subgroups == 1 && dims <= 128 && reads_in_place(problem);
    uint32_t rule = dims > 96 ? 6 : 8;
    if (reads_ahead && dims > (has_f32_keys(problem) ? 64 : 32)) rule = 3;
    return {(dims > 128 ? 1 : subgroups) * caps.subgroup_size, step_of(problem, rule), reads_ahead};
}

// The bodies that read through addresses know no dropout, and step through keys as the whole batch lies.
bool reads_through_addresses(const AttentionProblem &problem, const DeviceCaps &caps) {
    if (problem.dropout_p > 0 || problem.batch_invariant || !module_is_built(Module::kFlashAddresses)) return false;
    return caps.buffers_have_addresses != 0 && problem.head_dim % kElementsOfBlock == 0 &&
           problem.v_head_dim % kElementsOfBlock == 0;
}

bool has_scalar_loads(const AttentionProblem &problem, const DeviceCaps &caps) {
    return caps.traits.scalar_address_loads != 0 && reads_through_addresses(problem, caps);
}

bool uses_addresses(const AttentionProblem &problem, const DeviceCaps &caps) {
    return has_scalar_loads(problem, caps) && problem.kv_len >= addressed_tile(problem, caps).step;
}

// Whether one dispatch takes all rows: the grid of the body that reads through addresses is not shared out to several.
bool fits_one_dispatch(const AttentionProblem &problem, const DeviceCaps &caps) {
    return tiles(rows_of(problem), addressed_tile(problem, caps).workgroup_size) <= caps.max_workgroup_count[0];
}

FlashBody body_of(const AttentionProblem &problem, const DeviceCaps &caps) {
    return uses_addresses(problem, caps) && fits_one_dispatch(problem, caps) ? FlashBody::kAddresses
                                                                             : FlashBody::kTiles;
}

// Rows [B,Hkv,keys,D] as flash_addresses reads them.
vkattn_tensor staged(const AttentionProblem &problem, const vkattn_tensor &tensor, uint64_t keys) {
    return contiguous(VKATTN_TYPE_F32, {problem.batch, problem.kv_heads, keys, tensor.shape[3]});
}

uint32_t stride_bytes(const vkattn_tensor &tensor, uint32_t dim) {
    return tensor.shape[dim] == 1 ? 0 : static_cast<uint32_t>(bytes_of(tensor.type, tensor.strides[dim]));
}

void address(const vkattn_tensor &key, const vkattn_tensor &value, AttentionChoice &choice) {
    choice.dispatches[0].constants.KEY_ROW_BYTES = stride_bytes(key, 2);
    choice.dispatches[0].constants.VALUE_ROW_BYTES = stride_bytes(value, 2);
    choice.parameters.addressed_strides = {stride_bytes(key, 0), stride_bytes(key, 1), stride_bytes(value, 0),
                                           stride_bytes(value, 1)};
}

void stage(const AttentionProblem &problem, uint32_t step, AttentionChoice &choice) {
    const uint64_t numbers_of_key = problem.head_dim + (problem.value_in_key ? 0 : problem.v_head_dim);
    const uint64_t bytes_of_key = uint64_t{problem.batch} * problem.kv_heads * numbers_of_key * sizeof(float);
    const auto keys = static_cast<uint32_t>(std::max<uint64_t>(kStagedBytes / bytes_of_key, kFewestStagedKeys));
    choice.keys_per_dispatch = std::min({choice.keys_per_dispatch, keys, problem.kv_len});
    // a last part shorter than a step is loaded with keys before it
    const uint64_t room = std::min(choice.keys_per_dispatch + step, problem.kv_len);
    choice.staged_key = staged(problem, problem.key, room);
    if (!problem.value_in_key) choice.staged_value = staged(problem, problem.value, room);
}

void plan_addressed(const AttentionProblem &problem, const DeviceCaps &caps, AttentionChoice &choice) {
    const AddressedTile tile = addressed_tile(problem, caps);
    const bool copies = !reads_in_place(problem);
    if (copies) stage(problem, tile.step, choice);
    choice.reason += copies ? "; K and V are copied to f32 and read through device addresses"
                            : "; K and V are read through device addresses";
    choice.dispatches[0] = {
        constants_of(problem, tile.workgroup_size),
        {tiles(rows_of(problem), tile.workgroup_size) * choice.parts, problem.kv_heads, problem.batch}};
    choice.dispatches[0].constants.STEP = tile.step;
    choice.dispatches[0].constants.READS_AHEAD = tile.reads_ahead ? 1 : 0;
    choice.dispatches[0].constants.STAGED = copies ? 1 : 0;
    const vkattn_tensor &staged_value = problem.value_in_key ? choice.staged_key : choice.staged_value;
    address(copies ? choice.staged_key : problem.key, copies ? staged_value : problem.value, choice);
}

void plan_tiles(const AttentionProblem &problem, const DeviceCaps &caps, AttentionChoice &choice) {
    const uint32_t rows = rows_of_tile(problem, caps);
    const uint32_t row_groups = row_groups_of_tile(problem, caps);
    choice.dispatches[0] = {
        constants_of(problem, row_groups * COLUMNS_OF_FLASH_TILE),
        {tiles(rows_of(problem), rows * row_groups) * choice.parts, problem.kv_heads, problem.batch}};
    choice.dispatches[0].constants.ROWS = rows;
}

// Workgroups of the grid's first axis that keep a dispatch below what the device may be given at once.
uint32_t groups_per_dispatch(const AttentionProblem &problem, const DeviceCaps &caps, const AttentionChoice &choice) {
    const Grid &groups = choice.dispatches[0].groups;
    const bool bounded = choice.body == FlashBody::kTiles || choice.body == FlashBody::kMatrices;
    if (!bounded) return groups[0];
    const uint32_t most = std::min(groups[0], caps.max_workgroup_count[0]);
    if (caps.traits.max_dispatch_megaflops == 0) return most;
    const double pairs = static_cast<double>(rows_of(problem)) * choice.keys_per_dispatch * groups[1] * groups[2];
    const double megaflops = 2e-6 * pairs * (problem.head_dim + problem.v_head_dim);
    const double dispatches = std::max(std::ceil(megaflops / caps.traits.max_dispatch_megaflops), 1.0);
    return std::min(static_cast<uint32_t>(std::max(std::ceil(groups[0] / dispatches), 1.0)), most);
}

// As many parts as tuning found best or else the rule says, and as many as are needed.
uint32_t parts_between(const AttentionProblem &problem, uint64_t rule, uint64_t fewest) {
    const uint64_t most = std::max(problem.kv_len / KEYS_OF_FLASH_TILE, 1u);
    const uint64_t wanted = problem.tile.parts == 0 ? rule : std::min<uint64_t>(problem.tile.parts, most);
    return static_cast<uint32_t>(std::max(wanted, fewest));
}

// Parts that fill the device, none so small that its merge costs more than it saves, none above what an invocation may
// attend.
uint32_t parts_of(const AttentionProblem &problem, const DeviceCaps &caps, FlashBody body) {
    const uint32_t row_groups = body == FlashBody::kTiles ? row_groups_of_tile(problem, caps) : kTileRowGroups;
    const uint32_t rows = rows_of_tile(problem, caps) * row_groups;
    const uint64_t workgroups = uint64_t{tiles(rows_of(problem), rows)} * problem.kv_heads * problem.batch;
    const uint64_t filling = uint64_t{caps.traits.parallel_workgroups} * (kTileRowGroups / row_groups);
    const uint64_t wanted = divide_up(filling, workgroups);
    const uint64_t most = std::max(problem.kv_len / kFewestKeysOfPart, 1u);
    return parts_between(problem, std::min(wanted, most),
                         tiles(problem.kv_len, keys_of_dispatch(problem, caps, KEYS_OF_FLASH_TILE)));
}

void plan_body(const AttentionProblem &problem, const DeviceCaps &caps, AttentionChoice &choice) {
    switch (choice.body) {
    case FlashBody::kTiles:
        return plan_tiles(problem, caps, choice);
    case FlashBody::kAddresses:
        return plan_addressed(problem, caps, choice);
    case FlashBody::kMatrices:
        break; // see coopmat_planner
    }
}

} // namespace

uint32_t keys_of_dispatch(const AttentionProblem &problem, const DeviceCaps &caps, uint32_t keys_of_tile) {
    if (caps.max_loop_iterations == 0) return problem.kv_len;
    return present(problem.block_mask) ? keys_of_tile : round_up(kKeysOfBoundedLoops, keys_of_tile);
}

bool decode_pays(const AttentionProblem &problem, const DeviceCaps &caps) {
    return rows_of(problem) <= (problem.value_in_key ? kLatentDecodeRows : kDecodeRows) &&
           problem.kv_len >= 2 * kFewestKeysOfPart && parts_of(problem, caps, body_of(problem, caps)) > 1;
}

void plan_flash(const AttentionProblem &problem, const DeviceCaps &caps, AttentionChoice &choice) {
    choice.body = body_of(problem, caps);
    choice.parts = 1;
    choice.keys_per_dispatch = keys_of_dispatch(problem, caps, KEYS_OF_FLASH_TILE);
    plan_body(problem, caps, choice);
    if (choice.keys_per_dispatch < problem.kv_len) {
        choice.scores = states_of(problem, 1);
        choice.dispatches[0].constants.FEATURES |= FEATURE_SPLIT_KEYS;
    }
    finish_parts(problem, caps, choice);
}

void plan_decode(const AttentionProblem &problem, const DeviceCaps &caps, AttentionChoice &choice) {
    choice.body = body_of(problem, caps);
    choice.parts = std::max(parts_of(problem, caps, choice.body), 2u); // a single one would need no merge
    choice.keys_per_dispatch = problem.kv_len;
    plan_body(problem, caps, choice);
    if (choice.keys_per_dispatch < problem.kv_len) choice.dispatches[0].constants.FEATURES |= FEATURE_SPLIT_KEYS;
    finish_parts(problem, caps, choice);
}

uint32_t parts_to_fill(const AttentionProblem &problem, const DeviceCaps &caps, uint64_t workgroups,
                       uint64_t most_keys) {
    const uint64_t wanted = std::max<uint64_t>(caps.traits.parallel_workgroups / workgroups, 1);
    const uint64_t most = std::max(problem.kv_len / kFewestKeysOfPart, 1u);
    return parts_between(problem, std::min(wanted, most), divide_up(problem.kv_len, most_keys));
}

void finish_parts(const AttentionProblem &problem, const DeviceCaps &caps, AttentionChoice &choice) {
    const char *name = vkattn_kernel_name(choice.kernel);
    choice.groups_per_dispatch = groups_per_dispatch(problem, caps, choice);
    Grid largest = choice.dispatches[0].groups;
    largest[0] = choice.groups_per_dispatch;
    require_fit(largest, caps, name);
    if (choice.parts == 1) return;
    choice.parameters.parts = choice.parts;
    choice.dispatches[0].constants.FEATURES |= FEATURE_PARTS;
    choice.scores = states_of(problem, choice.parts);
    choice.dispatches[1] = {constants_of(problem, kMergeWorkgroup),
                            {problem.q_len, problem.query_heads, problem.batch}};
    gpu::AttentionConstants &merge = choice.dispatches[1].constants;
    merge.FEATURES = (merge.FEATURES | FEATURE_PARTS) & FEATURES_OF_MERGE_PARTS;
    require_fit(choice.dispatches[1].groups, caps, name);
}

} // namespace vkattn
