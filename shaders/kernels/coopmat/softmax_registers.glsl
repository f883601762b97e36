// The online softmax between the two products of coopmat, in registers (VK_NV_cooperative_matrix2): reductions over the
// keys of a matrix, operations per element, and scores that become the other product's factor where they are.
// One subgroup a row (DIM_SUBGROUPS 1) and MATRIX_M equal to MATRIX_K.
#ifndef COOPMAT_SOFTMAX_REGISTERS_GLSL
#define COOPMAT_SOFTMAX_REGISTERS_GLSL

#include "attention/dropout.glsl"
#include "attention/key_walk.glsl"
#include "attention/variant.glsl"
#include "kernels/coopmat/lanes.glsl"

ACCUMULATOR references; // of each row, the same for every key of the matrix
ACCUMULATOR sums;       // of each row, by key of the matrix
WEIGHT_MATRIX weight_tiles[KEY_TILES];

float larger(const in float a, const in float b) { return max(a, b); }
float added(const in float a, const in float b) { return a + b; }

float larger_element(const in uint row, const in uint column, const in float a, const in float b) { return max(a, b); }

float reference_element(const in uint row, const in uint column, const in float reference, const in float maximum) {
    return follow_maximum(reference, maximum);
}

float weight_element(const in uint row, const in uint column, const in float score, const in float reference) {
    return exp2(score - reference);
}

float score_element(const in uint row, const in uint column, const in float product, const in uint first_key,
                    const in uint end, const in bool all_visible) {
    Row query = row_of_tile(rows, subgroup_row() + column);
    return score_key(product, query, first_key + row, KeyTile(first_key, end, true, all_visible));
}

float kept_element(const in uint row, const in uint column, const in float weight, const in uint first_key) {
    return weight * dropout_factor(row_of_tile(rows, subgroup_row() + column), first_key + row);
}

void start_rows() {
    references = ACCUMULATOR(LOWEST_MAXIMUM);
    sums = ACCUMULATOR(0.0);
}

void finish_scores(KeyTile tile) {
    FOR_MATRICES(k, KEY_TILES) products[k] = products[k] * parameters.scale_log2;
    if (tile.all_visible && !TRANSFORMS_SCORES) return;
    FOR_MATRICES(k, KEY_TILES)
    coopMatPerElementNV(products[k], products[k], score_element, tile.first + key_of_product(k), tile.end,
                        tile.all_visible);
}

// References follow the maxima; what was summed before is rescaled where one moved.
void update_references() {
    ACCUMULATOR maxima = ACCUMULATOR(HIDDEN);
    FOR_MATRICES(k, KEY_TILES) coopMatPerElementNV(maxima, maxima, larger_element, products[k]);
    coopMatReduceNV(maxima, maxima, gl_CooperativeMatrixReduceColumnNV, larger);
    ACCUMULATOR before = references;
    coopMatPerElementNV(references, before, reference_element, maxima);
    ACCUMULATOR factors;
    coopMatPerElementNV(factors, before, weight_element, references);
    bool changes = false;
    for (int i = 0; i < factors.length(); ++i) changes = changes || factors[i] != 1.0;
    if (!subgroupAny(changes)) return;
    sums *= factors;
    FOR_MATRICES(t, OUTPUT_TILES) outputs[t] *= factors;
}

void apply_softmax(KeyTile tile) {
    finish_scores(tile);
    update_references();
    FOR_MATRICES(k, KEY_TILES) {
        ACCUMULATOR weights;
        coopMatPerElementNV(weights, products[k], weight_element, references);
        sums += weights;
        if (has(FEATURE_DROPOUT)) coopMatPerElementNV(weights, weights, kept_element, tile.first + key_of_product(k));
        weight_tiles[k] = WEIGHT_MATRIX(weights);
    }
}

void load_weights(uint first_key, out WEIGHT_MATRIX weights) { weights = weight_tiles[first_key / MATRIX_K]; }

// The states of each row come to the invocations that look after it. Through the tiles, which nobody reads any more.
void finish_rows() {
    coopMatReduceNV(sums, sums, gl_CooperativeMatrixReduceColumnNV, added);
    const uint strip = subgroup_row() * STRIP_PITCH;
    coopMatStore(references, tiles, strip, STRIP_PITCH, gl_CooperativeMatrixLayoutColumnMajor);
    subgroupBarrier();
    [[unroll]] for (uint r = 0; r < ROWS_OF_LANE; ++r) states[r].maximum =
        uintBitsToFloat(tiles[lane_row(r) * STRIP_PITCH].x);
    subgroupBarrier(); // they have been read
    coopMatStore(sums, tiles, strip, STRIP_PITCH, gl_CooperativeMatrixLayoutColumnMajor);
    subgroupBarrier();
    [[unroll]] for (uint r = 0; r < ROWS_OF_LANE; ++r) states[r].sum =
        uintBitsToFloat(tiles[lane_row(r) * STRIP_PITCH].x);
    subgroupBarrier(); // before the output passes there
}

#endif
