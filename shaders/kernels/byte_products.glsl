// Products of the queries with K of q8_0, four bytes an instruction, by half blocks: sixteen dims. A query's sixteen are numbers of 16 bits
// with a scale of their own: 256 * high + low, of signed bytes, whose products with those of K are summed exactly.
#ifndef BYTE_PRODUCTS_GLSL
#define BYTE_PRODUCTS_GLSL

#include "kernels/flash/elements.glsl"

// OpSDotKHR with the capabilities DotProductKHR and DotProductInput4x8BitPackedKHR; format 0: PackedVectorFormat4x8BitKHR
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [ 6019, 6018 ],
                  id = 4450) int dot_of_packed(uint a, uint b, spirv_literal int format);

// And the sum of more.
int add_products(uvec4 a, uvec4 b, int sum) {
    sum += dot_of_packed(a.x, b.x, 0);
    sum += dot_of_packed(a.y, b.y, 0);
    sum += dot_of_packed(a.z, b.z, 0);
    sum += dot_of_packed(a.w, b.w, 0);
    return sum;
}

const uint HALF_BLOCK = 16;

struct QueryNumbers {
    uvec4 high, low;
    float scale;
};

// Half a block of K or V.
struct HalfBlock {
    uvec4 bytes;
    float scale;
};

// The lowest byte of each.
uint pack_bytes(ivec4 numbers) {
    uvec4 bytes = uvec4(numbers) & 255u;
    return (bytes.x | bytes.y << 8) | (bytes.z << 16 | bytes.w << 24);
}

// What is no number, or infinite, makes the scale so, and with it every score.
QueryNumbers query_numbers(mat2x4 first, mat2x4 second) {
    const float largest_number = 32639.0; // 256 * 127 + 127
    vec4 dims[4] = {first[0], first[1], second[0], second[1]};
    uvec4 bits = uvec4(0);
    for (uint i = 0; i < 4; ++i) bits = max(bits, floatBitsToUint(abs(dims[i]))); // NaN is beyond infinity
    float largest = uintBitsToFloat(max(max(bits.x, bits.y), max(bits.z, bits.w)));
    float inverse = largest > 1e-30 && largest < 1e38 ? largest_number / largest : 0.0;
    QueryNumbers query;
    query.scale = largest / largest_number;
    for (uint i = 0; i < 4; ++i) {
        ivec4 numbers = ivec4(roundEven(dims[i] * inverse));
        query.high[i] = pack_bytes((numbers + 128) >> 8);
        query.low[i] = pack_bytes(numbers);
    }
    return query;
}

// Bytes of a row before an element of it, or before a row: a multiple of a block.
uint bytes_before(uint element) { return block_of_element(FORMAT_Q8_0, element); }
uint bytes_before_row(uint element) { return element + element / 16; }

// Sixteen bytes, from the middle of the first word on, or from the second.
uvec4 join_words(uvec4 words, uint last, bool from_middle) {
    uvec4 following = uvec4(words.yzw, last);
    return mix(following, words >> 16 | following << 16, bvec4(from_middle));
}

// Dims from one on that is below the padded number; from the row's end on they are zeros. No word is read that is not of the block.
HalfBlock load_key_half(Slot slot, uint dim, const uint padded) {
    uint seen = padded == HEAD_DIM ? dim : min(dim, HEAD_DIM - HALF_BLOCK);
    uint block =
        base_bytes(BINDING_KEY) + bytes_before_row(key_element(row_of_tile(rows, 0), slot)) + bytes_before(seen);
    uint at = block + 2 + seen % 32, word = (at - 2) / 4;
    uvec4 words = uvec4(key_words[word], key_words[word + 1], key_words[word + 2], key_words[word + 3]);
    uvec4 bytes = join_words(words, key_words[word + 4], (at & 2) != 0);
    return HalfBlock(seen == dim ? bytes : uvec4(0), read_half(key_Quads(block), 0));
}

HalfBlock load_value_half(Slot slot, uint dim, const uint padded) {
    uint seen = padded == V_HEAD_DIM ? dim : min(dim, V_HEAD_DIM - HALF_BLOCK);
    uint block =
        base_bytes(BINDING_VALUE) + bytes_before_row(value_element(row_of_tile(rows, 0), slot)) + bytes_before(seen);
    uint at = block + 2 + seen % 32, word = (at - 2) / 4;
    uvec4 words = uvec4(value_words[word], value_words[word + 1], value_words[word + 2], value_words[word + 3]);
    uvec4 bytes = join_words(words, value_words[word + 4], (at & 2) != 0);
    return HalfBlock(seen == dim ? bytes : uvec4(0), read_half(value_Quads(block), 0));
}

float product(QueryNumbers query, HalfBlock key) {
    int sum = add_products(query.low, key.bytes, 256 * add_products(query.high, key.bytes, 0));
    return float(sum) * key.scale * query.scale;
}

#endif
