// The linear of linear.comp for few rows: bound by reading the weights, once for all rows. LANES neighbours share TILES rows
// of the weight, which they multiply with what they load of the input once. With NORM_FORMAT the rows of the input are normalised
// (RMSNorm: Zhang and Sennrich, 2019): each lane weighs and squares what it loads, and the sum is divided at the end.
//
// grid: (output tiles times row tiles, 1, groups); a workgroup computes OUTPUTS values of each of ROWS rows,
// its neighbours those of the other rows
// shared memory: TILES times ROWS f32 an invocation, with NORM_FORMAT ROWS more; the lanes' sums are added in an order that never
// changes
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x = 64) in;

#include "operators/linear_features.glsl"
#include "operators/linear_tensors.glsl"
#ifdef QUANTISED_WEIGHT
#include "operators/linear_blocks.glsl"
#endif

#define TENSOR norm
#define TENSOR_BINDING BINDING_LINEAR_NORM
#define TENSOR_VECTORS
#include "common/tensor.glsl"

const uint LANES = OUTPUT_LANES, OUTPUTS = LINEAR_WORKGROUP_SIZE / LANES * TILES;

const uint LANE_ROWS = ROWS * LINEAR_WORKGROUP_SIZE;
const uint ROWS_TO_NORMALISE = NORM_FORMAT != FORMAT_NONE ? LINEAR_VECTOR_ROWS : 1;

shared float lane_sums[TILES * LANE_ROWS];                             // [row][output][lane]
shared float lane_squares[NORM_FORMAT != FORMAT_NONE ? LANE_ROWS : 1]; // [row][invocation]

float squares[ROWS_TO_NORMALISE];

mat2x4 load_norm_features(uint feature) {
    if ((ALIGNED & ALIGNED_NORM) != 0) return norm_load8(NORM_FORMAT, feature);
    mat2x4 features = mat2x4(0);
    for (uint i = 0; i < min(FEATURES, push.in_features - feature); ++i)
        features[i / 4][i % 4] = norm_load(NORM_FORMAT, feature + i);
    return features;
}

mat2x4 norm_weights(uint feature) { return NORM_FORMAT == FORMAT_NONE ? mat2x4(0) : load_norm_features(feature); }

// A lane takes BLOCKS blocks of features at a time, of TILES rows of the weight, whose loads are then under way together: of aligned
// rows, where none is behind a branch.
const uint MOST_BLOCKS = 4, MOST_TILES = 4;
const uint MOST_LOADED = 4; // BLOCKS * TILES
#ifdef QUANTISED_WEIGHT
const uint EIGHTS = 2; // of a block: those whose weights lie in the same bytes
#define LOADED_WEIGHTS StagedFeatures
#else
const uint EIGHTS = 1;
#define LOADED_WEIGHTS mat2x4
#endif

mat2x4 load_input(uint row, uint feature) {
    if ((ALIGNED & ALIGNED_INPUT) != 0) return input_load8(INPUT_FORMAT, row + feature);
    return load_input_features(row, feature);
}

// Of a block of features the first ones of a lane; the blocks of all lanes are a group, a whole number of the weight's blocks, so that a
// lane's part of each begins at the same place.
const uint BLOCK_FEATURES = EIGHTS * FEATURES, GROUP_FEATURES = LANES * BLOCK_FEATURES;

uint features_of_lane(uint lane) {
#ifdef QUANTISED_WEIGHT
    const uint to_second = elements_to_second(WEIGHT_FORMAT), places = to_second / FEATURES;
    return lane / places * 2 * to_second + lane % places * FEATURES;
#else
    return FEATURES * lane;
#endif
}

// The first feature of an eight of a lane's block in a group. features: of the lane.
uint feature_of_eight(uint features, uint group, uint k) {
    features += group * GROUP_FEATURES;
#ifdef QUANTISED_WEIGHT
    features += k * elements_to_second(WEIGHT_FORMAT);
#endif
    return features;
}

// A lane's block in a group. weights: of the tensor, where its row has the lane's first features, of a quantised one the block of them in bytes.
LOADED_WEIGHTS load_block(uint weights, uint features, uint group) {
#ifdef QUANTISED_WEIGHT
    const uint group_bytes = GROUP_FEATURES / elements_of_block(WEIGHT_FORMAT) * bytes_of_block(WEIGHT_FORMAT);
    return stage_of_block(weights + group * group_bytes, element_of_block(WEIGHT_FORMAT, features));
#else
    if ((ALIGNED & ALIGNED_WEIGHT) != 0) return weight_load8(WEIGHT_FORMAT, weights + group * GROUP_FEATURES);
    return load_weight_features(weights - features, features + group * GROUP_FEATURES);
#endif
}

// features: of the lane.
void decode_weights(LOADED_WEIGHTS loaded, uint features, out mat2x4 weights[EIGHTS]) {
#ifdef QUANTISED_WEIGHT
    decode_features(loaded, features, weights[0], weights[1]);
#else
    weights[0] = loaded;
#endif
}

