#include "runtime/context/device_table.hpp"

#include <string_view>

namespace vkattn {
namespace {

constexpr auto kAnyDriver = static_cast<VkDriverId>(0);

struct Row {
    VkDriverId driver;
    std::string_view name; // what the device's name begins with
    uint32_t first_driver_version;
    DeviceTraits traits;
};

constexpr Row kTable[] = {
    // Mesa 26's llvmpipe: attention of 64 wide heads runs at 108 GFLOP/s through addresses, at 90 % of its FMA peak, and
    // at 4 through bound buffers. The loop limit is that of all llvmpipes, below. A 64-bit value that differs between 16 lanes
    // (LP_NATIVE_VECTOR_WIDTH=512) makes its compiler write past an array on the stack.
    {VK_DRIVER_ID_MESA_LLVMPIPE, "llvmpipe", VK_MAKE_VERSION(26, 0, 0), {65535, 1, 8, 16}},
    // llvmpipe ends a shader's loops, silently, after so many trips in all, nested ones included
    // (LP_MAX_TGSI_LOOP_ITERATIONS): found by attention over equal keys, whose log-sum-exp counts the keys seen. Before
    // Mesa 26 uniform loads inside loops are made once a lane, and unrolled kernels compile for seconds.
    {kAnyDriver, "llvmpipe", 0, {65535, 0, 8, 16}},
};

} // namespace

DeviceTraits device_traits(const VkPhysicalDeviceProperties &properties, VkDriverId driver) {
    for (const Row &row : kTable)
        if ((row.driver == kAnyDriver || row.driver == driver) &&
            std::string_view(properties.deviceName).starts_with(row.name) &&
            properties.driverVersion >= row.first_driver_version)
            return row.traits;
    return {};
}

} // namespace vkattn
