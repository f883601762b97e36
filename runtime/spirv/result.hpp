#pragma once

#include "runtime/spirv/source.hpp"

#include <map>
#include <memory>
#include <optional>

// The module that specialise() makes: types and constants, each once, and the blocks of its function. Functions that drivers call for
// elements of matrices stay beside it.
namespace vkattn::spirv {

struct Block {
    uint32_t label = 0;
    std::vector<SourceInstruction> body = {};
    Instruction merge = {}; // or none
    Instruction terminator = {};
    uint32_t dominator = 0; // the last of the other blocks that every way here leads through
    uint32_t depth = 0;     // of the dominators
};

// What a pointer leads to. Only variables of an invocation are followed.
struct Place {
    uint32_t variable = 0; // of storage class Function; 0: of another, or unknown
    std::vector<uint32_t> path = {};
    bool is_constant = true; // false: an index that is not known ends the path
};

class Result {
    struct Expression {
        uint32_t id, block;
        Decorated decoration;
    };

  public:
    // Of a function, what is written of it.
    struct Body {
        std::vector<Instruction> variables = {};
        std::vector<Block> blocks = {};
        uint32_t current = 0;  // the number of the block that instructions are appended to
        Instruction line = {}; // of GLSL, of what is appended
        std::unordered_multimap<uint64_t, Expression> expressions = {};
    };
    // One that stays, and is whole.
    struct Callback {
        Instruction definition;
        std::vector<Instruction> parameters;
        Body body;
    };

    explicit Result(uint32_t bound);
    Result(const Result &) = delete;
    Result &operator=(const Result &) = delete;

    uint32_t bound() const { return static_cast<uint32_t>(definitions_.size()); }
    uint32_t new_id();
    Instruction definition(uint32_t id) const { return definitions_.at(id); } // or none
    void define(uint32_t id, Instruction instruction) { definitions_.at(id) = instruction; }
    // The 32 bits of a constant; nothing of a value that is not known.
    std::optional<uint32_t> known(uint32_t id) const { return known_.at(id); }
    // An instruction of these words, which lies where it is until the end. Its first word gets their number.
    Instruction keep(std::span<const uint32_t> words);

    // Types and constants that are alike become one, but for those that are always apart. Returns the id.
    uint32_t add_global(Instruction instruction, uint32_t result, bool is_apart);
    uint32_t constant(uint32_t type, uint32_t bits);
    uint32_t type_of(uint32_t id) const { return definition(id)[1]; }
    // Whether values of the type are followed: bool, or integers and floats of 32 bits.
    bool is_followed(uint32_t type) const;

    // Begins a block that these come from.
    void begin_block(uint32_t label, std::span<const uint32_t> from);
    Block &block() { return body.blocks[body.current]; }

    // The id of a value that the instruction needs not be written for: it is known, or another's, or was computed on every
    // way here. 0: it must be written.
    uint32_t simplified(std::span<const uint32_t> words);
    uint32_t computed_before(std::span<const uint32_t> words, Decorated decoration);
    // Appends to the block, and defines the result if there is one.
    Instruction append(std::span<const uint32_t> words);
    // The id of this value, with as few instructions as it takes.
    uint32_t value(uint32_t opcode, uint32_t type, std::span<const uint32_t> operands);

    Place place_of(uint32_t pointer) const;
    // Whether the path stays within the type, which code that never runs may leave.
    bool is_within(uint32_t type, std::span<const uint32_t> path) const;

    uint32_t library = 0; // GLSL.std.450
    std::vector<Instruction> globals;
    Body body; // of the function that is written
    std::vector<Callback> callbacks;

  private:
    uint32_t extracted(uint32_t type, uint32_t composite, std::span<const uint32_t> path);
    uint32_t simplified_scalar(uint32_t opcode, uint32_t type, std::span<const uint32_t> operands);
    bool is_repeatable(std::span<const uint32_t> words) const;
    uint32_t common_dominator(uint32_t a, uint32_t b) const;

    std::vector<std::unique_ptr<uint32_t[]>> chunks_;
    size_t used_ = 0; // words of the last chunk
    std::vector<Instruction> definitions_;
    std::vector<std::optional<uint32_t>> known_;
    std::map<std::vector<uint32_t>, uint32_t> globals_by_words_;
    std::unordered_map<uint64_t, uint32_t> scalars_; // constants, by type and bits
};

} // namespace vkattn::spirv
