#pragma once

#include "runtime/context/memory.hpp"
#include "runtime/layers/layer_spec.hpp"
#include "runtime/plan.hpp"

#include <map>
#include <string>

namespace vkattn {

// A layer: its sizes, and its weights on the device. Immutable after creation.
class Layer {
  public:
    // Fails with one message that names every missing, unknown and misshapen weight.
    Layer(Context &context, const vkattn_layer_config &config, std::span<const vkattn_weight> weights);

    // A layer without weights, but for those it must have: to measure plans with.
    Layer(Context &context, const vkattn_layer_config &config);

    Context &context() const { return context_; }
    const vkattn_layer_config &config() const { return config_; }

    // A weight by name; an absent view where an optional one was not given.
    View weight(const std::string &name) const;

    // The layer's rotary embedding, as ops/rope.hpp wants it.
    View rope_frequencies() const { return weight(kRopeFrequencies); }

  private:
    static constexpr const char *kRopeFrequencies = "rope frequencies"; // no weight can have a space in its name
    void upload(std::span<const vkattn_weight> weights);

    Context &context_;
    vkattn_layer_config config_;
    std::unique_ptr<Buffer> buffer_; // all weights, one after the other; none: only to be measured
    std::map<std::string, View> weights_;
};

// Adds every dispatch of one use of the layer to the plan.
void plan_layer(Plan &plan, const Layer &layer, const vkattn_layer_call &call);

} // namespace vkattn
