#pragma once

#include "runtime/support/error.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <span>
#include <vector>

namespace vkattn {

// How structures cross the C ABI while they grow: see vkattn/core.h.

// Fails, naming the structure, if it has extensions: for structures that know none.
inline void require_no_extensions(const void *next, const char *name) {
    if (next == nullptr) return;
    fail(VKATTN_ERROR_INVALID_ARGUMENT, name, ".next: an extension of kind ",
         static_cast<const vkattn_extension *>(next)->kind, ", expected NULL: this version of vkattn knows none of it");
}

// Fails, naming the structure, if its chain has an extension of another kind, or two of one.
inline void require_extensions(const void *next, const char *name, std::initializer_list<uint32_t> kinds) {
    std::vector<uint32_t> left = kinds;
    while (next != nullptr) {
        const auto *extension = static_cast<const vkattn_extension *>(next);
        if (std::erase(left, extension->kind) == 0)
            fail(VKATTN_ERROR_INVALID_ARGUMENT, name, ".next: an extension of kind ", extension->kind,
                 ", expected NULL or one that this version of vkattn knows, each once");
        next = extension->next;
    }
}

// The extension of the kind in a chain; nullptr: there is none.
inline const vkattn_extension *extension_of(const void *next, uint32_t kind) {
    const auto *extension = static_cast<const vkattn_extension *>(next);
    while (extension != nullptr && extension->kind != kind)
        extension = static_cast<const vkattn_extension *>(extension->next);
    return extension;
}

// sizeof as version 0.1 had it. Where a member is appended, a line says the offset of the first that 0.1 had not.
template <class Structure>
inline constexpr size_t size_of_0_1 = sizeof(Structure);
template <>
inline constexpr size_t size_of_0_1<vkattn_device_facts> = offsetof(vkattn_device_facts, signed_integer_dot_product);
template <>
inline constexpr size_t size_of_0_1<vkattn_check> = offsetof(vkattn_check, check_count);

// One fails where a structure has grown without its line.
static_assert(sizeof(void *) != 8 || size_of_0_1<vkattn_device_facts> == 2024);
static_assert(sizeof(void *) != 8 || size_of_0_1<vkattn_type_info> == 48);
static_assert(sizeof(void *) != 8 || size_of_0_1<vkattn_check> == 32);
static_assert(sizeof(void *) != 8 || size_of_0_1<vkattn_candidate> == 40);
static_assert(sizeof(void *) != 8 || size_of_0_1<vkattn_option> == 32);
static_assert(sizeof(void *) != 8 || size_of_0_1<vkattn_requirements> == 32);
static_assert(sizeof(void *) != 8 || size_of_0_1<vkattn_report> == 32);
static_assert(sizeof(void *) != 8 || size_of_0_1<vkattn_program_report> == 24);
static_assert(sizeof(void *) != 8 || size_of_0_1<vkattn_tune_budget_report> == 32);

// Writes a structure into the room that a caller has for it. size: of the caller's; 0: that of version 0.1. What the caller
// knows beyond is zeroed.
template <class Structure>
void write_structure(const Structure &structure, void *to, size_t size) {
    if (size == 0) size = size_of_0_1<Structure>;
    std::memcpy(to, &structure, std::min(size, sizeof structure));
    if (size > sizeof structure) std::memset(static_cast<char *>(to) + sizeof structure, 0, size - sizeof structure);
}

// The same of as many as there is room for, one every `stride` bytes. count: in, that room; out, how many there are.
template <class Structure>
void write_structures(std::span<const Structure> structures, uint32_t *count, void *to, size_t stride) {
    if (stride == 0) stride = size_of_0_1<Structure>;
    for (size_t i = 0; to != nullptr && i < std::min<size_t>(*count, structures.size()); ++i)
        write_structure(structures[i], static_cast<char *>(to) + i * stride, stride);
    *count = static_cast<uint32_t>(structures.size());
}

} // namespace vkattn
