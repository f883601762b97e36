#pragma once

#include "runtime/layers/call.hpp"
#include "runtime/ops/gradients.hpp"

#include <map>

namespace vkattn {

// Rooms for what a backward pass reads of its forward pass: one behind the other in the tensor that the caller binds as activations, or
// in the workspace.
class ActivationRooms {
  public:
    ActivationRooms(PlanBuilder &builder, bool saved) : builder_(builder), saved_(saved) {}

    // Contiguous.
    View room(vkattn_type type, std::initializer_list<uint64_t> shape);

    // Of the call's attention, as it writes it.
    View log_sum_exp(const LayerCall &call, uint64_t batch, uint64_t heads, uint64_t len);

    // The tensor that has room for all rooms.
    vkattn_tensor tensor() const;

    // Fails, naming it, unless what the caller gives as activations is that tensor. Requires its region.
    void require_given(const vkattn_tensor &given) const;

  private:
    PlanBuilder &builder_;
    bool saved_;
    uint64_t bytes_ = 0;
};

// The gradient of the output of a projection, name.weight and name.bias of the layer.
struct ProjectionGradient {
    std::string name;
    View d_output; // [B,L,out]
};

// A backward pass of a layer on its way into a plan, its description checked but for what its kind decides.
class LayerBackward {
  public:
    LayerBackward(PlanBuilder &builder, const Layer &layer, const LayerCall &call,
                  const vkattn_layer_backward_desc &desc);

    PlanBuilder &builder;
    const Layer &layer;
    const LayerCall call;                            // without what the forward pass writes
    const vkattn_tensor activations, d_key, d_value; // as they are given
    const bool accumulates;
    View query, d_output, residual, d_query, d_norm_weight; // [B,L,embed_dim], and [embed_dim]
    RmsNorm norm;                                           // of query; without weight: none

    // The gradient of the weight; absent: it is not wanted.
    View gradient(const std::string &weight) const;

    // Whether the gradient of the projection's weight or bias is wanted.
    bool wants(const std::string &projection) const;

    // Whether gradients behind the projections of query are.
    bool wants_query() const { return present(d_query) || present(d_norm_weight); }

    // Tokens of the caller that a gradient is for, [B,L,embed_dim], or an absent view.
    View checked_gradient(const vkattn_tensor &given, const char *name, vkattn_role role, const View &like) const;

    // Gradients of projections of one input, of weights, biases and, where d_input is present, the input: their sum, in F32 between them, and
    // the residual, where it is present.
    void add_projections(std::span<const ProjectionGradient> projections, const View &input, const View &d_input,
                         const View &other = {}) const;

    // The same of the query, as projections took it, with the norm before them.
    void add_query_projections(std::span<const ProjectionGradient> projections, const View &normalised) const;

    // Gradients of a norm within the layer: of its input, and of its weight where that is wanted.
    void add_norm(const std::string &weight, const RmsNorm &of, const View &input, const View &d_normalised,
                  const View &d_input) const;

    // Room in the workspace; zeros where the call's tokens are packed, of which some may belong to no sequence. A barrier comes after.
    View room(vkattn_type type, std::initializer_list<uint64_t> shape) const;

  private:
    void add_weight_gradients(const vkattn_layer_backward_desc &desc);

    std::map<std::string, View> gradients_;
};

// Fills rows with zeros where the call's tokens are packed.
void add_zeros_of_packed(PlanBuilder &builder, const LayerCall &call, const View &contiguous_rows);

// A room [H,B,L,D] seen as [B,H,L,D]: each head's rows together.
View by_heads(const View &room);

// Tokens normalised, in the workspace, with a barrier after.
View add_normalised(PlanBuilder &builder, const View &tokens, const RmsNorm &norm, vkattn_type type);

// The tensor of what a call saves.
vkattn_tensor layer_activations(const Layer &layer, const LayerCall &call);

// Adds every dispatch of a backward pass to the plan.
void plan_layer_backward(PlanBuilder &builder, const Layer &layer, const LayerCall &call,
                         const vkattn_layer_backward_desc &desc);

} // namespace vkattn
