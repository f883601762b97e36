#include "runtime/kernels/flash_tile.hpp"

#include "runtime/kernels/flash.hpp"
#include "runtime/kernels/halves.hpp"
#include "runtime/support/rounding.hpp"

#include <algorithm>
#include <bit>

namespace vkattn {
namespace {

constexpr uint32_t kWorkgroup = 128;
constexpr uint32_t kVector = 8;                       // dims; what the shader stages at a time
constexpr uint32_t kFewestDims = 32, kFewestKeys = 4; // of a chunk; fewer dims where shared memory ends

struct Shape {
    const Shader *shader;
    uint32_t blocks;       // of four dims of a row's output, of an invocation: more invocations share rows of more dims
    uint32_t rows, keys;   // of an invocation
    uint32_t shared_bytes; // of a workgroup, so that enough of them find room on a core
};

// What a kind of GPU likes best: found by what Mesa's compilers make of the shader (scripts/gpu-lab search; its evidence is
// bench/results/gpu-lab/tiles).
struct Liking {
    Shape usual;
    Shape large;               // where a row of V is longer than usual
    uint32_t usual_dims = 128; // of a row of V, at most
};

// halves: K, V and Q are of 16 bits; what else there is goes through shaders::flash.
constexpr Liking liking_of(GpuClass gpu, bool halves) {
    switch (gpu) {
    case GpuClass::kGcn: // converts each 16-bit value by itself
        return {{&shaders::flash, 2, 4, 4, 16 << 10}, {&shaders::flash, 1, 4, 4, 16 << 10}};
    case GpuClass::kRdna:
        return {{&shaders::flash_halves, 2, 4, 4, 16 << 10}, {&shaders::flash_halves, 4, 4, 4, 16 << 10}};
    case GpuClass::kApple:
        if (!halves) return {{&shaders::flash, 2, 4, 4, 16 << 10}, {&shaders::flash, 2, 2, 4, 16 << 10}, 256};
        return {{&shaders::flash_halves, 4, 4, 4, 24 << 10}, {&shaders::flash_halves, 4, 4, 4, 16 << 10}};
    case GpuClass::kAdreno:
        return {{&shaders::flash, 1, 4, 4, 16 << 10}, {&shaders::flash, 4, 4, 4, 16 << 10}};
    case GpuClass::kMali: // an invocation has 64 registers at most; two workgroups in 32 KiB
        return {{&shaders::flash_wide_halves, 2, 2, 2, 16 << 10}, {&shaders::flash_halves, 2, 1, 4, 16 << 10}, 256};
    case GpuClass::kIntel:
        return {{&shaders::flash_halves, 1, 4, 4, 16 << 10}, {&shaders::flash_wide_halves, 4, 2, 4, 24 << 10}};
    case GpuClass::kNvidia: // its conversions run at half the rate of its products, or less
        if (!halves) return {{&shaders::flash, 3, 4, 4, 40 << 10}, {&shaders::flash, 3, 4, 2, 40 << 10}, 384};
        return {{&shaders::flash_halves, 1, 4, 4, 16 << 10}, {&shaders::flash_wide_halves, 1, 4, 2, 32 << 10}};
    default:
        return {{&shaders::flash, 3, 4, 4, 32 << 10}, {&shaders::flash, 3, 2, 4, 32 << 10}, 384};
    }
}

uint32_t element_dims(const Shader *shader) { return shader == &shaders::flash_wide_halves ? 8 : 4; }

uint64_t element_bytes(const Shader *shader) { return shader == &shaders::flash_halves ? 8 : 16; }

constexpr uint32_t kFewestColumns = 8, kMostColumns = 32, kFewestSharedBytes = 8 << 10;

uint32_t columns_for(uint32_t v_head_dim, uint32_t blocks) {
    return std::clamp(std::bit_ceil(tiles(v_head_dim, 4 * blocks)), kFewestColumns, kMostColumns);
}

uint64_t query_bytes(const AttentionProblem &problem, const FlashTile &tile) {
    const uint32_t dims = tile.query_staged ? round_up(problem.head_dim, tile.dims_of_chunk) : tile.dims_of_chunk;
    return rows_of_tile(tile) * (dims / element_dims(tile.shader) + 1) * element_bytes(tile.shader);
}

uint64_t key_bytes(const FlashTile &tile, uint32_t dims) {
    return keys_of_tile(tile) * (dims / element_dims(tile.shader) + 1) * element_bytes(tile.shader);
}

uint64_t value_bytes(const AttentionProblem &problem, const FlashTile &tile, uint32_t keys) {
    const uint32_t elements = tiles(problem.v_head_dim, element_dims(tile.shader));
    return keys * (round_up(elements, tile.columns) + uint64_t{1}) * element_bytes(tile.shader);
}

uint64_t weight_bytes(const FlashTile &tile) { return rows_of_tile(tile) * keys_of_tile(tile) * sizeof(float); }

uint64_t shared_bytes(const AttentionProblem &problem, const FlashTile &tile) {
    const uint64_t columns = uint64_t{rows_of_tile(tile)} * tile.columns * sizeof(float);
    return query_bytes(problem, tile) + weight_bytes(tile) +
           std::max({key_bytes(tile, tile.dims_of_chunk), value_bytes(problem, tile, tile.keys_of_chunk), columns});
}

// The most dims whose chunks have no more of them than K, within so many bytes; the fewest where none is.
uint32_t dims_of_chunk(const AttentionProblem &problem, const FlashTile &tile, uint64_t bytes, uint32_t fewest) {
    const uint32_t vectors = tiles(problem.head_dim, kVector);
    uint32_t dims = vectors * kVector;
    for (uint32_t chunks = 2; chunks <= vectors && key_bytes(tile, dims) > bytes; ++chunks)
        if (vectors % chunks == 0 && vectors / chunks * kVector >= fewest) dims = vectors / chunks * kVector;
    return dims;
}

// Chunks that make the most of what queries and weights leave of so many bytes.
void set_chunks(const AttentionProblem &problem, uint64_t bytes, uint32_t fewest_dims, FlashTile &tile) {
    tile.dims_of_chunk = kVector;
    const uint64_t taken = query_bytes(problem, tile) + weight_bytes(tile);
    const uint64_t room = bytes > taken ? bytes - taken : 0;
    tile.dims_of_chunk = dims_of_chunk(problem, tile, tile.query_staged ? room : room / 2, fewest_dims);
    const uint64_t most = std::max(room, key_bytes(tile, tile.dims_of_chunk));
    tile.keys_of_chunk = keys_of_tile(tile);
    while (tile.keys_of_chunk > kFewestKeys && value_bytes(problem, tile, tile.keys_of_chunk) > most)
        tile.keys_of_chunk /= 2;
}

// Queries that stay in shared memory, and chunks, as far as they fit into so many bytes and an eighth more.
void set_tiles(const AttentionProblem &problem, uint64_t bytes, FlashTile &tile) {
    tile.query_staged = true;
    set_chunks(problem, bytes, kFewestDims, tile);
    if (shared_bytes(problem, tile) <= bytes + bytes / 8) return;
    tile.query_staged = false;
    for (uint32_t dims = kFewestDims; dims >= kVector; dims /= 2) {
        set_chunks(problem, bytes, dims, tile);
        if (shared_bytes(problem, tile) <= bytes) return;
    }
}

void fit(const AttentionProblem &problem, uint64_t wanted_bytes, const DeviceCaps &caps, FlashTile &tile) {
    constexpr uint64_t kReached = 64 << 10; // by the shader's indices, of 8192 elements
    const uint64_t limit = std::min<uint64_t>(caps.max_shared_memory_bytes, kReached);
    set_tiles(problem, std::min(wanted_bytes, limit * 8 / 9), tile);
    while (shared_bytes(problem, tile) > limit && tile.rows * tile.keys > 1) {
        (tile.rows > 1 ? tile.rows : tile.keys) /= 2;
        set_tiles(problem, limit * 8 / 9, tile);
    }
}

// No more rows than the problem has, as long as the workgroup fills a subgroup.
void drop_empty_rows(const AttentionProblem &problem, const DeviceCaps &caps, bool keep_rows, FlashTile &tile) {
    if (problem.batch_invariant) return;
    const uint64_t rows = rows_of(problem);
    while (!keep_rows && tile.rows > 1 && rows_of_tile(tile) / 2 >= rows) tile.rows /= 2;
    while (rows_of_tile(tile) / 2 >= rows && tile.workgroup / 2 >= std::max(caps.subgroup_size, tile.columns))
        tile.workgroup /= 2;
}

// How the shader stages K, V and Q; all but the first take 16-bit values alone.
constexpr const Shader *kStagings[] = {&shaders::flash, &shaders::flash_halves, &shaders::flash_wide_halves};

// The shader, or the first in its place that the self-test has not ruled out.
const Shader *sound_shader(const Shader *wanted, bool halves, const DeviceCaps &caps, CodePaths paths) {
    if (!is_off(caps, *wanted, paths) || !halves) return wanted;
    const auto is_sound = [&](const Shader *shader) { return !is_off(caps, *shader, paths); };
    const auto *found = std::ranges::find_if(kStagings, is_sound);
    return found == std::end(kStagings) ? wanted : *found;
}

// What tuning found, as far as the shader can take it.
void take_tuned(const KernelTile &tuned, bool halves, FlashTile &tile) {
    static constexpr uint32_t kMost = 4;
    const auto power = [](uint32_t wanted) { return std::bit_floor(std::clamp(wanted, 1u, kMost)); };
    const auto &knobs = tuned.knobs;
    const uint32_t staging = knobs[kStagingKnob];
    if (knobs[kColumnsKnob] != 0)
        tile.columns = std::bit_floor(std::clamp(knobs[kColumnsKnob], kFewestColumns, kMostColumns));
    if (knobs[kRowsKnob] != 0) tile.rows = power(knobs[kRowsKnob]);
    if (knobs[kKeysKnob] != 0) tile.keys = power(knobs[kKeysKnob] / tile.columns);
    if (halves && staging != 0 && staging <= std::size(kStagings)) tile.shader = kStagings[staging - 1];
}

} // namespace

FlashTile flash_tile(const AttentionProblem &problem, const DeviceCaps &caps, const FlashUse &use) {
    const bool halves = is_in_halves(problem);
    const Liking liking = liking_of(static_cast<GpuClass>(caps.traits.gpu_class), halves);
    const Shape &shape = problem.v_head_dim > liking.usual_dims ? liking.large : liking.usual;
    FlashTile tile{.shader = halves ? shape.shader : &shaders::flash,
                   .workgroup = kWorkgroup,
                   .columns = columns_for(problem.v_head_dim, shape.blocks),
                   .rows = std::min(shape.rows, use.most_rows),
                   .keys = std::min(shape.keys, use.most_keys),
                   .dims_of_chunk = kVector,
                   .keys_of_chunk = kFewestKeys,
                   .query_staged = true};
    take_tuned(problem.tile, halves, tile);
    tile.shader = sound_shader(tile.shader, halves, caps, paths_of(problem) | (use.parts ? kPathParts : 0));
    drop_empty_rows(problem, caps, problem.tile.knobs[kRowsKnob] != 0, tile);
    const uint32_t wanted_bytes = problem.tile.knobs[kSharedBytesKnob];
    fit(problem, wanted_bytes == 0 ? shape.shared_bytes : std::max(wanted_bytes, kFewestSharedBytes), caps, tile);
    return tile;
}

} // namespace vkattn
