#include "runtime/problem/tensor_checks.hpp"

#include "runtime/problem/tensor.hpp"
#include "runtime/support/error.hpp"

#include <algorithm>

namespace vkattn {

vkattn_tensor checked_rank(const vkattn_tensor &given, const char *name, uint32_t rank) {
    require(present(given), name, ": absent, expected a tensor of rank ", rank);
    const vkattn_tensor tensor = normalised(given, name);
    require(tensor.rank == rank, name, ": rank ", tensor.rank, ", expected ", rank);
    return tensor;
}

vkattn_tensor checked_optional(const vkattn_tensor &given, const char *name, const vkattn_tensor &expected) {
    const vkattn_tensor tensor = normalised(given, name);
    if (!present(tensor)) return tensor;
    require(tensor.type == expected.type, name, ": type ", type_name(tensor.type), ", expected ",
            type_name(expected.type));
    require_shape(tensor, name, expected);
    return tensor;
}

vkattn_tensor checked_contiguous(const vkattn_tensor &given, const char *name, const vkattn_tensor &expected) {
    const vkattn_tensor tensor = checked_optional(given, name, expected);
    require(!present(tensor) || is_contiguous(tensor), name,
            ": strides are not those of a contiguous tensor, expected them to be");
    return tensor;
}

namespace {

void require_type(const vkattn_tensor &tensor, const char *name, bool (*is_one)(vkattn_type)) {
    if (!is_one(tensor.type))
        fail(VKATTN_ERROR_INVALID_ARGUMENT, name, ": type ", type_name(tensor.type), ", expected ", type_names(is_one));
}

} // namespace

void require_float(const vkattn_tensor &tensor, const char *name) { require_type(tensor, name, is_float); }
void require_key_value(const vkattn_tensor &tensor, const char *name) { require_type(tensor, name, is_key_value); }
void require_cached(const vkattn_tensor &tensor, const char *name) { require_type(tensor, name, is_cached); }
void require_weight(const vkattn_tensor &tensor, const char *name) { require_type(tensor, name, is_weight); }

void require_mask(const vkattn_tensor &tensor, const char *name) {
    require(tensor.type == VKATTN_TYPE_BOOL || tensor.type == VKATTN_TYPE_F32 || tensor.type == VKATTN_TYPE_F16, name,
            ": type ", type_name(tensor.type), ", expected BOOL, F32 or F16");
}

void require_shape(const vkattn_tensor &tensor, const char *name, const vkattn_tensor &expected) {
    const bool same =
        tensor.rank == expected.rank && std::equal(tensor.shape, tensor.shape + tensor.rank, expected.shape);
    require(same, name, ": shape ", shape_text(tensor), ", expected ", shape_text(expected));
}

void require_no_overlap(const vkattn_tensor &tensor, const char *name) {
    require(!overlaps_itself(tensor), name,
            ": strides make elements overlap, expected each element to have its own place");
}

} // namespace vkattn
