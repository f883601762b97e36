#pragma once

#include "vkattn/vkattn.h"

namespace vkattn {

// Kinds of GPUs that like shaders of one shape: DeviceTraits::gpu_class.
enum class GpuClass : uint32_t { kOther, kRdna, kGcn, kApple, kAdreno, kMali, kIntel, kNvidia, kCount };

// Workgroups of 128 invocations that parallel_workgroups counts for each core.
constexpr uint32_t kWorkgroupsOfCore = 4;

// What is known of devices beyond what they report: found by measurement, chosen by data, asked for nowhere else.
// All are numbers, so that a name and a value can set each: see device_overrides. 0 and 1 for no and yes.
struct DeviceTraits {
    uint32_t max_loop_iterations = 0; // of one invocation in all its loops; 0: no limit
    // A load through a device address that is the same for the whole workgroup becomes one scalar load, and a shuffle from
    // one lane a scalar: flash_addresses, linear_uniform and linear_attention_uniform, straight code without shared memory,
    // are then the fastest by far.
    uint32_t scalar_address_loads = 0;
    uint32_t widest_divergent_addresses = 0; // invocations of a subgroup that may load through one each; 0: any number
    // Rows up to which linear_addresses or linear_uniform is the fastest for linear layers, since loads through device addresses cost
    // less than shared memory; 0: it is not to be used.
    uint32_t most_addressed_linear_rows = 0;
    // Workgroups that fill the device: what decode splits keys for. 0 in the table: by the number of its cores.
    uint32_t parallel_workgroups = 0;
    // What one dispatch of attention may compute, in millions of floating-point operations; 0: no limit. Systems end
    // what keeps a GPU for some seconds.
    uint32_t max_dispatch_megaflops = 0;
    uint32_t unpacks_halves = 1;      // shaders may use unpackHalf2x16; 0: the driver's compiler cannot take it
    uint32_t specialised_modules = 1; // by the library, before the driver sees them; 0: the driver does that
    // Where the driver specialises modules: specialisation constants size arrays; 0: it keeps the default sizes.
    uint32_t specialised_arrays = 1;
    // Layers of f16 or bf16 keep what lies between their steps in that type, where the device computes in it; 0: in f32.
    uint32_t half_workspaces = 1;
    // Kernels are tested before their first use; 0: the driver is known to be right, and the test would waste time.
    uint32_t self_test = 1;
    // To try a matrix shape of other devices: one more, of f16, where the driver's dimensions are flexible. 0: none.
    uint32_t matrix_m = 0, matrix_n = 0, matrix_k = 0;
    // 1: cooperative matrices, where there are any, are faster than the rest: coopmat is preferred. 2: they are taken where
    // they are asked for by name, and tried by tuning. 0: never, and the driver is not even asked for their shapes.
    uint32_t matrix_units = 1;
    uint32_t subgroup_operations = 1;    // shaders may use them; 0: what the driver makes of them is wrong
    uint32_t widest_matrix_subgroup = 0; // that the driver's compiler takes cooperative matrices of; 0: any
    uint32_t unroll_matrices = 1;    // loops over matrices are unrolled; 0: the driver's compiler takes too long for it
    uint32_t matrix_outputs = 128;   // f32 sums that an invocation of coopmat holds in registers
    uint32_t fewest_matrix_rows = 8; // query rows of a KV head that coopmat is preferred from
    // Dot products of packed bytes are preferred where kernels have both ways. By itself what the device says to accelerate.
    uint32_t byte_products = 0;
    uint32_t gpu_class = 0; // GpuClass, whose shapes kernels without matrix units take; 0 in the table: by the vendor
};

// Cores of a device of these traits.
inline uint32_t cores_of(const DeviceTraits &traits) { return traits.parallel_workgroups / kWorkgroupsOfCore; }

// The traits of the first row of the table that matches the device, or the defaults; and what goes by the device's
// type and its cores.
DeviceTraits device_traits(const vkattn_device_facts &facts);

} // namespace vkattn
