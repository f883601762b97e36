// The online softmax between the two products of coopmat, in registers whatever layout the matrices have there.
//
// A weight is 2 to the power of its score less the row's reference. The reference follows the row's maximum at a distance:
// f16 weights lie between 2^-14 and 2^15, and what is smaller some devices round to 0: hence a reference near the largest,
// 2^25 below which a key is worth nothing. Where values have scales by key, a weight is that of its key times the power of two in
// the scale, and so is the largest; the row's sum is of weights alone. Few tiles move it. Most tiles need neither masks
// nor a row's maximum: a vote finds that no score is too large. For the rest, the scores pass through shared memory, where
// invocations that own rows mask them and move the references.
#ifndef COOPMAT_SOFTMAX_GLSL
#define COOPMAT_SOFTMAX_GLSL

#include "attention/dropout.glsl"
#include "attention/key_walk.glsl"
#include "attention/softmax.glsl"
#include "attention/variant.glsl"
#include "kernels/coopmat/matrices.glsl"
#include "kernels/coopmat/staging.glsl"

const float MAXIMUM_ABOVE_REFERENCE = 11.0;
const float LARGEST_EXPONENT = 15.0;

// Neighbouring invocations of a subgroup own a row together, where there are more of them than rows.
const uint LANES_OF_ROW = SUBGROUP_SIZE > SUBGROUP_ROWS ? SUBGROUP_SIZE / SUBGROUP_ROWS : 1;
const uint ROWS_OF_LANE = SUBGROUP_ROWS > SUBGROUP_SIZE ? SUBGROUP_ROWS / SUBGROUP_SIZE : 1;
uint lane_of_row() { return lane() % LANES_OF_ROW; }
uint lane_row(uint r) { return lane() / LANES_OF_ROW * ROWS_OF_LANE + r; } // of the subgroup's

// Of a row of a strip they take every so many blocks of four columns.
const uint BLOCKS_OF_ROW = MATRIX_N / 4;
const uint TURNS_OF_ROW = (BLOCKS_OF_ROW + LANES_OF_ROW - 1) / LANES_OF_ROW;
bool is_block_of_row(uint block) { return BLOCKS_OF_ROW % LANES_OF_ROW == 0 || block < BLOCKS_OF_ROW; }

// Of those that have the same rows, the one that writes what there is one of for each row.
bool owns_rows() { return lane_of_row() == 0 && dim_subgroup() == 0; }

// Whether a tile needs the slow way each subgroup decides for itself, but where subgroups share rows, the workgroup. So it
// does where ROLLED is defined, for a driver on which a subgroup's barrier makes the others wait.
#ifdef ROLLED
const bool DECIDES_TOGETHER = true;
#else
const bool DECIDES_TOGETHER = DIM_SUBGROUPS > 1;
#endif
shared uint last_slow; // number of the last tile that some subgroup needs the slow way for

// Vectors, since matrices are loaded from them: 16 bytes are what that may count on.
shared vec4 row_references[TILE_ROWS / 4]; // 0, as long as the row has seen no key
shared vec4 row_moves[TILE_ROWS / 4];      // of the references
shared vec4 row_factors[TILE_ROWS / 4];    // of what was summed before
// Of ALiBi, and where it is done in registers: of rows, and of the columns of a matrix.
const uint BIASED = TRANSFORMED_BEFORE * (FEATURES / FEATURE_ALIBI_SLOPES % 2);
shared vec4 row_slopes[BIASED * (TILE_ROWS / 4) + 1 - BIASED];
shared vec4 row_distances[BIASED * (TILE_ROWS / 4) + 1 - BIASED]; // positions from that of the tile's first row
shared vec4 columns[BIASED * (MATRIX_N / 4) + 1 - BIASED];        // 0, 1, 2 ...
#define OF_ROW(numbers, row) numbers[(row) / 4][(row) % 4]
shared float row_parts[DIM_SUBGROUPS > 1 ? TILE_ROWS *DIM_SUBGROUPS : 1];

SUMS sums[ROW_MATRICES];       // of weights, by column
bool lane_empty[ROWS_OF_LANE]; // the invocation's own row has seen no key

uint first_position() { return row_of_tile(rows, 0).position; }

void start_row(uint tile_row) {
    OF_ROW(row_references, tile_row) = 0.0;
    if (BIASED == 0) return;
    Row row = row_of_tile(rows, tile_row);
    OF_ROW(row_slopes, tile_row) = slope_log2(row);
    OF_ROW(row_distances, tile_row) = float(int(row.position - first_position()));
}

