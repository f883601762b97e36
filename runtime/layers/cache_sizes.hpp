#pragma once

#include "runtime/problem/rotation.hpp"

#include <vector>

namespace vkattn {

// The scales of a part of a cache; specified in vkattn/layers.h at vkattn_cache_info.
struct PartScales {
    vkattn_scaling scaling = VKATTN_SCALING_NONE;
    std::vector<float> numbers{}; // of TENSOR and HEAD
    bool operator==(const PartScales &) const = default;
};

// The sizes of a cache; specified in vkattn.h at vkattn_cache_info.
struct CacheSizes {
    uint32_t batch;
    uint32_t capacity; // tokens
    uint32_t heads;
    uint32_t key_width;   // elements of a token and head
    uint32_t value_width; // 0: the values are part of the keys
    vkattn_type key_type;
    vkattn_type value_type;
    uint32_t page_len; // tokens; 0: no pages
    uint32_t page_count;
    KvRotation rotation;
    PartScales key_scales, value_scales;
};

} // namespace vkattn
