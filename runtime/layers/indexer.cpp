#include "runtime/layers/indexer.hpp"

#include "runtime/emit/rows.hpp"
#include "runtime/ops/index.hpp"
#include "runtime/ops/norm.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/support/error.hpp"
#include "shaders/interface/select.h"

namespace vkattn {
namespace {

constexpr float kEpsilon = 1e-6f;
constexpr uint32_t kLargestHeadDim = 576; // of attention

void require_followed(const LayerCall &call) {
    const std::pair<const vkattn_tensor *, const char *> others[] = {{&call.attn_mask, "attn_mask"},
                                                                     {&call.block_mask, "block_mask"},
                                                                     {&call.key_padding_mask, "key_padding_mask"},
                                                                     {&call.tree_mask, "tree_mask"},
                                                                     {&call.attn_weights, "attn_weights"}};
    for (const auto &[tensor, name] : others)
        require(!present(*tensor), name, ": given, expected none for a layer with an indexer");
}

} // namespace

bool has_indexer(const vkattn_layer_config &config) {
    return config.index_topk != 0 || config.index_n_heads != 0 || config.index_head_dim != 0;
}

void check_indexer(const vkattn_layer_config &config) {
    if (!has_indexer(config)) return;
    require(config.q_lora_rank != 0,
            "q_lora_rank: 0, expected at least 1 with an indexer, whose queries are made of it");
    check_size("index_n_heads", config.index_n_heads);
    require(config.index_head_dim >= config.qk_rope_head_dim && config.index_head_dim <= kLargestHeadDim,
            "index_head_dim: ", config.index_head_dim, ", expected ", config.qk_rope_head_dim,
            ", the qk_rope_head_dim, to ", kLargestHeadDim);
    require(config.index_topk >= 1 && config.index_topk <= SELECT_MOST, "index_topk: ", config.index_topk,
            ", expected 1 to ", SELECT_MOST);
}

void add_indexer_weights(std::vector<WeightSpec> &specs, const vkattn_layer_config &config, const std::string &prefix) {
    if (!has_indexer(config)) return;
    const uint64_t heads = config.index_n_heads, size = config.index_head_dim;
    add_linear_specs(specs, prefix + "indexer.wq_b", heads * size, config.q_lora_rank);
    add_linear_specs(specs, prefix + "indexer.wk", size, config.embed_dim);
    add_linear_specs(specs, prefix + "indexer.weights_proj", heads, config.embed_dim);
    specs.push_back({prefix + "indexer.k_norm.weight", {size}});
    specs.push_back({prefix + "indexer.k_norm.bias", {size}, true});
}

Indexer::Indexer(PlanBuilder &builder, const Layer &layer, const LayerCall &call, const std::string &prefix,
                 const Positions &positions, uint64_t batch, uint64_t len)
    : builder_(builder), layer_(layer), call_(call), config_(layer.config()), prefix_(prefix + "indexer."),
      positions_(positions) {
    require_followed(call);
    require_paired_cache(call);
    const uint64_t size = config_.index_head_dim;
    cache_ = checked_cache(call, VKATTN_CACHE_VALUES, {0, size, len}, positions);
    keys_at_most_ = call.object != nullptr ? call.object->sizes().capacity : positions.offset + positions.longest;
    key_ = workspace_view(builder, VKATTN_TYPE_F32, {batch, len, size});
    if (!chooses()) return;
    query_tokens_ = workspace_heads(builder, VKATTN_TYPE_F32, batch, len, config_.index_n_heads, size);
    query_ = workspace_heads(builder, VKATTN_TYPE_F32, batch, len, config_.index_n_heads, size).heads;
    weights_ = workspace_view(builder, VKATTN_TYPE_F32, {batch, len, config_.index_n_heads});
}

std::vector<View> Indexer::token_weights() const {
    std::vector<View> weights{layer_.weight(prefix_ + "wk.weight")};
    if (chooses()) weights.push_back(layer_.weight(prefix_ + "weights_proj.weight"));
    return weights;
}

std::vector<View> Indexer::query_weights() const {
    if (!chooses()) return {};
    return {layer_.weight(prefix_ + "wq_b.weight")};
}

void Indexer::add_token_projections(const ProductInput &tokens) {
    add_projection(builder_, layer_, prefix_ + "wk", tokens, key_);
    if (chooses()) add_projection(builder_, layer_, prefix_ + "weights_proj", tokens, weights_);
}

void Indexer::add_key_norm() {
    add_norm(builder_, Norm::kLayer, kEpsilon,
             {.input = key_,
              .weight = layer_.weight(prefix_ + "k_norm.weight"),
              .bias = layer_.weight(prefix_ + "k_norm.bias"),
              .output = key_});
}

void Indexer::add_query_projection(const ProductInput &low_rank) {
    if (chooses()) add_projection(builder_, layer_, prefix_ + "wq_b", low_rank, query_tokens_.tokens);
}

void Indexer::add_past_keys() { keys_ = add_past_rows(builder_, cache_, as_one_head(key_), positions_, rotation()); }

void Indexer::add_new_rows() {
    MovedRows queries;
    if (chooses()) queries = rotated_rows(query_tokens_.heads, query_, rotation(), positions_);
    if (cache_.rotated) queries.hadamard = hadamard_block(config_.index_head_dim); // as the keys
    vkattn::add_new_rows(builder_, {queries, keys_.new_rows});
}

View Indexer::add_choice() {
    const vkattn_tensor &query = query_.tensor;
    if (!chooses() || is_empty(query) || positions_.sequences == 0) return {};
    View lists{contiguous(VKATTN_TYPE_I32, {query.shape[0], 1, query.shape[2], config_.index_topk}), {}};
    lists.source = builder_.reserve_workspace(extent_bytes(lists.tensor));
    vkattn_index_desc desc{};
    IndexSources sources{attention_roles(), weights_.source, lists.source};
    set_visible(desc, sources.attention, call_, positions_, cache_.block_table);
    desc.query = query;
    desc.key = keys_.all.tensor;
    desc.weights = weights_.tensor;
    desc.indices = lists.tensor;
    desc.key_scales = cache_.scales.tensor;
    sources.attention[BINDING_QUERY] = query_.source;
    sources.attention[BINDING_KEY] = keys_.all.source;
    sources.attention[BINDING_KEY_SCALES] = cache_.scales.source;
    add_index(builder_, desc, sources);
    return lists;
}

} // namespace vkattn
