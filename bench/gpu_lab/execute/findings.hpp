// What a program did wrong on the GPU, and what this executor does not know.
#pragma once
#include <cstdint>
#include <stdexcept>
#include <string>

namespace execute {

struct Wave;
struct Instruction;

// Notes a finding: its first occurrence at an instruction is a line on standard error, and the program fails at its end.
void find(const Wave &wave, const Instruction &instruction, const char *what, uint64_t value = 0,
          const char *detail = "");

// Names the program whose instructions the next findings are of.
void set_current_program(std::string name);

uint64_t findings();

// While one lives, findings and what would end the program are thrown as these, and not told.
struct Finding : std::runtime_error {
    using std::runtime_error::runtime_error;
};
class ThrownFindings {
  public:
    ThrownFindings();
    ~ThrownFindings();
};

// Ends the program with one line: something is not known here, or cannot go on.
[[noreturn]] void stop(const std::string &line);

} // namespace execute