void start_rows() {
    FOR_MATRICES(r, ROW_MATRICES) sums[r] = ZEROS;
    [[unroll]] for (uint r = 0; r < ROWS_OF_LANE; ++r) {
        lane_empty[r] = true;
        if (owns_rows()) start_row(subgroup_row() + lane_row(r));
    }
    if (BIASED != 0 && gl_LocalInvocationID.x < MATRIX_N)
        OF_ROW(columns, gl_LocalInvocationID.x) = float(gl_LocalInvocationID.x);
}

// The numbers of the subgroup's rows, every column the same: a stride of 0.
#define LOAD_ROWS(matrix, numbers, r)                                                                                  \
    coopMatLoad(matrix, numbers, (subgroup_row() + (r)*MATRIX_M) / 4, 0, COLUMNS_IN_MEMORY)

// What is added to the scores of a matrix of keys where they become weights of values, every row the same: a stride of 0.
#define LOAD_VALUE_EXPONENTS(matrix, k)                                                                                \
    coopMatLoad(matrix, key_scales, VALUE_EXPONENTS + key_of_tile(k) / 4, 0, ROWS_IN_MEMORY)

// Products become scores in units of log 2, with softcap and ALiBi where they are done here, less the references. Whether one is
// too large, or a row has none yet.
bool subtract_references(KeyTile tile) {
    float largest = HIDDEN;
    int first_key = int(tile.first.number) - diagonal_offset(rows.batch) - int(first_position());
    SUMS columns_of_matrix;
    if (BIASED != 0) coopMatLoad(columns_of_matrix, columns, 0, 0, ROWS_IN_MEMORY);
    FOR_MATRICES(r, ROW_MATRICES) {
        SUMS references, slopes, distances;
        LOAD_ROWS(references, row_references, r);
        if (BIASED != 0) {
            LOAD_ROWS(slopes, row_slopes, r);
            LOAD_ROWS(distances, row_distances, r);
        }
        FOR_MATRICES(k, KEY_TILES) {
            SUMS exponents;
            if (SCALES_VALUES_BY_KEY) LOAD_VALUE_EXPONENTS(exponents, k);
            float first_column = float(first_key + int(key_of_tile(k)));
            FOR_ELEMENTS(i, references) {
                float product = scores_of_tile[r * KEY_TILES + k][i], subtracted = references[i];
                if (BIASED != 0) subtracted += slopes[i] * abs(distances[i] - (first_column + columns_of_matrix[i]));
                float score = TRANSFORMED_BEFORE != 0 && has(FEATURE_SOFTCAP)
                                  ? cap_score(product * parameters.scale_log2) - subtracted
                                  : fma(product, parameters.scale_log2, -subtracted);
                scores_of_tile[r * KEY_TILES + k][i] = score;
                largest = max(largest, SCALES_VALUES_BY_KEY ? score + exponents[i] : score);
            }
        }
    }
    bool moves = largest > LARGEST_EXPONENT;
    [[unroll]] for (uint r = 0; r < ROWS_OF_LANE; ++r) moves = moves || lane_empty[r];
    return moves;
}

bool needs_slow_way(KeyTile tile, uint number) {
    bool slow = subgroupAny(subtract_references(tile) || !tile.all_visible || TRANSFORMS_SCORES);
    if (!DECIDES_TOGETHER) return slow;
    if (slow && subgroupElect()) atomicMax(last_slow, number);
    barrier();
    return last_slow == number;
}

// A score less its row's reference, with all that is done to it. What is not changed keeps its digits.
float finish_score(float relative, float reference, Row row, Slot slot, KeyTile tile) {
    float score = relative + reference, finished = score_key(score, row, slot, tile);
    return finished == score ? relative : finished - reference;
}

// Of four neighbouring slots. The code of most masks stands there once: each score comes first in its turn.
vec4 finish_block(vec4 relative, uint tile_row, Slot slot, KeyTile tile) {
    Row row = row_of_tile(rows, tile_row);
    float reference = OF_ROW(row_references, tile_row);
    if ((MASKS_BY_PAIR | LACKS_KEYS) == 0u) {
        [[unroll]] for (uint i = 0; i < 4; ++i) relative[i] =
            finish_score(relative[i], reference, row, advance(slot, i), tile);
        return relative;
    }
    [[dont_unroll]] for (uint i = 0; i < 4; ++i) relative =
        vec4(relative.yzw, finish_score(relative.x, reference, row, advance(slot, i), tile));
    return relative;
}

