// A step of the backward pass for devices that run straight code fast: an invocation's own vectors, and STEP rows that pass by, in f32
// at addresses that are the same for the whole workgroup, each of a first vector, K or Q, and of a second one, V or d_output.
#ifndef BACKWARD_STEP_GLSL
#define BACKWARD_STEP_GLSL

#include "cpu/address_loads.glsl"
#include "cpu/both_ends.glsl"
#include "kernels/backward/weights.glsl"

const uint BLOCKS = HEAD_DIM / 4;
const uint V_BLOCKS = V_HEAD_DIM / 4;

vec4 own_first[BLOCKS], own_second[V_BLOCKS];
float weights[STEP], gradients[STEP]; // the two products of each row, then its weight and the gradient of its score

// Of a (batch, head), where its rows of both kinds lie.
struct PassingRows {
    uvec2 first;
    uvec2 second;
};

PassingRows passing_rows(uint batch, uint head) {
    uvec2 first = uvec2(push.key_address[0], push.key_address[1]);
    uvec2 second = uvec2(push.value_address[0], push.value_address[1]);
    first = advance_address(first, batch, parameters.addressed_strides.x);
    second = advance_address(second, batch, parameters.addressed_strides.z);
    return PassingRows(advance_address(first, head, parameters.addressed_strides.y),
                       advance_address(second, head, parameters.addressed_strides.w));
}

PassingRows advance_rows(PassingRows rows, uint count) {
    return PassingRows(advance_address(rows.first, count, KEY_ROW_BYTES),
                       advance_address(rows.second, count, VALUE_ROW_BYTES));
}

// The same rows once more, which no compiler knows: it would keep what it has loaded, a vector for each number, where loading it again
// is free.
PassingRows same_rows(PassingRows rows) { return advance_rows(rows, push.first_key); } // 0

// The row from which a step reads that wants `row` first: one whose last row exists. No row lies outside, whatever is asked: some CPU
// drivers run code with every lane off, and loads through addresses are not checked.
uint first_of_step(uint row) { return min(row, push.addressed_end - STEP); }

#define PASSING(address, row_bytes, k, d) load_uniform_block(FORMAT_F32, address, (k) * (row_bytes), d)

#define MULTIPLY(products, own, blocks, address, row_bytes)                                                            \
    [[unroll]] for (uint k = 0; k < STEP; ++k) products[k] = 0.0;                                                      \
    [[unroll]] for (uint d = 0; d < (blocks); ++d) {                                                                   \
        vec4 passing[STEP];                                                                                            \
        [[unroll]] for (uint k = 0; k < STEP; ++k) passing[k] = PASSING(address, row_bytes, k, d);                     \
        [[unroll]] for (uint c = 0; c < 4; ++c) [[unroll]] for (uint k = 0; k < STEP; ++k) products[k] =               \
            fma(own[d][c], passing[k][c], products[k]);                                                                \
    }

// The step's own sum first: a long context then adds few numbers to a large one.
#define ADD(sums, factors, blocks, address, row_bytes)                                                                 \
    [[unroll]] for (uint d = 0; d < (blocks); ++d) {                                                                   \
        vec4 passing[STEP];                                                                                            \
        [[unroll]] for (uint k = 0; k < STEP; ++k) passing[k] = PASSING(address, row_bytes, k, d);                     \
        vec4 sum = factors[0] * passing[0];                                                                            \
        [[unroll]] for (uint c = 0; c < 4; ++c) [[unroll]] for (uint k = 1; k < STEP; ++k) sum[c] =                    \
            fma(factors[k], passing[k][c], sum[c]);                                                                    \
        sums[d] += sum;                                                                                                \
    }

void multiply_step(PassingRows rows) {
    MULTIPLY(weights, own_first, BLOCKS, rows.first, KEY_ROW_BYTES)
    MULTIPLY(gradients, own_second, V_BLOCKS, rows.second, VALUE_ROW_BYTES)
}

void take_finished(const uint k, vec2 finished) {
    weights[k] = finished.x;
    gradients[k] = finished.y;
}

float product_of(const uint k) { return parameters.scale_log2 * weights[k]; }

// Carefully: one row at a time, whose elements count only where its factor is not 0. Loops over dims are kept as loops: unrolled, a CPU
// driver compiles them for many seconds. Only some invocations come here, so each has an address of its own: of one that is the same for
// all, llvmpipe asks the first invocation, which may be none of them.
PassingRows own_rows(PassingRows rows) { return advance_rows(rows, gl_LocalInvocationID.x & push.first_key); } // 0

#define DOT(sum, own_block, blocks, address)                                                                           \
    [[dont_unroll]] for (uint d = 0; d < (blocks); ++d) sum +=                                                         \
        dot(own_block(min(d, (blocks)-1)), load_own_block(FORMAT_F32, address, min(d, (blocks)-1)));
#define ADD_SEEN(sums, factor, blocks, address)                                                                        \
    if (factor != 0.0) [[dont_unroll]]                                                                                 \
        for (uint d = 0; d < (blocks); ++d) sums[d] += factor * load_own_block(FORMAT_F32, address, min(d, (blocks)-1));

const uvec4 EXPONENT = uvec4(0x7f800000u); // all set: infinite or not a number
#define ARE_FINITE(finite, sums, blocks)                                                                               \
    {                                                                                                                  \
        uvec4 largest = uvec4(0);                                                                                      \
        [[unroll]] for (uint d = 0; d < (blocks); ++d) largest = max(largest, floatBitsToUint(sums[d]) & EXPONENT);    \
        finite = finite && all(lessThan(largest, EXPONENT));                                                           \
    }

float scale_of_sums() { return parameters.scale_log2 * LN_2; }

#endif
