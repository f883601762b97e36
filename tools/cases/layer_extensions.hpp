// What a layer's configuration points to.
#pragma once

#include <vkattn/vkattn.h>

#include <memory>
#include <vector>

namespace vkattn::tools {

// The factors of LongRoPE, as rope_scaling.next has them.
struct RopeFactors {
    std::vector<float> values;
    vkattn_rope_factors extension{};
};

// Gives a layer an indexer; what is returned must live as long as the configuration.
inline std::shared_ptr<const vkattn_layer_indexer> add_indexer(vkattn_layer_config &layer,
                                                               const vkattn_layer_indexer &indexer) {
    auto kept = std::make_shared<vkattn_layer_indexer>(indexer);
    kept->extension = {VKATTN_EXTENSION_LAYER_INDEXER, nullptr};
    layer.next = kept.get();
    return kept;
}

} // namespace vkattn::tools
