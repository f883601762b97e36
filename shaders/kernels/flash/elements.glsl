// Eight dims of K, V and the queries on their way, and what a tile in shared memory holds of them: f32, four dims an
// element; or 16-bit values as they are stored, four dims an element where STAGED_HALVES is defined, eight where
// STAGED_WIDE_HALVES is.
#ifndef FLASH_ELEMENTS_GLSL
#define FLASH_ELEMENTS_GLSL

#include "attention/key_value.glsl"
#include "attention/query.glsl"
#include "attention/rows.glsl"

#if defined(STAGED_WIDE_HALVES)
#define ELEMENT uvec4
const uint ELEMENT_DIMS = 8;
#elif defined(STAGED_HALVES)
#define ELEMENT uvec2
const uint ELEMENT_DIMS = 4;
#else
#define ELEMENT vec4
const uint ELEMENT_DIMS = 4;
#endif

const uint ELEMENTS_OF_VECTOR = 8 / ELEMENT_DIMS;
const uint BLOCKS_OF_ELEMENT = ELEMENT_DIMS / 4;

// Of V; and numbers of a row's keys, which are f32 or pairs of f16.
#ifdef DOT_PRODUCTS
const uint VALUE_DIMS = 4, VALUE_KEYS = 2;
#define WEIGHT_ELEMENT uvec4
#define TO_WEIGHT(x) floatBitsToUint(x)
#define FROM_WEIGHT(component) uintBitsToFloat(component)
#else
const uint VALUE_DIMS = ELEMENT_DIMS, VALUE_KEYS = 1;
#define WEIGHT_ELEMENT vec4
#define TO_WEIGHT(x) (x)
#define FROM_WEIGHT(component) (component)
#endif
const uint BLOCKS_OF_VALUE = VALUE_DIMS / 4;

// Eight dims on their way into shared memory.
#if defined(STAGED_HALVES) || defined(STAGED_WIDE_HALVES)
#define VECTOR uvec4
#define LOAD_QUERY(row, dim) load_query_halves(row, dim)
#define LOAD_KEY(row, slot, dim) load_key_halves(row, slot, dim)
#define LOAD_VALUE(row, slot, dim) load_value_halves(row, slot, dim)
// The scale comes after the product: what is stored is exact.
float scale_score(float product) { return product * parameters.scale_log2; }
#else
#define VECTOR mat2x4
#define LOAD_QUERY(row, dim) (parameters.scale_log2 * load_query_vector(row, dim))
#define LOAD_KEY(row, slot, dim) load_key_vector(row, slot, dim)
#define LOAD_VALUE(row, slot, dim) load_value_vector(row, slot, dim)
float scale_score(float product) { return product; }
#endif

RowTile rows; // of the workgroup

// The vector of a row that begins at a dim. Rows are padded to so many dims; from the end on they are zeros.
uint dim_within(uint dim, const uint dims, const uint padded) {
    return padded == dims ? dim : min(dim, (dims - 1) / 8 * 8);
}

VECTOR zeros_past_end(VECTOR vector, uint dim, const uint dims, const uint padded) {
    return padded == dims || dim < dims ? vector : VECTOR(0);
}

VECTOR load_query(uint row, uint dim, const uint padded) {
    VECTOR vector = LOAD_QUERY(row_of_tile(rows, row), dim_within(dim, HEAD_DIM, padded));
    return zeros_past_end(vector, dim, HEAD_DIM, padded);
}

VECTOR load_key(Slot slot, uint dim, const uint padded) {
    VECTOR vector = LOAD_KEY(row_of_tile(rows, 0), slot, dim_within(dim, HEAD_DIM, padded));
    return zeros_past_end(vector, dim, HEAD_DIM, padded);
}

VECTOR load_value(Slot slot, uint dim, const uint padded) {
    VECTOR vector = LOAD_VALUE(row_of_tile(rows, 0), slot, dim_within(dim, V_HEAD_DIM, padded));
    return zeros_past_end(vector, dim, V_HEAD_DIM, padded);
}

// Four dims of an element.
#if defined(STAGED_WIDE_HALVES)
vec4 block_of(const uint format, uvec4 element, const uint block) {
    return expand_halves(format, block == 0 ? element.xy : element.zw);
}
#elif defined(STAGED_HALVES)
vec4 block_of(const uint format, uvec2 element, const uint block) { return expand_halves(format, element); }
#else
vec4 block_of(const uint format, vec4 element, const uint block) { return element; }
#endif

// Four dims of a vector.
#if defined(STAGED_HALVES) || defined(STAGED_WIDE_HALVES)
vec4 block_of_vector(const uint format, uvec4 vector, const uint block) {
    return expand_halves(format, block == 0 ? vector.xy : vector.zw);
}
#else
vec4 block_of_vector(const uint format, mat2x4 vector, const uint block) { return vector[block]; }
#endif

// A tile in shared memory. Where SPLIT_ELEMENTS is defined, elements of 16 bytes lie there in halves, all first ones before all
// second ones: compilers that read 8 bytes at a time would find each half of neighbouring elements in every other bank.
#if defined(SPLIT_ELEMENTS) && defined(STAGED_WIDE_HALVES)
#define TILE_ELEMENT uvec2
#elif defined(SPLIT_ELEMENTS)
#define TILE_ELEMENT vec2
#else
#define TILE_ELEMENT ELEMENT
#endif
#ifdef SPLIT_ELEMENTS
const uint SPLITS = 2;
#define GET(tile, at) ELEMENT(tile[at], tile[(at) + tile##_size])
#define PUT_ELEMENT(tile, at, element)                                                                                 \
    tile[at] = (element).xy;                                                                                           \
    tile[(at) + tile##_size] = (element).zw;
#else
const uint SPLITS = 1;
#define GET(tile, at) tile[at]
#define PUT_ELEMENT(tile, at, element) tile[at] = element;
#endif

// A tile that holds other numbers for a while.
#if defined(STAGED_HALVES) || defined(STAGED_WIDE_HALVES)
#define TO_COMPONENT(x) floatBitsToUint(x)
#define FROM_COMPONENTS(element) uintBitsToFloat(element)
#else
#define TO_COMPONENT(x) (x)
#define FROM_COMPONENTS(element) (element)
#endif
#if defined(STAGED_HALVES) || defined(SPLIT_ELEMENTS)
const uint COMPONENTS = 2;
float largest_of(vec2 v) { return max(v.x, v.y); }
float sum_of(vec2 v) { return v.x + v.y; }
#else
const uint COMPONENTS = 4;
float largest_of(vec4 v) { return max(max(v.x, v.y), max(v.z, v.w)); }
float sum_of(vec4 v) { return (v.x + v.y) + (v.z + v.w); }
#endif

// Stores a vector as elements of a tile that are `apart`.
#ifdef STAGED_WIDE_HALVES
#define PUT_APART(tile, at, apart, vector) PUT_ELEMENT(tile, at, vector)
#elif defined(STAGED_HALVES)
#define PUT_APART(tile, at, apart, vector)                                                                             \
    tile[at] = vector.xy;                                                                                              \
    tile[(at) + (apart)] = vector.zw;
#else
#define PUT_APART(tile, at, apart, vector)                                                                             \
    PUT_ELEMENT(tile, at, vector[0])                                                                                   \
    PUT_ELEMENT(tile, (at) + (apart), vector[1])
#endif
#define PUT(tile, at, vector) PUT_APART(tile, at, 1, vector)

#endif
