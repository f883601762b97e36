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

#include "operators/linear_features.glsl"
#include "operators/linear_tensors.glsl"
#ifdef QUANTISED_WEIGHT
#include "operators/linear_blocks.glsl"
#endif

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

mat2x4 norm_weights(uint feature) { return NORM_FORMAT == FORMAT_NONE ? mat2x4(0) : load_norm_features(feature); }

// A lane takes BLOCKS blocks of features at a time, whose loads are then under way together: of aligned rows, where none is behind
// a branch.
const uint MOST_BLOCKS = 4;
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

// Of a block of the weight and the norm.
struct Block {
    uint features[EIGHTS];
    LOADED_WEIGHTS weights;
    mat2x4 norms[EIGHTS];
};

// A lane's in a group. weights: of the tensor, where its row has the lane's first features, of a quantised one the block of them in bytes.
Block load_block(uint weights, uint features, uint group) {
    Block block;
    block.features[0] = features + group * GROUP_FEATURES;
#ifdef QUANTISED_WEIGHT
    block.features[1] = block.features[0] + elements_to_second(WEIGHT_FORMAT);
    const uint group_bytes = GROUP_FEATURES / elements_of_block(WEIGHT_FORMAT) * bytes_of_block(WEIGHT_FORMAT);
    block.weights = stage_of_block(weights + group * group_bytes, element_of_block(WEIGHT_FORMAT, features));
#else
    if ((ALIGNED & ALIGNED_WEIGHT) != 0)
        block.weights = weight_load8(WEIGHT_FORMAT, weights + group * GROUP_FEATURES);
    else
        block.weights = load_weight_features(weights - features, block.features[0]);
#endif
    [[unroll]] for (uint k = 0; k < EIGHTS; ++k) block.norms[k] = norm_weights(block.features[k]);
    return block;
}

// features: of the lane.
void decode_weights(Block block, uint features, out mat2x4 weights[EIGHTS]) {
#ifdef QUANTISED_WEIGHT
    decode_features(block.weights, features, weights[0], weights[1]);
#else
    weights[0] = block.weights;
#endif
}

// Of this lane's blocks.
void sum_lane(uint first_row, uint o, uint lane) {
    float sums[LINEAR_VECTOR_ROWS];
    uint rows[LINEAR_VECTOR_ROWS]; // elements of their first features
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        sums[r] = 0.0;
        if (NORM_FORMAT != FORMAT_NONE) squares[r] = 0.0;
        rows[r] = input_element(min(first_row + r, push.rows - 1), 0);
    }
    uint features = features_of_lane(lane), weights_at = weight_element(o, 0) + features;
#ifdef QUANTISED_WEIGHT
    weights_at = weight_block_at(weights_at);
#endif
    uint blocks = (push.in_features + BLOCK_FEATURES - 1) / BLOCK_FEATURES;
    uint groups = blocks > lane ? (blocks - lane + LANES - 1) / LANES : 0; // of the lane
    for (uint first = 0; first < groups; first += BLOCKS) {
        Block loaded[MOST_BLOCKS];
        bool exists[MOST_BLOCKS];
        [[unroll]] for (uint b = 0; b < BLOCKS; ++b) {
            exists[b] = b == 0 || first + b < groups;
            loaded[b] = load_block(weights_at, features, exists[b] ? first + b : first);
        }
        mat2x4 weights[MOST_BLOCKS][EIGHTS];
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            mat2x4 x[MOST_BLOCKS * EIGHTS];
            [[unroll]] for (uint b = 0; b < BLOCKS; ++b) [[unroll]] for (uint k = 0; k < EIGHTS; ++k)
                x[b * EIGHTS + k] = load_input(rows[r], loaded[b].features[k]);
            [[unroll]] for (uint b = 0; b < BLOCKS; ++b) {
                if (r == 0) decode_weights(loaded[b], features, weights[b]); // once the input is under way, too
                [[unroll]] for (uint k = 0; k < EIGHTS; ++k) {
                    mat2x4 given = x[b * EIGHTS + k], w = weights[b][k];
                    if (NORM_FORMAT != FORMAT_NONE) {
                        float square = dot(given[0], given[0]) + dot(given[1], given[1]);
                        squares[r] += exists[b] ? square : 0.0;
                        given = matrixCompMult(given, loaded[b].norms[k]);
                    }
                    float product = dot(given[0], w[0]) + dot(given[1], w[1]);
                    sums[r] += exists[b] ? product : 0.0;
                }
            }
        }
    }
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
    uint first_output = workgroup().x / row_tiles * LINEAR_VECTOR_OUTPUTS;
    uint o = first_output + gl_LocalInvocationID.x / LANES;
    if (o < push.out_features) sum_lane(first_row, o, lane);
    barrier(); // all sums are there
    // as many invocations finish two neighbouring outputs each
    const uint pairs = LINEAR_VECTOR_OUTPUTS / SUMS_OF_PAIR;
    uint row = gl_LocalInvocationID.x / pairs, first_sum = gl_LocalInvocationID.x % pairs * SUMS_OF_PAIR;
    if (row >= ROWS) return;
    float scale = norm_scale(row * LINEAR_WORKGROUP_SIZE);
    vec4 sums = vec4(0);
    [[unroll]] for (uint k = 0; k < SUMS_OF_PAIR; ++k) if (first_output + first_sum + k < push.out_features) {
        uint first = row * LINEAR_WORKGROUP_SIZE + (first_sum + k) * LANES;
        for (uint i = 0; i < LANES; ++i) sums[k] += lane_sums[first + i];
        sums[k] *= scale;
    }
    store_pair(first_row + row, first_output + first_sum, sums);
}
