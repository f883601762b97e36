// The table of instructions: a line each, in the files of their formats.
#pragma once
#include "instruction.hpp"

#include <span>
#include <vector>

namespace execute {

struct Entry {
    const char *name;
    Execute execute;
};

std::span<const Entry> scalar_instructions();        // SOP1, SOP2, SOPC, SOPK, SOPP
std::span<const Entry> scalar_memory_instructions(); // SMEM
std::span<const Entry> vector_instructions();        // VOP1, VOP2, VOP3
std::span<const Entry> compare_instructions();       // VOPC
std::span<const Entry> class_instructions();         // VOPC: what kind of float
std::span<const Entry> packed_instructions();        // VOP3P without matrices
std::span<const Entry> matrix_instructions();        // WMMA
std::span<const Entry> data_share_instructions();    // DS
std::span<const Entry> vector_memory_instructions(); // MUBUF, GLOBAL, FLAT, SCRATCH

// By current_name, with or without the suffix of its encoding; null if it is not known.
Execute find_instruction(const std::string &name);

std::vector<std::string> instruction_names(); // of the whole table

// Moves what SDWA selects around the instruction that was read.
void make_sub_dword(Instruction &instruction);

} // namespace execute
