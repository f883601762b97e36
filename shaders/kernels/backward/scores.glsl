// The products of a tile of own ones and a tile that passes by, and what they become.
//
// With OF_CAPTURED in place of weights the products stay.
//
// Before: of a pair of an own one and one that passes by, row_of_pair, key_of_pair, and times_seen, how often the row goes through the
// key; numbers_of_pair, where row_numbers has the row's.
#ifndef BACKWARD_SCORES_GLSL
#define BACKWARD_SCORES_GLSL

#include "attention/key_value.glsl"
#include "attention/query.glsl"
#include "kernels/backward/weights.glsl"
// Eight dims, from a multiple of 8 on; zeros past the end. Matrices are of rows of 16 bits in whole vectors, as they are stored.
#ifdef MATRICES
#define VECTOR uvec4 // eight dims on their way
// No load is under a branch, so that several are under way together.
#define DIM_THAT_IS(dim, dims) min(dim, (dims)-8)
#define WITHIN(dim, dims, loaded)                                                                                      \
    (HEAD_DIM == V_HEAD_DIM && HEAD_DIM % (MATRIX_K > 8 ? MATRIX_K : 8) == 0 || (dim) < (dims) ? loaded : VECTOR(0))
VECTOR load_query_of(Row row, uint dim) {
    return WITHIN(dim, HEAD_DIM, load_query_halves(row, DIM_THAT_IS(dim, HEAD_DIM)));
}
VECTOR load_d_output_of(Row row, uint dim) {
    return WITHIN(dim, V_HEAD_DIM, d_output_load8_halves(d_output_element(row) + DIM_THAT_IS(dim, V_HEAD_DIM)));
}
#define LOAD_KEY(element, dim) WITHIN(dim, HEAD_DIM, key_load8_halves((element) + DIM_THAT_IS(dim, HEAD_DIM)))
#define LOAD_VALUE(element, dim) WITHIN(dim, V_HEAD_DIM, value_load8_halves((element) + DIM_THAT_IS(dim, V_HEAD_DIM)))
#else
#define VECTOR mat2x4
// Whether tiles have no dim past the end: no load is under a branch then, so that several are under way together. Not on CPU drivers:
// llvmpipe takes a null pointer for what it loads in a loop that it runs through without lanes, but where a branch skips it.
const uint DIMS_OF_BLOCKS = 4 * COLUMNS > DIMS_OF_CHUNK ? 4 * COLUMNS : DIMS_OF_CHUNK;
const uint GUARDED = GRADIENTS_UNGUARDED - (GRADIENT_PAIRS & GRADIENTS_UNGUARDED);
const bool FIRST_ARE_WHOLE = HEAD_DIM % DIMS_OF_BLOCKS + GUARDED == 0;
const bool SECOND_ARE_WHOLE = V_HEAD_DIM % DIMS_OF_BLOCKS + GUARDED == 0;
VECTOR load_query_of(Row row, uint dim) {
    return FIRST_ARE_WHOLE || dim < HEAD_DIM ? load_query_vector(row, dim) : VECTOR(0);
}
VECTOR load_d_output_of(Row row, uint dim) {
    return SECOND_ARE_WHOLE || dim < V_HEAD_DIM ? load_d_output_vector(row, dim) : VECTOR(0);
}
#define LOAD_KEY(element, dim)                                                                                         \
    FIRST_ARE_WHOLE || dim < HEAD_DIM ? key_load_vector(KEY_FORMAT, has(FEATURE_KEY_PAIRS), has(FEATURE_KEY_ALIGNED),  \
                                                        element, dim, HEAD_DIM, KEY_DIM_STRIDE)                        \
                                      : VECTOR(0)
#define LOAD_VALUE(element, dim)                                                                                       \
    SECOND_ARE_WHOLE || dim < V_HEAD_DIM                                                                               \
        ? value_load_vector(VALUE_FORMAT, has(FEATURE_VALUE_PAIRS), has(FEATURE_VALUE_ALIGNED), element, dim,          \
                            V_HEAD_DIM, VALUE_DIM_STRIDE)                                                              \
        : VECTOR(0)
#endif

VECTOR load_key_of(uint batch, uint kv_head, Key key, uint dim) {
    uint element = element_of_key(row_of_key(batch, key), kv_head, parameters.key_strides);
    return LOAD_KEY(element, dim);
}

VECTOR load_value_of(uint batch, uint kv_head, Key key, uint dim) {
    uint element = element_of_key(row_of_key(batch, key), kv_head, parameters.value_strides);
    return LOAD_VALUE(element, dim);
}

vec2 finish_pair(uint own, uint passing, float product, float gradient, bool all_visible);

#ifdef MATRICES
#include "kernels/backward/matrix_tiles.glsl"
#else
#include "kernels/backward/tiles.glsl"
#endif

vec2 finish_pair(uint own, uint passing, float product, float gradient, bool all_visible) {
    vec2 numbers = row_numbers_at(numbers_of_pair(own, passing));
    if (is_plain(all_visible)) return finish_plain(product, gradient, numbers);
    Row row = row_of_pair(own, passing);
    vec2 finished = finish_masked(product, gradient, numbers, row, key_of_pair(own, passing),
                                  times_seen(row, own, passing), all_visible);
#ifdef OF_CAPTURED
    finished.x = product;
#endif
    return finished;
}

// What sums of score gradients times Q or K are multiplied with.
float scale_of_sums() { return parameters.scale_log2 * LN_2 * unit_of_score_gradients(); }

#endif
