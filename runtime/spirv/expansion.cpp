#include "runtime/spirv/expansion.hpp"

#include "runtime/spirv/folding.hpp"
#include "runtime/spirv/structure.hpp"

#include <algorithm>
#include <array>
#include <string>

namespace vkattn::spirv {

Expansion::Expansion(Source &source, Result &result, std::span<const ConstantValue> values)
    : source_(source), result_(result), values_(values), map_(source.bound()) {
    if (source.library() != 0) map_[source.library()] = result_.library = source.library();
}

void Expansion::run() {
    for (const Instruction instruction : source_.globals) add_global(instruction);
    std::ranges::sort(state_);
    result_.begin_block(result_.new_id(), {});
    for (const auto &[variable, initial] : state_) // the module's own
        if (initial != 0) result_.append(std::array{uint32_t{OpStore}, variable, initial});
    expand(source_.entry_function());
    result_.block().terminator = result_.keep(std::array{uint32_t{OpReturn}});
}

// ------------------------------------------------------------------------------------- types, constants, variables

void Expansion::add_global(Instruction instruction) {
    if (instruction.opcode() == OpSpecConstantOp) return add_constant_operation(instruction);
    if (instruction.opcode() == OpVariable) return add_variable(instruction);
    const Instruction constant = plain_constant(result_.keep(instruction.words()));
    const uint32_t opcode = constant.opcode();
    const uint32_t result = for_ids(constant, [&](uint32_t &id) {
        if (map_[id] != 0) id = map_[id]; // what a forward pointer announces is not there yet
    });
    if (result == 0) {
        result_.globals.push_back(constant);
        return;
    }
    const uint32_t id = constant[result];
    const bool is_scalar = opcode >= OpConstantTrue && opcode <= OpConstant && result_.is_followed(constant[1]);
    if (is_scalar) {
        map_[id] = result_.constant(constant[1], opcode == OpConstant ? constant[3] : opcode == OpConstantTrue);
        return;
    }
    // All is in one function in the end.
    if (opcode == OpTypePointer && constant[2] == kPrivate) constant[2] = kFunction;
    const bool is_announced = opcode == OpTypePointer && constant[2] == kPhysicalStorageBuffer; // by a forward pointer
    const bool is_apart = opcode == OpTypeStruct || opcode == OpTypeArray || opcode == OpTypeRuntimeArray ||
                          is_announced || source_.decoration(id) != Decorated::kNot;
    map_[id] = result_.add_global(constant, result, is_apart);
}

// A constant that can be specialised becomes one that cannot.
Instruction Expansion::plain_constant(Instruction constant) {
    const uint32_t opcode = constant.opcode();
    const auto become = [&](uint32_t plain) { constant.data()[0] = first_word(plain, constant.size()); };
    if (opcode == OpSpecConstantComposite) become(OpConstantComposite);
    if (opcode != OpSpecConstant && opcode != OpSpecConstantTrue && opcode != OpSpecConstantFalse) return constant;
    become(opcode == OpSpecConstant ? OpConstant : opcode == OpSpecConstantTrue ? OpConstantTrue : OpConstantFalse);
    const auto id = source_.spec_ids.find(constant[2]);
    if (id == source_.spec_ids.end()) return constant;
    const auto value = std::ranges::find(values_, id->second, &ConstantValue::id);
    if (value == values_.end()) return constant;
    if (opcode == OpSpecConstant)
        constant[3] = value->value;
    else
        become(value->value != 0 ? OpConstantTrue : OpConstantFalse);
    return constant;
}

void Expansion::add_variable(Instruction variable) {
    const Instruction kept = result_.keep(translated(variable));
    const uint32_t id = kept[2];
    map_[id] = id;
    if (kept[3] != kPrivate) {
        result_.globals.push_back(kept);
        return result_.define(id, kept);
    }
    kept[3] = kFunction;
    state_.emplace_back(id, kept.size() > 4 ? kept[4] : 0);
    const Instruction plain = result_.keep(kept.words().first(4));
    result_.body.variables.push_back(plain);
    result_.define(id, plain);
}

void Expansion::add_constant_operation(Instruction operation) {
    const uint32_t opcode = operation[3], type = map_.at(operation[1]);
    std::vector<uint32_t> words{opcode, type, 0};
    const size_t ids = opcode == OpCompositeExtract ? 1 : operation.from(4).size();
    for (size_t i = 0; i < operation.from(4).size(); ++i)
        words.push_back(i < ids ? map_.at(operation[4 + i]) : operation[4 + i]);
    words[0] = first_word(opcode, words.size());
    const bool is_unusual = opcode == OpVectorShuffle || opcode == OpCompositeInsert;
    uint32_t id = is_unusual ? 0 : result_.simplified(words);
    // A quotient by zero is undefined: no code that runs can have it.
    const bool divides =
        opcode == OpUDiv || opcode == OpUMod || opcode == OpSDiv || opcode == OpSRem || opcode == OpSMod;
    if (id == 0 && divides && result_.known(words[4]) == 0u) id = result_.constant(type, 0);
    if (id == 0) throw CannotSpecialise("a constant of operation " + std::to_string(opcode));
    map_[operation[2]] = id;
}

// ------------------------------------------------------------------------------------------------------ functions

// Appends the function to the current block. Returns its value; 0: none. Sets is_unreachable_ where it does not return.
uint32_t Expansion::expand(SourceFunction &function) {
    const uint32_t first_id = result_.bound(), callers_position = position_, before = result_.body.current;
    begin_function(function);
    // One that returns from several places is a construct that they leave; the structure drops it where it is not needed.
    const bool is_construct = function.returns > 1;
    const uint32_t first = function.blocks[0].label, end_label = is_construct ? result_.new_id() : 0;
    if (is_construct) {
        result_.block().merge = result_.keep(std::array<uint32_t, 3>{OpSelectionMerge, end_label, 0});
        result_.block().terminator = result_.keep(std::array{uint32_t{OpBranch}, map_[first]});
        result_.begin_block(map_[first], std::array{before});
    } else
        map_[first] = result_.block().label;
    std::vector<OpenPhi> open;
    std::vector<Return> returns;
    for (uint32_t position = 0; position < function.order.size(); ++position) {
        const SourceBlock &block = function.blocks[function.order[position]];
        if (!begin(block, position)) continue;
        forget_what_the_loop_changes(function, block);
        for (const auto &[instruction, line] : block.body) {
            if (is_unreachable_) break;
            result_.body.line = line;
            if (instruction.opcode() == OpPhi)
                translate_phi(block, instruction, open);
            else
                translate(instruction);
        }
        if (!is_unreachable_) end(function, block, returns);
    }
    for (const OpenPhi &phi : open) complete(phi);
    position_ = callers_position;
    is_unreachable_ = returns.empty();
    if (is_construct && returns.size() <= 1) result_.body.blocks[before].merge = {};
    const uint32_t value = is_unreachable_ ? 0 : join(function, returns, end_label);
    while (!state_.empty() && state_.back().first >= first_id) state_.pop_back(); // its own variables
    return value;
}

void Expansion::begin_function(const SourceFunction &function) {
    for (const SourceBlock &block : function.blocks) {
        map_[block.label] = result_.new_id();
        labels_[block.label] = {};
    }
}

// Whether anything goes to the block. The first one goes on where the caller is.
bool Expansion::begin(const SourceBlock &block, uint32_t position) {
    position_ = position;
    if (position == 0) return true;
    Label &label = labels_[block.label];
    if (label.incoming.empty()) return false;
    std::vector<uint32_t> from;
    for (const uint32_t source : label.incoming) from.push_back(labels_[source].exit);
    result_.begin_block(map_[block.label], from);
    state_ = std::move(label.state);
    is_unreachable_ = false;
    return true;
}

void Expansion::forget_what_the_loop_changes(const SourceFunction &function, const SourceBlock &block) {
    if (!block.is_loop_header()) return;
    for (const uint32_t pointer : function.loops.at(block.label).stored_to)
        if (map_[pointer] != 0) forget(result_.place_of(map_[pointer]).variable);
}

void Expansion::end(const SourceFunction &function, const SourceBlock &block, std::vector<Return> &returns) {
    labels_[block.label].exit = result_.body.current;
    const uint32_t opcode = block.terminator.opcode();
    if (opcode != OpReturn && opcode != OpReturnValue) return translate_terminator(block);
    for (const auto &[label, loop] : function.loops)
        if (loop.begin <= position_ && position_ < loop.end) throw CannotSpecialise("a return within a loop");
    returns.push_back(
        {result_.body.current, opcode == OpReturnValue ? map_[block.terminator[1]] : 0, std::move(state_)});
}

// Goes on where the function returns. Returns its value.
uint32_t Expansion::join(const SourceFunction &function, std::vector<Return> &returns, uint32_t end_label) {
    result_.body.current = returns[0].block;
    state_ = std::move(returns[0].state);
    if (returns.size() == 1) return returns[0].value;
    std::vector<uint32_t> phi{OpPhi, map_[function.definition[1]], 0}, from;
    for (const Return &each : returns) {
        Block &block = result_.body.blocks[each.block];
        block.terminator = result_.keep(std::array{uint32_t{OpBranch}, end_label});
        phi.insert(phi.end(), {each.value, block.label});
        from.push_back(each.block);
        if (&each != &returns[0]) keep_common(state_, each.state);
    }
    result_.begin_block(end_label, from);
    const uint32_t value = returns[0].value;
    if (std::ranges::all_of(returns, [&](const Return &each) { return each.value == value; })) return value;
    phi[2] = result_.new_id();
    return result_.append(phi)[2];
}

uint32_t Expansion::call(Instruction call) {
    SourceFunction &callee = source_.function(call[3]);
    for (size_t i = 0; i < callee.parameters.size(); ++i) map_[callee.parameters[i]] = map_[call[4 + i]];
    return expand(callee);
}

// Away from the function that is being written: its variables are not there, nor is what they hold known.
void Expansion::keep_callback(uint32_t id) {
    if (map_[id] != 0) return;
    SourceFunction &function = source_.function(id);
    Result::Body callers_body = std::exchange(result_.body, {});
    State callers_state = std::exchange(state_, {});
    const uint32_t callers_position = position_;
    std::vector<uint32_t> definition = translated(function.definition);
    Result::Callback callback{result_.keep(definition), {}, {}};
    for (const uint32_t parameter : function.parameters) {
        const uint32_t type = map_[source_.definition(parameter)[1]];
        map_[parameter] = result_.new_id();
        callback.parameters.push_back(result_.keep(std::array{uint32_t{OpFunctionParameter}, type, map_[parameter]}));
        result_.define(map_[parameter], callback.parameters.back());
    }
    result_.begin_block(result_.new_id(), {});
    const uint32_t value = expand(function);
    if (!is_unreachable_) result_.block().terminator = result_.keep(std::array{uint32_t{OpReturnValue}, value});
    repair_structure(result_);
    for (const Block &block : result_.body.blocks)
        for (const auto &[instruction, line] : block.body) require_own_variables(instruction);
    callback.body = std::exchange(result_.body, std::move(callers_body));
    state_ = std::move(callers_state);
    position_ = callers_position;
    is_unreachable_ = false;
    map_[id] = id;
    result_.define(id, callback.definition);
    result_.callbacks.push_back(std::move(callback));
}

// The module's variables of an invocation have become the entry point's.
void Expansion::require_own_variables(Instruction instruction) const {
    for_ids(instruction, [&](uint32_t id) {
        const Instruction variable = result_.definition(id);
        if (variable.opcode() == OpVariable && variable[3] == kFunction &&
            std::ranges::find(result_.body.variables, variable) == result_.body.variables.end())
            throw CannotSpecialise("a function of elements of matrices that uses the module's variables");
    });
}

// --------------------------------------------------------------------------------------------------- instructions

// The words of an instruction of the source, with ids of the result. Its own result is still the source's.
std::vector<uint32_t> Expansion::translated(Instruction instruction) const {
    std::vector<uint32_t> words(instruction.words().begin(), instruction.words().end());
    for_ids(Instruction(words.data()), [&](uint32_t &id) {
        if (map_[id] == 0)
            throw CannotSpecialise("opcode " + std::to_string(instruction.opcode()) + ", which uses what is not there");
        id = map_[id];
    });
    return words;
}

void Expansion::note_copy(uint32_t id, uint32_t source_id) {
    if (source_.decoration(source_id) != Decorated::kNot) copies_.emplace_back(id, source_id);
}

void Expansion::translate(Instruction instruction) {
    const uint32_t opcode = instruction.opcode();
    if (opcode == OpFunctionCall) {
        map_[instruction[2]] = call(instruction);
        return;
    }
    if (const size_t callback = callback_of(opcode)) keep_callback(instruction[callback]);
    std::vector<uint32_t> words = translated(instruction);
    if (opcode == OpVariable) return declare(instruction, words);
    if (opcode == OpStore) store(words);
    if (opcode == OpExtInst && (words[3] != result_.library || stores_a_result(words[4])))
        for (size_t i = 5; i < words.size(); ++i) forget(result_.place_of(words[i]).variable);
    const uint32_t result = for_ids(instruction, [](uint32_t) {});
    if (result == 0) {
        result_.append(words);
        return;
    }
    if (result != 2) throw CannotSpecialise("opcode " + std::to_string(opcode) + " within a function");
    uint32_t &id = map_[instruction[2]];
    id = opcode == OpLoad ? load(words) : only_gives_its_result(instruction) ? result_.simplified(words) : 0;
    if (id == 0) id = result_.computed_before(words, source_.decoration(instruction[2]));
    if (id != 0) return;
    id = words[2] = result_.bound() - 1;
    result_.append(words);
    note_copy(id, instruction[2]);
    if (opcode != OpLoad || (words.size() > 4 && (words[4] & kMemoryVolatile) != 0)) return;
    const Place place = result_.place_of(words[3]);
    uint32_t *const content = content_of(place.variable);
    if (content != nullptr && place.is_constant && place.path.empty()) *content = id; // known from here on
}

void Expansion::declare(Instruction variable, std::vector<uint32_t> &words) {
    const uint32_t id = words[2] = map_[variable[2]] = result_.new_id(), initial = words.size() > 4 ? words[4] : 0;
    words.resize(4);
    result_.define(id, result_.keep(words));
    result_.body.variables.push_back(result_.definition(id));
    note_copy(id, variable[2]);
    state_.emplace_back(id, initial);
    if (initial != 0) result_.append(std::array{uint32_t{OpStore}, id, initial});
}

// The id of what the place holds, where it is known; 0: it must be loaded.
uint32_t Expansion::load(std::span<const uint32_t> words) {
    if (words.size() > 4 && (words[4] & kMemoryVolatile) != 0) return 0;
    const Place place = result_.place_of(words[3]);
    const uint32_t *const content = content_of(place.variable);
    if (content == nullptr || *content == 0 || !place.is_constant) return 0;
    if (place.path.empty()) return *content;
    if (!result_.is_within(result_.type_of(*content), place.path)) return 0;
    std::vector<uint32_t> operands{*content};
    operands.insert(operands.end(), place.path.begin(), place.path.end());
    return result_.value(OpCompositeExtract, words[1], operands);
}

void Expansion::store(std::span<const uint32_t> words) {
    const Place place = result_.place_of(words[1]);
    const bool is_volatile = words.size() > 3 && (words[3] & kMemoryVolatile) != 0;
    if (uint32_t *const content = content_of(place.variable))
        *content = place.is_constant && place.path.empty() && !is_volatile ? words[2] : 0;
}

void Expansion::translate_phi(const SourceBlock &block, Instruction phi, std::vector<OpenPhi> &open) {
    const std::vector<uint32_t> &from = labels_[block.label].incoming;
    std::vector<uint32_t> words{OpPhi, map_[phi[1]], 0};
    bool is_same = !block.is_loop_header();
    for (const uint32_t label : from)
        for (uint32_t i = 3; i < phi.size(); i += 2)
            if (phi[i + 1] == label) {
                words.insert(words.end(), {map_[phi[i]], result_.body.blocks[labels_[label].exit].label});
                is_same = is_same && words[words.size() - 2] == words[3];
            }
    if (words.size() == 3) throw CannotSpecialise("a phi without a value");
    if (is_same) {
        map_[phi[2]] = words[3];
        return;
    }
    const size_t size = words.size();
    words.resize(phi.size()); // room for edges from the loop's end
    words[2] = map_[phi[2]] = result_.new_id();
    const Instruction kept = result_.append(words);
    kept.data()[0] = first_word(OpPhi, size);
    note_copy(words[2], phi[2]);
    if (block.is_loop_header()) open.push_back({kept, phi, block.label, from.size()});
}

void Expansion::complete(const OpenPhi &open) {
    const std::vector<uint32_t> &from = labels_[open.label].incoming;
    for (size_t edge = open.forward; edge < from.size(); ++edge)
        for (uint32_t i = 3; i < open.source.size(); i += 2)
            if (open.source[i + 1] == from[edge]) {
                const uint32_t at = open.phi.size();
                open.phi.data()[0] = first_word(OpPhi, at + 2);
                open.phi[at] = map_[open.source[i]];
                open.phi[at + 1] = result_.body.blocks[labels_[from[edge]].exit].label;
            }
}

// ----------------------------------------------------------------------------------------------------- terminators

void Expansion::add_edge(uint32_t from, uint32_t to) {
    Label &label = labels_[to];
    if (std::ranges::find(label.incoming, from) != label.incoming.end()) return;
    label.incoming.push_back(from);
    if (source_.position(to) <= position_) return; // back: what the loop changes was forgotten
    if (label.incoming.size() == 1)
        label.state = state_;
    else
        keep_common(label.state, state_);
}

// The label that a terminator goes to in any case; 0: it depends. A loop keeps its edge back.
uint32_t Expansion::decided_target(Instruction terminator) const {
    if (terminator.opcode() == OpBranch) return terminator[1];
    if (terminator.opcode() == OpBranchConditional) {
        const auto condition = result_.known(map_[terminator[1]]);
        if (terminator[2] == terminator[3]) return terminator[2];
        if (!condition) return 0;
        const uint32_t taken = terminator[*condition != 0 ? 2 : 3], other = terminator[*condition != 0 ? 3 : 2];
        return source_.position(other) > position_ ? taken : 0;
    }
    if (terminator.opcode() != OpSwitch) return 0;
    const auto selector = result_.known(map_[terminator[1]]);
    if (!selector) return 0;
    for (uint32_t i = 3; i < terminator.size(); i += 2)
        if (terminator[i] == *selector) return terminator[i + 1];
    return terminator[2];
}

void Expansion::translate_terminator(const SourceBlock &block) {
    const Instruction terminator = block.terminator;
    Block &current = result_.block();
    if (block.merge) current.merge = result_.keep(translated(block.merge));
    if (const uint32_t target = decided_target(terminator)) {
        current.terminator = result_.keep(std::array{uint32_t{OpBranch}, map_[target]});
        return add_edge(block.label, target);
    }
    current.terminator = result_.keep(translated(terminator));
    for_targets(terminator, [&](uint32_t to) { add_edge(block.label, to); });
}

// ------------------------------------------------------------------------------------------ what variables hold

uint32_t *Expansion::content_of(uint32_t variable) {
    const auto found = std::ranges::lower_bound(state_, variable, {}, &State::value_type::first);
    return found != state_.end() && found->first == variable ? &found->second : nullptr;
}

void Expansion::forget(uint32_t variable) {
    if (uint32_t *const content = content_of(variable)) *content = 0;
}

void Expansion::keep_common(State &state, const State &other) {
    State common;
    for (size_t i = 0, j = 0; i < state.size() && j < other.size();)
        if (state[i].first != other[j].first)
            ++(state[i].first < other[j].first ? i : j);
        else {
            common.emplace_back(state[i].first, state[i].second == other[j].second ? state[i].second : 0);
            ++i, ++j;
        }
    state = std::move(common);
}

} // namespace vkattn::spirv
