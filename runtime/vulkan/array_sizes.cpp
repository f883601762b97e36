#include "runtime/vulkan/array_sizes.hpp"

#include <algorithm>
#include <set>

namespace vkattn {
namespace {

// The SPIR-V specification's numbers.
enum : uint32_t {
    kOpTypeArray = 28,
    kOpTypeStruct = 30,
    kOpTypePointer = 32,
    kOpConstantTrue = 41,
    kOpConstantFalse = 42,
    kOpConstant = 43,
    kOpSpecConstantTrue = 48,
    kOpSpecConstantFalse = 49,
    kOpSpecConstant = 50,
    kOpSpecConstantOp = 52,
    kOpVariable = 59,
    kOpDecorate = 71
};
constexpr uint32_t kSpecId = 1, kWorkgroup = 4, kHeaderWords = 5, kBound = 3;

template <class Visit>
void for_each(std::span<const uint32_t> code, Visit visit) {
    for (size_t at = kHeaderWords; at < code.size() && code[at] >> 16 != 0; at += code[at] >> 16)
        visit(code[at] & 0xffffu, code.subspan(at, code[at] >> 16));
}

// Of two numbers of 32 bits; nothing for operations that no size has.
std::optional<uint32_t> compute(uint32_t operation, uint32_t a, uint32_t b) {
    const auto signed_a = static_cast<int32_t>(a), signed_b = static_cast<int32_t>(b);
    switch (operation) {
    case 128: // OpIAdd
        return a + b;
    case 130: // OpISub
        return a - b;
    case 132: // OpIMul
        return a * b;
    case 134: // OpUDiv
        return b == 0 ? std::nullopt : std::optional(a / b);
    case 135: // OpSDiv
        return b == 0 || signed_b == -1 ? std::nullopt : std::optional(static_cast<uint32_t>(signed_a / signed_b));
    case 137: // OpUMod
        return b == 0 ? std::nullopt : std::optional(a % b);
    case 164: // OpLogicalEqual
    case 170: // OpIEqual
        return a == b;
    case 165: // OpLogicalNotEqual
    case 171: // OpINotEqual
        return a != b;
    case 166: // OpLogicalOr
        return (a != 0) || (b != 0);
    case 167: // OpLogicalAnd
        return (a != 0) && (b != 0);
    case 172: // OpUGreaterThan
        return a > b;
    case 173: // OpSGreaterThan
        return signed_a > signed_b;
    case 174: // OpUGreaterThanEqual
        return a >= b;
    case 175: // OpSGreaterThanEqual
        return signed_a >= signed_b;
    case 176: // OpULessThan
        return a < b;
    case 177: // OpSLessThan
        return signed_a < signed_b;
    case 178: // OpULessThanEqual
        return a <= b;
    case 179: // OpSLessThanEqual
        return signed_a <= signed_b;
    case 194: // OpShiftRightLogical
        return a >> (b & 31u);
    case 196: // OpShiftLeftLogical
        return a << (b & 31u);
    case 197: // OpBitwiseOr
        return a | b;
    case 198: // OpBitwiseXor
        return a ^ b;
    case 199: // OpBitwiseAnd
        return a & b;
    default:
        return std::nullopt;
    }
}

// The types of which variables in shared memory are.
std::set<uint32_t> shared_types(std::span<const uint32_t> code) {
    std::map<uint32_t, std::vector<uint32_t>> parts; // of types
    std::vector<uint32_t> open;
    for_each(code, [&](uint32_t opcode, std::span<const uint32_t> words) {
        if (opcode == kOpTypeArray) parts[words[1]] = {words[2]};
        if (opcode == kOpTypeStruct) parts[words[1]] = {words.begin() + 2, words.end()};
        if (opcode == kOpTypePointer && words[2] == kWorkgroup) parts[words[1]] = {words[3]};
        if (opcode == kOpVariable && words[3] == kWorkgroup) open.push_back(words[1]);
    });
    std::set<uint32_t> types;
    while (!open.empty()) {
        const uint32_t type = open.back();
        open.pop_back();
        if (types.insert(type).second) open.insert(open.end(), parts[type].begin(), parts[type].end());
    }
    return types;
}

} // namespace

void ArraySizes::read(std::span<const uint32_t> code) {
    std::map<uint32_t, uint32_t> ids; // of specialisation constants
    for_each(code, [&](uint32_t opcode, std::span<const uint32_t> words) {
        const auto keep = [&](uint32_t value) {
            const auto id = ids.find(words[2]);
            constants_[words[2]] = {value, id == ids.end() ? std::nullopt : std::optional(id->second)};
        };
        if (opcode == kOpDecorate && words[2] == kSpecId) ids[words[1]] = words[3];
        if (opcode == kOpConstantTrue || opcode == kOpSpecConstantTrue) keep(1);
        if (opcode == kOpConstantFalse || opcode == kOpSpecConstantFalse) keep(0);
        if ((opcode == kOpConstant || opcode == kOpSpecConstant) && words.size() == 4) keep(words[3]);
        if (opcode == kOpSpecConstantOp) operations_[words[2]] = {words.begin() + 3, words.end()};
    });
}

std::optional<uint32_t> ArraySizes::value_of(uint32_t result, std::span<const SpecialisationConstant> given) const {
    if (const auto constant = constants_.find(result); constant != constants_.end()) {
        const auto own = std::ranges::find_if(
            given, [&](const SpecialisationConstant &each) { return each.id == constant->second.specialised_by; });
        return own == given.end() ? constant->second.value : own->value;
    }
    const auto found = operations_.find(result);
    if (found == operations_.end()) return std::nullopt;
    constexpr uint32_t kNot = 168, kSelect = 169; // OpLogicalNot, OpSelect
    const std::vector<uint32_t> &words = found->second;
    const std::optional<uint32_t> first = value_of(words[1], given);
    if (!first.has_value()) return std::nullopt;
    if (words[0] == kNot) return *first == 0;
    if (words[0] == kSelect) return value_of(*first != 0 ? words[2] : words[3], given);
    if (words.size() != 3) return std::nullopt;
    const std::optional<uint32_t> second = value_of(words[2], given);
    return second.has_value() ? compute(words[0], *first, *second) : std::nullopt;
}

ArraySizes::ArraySizes(std::vector<uint32_t> &code) {
    if (code.size() < kHeaderWords) return; // it was not built
    read(code);
    const std::set<uint32_t> shared = shared_types(code);
    uint32_t next_id = 0, bound = code[kBound];
    for (const auto &[result, constant] : constants_)
        next_id = std::max(next_id, constant.specialised_by.value_or(0) + 1);
    std::map<uint32_t, uint32_t> types, replaced; // of results; the new constants of sizes
    std::vector<uint32_t> head, body;             // up to the first decoration, and after it
    std::vector<uint32_t> decorations;
    for_each(code, [&](uint32_t opcode, std::span<const uint32_t> words) {
        if (opcode == kOpSpecConstantOp) types[words[2]] = words[1];
        std::vector<uint32_t> own(words.begin(), words.end());
        if (opcode == kOpTypeArray && shared.contains(words[1]) && operations_.contains(words[3])) {
            const auto [size, is_new] = replaced.try_emplace(words[3], bound);
            if (const auto value = value_of(words[3], {}); is_new && value.has_value()) {
                decorations.insert(decorations.end(), {4u << 16 | kOpDecorate, bound, kSpecId, next_id});
                body.insert(body.end(), {4u << 16 | kOpSpecConstant, types[words[3]], bound++, *value});
                sizes_.push_back({words[3], next_id++});
            } else if (is_new) {
                size->second = words[3]; // as it was
            }
            own[3] = size->second;
        }
        std::vector<uint32_t> &part = body.empty() && opcode != kOpDecorate ? head : body;
        part.insert(part.end(), own.begin(), own.end());
    });
    if (sizes_.empty()) return;
    std::vector<uint32_t> rewritten(code.begin(), code.begin() + kHeaderWords);
    rewritten[kBound] = bound;
    for (const auto *part : {&head, &decorations, &body}) rewritten.insert(rewritten.end(), part->begin(), part->end());
    code = std::move(rewritten);
}

std::vector<SpecialisationConstant> ArraySizes::values(std::span<const SpecialisationConstant> given) const {
    std::vector<SpecialisationConstant> values;
    for (const Size &size : sizes_) values.push_back({size.id, value_of(size.computed, given).value_or(1)});
    return values;
}

} // namespace vkattn
