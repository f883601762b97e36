// What an access of memory or of LDS asks of the hardware.
#pragma once
#include "wave.hpp"

namespace execute {

constexpr uint64_t kLineBytes = 128; // of caches

struct Access {
    uint32_t lds_cycles = 0, lds_fewest_cycles = 0; // with the conflicts of its banks, and without
    uint32_t address_lines = 0;                     // that the address unit takes, a cycle each
    uint64_t bytes = 0;                             // of all lanes
    std::vector<uint64_t> lines;                    // of memory, each once
};

// Of any instruction, before it is executed; empty of those that access nothing.
void find_access(const Wave &wave, const Instruction &instruction, Access &result);

} // namespace execute
