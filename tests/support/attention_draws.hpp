// Problems of the operator attention, drawn at random over what it takes.
#pragma once

#include "random_draws.hpp"
#include "reference.hpp"

#include <string>

namespace vkattn_test {

enum class DrawnMask { kNone, kBool, kF32, kF16 };

// A problem in numbers, from which its tensors are made; small ones make small problems.
struct AttentionDraw {
    unsigned seed = 0; // of the contents
    std::uint64_t batch = 1, kv_heads = 1, group = 1, q_len = 1, kv_len = 1, head_dim = 1, v_head_dim = 1;
    vkattn_type query = VKATTN_TYPE_F32, key = VKATTN_TYPE_F32, value = VKATTN_TYPE_F32, output = VKATTN_TYPE_F32;
    bool value_in_key = false;
    bool positions_first = false; // [B,L,H,D] in memory
    bool causal = false, bottom_right = false, key_lengths = false, key_padding = false, alibi = false, sinks = false;
    bool modulo_heads = false, past_lengths = false;
    bool window = false;
    int window_left = -1, window_right = -1;
    DrawnMask mask = DrawnMask::kNone;
    std::uint64_t block_q_len = 0, block_kv_len = 0;               // of a block mask; 0: none
    unsigned mask_broadcast = 0;                                   // bits: batch, heads, queries
    std::uint64_t mask_short = 0;                                  // keys that the mask leaves out
    std::uint64_t list_len = 0, list_heads = 1, key_block_len = 1; // of lists of keys; 0: none
    std::uint32_t past_len = 0;
    float softcap = 0.0f, scale = 0.0f, dropout_p = 0.0f;
    vkattn_score_stage stage = VKATTN_SCORES_SCALED;
    bool functions = false; // of a variant; problem_of leaves them out
    bool keys_rotated = false, values_rotated = false;
    unsigned key_scales = 0, value_scales = 0; // 0: none, else bits + 1: a scale for each batch entry, head, row
    bool trees = false;
    bool operator==(const AttentionDraw &) const = default;
};

// Lists of random blocks of keys [batch,heads,q_len,N]: some twice, some of no keys, some hostile.
HostTensor random_key_lists(Shape shape, std::uint64_t blocks, std::mt19937 &random);

// Positive scales of rows [B,H,L,D], [B|1,H|1,L|1,1] by the bits that say which dimensions do not share one.
HostTensor random_scales(const Shape &rows, unsigned bits, std::mt19937 &random);

// What the number is drawn to.
AttentionDraw draw_attention(unsigned seed);
AttentionProblem problem_of(const AttentionDraw &d);
std::string text(const AttentionDraw &d);

} // namespace vkattn_test
