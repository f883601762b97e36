// The table of devices: rows match by vendor, name and driver, and the more particular row comes first.
#include "runtime/device/device_table.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstdio>
#include <string>

namespace {

struct Device {
    std::uint32_t vendor;
    const char *name, *driver, *info;
    VkPhysicalDeviceType type;
};

vkattn::DeviceTraits traits_of(const Device &device) {
    vkattn_device_facts facts{};
    facts.vendor_id = device.vendor;
    facts.device_type = device.type;
    std::snprintf(facts.name, sizeof facts.name, "%s", device.name);
    std::snprintf(facts.driver_name, sizeof facts.driver_name, "%s", device.driver);
    std::snprintf(facts.driver_info, sizeof facts.driver_info, "%s", device.info);
    return vkattn::device_traits(facts);
}

constexpr auto kDiscrete = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU, kIntegrated = VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU,
               kCpu = VK_PHYSICAL_DEVICE_TYPE_CPU;

} // namespace

TEST_SUITE_BEGIN("device_table");

TEST_CASE("matrix units are preferred where they are known to pay") {
    const auto matrix_units = [](const Device &device) { return traits_of(device).matrix_units; };
    CHECK(matrix_units({0x10de, "NVIDIA GeForce RTX 4070", "NVIDIA", "565.57", kDiscrete}) == 1);
    CHECK(matrix_units({0x10de, "NVIDIA GeForce RTX 2080 Ti", "NVIDIA", "565.57", kDiscrete}) == 0);
    CHECK(matrix_units({0x10de, "NVIDIA GeForce RTX 2060 with Max-Q Design", "NVIDIA", "565.57", kDiscrete}) == 0);
    CHECK(matrix_units({0x10de, "NVIDIA GeForce GTX 1660 Ti", "NVIDIA", "565.57", kDiscrete}) == 0);
    CHECK(matrix_units({0x10de, "NVIDIA GeForce RTX 2050", "NVIDIA", "565.57", kDiscrete}) == 1);
    CHECK(matrix_units({0x10de, "NVIDIA RTX 2000 Ada Generation", "NVIDIA", "565.57", kDiscrete}) == 1);
    CHECK(matrix_units({0x10de, "Tesla T40", "NVIDIA", "565.57", kDiscrete}) == 1);
    CHECK(matrix_units({0x10de, "Tesla T4", "NVIDIA", "565.57", kDiscrete}) == 0);
    CHECK(matrix_units({0x1002, "AMD Radeon RX 6800 XT", "AMD proprietary driver", "24.10.1", kDiscrete}) == 0);
    CHECK(matrix_units({0x1002, "AMD Radeon RX 7900 XTX", "AMD proprietary driver", "24.10.1", kDiscrete}) == 1);
    CHECK(matrix_units({0x1002, "AMD Radeon RX 7900 XTX (RADV NAVI31)", "radv", "Mesa 25.2.0", kDiscrete}) == 1);
    CHECK(matrix_units({0x8086, "Intel(R) Arc(tm) A770 Graphics (DG2)", "Intel open-source Mesa driver", "Mesa 25.2.0",
                        kDiscrete}) == 0);
    CHECK(matrix_units({0x8086, "Intel(R) Arc(tm) B580 Graphics (BMG G21)", "Intel open-source Mesa driver",
                        "Mesa 25.2.0", kDiscrete}) == 1);
    CHECK(matrix_units({0x5143, "Adreno (TM) 750", "Qualcomm", "", kIntegrated}) == 0);
    CHECK(matrix_units({0x13b5, "Mali-G720", "Mali", "", kIntegrated}) == 1);
}

TEST_CASE("MoltenVK, of whatever vendor, sizes arrays from 1.3 on") {
    const auto sizes = [](std::uint32_t vendor, const char *version) {
        return traits_of({vendor, "Apple M1", "MoltenVK", version, kIntegrated}).specialised_arrays;
    };
    CHECK(sizes(0x106b, "1.2.11") == 0);
    CHECK(sizes(0x1002, "1.2.9") == 0);
    CHECK(sizes(0x106b, "1.3.0") == 1);
    CHECK(sizes(0x8086, "1.4.1") == 1);
    CHECK(sizes(0x106b, "2.0.0") == 1);
    CHECK(traits_of({0x106b, "Apple M1", "MoltenVK", "1.4.1", kIntegrated}).matrix_units == 0);
    CHECK(traits_of({0x106b, "Apple M1 (G13G B1)", "Honeykrisp", "Mesa 25.1", kIntegrated}).specialised_arrays == 1);
}

TEST_CASE("versions of a driver, and what is in no row") {
    const Device newest{0x10005, "llvmpipe (LLVM 21.1.8, 256 bits)", "llvmpipe", "Mesa 26.1.6", kCpu};
    const Device newer{0x10005, "llvmpipe (LLVM 15.0.6, 256 bits)", "llvmpipe", "Mesa 25.0.7", kCpu};
    const Device old{0x10005, "llvmpipe (LLVM 15.0.6, 256 bits)", "llvmpipe", "Mesa 22.3.6", kCpu};
    CHECK(traits_of(newest).scalar_address_loads == 1);
    CHECK(traits_of(newer).scalar_address_loads == 0);
    CHECK(traits_of(old).scalar_address_loads == 0);
    CHECK(traits_of(old).max_loop_iterations == 65535);
#ifdef __aarch64__
    CHECK(traits_of(old).unpacks_halves == 0);
#else
    CHECK(traits_of(old).unpacks_halves == 1);
#endif
    CHECK(traits_of(newest).unpacks_halves == 1);
    CHECK(traits_of(old).self_test == 0);
    CHECK(traits_of(old).max_dispatch_megaflops == 0);
    const vkattn::DeviceTraits unknown = traits_of({0x1234, "A new one", "", "", kDiscrete});
    CHECK(unknown.max_loop_iterations == 0);
    CHECK(unknown.self_test == 1);
    CHECK(unknown.max_dispatch_megaflops > 0);
}

TEST_SUITE_END();
