#include "findings.hpp"

#include "settings.hpp"
#include "wave.hpp"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <unistd.h>

namespace execute {
namespace {

constexpr int kFoundStatus = 97, kStoppedStatus = 98;

std::string current_program;
uint64_t found = 0;
bool are_thrown = false;

void fail_at_exit() {
    if (!found) return;
    fprintf(stderr, "execute: %" PRIu64 " findings, expected none\n", found);
    fflush(nullptr);
    if (!settings().fail) return;
    _exit(kFoundStatus);
}

} // namespace

void set_current_program(std::string name) { current_program = std::move(name); }

uint64_t findings() { return found; }

ThrownFindings::ThrownFindings() { are_thrown = true; }
ThrownFindings::~ThrownFindings() { are_thrown = false; }

void find(const Wave &wave, const Instruction &instruction, const char *what, uint64_t value, const char *detail) {
    static std::set<std::string> told;
    if (are_thrown) throw Finding(what);
    if (found++ == 0) atexit(fail_at_exit);
    if (!told.insert(current_program + what + instruction.text + std::to_string(instruction.address)).second) return;
    const auto &id = wave.workgroup->id;
    fprintf(stderr, "execute: %s: %s %" PRIu64 "%s%s, wave %d of workgroup %u,%u,%u, at %" PRIx64 ":%s\n",
            current_program.c_str(), what, value, *detail ? " " : "", detail, wave.id, id[0], id[1], id[2],
            instruction.address, instruction.text.c_str());
}

void stop(const std::string &line) {
    if (are_thrown) throw Finding("the program would end");
    fflush(stdout);
    fprintf(stderr, "execute: %s\n", line.c_str());
    _exit(kStoppedStatus);
}

} // namespace execute
