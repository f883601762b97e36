#include "runtime/flash_planner.hpp"

#include "runtime/context/kernel_support.hpp"
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
constexpr uint32_t kStateHeader = 4;        // STATE_HEADER of shaders/lib/states.glsl
constexpr uint64_t kDecodeRows = 64;        // of a KV head: more fill a device by themselves
constexpr uint64_t kLatentDecodeRows = 512; // the only KV head's: all heads of a few tokens
constexpr uint32_t kFewestKeysOfPart = 256;
constexpr uint32_t kMergeWorkgroup = 32;
constexpr uint32_t kTileRowGroups = 16;        // at most
constexpr uint32_t kTilePitch = 9;             // vectors of four; PITCH of shaders/flash.comp
constexpr uint32_t kTileChunk = 32;            // dims; CHUNK of shaders/flash.comp
constexpr uint32_t kTileSums = 64;             // numbers of the output that an invocation holds
constexpr uint32_t kShuffledRows = 2;          // of an invocation
constexpr uint32_t kElementsInRegisters = 512; // of Q, and of sums, that an invocation of flash_keys holds
constexpr uint32_t kElementsInMemory = 1536;   // the same where its loops are loops: with more, compiling takes seconds

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

// ROW_GROUPS of shaders/flash.comp: no more than the problem has rows, as long as the workgroup fills a subgroup.
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
    if (problem.dropout_p > 0 || problem.batch_invariant) return false;
    return caps.buffers_have_addresses != 0 && problem.head_dim % kElementsOfBlock == 0 &&
           problem.v_head_dim % kElementsOfBlock == 0;
}

bool has_scalar_loads(const AttentionProblem &problem, const DeviceCaps &caps) {
    return caps.traits.scalar_address_loads != 0 && reads_through_addresses(problem, caps);
}

bool uses_addresses(const AttentionProblem &problem, const DeviceCaps &caps) {
    return has_scalar_loads(problem, caps) && problem.kv_len >= addressed_tile(problem, caps).step;
}

struct ShuffledTile {
    uint32_t rows; // of an invocation
    uint32_t lanes_of_row;
    uint32_t step; // keys
};

// Lanes that share a row: so many that few rows fill the subgroup, and that none has more head dims than compile in a
// few seconds.
uint32_t lanes_of_row(const AttentionProblem &problem, uint32_t rows_of_subgroup) {
    const uint32_t dims = std::max(problem.head_dim, problem.v_head_dim), most_dims = dims > 256 ? 128 : 256;
    uint32_t lanes = 1;
    const auto divides = [&](uint32_t dim) { return dim / kElementsOfBlock % (2 * lanes) == 0; };
    while (2 * lanes <= rows_of_subgroup / kShuffledRows && divides(problem.head_dim) && divides(problem.v_head_dim) &&
           (2 * lanes * rows_of(problem) <= rows_of_subgroup || dims / lanes > most_dims))
        lanes *= 2;
    return lanes;
}

// Measured on llvmpipe 25: two rows of an invocation share a shuffle, more need more registers than they save. What is
// written out for a step of keys is what compilation takes its time for.
ShuffledTile shuffled_tile(const AttentionProblem &problem, const DeviceCaps &caps) {
    ShuffledTile tile{kShuffledRows, lanes_of_row(problem, kShuffledRows * caps.subgroup_size), 16};
    const uint32_t dims = std::max(problem.head_dim, problem.v_head_dim) / tile.lanes_of_row;
    const uint32_t most = tile.lanes_of_row == 1 ? 1024 : 256; // elements of a step
    while (tile.step > 4 && tile.step * dims > most) tile.step /= 2;
    tile.step = std::bit_ceil(step_of(problem, tile.step));
    // a load takes whole blocks of a row's stretch: as many at a time as there are lanes for each key
    const uint32_t lanes = caps.subgroup_size / tile.lanes_of_row, stretch = kElementsOfBlock * tile.lanes_of_row;
    const auto divides = [&](uint32_t dim) { return dim / stretch % (lanes / tile.step) == 0; };
    while (tile.step < lanes && !(divides(problem.head_dim) && divides(problem.v_head_dim))) tile.step *= 2;
    return tile;
}

bool uses_shuffles(const AttentionProblem &problem, const DeviceCaps &caps) {
    constexpr VkSubgroupFeatureFlags kNeeded = VK_SUBGROUP_FEATURE_BASIC_BIT | VK_SUBGROUP_FEATURE_SHUFFLE_BIT;
    return caps.traits.shuffled_address_loads != 0 && (caps.subgroup_features & kNeeded) == kNeeded &&
           may_diverge(caps) && reads_through_addresses(problem, caps) && in_blocks(problem.key) &&
           in_blocks(problem.value);
}

