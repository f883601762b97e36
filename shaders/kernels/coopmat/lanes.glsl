// Which invocations look after which query rows of a workgroup of coopmat, and what multiplies their sums.
#ifndef COOPMAT_LANES_GLSL
#define COOPMAT_LANES_GLSL

#include "attention/softmax.glsl"
#include "kernels/coopmat/matrices.glsl"

// Neighbouring invocations share a row, where there are more of them than rows.
const uint LANES_OF_TILE_ROW = WORKGROUP_SIZE > TILE_ROWS ? WORKGROUP_SIZE / TILE_ROWS : 1;
const uint ROWS_OF_LANE = TILE_ROWS > WORKGROUP_SIZE ? TILE_ROWS / WORKGROUP_SIZE : 1;

// A weight is 2 to the power of its score less the row's reference, which follows the row's maximum at a distance, so
// that few tiles rescale what was summed before: weights lie between 2^-24 and 2^15, where f16 has all its numbers.
const float REFERENCE_BELOW_MAXIMUM = 7.0;
const float LARGEST_EXPONENT = 15.0;

shared float row_factors[TILE_ROWS];

SoftmaxState states[ROWS_OF_LANE]; // of this invocation's rows: references in place of maxima, sums of its own keys

uint lane_row(uint r) { return lane() / LANES_OF_TILE_ROW * ROWS_OF_LANE + r; }
uint lane_of_row() { return lane() % LANES_OF_TILE_ROW; }

// The reference of a row whose largest score so far is `maximum`.
float follow_maximum(float reference, float maximum) {
    return maximum > reference + LARGEST_EXPONENT ? maximum - REFERENCE_BELOW_MAXIMUM : reference;
}

// Afterwards each subgroup of a row sees what the others wrote.
void synchronise_rows() {
    if (DIM_SUBGROUPS == 1)
        subgroupBarrier();
    else
        barrier();
}

// Multiplies each row's sums by its number in row_factors.
void multiply_rows() {
    bool changes = false;
    for (uint i = gl_SubgroupInvocationID; i < MATRIX_N; i += SUBGROUP_SIZE)
        changes = changes || row_factors[subgroup_row() + i] != 1.0;
    if (!subgroupAny(changes)) return;
    ACCUMULATOR factors; // every row of it the same: a stride of 0
    coopMatLoad(factors, row_factors, subgroup_row(), 0, gl_CooperativeMatrixLayoutRowMajor);
    FOR_MATRICES(t, OUTPUT_TILES) outputs[t] *= factors;
}

#endif
