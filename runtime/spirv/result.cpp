#include "runtime/spirv/result.hpp"

#include "runtime/spirv/folding.hpp"

#include <algorithm>
#include <array>

namespace vkattn::spirv {
namespace {

constexpr size_t kChunkWords = size_t{1} << 14;

// The type of a member of a composite type; 0 where it is beyond.
uint32_t member_type(const Result &result, uint32_t type, uint32_t index) {
    const Instruction composite = result.definition(type);
    switch (composite.opcode()) {
    case OpTypeStruct:
        return index < composite.size() - 2 ? composite[2 + index] : 0;
    case OpTypeArray:
        return index < result.known(composite[3]).value_or(0) ? composite[2] : 0;
    case OpTypeVector:
    case OpTypeMatrix:
        return index < composite[3] ? composite[2] : 0;
    default: // as a cooperative matrix, whose members are not known
        return 0;
    }
}

} // namespace

Result::Result(uint32_t bound) : used_(kChunkWords), definitions_(bound), known_(bound) {}

uint32_t Result::new_id() {
    definitions_.emplace_back();
    known_.emplace_back();
    return bound() - 1;
}

Instruction Result::keep(std::span<const uint32_t> words) {
    if (used_ + words.size() > kChunkWords) {
        chunks_.push_back(std::make_unique_for_overwrite<uint32_t[]>(std::max(kChunkWords, words.size())));
        used_ = 0;
    }
    uint32_t *const begin = chunks_.back().get() + used_;
    std::ranges::copy(words, begin);
    *begin = first_word(words[0] & 0xffffu, words.size());
    used_ += words.size();
    return Instruction(begin);
}

bool Result::is_followed(uint32_t type) const {
    const Instruction words = definition(type);
    return words.opcode() == OpTypeBool ||
           ((words.opcode() == OpTypeInt || words.opcode() == OpTypeFloat) && words[2] == 32);
}

uint32_t Result::add_global(Instruction instruction, uint32_t result, bool is_apart) {
    const uint32_t id = instruction[result];
    if (!is_apart) {
        std::vector<uint32_t> key(instruction.words().begin(), instruction.words().end());
        key[result] = 0;
        const auto [found, is_new] = globals_by_words_.try_emplace(std::move(key), id);
        if (!is_new) return found->second;
    }
    define(id, instruction);
    globals.push_back(instruction);
    return id;
}

uint32_t Result::constant(uint32_t type, uint32_t bits) {
    uint32_t &id = scalars_[uint64_t{type} << 32 | bits];
    if (id != 0) return id;
    id = new_id();
    const bool is_bool = definition(type).opcode() == OpTypeBool;
    const uint32_t opcode = !is_bool ? OpConstant : bits != 0 ? OpConstantTrue : OpConstantFalse;
    const std::array<uint32_t, 4> words{opcode, type, id, bits};
    define(id, keep(std::span(words).first(is_bool ? 3 : 4)));
    globals.push_back(definition(id));
    known_[id] = bits;
    return id;
}

void Result::begin_block(uint32_t label, std::span<const uint32_t> from) {
    Block block{.label = label};
    if (!from.empty()) {
        block.dominator = from[0];
        for (const uint32_t other : from.subspan(1)) block.dominator = common_dominator(block.dominator, other);
        block.depth = body.blocks[block.dominator].depth + 1;
    }
    body.current = static_cast<uint32_t>(body.blocks.size());
    body.blocks.push_back(std::move(block));
}

uint32_t Result::common_dominator(uint32_t a, uint32_t b) const {
    while (a != b) {
        uint32_t &deeper = body.blocks[a].depth < body.blocks[b].depth ? b : a;
        deeper = body.blocks[deeper].dominator;
    }
    return a;
}

Instruction Result::append(std::span<const uint32_t> words) {
    const Instruction instruction = keep(words);
    body.blocks[body.current].body.push_back({instruction, body.line});
    const uint32_t result = for_ids(instruction, [](uint32_t) {});
    if (result != 0) define(instruction[result], instruction);
    return instruction;
}

uint32_t Result::value(uint32_t opcode, uint32_t type, std::span<const uint32_t> operands) {
    std::vector<uint32_t> words{opcode, type, 0};
    words.insert(words.end(), operands.begin(), operands.end());
    words[0] = first_word(opcode, words.size());
    if (const uint32_t id = simplified(words)) return id;
    if (const uint32_t id = computed_before(words, Decorated::kNot)) return id;
    words[2] = bound() - 1;
    return append(words)[2];
}

// Whether the instruction gives the same value wherever its operands are the same.
bool Result::is_repeatable(std::span<const uint32_t> words) const {
    const uint32_t opcode = words[0] & 0xffffu;
    if (opcode == OpLoad) { // of memory that nobody writes
        const Instruction pointer = definition(words[3]);
        if (!pointer || words.size() > 4) return false;
        const uint32_t storage = definition(pointer[1])[2];
        return storage == kUniformConstant || storage == kInput || storage == kUniform || storage == kPushConstant;
    }
    if (opcode == OpExtInst) return words[3] == library && !stores_a_result(words[4]);
    return is_access_chain(opcode) || (opcode >= OpVectorExtractDynamic && opcode < OpCopyObject) ||
           (opcode >= OpConvertFToU && opcode <= OpBitCount);
}

// Where nothing was, makes the id bound() - 1 for the instruction, which others may then take in place of theirs.
uint32_t Result::computed_before(std::span<const uint32_t> words, Decorated decoration) {
    const uint32_t added = new_id();
    if (decoration == Decorated::kOtherwise || !is_repeatable(words)) return 0;
    const uint32_t opcode = words[0] & 0xffffu;
    uint64_t hash = opcode;
    for (size_t i = 1; i < words.size(); ++i)
        if (i != 2) hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15u;
    for (auto [found, end] = body.expressions.equal_range(hash); found != end; ++found) {
        const Expression &other = found->second;
        const Instruction known = definition(other.id);
        const bool is_same = other.decoration == decoration && known.opcode() == opcode &&
                             known.size() == words.size() && known[1] == words[1] &&
                             std::ranges::equal(words.subspan(3), known.from(3));
        if (!is_same || common_dominator(other.block, body.current) != other.block) continue;
        definitions_.pop_back();
        known_.pop_back();
        return other.id;
    }
    body.expressions.emplace(hash, Expression{added, body.current, decoration});
    return 0;
}

uint32_t Result::simplified(std::span<const uint32_t> words) {
    const uint32_t opcode = words[0] & 0xffffu, type = words[1];
    const auto operands = words.subspan(3);
    switch (opcode) {
    case OpCopyObject:
        return operands[0];
    case OpCompositeExtract:
        return extracted(type, operands[0], operands.subspan(1));
    case OpSelect:
        if (operands[1] == operands[2]) return operands[1];
        return known(operands[0]) ? operands[*known(operands[0]) != 0 ? 1 : 2] : 0;
    case OpExtInst: {
        if (!is_followed(type) || operands[0] != library || operands.size() != 4) return 0;
        const auto a = known(operands[2]), b = known(operands[3]);
        const auto bits = a && b ? folded_function(operands[1], *a, *b) : std::nullopt;
        return bits ? constant(type, *bits) : 0;
    }
    default:
        return is_followed(type) ? simplified_scalar(opcode, type, operands) : 0;
    }
}

uint32_t Result::simplified_scalar(uint32_t opcode, uint32_t type, std::span<const uint32_t> operands) {
    const bool is_computed = (opcode >= OpBitcast && opcode <= OpBitFieldUExtract);
    if (!is_computed || operands.empty() || operands.size() > 3) return 0;
    std::array<std::optional<uint32_t>, 3> bits{};
    std::ranges::transform(operands, bits.begin(), [&](uint32_t id) { return known(id); });
    if (std::ranges::all_of(std::span(bits).first(operands.size()),
                            [](const auto &each) { return each.has_value(); })) {
        const auto value = folded(opcode, *bits[0], bits[1].value_or(0), bits[2].value_or(0));
        return value ? constant(type, *value) : 0;
    }
    if (operands.size() != 2) return 0;
    if (operands[0] == operands[1]) {
        const auto value = folded_of_equals(opcode);
        return value ? constant(type, *value) : 0;
    }
    if (!bits[0] && !bits[1]) return 0;
    const bool is_left = bits[0].has_value();
    const HalfFolded half = half_folded(opcode, is_left ? *bits[0] : *bits[1], is_left);
    if (half.is == HalfFolded::kValue) return constant(type, half.value);
    const uint32_t other = operands[is_left ? 1 : 0];
    return half.is == HalfFolded::kOtherOperand && type_of(other) == type ? other : 0; // signed and unsigned mix
}

// Looks into what the composite was made of.
uint32_t Result::extracted(uint32_t type, uint32_t composite, std::span<const uint32_t> path) {
    const size_t length = path.size();
    while (!path.empty()) {
        const Instruction made = definition(composite);
        const auto parts = made.from(3);
        if (made.opcode() == OpCompositeExtract) {
            std::vector<uint32_t> longer(parts.begin(), parts.end());
            longer.insert(longer.end(), path.begin(), path.end());
            return value(OpCompositeExtract, type, longer);
        }
        if (made.opcode() == OpConstantNull && is_followed(type)) return constant(type, 0);
        const bool is_vector = made && definition(made[1]).opcode() == OpTypeVector;
        const bool joins_vectors =
            made.opcode() == OpCompositeConstruct && is_vector && parts.size() != definition(made[1])[3];
        if ((made.opcode() != OpCompositeConstruct && made.opcode() != OpConstantComposite) || joins_vectors ||
            path[0] >= parts.size())
            break;
        composite = parts[path[0]];
        path = path.subspan(1);
    }
    if (path.empty()) return composite;
    if (path.size() == length) return 0;
    std::vector<uint32_t> rest{composite};
    rest.insert(rest.end(), path.begin(), path.end());
    return value(OpCompositeExtract, type, rest);
}

Place Result::place_of(uint32_t pointer) const {
    std::vector<Instruction> chains;
    Instruction root = definition(pointer);
    for (; is_access_chain(root.opcode()); root = definition(root[3])) chains.push_back(root);
    if (root.opcode() != OpVariable || root[3] != kFunction) return {};
    Place place{.variable = root[2]};
    for (auto chain = chains.rbegin(); chain != chains.rend(); ++chain)
        for (const uint32_t index : chain->from(4)) {
            place.is_constant = place.is_constant && known(index).has_value();
            if (place.is_constant) place.path.push_back(*known(index));
        }
    return place;
}

bool Result::is_within(uint32_t type, std::span<const uint32_t> path) const {
    for (const uint32_t index : path)
        if ((type = member_type(*this, type, index)) == 0) return false;
    return true;
}

} // namespace vkattn::spirv
