#include "runtime/vulkan/shader.hpp"

#include "runtime/spirv/numbers.hpp"
#include "runtime/spirv/used_ids.hpp"
#include "runtime/support/error.hpp"
#include "runtime/support/inflate.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <set>

namespace vkattn {
namespace {

using namespace spirv;

// Calls visit(at, words) for each instruction of so many words that begins at `at`.
template <class Visit>
void for_each(std::span<const uint32_t> code, uint32_t opcode, Visit visit) {
    for (size_t at = kHeaderWords; at < code.size() && code[at] >> 16 != 0; at += code[at] >> 16)
        if ((code[at] & 0xffffu) == opcode) visit(at, code[at] >> 16);
}

// Where the numbers stand that a decoration gives.
std::vector<size_t> decorations(std::span<const uint32_t> code, uint32_t decoration) {
    std::vector<size_t> places;
    for_each(code, OpDecorate, [&](size_t at, uint32_t words) {
        if (words == 4 && code[at + 2] == decoration) places.push_back(at + 3);
    });
    return places;
}

// The words that an instruction has at least, of those that are read here.
uint32_t fewest_words(uint32_t opcode) {
    switch (opcode) {
    case OpTypeInt:
    case OpTypeVector:
    case OpTypeMatrix:
    case OpTypeArray:
    case OpTypePointer:
    case OpConstant:
    case OpVariable:
    case OpMemberDecorate:
        return 4;
    case OpTypeFloat:
    case OpDecorate:
        return 3;
    case OpTypeBool:
    case OpTypeStruct:
        return 2;
    default:
        return 1;
    }
}

// Whether instructions follow each other to the end, each as long as it must be.
std::string fault_of_instructions(std::span<const uint32_t> code) {
    if (code.size() < kHeaderWords || code[0] != kMagic) return "no SPIR-V, expected a module";
    for (size_t at = kHeaderWords; at < code.size(); at += code[at] >> 16) {
        const uint32_t words = code[at] >> 16, fewest = fewest_words(code[at] & 0xffffu);
        if (words < fewest || words > code.size() - at)
            return text("an instruction of ", words, " words at word ", at, " of ", code.size(), ", expected at least ",
                        fewest, ", within the module");
    }
    return "";
}

// The sizes of types in bytes, as far as they are known: a length that is a specialisation constant counts as 0.
class TypeBytes {
  public:
    explicit TypeBytes(std::span<const uint32_t> code) {
        for (size_t at = kHeaderWords; at < code.size(); at += code[at] >> 16) add(code.subspan(at, code[at] >> 16));
    }
    // Of the memory that a pointer of this type points to, where it is an invocation's own; else 0.
    uint64_t behind(uint32_t pointer) const { return value(own_, pointer); }

  private:
    using Values = std::map<uint32_t, uint64_t>;         // by id
    static constexpr uint64_t kMost = uint64_t{1} << 40; // keeps sums and products from wrapping

    static uint64_t value(const Values &values, uint32_t id) {
        const auto found = values.find(id);
        return found == values.end() ? 0 : found->second;
    }
    void add(std::span<const uint32_t> words) {
        switch (words[0] & 0xffffu) {
        case OpTypeBool:
            bytes_[words[1]] = 4;
            break;
        case OpTypeInt:
        case OpTypeFloat:
            bytes_[words[1]] = words[2] / 8;
            break;
        case OpTypeVector:
        case OpTypeMatrix:
            bytes_[words[1]] = product(value(bytes_, words[2]), words[3]);
            break;
        case OpTypeArray:
            bytes_[words[1]] = product(value(bytes_, words[2]), value(constants_, words[3]));
            break;
        case OpTypeStruct:
            for (const uint32_t member : words.subspan(2))
                bytes_[words[1]] = std::min(bytes_[words[1]] + value(bytes_, member), kMost);
            break;
        case OpConstant:
            constants_[words[2]] = words[3];
            break;
        case OpTypePointer:
            if (words[2] == kPrivate || words[2] == kFunction) own_[words[1]] = value(bytes_, words[3]);
            break;
        default:
            break;
        }
    }
    // Below 2^40 each; a length is below 2^32.
    static uint64_t product(uint64_t bytes, uint64_t count) {
        return count != 0 && bytes > kMost / count ? kMost : bytes * count;
    }

