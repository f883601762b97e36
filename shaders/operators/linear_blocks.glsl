// Sixteen features of a row of a quantised weight: eight, and eight elements_to_second further on, whose numbers lie in the same
// bytes or beside them; or any eight, where EIGHT_FEATURES is defined. Loading has no branch, so that all of an invocation's loads
// are under way together; decoding waits until the features are wanted.
#ifndef LINEAR_BLOCKS_GLSL
#define LINEAR_BLOCKS_GLSL

#include "operators/linear_tensors.glsl"

// What of a block such features need; what a type does not have is never loaded.
struct StagedFeatures {
    uvec4 header; // scales, minimums and fifth bits
    uvec4 bytes;  // of the numbers, of q5_K and q6_K also their upper bits
};

// Blocks, and so all that is read of them, begin at whole words.
#define WHOLE_WORDS (bytes_of_block(WEIGHT_FORMAT) % 4 == 0)

// Bytes from an even one on, of what lies in these words and the next.
uvec2 from_even(uint at, uvec2 words, uint next) {
    if (WHOLE_WORDS) return words;
    uint shift = (at & 2) * 8;
    return words >> shift | uvec2(words.y, next) << 1 << (31 - shift);
}

// The word behind `count` words from an even byte on, as far as that reaches into it.
uint load_next(uint at, uint count) { return WHOLE_WORDS ? 0 : weight_words[at / 4 + count - 1 + (at >> 1 & 1)]; }

uint stage_half(uint at) { return weight_words[at / 4] >> (at & 2) * 8; }

uint stage_word(uint at) { return from_even(at, uvec2(weight_words[at / 4], load_next(at, 1)), 0).x; }

uvec2 stage_eight(uint at) {
    return from_even(at, uvec2(weight_words[at / 4], weight_words[at / 4 + 1]), load_next(at, 2));
}

uvec4 stage_sixteen(uint at) {
    uvec4 words =
        uvec4(weight_words[at / 4], weight_words[at / 4 + 1], weight_words[at / 4 + 2], weight_words[at / 4 + 3]);
    return uvec4(from_even(at, words.xy, words.z), from_even(at, words.zw, load_next(at, 4)));
}

StagedFeatures stage_of_super_block(uint block, uint i) {
    StagedFeatures staged = StagedFeatures(uvec4(0), uvec4(0));
    if (width_of_number(WEIGHT_FORMAT) == 6) {
        staged.header.x = stage_half(block + 208);
        staged.header.y = stage_word(block + 192 + i / 128 * 8);
        staged.header.z = stage_word(block + 196 + i / 128 * 8);
        staged.bytes.xy = stage_eight(block + i / 128 * 64 + i % 64);
        staged.bytes.zw = stage_eight(block + 128 + i / 128 * 32 + i % 32);
        return staged;
    }
    staged.header = stage_sixteen(block);
    staged.bytes.xy = stage_eight(block + bytes_of_block(WEIGHT_FORMAT) - 128 + i / 64 * 32 + i % 32);
    if (width_of_number(WEIGHT_FORMAT) == 5) staged.bytes.zw = stage_eight(block + 16 + i % 32);
    return staged;
}

// Where the block of an element of the tensor begins, in bytes of the binding.
uint weight_block_at(uint element) {
    return base_bytes(BINDING_LINEAR_WEIGHT) + block_of_element(WEIGHT_FORMAT, element);
}

// From element i of a block on; of sixteen i / elements_to_second is even.
StagedFeatures stage_of_block(uint block, uint i) {
    if (is_super_block(WEIGHT_FORMAT)) return stage_of_super_block(block, i);
    StagedFeatures staged = StagedFeatures(uvec4(0), uvec4(0));
    staged.header.x = has_minimum(WEIGHT_FORMAT) ? stage_word(block) : stage_half(block);
    if (width_of_number(WEIGHT_FORMAT) == 8) {
#ifdef EIGHT_FEATURES
        staged.bytes = stage_eight(block + 2 + i).xyxy;
#else
        staged.bytes = stage_sixteen(block + 2 + i);
#endif
        return staged;
    }
    const uint half_bytes = bytes_of_block(WEIGHT_FORMAT) - QUANTISED_BLOCK / 2;
    if (width_of_number(WEIGHT_FORMAT) == 5) staged.header.y = stage_word(block + half_bytes - 4);
    staged.bytes.xy = stage_eight(block + half_bytes + i % 16);
    return staged;
}

// element: of the tensor.
StagedFeatures stage_features(uint element) {
    return stage_of_block(weight_block_at(element), element_of_block(WEIGHT_FORMAT, element));
}

// The source of formats/blocks.glsl: what it reads of a block is one of the members, as above.
float read_half(StagedFeatures block, uint at) { return unpack_halves(block.header.x >> (at & 2) * 8).x; }

uint read_word(StagedFeatures block, uint at) {
    if (!is_super_block(WEIGHT_FORMAT)) return at == 0 ? block.header.x : block.header.y;
    if (width_of_number(WEIGHT_FORMAT) == 6) return mix(block.header.y, block.header.z, (at & 4) != 0);
    return block.header[at / 4];
}

uvec2 read_bytes(StagedFeatures block, uint begin, uint at, const uint size) {
    bool fifth_bits = is_super_block(WEIGHT_FORMAT) && width_of_number(WEIGHT_FORMAT) == 5;
    bool second = width_of_number(WEIGHT_FORMAT) == 8   ? (at & 8) != 0
                  : width_of_number(WEIGHT_FORMAT) == 6 ? size == 32
                                                        : fifth_bits && begin == 16;
    return mix(block.bytes.xy, block.bytes.zw, bvec2(second));
}

#define BLOCK StagedFeatures
#define BYTES uvec2
#define NUMBERS mat2x4
#define SELECTS
#include "formats/blocks.glsl"

#ifdef EIGHT_FEATURES
mat2x4 decode_eight(StagedFeatures staged, uint element) {
    uint i = element_of_block(WEIGHT_FORMAT, element);
    return apply_affine(WEIGHT_FORMAT, affine_of(WEIGHT_FORMAT, staged, i), numbers_of(WEIGHT_FORMAT, staged, i));
}
#else
void decode_features(StagedFeatures staged, uint element, out mat2x4 first, out mat2x4 second) {
    uint i = element_of_block(WEIGHT_FORMAT, element);
    both_of(WEIGHT_FORMAT, staged, i, first, second);
    vec2 affine_of_first, affine_of_second;
    affines_of_both(WEIGHT_FORMAT, staged, i, affine_of_first, affine_of_second);
    first = apply_affine(WEIGHT_FORMAT, affine_of_first, first);
    second = apply_affine(WEIGHT_FORMAT, affine_of_second, second);
}
#endif

#endif
