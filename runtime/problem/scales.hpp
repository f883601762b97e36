#pragma once

#include "vkattn/vkattn.h"

namespace vkattn {

// Scales of K and V, specified in vkattn/attention.h at key_scales.

// Scales of rows [X,H,L,D], 4-D with stride 0 where they are shared. Fails with VKATTN_ERROR_INVALID_ARGUMENT where the shape or
// a type is another than expected.
vkattn_tensor checked_scales(const vkattn_tensor &given, const char *name, const vkattn_tensor &rows);

// Whether scales of rows may be had of elements of the type.
bool is_scaled(vkattn_type type);

} // namespace vkattn
