#include "runtime/problem/scales.hpp"

#include "runtime/problem/stored_types.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/problem/tensor_checks.hpp"
#include "runtime/support/error.hpp"

namespace vkattn {

bool is_scaled(vkattn_type type) { return stored_type(type).fraction_bits != 0; }

vkattn_tensor checked_scales(const vkattn_tensor &given, const char *name, const vkattn_tensor &rows) {
    require(is_scaled(rows.type), name, ": given beside ", type_name(rows.type), ", expected ", type_names(is_scaled),
            ", which have no scales of their own");
    vkattn_tensor scales = checked_rank(given, name, 4);
    require(scales.type == VKATTN_TYPE_F32, name, ": type ", type_name(scales.type), ", expected F32");
    bool fits = scales.shape[3] == 1;
    for (uint32_t dim = 0; dim < 3; ++dim)
        fits = fits && (scales.shape[dim] == 1 || scales.shape[dim] == rows.shape[dim]);
    require(fits, name, ": shape ", shape_text(scales), ", expected [", rows.shape[0], "|1,", rows.shape[1], "|1,",
            rows.shape[2], "|1,1]");
    for (uint32_t dim = 0; dim < 4; ++dim)
        if (scales.shape[dim] == 1) scales.strides[dim] = 0;
    return scales;
}

} // namespace vkattn
