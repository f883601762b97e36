#pragma once

#include "vkattn/vkattn.h"

#include <cstdint>

namespace vkattn {

// What tensors that callers describe must be: each check fails with VKATTN_ERROR_INVALID_ARGUMENT, naming the tensor and
// what was expected; each checked_ gives the tensor, normalised.

vkattn_tensor checked_rank(const vkattn_tensor &given, const char *name, uint32_t rank);

// Absent, or of one type and one shape.
vkattn_tensor checked_optional(const vkattn_tensor &given, const char *name, const vkattn_tensor &expected);

// The same, without gaps.
vkattn_tensor checked_contiguous(const vkattn_tensor &given, const char *name, const vkattn_tensor &expected);

// Require a type of which that is true.
void require_float(const vkattn_tensor &tensor, const char *name);
void require_key_value(const vkattn_tensor &tensor, const char *name);
void require_cached(const vkattn_tensor &tensor, const char *name);
void require_weight(const vkattn_tensor &tensor, const char *name);
void require_mask(const vkattn_tensor &tensor, const char *name); // boolean, or added to scores

void require_shape(const vkattn_tensor &tensor, const char *name, const vkattn_tensor &expected);
void require_no_overlap(const vkattn_tensor &tensor, const char *name); // of its elements

} // namespace vkattn
