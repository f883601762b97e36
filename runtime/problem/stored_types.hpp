#pragma once

#include "vkattn/vkattn.h"

#include <cstdint>
#include <span>
#include <string>

namespace vkattn {

// The types that tensors are stored in: shaders/interface/stored_types.h as C++ asks it.

// What a type is stored in: single elements, or the blocks of quantised types. 0 elements for VKATTN_TYPE_NONE.
struct StorageBlock {
    uint32_t elements;
    uint32_t bytes;
};

struct StoredType {
    vkattn_type_info info;
    const char *name;                  // of messages: "Q8_0"
    std::span<const int8_t> entries{}; // what the numbers of a LISTED type stand for
    uint32_t fraction_bits = 0;        // of floats of 8 bits; 0: of none
};

// In the order of their numbers, from 1 on.
std::span<const StoredType> stored_types();

// The row of a type; of an unknown one and of VKATTN_TYPE_NONE one without elements.
const StoredType &stored_type(vkattn_type type);

inline const char *type_name(vkattn_type type) { return stored_type(type).name; } // "F32", "F16" ...

inline StorageBlock storage_block(vkattn_type type) {
    const vkattn_type_info &info = stored_type(type).info;
    return {info.block_elements, info.block_bytes};
}

// Bytes of so many elements, a multiple of the type's block.
uint64_t bytes_of(vkattn_type type, uint64_t elements);

// Questions of a row.
inline bool is_float(vkattn_type type) { return stored_type(type).info.kind == VKATTN_TYPE_KIND_FLOAT; }
inline bool is_quantised(vkattn_type type) { return stored_type(type).info.kind == VKATTN_TYPE_KIND_QUANTISED; }
inline bool has_minimum(vkattn_type type) { return stored_type(type).info.has_minimum != 0; }
inline bool is_key_value(vkattn_type type) { return stored_type(type).info.key_value != 0; }
inline bool is_cached(vkattn_type type) { return stored_type(type).info.cache != 0; }
inline bool is_weight(vkattn_type type) { return stored_type(type).info.weight != 0; }

// "F32, F16 or BF16": the types of which a question is true.
std::string type_names(bool (*is_one)(vkattn_type));

} // namespace vkattn
