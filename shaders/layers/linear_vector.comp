// The linear of linear.comp for few rows: bound by reading the weights, once for all rows. LANES neighbours share a row
// of the weight.
//
// grid: (output tiles times row tiles, 1, groups); a workgroup computes LINEAR_VECTOR_OUTPUTS values of each of ROWS rows,
// its neighbours those of the other rows
// shared memory: LINEAR_VECTOR_ROWS f32 an invocation; the lanes' sums are added in an order that never changes
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x = 64) in;

#include "layers/linear_features.glsl"
#include "layers/linear_tensors.glsl"

const uint LANES = LINEAR_WORKGROUP_SIZE / LINEAR_VECTOR_OUTPUTS;

shared float lane_sums[LINEAR_VECTOR_ROWS * LINEAR_WORKGROUP_SIZE]; // [row][output][lane]

// Of every LANES-th eight input features, from this lane's first; of quantised weights every LANES-th two eights whose weights
// lie in the same bytes.
void sum_lane(uint first_row, uint o, uint lane) {
    float sums[LINEAR_VECTOR_ROWS];
    uint rows[LINEAR_VECTOR_ROWS]; // elements of their first features
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        sums[r] = 0.0;
        rows[r] = input_element(min(first_row + r, push.rows - 1), 0);
    }
    uint weight_row = weight_element(o, 0);
#ifdef QUANTISED_WEIGHT
    const uint to_second = elements_to_second(WEIGHT_FORMAT), places = to_second / FEATURES;
    for (uint i = lane; i < push.in_features / (2 * FEATURES); i += LANES) {
        uint feature = i / places * 2 * to_second + i % places * FEATURES;
        mat2x4 w, second_w;
        weight_load_both(WEIGHT_FORMAT, weight_row + feature, w, second_w);
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            mat2x4 x = load_input_features(rows[r], feature);
            mat2x4 second_x = load_input_features(rows[r], feature + to_second);
            sums[r] += dot(x[0], w[0]) + dot(x[1], w[1]);
            sums[r] += dot(second_x[0], second_w[0]) + dot(second_x[1], second_w[1]);
        }
    }
#else
    for (uint feature = FEATURES * lane; feature < push.in_features; feature += FEATURES * LANES) {
        mat2x4 w = load_weight_features(weight_row, feature);
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            mat2x4 x = load_input_features(rows[r], feature);
            sums[r] += dot(x[0], w[0]) + dot(x[1], w[1]);
        }
    }
#endif
    [[unroll]] for (uint r = 0; r < ROWS; ++r) lane_sums[r * LINEAR_WORKGROUP_SIZE + gl_LocalInvocationID.x] = sums[r];
}

void main() {
    uint lane = gl_LocalInvocationID.x % LANES;
    uint row_tiles = (push.rows + ROWS - 1) / ROWS, first_row = workgroup().x % row_tiles * ROWS;
    uint o = workgroup().x / row_tiles * LINEAR_VECTOR_OUTPUTS + gl_LocalInvocationID.x / LANES;
    if (o < push.out_features) sum_lane(first_row, o, lane);
    barrier();                   // all sums are there
    uint row = first_row + lane; // as many lanes finish a row each
    if (lane >= ROWS || row >= push.rows || o >= push.out_features) return;
    float sum = 0.0;
    for (uint i = 0; i < LANES; ++i) sum += lane_sums[lane * LINEAR_WORKGROUP_SIZE + gl_LocalInvocationID.x - lane + i];
    output_store(OUTPUT_FORMAT, output_element(row, o), finish(sum, row, o));
}
