#pragma once

#include "runtime/problem/stored_types.hpp"
#include "vkattn/vkattn.h"

#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <string>

namespace vkattn {

// Arithmetic on vkattn_tensor: the layout of one tensor inside a bound region. No Vulkan call.

// The tensor's type as shaders know it: FORMAT_* of shaders/interface/stored_types.h.
inline uint32_t format_of(const vkattn_tensor &tensor) { return static_cast<uint32_t>(tensor.type); }

inline bool present(const vkattn_tensor &tensor) { return tensor.type != VKATTN_TYPE_NONE; }

// "[2,8,17,64]"
// Made into text where a message is, not where a check passes; the tensor must live until then.
struct ShapeText {
    const vkattn_tensor &tensor;
};
std::ostream &operator<<(std::ostream &stream, const ShapeText &shape);
inline ShapeText shape_text(const vkattn_tensor &tensor) { return {tensor}; }

// A contiguous tensor of the shape.
vkattn_tensor contiguous(vkattn_type type, std::initializer_list<uint64_t> shape);

// The largest size of a dimension: positions, with a past and a window, then stay in 32 bits.
constexpr uint32_t kLargestSize = uint32_t{1} << 29;

// Elements that kernels, which count them in 32 bits, tell apart.
constexpr uint64_t kMostElements = uint64_t{1} << 32;

// The tensor with its strides filled in; fails, naming it, if its rank, type, shape or extent is impossible.
vkattn_tensor normalised(const vkattn_tensor &tensor, const char *name);

// Whether a present tensor has no elements: a size is 0.
bool is_empty(const vkattn_tensor &tensor);

// Elements from the bound offset to the end of the last one, the tensor's own offset included; 0 of an empty tensor.
// Normalised tensors only.
uint64_t extent_elements(const vkattn_tensor &tensor);

// Bytes of the same, rounded up to whole 32-bit words.
uint64_t extent_bytes(const vkattn_tensor &tensor);

// Elements from the first one to the end of the last one. Normalised tensors only.
uint64_t span_elements(const vkattn_tensor &tensor);

// Indices first .. first + count - 1 of a dimension; an absent tensor, and a dimension of size 1, stay as they are.
void slice(vkattn_tensor &tensor, uint32_t dim, uint64_t first, uint64_t count);

// Whether two elements share an address.
bool overlaps_itself(const vkattn_tensor &tensor);

bool is_contiguous(const vkattn_tensor &tensor);

// Whether every row of the last dimension starts at an even element: neighbours of 16 bits can then share a word.
bool rows_start_even(const vkattn_tensor &tensor);

// The same, and the row's elements are neighbours.
bool in_pairs(const vkattn_tensor &tensor);

} // namespace vkattn
