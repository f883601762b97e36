// The linear of linear.comp for few rows: bound by reading the weights, once for all rows. LANES neighbours share a row
// of the weight. With NORM_FORMAT the rows of the input are normalised (RMSNorm: Zhang and Sennrich, 2019): each lane weighs and
// squares what it loads, and the sum is divided at the end.
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

#define TENSOR norm
#define TENSOR_BINDING BINDING_LINEAR_NORM
#define TENSOR_VECTORS
#include "common/tensor.glsl"

const uint LANES = LINEAR_WORKGROUP_SIZE / LINEAR_VECTOR_OUTPUTS;

const uint SUMS = LINEAR_VECTOR_ROWS * LINEAR_WORKGROUP_SIZE;
const uint ROWS_TO_NORMALISE = NORM_FORMAT != FORMAT_NONE ? LINEAR_VECTOR_ROWS : 1;

shared float lane_sums[SUMS]; // [row][output][lane]
shared float lane_squares[NORM_FORMAT != FORMAT_NONE ? SUMS : 1];

float squares[ROWS_TO_NORMALISE];

mat2x4 load_norm_features(uint feature) {
    if ((ALIGNED & ALIGNED_NORM) != 0) return norm_load8(NORM_FORMAT, feature);
    mat2x4 features = mat2x4(0);
    for (uint i = 0; i < min(FEATURES, push.in_features - feature); ++i)
        features[i / 4][i % 4] = norm_load(NORM_FORMAT, feature + i);
    return features;
}

// weights: of the norm, of the same features; read where there is one.
mat2x4 load_normed_features(const uint r, uint row, uint feature, mat2x4 weights) {
    mat2x4 x = load_input_features(row, feature);
    if (NORM_FORMAT == FORMAT_NONE) return x;
    squares[r] += dot(x[0], x[0]) + dot(x[1], x[1]);
    return matrixCompMult(x, weights);
}

mat2x4 norm_weights(uint feature) { return NORM_FORMAT == FORMAT_NONE ? mat2x4(0) : load_norm_features(feature); }

// Of every LANES-th eight input features, from this lane's first; of quantised weights every LANES-th two eights whose weights
// lie in the same bytes.
void sum_lane(uint first_row, uint o, uint lane) {
    float sums[LINEAR_VECTOR_ROWS];
    uint rows[LINEAR_VECTOR_ROWS]; // elements of their first features
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        sums[r] = 0.0;
        if (NORM_FORMAT != FORMAT_NONE) squares[r] = 0.0;
        rows[r] = input_element(min(first_row + r, push.rows - 1), 0);
    }
    uint weight_row = weight_element(o, 0);
#ifdef QUANTISED_WEIGHT
    const uint to_second = elements_to_second(WEIGHT_FORMAT), places = to_second / FEATURES;
    for (uint i = lane; i < push.in_features / (2 * FEATURES); i += LANES) {
        uint feature = i / places * 2 * to_second + i % places * FEATURES;
        mat2x4 w, second_w;
        weight_load_both(WEIGHT_FORMAT, weight_row + feature, w, second_w);
        mat2x4 norms = norm_weights(feature), second_norms = norm_weights(feature + to_second);
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            mat2x4 x = load_normed_features(r, rows[r], feature, norms);
            mat2x4 second_x = load_normed_features(r, rows[r], feature + to_second, second_norms);
            sums[r] += dot(x[0], w[0]) + dot(x[1], w[1]);
            sums[r] += dot(second_x[0], second_w[0]) + dot(second_x[1], second_w[1]);
        }
    }
#else
    for (uint feature = FEATURES * lane; feature < push.in_features; feature += FEATURES * LANES) {
        mat2x4 w = load_weight_features(weight_row, feature), norms = norm_weights(feature);
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            mat2x4 x = load_normed_features(r, rows[r], feature, norms);
            sums[r] += dot(x[0], w[0]) + dot(x[1], w[1]);
        }
    }
#endif
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        uint own = r * LINEAR_WORKGROUP_SIZE + gl_LocalInvocationID.x;
        lane_sums[own] = sums[r];
        if (NORM_FORMAT != FORMAT_NONE) lane_squares[own] = squares[r];
    }
}

// What a row's sums are multiplied with. first: its first lane's.
float norm_scale(uint first) {
    if (NORM_FORMAT == FORMAT_NONE) return 1.0;
    float sum = 0.0;
    for (uint i = 0; i < LANES; ++i) sum += lane_squares[first + i];
    return inversesqrt(sum / float(push.in_features) + uintBitsToFloat(NORM_EPSILON));
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
    uint first = lane * LINEAR_WORKGROUP_SIZE + gl_LocalInvocationID.x - lane;
    for (uint i = 0; i < LANES; ++i) sum += lane_sums[first + i];
    sum *= norm_scale(first);
    output_store(OUTPUT_FORMAT, output_element(row, o), finish(sum, row, o));
}
