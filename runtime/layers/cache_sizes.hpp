#pragma once

#include "runtime/problem/rotation.hpp"

namespace vkattn {

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
};

} // namespace vkattn
