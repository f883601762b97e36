#include "runtime/layers/layer_backward.hpp"

#include "runtime/ops/token_sums.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/problem/tensor_checks.hpp"
#include "runtime/support/error.hpp"
#include "runtime/support/rounding.hpp"

#include <algorithm>

namespace vkattn {
namespace {

constexpr uint64_t kRoomElements = 64; // F32: rooms begin at multiples of them, wherever descriptors may begin

// Without what the forward pass writes, or adds to what it writes.
LayerCall without_results(const LayerCall &call) {
    LayerCall inputs = call;
    inputs.output = inputs.residual = inputs.attn_weights = inputs.activations = {};
    return inputs;
}

} // namespace

View ActivationRooms::room(vkattn_type type, std::initializer_list<uint64_t> shape) {
    if (!saved_) return workspace_view(builder_, type, shape);
    View view = role_view(contiguous(type, shape), VKATTN_ROLE_ACTIVATIONS);
    view.source.offset = bytes_;
    bytes_ += round_up(extent_bytes(view.tensor), kRoomElements * sizeof(float));
    return view;
}

View ActivationRooms::log_sum_exp(const LayerCall &call, uint64_t batch, uint64_t heads, uint64_t len) {
    return present(call.cu_seqlens) ? room(VKATTN_TYPE_F32, {heads, len}) : room(VKATTN_TYPE_F32, {batch, heads, len});
}

vkattn_tensor ActivationRooms::tensor() const {
    return contiguous(VKATTN_TYPE_F32, {bytes_ / (kRoomElements * sizeof(float)), kRoomElements});
}

void ActivationRooms::require_given(const vkattn_tensor &given) const {
    const vkattn_tensor expected = tensor();
    const vkattn_tensor activations = checked_contiguous(given, "activations", expected);
    require(given.offset == 0, "activations: offset ", given.offset, ", expected 0: their region begins with them");
    builder_.use_role(VKATTN_ROLE_ACTIVATIONS, extent_bytes(activations));
}

LayerBackward::LayerBackward(PlanBuilder &own, const Layer &of, const LayerCall &with,
                             const vkattn_layer_backward_desc &desc)
    : builder(own), layer(of), call(without_results(with)), activations(desc.activations), d_key(desc.d_key),
      d_value(desc.d_value), accumulates(desc.accumulate != 0) {
    const uint64_t width = layer.config().embed_dim;
    query = role_view(checked_tokens(call.query, "query", kAnySize, kAnySize, width), VKATTN_ROLE_QUERY);
    const uint64_t *shape = query.tensor.shape;
    d_output = role_view(checked_tokens(desc.d_output, "d_output", shape[0], shape[1], width), VKATTN_ROLE_D_OUTPUT);
    d_query = checked_gradient(desc.d_query, "d_query", VKATTN_ROLE_D_QUERY, query);
    require(!present(desc.residual) || present(d_query), "residual: given without d_query, expected none");
    if (present(desc.residual))
        residual =
            role_view(checked_tokens(desc.residual, "residual", shape[0], shape[1], width), VKATTN_ROLE_RESIDUAL);
    norm = checked_input_norm(call.norm_weight, call.norm_epsilon, width);
    require(present(norm.weight) || !present(desc.d_norm_weight),
            "d_norm_weight: given, expected only beside norm_weight");
    d_norm_weight = role_view(checked_vector(desc.d_norm_weight, "d_norm_weight", width), VKATTN_ROLE_D_NORM_WEIGHT);
    checked_accumulate(desc.accumulate, d_norm_weight, {});
    add_weight_gradients(desc);
    const bool any = present(d_query) || present(desc.d_key) || present(desc.d_value) || present(d_norm_weight) ||
                     !gradients_.empty();
    require(any, "d_query, d_key, d_value, d_norm_weight, gradients: absent, expected one gradient at least");
    for (const View *view : {&query, &d_output, &residual, &d_query, &norm.weight, &d_norm_weight})
        allow_role(builder, *view);
}

void LayerBackward::add_weight_gradients(const vkattn_layer_backward_desc &desc) {
    require(desc.gradients != nullptr || desc.gradient_count == 0, "gradients: NULL, expected ", desc.gradient_count,
            " entries");
    const std::vector<WeightSpec> specs = weight_specs(layer.config());
    for (const vkattn_weight_gradient &given : std::span(desc.gradients, desc.gradient_count)) {
        require(given.name != nullptr, "gradients: a name is NULL, expected a string");
        const bool is_weight =
            std::ranges::any_of(specs, [&](const WeightSpec &spec) { return spec.name == given.name; });
        const View weight = is_weight ? layer.weight(given.name) : View{};
        require(present(weight), "gradients: ", given.name, ", expected the name of a weight that the layer has");
        require(!gradients_.contains(given.name), "gradients: ", given.name, " is given twice, expected once");
        if (!is_float(weight.tensor.type))
            fail(VKATTN_ERROR_UNSUPPORTED, "gradients: ", given.name, " is a weight of type ",
                 type_name(weight.tensor.type), ", expected F32, F16 or BF16: other types have no gradients");
        const vkattn_weight placed{given.name, given.tensor, nullptr, 0, given.region};
        View gradient{without_layout(placed), {Source::Kind::kOwned}};
        require_float(gradient.tensor, given.name);
        require_shape(gradient.tensor, given.name, weight.tensor);
        require(!accumulates || gradient.tensor.type == VKATTN_TYPE_F32, "gradients: ", given.name, " has type ",
                type_name(gradient.tensor.type), ", expected F32 with accumulate");
        if (!builder.is_measure()) {
            require(given.region.buffer != VK_NULL_HANDLE, "gradients: ", given.name,
                    " has no region, expected one of a buffer");
            const std::string problem = place_problem(builder.context(), placed);
            require(problem.empty(), "gradients: ", problem);
        }
        gradient.source.buffer = given.region.buffer;
        gradient.source.offset = given.region.offset;
        gradients_[given.name] = gradient;
    }
}

View LayerBackward::gradient(const std::string &weight) const {
    const auto found = gradients_.find(weight);
    return found == gradients_.end() ? View{} : found->second;
}

bool LayerBackward::wants(const std::string &projection) const {
    return present(gradient(projection + ".weight")) || present(gradient(projection + ".bias"));
}

View LayerBackward::checked_gradient(const vkattn_tensor &given, const char *name, vkattn_role role,
                                     const View &like) const {
    if (!present(given)) return {};
    const uint64_t *shape = like.tensor.shape;
    const View gradient = role_view(checked_tokens(given, name, shape[0], shape[1], shape[2]), role);
    require_no_overlap(gradient.tensor, name);
    allow_role(builder, gradient);
    return gradient;
}

void LayerBackward::add_projections(std::span<const ProjectionGradient> projections, const View &input,
                                    const View &d_input, const View &other) const {
    const uint64_t *shape = input.tensor.shape;
    View sum;
    if (present(d_input) && projections.size() > 1)
        sum = workspace_view(builder, VKATTN_TYPE_F32, {shape[0], shape[1], shape[2]});
    for (size_t i = 0; i < projections.size(); ++i) {
        const std::string &name = projections[i].name;
        if (!present(d_input) && !wants(name)) continue;
        LinearGradients gradients{.input = input,
                                  .weight = layer.weight(name + ".weight"),
                                  .d_output = projections[i].d_output,
                                  .d_weight = gradient(name + ".weight"),
                                  .d_bias = gradient(name + ".bias"),
                                  .accumulates = accumulates};
        if (present(d_input)) {
            gradients.residual = i == 0 ? other : sum;
            gradients.d_input = i + 1 == projections.size() ? d_input : sum;
        }
        const uint64_t workspace = builder.reserved_workspace();
        add_linear_backward(builder, gradients);
        builder.reuse_workspace(workspace);
    }
}

void LayerBackward::add_query_projections(std::span<const ProjectionGradient> projections,
                                          const View &normalised) const {
    if (!present(norm.weight)) return add_projections(projections, query, d_query, residual);
    const uint64_t *shape = query.tensor.shape;
    View d_normalised;
    if (wants_query()) d_normalised = workspace_view(builder, VKATTN_TYPE_F32, {shape[0], shape[1], shape[2]});
    add_projections(projections, normalised, d_normalised);
    if (!wants_query()) return;
    add_norm_backward(builder, Norm::kRms, norm.epsilon,
                      {.input = query,
                       .weight = norm.weight,
                       .d_output = d_normalised,
                       .residual = residual,
                       .d_input = d_query,
                       .d_weight = d_norm_weight,
                       .accumulates = accumulates});
}

void LayerBackward::add_norm(const std::string &weight, const RmsNorm &of, const View &input, const View &d_normalised,
                             const View &d_input) const {
    add_norm_backward(builder, Norm::kRms, of.epsilon,
                      {.input = input,
                       .weight = of.weight,
                       .d_output = d_normalised,
                       .d_input = d_input,
                       .d_weight = gradient(weight),
                       .accumulates = accumulates});
}

View LayerBackward::room(vkattn_type type, std::initializer_list<uint64_t> shape) const {
    const View view = workspace_view(builder, type, shape);
    add_zeros_of_packed(builder, call, view);
    return view;
}

View by_heads(const View &room) {
    const uint64_t *shape = room.tensor.shape;
    const uint64_t head = shape[2] * shape[3];
    return reshaped(room, {shape[1], shape[0], shape[2], shape[3]}, {head, shape[1] * head, shape[3], 1});
}

View add_normalised(PlanBuilder &builder, const View &tokens, const RmsNorm &norm, vkattn_type type) {
    const uint64_t *shape = tokens.tensor.shape;
    const View normalised = workspace_view(builder, type, {shape[0], shape[1], shape[2]});
    add_norm(builder, Norm::kRms, norm.epsilon, {.input = tokens, .weight = norm.weight, .output = normalised});
    builder.barrier();
    return normalised;
}

void add_zeros_of_packed(PlanBuilder &builder, const LayerCall &call, const View &contiguous_rows) {
    const vkattn_tensor &tensor = contiguous_rows.tensor;
    if (!present(call.cu_seqlens) || is_empty(tensor)) return;
    uint64_t rows = 1;
    for (uint32_t dim = 0; dim + 1 < tensor.rank; ++dim) rows *= tensor.shape[dim];
    const uint64_t width = tensor.shape[tensor.rank - 1];
    add_zeros(builder, reshaped(contiguous_rows, {rows, width}, {width, 1}));
}

} // namespace vkattn
