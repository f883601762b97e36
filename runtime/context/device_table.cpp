#include "runtime/context/device_table.hpp"

#include "runtime/error.hpp"

#include <algorithm>
#include <charconv>

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

struct Trait {
    std::string_view name;
    uint32_t DeviceTraits::*member;
};

constexpr Trait kTraits[] = {
    {"max_loop_iterations", &DeviceTraits::max_loop_iterations},
    {"scalar_address_loads", &DeviceTraits::scalar_address_loads},
    {"widest_divergent_addresses", &DeviceTraits::widest_divergent_addresses},
    {"parallel_workgroups", &DeviceTraits::parallel_workgroups},
};

uint32_t DeviceTraits::*trait_named(std::string_view name, const char *source) {
    const auto *found =
        std::find_if(std::begin(kTraits), std::end(kTraits), [&](const Trait &trait) { return trait.name == name; });
    if (found != std::end(kTraits)) return found->member;
    std::string names;
    for (const Trait &trait : kTraits) names += (names.empty() ? "" : ", ") + std::string(trait.name);
    fail(VKATTN_ERROR_INVALID_ARGUMENT, source, ": trait \"", name, "\" is unknown, expected one of ", names);
}

void set_trait(DeviceTraits &traits, std::string_view assignment, const char *source) {
    const size_t equals = std::min(assignment.find('='), assignment.size());
    const std::string_view name = assignment.substr(0, equals);
    const std::string_view value = assignment.substr(std::min(equals + 1, assignment.size()));
    uint32_t number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    require(error == std::errc{} && end == value.data() + value.size(), source, ": \"", assignment,
            "\", expected name=number");
    traits.*trait_named(name, source) = number;
}

} // namespace

void override_traits(DeviceTraits &traits, std::string_view text, const char *source) {
    while (!text.empty()) {
        const size_t comma = std::min(text.find(','), text.size());
        set_trait(traits, text.substr(0, comma), source);
        text.remove_prefix(std::min(comma + 1, text.size()));
    }
}

DeviceTraits device_traits(const VkPhysicalDeviceProperties &properties, VkDriverId driver) {
    for (const Row &row : kTable)
        if ((row.driver == kAnyDriver || row.driver == driver) &&
            std::string_view(properties.deviceName).starts_with(row.name) &&
            properties.driverVersion >= row.first_driver_version)
            return row.traits;
    return {};
}

} // namespace vkattn
