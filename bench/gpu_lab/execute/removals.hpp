// The proof that the executor sees: takes each barrier and each wait of a program out in turn, runs the dispatch again from the
// same memory, and writes down what noticed it (setting `removals`).
#pragma once
#include "decoder.hpp"

#include <functional>

namespace execute {

// Runs the dispatch by `run`, and then once for each barrier and wait that it reached; memory is then as the first run left it.
// A program is tried in a few dispatches, of the barriers and waits that nothing has noticed yet.
void run_with_removals(Program &program, const std::string &shader, const std::function<uint64_t()> &run);

// Before a barrier between dispatches: writes down whether the one before was needed, by who would have raced without it.
// number: of the barrier in the life of the process; a submission is one as well.
constexpr int64_t kSubmission = -1;
void note_flush(int64_t number);

// What a wave meets in the place of what was taken out.
void note_removed(const Wave &wave, const Instruction &instruction);

} // namespace execute
