#pragma once

#include "vkattn/vkattn.h"

#include <cstdint>

namespace vkattn {

// Which rows are stored rotated: specified in vkattn/attention.h at vkattn_rotation.
struct KvRotation {
    bool key = false;
    bool value = false;
    bool operator==(const KvRotation &) const = default;
};

// Fails for an unknown rotation, and names the member.
bool is_rotated(vkattn_rotation rotation, const char *name);

// Of a structure that says both.
template <class Structure>
KvRotation rotation_of(const Structure &given) {
    return {is_rotated(given.key_rotation, "key_rotation"), is_rotated(given.value_rotation, "value_rotation")};
}

// Elements of the blocks in which rows are rotated: the largest power of two that divides them. 1: nothing changes.
uint32_t hadamard_block(uint64_t row_elements);

// What makes the sums and differences of such a block orthonormal.
float hadamard_scale(uint32_t block);

} // namespace vkattn
