#include "removals.hpp"

#include "findings.hpp"
#include "memory_journal.hpp"
#include "memory_races.hpp"
#include "settings.hpp"
#include "wave.hpp"

#include <algorithm>
#include <cinttypes>
#include <nlohmann/json.hpp>

namespace execute {
namespace {

constexpr uint64_t kMostInstructions = 3'000'000; // of a dispatch that is run again and again
constexpr int kMostDispatches = 6;                // of a program

// What was in flight where a wait was taken out.
struct Met {
    uint64_t times = 0, nothing = 0, stores = 0, loads = 0;
};
Met met;

struct Outcome {
    std::string noticed; // what; empty: nothing
    size_t wrong_words = 0;
};

// A barrier between dispatches.
struct Flush {
    int64_t number = kSubmission;
    std::string before, after; // shaders of the dispatches around it
    int dispatches_before = 0, dispatches_after = 0;
};
Flush flush;

struct Trial {
    int dispatches = 0;
    std::map<uint64_t, bool> noticed; // by address
};

FILE *file() {
    static FILE *result = fopen(settings().removals.c_str(), "w");
    if (!result) stop("the file of removals '" + settings().removals + "' cannot be written");
    return result;
}

size_t differing(const MemoryJournal::Words &expected, const MemoryJournal::Words &before,
                 const MemoryJournal::Words &now) {
    size_t result = 0;
    for (const auto &[word, value] : expected) {
        uint32_t current;
        memcpy(&current, word, sizeof current);
        result += current != value;
    }
    for (const auto &[word, value] : now) result += !expected.contains(word) && before.at(word) != value;
    return result;
}

Outcome run_without(Instruction &instruction, const MemoryJournal::Words &expected,
                    const std::function<uint64_t()> &run) {
    Outcome outcome;
    met = {};
    instruction.is_removed = true;
    note_barrier_between_dispatches();
    journal().start();
    {
        const ThrownFindings thrown;
        try {
            run();
        } catch (const Finding &finding) {
            outcome.noticed = finding.what();
        }
    }
    journal().stop();
    instruction.is_removed = false;
    const auto before = journal().before();
    if (outcome.noticed.empty()) outcome.wrong_words = differing(expected, before, journal().now());
    put_words(before);
    return outcome;
}

void write(const Program &program, const std::string &shader, const Instruction &instruction, const Outcome &outcome) {
    const nlohmann::json line = {
        {"shader", shader},
        {"program", program.number()},
        {"offset", instruction.address - program.base()},
        {"instruction", instruction.text.substr(instruction.text.find_first_not_of(" \t"))},
        {"is_barrier", instruction.is_barrier},
        {"noticed", outcome.noticed},
        {"wrong_words", outcome.wrong_words},
        {"times", met.times},
        {"nothing", met.nothing},
        {"stores", met.stores},
        {"loads", met.loads},
    };
    fprintf(file(), "%s\n", line.dump().c_str());
    fflush(file());
}

} // namespace

void note_removed(const Wave &wave, const Instruction &instruction) {
    met.times++;
    if (instruction.is_barrier) return;
    bool has_loads = false;
    bool has_stores = instruction.orders_shared && wave.shared_done() < wave.shared_accesses;
    for (size_t counter = 0; counter < size_t(Counter::count); counter++) {
        const auto &queue = wave.pending[counter];
        const size_t left = instruction.wait_for[counter];
        for (size_t k = 0; left != 255 && k + left < queue.size(); k++)
            (queue[k].source == Source::none ? has_stores : has_loads) = true;
    }
    met.loads += has_loads;
    met.stores += has_stores && !has_loads;
    met.nothing += !has_stores && !has_loads;
}

void note_flush(int64_t number) {
    if (settings().removals.empty()) return;
    const nlohmann::json line = {{"flush", flush.number},
                                 {"before", flush.before},
                                 {"after", flush.after},
                                 {"dispatches_before", flush.dispatches_before},
                                 {"dispatches_after", flush.dispatches_after},
                                 {"is_needed", dispatch_order().is_needed}};
    if (flush.number != kSubmission) fprintf(file(), "%s\n", line.dump().c_str());
    flush = {number, flush.after, "", flush.dispatches_after, 0};
}

void run_with_removals(Program &program, const std::string &shader, const std::function<uint64_t()> &run) {
    static std::map<uint64_t, Trial> trials; // by the program's number
    Trial &trial = trials[program.number()];
    flush.after = shader.empty() ? "the driver's own" : shader;
    flush.dispatches_after++;
    journal().start();
    const uint64_t executed = run();
    journal().stop();
    if (executed > kMostInstructions || trial.dispatches++ >= kMostDispatches) return;
    const auto expected = journal().now();
    put_words(journal().before());
    const DispatchOrder order = dispatch_order();
    for (Instruction *instruction : program.barriers_and_waits()) {
        bool &noticed = trial.noticed[instruction->address];
        if (noticed) continue;
        const Outcome outcome = run_without(*instruction, expected, run);
        noticed = !outcome.noticed.empty() || outcome.wrong_words;
        write(program, shader, *instruction, outcome);
    }
    put_words(expected);
    dispatch_order() = order;
}

} // namespace execute