// In shared memory, where an invocation finds the scores of its own rows.
void finish_strip(KeyTile tile, uint first_key, inout float maxima[ROWS_OF_LANE]) {
    [[unroll]] for (uint turn = 0; turn < TURNS_OF_ROW; ++turn) [[unroll]] for (uint r = 0; r < ROWS_OF_LANE; ++r) {
        uint block = lane_of_row() + turn * LANES_OF_ROW, at = strip() + lane_row(r) * STRIP_PITCH + block;
        if (!is_block_of_row(block)) continue;
        vec4 scores = uintBitsToFloat(tiles[at]);
        if (!tile.all_visible || TRANSFORMS_SCORES) {
            scores =
                finish_block(scores, subgroup_row() + lane_row(r), advance(tile.first, first_key + 4 * block), tile);
            tiles[at] = floatBitsToUint(scores);
        }
        if (SCALES_VALUES_BY_KEY) scores += key_scales[VALUE_EXPONENTS + first_key / 4 + block];
        maxima[r] = max(maxima[r], max(max(scores.x, scores.y), max(scores.z, scores.w)));
    }
}

// The scores of one matrix of keys, of all the subgroup's rows.
void store_scores(uint k) {
    FOR_MATRICES(r, ROW_MATRICES)
    coopMatStore(scores_of_tile[r * KEY_TILES + k], tiles, strip() + r * MATRIX_M * STRIP_PITCH, STRIP_PITCH,
                 ROWS_IN_MEMORY);
}

void load_scores(uint k) {
    FOR_MATRICES(r, ROW_MATRICES)
    coopMatLoad(scores_of_tile[r * KEY_TILES + k], tiles, strip() + r * MATRIX_M * STRIP_PITCH, STRIP_PITCH,
                ROWS_IN_MEMORY);
}

void finish_scores(KeyTile tile, inout float maxima[ROWS_OF_LANE]) {
    [[dont_unroll]] for (uint current = 0; current < KEY_TILES; ++current) {
        FOR_MATRICES(k, KEY_TILES) if (k == current) store_scores(k);
        subgroupBarrier();
        finish_strip(tile, key_of_tile(current), maxima);
        subgroupBarrier();
        FOR_MATRICES(k, KEY_TILES) if (k == current) load_scores(k);
        subgroupBarrier(); // the strip's last readers are done
    }
}

// Over the invocations that own a row, and over the subgroups that share it, in an order that never changes.
float maximum_of_row(float value, uint row) {
    [[unroll]] for (uint step = 1; step < LANES_OF_ROW; step *= 2) value = max(value, subgroupShuffleXor(value, step));
    if (DIM_SUBGROUPS == 1) return value;
    if (lane_of_row() == 0) row_parts[row * DIM_SUBGROUPS + dim_subgroup()] = value;
    barrier();
    [[unroll]] for (uint i = 0; i < DIM_SUBGROUPS; ++i) value = max(value, row_parts[row * DIM_SUBGROUPS + i]);
    return value;
}

float sum_of_row(float value, uint row) {
    [[unroll]] for (uint step = 1; step < LANES_OF_ROW; step *= 2) value += subgroupShuffleXor(value, step);
    if (DIM_SUBGROUPS == 1) return value;
    if (lane_of_row() == 0) row_parts[row * DIM_SUBGROUPS + dim_subgroup()] = value;
    barrier();
    value = 0.0;
    [[unroll]] for (uint i = 0; i < DIM_SUBGROUPS; ++i) value += row_parts[row * DIM_SUBGROUPS + i];
    return value;
}

// How far the reference of a row moves, whose largest score is `maximum` above it.
void move_reference(uint r, float maximum) {
    bool seen = maximum > LOWEST_MAXIMUM;
    bool moves = lane_empty[r] ? seen : maximum > LARGEST_EXPONENT;
    float move = moves ? maximum - MAXIMUM_ABOVE_REFERENCE : 0.0;
    float factor = lane_empty[r] ? 1.0 : exp2(-move); // of sums that are 0 as long as the row has seen no key
    lane_empty[r] = lane_empty[r] && !seen;
    if (!owns_rows()) return;
    uint tile_row = subgroup_row() + lane_row(r);
    OF_ROW(row_references, tile_row) += move;
    OF_ROW(row_moves, tile_row) = move;
    OF_ROW(row_factors, tile_row) = factor;
}