struct KeysTile {
    uint32_t rows; // of an invocation
    uint32_t step; // keys
};

// Written out, Q and the sums are in registers; as loops, both are in memory, and a longer step pays for their way.
KeysTile keys_tile(const AttentionProblem &problem, const DeviceCaps &caps) {
    const bool unrolls = caps.traits.unroll_blocks != 0;
    const uint32_t dims = std::max(problem.head_dim, problem.v_head_dim);
    const uint32_t most = unrolls ? kElementsInRegisters / dims : std::clamp(kElementsInMemory / dims, 1u, 4u);
    return {static_cast<uint32_t>(std::min<uint64_t>(rows_of(problem), most)), unrolls ? 4u : 8u};
}

struct BodyTile {
    uint32_t rows; // of a workgroup
    uint32_t keys; // of a step
};

BodyTile body_tile(const AttentionProblem &problem, const DeviceCaps &caps, FlashBody body) {
    if (body == FlashBody::kTiles)
        return {rows_of_tile(problem, caps) * row_groups_of_tile(problem, caps), KEYS_OF_FLASH_TILE};
    if (body == FlashBody::kKeys) {
        const KeysTile tile = keys_tile(problem, caps);
        return {tile.rows, tile.step};
    }
    if (body == FlashBody::kShuffles) {
        const ShuffledTile tile = shuffled_tile(problem, caps);
        return {tile.rows * caps.subgroup_size / tile.lanes_of_row, tile.step};
    }
    const AddressedTile tile = addressed_tile(problem, caps);
    return {tile.workgroup_size, tile.step};
}

// Trips of an invocation's loops in a tile of shaders/flash.comp, as if the driver wrote out none of them.
uint64_t trips_of_tile(const AttentionProblem &problem, const DeviceCaps &caps) {
    constexpr uint64_t kBlocks = kTileChunk / kElementsOfBlock;
    const uint64_t rows = rows_of_tile(problem, caps), groups = row_groups_of_tile(problem, caps);
    const uint64_t chunks = tiles(problem.head_dim, kTileChunk), value_chunks = tiles(problem.v_head_dim, kTileChunk);
    // of an invocation, two blocks each: of K or of V, of Q
    const uint64_t loads = tiles(KEYS_OF_FLASH_TILE, static_cast<uint32_t>(2 * groups)), query_loads = tiles(rows, 2);
    // a block after the other, the last dims one by one: llvmpipe takes a trip of that loop where there are none, too
    const auto of_load = [](uint32_t dims) { return loop_trips(2, loop_trips(dims % kElementsOfBlock == 0 ? 1 : 3)); };
    const uint64_t of_keys = of_load(problem.head_dim), of_values = of_load(problem.v_head_dim);
    uint64_t trips = 1;
    trips += loop_trips(chunks, loop_trips(query_loads, of_keys) + loop_trips(loads, of_keys) + loop_trips(kBlocks));
    trips += loop_trips(4 * rows);                                                           // masks
    trips += loop_trips(rows, loop_trips(COLUMNS_OF_FLASH_TILE) + loop_trips(value_chunks)); // maxima, rescaled sums
    trips += loop_trips(value_chunks, loop_trips(loads, of_values) + loop_trips(COLUMNS_OF_FLASH_TILE));
    return trips + dropout_trips(problem, 4 * rows);
}

// Trips of an invocation's loops in a step of keys: at most, that is with the careful path that attends the rows again
// where a hidden value is not a number.
uint64_t trips_of_step(const AttentionProblem &problem, const DeviceCaps &caps, FlashBody body) {
    const auto chunks = [&](uint32_t dims) { return tiles(problem.head_dim, dims) + tiles(problem.v_head_dim, dims); };
    const BodyTile tile = body_tile(problem, caps, body);
    const uint64_t of_masks = block_trips(problem, tile.rows, tile.keys) + page_trips(problem, tile.keys);
    if (body == FlashBody::kTiles) return trips_of_tile(problem, caps) + of_masks;
    uint32_t of_key = chunks(BLOCKS_OF_FLASH_ROW_TRIP * kElementsOfBlock) + 4; // of lib/flash_row.glsl, and of the step
    if (body == FlashBody::kKeys && caps.traits.unroll_blocks == 0) of_key += chunks(tile.keys * kElementsOfBlock);
    uint64_t trips = uint64_t{of_key} * tile.keys + of_masks;
    if (present(problem.block_mask)) // next_seen_key, from block to block
        trips += loop_trips(tile.keys / problem.block_kv_len + 2, block_trips(problem, tile.rows, 1));
    return trips;
}

