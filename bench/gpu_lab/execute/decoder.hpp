// Machine code, decoded by LLVM as it is reached.
#pragma once
#include "instruction.hpp"

#include <map>
#include <unordered_map>
#include <vector>

namespace execute {

class Program {
  public:
    Program(uint64_t base, int lanes);
    // Ends the executing program if the instruction is not known.
    const Instruction &at(uint64_t address) {
        const size_t index = size_t(address - base_) / 4;
        if (index < instructions_.size() && instructions_[index]) return *instructions_[index];
        return decode(address, index);
    }
    bool matches_memory() const; // of all that was decoded
    uint64_t base() const { return base_; }
    uint64_t number() const { return number_; }            // in the life of this process
    std::vector<Instruction *> barriers_and_waits() const; // that were decoded, by address
    std::vector<std::string> names() const;                // of what was decoded
    void set_shader(const std::string &name) { shader_ = name; }

  private:
    const Instruction &decode(uint64_t address, size_t index);
    void remove_if_asked(Instruction &instruction);
    uint64_t base_, number_;
    std::string shader_;
    int64_t barriers_ = 0, waits_ = 0; // that were decoded
    int lanes_;
    std::vector<std::unique_ptr<Instruction>> instructions_; // a slot each 4 bytes
};

// The program at an address; what was decoded is kept while memory holds the same code.
Program &program(uint64_t base, int lanes);

// Drops what was decoded from this memory, which goes.
void forget_programs(uint64_t address, uint64_t bytes);

} // namespace execute
