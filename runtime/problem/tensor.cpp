#include "runtime/problem/tensor.hpp"

#include "runtime/support/error.hpp"
#include "runtime/support/rounding.hpp"

#include <algorithm>
#include <sstream>
#include <vector>

namespace vkattn {
namespace {

// Far above any device's storage buffer range, and small enough that sums of four products cannot overflow.
constexpr uint64_t kLargestExtent = uint64_t{1} << 48;

uint64_t product(uint64_t a, uint64_t b, const char *name) {
    require(a == 0 || b <= kLargestExtent / a, name, ": sizes or strides overflow, expected less than 2^48 elements");
    return a * b;
}

void fill_contiguous_strides(vkattn_tensor &tensor, const char *name) {
    uint64_t stride = 1;
    for (uint32_t dim = tensor.rank; dim-- > 0;) {
        tensor.strides[dim] = stride;
        stride = product(stride, std::max<uint64_t>(tensor.shape[dim], 1), name);
    }
}

// Strides from the first to the last index of a dimension.
uint64_t steps_of(const vkattn_tensor &tensor, uint32_t dim) { return std::max<uint64_t>(tensor.shape[dim], 1) - 1; }

// Rows of a quantised tensor are whole blocks.
void require_blocks(const vkattn_tensor &tensor, const char *name) {
    const uint32_t elements = storage_block(tensor.type).elements;
    const uint32_t last = tensor.rank - 1;
    bool whole = tensor.shape[last] % elements == 0 && tensor.offset % elements == 0;
    for (uint32_t dim = 0; dim < last; ++dim) whole = whole && tensor.strides[dim] % elements == 0;
    require(elements == 1 || (whole && tensor.strides[last] == 1), name, ": type ", type_name(tensor.type), ", shape ",
            shape_text(tensor), ": expected contiguous rows, and sizes, strides and offset in whole blocks of ",
            elements, " elements");
}

} // namespace

std::ostream &operator<<(std::ostream &stream, const ShapeText &shape) {
    for (uint32_t dim = 0; dim < std::min(shape.tensor.rank, 4u); ++dim)
        stream << (dim == 0 ? '[' : ',') << shape.tensor.shape[dim];
    return stream << ']';
}

vkattn_tensor contiguous(vkattn_type type, std::initializer_list<uint64_t> shape) {
    vkattn_tensor tensor{};
    tensor.type = type;
    tensor.rank = static_cast<uint32_t>(shape.size());
    std::copy(shape.begin(), shape.end(), tensor.shape);
    fill_contiguous_strides(tensor, "tensor");
    return tensor;
}

vkattn_tensor normalised(const vkattn_tensor &tensor, const char *name) {
    if (!present(tensor)) return {};
    require(storage_block(tensor.type).elements != 0, name, ": type ", static_cast<int>(tensor.type),
            " is unknown, expected a vkattn_type");
    require(tensor.rank >= 1 && tensor.rank <= 4, name, ": rank ", tensor.rank, ", expected 1 to 4");
    vkattn_tensor result = tensor;
    bool any_stride = false;
    for (uint32_t dim = 0; dim < 4; ++dim) {
        if (dim >= tensor.rank) {
            result.shape[dim] = result.strides[dim] = 0;
            continue;
        }
        require(tensor.shape[dim] <= kLargestSize, name, ": shape ", shape_text(tensor),
                ", expected sizes of at most 2^29");
        any_stride = any_stride || tensor.strides[dim] != 0;
    }
    if (!any_stride) fill_contiguous_strides(result, name);
    uint64_t extent = 1;
    for (uint32_t dim = 0; dim < result.rank; ++dim)
        extent += product(steps_of(result, dim), result.strides[dim], name);
    require(extent <= kLargestExtent && result.offset <= kLargestExtent, name,
            ": sizes or strides overflow, expected less than 2^48 elements");
    require_blocks(result, name);
    return result;
}

bool is_empty(const vkattn_tensor &tensor) {
    return std::any_of(tensor.shape, tensor.shape + tensor.rank, [](uint64_t size) { return size == 0; });
}

uint64_t extent_elements(const vkattn_tensor &tensor) {
    return is_empty(tensor) ? 0 : tensor.offset + span_elements(tensor);
}

uint64_t extent_bytes(const vkattn_tensor &tensor) {
    if (!present(tensor)) return 0;
    return round_up(bytes_of(tensor.type, extent_elements(tensor)), sizeof(uint32_t));
}

uint64_t span_elements(const vkattn_tensor &tensor) {
    if (is_empty(tensor)) return 0;
    uint64_t span = 1;
    for (uint32_t dim = 0; dim < tensor.rank; ++dim) span += steps_of(tensor, dim) * tensor.strides[dim];
    return span;
}

void slice(vkattn_tensor &tensor, uint32_t dim, uint64_t first, uint64_t count) {
    if (!present(tensor) || tensor.shape[dim] == 1) return;
    tensor.offset += first * tensor.strides[dim];
    tensor.shape[dim] = count;
}

bool overlaps_itself(const vkattn_tensor &tensor) {
    if (is_empty(tensor)) return false;
    std::vector<std::pair<uint64_t, uint64_t>> dims; // stride and steps, of the dimensions that have steps
    for (uint32_t dim = 0; dim < tensor.rank; ++dim)
        if (tensor.shape[dim] > 1) dims.emplace_back(tensor.strides[dim], tensor.shape[dim] - 1);
    std::sort(dims.begin(), dims.end());
    uint64_t reach = 0; // of the dimensions inside
    for (const auto &[stride, steps] : dims) {
        if (stride <= reach) return true;
        reach += steps * stride;
    }
    return false;
}

bool is_contiguous(const vkattn_tensor &tensor) {
    if (is_empty(tensor)) return true;
    uint64_t stride = 1;
    for (uint32_t dim = tensor.rank; dim-- > 0;) {
        if (tensor.shape[dim] != 1 && tensor.strides[dim] != stride) return false;
        stride *= tensor.shape[dim];
    }
    return true;
}

bool rows_start_even(const vkattn_tensor &tensor) {
    bool even = tensor.offset % 2 == 0;
    for (uint32_t dim = 0; dim + 1 < tensor.rank; ++dim)
        even = even && (tensor.shape[dim] == 1 || tensor.strides[dim] % 2 == 0);
    return even;
}

bool in_pairs(const vkattn_tensor &tensor) { return rows_start_even(tensor) && tensor.strides[tensor.rank - 1] == 1; }

} // namespace vkattn
