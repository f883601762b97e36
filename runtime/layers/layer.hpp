#pragma once

#include "runtime/layers/layer_spec.hpp"
#include "runtime/ops/rope.hpp"
#include "runtime/plan/builder.hpp"
#include "runtime/vulkan/memory.hpp"

#include <map>
#include <string>

namespace vkattn {

class Cache;

// A call, with the cache object of its handle.
struct LayerCall : vkattn_layer_call {
    Cache *object; // NULL: none
};

// A layer: its sizes, and its weights on the device. Immutable after creation.
class Layer {
  public:
    // Fails with one message that names every missing, unknown and misshapen weight.
    Layer(Context &context, const vkattn_layer_config &config, std::span<const vkattn_weight> weights);

    // A layer without weights, but for those it must have, and biases: to measure plans with.
    Layer(Context &context, const vkattn_layer_config &config, bool has_biases = false);

    Layer(const Layer &) = delete; // its config points into it
    Layer &operator=(const Layer &) = delete;

    Context &context() const { return context_; }
    const vkattn_layer_config &config() const { return config_; }

    // A weight by name; an absent view where an optional one was not given.
    View weight(const std::string &name) const;

    // The layer's rotary embedding; without frequencies where it has none.
    Rotation rotation() const { return {weight(kRopeFrequencies), config_.rope_interleaved != 0}; }
    // The same backwards, for gradients, in a table that the plan keeps.
    Rotation inverse_rotation(PlanBuilder &builder) const;

  private:
    static constexpr const char *kRopeFrequencies = "rope frequencies"; // no weight can have a space in its name
    void upload(std::span<const vkattn_weight> weights);
    uint64_t place_weights();

    Context &context_;
    vkattn_layer_config config_;
    std::unique_ptr<Buffer> buffer_; // all weights, one after the other; none: only to be measured
    std::map<std::string, View> weights_;
    std::vector<RopeFrequency> frequencies_; // what the table of rotation() holds
};

// The weight's tensor, contiguous, as it is whatever strides and offset say.
vkattn_tensor without_layout(const vkattn_weight &weight);

// Why the weight is not all there; "": it is.
std::string place_problem(const Context &context, const vkattn_weight &weight);

// Sizes of a cache that is asked for. layer NULL: of the description's own heads and widths; else of the layer's, which
// must be of the same context.
CacheSizes cache_sizes(const vkattn_cache_info &info, const Layer *layer, const Context &context);

// Adds every dispatch of one use of the layer to the plan.
void plan_layer(PlanBuilder &builder, const Layer &layer, const LayerCall &call);

} // namespace vkattn
