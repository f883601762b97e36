// What the statistics layer wants to know of a SPIR-V module: how many invocations a workgroup has.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>

namespace vkattn::gpu_lab {

// Specialisation constants of one word each, by their ids.
using Constants = std::map<std::uint32_t, std::uint32_t>;

// A number of the module: fixed, or a default that a specialisation constant may replace.
struct ModuleNumber {
    std::uint32_t value = 0;
    std::optional<std::uint32_t> specialisation;
};

struct ModuleFacts {
    std::optional<ModuleNumber> size[3]; // of the workgroup, where the module says it

    static ModuleFacts read(std::span<const std::uint32_t> words);
    // Invocations of a workgroup, where the module says it.
    std::optional<std::uint32_t> workgroup_size(const Constants &constants) const;
};

} // namespace vkattn::gpu_lab
