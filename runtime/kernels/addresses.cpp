// The body for CPU drivers, shaders/cpu/addresses.comp: K and V through device addresses, as they lie or as f32 copies
// of a stretch of the keys.
#include "runtime/kernels/parameters.hpp"
#include "runtime/kernels/split_keys.hpp"
#include "runtime/support/error.hpp"
#include "runtime/support/rounding.hpp"

#include <algorithm>

namespace vkattn {
namespace {

constexpr uint32_t kMostRows = 32; // of a workgroup
constexpr uint32_t kElementsOfBlock = 4;
constexpr uint64_t kStagedBytes = uint64_t{64} << 20; // of K and V together
constexpr uint64_t kFewestStagedKeys = 256;
constexpr uint64_t kRowsOfDecode = 64; // of a KV head: more fill the device by themselves

bool has_dense_keys(const AttentionProblem &problem) {
    return !present(problem.cu_seqlens_k) && !present(problem.block_table);
}

bool has_f32_keys(const AttentionProblem &problem) {
    return problem.key.type == VKATTN_TYPE_F32 && problem.value.type == VKATTN_TYPE_F32;
}

// Whether K and V are read where they are. Every workgroup widens other formats than f32 anew: several are better off
// with copies.
bool reads_in_place(const AttentionProblem &problem) {
    return has_dense_keys(problem) && rows_are_in_blocks(problem, problem.key) &&
           rows_are_in_blocks(problem, problem.value) &&
           (has_f32_keys(problem) || present(problem.key_indices) || rows_of(problem) <= kMostRows);
}

struct Tile {
    uint32_t workgroup_size;
    uint32_t step; // keys
    bool reads_ahead;
};

// Measured on llvmpipe 26. Above 128 the rows' arrays leave less of the first cache for K and V. One vector of rows
// waits for memory: H32/8 Lk4096 D128 (f32) takes 4.4 ms at 8 keys a step, 1.8 at 3 with reads ahead (AMD Zen 4); many
// rows have what was read ahead in the second cache, and would only load it twice.
Tile tile_of(const AttentionProblem &problem, const DeviceCaps &caps) {
    constexpr uint32_t kFewestKeys = 3, kMostKeys = 16;
    const uint32_t subgroups = tiles(std::min<uint64_t>(rows_that_share_keys(problem), kMostRows), caps.subgroup_size);
    const uint32_t dims = problem.head_dim;
    const bool reads_ahead = subgroups == 1 && dims <= 128 && reads_in_place(problem) && !present(problem.key_indices);
    const uint32_t tuned = problem.tile.knobs[0];
    uint32_t rule = dims > 96 ? 6 : 8;
    if (reads_ahead && dims > (has_f32_keys(problem) ? 64 : 32)) rule = 3;
    const uint32_t step = tuned == 0 ? rule : std::clamp(tuned, kFewestKeys, kMostKeys);
    return {(dims > 128 ? 1 : subgroups) * caps.subgroup_size, step, reads_ahead};
}

const char *missing(const DeviceCaps &caps) {
    if (const char *arrays = obstacle_of_arrays(caps); *arrays != '\0') return arrays;
    if (!is_built(shaders::flash_addresses)) return shaders::flash_addresses.code.why_empty();
    if (caps.traits.scalar_address_loads == 0)
        return caps.device_type == VK_PHYSICAL_DEVICE_TYPE_CPU ? "needs a newer CPU driver: llvmpipe of Mesa 26"
                                                               : "for CPU drivers alone: llvmpipe since Mesa 26";
    return caps.buffers_have_addresses != 0 ? "" : "buffers have no device addresses";
}

// It knows no dropout, steps through keys as the whole batch lies, and makes no copies of listed ones.
std::string obstacle(const AttentionProblem &problem, const Tile &tile) {
    if (problem.dropout_p > 0) return "dropout";
    if (present(problem.key_indices) && !reads_in_place(problem))
        return "lists of keys that are packed, in pages or with gaps";
    if (problem.head_dim % kElementsOfBlock != 0 || problem.v_head_dim % kElementsOfBlock != 0)
        return text("head sizes ", problem.head_dim, " and ", problem.v_head_dim, ", expected multiples of 4");
    if (slots_of(problem) < tile.step) return text(slots_of(problem), " keys, expected at least ", tile.step);
    return "";
}

// Few rows over many keys take several workgroups each, one a core.
uint32_t parts_of(const AttentionProblem &problem, const DeviceCaps &caps) {
    constexpr uint32_t kKeys = 256; // fewer are not worth a part of their own
    const uint64_t most_rows = problem.value_in_key ? 8 * kRowsOfDecode : kRowsOfDecode;
    if (rows_of(problem) > most_rows || slots_of(problem) < 2 * kKeys) return 1;
    const uint64_t workgroups = row_tiles(problem, kRowsOfDecode) * problem.kv_heads * grid_sequences(problem);
    const uint32_t fewest = tiles(slots_of(problem), keys_of_dispatch(problem, caps, kKeysOfGranule));
    if (!may_take_parts(problem, caps, shaders::flash_addresses.name)) return fewest;
    const uint64_t filling = std::max<uint64_t>(caps.traits.parallel_workgroups / workgroups, 1);
    const uint64_t rule = std::min<uint64_t>(filling, slots_of(problem) / kKeys);
    const uint32_t parts = parts_that_fit(problem, caps, parts_between(problem, rule, fewest), fewest);
    return states_fit(problem, caps, parts) ? parts : 1; // and the keys in several dispatches
}

// Rows [B,Hkv,keys,D] as they are read.
vkattn_tensor staged(const AttentionProblem &problem, const vkattn_tensor &tensor, uint64_t keys) {
    return contiguous(VKATTN_TYPE_F32, {problem.batch, problem.kv_heads, keys, tensor.shape[3]});
}

void stage(const AttentionProblem &problem, uint32_t step, AttentionShape &shape) {
    const uint64_t numbers_of_key = problem.head_dim + (problem.value_in_key ? 0 : problem.v_head_dim);
    const uint64_t bytes_of_key = uint64_t{problem.batch} * problem.kv_heads * numbers_of_key * sizeof(float);
    const auto keys = static_cast<uint32_t>(std::max<uint64_t>(kStagedBytes / bytes_of_key, kFewestStagedKeys));
    shape.keys_per_dispatch = std::min({shape.keys_per_dispatch, keys, problem.kv_len});
    // a last part shorter than a step is loaded with keys before it
    const uint64_t room = std::min(shape.keys_per_dispatch + step, problem.kv_len);
    shape.staged_key = staged(problem, problem.key, room);
    if (!problem.value_in_key) shape.staged_value = staged(problem, problem.value, room);
}

AttentionShape shape_of(const Tile &tile, const AttentionProblem &problem, const DeviceCaps &caps) {
    const bool copies = !reads_in_place(problem);
    AttentionShape shape{};
    shape.addressed = true;
    shape.parts = parts_of(problem, caps);
    shape.keys_per_dispatch = shape.parts > 1 ? slots_of(problem) : keys_of_dispatch(problem, caps, kKeysOfGranule);
    if (copies) stage(problem, tile.step, shape);
    AttentionShape::Dispatch &dispatch = shape.dispatches[0];
    dispatch = {
        &shaders::flash_addresses,
        constants_of(problem, tile.workgroup_size),
        {tiles(row_tiles(problem, tile.workgroup_size), 1) * shape.parts, problem.kv_heads, grid_sequences(problem)}};
    const vkattn_tensor &key = copies ? shape.staged_key : problem.key;
    const vkattn_tensor &value = !copies ? problem.value : problem.value_in_key ? shape.staged_key : shape.staged_value;
    dispatch.constants.STEP = tile.step;
    dispatch.constants.READS_AHEAD = tile.reads_ahead ? 1 : 0;
    dispatch.constants.STAGED = copies ? 1 : 0;
    dispatch.constants.KEY_ROW_BYTES = stride_bytes(key, 2);
    dispatch.constants.VALUE_ROW_BYTES = stride_bytes(value, 2);
    finish_parts(problem, caps, shape);
    shape.parameters.addressed_strides = addressed_strides(key, value);
    return shape;
}

AttentionAnswer answer(const AttentionProblem &problem, const DeviceCaps &caps) {
    AttentionAnswer answer{Rank::kAddresses, missing(caps)};
    if (!answer.obstacle.empty()) return answer;
    const Tile tile = tile_of(problem, caps);
    answer.obstacle = obstacle(problem, tile);
    if (answer.obstacle.empty()) answer.shape = shape_of(tile, problem, caps);
    return answer;
}

std::string describe(const AttentionShape &shape) {
    const gpu::AttentionConstants &c = shape.dispatches[0].constants;
    return text(c.WORKGROUP_SIZE, " rows, ", c.STEP, " keys a step", c.STAGED != 0 ? ", of f32 copies" : "");
}

constexpr uint32_t kSteps[] = {3, 4, 6, 8, 16};
constexpr Knob kKnobs[] = {{"keys", kSteps}}; // of a step

constexpr const Shader *kShaders[] = {&shaders::flash_addresses};

} // namespace

const AttentionKernel kAddresses = {.kernel = VKATTN_KERNEL_ADDRESSES,
                                    .name = "addresses",
                                    .shaders = kShaders,
                                    .merit = "K and V are read through device addresses",
                                    .missing = missing,
                                    .answer = answer,
                                    .describe = describe,
                                    .knobs = kKnobs};

} // namespace vkattn
