// Races in memory: accesses of waves that nothing orders, in a dispatch or between dispatches.
#pragma once
#include <cstdint>

namespace execute {

struct Wave;
struct Instruction;

struct Store {
    const uint8_t *host = nullptr; // where it lies in this process
    const void *written = nullptr; // the bytes that are written now; null: they are read
};
void touch_memory(const Wave &wave, const Instruction &instruction, uint64_t address, uint32_t bytes, Store store = {});

void begin_dispatch_for_races();
uint32_t number_of_next_workgroup();                  // from 1, in the program's life
void note_barrier_between_dispatches();               // what was dispatched before is done before what follows
void touch_by_copy(uint64_t address, uint64_t bytes); // which the command processor does itself

// How far dispatches are ordered, by the numbers of their workgroups.
struct DispatchOrder {
    uint32_t done = 0;      // up to this one they were done before the last barrier
    uint32_t previous = 0;  // and up to this one before the barrier before that
    bool is_needed = false; // whether the last barrier alone orders two accesses that conflict
};
DispatchOrder &dispatch_order();
void forget_races(uint64_t address, uint64_t bytes);

} // namespace execute
