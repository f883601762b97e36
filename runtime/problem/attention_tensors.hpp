#pragma once

#include "runtime/problem/attention_problem.hpp"

namespace vkattn {

// What the dimensions of a tensor are.
enum class TensorLayout {
    kQueryRows, // [B,Hq,Lq,D]
    kKeyRows,   // [B,Hkv,Lk,D]
    kQueries,   // [B,Hq,Lq]
    kScores,    // [B,Hq,Lq,Lk]
    kMask,      // [B|1,Hq|1,Lq|1,Lm]
    kBlocks,    // [B|1,Hq|1,blocks of queries|1,blocks of keys]
    kKeys,      // [B,Lk]
    kSequences, // [B]
    kHeads,     // [Hq]
    kBounds,    // [B+1]
    kPages,     // [B,N]
    kLists,     // [B,Hkv|1,Lq,N]
    kTrees,     // [B,Lq,ceil(Lq/32)], of packed queries [total,ceil(Lq/32)]
    kScales,    // [B|1,Hkv|1,Lk|1,1]
    kCaptured,  // of any shape
};

// What tuning fills a tensor with: lengths that leave no room, masks that hide nothing.
enum class TrialContents {
    kNumbers,           // random ones
    kResults,           // what a trial is compared by
    kZeros,             // results that are not compared, and what then adds or hides nothing
    kNothingHidden,     // ones of BOOL, partial blocks, else zeros
    kAllBits,           // all own keys are seen
    kAllKeys,           // Lk
    kKeysBeforeQueries, // Lk - Lq
    kBoundsOfQueries,   // of sequences of equal length
    kBoundsOfKeys,
    kPageNumbers,
    kBlocksInTurn, // of keys
    kOnes,
};

// A line of ATTENTION_TENSORS.
struct AttentionTensor {
    uint32_t binding;
    const char *name;
    vkattn_role role;
    uint64_t feature; // a bit; 0: none
    vkattn_tensor vkattn_attention_desc::*given;
    vkattn_tensor AttentionProblem::*member;
    TensorLayout layout;
    vkattn_type type; // VKATTN_TYPE_NONE: one of several
    TrialContents contents;
};

constexpr uint64_t feature_bit(uint32_t bit) { return bit == NO_FEATURE ? 0 : uint64_t{1} << bit; }

inline constexpr AttentionTensor kAttentionTensors[] = {
#define VKATTN_TENSOR(binding, name, NAME, feature, Layout, type, Trial)                                               \
    AttentionTensor{binding,                                                                                           \
                    #name,                                                                                             \
                    VKATTN_ROLE_##NAME,                                                                                \
                    feature_bit(feature),                                                                              \
                    &vkattn_attention_desc::name,                                                                      \
                    &AttentionProblem::name,                                                                           \
                    TensorLayout::k##Layout,                                                                           \
                    VKATTN_TYPE_##type,                                                                                \
                    TrialContents::k##Trial},
    ATTENTION_TENSORS(VKATTN_TENSOR)
#undef VKATTN_TENSOR
};

// Copies the tensors of a description that attention's has as well.
template <class From>
void copy_tensors(const From &from, vkattn_attention_desc &to) {
#define VKATTN_COPY(binding, name, NAME, feature, Layout, type, Trial)                                                 \
    if constexpr (requires { from.name; }) to.name = from.name;
    ATTENTION_TENSORS(VKATTN_COPY)
#undef VKATTN_COPY
}

// Copies what two descriptions, or a layer's call, have of the masks without a tensor.
template <class From, class To>
void copy_masks(const From &from, To &to) {
    to.mask_flags = from.mask_flags;
    to.causal_alignment = from.causal_alignment;
#define VKATTN_COPY(name, NAME, feature, Range, place)                                                                 \
    if constexpr (requires { from.name, to.name; }) to.name = from.name;
    ATTENTION_NUMBERS(VKATTN_COPY)
#undef VKATTN_COPY
}

constexpr bool is_of(const AttentionTensor &tensor, std::initializer_list<TensorLayout> layouts) {
    for (const TensorLayout layout : layouts)
        if (tensor.layout == layout) return true;
    return false;
}

} // namespace vkattn
