#pragma once

#include "runtime/plan.hpp"

namespace vkattn {

// Writes source [B,H,L,D] into cache [B,H,capacity,D] at positions offset .. offset + L - 1 (past_lengths[b] in place
// of offset, if that view is present), converting to the cache's type. F32, F16 or BF16 each, any strides.
void add_kv_append(Plan &plan, const View &source, const View &cache, uint32_t offset, const View &past_lengths);

} // namespace vkattn
