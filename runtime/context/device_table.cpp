#include "runtime/context/device_table.hpp"

#include <charconv>

namespace vkattn {
namespace {

struct Row {
    std::string_view name; // what the device's name begins with
    std::string_view info; // what the driver's information begins with, up to its version
    uint32_t first_version;
    DeviceTraits traits;
};

// What the versions of llvmpipe have in common, and the two ways of reading K and V in which they differ.
constexpr DeviceTraits llvmpipe_traits(uint32_t scalar_address_loads, uint32_t shuffled_address_loads) {
    return {.max_loop_iterations = 65535,
            .scalar_address_loads = scalar_address_loads,
            .shuffled_address_loads = shuffled_address_loads,
            .widest_divergent_addresses = 8,
            .parallel_workgroups = 16,
            .self_test = 0,
            .matrix_units = 0,
            .widest_matrix_subgroup = 8,
            .unroll_matrices = 0,
            .matrix_outputs = 8};
}

constexpr Row kTable[] = {
    // Mesa 26's llvmpipe: attention of 64 wide heads runs at 114 GFLOP/s through addresses, at 98 % of what it multiplies
    // and adds at most, and at 4 through bound buffers. The loop limit is that of all llvmpipes, below. A 64-bit value that
    // differs between 16 lanes (LP_NATIVE_VECTOR_WIDTH=512) makes its compiler write past an array on the stack, and
    // cooperative matrices at that width make it crash; at 8 lanes they are right, slow, and slow to compile.
    {"llvmpipe", "Mesa ", 26, llvmpipe_traits(1, 0)},
    // Mesa 25 with LLVM 15 makes uniform loads inside loops once a lane, but a shuffle by a constant is one instruction:
    // 64 wide heads run at 56 GFLOP/s so, at 6 in shared memory.
    {"llvmpipe", "Mesa ", 25, llvmpipe_traits(0, 1)},
    // llvmpipe ends a shader's loops, silently, after so many trips in all, nested ones included
    // (LP_MAX_TGSI_LOOP_ITERATIONS): found by attention over equal keys, whose log-sum-exp counts the keys seen. Before
    // Mesa 25 every lane of every shuffle is a branch, and unrolled kernels compile for many seconds.
    {"llvmpipe", "", 0, llvmpipe_traits(0, 0)},
};

// The number that `info` goes on with behind `prefix`; -1 where it does not.
int64_t version_behind(std::string_view info, std::string_view prefix) {
    if (!info.starts_with(prefix)) return -1;
    int64_t version = 0; // where there is no number
    std::from_chars(info.data() + prefix.size(), info.data() + info.size(), version);
    return version;
}

// About a second's work of a slow device of the type, as far as attention goes.
uint32_t dispatch_megaflops(VkPhysicalDeviceType type) {
    if (type == VK_PHYSICAL_DEVICE_TYPE_CPU) return 0;
    return type == VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU ? 1'000'000 : 100'000;
}

} // namespace

DeviceTraits device_traits(std::string_view device_name, std::string_view driver_info, VkPhysicalDeviceType type) {
    for (const Row &row : kTable)
        if (device_name.starts_with(row.name) && version_behind(driver_info, row.info) >= row.first_version)
            return row.traits;
    DeviceTraits traits;
    traits.max_dispatch_megaflops = dispatch_megaflops(type);
    traits.self_test = type != VK_PHYSICAL_DEVICE_TYPE_CPU;
    return traits;
}

} // namespace vkattn
