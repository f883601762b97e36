#pragma once

#include "runtime/device/device_caps.hpp"

namespace vkattn {

// How a kind of GPU likes kernels to divide their work: by its class and its other facts, for no kernel knows a GPU. Found by
// what compilers make of the shaders (scripts/gpu-lab search; its evidence is bench/results/gpu-lab/tiles).

// How flash stages K, V and Q of 16 bits in shared memory; others are staged as f32. kDots: f16, for products of pairs.
// kSplitF32: f32, four numbers in two halves, for drivers that read 8 bytes at a time.
enum class StagedNumbers : uint32_t { kF32, kHalves, kWideHalves, kDots, kSplitF32 };

struct FlashLayout {
    StagedNumbers staging;
    uint32_t blocks;       // of four dims of a row's output, of an invocation: more invocations share rows of more dims
    uint32_t rows, keys;   // of an invocation
    uint32_t shared_bytes; // of a workgroup, so that enough of them find room on a core
    uint32_t workgroup = 128; // invocations
};
// Of a problem: halves: K, V and Q are of 16 bits. dots: products of pairs may be taken. rows: that an invocation can have.
struct FlashNeeds {
    bool halves, dots;
    uint32_t rows, v_head_dim;
};
FlashLayout flash_layout(const DeviceCaps &caps, const FlashNeeds &needs);

struct DecodeLayout {
    bool subgroups;           // sums go through them
    uint32_t keys_of_one_row; // of a group at a time, where K and V are read as 16-bit values
    uint32_t keys_of_rows;    // the same of more rows
    uint32_t keys_of_others;  // of other types, which take more registers
    bool stages_halves;       // queries in shared memory, where they are 16-bit values, too; others always are
    uint32_t latent_rows = 8; // of a KV head's latents, up to which the shader is faster than flash, which stages them
    // Their scores, in each workgroup of as many as fill the device, up to which it is; where flash takes dots.
    uint32_t latent_scores = UINT32_MAX, latent_scores_beside_dots = UINT32_MAX;
    uint32_t registers = 96; // numbers that an invocation holds, at most
    uint32_t most_rows = 4;  // fewer would leave registers to more subgroups, and read K and V several times
    uint32_t of_pages = 0;   // registers that finding keys in pages takes from these
    // of a group at a time, where K of q8_0 is multiplied as bytes; 0: it is not
    uint32_t keys_of_bytes = 0;
    bool takes_many = false; // few rows each of however many sequences, of which flash waits longer for memory
};
DecodeLayout decode_layout(const DeviceCaps &caps);

// Of attention's gradients in tiles in shared memory.
struct GradientsLayout {
    bool reads_ahead;     // all loads of a tile under way together, and several positions of a sum
    uint32_t sums_of_two; // blocks of four numbers of an invocation that sums both d_key and d_value of large heads
};
GradientsLayout gradients_layout(const DeviceCaps &caps);

struct MatrixLayout {
    uint32_t subgroup_size; // to ask for
    uint32_t row_subgroups, dim_subgroups, keys;
    uint32_t chunk_dims; // of K, where it does not come whole: at most
    uint32_t query_dims; // that registers hold: at most
    // Of a tile whose next one is loaded ahead, where K and V pass whole and sums can be converted; 0: none is.
    uint32_t keys_ahead = 0;
};
// coopmat's, for heads of so many dims; of linear_coopmat the subgroups alone, which are those of the smallest heads.
MatrixLayout matrix_layout(const DeviceCaps &caps, const vkattn_matrix_shape &shape, uint32_t dims);

// Matrices of a subgroup of linear_coopmat for whose sums an invocation has registers.
uint32_t most_linear_matrices(const DeviceCaps &caps);

// Matrices of a subgroup of linear_coopmat beside which an invocation has room for loads ahead.
uint32_t matrices_beside_loads(const DeviceCaps &caps);

// Whether an invocation of linear_coopmat has registers for 64 features at a time: on RDNA, others spill or have not been measured.
bool has_room_for_long_steps(const DeviceCaps &caps);

// Features that linear_coopmat has in shared memory at a time, at most, where its time goes into waiting for them.
uint32_t longest_matrix_step(const DeviceCaps &caps);

// Eights of features for which an invocation of linear_vector has registers at a time.
uint32_t linear_vector_blocks(const DeviceCaps &caps);

// SIMDs of a core on each of which whole workgroups of linear stay, as far as such GPUs are known; 0: unknown.
uint32_t linear_simds_of_core(const DeviceCaps &caps);

// Invocations of merge_parts that share a block's parts, at most.
uint32_t most_merge_columns(const DeviceCaps &caps);

} // namespace vkattn
