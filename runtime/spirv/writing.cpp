#include "runtime/spirv/writing.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <unordered_set>

namespace vkattn::spirv {
namespace {

class Writing {
  public:
    Writing(const Source &source, const Expansion &expansion, Result &result)
        : source_(source), expansion_(expansion), result_(result), numbers_(result.bound()) {}
    std::vector<uint32_t> run(std::string_view name);

  private:
    void mark_all();
    void mark_body(const Result::Body &body);
    void note_files(const Result::Body &body);
    void mark(Instruction instruction);
    void mark_id(uint32_t id) { mark(result_.definition(id)); }
    void mark_what_is_marked();
    bool is_live(Instruction instruction) const { return live_.contains(instruction.data()); }
    bool is_live(uint32_t id) const {
        return id == source_.entry() || id == source_.library() || is_live(result_.definition(id)) || is_used_file(id);
    }
    bool is_used_file(uint32_t id) const { return files_.contains(id); }

    void write(std::span<const uint32_t> words);
    void write(Instruction instruction) { write(std::span<const uint32_t>(instruction.words())); }
    void write_preamble(std::string_view name);
    void write_name(std::string_view name);
    void write_entry_point(Instruction entry);
    void write_execution_mode(Instruction mode);
    void write_decoration(Instruction decoration);
    void write_copied_decorations();
    void write_globals();
    void write_function(Instruction definition, std::span<const Instruction> parameters, const Result::Body &body);
    void write_functions();
    void write_block(const Block &block, std::span<const Instruction> variables);
    uint32_t number(uint32_t id);
    uint32_t local_size(uint32_t id) const;