// Keys that one workgroup can attend in one dispatch, a multiple of the body's step.
uint32_t most_keys(const AttentionProblem &problem, const DeviceCaps &caps, FlashBody body) {
    if (caps.max_loop_iterations == 0) return problem.kv_len;
    uint32_t rows = 1; // of an invocation
    if (body == FlashBody::kShuffles) rows = kShuffledRows;
    if (body == FlashBody::kKeys) rows = keys_tile(problem, caps).rows;
    const uint64_t limit = caps.max_loop_iterations / rows;
    const uint64_t once = 4 * (problem.head_dim + problem.v_head_dim + kStateHeader); // a row is loaded and stored
    const uint64_t of_step = trips_of_step(problem, caps, body);
    if (once + of_step > limit)
        fail(VKATTN_ERROR_UNSUPPORTED, "flash: ", (once + of_step) * rows,
             " trips of loops for a step of keys, expected at most ", caps.max_loop_iterations, " on ", caps.name,
             ", whose shaders end a loop then",
             present(problem.block_mask) ? ": larger blocks in block_mask need fewer" : "");
    const uint64_t steps = (limit - once) / of_step;
    const uint64_t keys = steps * body_tile(problem, caps, body).keys;
    return static_cast<uint32_t>(
        std::min<uint64_t>(body == FlashBody::kKeys ? keys * caps.subgroup_size : keys, UINT32_MAX));
}

// flash_keys makes a vector of the keys, and reads K and V once for several rows in their storage format;
// flash_addresses makes a vector of the rows: with few rows most of that vector is idle, with 16-bit formats each load
// is a conversion. Its invocations walk their stretches side by side, and so cannot leave out a block of keys.
bool uses_keys(const AttentionProblem &problem, const DeviceCaps &caps) {
    constexpr VkSubgroupFeatureFlags kNeeded =
        VK_SUBGROUP_FEATURE_BASIC_BIT | VK_SUBGROUP_FEATURE_VOTE_BIT | VK_SUBGROUP_FEATURE_ARITHMETIC_BIT;
    if (rows_of(problem) > caps.traits.most_divergent_rows || (caps.subgroup_features & kNeeded) != kNeeded ||
        !may_diverge(caps) || !reads_through_addresses(problem, caps) || present(problem.block_mask) ||
        !in_blocks(problem.key) || !in_blocks(problem.value) || keys_tile(problem, caps).rows == 0)
        return false;
    const bool in_place = has_scalar_loads(problem, caps) && reads_in_place(problem);
    return !in_place || rows_of(problem) <= (has_f32_keys(problem) ? 2 : 4);
}

// Whether one dispatch takes all rows: of bodies whose grid is not shared out to several. Parts of the keys, of flash_keys,
// are as many as its loops need.
bool fits_one_dispatch(const AttentionProblem &problem, const DeviceCaps &caps, FlashBody body) {
    const uint64_t parts = body == FlashBody::kKeys ? tiles(problem.kv_len, most_keys(problem, caps, body)) : 1;
    return tiles(rows_of(problem), body_tile(problem, caps, body).rows) * parts <= caps.max_workgroup_count[0];
}