void follow_maxima(KeyTile tile) {
    float maxima[ROWS_OF_LANE];
    [[unroll]] for (uint r = 0; r < ROWS_OF_LANE; ++r) maxima[r] = HIDDEN;
    finish_scores(tile, maxima);
    [[unroll]] for (uint r = 0; r < ROWS_OF_LANE; ++r)
        move_reference(r, maximum_of_row(maxima[r], subgroup_row() + lane_row(r)));
    synchronise_rows();
    FOR_MATRICES(r, ROW_MATRICES) {
        SUMS numbers;
        LOAD_ROWS(numbers, row_moves, r);
        FOR_MATRICES(k, KEY_TILES) SUBTRACT_FROM_MATRIX(scores_of_tile[r * KEY_TILES + k], numbers);
        LOAD_ROWS(numbers, row_factors, r);
        MULTIPLY_MATRIX(sums[r], numbers);
        FOR_MATRICES(t, OUTPUT_TILES) MULTIPLY_MATRIX(outputs[r * OUTPUT_TILES + t], numbers);
    }
}

// Scores become weights, in shared memory, where the subgroups that share rows put them together. Matrices of 16 bits may
// lie in registers otherwise than those of 32: they are converted whole.
void store_weights() {
    FOR_MATRICES(r, ROW_MATRICES) FOR_MATRICES(k, KEY_TILES) {
        SUMS exponents;
        if (SCALES_VALUES_BY_KEY) LOAD_VALUE_EXPONENTS(exponents, k);
        FOR_ELEMENTS(i, sums[r]) {
            float score = scores_of_tile[r * KEY_TILES + k][i], weight = exp2(score);
            sums[r][i] += weight;
            scores_of_tile[r * KEY_TILES + k][i] = SCALES_VALUES_BY_KEY ? exp2(score + exponents[i]) : weight;
        }
        if (KEEPS_WEIGHTS != 0) continue;
        ROUNDED_WEIGHTS rounded;
        ROUND_WEIGHTS(rounded, scores_of_tile[r * KEY_TILES + k]);
        coopMatStore(rounded, tiles, weights_of_rows() + r * MATRIX_M * WEIGHT_PITCH + key_of_tile(k) / 8, WEIGHT_PITCH,
                     ROWS_IN_MEMORY);
    }
}

// Of the weights that this subgroup stored. Those that are kept become larger at the end, with the output.
void drop_weights(KeyTile tile) {
    const uint pairs = KEY_TILES * MATRIX_N / 2;
    subgroupBarrier();
    for (uint i = lane(); i < SUBGROUP_ROWS * pairs; i += SUBGROUP_SIZE) {
        Row row = row_of_tile(rows, subgroup_row() + i / pairs);
        uint column = key_of_tile(0) + i % pairs * 2;
        uint at = weights_of_rows() + i / pairs * WEIGHT_PITCH + column / 8;
        Slot even = advance(tile.first, column), odd = advance(even, 1);
        uint kept = (dropout_factor(row, key_of_slot(row, even)) != 0.0 ? 0xffffu : 0) |
                    (dropout_factor(row, key_of_slot(row, odd)) != 0.0 ? 0xffff0000u : 0);
        tiles[at][column / 2 % 4] &= kept;
    }
}

// From the products of the tile's keys to weights, which each subgroup can load afterwards, once synchronised.
void apply_softmax(KeyTile tile, uint number) {
    if (needs_slow_way(tile, number)) follow_maxima(tile);
    store_weights();
    if (has(FEATURE_DROPOUT)) drop_weights(tile);
}

// Of the invocation's own rows, of all their keys.
void sum_columns(out float totals[ROWS_OF_LANE]) {
    FOR_MATRICES(r, ROW_MATRICES)
    coopMatStore(sums[r], tiles, strip() + r * MATRIX_M * STRIP_PITCH, STRIP_PITCH, ROWS_IN_MEMORY);
    subgroupBarrier();
    [[unroll]] for (uint r = 0; r < ROWS_OF_LANE; ++r) {
        vec4 sum = vec4(0);
        [[unroll]] for (uint turn = 0; turn < TURNS_OF_ROW; ++turn) {
            uint block = lane_of_row() + turn * LANES_OF_ROW;
            if (is_block_of_row(block)) sum += uintBitsToFloat(tiles[strip() + lane_row(r) * STRIP_PITCH + block]);
        }
        totals[r] = (sum.x + sum.y) + (sum.z + sum.w);
    }
    subgroupBarrier(); // the strip's last readers are done
    [[unroll]] for (uint r = 0; r < ROWS_OF_LANE; ++r) totals[r] = sum_of_row(totals[r], subgroup_row() + lane_row(r));
}

#endif
