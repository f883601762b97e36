// Loads through device addresses, four neighbouring elements each.
#ifndef ADDRESS_LOADS_GLSL
#define ADDRESS_LOADS_GLSL

#include "formats/elements.glsl"

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
    if (is_quantised(format)) return block_of_element(format, 4 * blocks);
    return blocks * 4 * bytes_of_block(format);
}

// The address `count` times `bytes` further on. What is loaded from it at constant indices costs no more arithmetic.
uvec2 advance_address(uvec2 address, uint count, uint bytes) {
    uint high, low, carry;
    umulExtended(count, bytes, high, low);
    low = uaddCarry(address.x, low, carry);
    return uvec2(low, address.y + high + carry);
}

struct AddressedBlock {
    uvec2 address;
    uint begin; // so many bytes after the address
};

float read_half(AddressedBlock block, uint at) {
    at += block.begin;
    return unpack_halves(Words(block.address).values[at / 4] >> ((at & 2) * 8)).x;
}

uint read_word(AddressedBlock block, uint at) {
    at += block.begin;
    uint word = Words(block.address).values[at / 4];
    uint next = Words(block.address).values[at / 4 + (at & 2) / 2];
    return (at & 2) != 0 ? word >> 16 | next << 16 : word;
}

uint read_bytes(AddressedBlock block, uint begin, uint at, const uint size) { return read_word(block, begin + at); }

#define BLOCK AddressedBlock
#define BYTES uint
#define NUMBERS vec4
#include "formats/blocks.glsl"

// Of a quantised row that begins at a whole word, so many bytes after the address: (scale, minimum) of four neighbours, from
// `element` (a multiple of 4) on, and their numbers.
vec2 load_quantised_affine(const uint format, uvec2 address, uint bytes, uint element) {
    AddressedBlock block = AddressedBlock(address, bytes + block_of_element(format, element));
    return affine_of(format, block, element_of_block(format, element));
}

vec4 load_quantised_numbers(const uint format, uvec2 address, uint bytes, uint element) {
    AddressedBlock block = AddressedBlock(address, bytes + block_of_element(format, element));
    return numbers_of(format, block, element_of_block(format, element));
}

// Of a row so many bytes after an address that is the same for every invocation; of a quantised one the numbers.
vec4 load_uniform_block(const uint format, uvec2 address, uint bytes, uint block) {
    if (is_quantised(format)) return load_quantised_numbers(format, address, bytes, 4 * block);
    if (bytes_of_block(format) == 4) return Blocks32(address).values[bytes / 16 + block];
    uint word = bytes / 4 + 2 * block;
    return expand_halves(format, uvec2(Words(address).values[word], Words(address).values[word + 1]));
}

// What such a block is to be multiplied by, and what is to be added, the same for BLOCKS_OF_SCALE of them.
vec2 load_uniform_affine(const uint format, uvec2 address, uint bytes, uint block) {
    return is_quantised(format) ? load_quantised_affine(format, address, bytes, 4 * block) : vec2(1, 0);
}

// At an address that differs between invocations: a CPU driver gathers 64 bits as fast as 32.
vec4 load_own_block(const uint format, uvec2 address, uint block) {
    if (is_quantised(format))
        return apply_affine(format, load_quantised_affine(format, address, 0, 4 * block),
                            load_quantised_numbers(format, address, 0, 4 * block));
    WideWords words = WideWords(address);
    uvec4 bits;
    if (bytes_of_block(format) == 2)
        bits.xy = uvec2(words.values[block]);
    else
        bits = uvec4(uvec2(words.values[2 * block]), uvec2(words.values[2 * block + 1]));
    return element_values(format, bits);
}

#endif
