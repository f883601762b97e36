// The table of devices: rows match by facts, and the more particular row comes first.
#include "runtime/device/device_table.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstdio>
#include <string>

namespace {

struct Device {
    std::uint32_t vendor;
    const char *name;
    VkDriverId driver;
    const char *info;
    VkPhysicalDeviceType type;
    void (*set)(vkattn_device_facts &) = [](vkattn_device_facts &) {}; // other facts
};

vkattn::DeviceTraits traits_of(const Device &device) {
    vkattn_device_facts facts{};
    facts.vendor_id = device.vendor;
    facts.driver_id = device.driver;
    facts.device_type = device.type;
    std::snprintf(facts.name, sizeof facts.name, "%s", device.name);
    std::snprintf(facts.driver_info, sizeof facts.driver_info, "%s", device.info);
    device.set(facts);
    return vkattn::device_traits(facts);
}

constexpr auto kDiscrete = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU, kIntegrated = VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU,
               kCpu = VK_PHYSICAL_DEVICE_TYPE_CPU;
constexpr auto kNone = static_cast<VkDriverId>(0);        // the driver does not tell
constexpr auto kHoneykrisp = static_cast<VkDriverId>(26); // younger than Debian 12's headers

} // namespace

TEST_SUITE_BEGIN("device_table");

TEST_CASE("NVIDIA's own driver: Turing, of 32 warps a multiprocessor, is better off without matrix units") {
    const auto matrix_units = [](const char *name, VkDriverId driver, void (*set)(vkattn_device_facts &)) {
        return traits_of({0x10de, name, driver, "565.57", kDiscrete, set}).matrix_units;
    };
    constexpr auto kOwn = VK_DRIVER_ID_NVIDIA_PROPRIETARY;
    const auto turing = [](vkattn_device_facts &facts) { facts.max_subgroups_per_core = 32; };
    const auto ampere = [](vkattn_device_facts &facts) { facts.max_subgroups_per_core = 48; };
    const auto hopper = [](vkattn_device_facts &facts) { facts.max_subgroups_per_core = 64; };
    for (const char *name : {"NVIDIA GeForce RTX 2080 Ti", "NVIDIA GeForce GTX 1660 Ti", "Tesla T4", "Quadro RTX 4000"})
        CHECK(matrix_units(name, kOwn, turing) == 0);
    for (const char *name : {"NVIDIA GeForce RTX 2050", "NVIDIA RTX 2000 Ada Generation", "NVIDIA GeForce RTX 4070"})
        CHECK(matrix_units(name, kOwn, ampere) == 1);
    CHECK(matrix_units("NVIDIA H100 PCIe", kOwn, hopper) == 1);
    CHECK(matrix_units("NVIDIA GeForce RTX 2080 (NVK TU104)", VK_DRIVER_ID_MESA_NVK, turing) == 1);
}

TEST_CASE("Intel: matrix units pay from Xe2 on, whose subgroups are 16 wide at least, whatever a driver calls it") {
    const auto matrix_units = [](const char *name, VkDriverId driver, void (*set)(vkattn_device_facts &)) {
        return traits_of({0x8086, name, driver, "", kDiscrete, set}).matrix_units;
    };
    const auto of_8 = [](vkattn_device_facts &facts) { facts.min_subgroup_size = 8; };
    const auto of_16 = [](vkattn_device_facts &facts) { facts.min_subgroup_size = 16; };
    const auto of_32 = [](vkattn_device_facts &facts) { facts.min_subgroup_size = 32; };
    const auto untold = [](vkattn_device_facts &) {};
    constexpr auto kMesa = VK_DRIVER_ID_INTEL_OPEN_SOURCE_MESA, kWindows = VK_DRIVER_ID_INTEL_PROPRIETARY_WINDOWS;
    CHECK(matrix_units("Intel(R) Arc(tm) A770 Graphics (DG2)", kMesa, of_8) == 0);
    CHECK(matrix_units("Intel(R) Arc(TM) A770 Graphics", kWindows, of_8) == 0);
    CHECK(matrix_units("Intel(R) Arc(tm) B580 Graphics (BMG G21)", kMesa, of_16) == 1);
    CHECK(matrix_units("Intel(R) Graphics (LNL)", kMesa, of_16) == 1);
    CHECK(matrix_units("Intel(R) A Future One", kMesa, of_16) == 1);
    CHECK(matrix_units("Intel(R) A Future One", kMesa, of_32) == 1);
    CHECK(matrix_units("Intel(R) A Future One", kMesa, untold) == 1);
    // lost by the driver of Windows
    for (const char *lunar_lake : {"Intel(R) Arc(TM) 140V GPU (16GB)", "Intel(R) Arc(TM) 130V GPU (8GB)"})
        CHECK(matrix_units(lunar_lake, kWindows, of_16) == 0);
    CHECK(matrix_units("Intel(R) A Future One", kWindows, untold) == 0);
}

