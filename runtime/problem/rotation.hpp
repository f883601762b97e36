#pragma once

#include "vkattn/vkattn.h"

#include <cstdint>

namespace vkattn {

// Which rows are stored rotated: specified in vkattn/attention.h at vkattn_kv_rotation.
struct KvRotation {
    bool key = false;
    bool value = false;
    bool operator==(const KvRotation &) const = default;
};

// What the extension in a chain says; nothing is rotated where there is none. Fails for an unknown rotation.
KvRotation rotation_of(const void *next);

// Elements of the blocks in which rows are rotated: the largest power of two that divides them. 1: nothing changes.
uint32_t hadamard_block(uint64_t row_elements);

// What makes the sums and differences of such a block orthonormal.
float hadamard_scale(uint32_t block);

} // namespace vkattn
