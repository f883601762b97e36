#include "runtime/vulkan/shader.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <set>

namespace vkattn {
namespace {

// The SPIR-V specification's numbers.
enum : uint32_t { kOpTypePointer = 32, kOpVariable = 59, kOpDecorate = 71, kOpMemberDecorate = 72 };
enum : uint32_t { kDecorationSpecId = 1, kDecorationNonWritable = 24, kDecorationBinding = 33 };
enum : uint32_t { kStorageUniform = 2 };

// Calls visit(at, words) for each instruction of so many words that begins at `at`.
template <class Visit>
void for_each(std::span<const uint32_t> code, uint32_t opcode, Visit visit) {
    constexpr uint32_t kHeaderWords = 5;
    for (size_t at = kHeaderWords; at < code.size() && code[at] >> 16 != 0; at += code[at] >> 16)
        if ((code[at] & 0xffffu) == opcode) visit(at, code[at] >> 16);
}

// Where the numbers stand that a decoration gives.
std::vector<size_t> decorations(std::span<const uint32_t> code, uint32_t decoration) {
    std::vector<size_t> places;
    for_each(code, kOpDecorate, [&](size_t at, uint32_t words) {
        if (words == 4 && code[at + 2] == decoration) places.push_back(at + 3);
    });
    return places;
}

} // namespace

std::vector<uint32_t> specialisation_ids(std::span<const uint32_t> code) {
    std::vector<uint32_t> ids;
    for (const size_t at : decorations(code, kDecorationSpecId)) ids.push_back(code[at]);
    std::ranges::sort(ids); // the one of the workgroup's size may be there twice
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    return ids;
}

BindingSet binding_set(std::span<const uint32_t> code) {
    BindingSet bindings = 0;
    for (const size_t at : decorations(code, kDecorationBinding)) bindings |= BindingSet{1} << code[at];
    return bindings;
}

BindingSet written_bindings(std::span<const uint32_t> code) {
    std::map<uint32_t, uint32_t> pointed, pointers; // the type of a pointer, the pointer of a variable
    std::set<uint32_t> readonly;                    // structs
    for_each(code, kOpMemberDecorate, [&](size_t at, uint32_t words) {
        if (words == 4 && code[at + 3] == kDecorationNonWritable) readonly.insert(code[at + 1]);
    });
    for_each(code, kOpTypePointer, [&](size_t at, uint32_t) { pointed[code[at + 1]] = code[at + 3]; });
    for_each(code, kOpVariable, [&](size_t at, uint32_t) { pointers[code[at + 2]] = code[at + 1]; });
    BindingSet written = 0;
    for (const size_t at : decorations(code, kDecorationBinding))
        if (!readonly.contains(pointed[pointers[code[at - 2]]])) written |= BindingSet{1} << code[at];
    return written;
}

std::optional<uint32_t> uniform_binding(std::span<const uint32_t> code) {
    std::set<uint32_t> uniforms; // variables
    for_each(code, kOpVariable, [&](size_t at, uint32_t) {
        if (code[at + 3] == kStorageUniform) uniforms.insert(code[at + 2]);
    });
    for (const size_t at : decorations(code, kDecorationBinding))
        if (uniforms.contains(code[at - 2])) return code[at];
    return std::nullopt;
}

std::vector<uint32_t> renumber_bindings(std::span<const uint32_t> code, BindingSet used) {
    const std::optional<uint32_t> uniforms = uniform_binding(code);
    const auto number_of = [&](uint32_t binding) {
        return static_cast<uint32_t>(std::popcount(used & ((BindingSet{1} << binding) - 1)));
    };
    const BindingSet writable = written_bindings(code), written = writable & used, read = used & ~writable;
    const auto first_of = [&](BindingSet set, BindingSet otherwise) {
        if (set == 0) set = otherwise;
        return set == 0 ? 0 : number_of(static_cast<uint32_t>(std::countr_zero(set)));
    };
    const uint32_t of_writable = first_of(written, read), of_read = first_of(read, written);
    std::vector<uint32_t> renumbered(code.begin(), code.end());
    for (const size_t at : decorations(code, kDecorationBinding)) {
        const bool is_used = code[at] == uniforms || (used >> code[at] & 1) != 0;
        const uint32_t shared = (writable >> code[at] & 1) != 0 ? of_writable : of_read;
        renumbered[at] = is_used ? number_of(code[at]) : shared;
    }
    return renumbered;
}

} // namespace vkattn
