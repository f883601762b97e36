// Of each query row the sum of output * d_output, which every gradient of its scores needs.
//
// output, d_output [B,Hq,Lq,Dv] -> deltas [B,Hq,Lq], of packed queries [Hq,total]
// grid: (row tiles of a KV head's GROUP * Lq rows, Hkv, B), packed queries as in attention/rows.glsl; an invocation a row. The order of the sum
// is that of tiles.glsl: where a row sees one key, its delta is that key's gradient of weights to the bit, and the score's gradient 0.
// Where GRADIENT_PAIRS says so, each workgroup leaves the largest element of its rows' d_output in the carries, for matrix_tiles.glsl; first_key and
// last_key are then the sizes of the grid.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

#define HAS_GRADIENTS
#define WRITES_DELTAS
#define READS_OUTPUT

layout(local_size_x_id = 0) in;

#include "attention/carries.glsl"
#include "attention/gradients.glsl"
#include "attention/output.glsl"

shared float found[WORKGROUP_SIZE];

const uint FOURS_AT_ONCE = 8;

// The sum of the magnitudes of the row's elements of d_output.
float magnitudes = 0.0;

float delta_of(Row row) {
    uint of_output = output_element(row), of_gradient = d_output_element(row);
    uint stride = parameters.d_output_strides[3];
    const bool pairs = has(FEATURE_OUTPUT_PAIRS), gradient_pairs = (GRADIENT_PAIRS & 1u) != 0u;
    float sum = 0.0;
    // Past the last four, those once more: the loads of several are under way together, and none is behind a branch.
    const uint fours = V_HEAD_DIM / 4;
    [[dont_unroll]] for (uint first = 0; first < fours; first += FOURS_AT_ONCE) {
        vec4 o[FOURS_AT_ONCE], g[FOURS_AT_ONCE];
        [[unroll]] for (uint k = 0; k < FOURS_AT_ONCE; ++k) {
            uint dim = 4 * min(first + k, fours - 1);
            o[k] = output_load4(OUTPUT_FORMAT, pairs, of_output + dim * OUTPUT_DIM_STRIDE, OUTPUT_DIM_STRIDE);
            g[k] = d_output_load4(D_OUTPUT_FORMAT, gradient_pairs, of_gradient + dim * stride, stride);
        }
        [[unroll]] for (uint k = 0; k < FOURS_AT_ONCE; ++k) {
            // By mix(), since ?: of sums is a branch: SwiftShader took ten times as long to compile with each four of them more.
            bool counts = fours % FOURS_AT_ONCE == 0 || first + k < fours;
            float with_these = sum;
            [[unroll]] for (uint i = 0; i < 4; ++i) with_these = fma(g[k][i], o[k][i], with_these);
            sum = mix(sum, with_these, counts);
            magnitudes += mix(0.0, dot(abs(g[k]), vec4(1)), counts);
        }
    }
    for (uint dim = V_HEAD_DIM / 4 * 4; dim < V_HEAD_DIM; ++dim) {
        float gradient = d_output_load(D_OUTPUT_FORMAT, of_gradient + dim * stride);
        sum = fma(gradient, output_load(OUTPUT_FORMAT, of_output + dim * OUTPUT_DIM_STRIDE), sum);
        magnitudes += abs(gradient);
    }
    return sum;
}

// The largest sum of the workgroup's rows, and which sequence's and KV head's they are.
void leave_largest(RowTile rows) {
    found[gl_LocalInvocationID.x] = magnitudes;
    barrier();
    if (gl_LocalInvocationID.x != 0) return;
    float largest = magnitudes;
    for (uint i = 1; i < WORKGROUP_SIZE; ++i) largest = max(largest, found[i]);
    uint at = 2 * ((workgroup().z * push.last_key + workgroup().y) * push.first_key + workgroup().x);
    carries[carry_element(at)] = largest;
    carries[carry_element(at + 1)] = uintBitsToFloat(rows.batch * parameters.kv_heads + rows.kv_head);
}

void main() {
    RowTile rows = row_tile_of_grid(workgroup().x, WORKGROUP_SIZE);
    uint own = gl_LocalInvocationID.x;
    if (rows.first + own < rows.end) {
        Row row = row_of_tile(rows, own);
        deltas[base_bytes(BINDING_DELTA) / 4 + log_sum_exp_index(row)] = delta_of(row);
    }
    if ((GRADIENT_PAIRS & GRADIENTS_LARGEST) != 0u) leave_largest(rows);
}
