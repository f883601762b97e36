// decode: the keys of each row split over workgroups and joined by a merge.
#include "runtime/kernels/decode_tile.hpp"
#include "runtime/kernels/flash.hpp"
#include "runtime/kernels/split_keys.hpp"
#include "runtime/support/error.hpp"
#include "runtime/support/rounding.hpp"

#include <algorithm>

namespace vkattn {
namespace {

constexpr uint64_t kRows = 64;        // of a KV head: more fill a device by themselves
constexpr uint64_t kLatentRows = 512; // the only KV head's: all heads of a few tokens

// Workgroups of so many invocations that fill the device.
uint64_t filling(const DeviceCaps &caps, uint32_t workgroup) {
    constexpr uint64_t kInvocations = 128; // of the workgroups that parallel_workgroups counts
    return caps.traits.parallel_workgroups * kInvocations / workgroup;
}

// flash's tile; of fewer keys where a part has no more, then of fewer rows where its parts leave half of the device idle.
FlashTile tile_of_parts(const AttentionProblem &problem, const DeviceCaps &caps) {
    constexpr uint32_t kKeysOfInvocation = 2; // fewer keys cost more reads of the rows than they save time
    FlashTile tile = flash_tile(problem, caps, {.parts = true});
    if (problem.tile.knobs[kRowsKnob] + problem.tile.knobs[kKeysKnob] != 0) return tile; // tuning knows better
    const auto workgroups = [&](const FlashTile &each) {
        return uint64_t{problem.kv_heads} * problem.batch * tiles(rows_of(problem), rows_of_tile(each));
    };
    const double keys = keys_that_pay(problem, {.count = workgroups(tile), .filling = filling(caps, tile.workgroup)});
    while (tile.keys > kKeysOfInvocation && keys_of_tile(tile) > std::max(keys, double{kFewestKeysOfPart}))
        tile = flash_tile(problem, caps, {true, tile.rows, tile.keys / 2});
    const uint64_t parts = tiles(problem.kv_len, keys_of_tile(tile));
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
uint32_t keys_of_tile(const AttentionShape::Dispatch &dispatch) {
    if (is_decode(dispatch)) return keys_of_step(dispatch);
    return dispatch.constants.COLUMNS * dispatch.constants.KEYS_OF_INVOCATION;
}

// The workgroups of a dispatch for all keys.
PartWorkgroups workgroups_of(const AttentionShape::Dispatch &dispatch, const DeviceCaps &caps) {
    const auto [x, y, z] = dispatch.groups;
    return {.count = uint64_t{x} * y * z,
            .filling = filling(caps, dispatch.constants.WORKGROUP_SIZE),
            .few_rows = is_decode(dispatch) ? dispatch.constants.ROWS : 0,
            .keys_of_tile = keys_of_tile(dispatch)};
}

// The shader's tile; of two rows where parts, as short as they may be, leave half of the device idle. A single row would read
// K too often.
DecodeTile tile_that_fills(const AttentionProblem &problem, const DeviceCaps &caps) {
    constexpr uint32_t kFewestRows = 2;
    const DecodeTile tile = decode_tile(problem, caps);
    const auto is_idle = [&](const DecodeTile &each) {
        const PartWorkgroups workgroups = workgroups_of(decode_dispatch(problem, each), caps);
        const uint32_t parts = parts_that_pay(problem, caps, workgroups), keys = tiles(problem.kv_len, parts);
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
    return rows_of(problem) <= (problem.value_in_key ? most_latent_rows(caps) : kRowsOfDecodeShader);
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

// Whether rows are so few, and keys so many, that splitting the keys is worth its merge.
bool pays(const AttentionProblem &problem, const DeviceCaps &caps, uint32_t parts) {
    return rows_of(problem) <= (problem.value_in_key ? kLatentRows : kRows) &&
           problem.kv_len >= 2 * kFewestKeysOfPart && (parts > 1 || flash_idles(problem, caps));
}

// Whether the tiles of matrix units, of 16 rows and many keys, would leave most of the device idle, or half of their rows
// empty while they wait for quantised keys.
bool idles_matrix_units(const AttentionProblem &problem, const DeviceCaps &caps) {
    constexpr uint64_t kScoresOfWorkgroup = 96;
    const uint64_t scores = rows_of(problem) * problem.kv_len * problem.kv_heads * problem.batch;
    if (!caps.cooperative_matrix || caps.traits.matrix_units == 0 || !takes_decode_shader(problem, caps)) return false;
    return scores <= kScoresOfWorkgroup * caps.traits.parallel_workgroups ||
           (is_quantised(problem.key.type) && rows_of(problem) <= kRowsOfDecodeShader);
}

AttentionAnswer answer(const AttentionProblem &problem, const DeviceCaps &caps) {
    AttentionShape shape{};
    shape.dispatches[0] = dispatch_of(problem, caps);
    const uint32_t parts = parts_that_pay(problem, caps, workgroups_of(shape.dispatches[0], caps));
    shape.parts = std::max(parts, 2u); // a single one would need no merge
    shape.dispatches[0].groups[0] *= shape.parts;
    shape.keys_per_dispatch = problem.kv_len;
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

constexpr const Shader *kShaders[] = {
    &shaders::decode, &shaders::decode_subgroups, &shaders::decode_halves,    &shaders::decode_halves_subgroups,
    &shaders::flash,  &shaders::flash_halves,     &shaders::flash_wide_halves, &shaders::merge_parts};

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
