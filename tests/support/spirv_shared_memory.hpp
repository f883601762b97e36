// Shared memory as a SPIR-V module declares it.
#pragma once

#include <cstdint>
#include <span>

namespace vkattn_test {

// Bytes of a module's workgroup variables where specialisation constant n is constants[n], or the module's own where
// there is none. Throws std::runtime_error on what this reader does not know.
std::uint64_t shared_memory_bytes(std::span<const std::uint32_t> spirv, std::span<const std::uint32_t> constants);

} // namespace vkattn_test
