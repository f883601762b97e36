#pragma once

#include "runtime/support/error.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

namespace vkattn {

// How structures cross the C ABI while they grow: see vkattn/core.h.

// The structure that a caller has filled in, as large as it knows it: members that it does not know are 0. Fails, naming the
// argument, for NULL, for a size that no version has, and for a member of a newer version that is not 0.
template <class Structure>
Structure sized(const Structure *given, const char *name) {
    require(given != nullptr, name, ": NULL, expected a pointer");
    constexpr size_t kStep = alignof(uint32_t), kMost = size_t{1} << 16;
    const size_t size = given->struct_size;
    require(size > kStep && size % kStep == 0 && size <= kMost, name, ".struct_size: ", size,
            ", expected the size of the structure, ", sizeof(Structure), " here");
    const auto *bytes = reinterpret_cast<const unsigned char *>(given);
    for (size_t at = sizeof(Structure); at < size; ++at)
        require(bytes[at] == 0, name, ".struct_size: ", size, " with a member at byte ", at,
                ", expected 0 there: this version of vkattn knows ", sizeof(Structure), " bytes");
    Structure known{};
    std::memcpy(&known, given, std::min(size, sizeof(Structure)));
    known.struct_size = sizeof(Structure);
    return known;
}

// The same of an argument that may be NULL, which means the defaults.
template <class Structure>
Structure sized_or_default(const Structure *given, const char *name) {
    return given != nullptr ? sized(given, name) : Structure{};
}

// Writes a structure into the room that a caller has for it. size: of the caller's. What the caller knows beyond is zeroed.
template <class Structure>
void write_structure(const Structure &structure, void *to, size_t size) {
    std::memcpy(to, &structure, std::min(size, sizeof structure));
    if (size > sizeof structure) std::memset(static_cast<char *>(to) + sizeof structure, 0, size - sizeof structure);
}

// The same of as many as there is room for, one every `stride` bytes. count: in, that room; out, how many there are.
template <class Structure>
void write_structures(std::span<const Structure> structures, uint32_t *count, void *to, size_t stride) {
    require(to == nullptr || stride != 0, "stride: 0, expected the size of a structure, ", sizeof(Structure), " here");
    for (size_t i = 0; to != nullptr && i < std::min<size_t>(*count, structures.size()); ++i)
        write_structure(structures[i], static_cast<char *>(to) + i * stride, stride);
    *count = static_cast<uint32_t>(structures.size());
}

} // namespace vkattn
