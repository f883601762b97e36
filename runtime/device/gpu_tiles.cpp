#include "runtime/device/gpu_tiles.hpp"

#include <algorithm>
#include <span>

namespace vkattn {
namespace {

constexpr uint32_t kAny = UINT32_MAX;

// Of any class: the last rows that are for it, and so of a GPU that has none of its own.
bool is_for(GpuClass row, const DeviceCaps &caps) {
    return row == GpuClass::kOther || row == static_cast<GpuClass>(caps.traits.gpu_class);
}

struct FlashRow {
    GpuClass gpu;
    bool halves_alone;
    uint32_t most_dims; // of a row of V
    FlashLayout layout;
    uint32_t fewest_rows = 1; // that an invocation can have
};

// GPU, of 16-bit values alone, dims of V at most; staging, blocks, rows, keys, shared bytes. The first that fits.
constexpr FlashRow kFlashRows[] = {
    // converts each 16-bit value by itself; a wave on each of its SIMDs, lest one has two long ones
    {GpuClass::kGcn, false, 64, {StagedNumbers::kSplitF32, 2, 2, 4, 16 << 10, 256}},
    {GpuClass::kGcn, false, 128, {StagedNumbers::kSplitF32, 2, 4, 2, 24 << 10, 256}, 4},
    {GpuClass::kGcn, false, 128, {StagedNumbers::kSplitF32, 2, 2, 4, 16 << 10, 256}},
    {GpuClass::kGcn, false, 256, {StagedNumbers::kSplitF32, 4, 4, 2, 24 << 10, 256}, 2},
    {GpuClass::kGcn, false, 256, {StagedNumbers::kSplitF32, 4, 2, 4, 24 << 10, 256}},
    {GpuClass::kGcn, false, kAny, {StagedNumbers::kSplitF32, 4, 4, 4, 32 << 10, 256}}, // latents: more rows share them
    {GpuClass::kRdna, true, 128, {StagedNumbers::kDots, 2, 4, 4, 16 << 10}},
    {GpuClass::kRdna, true, 256, {StagedNumbers::kDots, 4, 4, 4, 16 << 10}},
    {GpuClass::kRdna, true, kAny, {StagedNumbers::kDots, 4, 4, 4, 32 << 10, 256}},
    {GpuClass::kRdna, true, 128, {StagedNumbers::kHalves, 2, 4, 4, 16 << 10}},
    {GpuClass::kRdna, true, kAny, {StagedNumbers::kHalves, 4, 4, 4, 16 << 10}},
    {GpuClass::kRdna, false, 128, {StagedNumbers::kSplitF32, 2, 4, 4, 16 << 10}},
    {GpuClass::kRdna, false, kAny, {StagedNumbers::kSplitF32, 4, 4, 4, 16 << 10}},
    {GpuClass::kApple, true, 128, {StagedNumbers::kHalves, 4, 4, 4, 24 << 10}},
    {GpuClass::kApple, true, kAny, {StagedNumbers::kHalves, 4, 4, 4, 16 << 10}},
    {GpuClass::kApple, false, 256, {StagedNumbers::kF32, 2, 4, 4, 16 << 10}},
    {GpuClass::kApple, false, kAny, {StagedNumbers::kF32, 2, 2, 4, 16 << 10}},
    {GpuClass::kAdreno, false, 128, {StagedNumbers::kF32, 1, 4, 4, 16 << 10}},
    {GpuClass::kAdreno, false, kAny, {StagedNumbers::kF32, 4, 4, 4, 16 << 10}},
    // an invocation has 64 registers at most; two workgroups in 32 KiB
    {GpuClass::kMali, false, 256, {StagedNumbers::kWideHalves, 2, 2, 2, 16 << 10}},
    {GpuClass::kMali, false, kAny, {StagedNumbers::kHalves, 2, 1, 4, 16 << 10}},
    {GpuClass::kIntel, false, 128, {StagedNumbers::kHalves, 1, 4, 4, 16 << 10}},
    {GpuClass::kIntel, false, kAny, {StagedNumbers::kWideHalves, 4, 2, 4, 24 << 10}},
    // its conversions run at half the rate of its products, or less
    {GpuClass::kNvidia, true, 128, {StagedNumbers::kHalves, 1, 4, 4, 16 << 10}},
    {GpuClass::kNvidia, true, kAny, {StagedNumbers::kWideHalves, 1, 4, 2, 32 << 10}},
    {GpuClass::kNvidia, false, 384, {StagedNumbers::kF32, 3, 4, 4, 40 << 10}},
    {GpuClass::kNvidia, false, kAny, {StagedNumbers::kF32, 3, 4, 2, 40 << 10}},
    {GpuClass::kOther, false, 384, {StagedNumbers::kF32, 3, 4, 4, 32 << 10}},
    {GpuClass::kOther, false, kAny, {StagedNumbers::kF32, 3, 2, 4, 32 << 10}},
};

struct DecodeRow {
    GpuClass gpu;
    DecodeLayout layout;
};

// The rows of latents are read off the counters of executed machine code (bench/results/split-keys-amd.md), where there is such:
// by then flash's tiles fill the device.
constexpr DecodeRow kDecodeRows[] = {
    {GpuClass::kRdna,
     {.subgroups = true,
      .keys_of_one_row = 4,
      .keys_of_rows = 4,
      .keys_of_others = 2,
      .stages_halves = false,
      .latent_rows = 32,
      .latent_scores_beside_dots = 512,
      .keys_of_bytes = 2,
      .takes_many = true}},
    {GpuClass::kGcn,
     {.subgroups = true,
      .keys_of_one_row = 2,
      .keys_of_rows = 4,
      .keys_of_others = 1,
      .stages_halves = false,
      .latent_rows = 32,
      .latent_scores = 512}},
    {GpuClass::kNvidia,
     {.subgroups = true, .keys_of_one_row = 2, .keys_of_rows = 2, .keys_of_others = 2, .stages_halves = true}},
    {GpuClass::kAdreno,
     {.subgroups = true, .keys_of_one_row = 4, .keys_of_rows = 2, .keys_of_others = 2, .stages_halves = true}},
    {GpuClass::kApple,
     {.subgroups = false,
      .keys_of_one_row = 4,
      .keys_of_rows = 4,
      .keys_of_others = 2,
      .stages_halves = true}}, // a shuffle is a dozen instructions
    {GpuClass::kIntel,
     {.subgroups = false,
      .keys_of_one_row = 4,
      .keys_of_rows = 2,
      .keys_of_others = 2,
      .stages_halves = true}}, // its compiler takes subgroups of 8 here
    // an invocation has 64 registers at most, and addresses in shared memory take two
    {GpuClass::kMali,
     {.subgroups = false,
      .keys_of_one_row = 4,
      .keys_of_rows = 2,
      .keys_of_others = 2,
      .stages_halves = true,
      .registers = 40,
      .most_rows = 2,
      .of_pages = 12}},
    {GpuClass::kOther,
     {.subgroups = false, .keys_of_one_row = 2, .keys_of_rows = 2, .keys_of_others = 2, .stages_halves = true}},
};

struct GradientsRow {
    GpuClass gpu;
    GradientsLayout layout;
};

// Loads and sums that are under way together take registers: of AMD's GPUs shared memory, not registers, bounds how many workgroups are
// at work, and of RDNA more rows share what it reads of shared memory. llvmpipe loads in turns that have no lanes.
constexpr GradientsRow kGradientsRows[] = {
    {GpuClass::kRdna, {.reads_ahead = true, .sums_of_two = 16}},
    {GpuClass::kGcn, {.reads_ahead = true, .sums_of_two = 8}},
    {GpuClass::kOther, {.reads_ahead = false, .sums_of_two = 8}},
};

struct MatrixRow {
    GpuClass gpu;
    uint32_t m, n;      // of the matrix shape; 0: any
    bool bf16;          // of devices alone that multiply bf16 as well
    uint32_t most_dims; // of K or V
    MatrixLayout layout;
};

// GPU, m, n, with bf16, dims at most; subgroup size, row and dim subgroups, keys, chunk dims, query dims, keys
// of tiles loaded ahead. The first that fits.
// Judged by the figures of bench/gpu_lab: no spills, the share of the matrix units in what the loop over keys issues, subgroups
// that a core keeps.
constexpr MatrixRow kMatrixRows[] = {
    // RDNA3 and RDNA4. In subgroups of 64, RDNA3 keeps each factor in four groups of lanes, and RDNA4, whose drivers have bf16,
    // in none.
    {GpuClass::kRdna, 16, 16, false, 128, {32, 8, 1, 32, 64, 128}},
    {GpuClass::kRdna, 16, 16, true, 256, {64, 8, 1, 32, 64, 256}},
    {GpuClass::kRdna, 16, 16, true, kAny, {64, 2, 4, 64, 64, 576}},
    {GpuClass::kRdna, 16, 16, false, 256, {32, 4, 2, 32, 64, 256}},
    {GpuClass::kRdna, 16, 16, false, kAny, {32, 1, 8, 128, 64, 0}},
    // measured on an H100: bench/results/gpu-h100.md
    {GpuClass::kNvidia, 16, 16, false, 64, {32, 8, 1, 64, 64, 64, 64}},
    {GpuClass::kNvidia, 16, 16, false, 128, {32, 8, 1, 32, 64, 128, 64}},
    {GpuClass::kNvidia, 16, 16, false, 256, {32, 4, 2, 32, 64, 256, 32}},
    {GpuClass::kNvidia, 16, 16, false, kAny, {32, 1, 8, 128, 64, 0}},
    // Xe2: 8 rows of 128 sums are half of its registers
    {GpuClass::kIntel, 8, 16, false, 64, {16, 8, 2, 64, 64, 64}},
    {GpuClass::kIntel, 8, 16, false, 128, {16, 4, 4, 64, 64, 0}},
    {GpuClass::kIntel, 8, 16, false, 256, {16, 2, 8, 128, 32, 0}},
    {GpuClass::kIntel, 8, 16, false, kAny, {16, 1, 16, 256, 32, 0}},
    // Xe-HPG
    {GpuClass::kIntel, 8, 8, false, 64, {8, 8, 4, 32, 64, 64}},
    {GpuClass::kIntel, 8, 8, false, 128, {8, 4, 8, 64, 64, 0}},
    {GpuClass::kIntel, 8, 8, false, kAny, {8, 2, 16, 128, 32, 0}},
    // a subgroup size of 0: the device's own
    {GpuClass::kOther, 0, 0, false, 64, {0, 8, 1, 64, 64, 64, 64}},
    {GpuClass::kOther, 0, 0, false, kAny, {0, 8, 1, 32, 64, 256, 32}},
};

bool multiplies_bf16(const DeviceCaps &caps) {
    const auto shapes = std::span(caps.matrix_shapes).first(caps.matrix_shape_count);
    return std::ranges::any_of(shapes, [](const auto &shape) { return shape.type == VKATTN_TYPE_BF16; });
}

bool is_for(const MatrixRow &row, const vkattn_matrix_shape &shape, const DeviceCaps &caps) {
    if (row.m == 0) return true;
    return is_for(row.gpu, caps) && row.m == shape.m && row.n == shape.n && (!row.bf16 || multiplies_bf16(caps)) &&
           has_subgroups_of(caps, row.layout.subgroup_size);
}

} // namespace

FlashLayout flash_layout(const DeviceCaps &caps, const FlashNeeds &needs) {
    return std::ranges::find_if(kFlashRows,
                                [&](const FlashRow &row) {
                                    return is_for(row.gpu, caps) && needs.halves >= row.halves_alone &&
                                           needs.rows >= row.fewest_rows &&
                                           (needs.dots || row.layout.staging != StagedNumbers::kDots) &&
                                           needs.v_head_dim <= row.most_dims;
                                })
        ->layout;
}

DecodeLayout decode_layout(const DeviceCaps &caps) {
    return std::ranges::find_if(kDecodeRows, [&](const DecodeRow &row) { return is_for(row.gpu, caps); })->layout;
}

GradientsLayout gradients_layout(const DeviceCaps &caps) {
    return std::ranges::find_if(kGradientsRows, [&](const GradientsRow &row) { return is_for(row.gpu, caps); })->layout;
}

MatrixLayout matrix_layout(const DeviceCaps &caps, const vkattn_matrix_shape &shape, uint32_t dims) {
    MatrixLayout layout = std::ranges::find_if(kMatrixRows, [&](const MatrixRow &row) {
                              return is_for(row, shape, caps) && dims <= row.most_dims;
                          })->layout;
    if (layout.subgroup_size == 0) layout.subgroup_size = caps.subgroup_size;
    return layout;
}

// An invocation of Intel's has 64 registers, which several matrices' sums take.
uint32_t matrices_beside_loads(const DeviceCaps &caps) {
    return static_cast<GpuClass>(caps.traits.gpu_class) == GpuClass::kIntel ? 1 : kAny;
}

uint32_t most_linear_matrices(const DeviceCaps &caps) {
    switch (static_cast<GpuClass>(caps.traits.gpu_class)) {
    case GpuClass::kRdna:
        return 16;
    case GpuClass::kIntel:
        return 4;
    default:
        return 8;
    }
}

bool has_room_for_long_steps(const DeviceCaps &caps) {
    return static_cast<GpuClass>(caps.traits.gpu_class) == GpuClass::kRdna;
}

uint32_t longest_matrix_step(const DeviceCaps &caps) { return has_room_for_long_steps(caps) ? 512 : 128; }

uint32_t linear_vector_blocks(const DeviceCaps &caps) {
    switch (static_cast<GpuClass>(caps.traits.gpu_class)) {
    case GpuClass::kRdna:
    case GpuClass::kGcn:
    case GpuClass::kNvidia:
        return 4;
    default:
        return 1;
    }
}

uint32_t linear_simds_of_core(const DeviceCaps &caps) {
    return static_cast<GpuClass>(caps.traits.gpu_class) == GpuClass::kGcn ? 4 : 0;
}

// As many loads of a GPU are under way at the same time. An unknown device, or a processor, joins them one after the other.
uint32_t most_merge_columns(const DeviceCaps &caps) {
    return static_cast<GpuClass>(caps.traits.gpu_class) == GpuClass::kOther ? 1 : 8;
}

} // namespace vkattn
