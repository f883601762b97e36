#include "runtime/spirv/source.hpp"

#include "runtime/spirv/folding.hpp"

#include <algorithm>
#include <optional>

namespace vkattn::spirv {
namespace {

void keep_once(std::vector<uint32_t> &ids) {
    std::ranges::sort(ids);
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
}

// Whether an instruction stands among types, constants and variables.
bool is_global(Instruction instruction, uint32_t result) {
    const uint32_t opcode = instruction.opcode();
    return opcode == OpTypeForwardPointer || opcode == OpUndef ||
           (result != 0 && opcode >= OpTypeVoid && opcode != OpDecorationGroup);
}

} // namespace

Source::Source(std::span<const uint32_t> code) : code_(code.begin(), code.end()) {
    if (code_.size() < kHeaderWords) throw CannotSpecialise("a module without a header");
    if (bound() > code_.size()) throw CannotSpecialise("more ids than its instructions can name");
    definitions_.resize(bound());
    positions_.resize(bound());
    decorations_.resize(bound());
    for (size_t at = kHeaderWords; at < code_.size();) {
        const Instruction instruction = next(at);
        if (instruction.opcode() == OpFunction)
            read_function(instruction, at);
        else
            read_global(instruction);
    }
    analyse(function(entry_));
}

// Reads the instruction at this index of the code, checks its ids, and moves the index behind it.
Instruction Source::next(size_t &at) {
    const Instruction instruction(&code_[at]);
    if (instruction.size() == 0 || instruction.size() > code_.size() - at)
        throw CannotSpecialise("an instruction that does not end within the module");
    at += instruction.size();
    const auto check = [&](uint32_t id) {
        if (id == 0 || id >= bound()) throw CannotSpecialise("an id beyond its bound");
    };
    if (const uint32_t result = for_ids(instruction, check); result != 0) {
        check(instruction[result]);
        if (definitions_[instruction[result]]) throw CannotSpecialise("an id that is defined twice");
        definitions_[instruction[result]] = instruction;
    }
    return instruction;
}

void Source::read_global(Instruction instruction) {
    switch (instruction.opcode()) {
    case OpLine:
    case OpNoLine:
        return;
    case OpDecorate:
        return read_decoration(instruction);
    case OpEntryPoint:
        if (entry_ != 0) throw CannotSpecialise("two entry points");
        entry_ = instruction[2];
        break;
    case OpExtInstImport:
        library_ = instruction[1];
        break;
    default:
        break;
    }
    const uint32_t result = for_ids(instruction, [](uint32_t) {});
    (is_global(instruction, result) ? globals : preamble).push_back(instruction);
}

void Source::read_decoration(Instruction decoration) {
    const uint32_t id = decoration[1], kind = decoration[2];
    if (kind == kSpecId) {
        spec_ids[id] = decoration[3];
        return;
    }
    if (kind == kBuiltIn && decoration[3] == kBuiltInWorkgroupSize) workgroup_size_ = id;
    const bool is_relaxed = kind == kRelaxedPrecision && decorations_[id] != Decorated::kOtherwise;
    decorations_[id] = is_relaxed ? Decorated::kRelaxed : Decorated::kOtherwise;
    preamble.push_back(decoration);
}

void Source::read_function(Instruction definition, size_t &at) {
    SourceFunction &function = functions_[definition[2]];
    function.definition = definition;
    Instruction line;
    while (at < code_.size()) {
        const Instruction instruction = next(at);
        const uint32_t opcode = instruction.opcode();
        if (opcode == OpFunctionEnd) return;
        if (opcode == OpFunctionParameter) {
            function.parameters.push_back(instruction[2]);
            continue;
        }
        if (is_line(opcode)) {
            line = opcode == OpLine ? instruction : Instruction();
            continue;
        }
        if (opcode == OpLabel) {
            function.blocks.push_back({.label = instruction[1]});
            line = {};
            continue;
        }
        if (function.blocks.empty()) throw CannotSpecialise("an instruction outside of a block");
        SourceBlock &block = function.blocks.back();
        if (block.terminator) throw CannotSpecialise("an instruction after the end of a block");
        if (opcode == OpLoopMerge || opcode == OpSelectionMerge)
            block.merge = instruction;
        else if (opcode >= OpBranch && opcode <= OpUnreachable)
            block.terminator = instruction;
        else
            block.body.push_back({instruction, line});
    }
    throw CannotSpecialise("a function without an end");
}

SourceFunction &Source::function(uint32_t id) {
    const auto found = functions_.find(id);
    if (found == functions_.end()) throw CannotSpecialise("a function that is not there");
    return found->second;
}

// Blocks stand before those that they dominate. A construct's blocks are next to each other, its continue target and its
// merge block last: a walk in depth that visits these first, reversed.
void Source::order_blocks(SourceFunction &function) const {
    std::unordered_map<uint32_t, uint32_t> numbers; // of blocks, by their labels
    numbers.reserve(function.blocks.size());
    for (uint32_t i = 0; i < function.blocks.size(); ++i) numbers[function.blocks[i].label] = i;
    std::vector<bool> is_seen(function.blocks.size());
    struct Visit {
        uint32_t block;
        std::vector<uint32_t> next; // labels that are still to visit, the last first
    };
    std::vector<Visit> visits;
    const auto begin = [&](uint32_t label) {
        const auto found = numbers.find(label);
        if (found == numbers.end()) throw CannotSpecialise("a branch to what is no block of its function");
        if (is_seen[found->second]) return;
        is_seen[found->second] = true;
        const SourceBlock &block = function.blocks[found->second];
        Visit visit{found->second, {}};
        for_targets(block.terminator, [&](uint32_t to) { visit.next.push_back(to); });
        if (block.is_loop_header()) visit.next.push_back(block.merge[2]);
        if (block.merge) visit.next.push_back(block.merge[1]);
        visits.push_back(std::move(visit));
    };
    begin(function.blocks[0].label);
    while (!visits.empty()) {
        if (visits.back().next.empty()) {
            function.order.push_back(visits.back().block);
            visits.pop_back();
            continue;
        }
        const uint32_t label = visits.back().next.back();
        visits.back().next.pop_back();
        begin(label);
    }
    std::ranges::reverse(function.order);
}

// The variable or parameter that a pointer leads into.
uint32_t Source::root_of(uint32_t pointer) const {
    for (uint32_t links = 0; links < bound(); ++links) { // damaged ones could go round
        const Instruction chain = definition(pointer);
        if (!is_access_chain(chain.opcode()) && chain.opcode() != OpCopyObject) return pointer;
        pointer = chain[3];
    }
    throw CannotSpecialise("a pointer that is made of itself");
}

void Source::add_call_stores(Instruction call, std::vector<uint32_t> &stores) {
    SourceFunction &callee = function(call[3]);
    if (callee.parameters.size() != call.from(4).size())
        throw CannotSpecialise("a call with another number of arguments");
    analyse(callee);
    for (const uint32_t id : callee.stored_to) {
        const auto parameter = std::ranges::find(callee.parameters, id);
        const bool is_parameter = parameter != callee.parameters.end();
        stores.push_back(is_parameter ? root_of(call[4 + static_cast<size_t>(parameter - callee.parameters.begin())])
                                      : id);
    }
}

void Source::analyse_callback(SourceFunction &callback) {
    analyse(callback);
    if (!callback.stored_to.empty()) throw CannotSpecialise("a function of elements of matrices that stores");
}

// What a block may store to, callees included.
std::vector<uint32_t> Source::stores_of(const SourceBlock &block) {
    std::vector<uint32_t> stores;
    for (const auto &[instruction, line] : block.body) {
        if (instruction.opcode() == OpStore)
            stores.push_back(root_of(instruction[1]));
        else if (instruction.opcode() == OpFunctionCall)
            add_call_stores(instruction, stores);
        else if (const size_t callback = callback_of(instruction.opcode()); callback != 0)
            analyse_callback(function(instruction[callback]));
        else if (instruction.opcode() == OpExtInst && (instruction[3] != library_ || stores_a_result(instruction[4])))
            for (const uint32_t id : instruction.from(5)) stores.push_back(root_of(id));
        else if (instruction.opcode() == OpCopyMemory || instruction.opcode() == OpCopyMemorySized)
            throw CannotSpecialise("a copy of memory");
    }
    keep_once(stores);
    return stores;
}

void Source::analyse(SourceFunction &function) {
    if (function.analysis == SourceFunction::kDone) return;
    if (function.analysis == SourceFunction::kBegun) throw CannotSpecialise("a function that calls itself");
    function.analysis = SourceFunction::kBegun;
    if (function.blocks.empty()) throw CannotSpecialise("a function without blocks");
    order_blocks(function);
    std::vector<std::vector<uint32_t>> stores;
    for (const uint32_t number : function.order) {
        const SourceBlock &block = function.blocks[number];
        positions_[block.label] = static_cast<uint32_t>(stores.size());
        const uint32_t last = block.terminator.opcode();
        if (last == OpNop) throw CannotSpecialise("a block without an end");
        function.returns += last == OpReturn || last == OpReturnValue ? 1 : 0;
        stores.push_back(stores_of(block));
    }
    for (uint32_t position = 0; position < function.order.size(); ++position) {
        const auto is_of_callers = [&](uint32_t id) { // else a variable of its own
            return std::ranges::find(function.parameters, id) != function.parameters.end() ||
                   (definitions_[id] && definitions_[id].data() < function.definition.data());
        };
        std::ranges::copy_if(stores[position], std::back_inserter(function.stored_to), is_of_callers);
        const SourceBlock &block = function.blocks[function.order[position]];
        if (!block.is_loop_header()) continue;
        SourceLoop &loop = function.loops[block.label];
        loop.begin = position;
        loop.end = positions_[block.merge[1]];
        for (uint32_t i = loop.begin; i < loop.end; ++i)
            loop.stored_to.insert(loop.stored_to.end(), stores[i].begin(), stores[i].end());
        keep_once(loop.stored_to);
    }
    keep_once(function.stored_to);
    function.analysis = SourceFunction::kDone;
}

} // namespace vkattn::spirv
