// LLVM's text of an instruction, read.
#pragma once
#include "instruction.hpp"

namespace execute {

// Fills what the text says; the address and length are the caller's. Returns what is not known, or nothing.
std::string read_assembly(Instruction &instruction, const std::string &text, int generation);

// The name that RDNA 3 and 4 have for an instruction of another generation.
std::string current_name(std::string name, int generation);

// Sets kind, waits and operands of memory, by name and text.
void classify(Instruction &instruction);

} // namespace execute
