#include "runtime/device/device_table.hpp"

#include <algorithm>
#include <charconv>
#include <compare>
#include <optional>
#include <string_view>
#include <system_error>

namespace vkattn {
namespace {

constexpr uint32_t kAmd = 0x1002, kIntel = 0x8086, kNvidia = 0x10de, kQualcomm = 0x5143, kImagination = 0x1010,
                   kSamsung = 0x144d; // PCI; Khronos' for no PCI
constexpr uint32_t kAny = 0;
constexpr uint32_t kHoneykrisp = 26, kKosmicKrisp = 28; // VkDriverId: not in the headers of Debian 12

using Predicate = bool (*)(const vkattn_device_facts &facts);

// Of a driver, as its information says it: "26.5" of "Mesa 26.5.1-1".
struct Version {
    uint32_t major = 0, minor = 0;
    constexpr auto operator<=>(const Version &) const = default; // NOLINT(modernize-use-nullptr): not written here
};
constexpr Version kEver{UINT32_MAX, 0};

// A row matches by what the device says of itself; by a name only where nothing else tells.
struct Row {
    uint32_t vendor = kAny;
    uint32_t driver = kAny;     // VkDriverId, which for most drivers tells the system, too
    Predicate says = nullptr;   // of its other facts
    std::string_view name = ""; // whole words of the device's name
    std::string_view info = ""; // what the driver's information begins with, up to its version
    Version from{}, below = kEver;
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
            .matrix_units = 2,
            .widest_matrix_subgroup = 8,
            .unroll_matrices = 0,
            .matrix_outputs = 8};
}

// Intel's Xe2 and later have subgroups of 16 and 32; those before of 8, too: Mesa's drivers of the GPUs in tests/devices.
// A driver that does not tell is taken for a later one.
bool is_before_xe2(const vkattn_device_facts &facts) {
    return facts.min_subgroup_size != 0 && facts.min_subgroup_size < 16;
}

// Xe-LPG+ (Arrow Lake-H): the matrix units of Alchemist, which is no integrated GPU, in one that otherwise has none.
bool is_xe_lpg_plus(const vkattn_device_facts &facts) {
    return is_before_xe2(facts) && facts.device_type == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU &&
           facts.signed_integer_dot_product != 0 && facts.cooperative_matrix != 0;
}

// AMD's own two drivers, which share their compilers; from 2026 on there is one, of Windows.
bool is_amds_own(const vkattn_device_facts &facts) {
    return facts.driver_id == VK_DRIVER_ID_AMD_PROPRIETARY || facts.driver_id == VK_DRIVER_ID_AMD_OPEN_SOURCE;
}
bool is_amds_own_integrated(const vkattn_device_facts &facts) {
    return is_amds_own(facts) && facts.device_type == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
}

// On a GPU before RDNA3, which brought both the matrix instructions and V_DOT4_I32_IU8, which multiplies signed with
// unsigned bytes (the ISA documents of RDNA2 and RDNA3).
bool is_emulated_by_amd(const vkattn_device_facts &facts) {
    return is_amds_own(facts) && facts.mixed_integer_dot_product == 0;
}

// A multiprocessor of Turing keeps 32 warps, of Volta 64, of all later ones 48 or 64 (CUDA programming guide, compute
// capabilities).
bool is_turing(const vkattn_device_facts &facts) { return facts.max_subgroups_per_core == 32; }

constexpr Row kTable[] = {
    // Other projects' experience, not measured here: before 1.3, MoltenVK silently gave arrays whose sizes are
    // specialisation constants their default sizes (its issue 2423), which matters where modules are not specialised. What
    // it will make of cooperative matrices, whose sizes it wants as plain numbers (its issue 2753), nobody knows: tuning
    // tells. On AMD's GPUs it reports subgroups of 64 where Metal runs 32 (llama.cpp, issues 20029 and 23218).
    {.vendor = kAmd,
     .driver = VK_DRIVER_ID_MOLTENVK,
     .below = {1, 3},
     .traits = {.specialised_arrays = 0, .matrix_units = 0, .subgroup_operations = 0}},
    {.vendor = kAmd, .driver = VK_DRIVER_ID_MOLTENVK, .traits = {.matrix_units = 0, .subgroup_operations = 0}},
    {.driver = VK_DRIVER_ID_MOLTENVK, .below = {1, 3}, .traits = {.specialised_arrays = 0, .matrix_units = 2}},
    {.driver = VK_DRIVER_ID_MOLTENVK, .traits = {.matrix_units = 2}},
    // Mesa's two for Apple's GPUs: KosmicKrisp's subgroup sums of 1,536 numbers are wrong, those through shared memory
    // right (vllm-vulkan, issue 22). Honeykrisp, where it lists matrices, computes them in software (llama.cpp, pull
    // request 10982).
    {.driver = kKosmicKrisp, .traits = {.matrix_units = 0, .subgroup_operations = 0}},
    {.driver = kHoneykrisp, .traits = {.matrix_units = 0}},

    // llvmpipe is matched by name: a guest that sees it through Venus gets the host's name, and Venus' driver_id.
    //
    // Mesa 26's llvmpipe: attention of 64 wide heads runs at 114 GFLOP/s through addresses, at 98 % of what it
    // multiplies and adds at most, and at 4 through bound buffers. The loop limit is that of all llvmpipes, below. A
    // 64-bit value that differs between 16 lanes (LP_NATIVE_VECTOR_WIDTH=512) makes its compiler write past an array on
    // the stack, and cooperative matrices at that width make it crash; at 8 lanes they are right, slow, and slow to
    // compile.
    {.name = "llvmpipe", .info = "Mesa ", .from = {26, 0}, .traits = llvmpipe_traits(1)},
    // llvmpipe ends a shader's loops, silently, after so many iterations in all, nested ones included
    // (LP_MAX_TGSI_LOOP_ITERATIONS): found by attention over equal keys, whose log-sum-exp counts the keys seen. Before
    // Mesa 26 uniform loads inside loops are made once a lane.
    {.name = "llvmpipe", .traits = llvmpipe_traits(0)},
    // SwiftShader: linear layers (512 to 512 features, f16) of one row run at 0.06 GFLOP/s through addresses and at 0.02
    // in shared memory, of 4 at 0.14 and 0.02, of 64 at 0.18 and 0.34.
    {.driver = VK_DRIVER_ID_GOOGLE_SWIFTSHADER, .traits = {.most_addressed_linear_rows = 16}},

    // What follows is other projects' experience, not measured here: matrix units that are listed, and slower than
    // plain arithmetic or wrong. Any other device's are preferred: the self-test judges their numbers.
    //
    // llama.cpp (ggml_vk_khr_cooperative_matrix_support): Xe2 gains by them, an Arc A770 loses. Xe-LPG+ may gain (issue
    // 24404): tuning tells.
    {.vendor = kIntel, .says = is_xe_lpg_plus, .traits = {.matrix_units = 2}},
    {.vendor = kIntel, .says = is_before_xe2, .traits = {.matrix_units = 0}},
    // Xe2 on Mesa 26.2.3, not yet on 26.0.8: wrong where workgroups of one core multiply different numbers of matrices, as
    // those of causal attention do (llama.cpp, issue 24406).
    {.vendor = kIntel,
     .driver = VK_DRIVER_ID_INTEL_OPEN_SOURCE_MESA,
     .info = "Mesa ",
     .from = {26, 1},
     .below = {26, 3},
     .traits = {.matrix_units = 0}},
    // Xe2 on Windows: the device is lost (IGCIT, issue 1487; unsloth, 11453; llama.cpp, 22034).
    {.vendor = kIntel, .driver = VK_DRIVER_ID_INTEL_PROPRIETARY_WINDOWS, .traits = {.matrix_units = 0}},
    // llama.cpp, the same place: AMD's own drivers list them on all GPUs, and emulate them.
    {.vendor = kAmd, .says = is_emulated_by_amd, .traits = {.matrix_units = 0}},
    // From 26.3 on the process dies when a Radeon 860M is asked for its matrix shapes (AMDVLK, issue 422; llama.cpp,
    // 22750); from 26.5 on when a 9070 XT or a 7900 XTX builds or runs shaders, of matrices above all (llama.cpp, 23508;
    // whisper.cpp, 3806; koboldcpp, 2296). No later version is known to be right.
    {.vendor = kAmd, .says = is_amds_own_integrated, .from = {26, 3}, .below = {27, 0}, .traits = {.matrix_units = 0}},
    {.vendor = kAmd, .says = is_amds_own, .from = {26, 5}, .below = {27, 0}, .traits = {.matrix_units = 0}},
    // llama.cpp, pull request 19290: flash attention leaves them alone on Turing, for a bug of NVIDIA's compiler. Mesa's
    // driver has a compiler of its own.
    {.vendor = kNvidia, .driver = VK_DRIVER_ID_NVIDIA_PROPRIETARY, .says = is_turing, .traits = {.matrix_units = 0}},
    // Adreno: nothing tells GPUs apart on which they would pay, and nobody that we know of has found one; of the 840 four
    // ways are known in which its compiler gets them wrong (ncnn, pull requests 6719, 6720 and 6972).
    {.vendor = kQualcomm, .traits = {.matrix_units = 0}},
    // PowerVR: wrong tokens with matrices (llama.cpp, issue 28502), no pipeline for sums by subgroup operations (20565), and
    // a phone that starts anew some seconds later (28214).
    {.vendor = kImagination, .traits = {.max_dispatch_megaflops = 2'000, .matrix_units = 0, .subgroup_operations = 0}},
};

// The version that follows `prefix` at the beginning of `info`: "26.5" of "26.5.1 (LLPC)". None if none does.
std::optional<Version> version_after(std::string_view info, std::string_view prefix) {
    if (!info.starts_with(prefix)) return std::nullopt;
    Version version;
    const char *end = info.data() + info.size();
    const auto [dot, error] = std::from_chars(info.data() + prefix.size(), end, version.major);
    if (error != std::errc()) return std::nullopt;
    if (dot != end && *dot == '.') std::from_chars(dot + 1, end, version.minor);
    return version;
}

// LLVM 15 ends the process over unpackHalf2x16 when it compiles for 64-bit ARM ("Cannot select"); LLVM 21 does not.
#ifdef __aarch64__
constexpr bool kCompilesForArm64 = true;
#else
constexpr bool kCompilesForArm64 = false;
#endif

// About half a second's work of a slow device of the type; systems end what takes two. A slow card computes a third of
// what its three cores can (a GT 1030: 0.4 of 1.1 TFLOP/s), a slow integrated GPU 20 GFLOP/s.
uint32_t dispatch_megaflops(const vkattn_device_facts &facts) {
    constexpr uint32_t kOfCore = 30'000, kOfUnknownCores = 100'000, kOfOthers = 10'000;
    if (facts.device_type == VK_PHYSICAL_DEVICE_TYPE_CPU) return 0;
    if (facts.device_type != VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU) return kOfOthers;
    return facts.shader_cores == 0 ? kOfUnknownCores : facts.shader_cores * kOfCore;
}

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

bool is_alphanumeric(char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }

// Whether a device's name contains the words of a row, whole.
bool names_device(std::string_view words, std::string_view name) {
    if (words.empty()) return true;
    for (size_t at = name.find(words); at != std::string_view::npos; at = name.find(words, at + 1)) {
        const size_t end = at + words.size();
        if ((at == 0 || !is_alphanumeric(name[at - 1])) && (end == name.size() || !is_alphanumeric(name[end])))
            return true;
    }
    return false;
}

// A row that counts on a version does not match a driver that tells none.
bool has_version_of(const Row &row, std::string_view info) {
    if (row.from == Version{} && row.below == kEver) return info.starts_with(row.info);
    const std::optional<Version> version = version_after(info, row.info);
    return version.has_value() && *version >= row.from && *version < row.below;
}

bool matches(const Row &row, const vkattn_device_facts &facts) {
    const auto is = [](uint32_t wanted, uint32_t actual) { return wanted == kAny || wanted == actual; };
    return is(row.vendor, facts.vendor_id) && is(row.driver, facts.driver_id) &&
           (row.says == nullptr || row.says(facts)) && names_device(row.name, facts.name) &&
           has_version_of(row, facts.driver_info);
}

// Four workgroups of decode, of 128 invocations, on each core. FlashAttention and llama.cpp split keys for two, of more
// invocations. A single query has workgroups of one subgroup, and four times as many: 16 are the most that Turing and
// most Amperes keep at a time (CUDA programming guide), and no GPU of tests/devices keeps fewer than 32 subgroups. The
// rest would wait, and their parts be merged for nothing. Where the number of cores is unknown: enough for 128, of an
// integrated GPU for 32, which few of Apple's, Intel's and Qualcomm's have.
uint32_t workgroups_that_fill(const vkattn_device_facts &facts) {
    constexpr uint32_t kUnknown = 128, kUnknownIntegrated = 32;
    const bool integrated = facts.device_type == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
    const uint32_t cores = facts.shader_cores != 0 ? facts.shader_cores : integrated ? kUnknownIntegrated : kUnknown;
    return cores * kWorkgroupsOfCore;
}

// Compilers for one vendor's GPUs like the same shapes, whoever wrote them: the instructions are the vendor's.
GpuClass class_of_gpu(const vkattn_device_facts &facts) {
    constexpr uint32_t kApple = 0x106b, kArm = 0x13b5;
    if (facts.device_type == VK_PHYSICAL_DEVICE_TYPE_CPU) return GpuClass::kOther;
    if (facts.driver_id == kHoneykrisp) return GpuClass::kApple; // its vendor is Mesa
    switch (facts.vendor_id) {
    case kAmd:     // RDNA has subgroups of 32, too
    case kSamsung: // Xclipse is RDNA
        return facts.min_subgroup_size == 64 ? GpuClass::kGcn : GpuClass::kRdna;
    case kApple:
        return GpuClass::kApple;
    case kQualcomm:
        return GpuClass::kAdreno;
    case kIntel:
        return GpuClass::kIntel;
    case kNvidia:
        return GpuClass::kNvidia;
    case kArm:
        return GpuClass::kMali;
    default:
        return GpuClass::kOther;
    }
}

} // namespace

DeviceTraits device_traits(const vkattn_device_facts &facts) {
    const auto row = std::ranges::find_if(kTable, [&](const Row &each) { return matches(each, facts); });
    DeviceTraits traits = row == std::end(kTable) ? DeviceTraits{} : row->traits;
    if (kCompilesForArm64 && contains(facts.name, "llvmpipe (LLVM 15")) traits.unpacks_halves = 0;
    if (traits.max_dispatch_megaflops == 0) traits.max_dispatch_megaflops = dispatch_megaflops(facts);
    if (traits.parallel_workgroups == 0) traits.parallel_workgroups = workgroups_that_fill(facts);
    if (facts.device_type == VK_PHYSICAL_DEVICE_TYPE_CPU) traits.self_test = traits.half_workspaces = 0;
    traits.byte_products = facts.signed_integer_dot_product;
    if (traits.gpu_class == 0) traits.gpu_class = static_cast<uint32_t>(class_of_gpu(facts));
    return traits;
}

} // namespace vkattn
