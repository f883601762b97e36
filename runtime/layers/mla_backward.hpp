#pragma once

#include "runtime/layers/layer_backward.hpp"
#include "runtime/layers/mla.hpp"

namespace vkattn {

// MLA for training, in the naive form: a forward pass that saves what the backward pass reads, and that one.

void reserve_mla_activations(PlanBuilder &builder, const Layer &layer, const LayerCall &call, ActivationRooms &rooms);

// The whole layer, as add_mla does it, with the call's activations.
void add_mla_saving(PlanBuilder &builder, const Layer &layer, const LayerCall &call, const View &tokens,
                    const RmsNorm &norm, const View &output, const View &residual);

void add_mla_backward(const LayerBackward &backward);

} // namespace vkattn
