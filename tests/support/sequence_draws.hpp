// Batches of sequences drawn at random, packed, in pages and dense.
#pragma once

#include "random_draws.hpp"
#include "sequence_cases.hpp"

#include <string>

namespace vkattn_test {

struct SequencesDraw {
    unsigned seed = 0; // of the contents
    SequencesCase batch;
    bool loses_pages = false;
    bool operator==(const SequencesDraw &) const = default;
};

// What the number is drawn to.
SequencesDraw draw_sequences(unsigned seed);
std::string text(const SequencesDraw &d);

// Dense queries over dense keys have one offset, not each sequence's own.
void align(SequencesCase &c);

} // namespace vkattn_test
