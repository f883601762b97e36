// A dispatch: its workgroups one after the other, their waves in turns.
#pragma once
#include "shader_names.hpp"

#include <array>
#include <cstdint>

namespace execute {

// What the command processor's registers and the packet say.
struct Dispatch {
    uint64_t code = 0;
    int lanes = 64; // of a wave
    std::array<uint32_t, 3> groups{}, first_group{}, group_size{},
        last_size{}; // last_size: of the last group in each dimension
    std::array<uint32_t, 16> user_data{};
    uint32_t resources[3] = {}; // COMPUTE_PGM_RSRC1, 2 and, since RDNA, 3
    uint32_t scratch_ring = 0;  // COMPUTE_TMPRING_SIZE
    Shader shader;

    uint32_t lds_bytes() const { return (resources[1] >> 15 & 0x1ff) * 512; }
    uint32_t user_scalars() const { return resources[1] >> 1 & 31; }
    uint32_t scratch_bytes_of_wave() const { return (scratch_ring >> 12 & 0x1fff) * 1024; }
    bool has_scratch() const { return resources[1] & 1; }
    uint32_t vector_registers() const { return ((resources[0] & 63) + 1) * (lanes == 32 ? 8 : 4); }
    uint32_t shared_registers() const { return lanes == 64 ? (resources[2] & 15) * 8 : 0; } // by both halves of a wave
};

void run(const Dispatch &dispatch);

struct Wave;
class Program;
// Up to a barrier, the end, or so many instructions (0: any number).
void run_wave(Program &program, Wave &wave, uint64_t most_instructions);

} // namespace execute
