// Tensors as heads: [B,H,L,D], however the model has them.
#pragma once

#include "node.hpp"

namespace vkattn_ort {

// The sizes of [B,H,L,D].
struct HeadSizes {
    std::uint64_t batch, heads, len, head_dim;
};

// Returns [B,H,L,D] of a contiguous tensor whose tokens have `row` elements, of which these heads begin at `first`.
inline View heads_in_rows(View of, const HeadSizes &sizes, std::uint64_t row, std::uint64_t first = 0) {
    const auto [batch, heads, len, dim] = sizes;
    of.layout = vkattn::tensor(of.layout.type, {batch, heads, len, dim}, {len * row, dim, row, 1}, first);
    return of;
}

// Returns [B,H,L,D] of a tensor that is stored so.
inline View heads_apart(View of, const HeadSizes &sizes) {
    const auto [batch, heads, len, dim] = sizes;
    of.layout = vkattn::tensor(of.layout.type, {batch, heads, len, dim}, {heads * len * dim, len * dim, dim, 1});
    return of;
}

inline HeadSizes sizes_of(const View &heads) {
    return {heads.layout.shape[0], heads.layout.shape[1], heads.layout.shape[2], heads.layout.shape[3]};
}

} // namespace vkattn_ort