    Values bytes_, constants_, own_;
};

// The buffers that a module may write: those that are not declared readonly.
BindingSet written_bindings(std::span<const uint32_t> code) {
    std::map<uint32_t, uint32_t> pointed, pointers; // the type of a pointer, the pointer of a variable
    std::set<uint32_t> readonly;                    // structs
    for_each(code, OpMemberDecorate, [&](size_t at, uint32_t words) {
        if (words == 4 && code[at + 3] == kNonWritable) readonly.insert(code[at + 1]);
    });
    for_each(code, OpTypePointer, [&](size_t at, uint32_t) { pointed[code[at + 1]] = code[at + 3]; });
    for_each(code, OpVariable, [&](size_t at, uint32_t) { pointers[code[at + 2]] = code[at + 1]; });
    BindingSet written = 0;
    for (const size_t at : decorations(code, kBinding))
        if (!readonly.contains(pointed[pointers[code[at - 2]]])) written |= BindingSet{1} << code[at];
    return written;
}

std::optional<uint32_t> uniform_binding(std::span<const uint32_t> code) {
    std::set<uint32_t> uniforms; // variables
    for_each(code, OpVariable, [&](size_t at, uint32_t) {
        if (code[at + 3] == kUniform) uniforms.insert(code[at + 2]);
    });
    for (const size_t at : decorations(code, kBinding))
        if (uniforms.contains(code[at - 2])) return code[at];
    return std::nullopt;
}

} // namespace

std::string module_fault(std::span<const uint32_t> code) {
    // Compilers of drivers take minutes for larger ones, and registers hold none of them.
    constexpr uint64_t kMostOwnBytes = 4096;
    if (std::string fault = fault_of_instructions(code); !fault.empty()) return fault;
    for (const size_t at : decorations(code, kBinding))
        if (code[at] >= 8 * sizeof(BindingSet))
            return text("a resource of binding ", code[at], ", expected one below ", 8 * sizeof(BindingSet));
    for (const size_t at : decorations(code, kDescriptorSet))
        if (code[at] != 0) return text("a resource of descriptor set ", code[at], ", expected those of set 0 alone");
    const TypeBytes bytes(code);
    std::string fault;
    for_each(code, OpVariable, [&](size_t at, uint32_t) {
        if (const uint64_t own = bytes.behind(code[at + 1]); own > kMostOwnBytes)
            fault = text("an array of ", own, " bytes in functions, expected at most ", kMostOwnBytes,
                         ": a captured tensor holds many numbers");
    });
    return fault;
}

std::vector<uint32_t> ModuleCode::words() const {
    if (deflated_.empty()) return {plain_.begin(), plain_.end()};
    const std::span<const uint8_t> deflated(reinterpret_cast<const uint8_t *>(deflated_.data()),
                                            deflated_.size_bytes());
    const std::vector<std::byte> bytes = inflate(deflated, word_count_ * sizeof(uint32_t));
    std::vector<uint32_t> words(word_count_);
    std::memcpy(words.data(), bytes.data(), bytes.size());
    return words;
}

ModuleFacts module_facts(std::span<const uint32_t> code) {
    const std::vector<bool> used = spirv::used_ids(code);
    const auto is_used = [&](size_t at) {
        return code[at - 2] < used.size() && used[code[at - 2]];
    }; // the decorated id
    ModuleFacts facts;
    for (const size_t at : decorations(code, kSpecId))
        if (is_used(at)) facts.constant_ids.push_back(code[at]);
    std::ranges::sort(facts.constant_ids); // the one of the workgroup's size may be there twice
    facts.constant_ids.erase(std::unique(facts.constant_ids.begin(), facts.constant_ids.end()),
                             facts.constant_ids.end());
    for (const size_t at : decorations(code, kBinding))
        if (is_used(at)) facts.bindings |= BindingSet{1} << code[at];
    facts.written = written_bindings(code) & facts.bindings;
    facts.uniforms = uniform_binding(code);
    if (facts.uniforms && (facts.bindings >> *facts.uniforms & 1) == 0) facts.uniforms = std::nullopt;
    return facts;
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
    for (const size_t at : decorations(code, kBinding)) {
        const bool is_used = code[at] == uniforms || (used >> code[at] & 1) != 0;
        const uint32_t shared = (writable >> code[at] & 1) != 0 ? of_writable : of_read;
        renumbered[at] = is_used ? number_of(code[at]) : shared;
    }
    return renumbered;
}

} // namespace vkattn
