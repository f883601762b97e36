// Loads through device addresses, four neighbouring elements each.
#ifndef ADDRESS_LOADS_GLSL
#define ADDRESS_LOADS_GLSL

#include "common/halves.glsl"
#include "common/quantised.glsl"

// More than what is loaded from one address: arrays without a size make older glslangs ask for a capability of
// descriptor arrays, which no kernel needs.
const uint BLOCKS_IN_REACH = 1 << 24;

layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Blocks32 {
    vec4 values[BLOCKS_IN_REACH];
};
// Loads of 64 bits that ask for no 64-bit arithmetic.
layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer Wide { uint unused; };
layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer WideWords {
    Wide values[BLOCKS_IN_REACH];
};
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer Words { uint values[BLOCKS_IN_REACH]; };

const uint BLOCKS_OF_SCALE = QUANTISED_BLOCK / 4;

uint bytes_of_blocks(const uint format, uint blocks) {
    if (is_quantised(format)) return quantised_block(format, 4 * blocks);
    return blocks * (format == FORMAT_F32 ? 16 : 8);
}

// The address `count` times `bytes` further on. What is loaded from it at constant indices costs no more arithmetic.
uvec2 advance_address(uvec2 address, uint count, uint bytes) {
    uint high, low, carry;
    umulExtended(count, bytes, high, low);
    low = uaddCarry(address.x, low, carry);
    return uvec2(low, address.y + high + carry);
}

// Of a quantised row that begins at a whole word, so many bytes after the address: the scale of four neighbours, from
// `element` (a multiple of 4) on, and they without it.
float load_quantised_scale(const uint format, uvec2 address, uint bytes, uint element) {
    uint block = bytes + quantised_block(format, element);
    return quantised_scale(Words(address).values[block / 4], block);
}

vec4 load_quantised_values(const uint format, uvec2 address, uint bytes, uint element) {
    uint i = element % QUANTISED_BLOCK, at = bytes + quantised_block(format, element) + quantised_byte(format, i);
    uint word = Words(address).values[at / 4];
    if ((at & 2) != 0) word = (word >> 16) | (Words(address).values[at / 4 + 1] << 16);
    return quantised_values(format, word, i);
}

// Of a row so many bytes after an address that is the same for every invocation; of a quantised one without the scale.
vec4 load_uniform_block(const uint format, uvec2 address, uint bytes, uint block) {
    if (format == FORMAT_F32) return Blocks32(address).values[bytes / 16 + block];
    if (is_quantised(format)) return load_quantised_values(format, address, bytes, 4 * block);
    uint word = bytes / 4 + 2 * block;
    return expand_halves(format, uvec2(Words(address).values[word], Words(address).values[word + 1]));
}

// What such a block is to be multiplied by, the same for BLOCKS_OF_SCALE of them.
float load_uniform_scale(const uint format, uvec2 address, uint bytes, uint block) {
    return is_quantised(format) ? load_quantised_scale(format, address, bytes, 4 * block) : 1.0;
}

// At an address that differs between invocations: a CPU driver gathers 64 bits as fast as 32.
vec4 load_own_block(const uint format, uvec2 address, uint block) {
    if (is_quantised(format))
        return load_quantised_scale(format, address, 0, 4 * block) *
               load_quantised_values(format, address, 0, 4 * block);
    WideWords words = WideWords(address);
    if (format != FORMAT_F32) return expand_halves(format, uvec2(words.values[block]));
    return uintBitsToFloat(uvec4(uvec2(words.values[2 * block]), uvec2(words.values[2 * block + 1])));
}

#endif