TEST_CASE("Intel: Mesa 26.1 and 26.2 get matrices of Xe2 wrong; Xe-LPG+ is no Alchemist, and tuning may try them") {
    const auto matrix_units = [](const char *info, VkPhysicalDeviceType type, void (*set)(vkattn_device_facts &)) {
        return traits_of({0x8086, "A GPU", VK_DRIVER_ID_INTEL_OPEN_SOURCE_MESA, info, type, set}).matrix_units;
    };
    const auto xe2 = [](vkattn_device_facts &facts) { facts.min_subgroup_size = 16; };
    for (const char *right : {"Mesa 26.0.8", "Mesa 25.3.0-1", "Mesa 26.3.0-devel", "Mesa 27.0.0"})
        CHECK(matrix_units(right, kDiscrete, xe2) == 1);
    for (const char *wrong : {"Mesa 26.1.6-1", "Mesa 26.2.3 (git-abc)", "Mesa 26.2"})
        CHECK(matrix_units(wrong, kIntegrated, xe2) == 0);
    const auto alchemist = [](vkattn_device_facts &facts) {
        facts.min_subgroup_size = 8;
        facts.signed_integer_dot_product = facts.cooperative_matrix = 1;
    };
    CHECK(matrix_units("Mesa 26.0.8", kDiscrete, alchemist) == 0);
    CHECK(matrix_units("Mesa 26.0.8", kIntegrated, alchemist) == 2); // Xe-LPG+
}

TEST_CASE("AMD's own drivers: matrix units are real from RDNA3 on, which multiplies signed with unsigned bytes") {
    const auto matrix_units = [](const char *name, VkDriverId driver, void (*set)(vkattn_device_facts &)) {
        return traits_of({0x1002, name, driver, "24.10.1", kDiscrete, set}).matrix_units;
    };
    const auto rdna2 = [](vkattn_device_facts &) {};
    const auto rdna3 = [](vkattn_device_facts &facts) { facts.mixed_integer_dot_product = 1; };
    for (const VkDriverId own : {VK_DRIVER_ID_AMD_PROPRIETARY, VK_DRIVER_ID_AMD_OPEN_SOURCE}) {
        CHECK(matrix_units("AMD Radeon RX 6800 XT", own, rdna2) == 0);
        CHECK(matrix_units("AMD Radeon RX 7900 XTX", own, rdna3) == 1);
        CHECK(matrix_units("AMD Radeon(TM) A Future One", own, rdna3) == 1);
    }
    CHECK(matrix_units("AMD Radeon RX 7900 XTX (RADV NAVI31)", VK_DRIVER_ID_MESA_RADV, rdna3) == 1);
}

