#pragma once

#include <vkattn/vkattn.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vkattn {

// The SPIR-V of a module as it is kept: deflated by the build, or a variant's words. Empty where the build left it out.
class ModuleCode {
  public:
    constexpr ModuleCode() = default;
    constexpr ModuleCode(std::span<const uint64_t> deflated, uint32_t word_count, const char *why_empty)
        : deflated_(deflated), word_count_(word_count), why_empty_(why_empty) {}
    explicit ModuleCode(std::span<const uint32_t> words)
        : plain_(words), word_count_(static_cast<uint32_t>(words.size())) {}

    bool empty() const { return word_count_ == 0; }
    // "" where it is not.
    const char *why_empty() const { return why_empty_; }
    uint32_t word_count() const { return word_count_; }
    // Unpacks them: a millisecond of the largest module's.
    std::vector<uint32_t> words() const;
    // What tells modules apart.
    std::span<const std::byte> stored() const {
        return deflated_.empty() ? std::as_bytes(plain_) : std::as_bytes(deflated_);
    }

  private:
    std::span<const uint64_t> deflated_; // eight bytes each, the first one the lowest
    std::span<const uint32_t> plain_;
    uint32_t word_count_ = 0;
    const char *why_empty_ = "";
};

// A SPIR-V module, and what the host knows of it. One for each line of the variant table in shaders/CMakeLists.txt stands in
// vkattn_shaders/table.hpp. It outlives the pipelines made of it, and is the same shader where it has the same address.
struct Shader {
    const char *name;   // no other's: verdicts and saved states go by it
    const char *source; // in the folder shaders; its variants have the same
    ModuleCode code;
    std::span<const char *const> constants; // the names of the specialisation constants, in the order of their ids
    uint32_t push_bytes;
    bool full_subgroups; // of as many invocations as the constant SUBGROUP_SIZE says
    vkattn_type
        matrices;   // of the factors of matrices, whose shape constants give; VKATTN_TYPE_NONE: it multiplies none
    uint32_t calls; // vkattn_variant_functions: with a variant that has one of them, another module takes its place
};

// Whether the build's GLSL compiler knew the extensions of the shader, and the build takes shaders of its family.
inline bool is_built(const Shader &shader) { return !shader.code.empty(); }

// Whether both are made of the same source: they differ by their #defines.
inline bool are_variants(const Shader &a, const Shader &b) { return std::string_view(a.source) == b.source; }

// Why a module that is not the library's own is not taken: "" where it is. The functions below take no other ones, nor ones that
// were not asked of. Code may be anything.
std::string module_fault(std::span<const uint32_t> code);

// Of storage buffers, a bit for each binding number.
using BindingSet = uint64_t;

// What the code of a module says of its pipelines.
struct ModuleFacts {
    std::vector<uint32_t> constant_ids; // of the specialisation constants that it reads, in order
    BindingSet bindings = 0;            // that it uses, its uniform block's among them
    BindingSet written = 0;             // of them the buffers that it may write: those that are not declared readonly
    std::optional<uint32_t> uniforms;   // the binding number of its uniform block; nothing where it has none
};
ModuleFacts module_facts(std::span<const uint32_t> code);

// The module with the bindings of `used` numbered 0, 1, 2 ... in their order. The others, which no invocation reaches, share
// the number of one of their own kind, where there is one: those that are declared writable that of one that is written, those
// that are read that of one that is read, since compilers may take what is written for memory of its own.
// The uniform block's number becomes the one after those of `used`.
std::vector<uint32_t> renumber_bindings(std::span<const uint32_t> code, BindingSet used);

} // namespace vkattn
