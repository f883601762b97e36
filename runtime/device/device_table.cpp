#include "runtime/device/device_table.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace vkattn {
namespace {

constexpr uint32_t kAmd = 0x1002, kIntel = 0x8086, kNvidia = 0x10de, kQualcomm = 0x5143; // PCI; Khronos' for no PCI
constexpr uint32_t kMesaSoftware = 0x10005;
constexpr uint32_t kGoogle = 0x1ae0;
constexpr uint32_t kAnyVendor = 0;

struct Row {
    uint32_t vendor;
    std::string_view name;   // what the device's name contains, in whole words; with a * behind, the last one begins so
    std::string_view driver; // what the driver's name contains
    std::string_view info;   // what the driver's information begins with, up to its version
    uint32_t first_version;
    DeviceTraits traits;
};

// What the versions of llvmpipe have in common, and the ways of reading K and V in which they differ. Linear layers of
// 64 rows (f16) through addresses and in shared memory: 52 and 226 ms on Mesa 26 (4096 to 4096 features), 72 and 585 on
// 25, 54 and 1163 on 22.3 (2048 to 4096); of one row 4 and 13, 8 and 23, 4 and 45.
constexpr DeviceTraits llvmpipe_traits(uint32_t scalar_address_loads) {
    return {.max_loop_iterations = 65535,
            .scalar_address_loads = scalar_address_loads,
            .widest_divergent_addresses = 8,
            .most_addressed_linear_rows = UINT32_MAX,
            .parallel_workgroups = 16,
            .matrix_units = 0,
            .widest_matrix_subgroup = 8,
            .unroll_matrices = 0,
            .matrix_outputs = 8};
}

constexpr Row kTable[] = {
    // Other projects' experience, not measured here: before 1.3, MoltenVK silently gave arrays whose sizes are
    // specialisation constants their default sizes (its issue 2423). Sizes of cooperative matrices must be constants
    // for it.
    {kAnyVendor, "", "MoltenVK", "1.", 3, {.matrix_units = 0}},
    {kAnyVendor, "", "MoltenVK", "1.", 0, {.specialised_arrays = 0, .matrix_units = 0}},
    {kAnyVendor, "", "MoltenVK", "", 0, {.matrix_units = 0}},

    // Mesa 26's llvmpipe: attention of 64 wide heads runs at 114 GFLOP/s through addresses, at 98 % of what it
    // multiplies and adds at most, and at 4 through bound buffers. The loop limit is that of all llvmpipes, below. A
    // 64-bit value that differs between 16 lanes (LP_NATIVE_VECTOR_WIDTH=512) makes its compiler write past an array on
    // the stack, and cooperative matrices at that width make it crash; at 8 lanes they are right, slow, and slow to
    // compile.
    {kMesaSoftware, "llvmpipe", "", "Mesa ", 26, llvmpipe_traits(1)},
    // llvmpipe ends a shader's loops, silently, after so many trips in all, nested ones included
    // (LP_MAX_TGSI_LOOP_ITERATIONS): found by attention over equal keys, whose log-sum-exp counts the keys seen. Before
    // Mesa 26 uniform loads inside loops are made once a lane.
    {kMesaSoftware, "llvmpipe", "", "", 0, llvmpipe_traits(0)},
    // SwiftShader: linear layers (512 to 512 features, f16) of one row run at 0.06 GFLOP/s through addresses and at 0.02
    // in shared memory, of 4 at 0.14 and 0.02, of 64 at 0.18 and 0.34.
    {kGoogle, "SwiftShader", "", "", 0, {.most_addressed_linear_rows = 16}},

    // What follows is other projects' experience, not measured here: matrix units that are listed, and slower than
    // plain arithmetic or wrong. Rows of devices that are well stand before their vendor's.
    //
    // Intel: Xe2 (Battlemage, Lunar Lake) and later are well; before, cooperative matrices do not pay.
    {kIntel, "BMG", "", "", 0, {}},
    {kIntel, "Arc(TM) B*", "", "", 0, {}},
    {kIntel, "Arc(tm) B*", "", "", 0, {}},
    {kIntel, "LNL", "", "", 0, {}},
    {kIntel, "Lunar Lake", "", "", 0, {}},
    {kIntel, "PTL", "", "", 0, {}},
    {kIntel, "Panther Lake", "", "", 0, {}},
    {kIntel, "", "", "", 0, {.matrix_units = 0}},
    // AMD's own drivers list them on GPUs that emulate them; RDNA3 and later have them.
    {kAmd, "RX 7*", "", "", 0, {}},
    {kAmd, "RX 9*", "", "", 0, {}},
    {kAmd, "PRO W7*", "", "", 0, {}},
    {kAmd, "AI PRO", "", "", 0, {}},
    {kAmd, "740M", "", "", 0, {}},
    {kAmd, "760M", "", "", 0, {}},
    {kAmd, "780M", "", "", 0, {}},
    {kAmd, "840M", "", "", 0, {}},
    {kAmd, "860M", "", "", 0, {}},
    {kAmd, "880M", "", "", 0, {}},
    {kAmd, "890M", "", "", 0, {}},
    {kAmd, "8050S", "", "", 0, {}},
    {kAmd, "8060S", "", "", 0, {}},
    {kAmd, "", "AMD proprietary", "", 0, {.matrix_units = 0}},
    // Turing, whose names other generations share the beginnings of (RTX 2050, RTX 2000 Ada).
    {kNvidia, "RTX 2060", "", "", 0, {.matrix_units = 0}},
    {kNvidia, "RTX 2070", "", "", 0, {.matrix_units = 0}},
    {kNvidia, "RTX 2080", "", "", 0, {.matrix_units = 0}},
    {kNvidia, "GTX 16*", "", "", 0, {.matrix_units = 0}},
    {kNvidia, "Quadro RTX", "", "", 0, {.matrix_units = 0}},
    {kNvidia, "TITAN RTX", "", "", 0, {.matrix_units = 0}},
    {kNvidia, "Tesla T4", "", "", 0, {.matrix_units = 0}},
    // Adreno.
    {kQualcomm, "", "", "", 0, {.matrix_units = 0}},
};

// The number that `info` goes on with behind `prefix`; -1 where it does not.
int64_t version_behind(std::string_view info, std::string_view prefix) {
    if (!info.starts_with(prefix)) return -1;
    int64_t version = 0; // where there is no number
    std::from_chars(info.data() + prefix.size(), info.data() + info.size(), version);
    return version;
}

// LLVM 15 ends the process over unpackHalf2x16 when it compiles for 64-bit ARM ("Cannot select"); LLVM 21 does not.
#ifdef __aarch64__
constexpr bool kCompilesForArm64 = true;
#else
constexpr bool kCompilesForArm64 = false;
#endif

// About a second's work of a slow device of the type, as far as attention goes.
uint32_t dispatch_megaflops(VkPhysicalDeviceType type) {
    if (type == VK_PHYSICAL_DEVICE_TYPE_CPU) return 0;
    return type == VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU ? 1'000'000 : 100'000;
}

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

bool is_alphanumeric(char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }

// Whether a device's name contains the words of a row.
bool names_device(std::string_view words, std::string_view name) {
    if (words.empty()) return true;
    const bool is_beginning = words.back() == '*';
    if (is_beginning) words.remove_suffix(1);
    for (size_t at = name.find(words); at != std::string_view::npos; at = name.find(words, at + 1)) {
        const size_t end = at + words.size();
        const bool begins = at == 0 || !is_alphanumeric(name[at - 1]);
        if (begins && (is_beginning || end == name.size() || !is_alphanumeric(name[end]))) return true;
    }
    return false;
}

bool matches(const Row &row, const vkattn_device_facts &facts) {
    return (row.vendor == kAnyVendor || facts.vendor_id == row.vendor) && names_device(row.name, facts.name) &&
           contains(facts.driver_name, row.driver) && version_behind(facts.driver_info, row.info) >= row.first_version;
}

} // namespace

DeviceTraits device_traits(const vkattn_device_facts &facts) {
    const auto row = std::ranges::find_if(kTable, [&](const Row &each) { return matches(each, facts); });
    DeviceTraits traits = row == std::end(kTable) ? DeviceTraits{} : row->traits;
    if (kCompilesForArm64 && contains(facts.name, "llvmpipe (LLVM 15")) traits.unpacks_halves = 0;
    if (traits.max_dispatch_megaflops == 0) traits.max_dispatch_megaflops = dispatch_megaflops(facts.device_type);
    if (facts.device_type == VK_PHYSICAL_DEVICE_TYPE_CPU) traits.self_test = 0;
    return traits;
}

} // namespace vkattn
