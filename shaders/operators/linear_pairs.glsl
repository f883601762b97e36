// How linear_coopmat fills its tiles where the weight, and with TRANSPOSED_INPUT the input, is transposed: an invocation loads eight
// neighbouring outputs, or rows, of two neighbouring features, which become a word each of eight lines. Of a quantised weight sixteen, as
// linear_blocks.glsl has them.
#ifndef LINEAR_PAIRS_GLSL
#define LINEAR_PAIRS_GLSL

#ifdef QUANTISED_WEIGHT
#include "operators/linear_blocks.glsl"
#define WEIGHT_LOAD StagedFeatures
const uint EIGHTS = 2;
#define TO_SECOND (elements_to_second(WEIGHT_FORMAT) / FEATURES) // eights
#else
#define WEIGHT_LOAD uvec4
const uint EIGHTS = 1;
#define TO_SECOND 1
#endif

const uint PAIRS = MATRIX_STEP / 2;
const uint PAIRS_OF_WEIGHT = TILE_OUTPUTS / FEATURES / EIGHTS * PAIRS, PAIRS_OF_INPUT = TILE_ROWS / FEATURES * PAIRS;
const uint WEIGHT_LOADS = (PAIRS_OF_WEIGHT + WORKGROUP_SIZE - 1) / WORKGROUP_SIZE;
const uint TRANSPOSED_LOADS = (PAIRS_OF_INPUT + WORKGROUP_SIZE - 1) / WORKGROUP_SIZE;
const uint INPUT_LOADS = (TILE_ROWS * LOADS + WORKGROUP_SIZE - 1) / WORKGROUP_SIZE;

uint input_rows[INPUT_LOADS]; // as of lines that are not transposed
WEIGHT_LOAD loaded_weights[2 * WEIGHT_LOADS];
uvec4 loaded_inputs[2 * TRANSPOSED_LOADS]; // or INPUT_LOADS, which are as many at most

// Neighbouring invocations that load neighbouring eights: fewer lines of memory, more that write to one bank. Of q6_K 36.7 µs in place of
// 58.3 on navi31 (512 rows, 1024 to 1024 features, modelled), of others the same.
const uint TOGETHER = 2;

uint feature_of(uint i) { return load_of(i) / TOGETHER % PAIRS * 2; }
uint eight_of(uint i) { return load_of(i) / (TOGETHER * PAIRS) * TOGETHER + load_of(i) % TOGETHER; }
uint line_of(uint i) { return eight_of(i) * FEATURES; }

// The same of the weight, the first of the load's eights.
uint output_of(uint i) {
    uint load = eight_of(i);
    return (load / TO_SECOND * EIGHTS * TO_SECOND + load % TO_SECOND) * FEATURES;
}

void find_lines(uint first_output, uint first_row) {
    [[unroll]] for (uint i = 0; i < INPUT_LOADS; ++i) input_rows[i] =
        input_element(min(first_row + min(load_of(i) / LOADS, TILE_ROWS - 1), push.rows - 1), 0);
}

WEIGHT_LOAD load_weight_eights(uint feature, uint o) {
#ifdef QUANTISED_WEIGHT
    uint of_first = o % (EIGHTS * TO_SECOND * FEATURES); // the same of the row's first outputs, which exist
    return stage_features(weight_place(feature, mix(of_first, o, o < push.out_features)));
#else
    if ((ALIGNED & ALIGNED_WEIGHT) != 0) return weight_load8_halves(weight_place(feature, o));
    return pack_vector(load_weight_outputs(feature, o));
#endif
}

uvec4 load_input_eight(uint feature, uint row) {
    if ((ALIGNED & ALIGNED_INPUT) != 0) return input_load8_halves(input_place(feature, row));
    return pack_vector(load_input_rows(feature, row));
}

void load_step(uint first_feature) {
    [[unroll]] for (uint i = 0; i < 2 * WEIGHT_LOADS; ++i) loaded_weights[i] =
        load_weight_eights(first_feature + feature_of(i / 2) + i % 2, workgroup().x * TILE_OUTPUTS + output_of(i / 2));
    if ((TRANSPOSED & TRANSPOSED_INPUT) != 0) {
        [[unroll]] for (uint i = 0; i < 2 * TRANSPOSED_LOADS; ++i) loaded_inputs[i] =
            load_input_eight(first_feature + feature_of(i / 2) + i % 2, workgroup().y * TILE_ROWS + line_of(i / 2));
        return;
    }
    [[unroll]] for (uint i = 0; i < INPUT_LOADS; ++i) loaded_inputs[i] =
        load_input_elements(input_rows[i], first_feature + load_of(i) % LOADS * FEATURES);
}

bool exists(uint feature) { return WHOLE_STEPS || feature < push.in_features; }

// Features past the last are zeros.
void put_pair(uint line, uint i, uint first_feature, uvec4 first, uvec4 second) {
    if (!exists(first_feature + feature_of(i))) first = uvec4(0);
    if (!exists(first_feature + feature_of(i) + 1)) second = uvec4(0);
    uvec4 even = first & 0xffffu | second << 16, odd = first >> 16 | second & 0xffff0000u;
    uint at = line * PITCH + feature_of(i) / FEATURES, word = feature_of(i) / 2 % 4;
    [[unroll]] for (uint n = 0; n < 4; ++n) {
        tiles[at + 2 * n * PITCH][word] = even[n];
        tiles[at + (2 * n + 1) * PITCH][word] = odd[n];
    }
}

void put_weight(uint i, uint first_feature) {
    uint line = output_of(i);
#ifdef QUANTISED_WEIGHT
    mat2x4 first[2], second[2];
    [[unroll]] for (uint n = 0; n < 2; ++n)
        decode_features(loaded_weights[2 * i + n], workgroup().x * TILE_OUTPUTS + line, first[n], second[n]);
    put_pair(line, i, first_feature, round_vector(first[0]), round_vector(first[1]));
    put_pair(line + TO_SECOND * FEATURES, i, first_feature, round_vector(second[0]), round_vector(second[1]));
#else
    put_pair(line, i, first_feature, loaded_weights[2 * i], loaded_weights[2 * i + 1]);
#endif
}

void fill_input(uint first_feature) {
    [[unroll]] for (uint i = 0; i < INPUT_LOADS; ++i) if (is_of_tile(i, TILE_ROWS * LOADS)) {
        uint eighth = load_of(i) % LOADS;
        tiles[(TILE_OUTPUTS + load_of(i) / LOADS) * PITCH + eighth] =
            exists(first_feature + eighth * FEATURES) ? loaded_inputs[i] : uvec4(0);
    }
}

void fill_tiles(uint first_feature) {
    [[unroll]] for (uint i = 0; i < WEIGHT_LOADS; ++i) if (is_of_tile(i, PAIRS_OF_WEIGHT)) put_weight(i, first_feature);
    if ((TRANSPOSED & TRANSPOSED_INPUT) == 0) {
        fill_input(first_feature);
        return;
    }
    [[unroll]] for (uint i = 0; i < TRANSPOSED_LOADS; ++i) if (is_of_tile(i, PAIRS_OF_INPUT))
        put_pair(TILE_OUTPUTS + line_of(i), i, first_feature, loaded_inputs[2 * i], loaded_inputs[2 * i + 1]);
}

#endif
