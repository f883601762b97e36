// Attention and the layers in float64, one plain loop after another. The tensors hold values already rounded to their
// storage type, so the only error left in a comparison is the device's.
#pragma once

#include "host_tensor.hpp"

#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>

namespace vkattn_test {

// The inputs of vkattn_attention_desc, with the tensors' contents.
struct AttentionProblem {
    HostTensor query;
    HostTensor key;
    HostTensor value;
    bool value_in_key = false; // the library is not given value, which repeats the first elements of key's rows
    HostTensor attn_mask;
    HostTensor block_mask; // [B|1,Hq|1,Q|1,K]
    std::uint32_t block_q_len = 0, block_kv_len = 0;
    HostTensor key_indices; // [B,Hkv|1,Lq,N]
    std::uint32_t key_block_len = 1;
    bool keys_rotated = false, values_rotated = false; // V in K is rotated as K is
    HostTensor key_scales, value_scales;               // [B|1,Hkv|1,Lk|1,1]; V in K has those of K
    HostTensor tree_mask;                              // [B,Lq,ceil(Lq/32)]
    HostTensor key_padding_mask;
    HostTensor key_lengths;
    HostTensor past_lengths;
    HostTensor alibi_slopes;
    HostTensor sinks;
    vkattn_score_stage score_stage = VKATTN_SCORES_SCALED;
    vkattn_optional_float scale;
    float softcap = 0.0f;
    float dropout_p = 0.0f;
    std::uint64_t dropout_seed = 0;
    std::uint32_t mask_flags = VKATTN_MASK_NONE;
    vkattn_causal_alignment causal_alignment = VKATTN_CAUSAL_TOP_LEFT;
    std::int32_t window_left = -1;
    std::int32_t window_right = -1;
    vkattn_optional_uint past_len;
    vkattn_kv_head_mapping kv_head_mapping = VKATTN_KV_HEADS_GROUPED;
    vkattn_type query_rounding = VKATTN_TYPE_NONE; // that is allowed, where query is F32: the reference does none

    std::uint32_t region_alignment = 0; // bytes; 0: 16

    // A variant, and what its functions compute; empty: none. query and key are positions, query with its past.
    std::shared_ptr<const vkattn::Variant> variant;
    std::array<HostTensor, VKATTN_CAPTURED_TENSORS> captured;
    std::array<float, VKATTN_CAPTURED_NUMBERS> captured_numbers{};
    std::function<double(double score, int batch, int head, int query, int key)> score_mod;
    std::function<bool(int batch, int head, int query, int key)> mask_mod;
    std::function<double(double lse, int batch, int head, int query)> lse_mod;
    std::function<double(double value, int batch, int head, int query, int element)> output_mod;
};

struct AttentionSizes {
    std::size_t batch, query_heads, kv_heads, q_len, kv_len, head_dim, v_head_dim;
};

AttentionSizes sizes_of(const AttentionProblem &problem);

// Every result in row-major order of its documented shape. scores is taken at the problem's score_stage.
struct AttentionReference {
    std::vector<double> output;
    std::vector<double> log_sum_exp;
    std::vector<double> attn_weights;
    std::vector<double> scores;
    double largest_score = 0.0; // of the finite ones, in magnitude
};

AttentionReference reference_attention(const AttentionProblem &problem);

// The gradients of sum(output * d_output), in row-major order of what they are gradients of, and of each how large its terms are in the
// root mean square before they cancel: rounding is relative to that.
struct Gradient {
    std::vector<double> values;
    double terms = 0.0;
};
struct AttentionGradients {
    Gradient query, key, value, attn_mask, sinks; // the last two empty where the problem has none, or a boolean mask
};

// d_output [B,Hq,Lq,Dv], row-major.
AttentionGradients reference_gradients(const AttentionProblem &problem, std::span<const double> d_output);

// The largest power of two that divides a row's length.
std::size_t hadamard_block(std::size_t row_len);

// Rows multiplied by the orthonormal Walsh-Hadamard matrix, in blocks; twice gives the rows again.
std::vector<double> hadamard_rotated(const std::vector<double> &rows, std::size_t block);

// A layer of any kind: a call of vkattn_layer_plan with contents.
struct LayerProblem {
    vkattn_layer_config config{};
    std::map<std::string, HostTensor> weights;
    HostTensor query;
    HostTensor key; // absent: self attention
    HostTensor value;
    HostTensor past_key;
    HostTensor past_value;
    HostTensor attn_mask;
    HostTensor block_mask; // [B|1,Hq|1,Q|1,K]
    std::uint32_t block_q_len = 0, block_kv_len = 0;
    HostTensor tree_mask; // [B,Lq,ceil(Lq/32)]
    HostTensor key_padding_mask;
    HostTensor key_lengths;
    std::uint32_t mask_flags = VKATTN_MASK_NONE;
    vkattn_causal_alignment causal_alignment = VKATTN_CAUSAL_TOP_LEFT;
    std::int32_t window_left = -1;
    std::int32_t window_right = -1;
    HostTensor positions;   // [S,B,L]
    HostTensor norm_weight; // of self attention of MHA and MLA: RMSNorm of query; absent: none
    HostTensor cu_seqlens;  // of packed tokens, which the reference does not know
};

// Tokens of the past, 0 without one.
std::uint64_t past_len(const LayerProblem &problem);

struct LayerReference { // empty where the kind of layer has none
    std::vector<double> output;
    std::vector<double> present_key;
    std::vector<double> present_value;
    std::vector<double> attn_weights;
    double nearest_choice =
        HUGE_VAL; // of an indexer: the least by which a key that it took scored above one that it left
};

LayerReference reference_layer(const LayerProblem &problem);

} // namespace vkattn_test
