// Batches of sequences of unequal length: packed queries and keys (cu_seqlens), paged keys (block_table), lengths on
// the device; each sequence by itself for the reference.
#pragma once

#include "device.hpp"

#include <array>
#include <memory>
#include <string>
#include <vector>

namespace vkattn_test {

enum class Keys { kDense, kPacked, kPaged };

struct SequenceLengths {
    std::uint64_t queries, keys;
    bool operator==(const SequenceLengths &) const = default;
};

struct SequencesCase {
    std::vector<SequenceLengths> lengths;
    bool packs_queries = true; // else all have as many as the first
    Keys keys = Keys::kPacked;
    std::uint64_t query_heads = 4, kv_heads = 2, head_dim = 32, v_head_dim = 32, page = 8;
    vkattn_type key_type = VKATTN_TYPE_F32, value_type = VKATTN_TYPE_F32, query_type = VKATTN_TYPE_F32;
    std::uint32_t mask_flags = VKATTN_MASK_NONE;
    std::int32_t window_left = -1, window_right = -1;
    vkattn_causal_alignment alignment = VKATTN_CAUSAL_TOP_LEFT;
    bool alibi = false;
    bool scales = false;       // of each row of K and V, whose types are floats of 8 bits
    bool blocks = false;       // a block mask of its own for each sequence and head
    bool trees = false;        // a tree mask of its own for each sequence
    bool tells_longest = true; // as max_seqlen_q and max_seqlen_k
    bool functions = false;    // of a variant, which the batch is given after it is made
    bool operator==(const SequencesCase &) const = default;
};

// A sequence by itself; keys [1,H,max(keys,1),D] with their number in key_lengths.
struct Sequence {
    AttentionProblem problem;
    SequenceLengths lengths;
};

// A batch in memory, and what says where its sequences lie. K and V are NaN where no row is copied to.
struct SequencesBatch {
    HostTensor query, key, value, key_scales, value_scales, cu_seqlens_q, cu_seqlens_k, block_table, block_mask,
        tree_mask, key_lengths, slopes;
    HostTensor output, log_sum_exp;
    std::shared_ptr<const vkattn::Variant> variant; // and what it reads
    std::array<HostTensor, VKATTN_CAPTURED_TENSORS> captured;
};

// The reference of each sequence, laid out as the batch's output and log_sum_exp.
struct ExpectedSequences {
    std::vector<double> output, log_sum_exp;
};

std::vector<Sequence> make_sequences(const SequencesCase &c, std::mt19937 &random);
SequencesBatch make_batch(const SequencesCase &c, std::vector<Sequence> &sequences, std::mt19937 &random);
// Places pages outside the pool: some of all sequences, of the second all. The sequences' problems hide their keys by a
// padding mask.
void lose_pages(const SequencesCase &c, std::vector<Sequence> &sequences, SequencesBatch &batch);
ExpectedSequences expect(const SequencesCase &c, const std::vector<Sequence> &sequences, const SequencesBatch &batch);

vkattn_attention_desc describe(const SequencesCase &c, const SequencesBatch &batch, vkattn_kernel kernel);
// Those for unequal lengths, and the one that is chosen.
std::vector<vkattn_kernel> kernels_for(const SequencesCase &c, const SequencesBatch &batch);

// What a run of the batch reads and writes.
std::vector<Region> regions_of(SequencesBatch &batch);

// Returns what is wrong, one line each, "" for nothing.
std::string try_batch(const vkattn::Plan &plan, SequencesBatch &batch, TestDevice &device = test_device());
// The same, and compares the results.
std::string try_batch(const SequencesCase &c, SequencesBatch &batch, const ExpectedSequences &expected,
                      vkattn_kernel kernel, TestDevice &device = test_device());

std::vector<std::uint64_t> shuffled_pages(std::uint64_t count, std::mt19937 &random);
// A row of one contiguous tensor to a row of another of its type.
void copy_row(HostTensor &from, std::uint64_t row, HostTensor &to, std::uint64_t to_row);

} // namespace vkattn_test
