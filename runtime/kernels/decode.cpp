// decode: the keys of each row split over workgroups and joined by a merge.
#include "runtime/device/gpu_tiles.hpp"
#include "runtime/kernels/flash.hpp"
#include "runtime/kernels/parameters.hpp"
#include "runtime/kernels/split_keys.hpp"
#include "runtime/support/error.hpp"
#include "runtime/support/rounding.hpp"

#include <algorithm>
#include <bit>

namespace vkattn {
namespace {

// How shaders/kernels/decode.comp divides a problem.
struct DecodeTile {
    const Shader *shader;
    uint32_t workgroup;     // invocations
    uint32_t subgroup_size; // to ask for, where sums go through subgroups
    uint32_t columns;       // invocations that read a row of K together: a group
    uint32_t rows;          // query rows of a workgroup
    uint32_t keys;          // of a group at a time
    bool query_staged;      // in shared memory, and not in registers
};

constexpr uint32_t kRowsOfDecodeShader = 8; // of a KV head, that share each read of K and V through a core's cache

constexpr uint32_t kWorkgroup = 128;
constexpr uint32_t kVector = 8; // dims; what an invocation reads at a time

// What K is multiplied as: f32, the 16 bits that K, V and Q are stored in, or the bytes of q8_0.
enum class Numbers { kFloats, kHalves, kBytes };

uint32_t keys_of(const DecodeLayout &layout, Numbers numbers, uint32_t rows) {
    if (numbers == Numbers::kBytes) return layout.keys_of_bytes;
    if (numbers == Numbers::kFloats) return layout.keys_of_others;
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
    return has_subgroup_operations(caps, kNeeded) && size != 0 && kWorkgroup % size == 0 &&
           (caps.max_workgroup_subgroups == 0 || kWorkgroup / size <= caps.max_workgroup_subgroups);
}

const Shader &shader_of(Numbers numbers, bool subgroups) {
    if (numbers == Numbers::kBytes) return subgroups ? shaders::decode_bytes_subgroups : shaders::decode_bytes;
    if (numbers == Numbers::kHalves) return subgroups ? shaders::decode_halves_subgroups : shaders::decode_halves;
    return subgroups ? shaders::decode_subgroups : shaders::decode;
}

// Whether dot products of bytes pay. Queries become numbers of 16 bits, for which those of f32 are held to too much.
bool multiplies_bytes(const AttentionProblem &problem, const DeviceCaps &caps) {
    constexpr uint64_t kFewestRows = 4;
    return is_built(shaders::decode_bytes) && problem.key.type == VKATTN_TYPE_Q8_0 &&
           problem.query.type != VKATTN_TYPE_F32 && !problem.value_in_key && caps.features.integer_dot_product &&
           caps.traits.byte_products != 0 && decode_layout(caps).keys_of_bytes != 0 &&
           rows_that_share_keys(problem) >= kFewestRows;
}

Numbers best_numbers(const AttentionProblem &problem, const DeviceCaps &caps) {
    if (multiplies_bytes(problem, caps)) return Numbers::kBytes;
    return is_in_halves(problem) ? Numbers::kHalves : Numbers::kFloats;
}

// What K is read as, and what sums go through.
struct Reading {
    Numbers numbers;
    bool subgroups;
};

// Returns the first combination that the self-test allows: the best numbers with subgroups, then without, then `next` in the same
// order. Where it allows none, returns the best.
Reading sound_reading(const Reading &best, Numbers next, const AttentionProblem &problem, const DeviceCaps &caps) {
    const CodePaths paths = paths_of(problem) | kPathParts;
    for (const Numbers numbers : {best.numbers, next})
        for (const bool subgroups : {true, false})
            if (subgroups <= best.subgroups && !is_off(caps, shader_of(numbers, subgroups), paths))
                return {numbers, subgroups};
    return best;
}

// That an invocation reads from neighbouring dims: half a block of bytes.
uint32_t neighbours_of(Numbers numbers) { return numbers == Numbers::kBytes ? 2 : 1; }

uint32_t vectors_of(uint32_t dims, const DecodeTile &tile, Numbers numbers) {
    return tiles(dims, kVector * neighbours_of(numbers) * tile.columns) * neighbours_of(numbers);
}

// Of a vector of a query in shared memory; half the scale of half a block.
uint64_t query_bytes(Numbers numbers) {
    constexpr uint64_t kBytes = 18, kHalves = 16, kFloats = 32;
    return numbers == Numbers::kBytes ? kBytes : numbers == Numbers::kHalves ? kHalves : kFloats;
}

uint64_t shared_bytes(const AttentionProblem &problem, const DecodeTile &tile, Numbers numbers) {
    const uint64_t groups = tile.workgroup / tile.columns, scores = groups * tile.rows * tile.keys;
    const uint64_t outputs = uint64_t{tile.workgroup} * kVector * vectors_of(problem.v_head_dim, tile, numbers);
    const uint64_t queries = tile.rows * tile.columns * vectors_of(problem.head_dim, tile, numbers);
    return 4 * (std::max(scores * (tile.columns + 1), outputs) + scores + 2 * groups * tile.rows) +
           (tile.query_staged || numbers == Numbers::kBytes ? queries * query_bytes(numbers) : 16);
}

// Numbers that an invocation holds: its part of the output, of K and of V.
uint32_t registers_of(const AttentionProblem &problem, const DecodeTile &tile, Numbers numbers) {
    constexpr uint32_t kBytes = 2; // words of a vector
    const uint32_t keys = vectors_of(problem.head_dim, tile, numbers),
                   values = vectors_of(problem.v_head_dim, tile, numbers);
    const uint32_t read = problem.value_in_key ? std::max(keys, values) : keys + values;
    return tile.rows * values * kVector + tile.keys * read *
                                              (numbers == Numbers::kBytes    ? kBytes
                                               : numbers == Numbers::kHalves ? kVector / 2
                                                                             : kVector);
}

// Fewer keys at a time where heads are large, and fewer rows where those are not enough.
void fit(const AttentionProblem &problem, const DeviceCaps &caps, Numbers numbers, uint32_t registers,
         DecodeTile &tile) {
    const auto smaller = [&] {
        if (tile.rows * tile.keys == 1) return false;
        (tile.keys > 1 ? tile.keys : tile.rows) /= 2;
        return tile.rows * tile.keys > 1;
    };
    while (registers_of(problem, tile, numbers) > registers && smaller()) {
    }
    while (shared_bytes(problem, tile, numbers) > caps.max_shared_memory_bytes && smaller()) {
    }
}

constexpr uint32_t kFewestColumns = 4;

// As many as a row of K has vectors.
uint32_t columns_of(const AttentionProblem &problem, uint32_t most, Numbers numbers) {
    const uint32_t dims = std::max(problem.head_dim, problem.v_head_dim);
    return std::min(std::max(std::bit_ceil(tiles(dims, kVector * neighbours_of(numbers))), kFewestColumns), most);
}

bool is_decode(const AttentionShape::Dispatch &dispatch) { return are_variants(*dispatch.shader, shaders::decode); }

uint32_t keys_of_step(const AttentionShape::Dispatch &dispatch) {
    const gpu::AttentionConstants &c = dispatch.constants;
    return c.WORKGROUP_SIZE / c.COLUMNS * c.KEYS_OF_INVOCATION;
}

// best: the numbers to prefer. Of best_numbers and f32, the other is the fallback.
DecodeTile decode_tile(const AttentionProblem &problem, const DeviceCaps &caps, Numbers best) {
    static constexpr uint32_t kMostColumns = 32, kMostTuned = 8;
    const DecodeLayout layout = decode_layout(caps);
    const Numbers next = best == Numbers::kFloats ? best_numbers(problem, caps) : Numbers::kFloats;
    const auto [numbers, subgroups] =
        sound_reading({best, layout.subgroups && has_subgroups(caps)}, next, problem, caps);
    const uint32_t subgroup_size = subgroups ? subgroup_size_of(caps) : 0;
    const uint32_t most_columns = subgroups ? std::min(kMostColumns, subgroup_size) : kMostColumns;
    const auto rows =
        static_cast<uint32_t>(std::min<uint64_t>(std::bit_ceil(rows_that_share_keys(problem)), layout.most_rows));
    DecodeTile tile{.shader = &shader_of(numbers, subgroups),
                    .workgroup = kWorkgroup,
                    .subgroup_size = subgroup_size,
                    .columns = columns_of(problem, most_columns, numbers),
                    .rows = rows,
                    .keys = keys_of(layout, numbers, rows),
                    .query_staged = numbers == Numbers::kFloats || layout.stages_halves};
    const auto tuned = [](uint32_t wanted) { return std::bit_floor(std::clamp(wanted, 1u, kMostTuned)); };
    if (problem.tile.knobs[kColumnsKnob] != 0) { // unless not even the smallest tile of so many fits
        DecodeTile smallest = tile;
        smallest.rows = smallest.keys = 1;
        smallest.columns =
            std::min(std::bit_floor(std::max(problem.tile.knobs[kColumnsKnob], kFewestColumns)), most_columns);
        if (shared_bytes(problem, smallest, numbers) <= caps.max_shared_memory_bytes) tile.columns = smallest.columns;
    }
    if (problem.tile.knobs[kRowsKnob] != 0) tile.rows = tuned(problem.tile.knobs[kRowsKnob]);
    if (problem.tile.knobs[kKeysKnob] != 0) tile.keys = tuned(problem.tile.knobs[kKeysKnob]);
    const bool is_tuned = problem.tile.knobs[kRowsKnob] + problem.tile.knobs[kKeysKnob] != 0;
    const uint32_t registers = layout.registers - (present(problem.block_table) ? layout.of_pages : 0);
    fit(problem, caps, numbers, is_tuned ? UINT32_MAX : registers, tile);
    return tile;
}

AttentionShape::Dispatch decode_dispatch(const AttentionProblem &problem, const DecodeTile &tile) {
    AttentionShape::Dispatch dispatch{
        tile.shader,
        constants_of(problem, tile.workgroup),
        {tiles(row_tiles(problem, tile.rows), 1), problem.kv_heads, grid_sequences(problem)}};
    dispatch.constants.ROWS = tile.rows;
    if (tile.subgroup_size != 0) dispatch.constants.SUBGROUP_SIZE = tile.subgroup_size;
    dispatch.constants.COLUMNS = tile.columns;
    dispatch.constants.KEYS_OF_INVOCATION = tile.keys;
    dispatch.constants.QUERY_STAGED = tile.query_staged ? 1 : 0;
    dispatch.constants.VALUE_IN_KEY = problem.value_in_key ? 1 : 0;
    return dispatch;
}

constexpr uint64_t kRows = 64;        // of a KV head: more fill a device by themselves
constexpr uint64_t kLatentRows = 512; // the only KV head's: all heads of a few tokens

// Workgroups of so many invocations that fill the device.
uint64_t filling(const DeviceCaps &caps, uint32_t workgroup) { return invocations_that_fill(caps) / workgroup; }

// flash's tile; of fewer keys where a part has no more, then of fewer rows where its parts leave half of the device idle.
FlashTile tile_of_parts(const AttentionProblem &problem, const DeviceCaps &caps) {
    constexpr uint32_t kKeysOfInvocation = 2; // fewer keys cost more reads of the rows than they save time
    FlashTile tile = flash_tile(problem, caps, {.parts = true});
    if (problem.tile.knobs[kRowsKnob] + problem.tile.knobs[kKeysKnob] != 0) return tile; // tuning knows better
    const auto workgroups = [&](const FlashTile &each) {
        return uint64_t{problem.kv_heads} * grid_sequences(problem) * row_tiles(problem, rows_of_tile(each));
    };
    const double keys = keys_that_pay(problem, {.count = workgroups(tile), .filling = filling(caps, tile.workgroup)});
    while (tile.keys > kKeysOfInvocation && keys_of_tile(tile) > std::max(keys, double{kFewestKeysOfPart}))
        tile = flash_tile(problem, caps, {true, tile.rows, tile.keys / 2});
    const uint64_t parts = tiles(slots_of(problem), keys_of_tile(tile));
    return halve_rows_while(
        problem.tile.knobs[kRowsKnob], tile, 1,
        [&](const FlashTile &each) {
            return 2 * kWorkgroupsOfCore * workgroups(each) * parts <= caps.traits.parallel_workgroups;
        },
        [&](uint32_t rows) {
            return flash_tile(problem, caps, {true, rows, tile.keys});
        });
}

// What either shader takes at a time.
uint32_t tile_keys(const AttentionShape::Dispatch &dispatch) {
    if (is_decode(dispatch)) return keys_of_step(dispatch);
    return dispatch.constants.COLUMNS * dispatch.constants.KEYS_OF_INVOCATION;
}

// The workgroups of a dispatch for all keys.
PartWorkgroups workgroups_of(const AttentionShape::Dispatch &dispatch, const DeviceCaps &caps) {
    const auto [x, y, z] = dispatch.groups;
    return {.count = uint64_t{x} * y * z,
            .filling = filling(caps, dispatch.constants.WORKGROUP_SIZE),
            .few_rows = is_decode(dispatch) ? dispatch.constants.ROWS : 0,
            .keys_of_tile = tile_keys(dispatch)};
}

// In bytes, a step over the keys is short, and what begins and ends a part is long: parts of fewer than two steps take f32.
DecodeTile tile_of_rule(const AttentionProblem &problem, const DeviceCaps &caps) {
    const Numbers best = best_numbers(problem, caps);
    const DecodeTile tile = decode_tile(problem, caps, best);
    if (best != Numbers::kBytes) return tile;
    const PartWorkgroups workgroups = workgroups_of(decode_dispatch(problem, tile), caps);
    const uint32_t keys = tiles(slots_of(problem), parts_that_pay(problem, caps, workgroups));
    return keys < 2 * workgroups.keys_of_tile ? decode_tile(problem, caps, Numbers::kFloats) : tile;
}

// The shader's tile; of two rows where parts, as short as they may be, leave half of the device idle. A single row would read
// K too often.
DecodeTile tile_that_fills(const AttentionProblem &problem, const DeviceCaps &caps) {
    constexpr uint32_t kFewestRows = 2;
    const DecodeTile tile = tile_of_rule(problem, caps);
    const auto is_idle = [&](const DecodeTile &each) {
        const PartWorkgroups workgroups = workgroups_of(decode_dispatch(problem, each), caps);
        const uint32_t parts = parts_that_pay(problem, caps, workgroups), keys = tiles(slots_of(problem), parts);
        const uint32_t fewest = std::max(workgroups.keys_of_tile, fewest_keys_of_part(problem, workgroups));
        return 2 * workgroups.count * parts <= workgroups.filling && keys <= 2 * fewest;
    };
    return halve_rows_while(problem.tile.knobs[kRowsKnob], tile, kFewestRows, is_idle, [&](uint32_t rows) {
        DecodeTile smaller = tile;
        smaller.rows = rows;
        return smaller;
    });
}

bool takes_decode_shader(const AttentionProblem &problem, const DeviceCaps &caps) {
    const uint64_t rows = rows_that_share_keys(problem);
    if (!problem.value_in_key || rows <= kRowsOfDecodeShader) return rows <= kRowsOfDecodeShader;
    const DecodeLayout layout = decode_layout(caps);
    if (rows > layout.latent_rows) return false;
    const bool dots = flash_tile(problem, caps, {.parts = true}).shader == &shaders::flash_dots;
    const uint64_t all_rows =
        std::min(rows * problem.kv_heads * problem.batch, problem.query_heads * query_positions(problem));
    const uint64_t scores = all_rows * slots_of(problem);
    return scores / caps.traits.parallel_workgroups <= (dots ? layout.latent_scores_beside_dots : layout.latent_scores);
}

// One dispatch for all keys, in one part: decode's own for a few rows, flash's for more.
AttentionShape::Dispatch dispatch_of(const AttentionProblem &problem, const DeviceCaps &caps) {
    return takes_decode_shader(problem, caps) ? decode_dispatch(problem, tile_that_fills(problem, caps))
                                              : flash_dispatch(problem, tile_of_parts(problem, caps), 1);
}

// Whether flash would leave half of the device idle, its workgroups being small where rows are few.
bool flash_idles(const AttentionProblem &problem, const DeviceCaps &caps) {
    const AttentionShape::Dispatch flash = flash_dispatch(problem, flash_tile(problem, caps), 1);
    const auto [x, y, z] = flash.groups;
    return 2 * uint64_t{x} * y * z <= filling(caps, flash.constants.WORKGROUP_SIZE);
}

// Whether flash would wait for memory where decode's own shader, which has more loads under way, does not.
bool flash_waits(const AttentionProblem &problem, const DeviceCaps &caps) {
    return decode_layout(caps).takes_many && !problem.value_in_key && !present(problem.key_indices) &&
           takes_decode_shader(problem, caps);
}

// Whether rows are so few, and keys so many, that splitting the keys is worth its merge. Not on llvmpipe, where lists are left to
// the tiles: 2048 keys of MLA 576/512 take it 18 ms in tiles and 87 in parts, 16 heads. Where flash waits, few keys are: 16 of 8
// heads of 128 take navi31 12.0 us in flash, 3.4 and 1.4 for the merge here, by its modelled time.
bool pays(const AttentionProblem &problem, const DeviceCaps &caps, uint32_t parts) {
    if (present(problem.key_indices) && caps.traits.scalar_address_loads != 0) return false;
    if (rows_that_share_keys(problem) > (problem.value_in_key ? kLatentRows : kRows)) return false;
    constexpr uint64_t kFewestKeysWhereFlashWaits = 16;
    const uint64_t keys = slots_of(problem);
    return (keys >= kFewestKeysWhereFlashWaits && flash_waits(problem, caps)) ||
           (keys >= 2 * kFewestKeysOfPart && (parts > 1 || flash_idles(problem, caps)));
}

// Whether the tiles of matrix units, of 16 rows and many keys, would leave most of the device idle, or half of their rows
// empty while they wait for quantised or for large keys: 4096 keys of 256 elements take navi31 32.8 us on them, 8.7 here.
bool idles_matrix_units(const AttentionProblem &problem, const DeviceCaps &caps) {
    constexpr uint64_t kScoresOfWorkgroup = 96, kLargestHead = 128;
    const uint64_t scores = problem.query_heads * query_positions(problem) * slots_of(problem);
    if (!caps.cooperative_matrix || caps.traits.matrix_units != 1 || !takes_decode_shader(problem, caps)) return false;
    return scores <= kScoresOfWorkgroup * caps.traits.parallel_workgroups ||
           ((is_quantised(problem.key.type) || problem.head_dim > kLargestHead) &&
            rows_that_share_keys(problem) <= kRowsOfDecodeShader);
}

AttentionAnswer answer(const AttentionProblem &problem, const DeviceCaps &caps) {
    AttentionShape shape{};
    shape.dispatches[0] = dispatch_of(problem, caps);
    const uint32_t parts = parts_that_pay(problem, caps, workgroups_of(shape.dispatches[0], caps));
    shape.parts = std::max(parts, 2u); // a single one would need no merge
    shape.dispatches[0].groups[0] *= shape.parts;
    shape.keys_per_dispatch = slots_of(problem);
    finish_parts(problem, caps, shape);
    const Rank rank = !pays(problem, caps, parts)         ? Rank::kPartsDoNotPay
                      : idles_matrix_units(problem, caps) ? Rank::kFewRowsIdleTheMatrices
                                                          : Rank::kFewRows;
    return {.rank = rank, .shape = shape};
}

std::string describe(const AttentionShape &shape) {
    if (!is_decode(shape.dispatches[0])) return describe_flash(shape);
    const gpu::AttentionConstants &c = shape.dispatches[0].constants;
    return text(c.WORKGROUP_SIZE / c.COLUMNS, " x ", c.COLUMNS, " invocations of ", c.KEYS_OF_INVOCATION, " keys, ",
                c.ROWS, c.ROWS == 1 ? " row" : " rows");
}

constexpr uint32_t kRowsToTry[] = {1, 2, 4, 8}, kKeysToTry[] = {3, 4, 8, 16, 32, 64, 128},
                   kColumnsToTry[] = {8, 16, 32};
constexpr Knob kKnobs[] = {{"rows", kRowsToTry},        // of a workgroup; of an invocation of flash
                           {"keys", kKeysToTry},        // of a group at a time; of a tile of flash
                           {"columns", kColumnsToTry}}; // invocations that read a row of K together

constexpr const Shader *kShaders[] = {&shaders::decode,
                                      &shaders::decode_subgroups,
                                      &shaders::decode_halves,
                                      &shaders::decode_halves_subgroups,
                                      &shaders::decode_bytes,
                                      &shaders::decode_bytes_subgroups,
                                      &shaders::flash,
                                      &shaders::flash_halves,
                                      &shaders::flash_wide_halves,
                                      &shaders::flash_dots,
                                      &shaders::flash_split,
                                      &shaders::merge_parts};

} // namespace

const AttentionKernel kDecode = {
    .kernel = VKATTN_KERNEL_DECODE,
    .name = "decode",
    .shaders = kShaders,
    .merit = "few query rows over many keys, which are split to fill the device",
    .few_rows = true,
    .missing = obstacle_of_arrays,
    .answer = answer,
    .describe = describe,
    .knobs = kKnobs,
    .latent_kernel = VKATTN_KERNEL_LATENT_DECODE,
    .latent_name = "latent_decode",
};

} // namespace vkattn