TEST_CASE("AMD's driver of spring 2026: no matrices from 26.5 on, on integrated GPUs from 26.3 on, until 27") {
    const auto matrix_units = [](const char *info, VkPhysicalDeviceType type, VkDriverId driver) {
        const auto rdna3 = [](vkattn_device_facts &facts) { facts.mixed_integer_dot_product = 1; };
        return traits_of({0x1002, "AMD Radeon RX 9070 XT", driver, info, type, rdna3}).matrix_units;
    };
    constexpr auto kOwn = VK_DRIVER_ID_AMD_PROPRIETARY, kOpen = VK_DRIVER_ID_AMD_OPEN_SOURCE;
    for (const char *right : {"25.12.1 (LLPC)", "26.2.2 (LLPC)", "27.1.1 (LLPC)", "2025.Q2.1 (LLPC)", "", "LLPC"})
        for (const auto type : {kDiscrete, kIntegrated}) CHECK(matrix_units(right, type, kOwn) == 1);
    for (const char *wrong : {"26.5.1 (LLPC)", "26.10.1 (AMD proprietary shader compiler)"})
        for (const auto driver : {kOwn, kOpen}) CHECK(matrix_units(wrong, kDiscrete, driver) == 0);
    CHECK(matrix_units("26.3.1 (LLPC)", kDiscrete, kOwn) == 1);
    CHECK(matrix_units("26.3.1 (LLPC)", kIntegrated, kOwn) == 0);
    CHECK(matrix_units("26.5.1", kDiscrete, VK_DRIVER_ID_MESA_RADV) == 1);
}

TEST_CASE("drivers whose subgroup operations are wrong, and GPUs of other names for RDNA") {
    constexpr auto kKosmicKrisp = static_cast<VkDriverId>(28);
    const auto operations = [](std::uint32_t vendor, VkDriverId driver, const char *info) {
        return traits_of({vendor, "A GPU", driver, info, kIntegrated}).subgroup_operations;
    };
    CHECK(operations(0x1002, VK_DRIVER_ID_MOLTENVK, "1.4.0") == 0);
    CHECK(operations(0x106b, VK_DRIVER_ID_MOLTENVK, "1.4.0") == 1);
    CHECK(operations(0x106b, kKosmicKrisp, "Mesa 26.1.0") == 0);
    CHECK(operations(0x106b, kHoneykrisp, "Mesa 26.1.0") == 1);
    CHECK(traits_of({0x106b, "Apple M1", kHoneykrisp, "Mesa 26.1.0", kIntegrated}).matrix_units == 0);
    CHECK(operations(0x1010, VK_DRIVER_ID_IMAGINATION_PROPRIETARY, "25.1@6794199") == 0);
    CHECK(traits_of({0x1010, "PowerVR", VK_DRIVER_ID_IMAGINATION_PROPRIETARY, "", kIntegrated}).matrix_units == 0);
    CHECK(operations(0x1002, VK_DRIVER_ID_MESA_RADV, "Mesa 26.1.6") == 1);
    const vkattn::DeviceTraits xclipse =
        traits_of({0x144d, "Samsung Xclipse 940", static_cast<VkDriverId>(21), "", kIntegrated,
                   [](vkattn_device_facts &facts) { facts.min_subgroup_size = 32; }});
    CHECK(xclipse.gpu_class == static_cast<std::uint32_t>(vkattn::GpuClass::kRdna));
}

TEST_CASE("matrix units of other vendors") {
    const auto matrix_units = [](const Device &device) { return traits_of(device).matrix_units; };
    CHECK(matrix_units({0x5143, "Adreno (TM) 750", VK_DRIVER_ID_QUALCOMM_PROPRIETARY, "", kIntegrated}) == 0);
    CHECK(matrix_units({0x13b5, "Mali-G720", VK_DRIVER_ID_ARM_PROPRIETARY, "", kIntegrated}) == 1);
}

TEST_CASE("a device is filled by workgroups for each of its cores, where it tells their number") {
    const auto parallel_workgroups = [](const char *name, VkPhysicalDeviceType type,
                                        void (*set)(vkattn_device_facts &)) {
        return traits_of({0x10de, name, VK_DRIVER_ID_NVIDIA_PROPRIETARY, "565.57", type, set}).parallel_workgroups;
    };
    CHECK(parallel_workgroups("A GPU", kDiscrete, [](vkattn_device_facts &facts) { facts.shader_cores = 132; }) == 528);
    CHECK(parallel_workgroups("A GPU", kIntegrated, [](vkattn_device_facts &facts) { facts.shader_cores = 4; }) == 16);
    CHECK(parallel_workgroups("A GPU", kDiscrete, [](vkattn_device_facts &) {}) == 512);
    CHECK(parallel_workgroups("A GPU", kIntegrated, [](vkattn_device_facts &) {}) == 128);
    CHECK(parallel_workgroups("llvmpipe (LLVM 21.1.8, 256 bits)", kCpu, [](vkattn_device_facts &) {}) == 16);
}

