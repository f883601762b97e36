#pragma once

#include "runtime/problem/tensor.hpp"
#include "runtime/problem/tiles.hpp"
#include "runtime/support/rounding.hpp"
#include "shaders/interface/attention_numbers.h"

#include <vkattn/variants.h>

#include <algorithm>
#include <array>

namespace vkattn {

// A caller's attention description, checked and normalised: strides filled in, defaults resolved, masks as 4-D.
// No Vulkan call; specified in vkattn.h at vkattn_attention_desc.
struct AttentionProblem {
    uint32_t batch;
    uint32_t query_heads;
    uint32_t kv_heads;
    uint32_t q_len;
    uint32_t kv_len;
    uint32_t head_dim;
    uint32_t v_head_dim;
    uint32_t first_batch, first_query_head; // of a part of a larger problem: what dropout and masks in turn count from

    // query, key, value ...: layouts Mask and Blocks as 4-D, strides of broadcast dimensions 0; where V is in K's rows,
    // value_scales are key_scales, in the same memory. With cu_seqlens_q,
    // cu_seqlens_k or block_table, q_len and kv_len are those of the longest sequence
#define VKATTN_MEMBER(binding, name, NAME, feature, Layout, type, Trial) vkattn_tensor name;
    ATTENTION_TENSORS(VKATTN_MEMBER)
#undef VKATTN_MEMBER
    bool value_in_key;                     // V is the first elements of K's rows, in the same memory
    uint32_t key_block_len;                // of layout Lists; 0: there is none
    uint32_t fewest_queries, most_queries; // packed ones that a sequence must have to be attended; 0: any number

    // causal, windowed ..., softcap, dropout_p ...: 0 is none; a window of -1 is unbounded; block_q_len and block_kv_len are of
    // layout Blocks
#define VKATTN_MEMBER(name, NAME, feature) bool name;
    ATTENTION_FLAGS(VKATTN_MEMBER)
#undef VKATTN_MEMBER
// NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration
#define VKATTN_MEMBER(name, NAME, feature, Range, place) decltype(vkattn_attention_desc::name) name;
    ATTENTION_NUMBERS(VKATTN_MEMBER)
#undef VKATTN_MEMBER
    vkattn_score_stage score_stage;
    float scale;
    uint64_t dropout_seed;
    bool batch_invariant;
    bool mask_in_turn; // attn_mask has a divisor of the entries or of the heads: a part of the problem has it whole
    int32_t offset;
    bool offset_by_lengths; // in place of offset: a sequence's keys less its queries
    bool own_keys_last;     // tree_mask is of a sequence's last keys, since no past says where they begin
    vkattn_kv_head_mapping kv_head_mapping;
    vkattn_variant variant; // nullptr: none
    std::array<float, VKATTN_CAPTURED_NUMBERS> captured_numbers;
    // of the blocks of K's and V's rows that are stored rotated, see vkattn_rotation; 0: none is
    uint32_t key_hadamard, value_hadamard;
    vkattn_kernel kernel;
    // of F32 queries that may be rounded; VKATTN_TYPE_NONE: they may not, or are of that type
    vkattn_type query_rounding;
    uint32_t region_alignment; // bytes, of the offsets of what callers bind
    KernelTile tile;           // what tuning found; followed where it suits
};

// Fails with VKATTN_ERROR_INVALID_ARGUMENT, naming the argument, what it is and what was expected.
// most_positions: of a sequence in pages, where only a part of its last page is in use.
AttentionProblem check_attention(const vkattn_attention_desc &desc, uint32_t most_positions = kLargestSize);

// Whether there is anything to write.
bool has_queries(const AttentionProblem &problem);

// Whether there is any memory of keys.
bool has_keys(const AttentionProblem &problem);

// The same answers of a problem with queries, with memory for every tensor that kernels read. In place of no keys:
// one key that is hidden from every query, whose K and V are an element of query, in the same memory. In place of an
// attn_mask without columns: a causal line that hides every key.
AttentionProblem with_memory(const AttentionProblem &problem);

// The type in which matrix units multiply Q; VKATTN_TYPE_F32: they may not.
inline vkattn_type matrix_type(const AttentionProblem &problem) {
    return problem.query_rounding != VKATTN_TYPE_NONE ? problem.query_rounding : problem.query.type;
}

// Neither packed nor in pages.
inline bool is_dense(const AttentionProblem &problem) {
    return !present(problem.cu_seqlens_q) && !present(problem.cu_seqlens_k) && !present(problem.block_table);
}

// Query positions of all sequences.
inline uint64_t query_positions(const AttentionProblem &problem) {
    const uint64_t of_longest = uint64_t{problem.batch} * problem.q_len;
    return present(problem.cu_seqlens_q) ? std::min(of_longest, problem.query.shape[2]) : of_longest;
}

// Query rows of a KV head in the longest sequence.
inline uint64_t rows_of(const AttentionProblem &problem) {
    return uint64_t{problem.query_heads / problem.kv_heads} * problem.q_len;
}

// Keys that a row goes through at most: those of the longest sequence, or of its list.
inline uint32_t slots_of(const AttentionProblem &problem) {
    if (!present(problem.key_indices)) return problem.kv_len;
    return static_cast<uint32_t>(problem.key_indices.shape[3]) * problem.key_block_len;
}

// Query rows of a KV head that go through the same keys.
inline uint64_t rows_that_share_keys(const AttentionProblem &problem) {
    return present(problem.key_indices) ? problem.query_heads / problem.kv_heads : rows_of(problem);
}

// Tiles of `size` rows along the first axis of a grid, of `rows_of_position` rows of each query position: those of a sequence,
// or of all packed ones, as packed_tile of shaders/attention/rows.glsl finds them.
inline uint64_t sequence_tiles(const AttentionProblem &problem, uint64_t rows_of_position, uint32_t size) {
    const uint64_t longest = divide_up(rows_of_position * problem.q_len, uint64_t{size});
    if (!present(problem.cu_seqlens_q)) return longest;
    return std::min(rows_of_position * problem.query.shape[2] / size + problem.batch, longest * problem.batch);
}

// Tiles of so many rows that a KV head's rows take along the first axis: no tile has rows of several lists.
inline uint64_t row_tiles(const AttentionProblem &problem, uint32_t rows) {
    const uint64_t group = problem.query_heads / problem.kv_heads;
    if (!present(problem.key_indices)) return sequence_tiles(problem, group, rows);
    return divide_up(group, uint64_t{rows}) * sequence_tiles(problem, 1, 1);
}

// Whether the sequences of few queries of a packed batch are left to another problem.
inline bool is_of_prompts(const AttentionProblem &problem) {
    return problem.fewest_queries != 0 && problem.most_queries == 0;
}

// Of those tiles the ones that have rows, about: prompts' as many as if all were as long as the longest.
inline uint64_t busy_row_tiles(const AttentionProblem &problem, uint32_t rows) {
    const uint64_t all = row_tiles(problem, rows), total = problem.query.shape[2];
    if (!is_of_prompts(problem)) return all;
    return std::min(all, rows_of(problem) / problem.q_len * total / rows + divide_up(total, uint64_t{problem.q_len}));
}

// Sequences along the last axis of a grid.
inline uint32_t grid_sequences(const AttentionProblem &problem) {
    return present(problem.cu_seqlens_q) ? 1 : problem.batch;
}

// The problems that a choice of tuning for this one serves.
AttentionClass class_of(const AttentionProblem &problem);

} // namespace vkattn
