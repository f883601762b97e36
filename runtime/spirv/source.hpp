#pragma once

#include "runtime/spirv/instruction.hpp"

#include <unordered_map>
#include <utility>
#include <vector>

// The module that is specialised: its instructions, functions and blocks, each checked once as it is read.
namespace vkattn::spirv {

struct SourceInstruction {
    Instruction instruction;
    Instruction line; // OpLine, or none: the line of GLSL that it was made of
};

struct SourceBlock {
    uint32_t label = 0;
    std::vector<SourceInstruction> body = {}; // without what follows
    Instruction merge = {};                   // of a selection or a loop, or none
    Instruction terminator = {};
    bool is_loop_header() const { return merge.opcode() == OpLoopMerge; }
};

struct SourceLoop {
    uint32_t begin, end;             // positions of its first block, and of what follows its last
    std::vector<uint32_t> stored_to; // variables and parameters that its blocks store to, callees included
};

struct SourceFunction {
    Instruction definition;
    std::vector<uint32_t> parameters;
    std::vector<SourceBlock> blocks;

    // Made by Source::analyse():
    std::vector<uint32_t> order; // of blocks: those of a construct together, its merge block after them
    std::unordered_map<uint32_t, SourceLoop> loops; // by the header's label
    std::vector<uint32_t> stored_to;                // of its parameters and the module's variables
    size_t returns = 0;
    enum { kUnknown, kBegun, kDone } analysis = kUnknown;
};

// How an id is decorated.
enum class Decorated : uint8_t { kNot, kRelaxed, kOtherwise };

class Source {
  public:
    explicit Source(std::span<const uint32_t> code);
    Source(const Source &) = delete;
    Source &operator=(const Source &) = delete;

    uint32_t bound() const { return code_[kHeaderBound]; }
    std::span<const uint32_t> header() const { return std::span(code_).first(kHeaderWords); }
    // The entry point's function: it and what it calls are analysed.
    SourceFunction &entry_function() { return function(entry_); }
    // A function that is analysed. Throws CannotSpecialise where it is not there.
    SourceFunction &function(uint32_t id);
    Instruction definition(uint32_t id) const { return definitions_.at(id); } // or none
    // The position of a block in the order of its function, by its label.
    uint32_t position(uint32_t label) const { return positions_.at(label); }
    Decorated decoration(uint32_t id) const { return decorations_.at(id); }

    std::vector<Instruction> preamble; // what stands before types, in its order; without SpecId
    std::vector<Instruction> globals;  // types, constants and variables, in their order
    std::unordered_map<uint32_t, uint32_t> spec_ids;
    uint32_t entry() const { return entry_; }
    uint32_t library() const { return library_; }               // the id of GLSL.std.450; 0: none
    uint32_t workgroup_size() const { return workgroup_size_; } // the id of the constant that is this built-in; 0: none

  private:
    Instruction next(size_t &at);
    void read_global(Instruction instruction);
    void read_decoration(Instruction decoration);
    void read_function(Instruction definition, size_t &at);
    void analyse(SourceFunction &function);
    void order_blocks(SourceFunction &function) const;
    std::vector<uint32_t> stores_of(const SourceBlock &block);
    void analyse_callback(SourceFunction &callback);
    void add_call_stores(Instruction call, std::vector<uint32_t> &stores);
    uint32_t root_of(uint32_t pointer) const;

    std::vector<uint32_t> code_;
    std::vector<Instruction> definitions_; // by id
    std::vector<uint32_t> positions_;
    std::vector<Decorated> decorations_;
    std::unordered_map<uint32_t, SourceFunction> functions_;
    uint32_t entry_ = 0;
    uint32_t library_ = 0;
    uint32_t workgroup_size_ = 0;
};

} // namespace vkattn::spirv
