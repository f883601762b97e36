#pragma once

#include "runtime/layers/call.hpp"

#include <string>

namespace vkattn {

// DeepSeek's sparse attention (DSA; DeepSeek-V3.2, 2025): small heads score the keys of each query, which attends those of
// the highest scores alone. Specified in vkattn/layers.h at vkattn_layer_config.

bool has_indexer(const vkattn_layer_config &config);

// Fails, naming the member, if the sizes are impossible beside those of the config's latents.
void check_indexer(const vkattn_layer_config &config);

// prefix: what stands before each name.
void add_indexer_weights(std::vector<WeightSpec> &specs, const vkattn_layer_config &config, const std::string &prefix);

// The indexer in one use of a layer. Its steps stand beside those of the layer that need the same before them: the caller
// adds a barrier between one member function and the next.
class Indexer {
  public:
    // Checks the call's part of the cache, VALUES, and that it has nothing that an indexer cannot follow.
    Indexer(PlanBuilder &builder, const Layer &layer, const LayerCall &call, const std::string &prefix,
            const Positions &positions, uint64_t batch, uint64_t len);

    void add_token_projections(const ProductInput &tokens); // [B,L,embed_dim]
    void add_key_norm();
    void add_query_projection(const ProductInput &low_rank); // [B,L,q_lora_rank], normalised
    // What those two multiply with.
    std::vector<View> token_weights() const;
    std::vector<View> query_weights() const;
    void add_past_keys();
    // The new keys and the queries, rotated on their way.
    void add_new_rows();
    View add_choice(); // [B,1,L,index_topk] I32; absent: every query attends all of its keys

  private:
    Rotation rotation() const { return {layer_.rotation().frequencies, config_.index_rope_interleaved != 0}; }
    bool chooses() const { return keys_at_most_ > config_.index_topk; }

    PlanBuilder &builder_;
    const Layer &layer_;
    const LayerCall &call_;
    const vkattn_layer_config &config_;
    std::string prefix_;
    Positions positions_;
    CacheTensors cache_;
    uint64_t keys_at_most_; // of a sequence
    Heads query_tokens_;    // not yet rotated; absent where there is nothing to choose
    View query_;            // [B,H,L,index_head_dim], the same, rotated
    View weights_;          // the same; [B,L,index_n_heads]
    View key_;              // [B,L,index_head_dim] of the new tokens
    CachedRows keys_;       // [B,1,T,index_head_dim] of all, or pages of them
};

} // namespace vkattn