FlashBody body_of(const AttentionProblem &problem, const DeviceCaps &caps) {
    const auto fits = [&](FlashBody body) { return fits_one_dispatch(problem, caps, body); };
    if (uses_shuffles(problem, caps) && fits(FlashBody::kShuffles)) return FlashBody::kShuffles;
    if (uses_keys(problem, caps) && fits(FlashBody::kKeys)) return FlashBody::kKeys;
    return uses_addresses(problem, caps) && fits(FlashBody::kAddresses) ? FlashBody::kAddresses : FlashBody::kTiles;
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

void plan_keys(const AttentionProblem &problem, const DeviceCaps &caps, AttentionChoice &choice) {
    const KeysTile tile = keys_tile(problem, caps);
    choice.reason += "; a stretch of keys an invocation, K and V read through device addresses";
    choice.dispatches[0] = {constants_of(problem, caps.subgroup_size),
                            {tiles(rows_of(problem), tile.rows) * choice.parts, problem.kv_heads, problem.batch}};
    choice.dispatches[0].constants.ROWS = tile.rows;
    choice.dispatches[0].constants.STEP = tile.step;
    choice.dispatches[0].constants.UNROLL = caps.traits.unroll_blocks;
    address(problem.key, problem.value, choice);
}

void plan_shuffles(const AttentionProblem &problem, const DeviceCaps &caps, AttentionChoice &choice) {
    const ShuffledTile tile = shuffled_tile(problem, caps);
    const uint32_t tile_rows = tile.rows * caps.subgroup_size / tile.lanes_of_row;
    choice.reason += "; K and V are read through device addresses and shared by shuffles";
    choice.dispatches[0] = {constants_of(problem, caps.subgroup_size),
                            {tiles(rows_of(problem), tile_rows) * choice.parts, problem.kv_heads, problem.batch}};
    choice.dispatches[0].constants.ROWS = tile.rows;
    choice.dispatches[0].constants.LANES_OF_ROW = tile.lanes_of_row;
    choice.dispatches[0].constants.STEP = tile.step;
    address(problem.key, problem.value, choice);
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
    const uint32_t rows =
        body == FlashBody::kKeys ? keys_tile(problem, caps).rows : rows_of_tile(problem, caps) * row_groups;
    const uint64_t workgroups = uint64_t{tiles(rows_of(problem), rows)} * problem.kv_heads * problem.batch;
    const uint64_t filling = uint64_t{caps.traits.parallel_workgroups} * (kTileRowGroups / row_groups);
    const uint64_t wanted = divide_up(filling, workgroups);
    const uint64_t most = std::max(problem.kv_len / kFewestKeysOfPart, 1u);
    return parts_between(problem, std::min(wanted, most), tiles(problem.kv_len, most_keys(problem, caps, body)));
}

void plan_body(const AttentionProblem &problem, const DeviceCaps &caps, AttentionChoice &choice) {
    switch (choice.body) {
    case FlashBody::kTiles:
        return plan_tiles(problem, caps, choice);
    case FlashBody::kAddresses:
        return plan_addressed(problem, caps, choice);
    case FlashBody::kShuffles:
        return plan_shuffles(problem, caps, choice);
    case FlashBody::kKeys:
        return plan_keys(problem, caps, choice);
    case FlashBody::kMatrices:
        break; // see coopmat_planner
    }
}

} // namespace

uint64_t block_trips(const AttentionProblem &problem, uint64_t rows, uint64_t keys) {
    if (!present(problem.block_mask)) return 0;
    const uint64_t group = problem.query_heads / problem.kv_heads;
    const uint64_t heads = problem.block_mask.shape[1] == 1 ? 1 : group;
    const uint64_t positions = std::min<uint64_t>(rows / group + 2, problem.q_len);
    const uint64_t query_blocks = positions / problem.block_q_len + 2, key_blocks = keys / problem.block_kv_len + 2;
    return loop_trips(heads, loop_trips(query_blocks, loop_trips(key_blocks)));
}

uint64_t page_trips(const AttentionProblem &problem, uint64_t keys) {
    return present(problem.block_table) ? loop_trips(keys / problem.key.shape[2] + 2) : 0;
}

uint64_t dropout_trips(const AttentionProblem &problem, uint64_t weights) {
    constexpr uint64_t kRounds = 10; // of Philox
    return problem.dropout_p > 0 ? loop_trips(weights, loop_trips(kRounds)) : 0;
}

bool decode_pays(const AttentionProblem &problem, const DeviceCaps &caps) {
    return rows_of(problem) <= (problem.value_in_key ? kLatentDecodeRows : kDecodeRows) &&
           problem.kv_len >= 2 * kFewestKeysOfPart && parts_of(problem, caps, body_of(problem, caps)) > 1;
}

void plan_flash(const AttentionProblem &problem, const DeviceCaps &caps, AttentionChoice &choice) {
    choice.body = body_of(problem, caps);
    const uint32_t keys = most_keys(problem, caps, choice.body);
    // A context too long for one workgroup's loops takes several dispatches, or parts: flash_keys goes on from no
    // state.
    const bool resumes = choice.body != FlashBody::kKeys;
    choice.parts = resumes ? 1 : tiles(problem.kv_len, keys);
    choice.keys_per_dispatch = resumes ? keys : problem.kv_len;
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
    choice.dispatches[0].constants.PARTS = choice.parts;
    choice.scores = states_of(problem, choice.parts);
    choice.dispatches[1] = {constants_of(problem, kMergeWorkgroup),
                            {problem.q_len, problem.query_heads, problem.batch}};
    choice.dispatches[1].constants.PARTS = choice.parts;
    require_fit(choice.dispatches[1].groups, caps, name);
}

} // namespace vkattn
