// Assembles by LLVM, for tests.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace execute {

// The code of assembly text for the processor of the settings. Throws std::runtime_error with LLVM's message.
std::vector<uint8_t> assemble(const std::string &text, int lanes);

} // namespace execute
