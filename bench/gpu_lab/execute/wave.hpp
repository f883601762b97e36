// What a wave and its workgroup hold.
#pragma once
#include "findings.hpp"
#include "instruction.hpp"

#include <cstring>
#include <vector>

namespace execute {

constexpr int kMostLanes = 64;
constexpr int kTemporaryRegisters = 256; // three vector registers beyond the wave's own, for SDWA
constexpr uint32_t kPoison = 0x7fc0fe00; // a quiet NaN that no computation gives

// A word of LDS: who touched it in which barrier epoch.
struct LdsWord {
    uint32_t write_epoch = 0, read_epoch = 0;
    uint32_t readers = 0; // a bit a wave
    uint16_t writer = 0;
    bool is_written = false, is_atomic = false; // is_atomic: the last write, which others of its kind may meet
    uint32_t write_number = 0, read_number = 0; // among the accesses of LDS of the writer and of the last reader
    uint16_t last_reader = 0;
};

struct Wave;
struct Workgroup {
    std::array<uint32_t, 3> id{};
    uint32_t number = 0; // in the program's life
    uint32_t epoch = 1;
    std::vector<uint8_t> lds;
    std::vector<LdsWord> lds_words;
    std::vector<Wave *> waves;
};

// Registers that loads will deliver, in the order in which a counter counts down.
struct PendingLoad {
    Source source;
    uint16_t first, count;
    uint64_t lanes; // that it writes
    const Instruction *instruction;
};

struct Wave {
    uint32_t scalars[160];
    uint32_t scc = 0;
    uint64_t pc = 0;
    int lanes = 64; // of the wave: 32 or 64
    int generation = kRdna3;
    uint64_t move_lanes = ~0ull; // that DPP writes
    Workgroup *workgroup = nullptr;
    int id = 0;
    bool done = false, waits_at_barrier = false;
    int first_shared = 0, shared_registers = 0; // RDNA 1 and 2, waves of 64: registers that both halves have together
    bool halves_toward_zero = false;            // how f16 results are rounded; else to nearest
    uint64_t executed = 0;
    uint8_t *scratch = nullptr;
    uint32_t scratch_bytes = 0;
    std::vector<PendingLoad> pending[size_t(Counter::count)];
    uint32_t pending_registers = 0;      // loads in flight that have a destination
    RegisterSet pending_set;             // their destinations
    uint32_t shared_accesses = 0;        // of LDS, since the wave began
    uint32_t shared_ordered = 0;         // of these, how many come before what other waves do later
    uint32_t shared_done_at_barrier = 0; // of these, how many the wave had waited for when it last came to a barrier
    alignas(64) uint32_t vectors[kTemporaryRegisters + 8][kMostLanes];

    uint64_t all_lanes() const { return lanes == 64 ? ~0ull : 0xffffffffull; }
    uint64_t pair(int index) const { return uint64_t(scalars[index + 1]) << 32 | scalars[index]; }
    void set_pair(int index, uint64_t value) {
        scalars[index] = uint32_t(value);
        scalars[index + 1] = uint32_t(value >> 32);
    }
    uint64_t mask(int index) const { return lanes == 64 ? pair(index) : scalars[index]; }
    void set_mask(int index, uint64_t value) {
        if (index == kNull) return;
        if (lanes == 64)
            set_pair(index, value);
        else
            scalars[index] = uint32_t(value);
    }
    uint64_t exec() const { return mask(kExec); }
    void require_nearest() const {
        if (halves_toward_zero)
            stop("f16 results are rounded toward zero, which is known of conversions and of v_fma_mix alone");
    }

    void reset(bool poison);
    void end() { done = true, shared_done_at_barrier = ~0u; }
    void share_result(const Instruction &instruction); // after it, if the wave has shared registers
    void wait(const Instruction &instruction);
    void add_pending(Counter counter, const Instruction &instruction, const Operand *destination, int registers);
    void check_pending(const Instruction &instruction) {
        if (pending_registers && pending_set.meets(instruction.registers)) find_pending(instruction);
    }
    void find_pending(const Instruction &instruction);
    // Of its accesses of LDS, how many come before what other waves do after a barrier that it comes to now.
    uint32_t shared_done() const;
};

// Calls function(lane) for the lanes that exec has on.
template <class Function>
void for_each_lane(const Wave &wave, Function function) {
    for (uint64_t left = wave.exec(); left; left &= left - 1) function(__builtin_ctzll(left));
}

// Calls function(lane) for all lanes of the wave, in a loop of a constant length, which the compiler makes vectors of.
template <class Function>
inline void for_all_lanes(const Wave &wave, Function function) {
    if (wave.lanes == 32)
        for (int lane = 0; lane < 32; lane++) function(lane);
    else
        for (int lane = 0; lane < kMostLanes; lane++) function(lane);
}

} // namespace execute
