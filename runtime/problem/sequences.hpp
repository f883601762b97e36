#pragma once

#include "runtime/problem/tensor.hpp"

namespace vkattn {

// Sequences of unequal length, as callers describe them: see vkattn_attention_desc. Both functions keep an absent
// tensor absent, and fail with VKATTN_ERROR_INVALID_ARGUMENT, naming it; `name` is what the rows are called.

// Where each of packed rows [1,H,total,D] begins: contiguous I32 [sequences + 1].
vkattn_tensor checked_cu_seqlens(const vkattn_tensor &given, const char *cu_seqlens, const vkattn_tensor &rows,
                                 const char *name);

// Sequences that cu_seqlens holds.
uint32_t sequences_of(const vkattn_tensor &cu_seqlens);

// Whether pages may have so many positions.
bool is_page(uint64_t positions);

// The longest sequence of packed rows: what the caller says, or all of them.
uint32_t longest_sequence(uint32_t given, const char *max_seqlen, const vkattn_tensor &rows);

// The pages of rows [pool,H,page,D]: contiguous I32 [sequences, pages]; a page is a power of two, at least 8 positions.
vkattn_tensor checked_block_table(const vkattn_tensor &given, uint64_t sequences, const vkattn_tensor &rows,
                                  const char *name);

// Positions of a sequence that the pages of a checked table hold.
uint32_t positions_of(const vkattn_tensor &block_table, const vkattn_tensor &rows);

} // namespace vkattn