    const Source &source_;
    const Expansion &expansion_;
    Result &result_;
    std::unordered_set<const uint32_t *> live_;
    std::unordered_set<uint32_t> files_;                            // OpStrings of lines
    std::vector<Instruction> marked_;                               // whose operands are still to mark
    std::unordered_map<uint32_t, std::vector<Instruction>> stores_; // to a variable of the function, by it
    std::vector<uint32_t> numbers_;                                 // by id: its number in the module
    uint32_t bound_ = 1;
    std::vector<uint32_t> module_;
    Instruction line_; // the last one of the block
};

// ---------------------------------------------------------------------------------------------------- what is needed

void Writing::mark(Instruction instruction) {
    if (!instruction || !live_.insert(instruction.data()).second) return;
    marked_.push_back(instruction);
}

void Writing::mark_body(const Result::Body &body) {
    for (const Block &block : body.blocks) {
        for (const auto &[instruction, line] : block.body) {
            const uint32_t variable = instruction.opcode() == OpStore ? result_.place_of(instruction[1]).variable : 0;
            if (variable != 0) // needed if the variable is
                stores_[variable].push_back(instruction);
            else if (!only_gives_its_result(instruction))
                mark(instruction);
        }
        mark(block.terminator);
    }
}

void Writing::mark_all() {
    mark_body(result_.body);
    for (const Result::Callback &callback : result_.callbacks) {
        mark(callback.definition);
        for (const Instruction parameter : callback.parameters) mark(parameter);
        mark_body(callback.body);
    }
    for (const Instruction mode : source_.preamble)
        if (mode.opcode() == OpExecutionModeId)
            for (const uint32_t id : mode.from(3)) mark_id(expansion_.mapped(id));
    const Instruction function = source_.definition(source_.entry());
    mark_id(expansion_.mapped(function[1]));
    mark_id(expansion_.mapped(function[4]));
    mark_what_is_marked();
    note_files(result_.body);
    for (const Result::Callback &callback : result_.callbacks) note_files(callback.body);
}

void Writing::note_files(const Result::Body &body) {
    for (const Block &block : body.blocks)
        for (const auto &[instruction, line] : block.body)
            if (line && is_live(instruction)) files_.insert(line[1]);
}

void Writing::mark_what_is_marked() {
    while (!marked_.empty()) {
        const Instruction instruction = marked_.back();
        marked_.pop_back();
        if (instruction.opcode() == OpVariable)
            for (const Instruction store : stores_[instruction[2]]) mark(store);
        for_ids(instruction, [&](uint32_t id) { mark_id(id); });
    }
}

// ------------------------------------------------------------------------------------------------------------- words

uint32_t Writing::number(uint32_t id) {
    uint32_t &number = numbers_.at(id);
    if (number == 0) number = bound_++;
    return number;
}

void Writing::write(std::span<const uint32_t> words) {
    const size_t at = module_.size();
    module_.insert(module_.end(), words.begin(), words.end());
    const Instruction instruction(&module_[at]);
    const uint32_t result = for_ids(instruction, [&](uint32_t &id) { id = number(id); });
    if (result != 0) instruction[result] = number(instruction[result]);
}

std::vector<uint32_t> Writing::run(std::string_view name) {
    mark_all();
    const auto header = source_.header();
    module_.assign(header.begin(), header.end());
    write_preamble(name);
    write_globals();
    write_functions();
    module_[kHeaderBound] = bound_;
    return std::move(module_);
}

void Writing::write_name(std::string_view name) {
    std::vector<uint32_t> words(2 + name.size() / sizeof(uint32_t) + 1); // ended by a zero
    words[1] = source_.entry();
    std::memcpy(&words[2], name.data(), name.size());
    words[0] = first_word(OpName, words.size());
    write(words);
}

// Names stand after execution modes, before decorations.
void Writing::write_preamble(std::string_view name) {
    bool are_copies_written = false;
    for (const Instruction instruction : source_.preamble) switch (instruction.opcode()) {
        case OpSource: // of what the functions were
        case OpSourceExtension:
        case OpSourceContinued:
        case OpModuleProcessed:
        case OpName:
        case OpMemberName:
            break;
        case OpString:
            if (is_used_file(instruction[1])) write(instruction);
            break;
        case OpEntryPoint:
            write_entry_point(instruction);
            break;
        case OpExecutionMode:
        case OpExecutionModeId:
            write_execution_mode(instruction);
            break;
        case OpDecorate:
        case OpMemberDecorate:
            if (!are_copies_written) {
                write_name(name);
                write_copied_decorations();
            }
            are_copies_written = true;
            write_decoration(instruction);
            break;
        default:
            write(instruction);
        }
}

// Names the module's variables that are left; until SPIR-V 1.4 those of inputs and outputs alone.
void Writing::write_entry_point(Instruction entry) {
    std::vector<uint32_t> words{entry.words().begin(), entry.words().end()};
    size_t name_end = 3;
    while (entry[name_end] >> 24 != 0) ++name_end;
    size_t kept = name_end + 1;
    for (const uint32_t id : entry.from(kept)) {
        const Instruction variable = result_.definition(expansion_.mapped(id));
        if (is_live(variable) && variable[3] != kFunction) words[kept++] = id;
    }
    words.resize(kept);
    words[0] = first_word(OpEntryPoint, kept);
    write(words);
}

uint32_t Writing::local_size(uint32_t id) const {
    const auto size = result_.known(id);
    if (!size) throw CannotSpecialise("a workgroup's size that is not known");
    return *size;
}

// The size of a workgroup becomes three numbers, wherever it stood.
void Writing::write_execution_mode(Instruction mode) {
    std::vector<uint32_t> words{mode.words().begin(), mode.words().end()};
    if (words[2] == kModeLocalSizeId && words.size() == 6) {
        words[0] = first_word(OpExecutionMode, words.size());
        words[2] = kModeLocalSize;
        for (size_t i = 3; i < 6; ++i) words[i] = local_size(expansion_.mapped(words[i]));
    } else if (words[2] == kModeLocalSize && words.size() == 6 && source_.workgroup_size() != 0) {
        const Instruction sizes = result_.definition(expansion_.mapped(source_.workgroup_size()));
        for (size_t i = 3; i < 6; ++i) words[i] = local_size(sizes[i]);
    }
    write(words);
}

// Of types, constants and variables, which kept their ids; those of functions are copied.
void Writing::write_decoration(Instruction decoration) {
    const uint32_t id = decoration[1];
    if (expansion_.mapped(id) == id && is_live(id)) write(decoration);
}

void Writing::write_copied_decorations() {
    std::multimap<uint32_t, uint32_t> copies; // by the source's id
    for (const auto &[id, source_id] : expansion_.copies())
        if (is_live(id)) copies.emplace(source_id, id);
    for (const Instruction decoration : source_.preamble) {
        if (decoration.opcode() != OpDecorate) continue;
        std::vector<uint32_t> words{decoration.words().begin(), decoration.words().end()};
        for (auto [copy, end] = copies.equal_range(words[1]); copy != end; ++copy) {
            words[1] = copy->second;
            write(words);
            words[1] = decoration[1];
        }
    }
}

void Writing::write_globals() {
    for (const Instruction global : result_.globals)
        if (global.opcode() == OpTypeForwardPointer ? is_live(global[1]) : is_live(global)) write(global);
}

// The entry point first: Mesa 26 takes the first function for it where it lowers matrices.
void Writing::write_functions() {
    const auto words = source_.definition(source_.entry()).words();
    std::vector<uint32_t> copy(words.begin(), words.end());
    const Instruction entry(copy.data());
    for (const size_t type : {1, 4}) entry[type] = expansion_.mapped(entry[type]);
    write_function(entry, {}, result_.body);
    for (const auto &[definition, parameters, body] : result_.callbacks) write_function(definition, parameters, body);
}

void Writing::write_function(Instruction definition, std::span<const Instruction> parameters,
                             const Result::Body &body) {
    write(definition);
    for (const Instruction parameter : parameters) write(parameter);
    for (const Block &block : body.blocks)
        write_block(block, &block == &body.blocks.front() ? body.variables : std::span<const Instruction>());
    module_.push_back(first_word(OpFunctionEnd, 1));
}

void Writing::write_block(const Block &block, std::span<const Instruction> variables) {
    write(std::array{first_word(OpLabel, 2), block.label});
    for (const Instruction variable : variables)
        if (is_live(variable)) write(variable);
    line_ = {};
    for (const auto &[instruction, line] : block.body) {
        if (!is_live(instruction)) continue;
        if (line && line != line_) write(line_ = line);
        write(instruction);
    }
    if (block.merge) write(block.merge);
    write(block.terminator);
}

} // namespace

std::vector<uint32_t> written(const Source &source, const Expansion &expansion, Result &result, std::string_view name) {
    return Writing(source, expansion, result).run(name);
}

} // namespace vkattn::spirv
