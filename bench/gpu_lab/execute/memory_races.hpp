// Races in memory: accesses of waves that nothing orders, in a dispatch or between dispatches.
#pragma once
#include <cstdint>

namespace execute {

struct Wave;
struct Instruction;

void touch_memory(const Wave &wave, const Instruction &instruction, uint64_t address, uint32_t bytes, bool is_write);

void begin_dispatch_for_races();
uint32_t number_of_next_workgroup();    // from 1, in the program's life
void note_barrier_between_dispatches(); // what was dispatched before is done before what follows
void forget_races(uint64_t address, uint64_t bytes);

} // namespace execute
