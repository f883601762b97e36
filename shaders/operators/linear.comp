// output = activation(input W^T + bias) * multiplier + residual, f32 accumulation.
//
// input [B,L,in], W [out,in], bias [out], multiplier and residual [B,L,out]
//   -> output element o of row (b, l) at strides (b, l, o / head_dim, o % head_dim)
// gated: output = activation(input W[0]^T + bias[0]) * (input W[1]^T + bias[1]) + residual, see LinearPush
// grid: (output tiles, row tiles, groups). A workgroup computes ROW_TILES * LINEAR_SIDE x TILES * LINEAR_SIDE values, by one or several parts of
// the features, each of MATRIX_STEP at a time.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 7) in;

#include "operators/linear_features.glsl"
#include "operators/linear_tensors.glsl"
#ifdef TRANSPOSED_FACTORS
#include "operators/linear_transposed.glsl"
#elif defined QUANTISED_WEIGHT
#define EIGHT_FEATURES
#include "operators/linear_blocks.glsl"
#endif

const uint PARTS = WORKGROUP_SIZE / LINEAR_WORKGROUP_SIZE; // of the features, whose steps they take in turn
const uint STEP = MATRIX_STEP;
const uint PITCH = STEP / 4 + 1; // of four features; neighbouring lines lie in other banks
const uint TILE_ROWS = ROW_TILES * LINEAR_SIDE, TILE_OUTPUTS = TILES * LINEAR_SIDE;

shared vec4 input_tiles[PARTS * TILE_ROWS * PITCH];
shared vec4 weight_tiles[PARTS * TILE_OUTPUTS * PITCH];
#define STRIP(at) input_tiles[(at) / 4][(at) % 4]
#define AS_STRIP(sum) (sum)
#define FROM_STRIP(number) (number)
#include "operators/linear_tiles.glsl"

uint input_at(uint line, uint feature) { return (own_part() * TILE_ROWS + line) * PITCH + feature / 4; }
uint weight_at(uint line, uint feature) { return (own_part() * TILE_OUTPUTS + line) * PITCH + feature / 4; }

#define PUT_FEATURES(tiles, at, features)                                                                              \
    tiles[at] = (features)[0];                                                                                         \
    tiles[(at) + 1] = (features)[1];

#ifdef TRANSPOSED_FACTORS
// Eight lines of one feature.
#define PUT_LINES(tiles, at, feature, lines)                                                                           \
    [[unroll]] for (uint n = 0; n < FEATURES; ++n) tiles[(at) + n * PITCH][(feature) % 4] = (lines)[n / 4][n % 4];

void load_step(uint first_feature) {}

void fill_tiles(uint first_feature) {
    [[unroll]] for (uint i = 0; i < INPUT_LOADS; ++i) {
        if ((TRANSPOSED & TRANSPOSED_INPUT) == 0) {
            mat2x4 x = load_input_features(input_rows[i], first_feature + own_feature());
            PUT_FEATURES(input_tiles, input_at(loaded_line(i), own_feature()), x)
        } else {
            const uint eights = TILE_ROWS / FEATURES;
            uint feature = load_of(i) / eights, line = load_of(i) % eights * FEATURES;
            mat2x4 x = load_input_rows(first_feature + feature, workgroup().y * TILE_ROWS + line);
            if (first_feature + feature >= push.in_features) x = mat2x4(0);
            PUT_LINES(input_tiles, input_at(line, feature), feature, x)
        }
    }
    [[unroll]] for (uint i = 0; i < WEIGHT_LOADS; ++i) {
        const uint eights = TILE_OUTPUTS / FEATURES;
        uint feature = load_of(i) / eights, line = load_of(i) % eights * FEATURES;
        mat2x4 w = load_weight_outputs(first_feature + feature, workgroup().x * TILE_OUTPUTS + line);
        if (first_feature + feature >= push.in_features) w = mat2x4(0);
        PUT_LINES(weight_tiles, weight_at(line, feature), feature, w)
    }
}
#else
// Eight features as they are loaded: bits of f32, or the 16 bits of aligned rows, which become f32 when they are wanted.
struct Loaded {
    uvec4 first, second;
};

Loaded loaded_floats(mat2x4 features) { return Loaded(floatBitsToUint(features[0]), floatBitsToUint(features[1])); }

mat2x4 features_of(const uint format, const bool aligned, Loaded loaded) {
    if (bytes_of_block(format) == 2 && aligned)
        return mat2x4(expand_halves(format, loaded.first.xy), expand_halves(format, loaded.first.zw));
    return mat2x4(uintBitsToFloat(loaded.first), uintBitsToFloat(loaded.second));
}

