// The C entry points of layers and their caches.
#include "runtime/api/handles.hpp"
#include "runtime/layers/call.hpp"
#include "runtime/layers/layer_backward.hpp"
#include "runtime/ops/operators.hpp"

#include <algorithm>
#include <optional>

using namespace vkattn;

namespace {

LayerCall with_object(const vkattn_layer_call &call) {
    return {call, call.cache != nullptr ? &call.cache->cache : nullptr};
}

} // namespace

vkattn_result vkattn_layer_create(vkattn_context context, const vkattn_layer_config *config,
                                  const vkattn_weight *weights, uint32_t weight_count, vkattn_layer *layer) {
    return create(layer, "layer", [&] {
        require_given(context, "context");
        const vkattn_layer_config given = sized(config, "config");
        require(weights != nullptr || weight_count == 0, "weights: NULL, expected ", weight_count, " entries");
        return std::make_unique<vkattn_layer_opaque>(context->state, given, std::span(weights, weight_count));
    });
}

void vkattn_layer_destroy(vkattn_layer layer) { destroy(layer); }

vkattn_result vkattn_cache_create(vkattn_context context, const vkattn_cache_info *info, vkattn_cache *cache) {
    return create(cache, "cache", [&] {
        require_given(context, "context");
        const vkattn_cache_info given = sized(info, "info");
        const Layer *layer = given.layer != nullptr ? given.layer->layer.get() : nullptr;
        const CacheSizes sizes = cache_sizes(given, layer, context->context);
        return std::make_unique<vkattn_cache_opaque>(context->state, sizes);
    });
}

void vkattn_cache_destroy(vkattn_cache cache) { destroy(cache); }

uint64_t vkattn_cache_bytes(vkattn_cache cache) { return cache != nullptr ? cache->cache.bytes() : 0; }

uint32_t vkattn_cache_free_pages(vkattn_cache cache) {
    if (cache == nullptr) return 0;
    const InUse use(cache->usage);
    return cache->cache.free_pages();
}

vkattn_result vkattn_cache_lengths(vkattn_cache cache, uint32_t *lengths, uint32_t count) {
    return guard([&] {
        require_given(cache, "cache");
        const InUse use(cache->usage);
        const std::span<const uint32_t> held = cache->cache.host_lengths();
        require(count == held.size(), "count: ", count, ", expected the cache's batch of ", held.size());
        require(lengths != nullptr || count == 0, "lengths: NULL, expected room for ", count, " numbers");
        std::ranges::copy(held, lengths);
    });
}

vkattn_result vkattn_cache_reserve(vkattn_cache cache, const uint32_t *tokens, uint32_t count) {
    return guard([&] {
        require_given(cache, "cache");
        require(tokens != nullptr || count == 0, "tokens: NULL, expected ", count, " numbers");
        const InChange alone(cache->usage);
        cache->cache.reserve({tokens, count});
    });
}

vkattn_result vkattn_cache_rewind(vkattn_cache cache, uint32_t sequence, uint32_t length) {
    return guard([&] {
        require_given(cache, "cache");
        const InChange alone(cache->usage);
        cache->cache.rewind(sequence, length);
    });
}

vkattn_result vkattn_cache_keep(vkattn_cache cache, uint32_t sequence, uint32_t length, const uint32_t *tokens,
                                uint32_t count) {
    return guard([&] {
        require_given(cache, "cache");
        require(tokens != nullptr || count == 0, "tokens: NULL, expected ", count, " numbers");
        const InChange alone(cache->usage);
        cache->cache.keep(sequence, length, {tokens, count});
    });
}

vkattn_result vkattn_cache_copy_sequence(vkattn_cache from, uint32_t from_sequence, vkattn_cache to,
                                         uint32_t to_sequence) {
    return guard([&] {
        require_given(from, "from");
        require_given(to, "to");
        const InChange alone(to->usage);
        std::optional<InUse> source; // of `to` itself, if it is the same
        if (from != to) source.emplace(from->usage);
        to->cache.copy_from(from->cache, from_sequence, to_sequence);
    });
}

vkattn_result vkattn_cache_share_prefix(vkattn_cache cache, uint32_t from_sequence, uint32_t to_sequence,
                                        uint32_t length) {
    return guard([&] {
        require_given(cache, "cache");
        const InChange alone(cache->usage);
        cache->cache.share_prefix(from_sequence, to_sequence, length);
    });
}

