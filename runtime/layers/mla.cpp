#include "runtime/layers/mla.hpp"

#include "runtime/layers/indexer.hpp"
#include "runtime/layers/mla_backward.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/support/error.hpp"

#include <cmath>
#include <optional>

namespace vkattn {
namespace {

// [q_nope | q_pe] of every head and [c | k_pe] of the new tokens, not yet rotated; beside them the indexer's, if there is one.
struct Projected {
    View query;   // [B,H,L,nope + rope]
    View latent;  // [B,L,rank + rope]
    RmsNorm norm; // of c, on its way
};

// Weights and those of the indexer, if there is one.
std::vector<View> with_those_of(std::vector<View> weights, const std::vector<View> &of_indexer) {
    weights.insert(weights.end(), of_indexer.begin(), of_indexer.end());
    return weights;
}

Projected project_tokens(const Mla &mla, const View &given, const RmsNorm &norm, Indexer *indexer) {
    PlanBuilder &builder = mla.builder;
    const bool direct = mla.config().q_lora_rank == 0;
    const std::string names[] = {mla.prefix + (direct ? "wq" : "wq_a"), mla.prefix + "wkv_a"};
    const ProductInput tokens =
        normalise_for(builder, given, norm, mla.type,
                      with_those_of(projection_weights(mla.layer, names),
                                    indexer != nullptr ? indexer->token_weights() : std::vector<View>{}));
    const std::vector<View> projected = add_token_projections(builder, mla.layer, tokens, names, mla.type);
    if (indexer != nullptr) indexer->add_token_projections(tokens);
    builder.barrier();
    View query = projected[0];
    const View &latent = projected[1];
    if (!direct) {
        if (indexer != nullptr) indexer->add_key_norm();
        const ProductInput low_rank = normalise_for(
            builder, projected[0], {mla.weight("q_norm.weight"), norm_epsilon_of(mla.config(), kMlaEpsilon)}, mla.type,
            with_those_of({mla.weight("wq_b.weight")},
                          indexer != nullptr ? indexer->query_weights() : std::vector<View>{}));
        query = workspace_heads(builder, mla.type, mla.batch, mla.len, mla.heads(), mla.nope() + mla.rope()).tokens;
        add_projection(builder, mla.layer, mla.prefix + "wq_b", low_rank, query);
        if (indexer != nullptr) indexer->add_query_projection(low_rank);
    }
    return {heads_of(query, mla.heads()),
            latent,
            {mla.weight("kv_norm.weight"), norm_epsilon_of(mla.config(), kMlaEpsilon)}};
}

// Queries on their way into the core attention, and the core attention without its keys.
struct Query {
    View query; // of the core attention
    MovedRows rows;
};

// The naive form attends all of them, rotated; the absorbed one folds the part that is not rotated.
Query query_of(const Mla &mla, const View &projected, bool absorb) {
    const uint64_t width = absorb ? mla.rank() + mla.rope() : mla.nope() + mla.rope();
    const View query = workspace_view(mla.builder, mla.type, {mla.batch, mla.heads(), mla.len, width});
    const Rotation rotation = mla.layer.rotation();
    if (!absorb)
        return {query, rotated_rows(projected, query, rotation, mla.positions, static_cast<uint32_t>(mla.nope()))};
    return {query, rotated_rows(slice(projected, mla.nope(), mla.rope()), slice(query, mla.rank(), mla.rope()),
                                rotation, mla.positions)};
}

// The part of wkv_b that makes K (first 0) or V (first nope) of each head: [H,count,rank], and its bias [H,count].
View head_matrices(const Mla &mla, uint64_t first, uint64_t count) {
    const uint64_t rows = mla.nope() + mla.values();
    return reshaped(mla.weight("wkv_b.weight"), {mla.heads(), count, mla.rank()}, {rows * mla.rank(), mla.rank(), 1},
                    first * mla.rank());
}

View head_biases(const Mla &mla, uint64_t first, uint64_t count) {
    const View bias = mla.weight("wkv_b.bias");
    if (!present(bias)) return {};
    return reshaped(bias, {mla.heads(), count}, {mla.nope() + mla.values(), 1}, first);
}

// K and V of every head are expanded from the latents [B,1,T,rank + rope], or from those of every page.
void add_naive(const Mla &mla, const View &query, const View &latents, const View &output) {
    PlanBuilder &builder = mla.builder;
    const uint64_t total = latents.tensor.shape[2];
    CoreAttention core = mla_core(mla);
    core.query = query;
    const uint64_t entries = latents.tensor.shape[0]; // of the batch, or pages
    core.key = workspace_view(builder, mla.type, {entries, mla.heads(), total, mla.nope() + mla.rope()});
    core.value = workspace_view(builder, mla.type, {entries, mla.heads(), total, mla.values()});
    core.output = output;
    add_mla_expansion(mla, slice(latents, 0, mla.rank()), core.key, core.value);
    add_rows(builder, {.source = for_every_mla_head(mla, slice(latents, mla.rank(), mla.rope())),
                       .target = slice(core.key, mla.nope(), mla.rope())});
    builder.barrier();
    add_core_attention(builder, mla.layer, mla.call, core);
}

// The part of each query that is not rotated, folded by W_UK into the latent space.
void fold_query(const Mla &mla, const View &projected, const View &query) {
    View fold = head_matrices(mla, 0, mla.nope());
    std::swap(fold.tensor.shape[1], fold.tensor.shape[2]);
    std::swap(fold.tensor.strides[1], fold.tensor.strides[2]);
    add_latent_up_projection(mla.builder, slice(projected, 0, mla.nope()), fold, {}, slice(query, 0, mla.rank()));
}

// Attention in the latent space, whose result is lifted by W_UV.
void add_absorb(const Mla &mla, const View &query, const View &latents, const View &output) {
    PlanBuilder &builder = mla.builder;
    CoreAttention core = mla_core(mla);
    core.query = query;
    core.key = latents;
    core.output = workspace_view(builder, mla.type, {mla.batch, mla.heads(), mla.len, mla.rank()});
    add_core_attention(builder, mla.layer, mla.call, core);
    builder.barrier();
    add_latent_up_projection(builder, core.output, head_matrices(mla, mla.nope(), mla.values()),
                             head_biases(mla, mla.nope(), mla.values()), output);
}

// Whether both forms give the same: b_K leaves the softmax only if nothing bends the scores before, and b_V is added to
// every row, even to one that sees no key and has nothing to add it to.
bool may_absorb(const Mla &mla) {
    if (!present(mla.weight("wkv_b.bias"))) return true;
    const LayerCall &call = mla.call;
    const bool may_hide_all = present(call.attn_mask) || present(call.block_mask) || present(call.key_padding_mask) ||
                              present(call.key_lengths) || present(call.tree_mask);
    return mla.config().softcap == 0 && !may_hide_all;
}

} // namespace

View for_every_mla_head(const Mla &mla, const View &one_head) {
    View view = one_head;
    view.tensor.shape[1] = mla.heads();
    view.tensor.strides[1] = 0;
    return view;
}

void add_mla_expansion(const Mla &mla, const View &latents, const View &keys, const View &values) {
    const View content = for_every_mla_head(mla, latents);
    add_latent_up_projection(mla.builder, content, head_matrices(mla, 0, mla.nope()), head_biases(mla, 0, mla.nope()),
                             slice(keys, 0, mla.nope()));
    mla.builder.barrier(); // parts of a key interleave: disjoint elements, but overlapping ranges of one buffer
    add_latent_up_projection(mla.builder, content, head_matrices(mla, mla.nope(), mla.values()),
                             head_biases(mla, mla.nope(), mla.values()), values);
}

CoreAttention mla_core(const Mla &mla) {
    CoreAttention core;
    core.scale = 1.0f / std::sqrt(static_cast<float>(mla.nope() + mla.rope()));
    core.positions = mla.positions;
    core.block_table = mla.block_table;
    core.key_indices = mla.key_indices;
    return core;
}

vkattn_layer_config checked_mla_config(const vkattn_layer_config &config) {
    check_size("embed_dim", config.embed_dim);
    check_size("num_heads", config.num_heads);
    check_size("qk_nope_head_dim", config.qk_nope_head_dim);
    require(config.qk_rope_head_dim >= 2 && config.qk_rope_head_dim % 2 == 0,
            "qk_rope_head_dim: ", config.qk_rope_head_dim, ", expected an even number of at least 2");
    check_size("qk_rope_head_dim", config.qk_rope_head_dim);
    check_size("v_head_dim", config.v_head_dim);
    check_size("kv_lora_rank", config.kv_lora_rank);
    check_size("q_lora_rank", config.q_lora_rank, 0);
    require(config.mla_form == VKATTN_MLA_NAIVE || config.mla_form == VKATTN_MLA_ABSORB,
            "mla_form: ", static_cast<int>(config.mla_form), ", expected a vkattn_mla_form");
    check_indexer(config);
    return config;
}

void add_mla_weights(std::vector<WeightSpec> &specs, const vkattn_layer_config &config, const std::string &prefix) {
    const uint64_t heads = config.num_heads, nope = config.qk_nope_head_dim, rope = config.qk_rope_head_dim;
    const uint64_t values = config.v_head_dim, rank = config.kv_lora_rank;
    if (config.q_lora_rank == 0) {
        add_linear_specs(specs, prefix + "wq", heads * (nope + rope), config.embed_dim);
    } else {
        add_linear_specs(specs, prefix + "wq_a", config.q_lora_rank, config.embed_dim);
    }
    add_linear_specs(specs, prefix + "wkv_a", rank + rope, config.embed_dim); // behind what has the same input
    if (config.q_lora_rank != 0) {
        specs.push_back({prefix + "q_norm.weight", {config.q_lora_rank}});
        add_linear_specs(specs, prefix + "wq_b", heads * (nope + rope), config.q_lora_rank);
    }
    specs.push_back({prefix + "kv_norm.weight", {rank}});
    // Absorbed, its key rows multiply the new queries and its value rows the new outputs: one use for a token.
    const bool absorb = config.mla_form == VKATTN_MLA_ABSORB;
    add_linear_specs(
        specs, prefix + "wkv_b", heads * (nope + values), rank,
        {.rows = absorb ? MultipliedRows::kNewTokens : MultipliedRows::kEveryKey, .times = 1, .by_columns = absorb});
    add_linear_specs(specs, prefix + "wo", config.embed_dim, heads * values);
    add_indexer_weights(specs, config, prefix);
}

AttentionSizes mla_attention(const vkattn_layer_config &config) {
    const bool absorb = config.mla_form == VKATTN_MLA_ABSORB;
    const uint64_t content = absorb ? config.kv_lora_rank : config.qk_nope_head_dim;
    AttentionSizes sizes{.query_heads = config.num_heads,
                         .head_dim = content + config.qk_rope_head_dim,
                         .v_head_dim = absorb ? config.kv_lora_rank : config.v_head_dim};
    if (has_indexer(config)) {
        sizes.listed_keys = config.index_topk;
        sizes.index_heads = config.index_n_heads;
        sizes.index_head_dim = config.index_head_dim;
    }
    return sizes;
}

void add_mla(PlanBuilder &builder, const Layer &layer, const LayerCall &call, const std::string &prefix,
             const View &tokens, const RmsNorm &norm, const View &output, const View &residual) {
    require_absent(call.key, call.value, "key, value", "mla");
    const bool sparse = has_indexer(layer.config());
    if (!sparse) require_absent(call.past_value, call.present_value, "past_value, present_value", "mla");
    const uint64_t batch = tokens.tensor.shape[0], len = tokens.tensor.shape[1];
    Mla mla{builder,
            layer,
            call,
            prefix,
            batch,
            len,
            workspace_type(builder, call, tokens),
            checked_positions(layer, call, tokens.tensor),
            {},
            {}};
    const CacheTensors cache = checked_cache(call, VKATTN_CACHE_KEYS, {0, mla.rank() + mla.rope(), len}, mla.positions);
    require(
        sparse || call.object == nullptr || call.object->sizes().value_width == 0,
        "cache: of a layer with an indexer, whose keys this layer would leave unwritten, expected one without values");
    mla.block_table = cache.block_table;
    std::optional<Indexer> indexer;
    if (sparse) indexer.emplace(builder, layer, call, prefix, mla.positions, batch, len);
    const bool absorb = layer.config().mla_form == VKATTN_MLA_ABSORB && may_absorb(mla);
    constexpr const char *kExpected =
        ", expected none in the naive form, which expands them, and which wkv_b.bias beside "
        "a softcap or masks makes of the absorbed one";
    require(absorb || !cache.rotated, "cache: of rotated keys", kExpected);
    require(absorb || !present(cache.scales), "cache: with scales beside its keys", kExpected);
    const Projected projected = project_tokens(mla, tokens, norm, indexer ? &*indexer : nullptr);
    builder.barrier();
    const Query query = query_of(mla, projected.query, absorb);
    const CachedRows latents = add_past_rows(builder, cache, as_one_head(projected.latent), mla.positions,
                                             layer.rotation(), projected.norm, static_cast<uint32_t>(mla.rank()));
    if (indexer) indexer->add_past_keys();
    builder.barrier();
    add_new_rows(builder, {query.rows, latents.new_rows});
    if (indexer) indexer->add_new_rows();
    builder.barrier(); // the slices of a query interleave: disjoint elements, but overlapping ranges of one buffer
    if (absorb) fold_query(mla, projected.query, query.query);
    if (absorb) builder.barrier();
    if (indexer) mla.key_indices = indexer->add_choice();
    if (present(mla.key_indices)) builder.barrier();
    const Heads attended = workspace_heads(builder, mla.type, batch, len, mla.heads(), mla.values());
    (absorb ? add_absorb : add_naive)(mla, query.query, latents.all, attended.heads);
    builder.barrier();
    add_count(builder, call);
    LinearEpilogue epilogue;
    epilogue.residual = residual;
    add_projection(builder, layer, prefix + "wo", attended.tokens, output, epilogue);
}

void plan_mla(PlanBuilder &builder, const Layer &layer, const LayerCall &call) {
    const uint64_t width = layer.config().embed_dim;
    const View tokens = role_view(checked_tokens(call.query, "query", kAnySize, kAnySize, width), VKATTN_ROLE_QUERY);
    const uint64_t batch = tokens.tensor.shape[0], len = tokens.tensor.shape[1];
    const View output = role_view(checked_output(call, batch, len, width), VKATTN_ROLE_OUTPUT);
    const RmsNorm norm = checked_input_norm(call.norm_weight, call.norm_epsilon, width);
    const View residual = checked_residual(call, batch, len, width);
    if (present(call.activations)) return add_mla_saving(builder, layer, call, tokens, norm, output, residual);
    add_mla(builder, layer, call, "", tokens, norm, output, residual);
}

} // namespace vkattn
