// The tensor output [B,Hq,Lq,Dv], or packed [1,Hq,total,Dv]. READS_OUTPUT: the kernel reads it, and does not write it.
#ifndef OUTPUT_GLSL
#define OUTPUT_GLSL

#include "attention/rows.glsl"
#ifdef OUTPUT_MOD
#include "attention/functions.glsl"
#endif

#define TENSOR output
#define TENSOR_BINDING BINDING_OUTPUT
#ifndef READS_OUTPUT
#define TENSOR_WRITABLE
#endif
#include "common/tensor.glsl"

uint output_element(Row row) {
    return row.batch * parameters.output_strides[0] + row.query_head * parameters.output_strides[1] +
           query_row(row.batch, row.position) * parameters.output_strides[2];
}

// Neighbours from element `element` of a row on, as the user's output_mod makes them; of those past its end, the last one's.
#ifdef OUTPUT_MOD
float modify_output(float value, Row row, uint element) {
    return output_mod(value, batch_of(row), head_of(row), query_of(row), min(element, V_HEAD_DIM - 1));
}
vec2 modify_output(vec2 pair, Row row, uint element) {
    return vec2(modify_output(pair.x, row, element), modify_output(pair.y, row, element + 1));
}
vec4 modify_output(vec4 block, Row row, uint element) {
    return vec4(modify_output(block.xy, row, element), modify_output(block.zw, row, element + 2));
}
#else
#define modify_output(values, row, element) (values)
#endif

#ifndef READS_OUTPUT
// Two neighbours from element `element` on, both of this invocation.
void store_output_pair(uint element, vec2 pair) {
    output_store2(OUTPUT_FORMAT, has(FEATURE_OUTPUT_PAIRS), element, OUTPUT_DIM_STRIDE, pair);
}

// Dims `dim` (a multiple of 4) to `dim + 3` of a row; those past its end are left out.
void store_output_block(uint row_element, uint dim, vec4 block) {
    [[unroll]] for (uint pair = 0; pair < 4; pair += 2) {
        uint at = row_element + (dim + pair) * OUTPUT_DIM_STRIDE;
        if (dim + pair + 2 <= V_HEAD_DIM)
            store_output_pair(at, pair == 0 ? block.xy : block.zw);
        else if (dim + pair < V_HEAD_DIM)
            output_store(OUTPUT_FORMAT, at, block[pair]);
    }
}
#endif

#endif
