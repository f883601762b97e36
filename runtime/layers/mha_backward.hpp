#pragma once

#include "runtime/layers/layer_backward.hpp"
#include "runtime/layers/mha.hpp"

namespace vkattn {

// MHA, MQA and GQA for training: a forward pass that saves what the backward pass reads, and that one.

void reserve_mha_activations(PlanBuilder &builder, const Layer &layer, const LayerCall &call, ActivationRooms &rooms);

// The whole layer, as add_mha does it, with the call's activations. parts: without prefix and tokens.
void add_mha_saving(PlanBuilder &builder, const Layer &layer, const LayerCall &call, const MhaParts &parts);

void add_mha_backward(const LayerBackward &backward);

} // namespace vkattn