// Of this lane's blocks, for its outputs from number `o` on.
void sum_lane(uint first_row, uint o, uint lane) {
    float sums[LINEAR_VECTOR_ROWS * MOST_TILES];
    uint rows[LINEAR_VECTOR_ROWS]; // elements of their first features
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        [[unroll]] for (uint t = 0; t < TILES; ++t) sums[r * TILES + t] = 0.0;
        if (NORM_FORMAT != FORMAT_NONE) squares[r] = 0.0;
        rows[r] = input_element(min(first_row + r, push.rows - 1), 0);
    }
    uint features = features_of_lane(lane), weights_at[MOST_TILES];
    [[unroll]] for (uint t = 0; t < TILES; ++t) {
        // the last output's in place of one behind it
        weights_at[t] = weight_element(min(o + t, push.out_features - 1), 0) + features;
#ifdef QUANTISED_WEIGHT
        weights_at[t] = weight_block_at(weights_at[t]);
#endif
    }
    uint blocks = (push.in_features + BLOCK_FEATURES - 1) / BLOCK_FEATURES;
    uint groups = blocks > lane ? (blocks - lane + LANES - 1) / LANES : 0; // of the lane
    for (uint first = 0; first < groups; first += BLOCKS) {
        LOADED_WEIGHTS loaded[MOST_LOADED]; // [block][output]
        mat2x4 norms[MOST_BLOCKS * EIGHTS];
        bool exists[MOST_BLOCKS];
        uint at[MOST_BLOCKS]; // groups
        [[unroll]] for (uint b = 0; b < BLOCKS; ++b) {
            exists[b] = b == 0 || first + b < groups;
            at[b] = exists[b] ? first + b : first;
            [[unroll]] for (uint t = 0; t < TILES; ++t) loaded[b * TILES + t] =
                load_block(weights_at[t], features, at[b]);
            [[unroll]] for (uint k = 0; k < EIGHTS; ++k) norms[b * EIGHTS + k] =
                norm_weights(feature_of_eight(features, at[b], k));
        }
        mat2x4 weights[MOST_LOADED][EIGHTS];
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            mat2x4 x[MOST_BLOCKS * EIGHTS];
            [[unroll]] for (uint b = 0; b < BLOCKS; ++b) [[unroll]] for (uint k = 0; k < EIGHTS; ++k)
                x[b * EIGHTS + k] = load_input(rows[r], feature_of_eight(features, at[b], k));
            [[unroll]] for (uint b = 0; b < BLOCKS; ++b) {
                mat2x4 given[EIGHTS];
                [[unroll]] for (uint k = 0; k < EIGHTS; ++k) {
                    given[k] = x[b * EIGHTS + k];
                    if (NORM_FORMAT == FORMAT_NONE) continue;
                    float square = dot(given[k][0], given[k][0]) + dot(given[k][1], given[k][1]);
                    squares[r] += exists[b] ? square : 0.0;
                    given[k] = matrixCompMult(given[k], norms[b * EIGHTS + k]);
                }
                [[unroll]] for (uint t = 0; t < TILES; ++t) {
                    const uint place = b * TILES + t;
                    if (r == 0)
                        decode_weights(loaded[place], features, weights[place]); // once the input is under way, too
                    [[unroll]] for (uint k = 0; k < EIGHTS; ++k) {
                        float product = dot(given[k][0], weights[place][k][0]) + dot(given[k][1], weights[place][k][1]);
                        sums[r * TILES + t] += exists[b] ? product : 0.0;
                    }
                }
            }
        }
    }
    uint own = gl_LocalInvocationID.x / LANES * TILES * LANES + lane;
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        [[unroll]] for (uint t = 0; t < TILES; ++t) lane_sums[(r * OUTPUTS + t) * LANES + own] = sums[r * TILES + t];
        if (NORM_FORMAT != FORMAT_NONE) lane_squares[r * LINEAR_WORKGROUP_SIZE + gl_LocalInvocationID.x] = squares[r];
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
    uint first_output = workgroup().x / row_tiles * OUTPUTS;
    uint o = first_output + gl_LocalInvocationID.x / LANES * TILES;
    if (o < push.out_features) sum_lane(first_row, o, lane);
    barrier(); // all sums are there
    // as many invocations finish two neighbouring outputs each
    const uint pairs = OUTPUTS / SUMS_OF_PAIR;
    uint row = gl_LocalInvocationID.x / pairs, first_sum = gl_LocalInvocationID.x % pairs * SUMS_OF_PAIR;
    if (row >= ROWS) return;
    float scale = norm_scale(row * LINEAR_WORKGROUP_SIZE);
    vec4 sums = vec4(0);
    [[unroll]] for (uint k = 0; k < SUMS_OF_PAIR; ++k) if (first_output + first_sum + k < push.out_features) {
        uint first = (row * OUTPUTS + first_sum + k) * LANES;
        for (uint i = 0; i < LANES; ++i) sums[k] += lane_sums[first + i];
        sums[k] *= scale;
    }
    store_pair(first_row + row, first_output + first_sum, sums);
}
