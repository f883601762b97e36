#include "runtime/problem/rotation.hpp"

#include "runtime/support/error.hpp"
#include "shaders/interface/rows.h"

#include <bit>
#include <cmath>

namespace vkattn {

bool is_rotated(vkattn_rotation rotation, const char *name) {
    require(rotation == VKATTN_ROTATION_NONE || rotation == VKATTN_ROTATION_HADAMARD, name, ": ",
            static_cast<int>(rotation), ", expected a vkattn_rotation");
    return rotation == VKATTN_ROTATION_HADAMARD;
}

uint32_t hadamard_block(uint64_t row_elements) {
    return 1u << std::countr_zero(row_elements | ROWS_LARGEST_BLOCK); // head sizes end below the next power of two
}

float hadamard_scale(uint32_t block) { return 1.0f / std::sqrt(static_cast<float>(block)); }

} // namespace vkattn
