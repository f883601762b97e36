#include "runtime/layers/mla_backward.hpp"

#include "runtime/ops/token_sums.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/support/error.hpp"

#include <vector>

namespace vkattn {
namespace {

Mla mla_of(PlanBuilder &builder, const Layer &layer, const LayerCall &call, const View &tokens) {
    require_absent(call.key, call.value, "key, value", "mla");
    return {builder,
            layer,
            call,
            "",
            tokens.tensor.shape[0],
            tokens.tensor.shape[1],
            workspace_type(builder, call, tokens),
            checked_positions(layer, call, tokens.tensor),
            {},
            {}};
}

bool has_low_rank(const Mla &mla) { return mla.config().q_lora_rank != 0; }

uint64_t row_of(const Mla &mla) { return mla.nope() + mla.rope(); } // of queries and keys

RmsNorm norm_of(const Mla &mla, const char *name) {
    return {mla.weight(name), norm_epsilon_of(mla.config(), kMlaEpsilon)};
}

// What the backward pass reads of the forward pass.
struct MlaActivations {
    View low_rank, latent;  // tokens [B,L,q_lora_rank], absent without it, and [B,L,rank + rope], before their norms
    View query, key, value; // [B,H,L,nope + rope] and [B,H,L,v], as attention reads them
    View attended, log_sum_exp; // tokens [B,L,H*v], and as attention writes it
};

MlaActivations reserve(const Mla &mla, ActivationRooms &rooms) {
    const uint64_t batch = mla.batch, len = mla.len, heads = mla.heads(), row = row_of(mla), values = mla.values();
    MlaActivations made;
    if (has_low_rank(mla)) made.low_rank = rooms.room(mla.type, {batch, len, mla.config().q_lora_rank});
    made.latent = rooms.room(mla.type, {batch, len, mla.rank() + mla.rope()});
    made.query = by_heads(rooms.room(mla.type, {heads, batch, len, row}));
    made.key = by_heads(rooms.room(mla.type, {heads, batch, len, row}));
    made.value = by_heads(rooms.room(mla.type, {heads, batch, len, values}));
    made.attended = rooms.room(mla.type, {batch, len, heads * values});
    made.log_sum_exp = rooms.log_sum_exp(mla.call, batch, heads, len);
    return made;
}

CoreAttention core_of(const Mla &mla, const MlaActivations &made) {
    CoreAttention core = mla_core(mla);
    core.query = made.query;
    core.key = made.key;
    core.value = made.value;
    core.output = heads_of(made.attended, mla.heads());
    core.log_sum_exp = made.log_sum_exp;
    return core;
}

// Low rank queries and latents, normalised.
struct NormedLatents {
    View low_rank, content; // [B,L,q_lora_rank], absent without it, and [B,L,rank]
};

NormedLatents add_norms(const Mla &mla, const MlaActivations &made) {
    NormedLatents normed;
    if (has_low_rank(mla))
        normed.low_rank = add_normalised(mla.builder, made.low_rank, norm_of(mla, "q_norm.weight"), mla.type);
    normed.content =
        add_normalised(mla.builder, slice(made.latent, 0, mla.rank()), norm_of(mla, "kv_norm.weight"), mla.type);
    return normed;
}

// Queries, keys and values of every head from what was projected, and what they attend. projected: queries [B,L,H*(nope + rope)]
void add_attended(const Mla &mla, const MlaActivations &made, const NormedLatents &normed, const View &projected) {
    PlanBuilder &builder = mla.builder;
    if (has_low_rank(mla)) add_projection(builder, mla.layer, "wq_b", normed.low_rank, projected);
    add_mla_expansion(mla, as_one_head(normed.content), made.key, made.value);
    const Rotation rotation = mla.layer.rotation();
    const View turned = as_one_head(slice(made.latent, mla.rank(), mla.rope()));
    add_rows(builder, rotated_rows(for_every_mla_head(mla, turned), slice(made.key, mla.nope(), mla.rope()), rotation,
                                   mla.positions));
    add_rows(builder, rotated_rows(heads_of(projected, mla.heads()), made.query, rotation, mla.positions,
                                   static_cast<uint32_t>(mla.nope())));
    builder.barrier();
    add_core_attention(builder, mla.layer, mla.call, core_of(mla, made));
    builder.barrier();
}

// The forward pass up to what wo takes. tokens: as projections take them.
NormedLatents add_forward(const Mla &mla, const MlaActivations &made, const View &tokens) {
    PlanBuilder &builder = mla.builder;
    add_zeros_of_packed(builder, mla.call, made.attended);
    const View projected = workspace_view(builder, mla.type, {mla.batch, mla.len, mla.heads() * row_of(mla)});
    if (has_low_rank(mla))
        add_projection(builder, mla.layer, "wq_a", tokens, made.low_rank);
    else
        add_projection(builder, mla.layer, "wq", tokens, projected);
    add_projection(builder, mla.layer, "wkv_a", tokens, made.latent);
    builder.barrier();
    const NormedLatents normed = add_norms(mla, made);
    add_attended(mla, made, normed, projected);
    return normed;
}

// Gradients on their way from attention to projections.
struct MlaGradients {
    View query;         // [B,H,L,nope + rope], by attention
    View key_room, key; // [H,B,L,nope + rope], by attention, and the same seen by heads
    View expanded;      // tokens [B,L,H*(nope + v)], of what wkv_b gives, values by attention
    View of_query;      // tokens [B,L,H*(nope + rope)], of what wq or wq_b gives
    View of_latent;     // tokens [B,L,rank + rope], of what wkv_a gives
};

// The part of each head in the expanded tokens, [B,H,L,count].
View part_of_heads(const Mla &mla, const View &expanded, uint64_t first, uint64_t count) {
    return slice(heads_of(expanded, mla.heads()), first, count);
}

MlaGradients reserve_gradients(const LayerBackward &backward, const Mla &mla, bool of_query, bool of_latent) {
    const uint64_t batch = mla.batch, len = mla.len, heads = mla.heads(), row = row_of(mla);
    MlaGradients gradients;
    if (of_query) {
        gradients.query = by_heads(backward.room(mla.type, {heads, batch, len, row}));
        gradients.of_query = backward.room(mla.type, {batch, len, heads * row});
    }
    if (of_latent) {
        gradients.key_room = backward.room(mla.type, {heads, batch, len, row});
        gradients.key = by_heads(gradients.key_room);
        gradients.expanded = backward.room(mla.type, {batch, len, heads * (mla.nope() + mla.values())});
        gradients.of_latent = backward.room(mla.type, {batch, len, mla.rank() + mla.rope()});
    }
    return gradients;
}

// The one key of a token that is turned has the sum of its gradients over the heads.
void add_turned_keys(const Mla &mla, const MlaGradients &gradients, const Rotation &inverse) {
    PlanBuilder &builder = mla.builder;
    const uint64_t row = row_of(mla), numbers = mla.batch * mla.len * row;
    if (numbers == 0) return;
    const View sums = workspace_view(builder, VKATTN_TYPE_F32, {numbers});
    add_token_sums(
        builder,
        {.d_output = reshaped(gradients.key_room, {1, mla.heads(), numbers}, {mla.heads() * numbers, numbers, 1}),
         .sums = sums},
        false);
    builder.barrier();
    const View turned = reshaped(sums, {mla.batch, 1, mla.len, row}, {mla.len * row, row, row, 1});
    add_rows(builder,
             rotated_rows(slice(turned, mla.nope(), mla.rope()),
                          as_one_head(slice(gradients.of_latent, mla.rank(), mla.rope())), inverse, mla.positions));
}

void add_attention_gradients(const Mla &mla, const MlaActivations &made, const View &d_attended,
                             const MlaGradients &gradients) {
    PlanBuilder &builder = mla.builder;
    const bool of_latent = present(gradients.expanded);
    View d_value;
    if (of_latent) d_value = part_of_heads(mla, gradients.expanded, mla.nope(), mla.values());
    builder.barrier();
    const DescribedCore core = described_core(mla.layer, mla.call, core_of(mla, made));
    add_attention_backward(builder, core.desc, core.sources,
                           {.d_output = heads_of(d_attended, mla.heads()),
                            .d_query = gradients.query,
                            .d_key = gradients.key,
                            .d_value = d_value});
    builder.barrier();
    const Rotation inverse = mla.layer.inverse_rotation(builder);
    if (present(gradients.query))
        add_rows(builder, rotated_rows(gradients.query, heads_of(gradients.of_query, mla.heads()), inverse,
                                       mla.positions, static_cast<uint32_t>(mla.nope())));
    if (of_latent) {
        add_rows(builder, {.source = slice(gradients.key, 0, mla.nope()),
                           .target = part_of_heads(mla, gradients.expanded, 0, mla.nope()),
                           .keeps_places = true});
        add_turned_keys(mla, gradients, inverse);
    }
    builder.barrier();
}

// Of the latents that were given to kv_norm.
void add_latent_gradients(const LayerBackward &backward, const Mla &mla, const MlaActivations &made,
                          const View &content, const MlaGradients &gradients) {
    const View d_content = workspace_view(mla.builder, mla.type, {mla.batch, mla.len, mla.rank()});
    const ProjectionGradient expanded[] = {{"wkv_b", gradients.expanded}};
    backward.add_projections(expanded, content, d_content);
    backward.add_norm("kv_norm.weight", norm_of(mla, "kv_norm.weight"), slice(made.latent, 0, mla.rank()), d_content,
                      slice(gradients.of_latent, 0, mla.rank()));
    mla.builder.barrier();
}

// Of what wq gave, or wq_a.
ProjectionGradient add_query_gradients(const LayerBackward &backward, const Mla &mla, const MlaActivations &made,
                                       const View &low_rank, const MlaGradients &gradients) {
    if (!has_low_rank(mla)) return {"wq", gradients.of_query};
    const uint64_t rank = mla.config().q_lora_rank;
    const View d_normed = workspace_view(mla.builder, mla.type, {mla.batch, mla.len, rank});
    const View d_low_rank = workspace_view(mla.builder, mla.type, {mla.batch, mla.len, rank});
    const ProjectionGradient queries[] = {{"wq_b", gradients.of_query}};
    backward.add_projections(queries, low_rank, d_normed);
    backward.add_norm("q_norm.weight", norm_of(mla, "q_norm.weight"), made.low_rank, d_normed, d_low_rank);
    mla.builder.barrier();
    return {"wq_a", d_low_rank};
}

bool wants_any(const LayerBackward &backward, std::initializer_list<const char *> projections, const char *norm) {
    bool wanted = backward.wants_query() || present(backward.gradient(norm));
    for (const char *name : projections) wanted = wanted || backward.wants(name);
    return wanted;
}

} // namespace

void reserve_mla_activations(PlanBuilder &builder, const Layer &layer, const LayerCall &call, ActivationRooms &rooms) {
    const View tokens =
        role_view(checked_tokens(call.query, "query", kAnySize, kAnySize, layer.config().embed_dim), VKATTN_ROLE_QUERY);
    reserve(mla_of(builder, layer, call, tokens), rooms);
}

void add_mla_saving(PlanBuilder &builder, const Layer &layer, const LayerCall &call, const View &tokens,
                    const RmsNorm &norm, const View &output, const View &residual) {
    const Mla mla = mla_of(builder, layer, call, tokens);
    ActivationRooms rooms(builder, true);
    const MlaActivations made = reserve(mla, rooms);
    rooms.require_given(call.activations);
    add_forward(mla, made, present(norm.weight) ? add_normalised(builder, tokens, norm, mla.type) : tokens);
    LinearEpilogue epilogue;
    epilogue.residual = residual;
    add_projection(builder, layer, "wo", made.attended, output, epilogue);
}

void add_mla_backward(const LayerBackward &backward) {
    PlanBuilder &builder = backward.builder;
    require(!present(backward.d_key) && !present(backward.d_value),
            "d_key, d_value: given, expected only beside key and value");
    const Mla mla = mla_of(builder, backward.layer, backward.call, backward.query);
    const bool is_saved = present(backward.activations);
    ActivationRooms rooms(builder, is_saved);
    const MlaActivations made = reserve(mla, rooms);
    if (is_saved) rooms.require_given(backward.activations);
    const View tokens = present(backward.norm.weight) ? add_normalised(builder, backward.query, backward.norm, mla.type)
                                                      : backward.query;
    const NormedLatents normed = is_saved ? add_norms(mla, made) : add_forward(mla, made, tokens);

    const bool of_query = wants_any(backward, {"wq", "wq_a", "wq_b"}, "q_norm.weight");
    const bool of_latent = wants_any(backward, {"wkv_a", "wkv_b"}, "kv_norm.weight");
    View d_attended;
    if (of_query || of_latent)
        d_attended = workspace_view(builder, mla.type, {mla.batch, mla.len, mla.heads() * mla.values()});
    const ProjectionGradient output[] = {{"wo", backward.d_output}};
    backward.add_projections(output, made.attended, d_attended);
    if (!of_query && !of_latent) return;
    const MlaGradients gradients = reserve_gradients(backward, mla, of_query, of_latent);
    add_attention_gradients(mla, made, d_attended, gradients);
    std::vector<ProjectionGradient> of_tokens;
    if (of_query) of_tokens.push_back(add_query_gradients(backward, mla, made, normed.low_rank, gradients));
    if (of_latent) {
        add_latent_gradients(backward, mla, made, normed.content, gradients);
        of_tokens.push_back({"wkv_a", gradients.of_latent});
    }
    backward.add_query_projections(of_tokens, tokens);
}

} // namespace vkattn
