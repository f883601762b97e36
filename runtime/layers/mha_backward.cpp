#include "runtime/layers/mha_backward.hpp"

#include "runtime/problem/tensor.hpp"
#include "runtime/support/error.hpp"

#include <vector>

namespace vkattn {
namespace {

// One use of the layer, in either direction.
struct MhaPass {
    PlanBuilder &builder;
    const Layer &layer;
    const LayerCall &call;
    MhaInputs inputs; // that projections take
    Positions positions;
    vkattn_type type; // of what lies between the steps
    RmsNorm query_norm, key_norm;
    uint64_t head_dim() const { return layer.config().head_dim; }
    uint64_t heads() const { return layer.config().num_heads; }
    uint64_t kv_heads() const { return layer.config().num_kv_heads; }
    bool rotates() const { return present(layer.rotation().frequencies); }
    bool has_gate() const { return present(layer.weight("gate_proj.weight")); }
};

MhaPass pass_of(PlanBuilder &builder, const Layer &layer, const LayerCall &call) {
    const MhaInputs inputs = mha_inputs_of(call, {}, layer.config().embed_dim);
    require(!present(call.norm_weight) || !present(call.key),
            "norm: given beside key and value, expected neither of them");
    return {builder,
            layer,
            call,
            inputs,
            checked_positions(layer, call, inputs.query.tokens.tensor),
            workspace_type(builder, call, inputs.query.tokens),
            mha_head_norm(layer, "q_norm.weight"),
            mha_head_norm(layer, "k_norm.weight")};
}

// What the backward pass reads of the forward pass.
struct MhaActivations {
    View raw_query, raw_key;    // tokens [B,L,H*D] before the norm of heads; absent: there is none
    View query, key, value;     // [B,H,L,D], as attention reads them, each head's rows together
    View attended, log_sum_exp; // tokens [B,L,H*D], and as attention writes it
    View gate;                  // tokens [B,L,H*D] before the sigmoid; absent: there is none
};

MhaActivations reserve(const MhaPass &pass, ActivationRooms &rooms) {
    const uint64_t batch = pass.inputs.batch(), len = pass.inputs.q_len(), kv_len = pass.inputs.new_len();
    const uint64_t heads = pass.heads(), kv_heads = pass.kv_heads(), size = pass.head_dim();
    MhaActivations made;
    if (present(pass.query_norm.weight)) made.raw_query = rooms.room(pass.type, {batch, len, heads * size});
    if (present(pass.key_norm.weight)) made.raw_key = rooms.room(pass.type, {batch, kv_len, kv_heads * size});
    made.query = by_heads(rooms.room(pass.type, {heads, batch, len, size}));
    made.key = by_heads(rooms.room(pass.type, {kv_heads, batch, kv_len, size}));
    made.value = by_heads(rooms.room(pass.type, {kv_heads, batch, kv_len, size}));
    made.attended = rooms.room(pass.type, {batch, len, heads * size});
    made.log_sum_exp = rooms.log_sum_exp(pass.call, batch, heads, len);
    if (pass.has_gate()) made.gate = rooms.room(pass.type, {batch, len, heads * size});
    return made;
}

CoreAttention core_of(const MhaPass &pass, const MhaActivations &made) {
    CoreAttention core;
    core.query = made.query;
    core.key = made.key;
    core.value = made.value;
    core.output = heads_of(made.attended, pass.heads());
    core.log_sum_exp = made.log_sum_exp;
    core.positions = pass.positions;
    core.kv_head_mapping = pass.layer.config().kv_head_mapping;
    return core;
}

// Queries or keys projected and on their way to attention.
MovedRows add_heads(const MhaPass &pass, const char *name, const ProductInput &input, const View &raw,
                    const View &heads, const RmsNorm &norm) {
    View projected = heads;
    if (present(raw)) {
        projected = heads_of(raw, heads.tensor.shape[1]);
    } else if (pass.rotates()) {
        const uint64_t *shape = heads.tensor.shape;
        projected = by_heads(workspace_view(pass.builder, pass.type, {shape[1], shape[0], shape[2], shape[3]}));
    }
    add_projection(pass.builder, pass.layer, name, input, projected);
    if (!present(raw) && !pass.rotates()) return {};
    return rotated_rows(projected, heads, pass.layer.rotation(), pass.positions, 0, norm);
}

// All up to what the gate and out_proj take.
void add_forward(const MhaPass &pass, const MhaActivations &made) {
    PlanBuilder &builder = pass.builder;
    add_zeros_of_packed(builder, pass.call, made.attended);
    const uint64_t workspace = builder.reserved_workspace();
    const MovedRows query = add_heads(pass, "q_proj", pass.inputs.query, made.raw_query, made.query, pass.query_norm);
    const MovedRows key = add_heads(pass, "k_proj", pass.inputs.key, made.raw_key, made.key, pass.key_norm);
    add_projection(builder, pass.layer, "v_proj", pass.inputs.value, made.value);
    if (pass.has_gate()) add_projection(builder, pass.layer, "gate_proj", pass.inputs.query, made.gate);
    builder.barrier();
    add_new_rows(builder, {query, key});
    builder.barrier();
    add_core_attention(builder, pass.layer, pass.call, core_of(pass, made));
    builder.reuse_workspace(workspace);
}

// What out_proj takes. The caller adds the barrier after.
View add_gate(const MhaPass &pass, const MhaActivations &made) {
    if (!pass.has_gate()) return made.attended;
    const uint64_t *shape = made.attended.tensor.shape;
    const View gated = workspace_view(pass.builder, pass.type, {shape[0], shape[1], shape[2]});
    add_gated_activation(pass.builder, {.gate = made.gate, .input = made.attended, .output = gated},
                         VKATTN_ACTIVATION_SIGMOID);
    return gated;
}

// The gradient of queries, keys or values on its way from attention to their projection.
struct HeadsGradient {
    View written; // [B,H,L,D], by attention; absent: it is not wanted
    View tokens;  // [B,L,H*D], of the projection's output
};

HeadsGradient reserve_gradient(const LayerBackward &backward, const MhaPass &pass, const View &heads, bool rotates) {
    const uint64_t *shape = heads.tensor.shape;
    HeadsGradient gradient;
    gradient.tokens = backward.room(pass.type, {shape[0], shape[2], shape[1] * shape[3]});
    gradient.written = rotates ? by_heads(backward.room(pass.type, {shape[1], shape[0], shape[2], shape[3]}))
                               : heads_of(gradient.tokens, shape[1]);
    return gradient;
}

// Rows of all heads in one sequence of tokens, [B,L*H,D].
View as_rows(const View &tokens, uint64_t head_dim) {
    const uint64_t *shape = tokens.tensor.shape;
    const uint64_t rows = shape[1] * shape[2] / head_dim;
    return reshaped(tokens, {shape[0], rows, head_dim}, {rows * head_dim, head_dim, 1});
}

// Of what the norm of heads was given, if there is one.
void add_head_norm(const LayerBackward &backward, const View &raw, const RmsNorm &norm, const char *name,
                   HeadsGradient &gradient) {
    if (!present(gradient.written) || !present(raw)) return;
    const uint64_t *shape = raw.tensor.shape, size = norm.weight.tensor.shape[0];
    const View d_raw = workspace_view(backward.builder, gradient.tokens.tensor.type, {shape[0], shape[1], shape[2]});
    backward.add_norm(name, norm, as_rows(raw, size), as_rows(gradient.tokens, size), as_rows(d_raw, size));
    gradient.tokens = d_raw;
}

struct HeadsGradients {
    HeadsGradient query, key, value;
};

// Those of what the projections give, of the attended values' d_attended [B,L,H*D].
void add_attention_gradients(const LayerBackward &backward, const MhaPass &pass, const MhaActivations &made,
                             const View &d_attended, HeadsGradients &gradients) {
    PlanBuilder &builder = pass.builder;
    builder.barrier();
    const DescribedCore core = described_core(pass.layer, pass.call, core_of(pass, made));
    const uint64_t workspace = builder.reserved_workspace();
    add_attention_backward(builder, core.desc, core.sources,
                           {.d_output = heads_of(d_attended, pass.heads()),
                            .d_query = gradients.query.written,
                            .d_key = gradients.key.written,
                            .d_value = gradients.value.written});
    builder.reuse_workspace(workspace);
    if (pass.rotates()) {
        const Rotation inverse = pass.layer.inverse_rotation(builder);
        std::vector<MovedRows> moved;
        for (const HeadsGradient *each : {&gradients.query, &gradients.key})
            if (present(each->written))
                moved.push_back(rotated_rows(each->written, heads_of(each->tokens, each->written.tensor.shape[1]),
                                             inverse, pass.positions));
        add_rows(builder, moved);
        builder.barrier();
    }
    add_head_norm(backward, made.raw_query, pass.query_norm, "q_norm.weight", gradients.query);
    add_head_norm(backward, made.raw_key, pass.key_norm, "k_norm.weight", gradients.key);
    builder.barrier();
}

// Which gradients are wanted of what attention reads, and of the inputs of cross attention.
struct Wanted {
    View d_key, d_value;
    bool query, key, value, gate;
};

Wanted wanted_of(const LayerBackward &backward, const MhaPass &pass, const vkattn_tensor &d_key,
                 const vkattn_tensor &d_value) {
    const bool is_cross = present(pass.call.key), all = backward.wants_query();
    require(is_cross || (!present(d_key) && !present(d_value)),
            "d_key, d_value: given, expected only beside key and value");
    Wanted wanted{};
    wanted.d_key = backward.checked_gradient(d_key, "d_key", VKATTN_ROLE_D_KEY, pass.inputs.key.tokens);
    wanted.d_value = backward.checked_gradient(d_value, "d_value", VKATTN_ROLE_D_VALUE, pass.inputs.value.tokens);
    wanted.query = all || backward.wants("q_proj") || present(backward.gradient("q_norm.weight"));
    wanted.key = (is_cross ? present(wanted.d_key) : all) || backward.wants("k_proj") ||
                 present(backward.gradient("k_norm.weight"));
    wanted.value = (is_cross ? present(wanted.d_value) : all) || backward.wants("v_proj");
    wanted.gate = pass.has_gate() && (all || backward.wants("gate_proj"));
    return wanted;
}

// Those of attended values, and of the gate, whose gradient takes the place of made.gate.
struct OutputGradients {
    View d_attended, d_gate;
};

OutputGradients add_output_gradients(const LayerBackward &backward, const MhaPass &pass, const MhaActivations &made,
                                     bool is_wanted) {
    PlanBuilder &builder = pass.builder;
    const uint64_t *shape = made.attended.tensor.shape;
    OutputGradients gradients;
    if (is_wanted) gradients.d_attended = workspace_view(builder, pass.type, {shape[0], shape[1], shape[2]});
    const View gated = add_gate(pass, made);
    builder.barrier();
    const ProjectionGradient output[] = {{"out_proj", backward.d_output}};
    backward.add_projections(output, gated, gradients.d_attended);
    if (!is_wanted || !pass.has_gate()) return gradients;
    gradients.d_gate = workspace_view(builder, pass.type, {shape[0], shape[1], shape[2]});
    add_gated_activation(builder,
                         {.gate = made.gate,
                          .input = made.attended,
                          .d_output = gradients.d_attended,
                          .d_gate = gradients.d_gate,
                          .d_input = gradients.d_attended},
                         VKATTN_ACTIVATION_SIGMOID);
    builder.barrier();
    return gradients;
}

} // namespace

void reserve_mha_activations(PlanBuilder &builder, const Layer &layer, const LayerCall &call, ActivationRooms &rooms) {
    reserve(pass_of(builder, layer, call), rooms);
}

void add_mha_saving(PlanBuilder &builder, const Layer &layer, const LayerCall &call, const MhaParts &parts) {
    MhaPass pass = pass_of(builder, layer, call);
    ActivationRooms rooms(builder, true);
    const MhaActivations made = reserve(pass, rooms);
    rooms.require_given(call.activations);
    const RmsNorm norm = checked_input_norm(call.norm_weight, call.norm_epsilon, layer.config().embed_dim);
    if (present(norm.weight)) {
        const View normalised = add_normalised(builder, pass.inputs.query.tokens, norm, pass.type);
        pass.inputs = {normalised, normalised, normalised};
    }
    add_forward(pass, made);
    const View gated = add_gate(pass, made);
    builder.barrier();
    LinearEpilogue epilogue;
    epilogue.residual = parts.residual;
    add_projection(builder, layer, "out_proj", gated, parts.output, epilogue);
}

void add_mha_backward(const LayerBackward &backward) {
    PlanBuilder &builder = backward.builder;
    MhaPass pass = pass_of(builder, backward.layer, backward.call);
    const Wanted wanted = wanted_of(backward, pass, backward.d_key, backward.d_value);
    const bool is_saved = present(backward.activations);
    ActivationRooms rooms(builder, is_saved);
    const MhaActivations made = reserve(pass, rooms);
    if (is_saved) rooms.require_given(backward.activations);
    if (present(backward.norm.weight)) {
        const View normalised = add_normalised(builder, backward.query, backward.norm, pass.type);
        pass.inputs = {normalised, normalised, normalised};
    }
    if (!is_saved) add_forward(pass, made);

    const bool attends = wanted.query || wanted.key || wanted.value;
    const OutputGradients output = add_output_gradients(backward, pass, made, attends || wanted.gate);
    HeadsGradients gradients;
    if (wanted.query) gradients.query = reserve_gradient(backward, pass, made.query, pass.rotates());
    if (wanted.key) gradients.key = reserve_gradient(backward, pass, made.key, pass.rotates());
    if (wanted.value) gradients.value = reserve_gradient(backward, pass, made.value, false);
    if (attends) add_attention_gradients(backward, pass, made, output.d_attended, gradients);

    std::vector<ProjectionGradient> of_query;
    if (wanted.gate) of_query.push_back({"gate_proj", output.d_gate});
    if (wanted.query) of_query.push_back({"q_proj", gradients.query.tokens});
    const bool is_cross = present(pass.call.key);
    const ProjectionGradient of_key{"k_proj", gradients.key.tokens}, of_value{"v_proj", gradients.value.tokens};
    if (wanted.key && !is_cross) of_query.push_back(of_key);
    if (wanted.value && !is_cross) of_query.push_back(of_value);
    backward.add_query_projections(of_query, pass.inputs.query.tokens);
    if (wanted.key && is_cross) backward.add_projections({&of_key, 1}, pass.inputs.key.tokens, wanted.d_key);
    if (wanted.value && is_cross) backward.add_projections({&of_value, 1}, pass.inputs.value.tokens, wanted.d_value);
}

} // namespace vkattn
