#pragma once

#include "runtime/layers/cache.hpp"
#include "runtime/layers/layer.hpp"
#include "runtime/ops/attention.hpp"
#include "runtime/ops/linear.hpp"
#include "runtime/ops/rope.hpp"
#include "runtime/ops/tokens.hpp"
#include "runtime/problem/attention_tensors.hpp"

namespace vkattn {

// What the layers share: reading a vkattn_layer_call, and views of its tensors, of the workspace and of each other.

// The layer's output [B,L,width].
vkattn_tensor checked_output(const LayerCall &call, uint64_t batch, uint64_t len, uint64_t width);

// The call's residual [B,L,width], or an absent view.
View checked_residual(const LayerCall &call, uint64_t batch, uint64_t len, uint64_t width);

// Fails, naming the first, if any of the pair is given: for layers that have no such tensors.
void require_absent(const vkattn_tensor &first, const vkattn_tensor &second, const char *names, const char *layer);

// Fails where one of a cache's two tensors, past or present, is given without the other.
void require_paired_cache(const LayerCall &call);

// The type of what a layer of these hidden states keeps between its steps: the one that the call asks for, or theirs, where the
// device computes in it (trait half_workspaces), or F32.
vkattn_type workspace_type(const PlanBuilder &builder, const LayerCall &call, const View &hidden);

// The same of hidden states that a layer of several parts keeps between them: theirs, whatever the call asks for.
vkattn_type hidden_type(const PlanBuilder &builder, const View &hidden);

// Tokens for products with these weights, as vkattn::normalise_for gives them; `type`: of the layer's workspaces.
ProductInput normalise_for(PlanBuilder &builder, const View &tokens, const RmsNorm &norm, vkattn_type type,
                           std::span<const View> weights);

// Contiguous.
View workspace_view(PlanBuilder &builder, vkattn_type type, std::initializer_list<uint64_t> shape);

// [B,L,H*D] contiguous tokens, and the same memory as [B,H,L,D].
struct Heads {
    View tokens;
    View heads;
};
Heads workspace_heads(PlanBuilder &builder, vkattn_type type, uint64_t batch, uint64_t len, uint64_t heads,
                      uint64_t head_dim);

// For each number of heads a room [H,B,L,D], seen as [B,H,L,D]: one behind the other, in what each takes alone, for a layer's
// workspace is told without its weights.
std::vector<View> workspace_parts(PlanBuilder &builder, vkattn_type type, uint64_t batch, uint64_t len,
                                  uint64_t head_dim, std::span<const uint64_t> heads);

// [B,L,H*D] seen as [B,H,L,D].
View heads_of(const View &tokens, uint64_t heads);

// Elements first .. first + count - 1 of the last dimension.
View slice(const View &view, uint64_t first, uint64_t count);

// The same tensor seen with other sizes and strides, from `offset` elements further on.
View reshaped(const View &view, std::initializer_list<uint64_t> shape, std::initializer_list<uint64_t> strides,
              uint64_t offset = 0);

// [B,L,N] seen as [B,1,L,N].
View as_one_head(const View &tokens);

// The config's epsilon, or the one that the layer kind has by itself.
inline float norm_epsilon_of(const vkattn_layer_config &config, float own) {
    return config.norm_epsilon.present != 0 ? config.norm_epsilon.value : own;
}

// name.weight, and name.bias if it was given.
void add_projection(PlanBuilder &builder, const Layer &layer, const std::string &name, const ProductInput &input,
                    const View &output, LinearEpilogue epilogue = {});

// name.weight and name.bias, of an input.
struct Projection {
    std::string name;
    ProductInput input;
};

// Projections in as few products as there can be: those of one input whose weights, and biases, lie behind each other are one, as a
// layer has those that it uploads. Returns the heads of each, [B,H,L,D] in the workspace, of all sequences for one head after the
// other, and of one input's projections each behind the one before.
std::vector<View> add_projections(PlanBuilder &builder, const Layer &layer, std::span<const Projection> projections,
                                  vkattn_type type, uint64_t head_dim);

// The same of one input, as tokens [B,L,width] each; those of one product lie side by side in each token.
std::vector<View> add_token_projections(PlanBuilder &builder, const Layer &layer, const ProductInput &input,
                                        std::span<const std::string> names, vkattn_type type);

// The weights of the products of one input.
std::vector<View> projection_weights(const Layer &layer, std::span<const std::string> names);

// Attention of a layer: the call's masks and outputs, and views for the rest. positions place the diagonal; keys of packed
// tokens without a past are packed as they are.
struct CoreAttention {
    View query, key, value, output; // [B,H,L,D] each; value absent: the first elements of key's rows
    View log_sum_exp;               // F32 [B,H,L], of packed tokens [H,total]; absent: not asked for
    View block_table;               // present: key and value lie in pages
    View key_indices;               // [B,1,L,N] I32: lists of keys, present where queries attend those alone
    vkattn_optional_float scale{};  // where the config has none; left out: 1/sqrt(D)
    Positions positions;
    vkattn_kv_head_mapping kv_head_mapping = VKATTN_KV_HEADS_GROUPED;
};
struct DescribedCore {
    vkattn_attention_desc desc;
    AttentionSources sources;
};
DescribedCore described_core(const Layer &layer, const LayerCall &call, const CoreAttention &core);
void add_core_attention(PlanBuilder &builder, const Layer &layer, const LayerCall &call, const CoreAttention &core);

// What of the call decides by positions which keys are visible, and where sequences lie: into a description of attention, or
// of a choice of keys.
template <class Desc>
void set_visible(Desc &desc, AttentionSources &sources, const LayerCall &call, const Positions &positions,
                 const View &block_table) {
    desc.key_lengths = call.key_lengths;
    copy_masks(call, desc);
    if (positions.offset > 0) desc.past_len = positions.offset;
    if (present(positions.past_lengths)) {
        desc.past_lengths = positions.past_lengths.tensor;
        desc.mask_flags |= VKATTN_MASK_KEYS_TO_LAST_QUERY;
    }
    if (present(positions.cu_seqlens)) {
        desc.cu_seqlens_q = positions.cu_seqlens.tensor;
        desc.max_seqlen_q = positions.longest;
    }
    if (present(positions.cu_seqlens) && !present(positions.past_lengths)) {
        desc.cu_seqlens_k = desc.cu_seqlens_q;
        desc.max_seqlen_k = desc.max_seqlen_q;
    }
    desc.block_table = block_table.tensor;
    sources[BINDING_PAST_LENGTHS] = positions.past_lengths.source;
    sources[BINDING_CU_SEQLENS_Q] = sources[BINDING_CU_SEQLENS_K] = positions.cu_seqlens.source;
    sources[BINDING_BLOCK_TABLE] = block_table.source;
}

// A cache of one tensor [B,H,P,D] (or [B,P,N]) and what a call says of it.
struct CacheTensors {
    View past;        // absent: nothing to copy
    View present;     // absent: not asked for
    View block_table; // of a cache object in pages: present is [pages,H,page_len,D]
    bool rotated = false;
    View scales{}; // of its rows, made by appends where makes_scales is true
    bool makes_scales = false;
};

// The tokens of a cache: [heads, width] each; heads 0: a latent cache [B,P,width], seen as one head.
struct CacheTokens {
    uint64_t heads, width, new_len;
};

// Checks a part (KEYS or VALUES) of the call's cache, or of its past_* and present_* tensors. Returns 4-D views.
CacheTensors checked_cache(const LayerCall &call, vkattn_cache_part part, const CacheTokens &tokens,
                           const Positions &positions);

// The sequences of the call's tokens, query [B,L,width] or packed. Fails where cu_seqlens is given and wrong, or beside
// tensors that packed calls have none of.
Positions checked_sequences(const LayerCall &call, const vkattn_tensor &query);

// The same, after the tokens before the call: its cache's lengths, past_len, or the length of past_key (rank 4:
// dimension 2, rank 3: dimension 1), and the positions that the call gives its tokens for the layer's rotary embedding. Fails where they
// disagree, or where past_len is given without any cache.
Positions checked_positions(const Layer &layer, const LayerCall &call, const vkattn_tensor &query);

// Rows of a cache, past and new.
struct CachedRows {
    View all;           // [B,H,P+L,D]; of a cache object, its whole capacity, or all its pages
    MovedRows new_rows; // into it; source absent: they are there
};

// Brings the past rows into the present cache (in the workspace where none is asked for). Without past and present `all` are the
// fresh rows, or where these are to be rotated, other memory. The new rows are normalised and rotated on their way.
// The caller adds the barriers before and after, and then the new rows.
CachedRows add_past_rows(PlanBuilder &builder, const CacheTensors &cache, const View &fresh, const Positions &positions,
                         const Rotation &rotation = {}, const RmsNorm &norm = {}, uint32_t rotated_from = 0);

// Adds the parts that are there.
void add_new_rows(PlanBuilder &builder, std::initializer_list<MovedRows> parts);

// Counts the call's tokens in its cache, if it has one, whose lengths what comes next does not read. The caller adds the barrier
// before.
void add_count(PlanBuilder &builder, const LayerCall &call);

} // namespace vkattn
