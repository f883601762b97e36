#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace vkattn {

// The SPIR-V modules, one for each line of the variant table in shaders/CMakeLists.txt.
enum class Module : uint32_t {
    kFlash,
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

// Its storage buffers are bound at 0 .. bindings - 1; a uniform block, where there is one, after them.
struct ModuleLayout {
    uint32_t bindings;
    uint32_t push_bytes;
    uint32_t uniform_bytes; // 0: none
    bool full_subgroups;    // of as many invocations as the constant SUBGROUP_SIZE says
};
const ModuleLayout &module_layout(Module module);

} // namespace vkattn