const bool WHOLE_STEPS = (ALIGNED & ALIGNED_STEPS) != 0u;
const bool INPUT_ALIGNED = (ALIGNED & ALIGNED_INPUT) != 0u, WEIGHT_ALIGNED = (ALIGNED & ALIGNED_WEIGHT) != 0u;

// Rows that are aligned have no feature that does not exist but whole eights of them.
uint existing(uint feature) { return WHOLE_STEPS ? feature : min(feature, push.in_features - FEATURES); }

Loaded load_input(uint row, uint feature) {
    if (bytes_of_block(INPUT_FORMAT) == 2 && INPUT_ALIGNED)
        return Loaded(input_load8_halves(row + existing(feature)), uvec4(0));
    return loaded_floats(load_input_features(row, feature));
}

#ifdef QUANTISED_WEIGHT
#define WEIGHT_LOAD StagedFeatures
WEIGHT_LOAD load_weight(uint row, uint feature) { return stage_features(row + existing(feature)); }
mat2x4 weight_features(WEIGHT_LOAD loaded, uint element) { return decode_eight(loaded, element); }
#else
#define WEIGHT_LOAD Loaded
WEIGHT_LOAD load_weight(uint row, uint feature) {
    if (bytes_of_block(WEIGHT_FORMAT) == 2 && WEIGHT_ALIGNED)
        return Loaded(weight_load8_halves(row + existing(feature)), uvec4(0));
    return loaded_floats(load_weight_features(row, feature));
}
mat2x4 weight_features(WEIGHT_LOAD loaded, uint element) { return features_of(WEIGHT_FORMAT, WEIGHT_ALIGNED, loaded); }
#endif

Loaded loaded_inputs[INPUT_LOADS];
WEIGHT_LOAD loaded_weights[WEIGHT_LOADS];

void load_step(uint first_feature) {
    uint feature = first_feature + own_feature();
    [[unroll]] for (uint i = 0; i < INPUT_LOADS; ++i) loaded_inputs[i] = load_input(input_rows[i], feature);
    [[unroll]] for (uint i = 0; i < WEIGHT_LOADS; ++i) loaded_weights[i] = load_weight(weight_rows[i], feature);
}

void fill_tiles(uint first_feature) {
    uint feature = first_feature + own_feature();
    [[unroll]] for (uint i = 0; i < INPUT_LOADS; ++i) {
        mat2x4 x = features_of(INPUT_FORMAT, INPUT_ALIGNED, loaded_inputs[i]);
        if (!WHOLE_STEPS && feature >= push.in_features) x = mat2x4(0);
        PUT_FEATURES(input_tiles, input_at(loaded_line(i), own_feature()), x)
    }
    [[unroll]] for (uint i = 0; i < WEIGHT_LOADS; ++i) {
        mat2x4 w = weight_features(loaded_weights[i], weight_rows[i] + existing(feature));
        if (!WHOLE_STEPS && feature >= push.in_features) w = mat2x4(0);
        PUT_FEATURES(weight_tiles, weight_at(loaded_line(i), own_feature()), w)
    }
}
#endif

void multiply_tiles() {
    [[dont_unroll]] for (uint block = 0; block < STEP / 4; ++block) {
        vec4 w[TILES];
        [[unroll]] for (uint o = 0; o < TILES; ++o) w[o] = weight_tiles[weight_at(own_output(o), 4 * block)];
        [[unroll]] for (uint r = 0; r < ROW_TILES; ++r) {
            vec4 x = input_tiles[input_at(own_row(r), 4 * block)];
            [[unroll]] for (uint i = 0; i < 4; ++i) [[unroll]] for (uint o = 0; o < TILES; ++o) sums[r * TILES + o] =
                fma(x[i], w[o][i], sums[r * TILES + o]);
        }
    }
}

void main() {
    uint first_output = workgroup().x * TILE_OUTPUTS, first_row = workgroup().y * TILE_ROWS;
    [[unroll]] for (uint i = 0; i < ROW_TILES * TILES; ++i) sums[i] = 0.0;
    find_lines(first_row, first_output);
    for (uint first = 0; first < push.in_features; first += STEP * PARTS) {
        uint feature = first + own_part() * STEP;
        load_step(feature);
        barrier(); // the tiles' last readers are done
        fill_tiles(feature);
        barrier();
        multiply_tiles();
    }
    store_tile(first_row, first_output);
}