TEST_CASE("MoltenVK, of whatever vendor, sizes arrays from 1.3 on") {
    const auto sizes = [](std::uint32_t vendor, const char *version) {
        return traits_of({vendor, "Apple M1", VK_DRIVER_ID_MOLTENVK, version, kIntegrated}).specialised_arrays;
    };
    CHECK(sizes(0x106b, "1.2.11") == 0);
    CHECK(sizes(0x1002, "1.2.9") == 0);
    CHECK(sizes(0x106b, "1.3.0") == 1);
    CHECK(sizes(0x8086, "1.4.1") == 1);
    CHECK(sizes(0x106b, "2.0.0") == 1);
    CHECK(sizes(0x106b, "") == 1); // it does not tell
    CHECK(traits_of({0x106b, "Apple M1", VK_DRIVER_ID_MOLTENVK, "1.4.1", kIntegrated}).matrix_units == 2);
    for (const char *version : {"1.2.9", "1.4.1"}) {
        const vkattn::DeviceTraits amd =
            traits_of({0x1002, "AMD Radeon Pro", VK_DRIVER_ID_MOLTENVK, version, kIntegrated});
        CHECK(amd.matrix_units == 0);
        CHECK(amd.subgroup_operations == 0);
    }
    CHECK(traits_of({0x106b, "Apple M1 (G13G B1)", kHoneykrisp, "Mesa 25.1", kIntegrated}).specialised_arrays == 1);
}

TEST_CASE("a submission stays well below two seconds on slow GPUs, and fast ones are not kept waiting by small ones") {
    const auto megaflops = [](VkPhysicalDeviceType type, void (*set)(vkattn_device_facts &)) -> double {
        return traits_of({0x1234, "A GPU", kNone, "", type, set}).max_dispatch_megaflops;
    };
    const double slow_card = megaflops(kDiscrete, [](vkattn_device_facts &facts) { facts.shader_cores = 3; });
    CHECK(slow_card / 0.4e6 < 0.5); // seconds of a GT 1030, which does 0.4 TFLOP/s
    CHECK(megaflops(kIntegrated, [](vkattn_device_facts &facts) { facts.shader_cores = 4; }) / 0.02e6 <= 0.5);
    CHECK(megaflops(kDiscrete, [](vkattn_device_facts &facts) { facts.shader_cores = 132; }) / 30e6 > 0.1);
}

TEST_CASE("versions of a driver, and what is in no row") {
    const Device newest{0x10005, "llvmpipe (LLVM 21.1.8, 256 bits)", VK_DRIVER_ID_MESA_LLVMPIPE, "Mesa 26.1.6", kCpu};
    const Device newer{0x10005, "llvmpipe (LLVM 15.0.6, 256 bits)", VK_DRIVER_ID_MESA_LLVMPIPE, "Mesa 25.0.7", kCpu};
    const Device old{0x10005, "llvmpipe (LLVM 15.0.6, 256 bits)", VK_DRIVER_ID_MESA_LLVMPIPE, "Mesa 22.3.6", kCpu};
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
    const vkattn::DeviceTraits unknown = traits_of({0x1234, "A new one", kNone, "", kDiscrete});
    CHECK(unknown.max_loop_iterations == 0);
    CHECK(unknown.self_test == 1);
    CHECK(unknown.max_dispatch_megaflops == 100'000);
    // in a virtual machine Venus stands between, and passes the host's name on
    const Device guest{0x10005, "Virtio-GPU Venus (llvmpipe (LLVM 15.0.6, 256 bits))", VK_DRIVER_ID_MESA_VENUS,
                       "Mesa 22.3.6", kCpu};
    CHECK(traits_of(guest).max_loop_iterations == 65535);
    CHECK(traits_of({0x1234, "allvmpipes", kNone, "", kDiscrete}).max_loop_iterations == 0); // no whole word
}

TEST_SUITE_END();