vkattn_result vkattn_cache_read(vkattn_cache cache, vkattn_cache_part part, uint32_t sequence, float *values,
                                uint64_t count) {
    return guard([&] {
        require_given(cache, "cache");
        require(values != nullptr || count == 0, "values: NULL, expected room for ", count, " numbers");
        require(part == VKATTN_CACHE_KEYS || part == VKATTN_CACHE_VALUES, "part: ", static_cast<int>(part),
                ", expected VKATTN_CACHE_KEYS or VKATTN_CACHE_VALUES");
        const InUse use(cache->usage);
        const Cache &own = cache->cache;
        own.read(part, sequence, {values, count});
    });
}

vkattn_result vkattn_cache_tensor(vkattn_cache cache, vkattn_cache_part part, vkattn_tensor *tensor,
                                  vkattn_region *region) {
    return guard([&] {
        require_given(cache, "cache");
        const View view = cache->cache.part(part);
        require(present(view) || part != VKATTN_CACHE_VALUES,
                "part: VKATTN_CACHE_VALUES, expected keys: this cache keeps the values as a part of them");
        require(present(view) || part != VKATTN_CACHE_BLOCK_TABLE,
                "part: VKATTN_CACHE_BLOCK_TABLE, expected another one: this cache has no pages");
        require(present(view), "part: of scales, expected another one: this cache keeps none of them");
        if (tensor != nullptr) *tensor = view.tensor;
        if (region != nullptr) *region = {view.source.buffer, view.source.offset, extent_bytes(view.tensor)};
    });
}

vkattn_result vkattn_cache_append_plan(vkattn_context context, const vkattn_cache_append_desc *desc,
                                       vkattn_plan *plan) {
    return create_plan(context, desc, plan, [](PlanBuilder &own, const vkattn_cache_append_desc &given) {
        require_given(given.cache, "cache");
        plan_cache_append(own, given.cache->cache, given);
        own.keep(given.cache->shared);
    });
}

vkattn_result vkattn_layer_plan(vkattn_layer layer, const vkattn_layer_call *call, vkattn_plan *plan) {
    return create(plan, "plan", [&] {
        require_given(layer, "layer");
        const vkattn_layer_call given = sized(call, "call");
        const InUse use(layer->usage);
        PlanBuilder builder(layer->context->context);
        plan_layer(builder, *layer->layer, with_object(given));
        builder.keep(layer->layer);
        if (given.cache != nullptr) builder.keep(given.cache->shared);
        return std::make_unique<vkattn_plan_opaque>(layer->context, builder.build());
    });
}

vkattn_result vkattn_layer_activations(vkattn_layer layer, const vkattn_layer_call *call, vkattn_tensor *activations) {
    return guard([&] {
        require_given(layer, "layer");
        require_given(activations, "activations");
        const vkattn_layer_call given = sized(call, "call");
        const InUse use(layer->usage);
        *activations = layer_activations(*layer->layer, with_object(given));
    });
}

vkattn_result vkattn_layer_backward_plan(vkattn_layer layer, const vkattn_layer_backward_desc *desc,
                                         vkattn_plan *plan) {
    return create(plan, "plan", [&] {
        require_given(layer, "layer");
        const vkattn_layer_backward_desc given = sized(desc, "desc");
        const InUse use(layer->usage);
        PlanBuilder builder(layer->context->context);
        plan_layer_backward(builder, *layer->layer, with_object(sized(given.call, "call")), given);
        builder.keep(layer->layer);
        return std::make_unique<vkattn_plan_opaque>(layer->context, builder.build());
    });
}

vkattn_result vkattn_layer_backward_measure(vkattn_layer layer, const vkattn_layer_backward_desc *desc,
                                            vkattn_measure *measure) {
    return guard([&] {
        require_given(layer, "layer");
        const vkattn_layer_backward_desc given = sized(desc, "desc");
        const InUse use(layer->usage);
        const vkattn_measure own = measured(layer->context->context, [&](PlanBuilder &builder) {
            plan_layer_backward(builder, *layer->layer, with_object(sized(given.call, "call")), given);
        });
        fill_in(measure, own, "measure");
    });
}

vkattn_result vkattn_layer_measure(vkattn_context context, const vkattn_layer_config *config,
                                   const vkattn_layer_call *call, vkattn_measure *measure) {
    return guard([&] {
        require_given(context, "context");
        const vkattn_layer_config given = sized(config, "config");
        const vkattn_layer_call given_call = sized(call, "call");
        vkattn_measure most{};
        for (const bool has_biases : {false, true}) {
            const vkattn_measure own = measured(context->context, [&](PlanBuilder &builder) {
                plan_layer(builder, Layer(context->context, given, has_biases), with_object(given_call));
            });
            if (own.workspace_bytes >= most.workspace_bytes) most = own;
        }
        fill_in(measure, most, "measure");
    });
}
