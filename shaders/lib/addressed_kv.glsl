// Rows of K and V through device addresses. After lib/attention_bindings.glsl, lib/sequence.glsl and lib/work.glsl.

#include "addresses.glsl"

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

// STAGED: K and V at the addresses are f32 copies of a stretch of the keys.
const uint ADDRESSED_KEY_FORMAT = STAGED != 0 ? FORMAT_F32 : KEY_FORMAT;
const uint ADDRESSED_VALUE_FORMAT = STAGED != 0 ? FORMAT_F32 : VALUE_FORMAT;

// (outermost index, row) of a key at the addresses.
uvec2 addressed_row(uint batch, uint key) {
    if (STAGED != 0) return uvec2(batch, key - push.addressed_begin);
    return key_row(batch, key);
}

uvec2 key_address(Row row, uint key) {
    uvec2 place = addressed_row(row.batch, key);
    return advance_address(addressed_keys(place.x, row.kv_head), place.y, KEY_ROW_BYTES);
}

uvec2 value_address(Row row, uint key) {
    uvec2 place = addressed_row(row.batch, key);
    return advance_address(addressed_values(place.x, row.kv_head), place.y, VALUE_ROW_BYTES);
}
