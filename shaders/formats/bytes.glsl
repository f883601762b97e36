// What formats/NAME.glsl of quantised blocks share.
#ifndef BYTES_GLSL
#define BYTES_GLSL

vec4 signed_bytes(uint bytes) {
    return vec4(bitfieldExtract(int(bytes), 0, 8), bitfieldExtract(int(bytes), 8, 8),
                bitfieldExtract(int(bytes), 16, 8), bitfieldExtract(int(bytes), 24, 8));
}

mat2x4 signed_bytes(uvec2 bytes) { return mat2x4(signed_bytes(bytes.x), signed_bytes(bytes.y)); }

// The lower half of each byte, less `above`.
vec4 half_bytes(uint bytes, float above) {
    return vec4(uvec4(bytes, bytes >> 8, bytes >> 16, bytes >> 24) & 15u) - above;
}

mat2x4 half_bytes(uvec2 bytes, float above) { return mat2x4(half_bytes(bytes.x, above), half_bytes(bytes.y, above)); }

#endif
