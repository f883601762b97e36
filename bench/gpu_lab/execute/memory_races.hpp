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
uint32_t number_of_next_workgroup();    // from 1, in the program's life
void note_barrier_between_dispatches(); // what was dispatched before is done before what follows
void forget_races(uint64_t address, uint64_t bytes);

} // namespace execute
