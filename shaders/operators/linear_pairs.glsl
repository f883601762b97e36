// How linear_coopmat fills its tiles where the weight, and with TRANSPOSED_INPUT the input, is transposed: an invocation loads eight
// neighbouring outputs, or rows, of two neighbouring features, which become a word each of eight lines.
#ifndef LINEAR_PAIRS_GLSL
#define LINEAR_PAIRS_GLSL

const uint PAIRS = MATRIX_STEP / 2;
const uint PAIRS_OF_WEIGHT = TILE_OUTPUTS / FEATURES * PAIRS, PAIRS_OF_INPUT = TILE_ROWS / FEATURES * PAIRS;
const uint WEIGHT_LOADS = (PAIRS_OF_WEIGHT + WORKGROUP_SIZE - 1) / WORKGROUP_SIZE;
const uint TRANSPOSED_LOADS = (PAIRS_OF_INPUT + WORKGROUP_SIZE - 1) / WORKGROUP_SIZE;
const uint INPUT_LOADS = (TILE_ROWS * LOADS + WORKGROUP_SIZE - 1) / WORKGROUP_SIZE;

uint input_rows[INPUT_LOADS]; // as of lines that are not transposed
uvec4 loaded_weights[2 * WEIGHT_LOADS];
uvec4 loaded_inputs[2 * TRANSPOSED_LOADS]; // or INPUT_LOADS, which are as many at most

uint feature_of(uint i) { return load_of(i) % PAIRS * 2; }
uint line_of(uint i) { return load_of(i) / PAIRS * FEATURES; }

void find_lines(uint first_output, uint first_row) {
    [[unroll]] for (uint i = 0; i < INPUT_LOADS; ++i) input_rows[i] =
        input_element(min(first_row + min(load_of(i) / LOADS, TILE_ROWS - 1), push.rows - 1), 0);
}

uvec4 load_weight_eight(uint feature, uint o) {
#ifdef QUANTISED_WEIGHT
    return round_vector(load_weight_outputs(feature, o));
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
        load_weight_eight(first_feature + feature_of(i / 2) + i % 2, workgroup().x * TILE_OUTPUTS + line_of(i / 2));
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

void fill_input(uint first_feature) {
    [[unroll]] for (uint i = 0; i < INPUT_LOADS; ++i) if (is_of_tile(i, TILE_ROWS * LOADS)) {
        uint eighth = load_of(i) % LOADS;
        tiles[(TILE_OUTPUTS + load_of(i) / LOADS) * PITCH + eighth] =
            exists(first_feature + eighth * FEATURES) ? loaded_inputs[i] : uvec4(0);
    }
}

void fill_tiles(uint first_feature) {
    [[unroll]] for (uint i = 0; i < WEIGHT_LOADS; ++i) if (is_of_tile(i, PAIRS_OF_WEIGHT))
        put_pair(line_of(i), i, first_feature, loaded_weights[2 * i], loaded_weights[2 * i + 1]);
    if ((TRANSPOSED & TRANSPOSED_INPUT) == 0) {
        fill_input(first_feature);
        return;
    }
    [[unroll]] for (uint i = 0; i < TRANSPOSED_LOADS; ++i) if (is_of_tile(i, PAIRS_OF_INPUT))
        put_pair(TILE_OUTPUTS + line_of(i), i, first_feature, loaded_inputs[2 * i], loaded_inputs[2 * i + 1]);
}

#endif
