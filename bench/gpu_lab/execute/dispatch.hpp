// A dispatch: its workgroups one after the other, their waves in turns.
#pragma once
#include <array>
#include <cstdint>
#include <string>

namespace execute {

// What the command processor's registers and the packet say.
struct Dispatch {
    uint64_t code = 0;
    int lanes = 64; // of a wave
    std::array<uint32_t, 3> groups{}, first_group{}, group_size{},
        last_size{}; // last_size: of the last group in each dimension
    std::array<uint32_t, 16> user_data{};
    uint32_t resources[2] = {}; // COMPUTE_PGM_RSRC1 and 2
    std::string shader;         // its name, if it is known

    uint32_t lds_bytes() const { return (resources[1] >> 15 & 0x1ff) * 512; }
    uint32_t user_scalars() const { return resources[1] >> 1 & 31; }
    bool has_scratch() const { return resources[1] & 1; }
    uint32_t vector_registers() const { return ((resources[0] & 63) + 1) * (lanes == 32 ? 8 : 4); }
};

void run(const Dispatch &dispatch);

struct Wave;
class Program;
// Up to a barrier, the end, or so many instructions (0: any number).
void run_wave(Program &program, Wave &wave, uint64_t most_instructions);

} // namespace execute
