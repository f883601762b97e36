#pragma once

#include "runtime/device/device_caps.hpp"
#include "runtime/problem/attention_problem.hpp"
#include "shaders/interface/attention.h"

namespace vkattn {

// The problem's part of a dispatch's constants; its kernel adds the tile's.
gpu::AttentionConstants constants_of(const AttentionProblem &problem, uint32_t workgroup_size);

// Whether a tensor's rows are loaded sixteen bytes at a time: see FEATURE_KEY_ALIGNED. whatever_sizes: strides count where a size
// of 1 makes nothing of them, so that the answer is the same for a part of the tensor.
bool rows_are_aligned(const AttentionProblem &problem, const vkattn_tensor &tensor, bool whatever_sizes = false);

// Whether rows of K or V are whole blocks of four neighbours, and quantised ones begin at whole words: of most types at every
// second quantised block. What reads through device addresses takes them in words.
bool rows_are_in_blocks(const AttentionProblem &problem, const vkattn_tensor &tensor);

// Bytes between neighbours along a dimension, as shaders find rows at device addresses; and those of the outer two of two tensors.
uint32_t stride_bytes(const vkattn_tensor &tensor, uint32_t dim);
gpu::uvec4 addressed_strides(const vkattn_tensor &first, const vkattn_tensor &second);

// Whether a head's values in a sequence have several scales: of keys, or of the pages that they lie in.
bool scales_values_by_key(const AttentionProblem &problem);

// Whether Q, K and V are 16-bit values in rows of whole vectors of 16 bytes: shaders of halves read them as they are. With
// batch_invariant, whatever the size of the batch.
bool is_in_halves(const AttentionProblem &problem);

// The sorted copy of key_indices, as it lies in the workspace.
vkattn_tensor sorted_lists_of(const vkattn_tensor &key_indices);

// Why tiles cannot attend its lists; "": they can, or there are none. llvmpipe of Mesa 26 crashes in some of them: it takes
// a null pointer for the lists, or for a block table beside them, where no lane is at work.
const char *obstacle_of_lists(const AttentionProblem &problem, const DeviceCaps &caps);

// The uniform block of a problem's dispatches.
gpu::AttentionParameters parameters_of(const AttentionProblem &problem);

} // namespace vkattn
