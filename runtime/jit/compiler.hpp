#pragma once

#include "runtime/jit/sources.hpp"

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace vkattn::jit {

// Text that does not compile: one line that names place and fault.
struct CompileError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Whether the compiler knows the module's extensions.
bool can_compile(const VariantModule &module);

// The SPIR-V of a module with the functions in it. Throws CompileError. Thread safe.
std::vector<uint32_t> compile(const VariantModule &module, const std::string &functions);

} // namespace vkattn::jit
