#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace vkattn::spirv {

// The value of a specialisation constant of 32 bits, or of a bool, by its SpecId.
struct ConstantValue {
    uint32_t id;
    uint32_t value;
    auto operator<=>(const ConstantValue &) const = default; // NOLINT(modernize-use-nullptr): not written here
};

// A module that specialise() does not take, damaged or unusual: the driver must specialise it then.
struct CannotSpecialise : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Returns what a driver would make of a compute module of one entry point and of the values of its specialisation
// constants before it compiles: one function, in which constants are plain. Calls are inlined, constants are followed
// through values and through variables of an invocation, branches on constants are taken, and what nothing needs is left
// out. Floating-point numbers are never computed, so that bits stay the driver's.
// Constants that `values` leaves out have the module's defaults. name: what the function is called in tools that show the
// module; its entry point keeps its own. Throws CannotSpecialise.
std::vector<uint32_t> specialise(std::span<const uint32_t> code, std::span<const ConstantValue> values,
                                 std::string_view name);

// Changes with what specialise() writes: what was learned of other code is no longer true.
inline constexpr uint32_t kSpecialiserVersion = 1;

} // namespace vkattn::spirv
