#pragma once

#include "runtime/support/error.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>

namespace vkattn {

// How structures cross the C ABI while they grow: see vkattn/results.h.

// Fails, naming the argument, for NULL and for a size that no version of the structure has. Returns the size.
template <class Structure>
size_t checked_size(const Structure *given, const char *name) {
    require(given != nullptr, name, ": NULL, expected a pointer");
    constexpr size_t kStep = alignof(uint32_t), kMost = size_t{1} << 16;
    const size_t size = given->struct_size;
    require(size > kStep && size % kStep == 0 && size <= kMost, name, ".struct_size: ", size,
            ", expected the size of the structure, ", sizeof(Structure), " here");
    return size;
}

// The structure that a caller has filled in, as large as it knows it: members that it does not know are 0. Fails also for a
// member of a newer version that is not 0.
template <class Structure>
Structure sized(const Structure *given, const char *name) {
    const size_t size = checked_size(given, name);
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

// Fills in a structure of a caller, as much of it as the caller knows. What the caller knows beyond is zeroed.
template <class Structure>
void fill_in(Structure *given, Structure known, const char *name) {
    const size_t size = checked_size(given, name);
    known.struct_size = given->struct_size;
    std::memcpy(given, &known, std::min(size, sizeof known));
    if (size > sizeof known) std::memset(reinterpret_cast<char *>(given) + sizeof known, 0, size - sizeof known);
}

// A number that may be left out, or `otherwise`. Fails, naming it, unless it is finite.
inline float finite_or(const vkattn_optional_float &given, float otherwise, const char *name) {
    if (given.present == 0) return otherwise;
    require(std::isfinite(given.value), name, ": ", given.value,
            ", expected a finite number, or none for the usual one");
    return given.value;
}

// The same of what is added to a variance.
inline float epsilon_or(const vkattn_optional_float &given, float otherwise, const char *name) {
    const float epsilon = finite_or(given, otherwise, name);
    require(epsilon >= 0, name, ": ", epsilon, ", expected at least 0");
    return epsilon;
}

} // namespace vkattn
