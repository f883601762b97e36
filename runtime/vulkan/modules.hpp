#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace vkattn {

// The SPIR-V modules, one for each line of the variant table in shaders/CMakeLists.txt.
enum class Module : uint32_t {
    kFlash,
    kFlashHalves,
    kFlashWideHalves,
    kDecode,
    kDecodeSubgroups,
    kDecodeHalves,
    kDecodeHalvesSubgroups,
    kFlashAddresses,
    kCoopmat,
    kCoopmatRolled,
    kCoopmatBf16,
    kMergeParts,
    kMerge,
    kQkScores,
    kMaskedSoftmax,
    kWeightedValues,
    kLinear,
    kLinearVector,
    kLinearAddresses,
    kLinearCoopmat,
    kLinearCoopmatBf16,
    kEmbedding,
    kNorm,
    kRope,
    kKvAppend,
    kAdvanceLengths,
    kCount
};

const char *module_name(Module module);

// The SPIR-V; empty where it was not built.
std::span<const uint32_t> module_code(Module module);

// Whether the build's GLSL compiler knew the extensions of the module.
bool module_is_built(Module module);

// The names of the specialisation constants, in the order of their ids.
std::span<const char *const> module_constants(Module module);

// The ids of the specialisation constants that a module reads, in order.
std::vector<uint32_t> specialisation_ids(std::span<const uint32_t> code);

// Of storage buffers, a bit for each binding number.
using BindingSet = uint64_t;

// The binding numbers that a module declares, its uniform block's among them.
BindingSet binding_set(std::span<const uint32_t> code);

// The module with the bindings of `used` numbered 0, 1, 2 ... in their order. The others, which no invocation reaches, share
// the number of one that is written: some are declared writable, and nobody must take them to write what others read.
// `uniforms`, the uniform block's number, becomes the one after those of `used`.
std::vector<uint32_t> renumber_bindings(std::span<const uint32_t> code, BindingSet used, uint32_t uniforms);

// Its storage buffers have the binding numbers 0 .. bindings - 1; a uniform block, where there is one, the next.
struct ModuleLayout {
    uint32_t bindings;
    uint32_t push_bytes;
    uint32_t uniform_bytes; // 0: none
    bool full_subgroups;    // of as many invocations as the constant SUBGROUP_SIZE says
};
const ModuleLayout &module_layout(Module module);

} // namespace vkattn
