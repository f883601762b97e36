#pragma once

#include "runtime/plan.hpp"

namespace vkattn {

// A caller's description, checked; layouts normalised.
struct KvAppend {
    vkattn_tensor source, cache, past_lengths;
    uint32_t offset;
};

// Fails with VKATTN_ERROR_INVALID_ARGUMENT, naming the member, what it is and what was expected.
KvAppend check_kv_append(const vkattn_kv_append_desc &desc);

// Writes source [B,H,L,D] into cache [B,H,capacity,D] at positions offset .. offset + L - 1 (past_lengths[b] in place
// of offset, if that view is present), converting to the cache's type: F32, F16 or BF16 each, any
// strides; either may be Q8_0 or Q4_0, with D a multiple of 32.
void add_kv_append(Plan &plan, const View &source, const View &cache, uint32_t offset, const View &past_lengths);

} // namespace vkattn
