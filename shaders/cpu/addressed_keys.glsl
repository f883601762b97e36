// Rows of K and V through device addresses.
#ifndef ADDRESSED_KEYS_GLSL
#define ADDRESSED_KEYS_GLSL

#include "attention/keys.glsl"
#include "cpu/address_loads.glsl"

// The first row of a (batch, KV head).
uvec2 addressed_keys(uint batch, uint kv_head) {
    uvec2 address = uvec2(push.key_address[0], push.key_address[1]);
    address = advance_address(address, batch, parameters.addressed_strides.x);
    return advance_address(address, kv_head, parameters.addressed_strides.y);
}

uvec2 addressed_values(uint batch, uint kv_head) {
    uvec2 address = uvec2(push.value_address[0], push.value_address[1]);
    address = advance_address(address, batch, parameters.addressed_strides.z);
    return advance_address(address, kv_head, parameters.addressed_strides.w);
}

const uint ADDRESSED_KEY_FORMAT = STAGED != 0 ? FORMAT_F32 : KEY_FORMAT;
const uint ADDRESSED_VALUE_FORMAT = STAGED != 0 ? FORMAT_F32 : VALUE_FORMAT;

// (outermost index, row) of a slot at the addresses. Clamped, because some CPU drivers run code with every lane off: a
// slot is then any number, and loads through addresses are not checked.
uvec2 addressed_row(Row row, Slot slot) {
    slot.number = clamp(slot.number, push.addressed_begin, push.addressed_end - 1);
    if (STAGED != 0) return uvec2(row.batch, slot.number - push.addressed_begin);
    return row_of_slot(row, slot);
}

// What copies hold is scaled already.
float addressed_key_scale(Row row, Key key) { return STAGED != 0 ? 1.0 : key_scale(row, key); }
float addressed_value_scale(Row row, Key key) { return STAGED != 0 ? 1.0 : value_scale(row, key); }

uvec2 key_address(Row row, Slot slot) {
    uvec2 at = addressed_row(row, slot);
    return advance_address(addressed_keys(at.x, row.kv_head), at.y, KEY_ROW_BYTES);
}

uvec2 value_address(Row row, Slot slot) {
    uvec2 at = addressed_row(row, slot);
    return advance_address(addressed_values(at.x, row.kv_head), at.y, VALUE_ROW_BYTES);
}

#endif
