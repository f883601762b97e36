#pragma once

#include "runtime/spirv/result.hpp"

namespace vkattn::spirv {

// Walks through the entry point once and writes what runs of it. A block that nothing goes to is never visited, a call is
// expanded where it stands, with its arguments known.
class Expansion {
  public:
    Expansion(Source &source, Result &result, std::span<const ConstantValue> values);
    void run();

    // The id of the result that stands for one of the source; 0: none does.
    uint32_t mapped(uint32_t id) const { return map_.at(id); }
    // Decorated instructions that were copied: ids of the result, and those of the source.
    const std::vector<std::pair<uint32_t, uint32_t>> &copies() const { return copies_; }

  private:
    // What variables hold, by their ids, ascending: the id of a value; 0: unknown.
    using State = std::vector<std::pair<uint32_t, uint32_t>>;

    // A block of a function that is being expanded. Nothing recurses: each function has one expansion at a time.
    struct Label {
        uint32_t exit = 0;              // the number of the result's block that it ended in
        std::vector<uint32_t> incoming; // labels of the source's blocks that go there
        State state;                    // where it begins
    };
    struct Return {
        uint32_t block; // of the result
        uint32_t value; // 0: none
        State state;
    };
    struct OpenPhi { // of a loop's header: values from the loop's end are not there yet
        Instruction phi, source;
        uint32_t label;
        size_t forward; // edges that it has
    };

    void add_global(Instruction instruction);
    void add_variable(Instruction variable);
    void add_constant_operation(Instruction operation);
    Instruction plain_constant(Instruction constant);

    uint32_t expand(SourceFunction &function);
    void begin_function(const SourceFunction &function);
    bool begin(const SourceBlock &block, uint32_t position);
    void forget_what_the_loop_changes(const SourceFunction &function, const SourceBlock &block);
    void end(const SourceFunction &function, const SourceBlock &block, std::vector<Return> &returns);
    uint32_t join(const SourceFunction &function, std::vector<Return> &returns, uint32_t end_label);
    void translate(Instruction instruction);
    uint32_t call(Instruction call);
    void keep_callback(uint32_t id);
    void require_own_variables(Instruction instruction) const;
    void declare(Instruction variable, std::vector<uint32_t> &words);
    uint32_t load(std::span<const uint32_t> words);
    void store(std::span<const uint32_t> words);
    void translate_phi(const SourceBlock &block, Instruction phi, std::vector<OpenPhi> &open);
    void complete(const OpenPhi &phi);
    void translate_terminator(const SourceBlock &block);
    uint32_t decided_target(Instruction terminator) const;
    void add_edge(uint32_t from, uint32_t to);
    std::vector<uint32_t> translated(Instruction instruction) const;
    void note_copy(uint32_t id, uint32_t source_id);

    uint32_t *content_of(uint32_t variable);
    void forget(uint32_t variable);
    static void keep_common(State &state, const State &other);

    Source &source_;
    Result &result_;
    std::span<const ConstantValue> values_;
    std::vector<uint32_t> map_; // by id of the source
    std::unordered_map<uint32_t, Label> labels_;
    State state_;           // here
    uint32_t position_ = 0; // of the block that is expanded, in the order of its function
    bool is_unreachable_ = false;
    std::vector<std::pair<uint32_t, uint32_t>> copies_;
};

} // namespace vkattn::spirv
