// FlashAttention-2 on matrices of any size (VK_NV_cooperative_matrix2): f16 factors, or bf16 where BFLOAT16 is defined; f32 sums.
// Dao, "FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning", 2023.
//
// query [B,Hq,Lq,D], key [B,Hkv,Lk,D], value [B,Hkv,Lk,Dv] -> output [B,Hq,Lq,Dv], log_sum_exp [B,Hq,Lq]
// grid: (row tiles of a KV head's GROUP * Lq rows, times parts, Hkv, B), packed queries as in attention/rows.glsl
//
// A unit, the workgroup or a subgroup by MATRIX_SCOPE, owns UNIT_ROWS query rows. Their scores of a tile of keys are one matrix,
// which masks see element by element, and whose rows the extension reduces. The workgroup shares each tile of K and V in shared
// memory. Where rows are few, a workgroup attends one part of their keys, and merge_parts joins the parts.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_NV_cooperative_matrix2 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#ifdef BFLOAT16
#extension GL_EXT_bfloat16 : require
#else
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#endif

layout(local_size_x_id = 0) in;

#include "attention/parameters.glsl"
#include "common/matrix_element.glsl"

#define KEY_FORMAT MATRIX_FORMAT // before what reads them
#define VALUE_FORMAT MATRIX_FORMAT

#include "attention/dropout.glsl"
#include "attention/key_walk.glsl"
#include "attention/output.glsl"
#include "attention/rows.glsl"
#include "attention/softmax.glsl"
#include "attention/states.glsl"
#include "kernels/coopmat2/tiles.glsl"

#include "kernels/coopmat/staging.glsl"

// Of a unit. S = Q K^T and O = P V; a step is of their dims.
#define QUERIES coopmat<MATRIX_ELEMENT, MATRIX_SCOPE, UNIT_ROWS, STEP_OF_KEYS, gl_MatrixUseA>
#define KEYS coopmat<MATRIX_ELEMENT, MATRIX_SCOPE, STEP_OF_KEYS, KEYS_OF_TILE, gl_MatrixUseB>
#define SCORES coopmat<float, MATRIX_SCOPE, UNIT_ROWS, KEYS_OF_TILE, gl_MatrixUseAccumulator>
#define WEIGHTS coopmat<MATRIX_ELEMENT, MATRIX_SCOPE, UNIT_ROWS, KEYS_OF_TILE, gl_MatrixUseA>
#define VALUES coopmat<MATRIX_ELEMENT, MATRIX_SCOPE, KEYS_OF_TILE, STEP_OF_VALUES, gl_MatrixUseB>
#define OUTPUTS coopmat<float, MATRIX_SCOPE, UNIT_ROWS, STEP_OF_VALUES, gl_MatrixUseAccumulator>
const int ROWS_IN_MEMORY = gl_CooperativeMatrixLayoutRowMajor;
const int COLUMNS_IN_MEMORY = gl_CooperativeMatrixLayoutColumnMajor;
#define FOR_STEPS(step, n) [[unroll]] for (uint step = 0; step < (n); ++step)

const uint QUERY_STEPS = QUERY_DIMS / STEP_OF_KEYS;
const uint VALUE_STEPS = VALUE_DIMS / STEP_OF_VALUES;

// A weight is 2 to the power of its score less the row's reference. The reference follows the row's maximum at a distance, so
// that few tiles move it: f16 weights lie between 2^-14 and 2^15, and what is smaller some devices round to 0.
const float MAXIMUM_ABOVE_REFERENCE = 11.0;
const float LARGEST_EXPONENT = 15.0;

QUERIES queries[QUERY_IN_REGISTERS != 0 ? QUERY_STEPS : 1];
OUTPUTS outputs[VALUE_STEPS];
SCORES references, sums; // every column of references the same; sums by column
shared float row_factors[TILE_ROWS];

// What is done to each element of a matrix, and to two of a row. Functions that the driver calls see no variables of ours.
float larger(const in float a, const in float b) { return max(a, b); }
float added(const in float a, const in float b) { return a + b; }
float moved(const in uint row, const in uint column, const in float maximum, const in float reference) {
    return maximum - reference > LARGEST_EXPONENT ? maximum - MAXIMUM_ABOVE_REFERENCE : reference;
}
float power(const in uint row, const in uint column, const in float exponent) { return exp2(exponent); }

// Of structures Mesa 26 hands on the first member alone: what masks need comes as vectors.
struct Place {
    Row row;
    Slot slot;
    KeyTile tile;
};

Place place_of(uint row, uint column, uvec4 tile_rows, uvec3 keys) {
    KeyTile tile = KeyTile(Slot(keys.x), keys.y, keys.z != 0);
    return Place(row_of_tile(RowTile(tile_rows.x, tile_rows.y, tile_rows.z, tile_rows.w), row),
                 advance(tile.first, column), tile);
}

float score(const in uint row, const in uint column, const in float product, const in uvec4 tile_rows,
            const in uvec3 keys) {
    Place place = place_of(row, column, tile_rows, keys);
    return score_key(product, place.row, place.slot, place.tile);
}

float dropped(const in uint row, const in uint column, const in float weight, const in uvec4 tile_rows,
              const in uvec3 keys) {
    Place place = place_of(row, column, tile_rows, keys);
    return dropout_factor(place.row, key_of_slot(place.row, place.slot)) != 0.0 ? weight : 0.0;
}

float infinite(const in uint row, const in uint column, const in float sum, const in float infinity) {
    return sum > 0.0 ? infinity : 0.0;
}

uvec4 rows_of_unit() { return uvec4(rows.batch, rows.kv_head, rows.first + unit_row(), rows.end); }
uvec3 numbers_of(KeyTile tile) { return uvec3(tile.first.number, tile.end, uint(tile.all_visible)); }

// Through the unit's strip, a step at a time.
void load_queries() {
    const uint vectors = STEP_OF_KEYS / 8;
    FOR_STEPS(step, QUERY_STEPS) {
        for (uint i = place(); i < UNIT_ROWS * vectors; i += UNIT_SIZE)
            tiles[strip() + i / vectors * QUERY_STRIP_PITCH + i % vectors] =
                load_query_elements(row_of_tile(rows, unit_row() + i / vectors), step * STEP_OF_KEYS + i % vectors * 8);
        synchronise_unit();
        coopMatLoad(queries[step], tiles, strip(), QUERY_STRIP_PITCH, ROWS_IN_MEMORY);
        synchronise_unit(); // the strip's last readers are done
    }
}

void query_of_step(uint step, out QUERIES query) {
    if (QUERY_IN_REGISTERS != 0)
        query = queries[step];
    else
        coopMatLoad(query, tiles, QUERY_TILE + unit_row() * QUERY_PITCH + step * STEP_OF_KEYS / 8, QUERY_PITCH,
                    ROWS_IN_MEMORY);
}

void start_rows() {
    if (invocation() == 0) last_special = 0;
    if (QUERY_IN_REGISTERS != 0)
        load_queries();
    else
        stage_query();
    references = SCORES(LOWEST_MAXIMUM);
    sums = SCORES(0.0);
    FOR_STEPS(step, VALUE_STEPS) outputs[step] = OUTPUTS(0.0);
}

// In units of log 2.
void score_tile(KeyTile tile, out SCORES scores) {
    scores = SCORES(0.0);
    FOR_STEPS(step, QUERY_STEPS) {
        QUERIES query;
        query_of_step(step, query);
        KEYS keys;
        coopMatLoad(keys, tiles, step * STEP_OF_KEYS / 8, KEY_PITCH, COLUMNS_IN_MEMORY);
        scores = coopMatMulAdd(query, keys, scores);
    }
    scores *= parameters.scale_log2;
    if (!tile.all_visible || TRANSFORMS_SCORES)
        coopMatPerElementNV(scores, scores, score, rows_of_unit(), numbers_of(tile));
}

// Where some score is too large for its row's reference, the references of such rows move, and what was summed follows them.
void follow_maxima(SCORES scores) {
    SCORES maxima, correction;
    coopMatReduceNV(maxima, scores, gl_CooperativeMatrixReduceRowNV, larger);
    coopMatPerElementNV(maxima, maxima, moved, references);
    coopMatPerElementNV(correction, references - maxima, power);
    references = maxima;
    sums *= correction;
    OUTPUTS corrections;
    coopMatReduceNV(corrections, correction, gl_CooperativeMatrixReduceRowNV, larger);
    FOR_STEPS(step, VALUE_STEPS) outputs[step] *= corrections;
}

// Scores become weights.
void apply_softmax(inout SCORES scores) {
    OUTPUTS largest; // each element of it
    coopMatReduceNV(largest, scores - references, gl_CooperativeMatrixReduceRowAndColumnNV, larger);
    if (largest[0] > LARGEST_EXPONENT) follow_maxima(scores);
    coopMatPerElementNV(scores, scores - references, power);
    sums += scores;
}

void load_values(uint step, out VALUES values) {
    if (VALUES_BY_KEY)
        coopMatLoad(values, tiles, VALUE_TILE + step * STEP_OF_VALUES / 8, VALUE_PITCH, ROWS_IN_MEMORY);
    else
        coopMatLoad(values, tiles, VALUE_TILE + step * STEP_OF_VALUES * VALUE_PITCH, VALUE_PITCH, COLUMNS_IN_MEMORY);
}

void sum_values(WEIGHTS weights) {
    FOR_STEPS(step, VALUE_STEPS) {
        VALUES values;
        load_values(step, values);
        outputs[step] = coopMatMulAdd(weights, values, outputs[step]);
    }
}

// The same of ones that stand for infinities, of which any weight adds one.
void sum_infinities(WEIGHTS weights, float infinity) {
    FOR_STEPS(step, VALUE_STEPS) {
        VALUES ones;
        load_values(step, ones);
        OUTPUTS sum = coopMatMulAdd(weights, ones, OUTPUTS(0.0));
        coopMatPerElementNV(sum, sum, infinite, infinity);
        outputs[step] += sum;
    }
}

// One part after the other. A hidden key's weight is 0, which adds nothing to a row even where its value is not a number.
void sum_parts(KeyTile tile, WEIGHTS weights, uint number) {
    [[dont_unroll]] for (uint part = VALUES_FINITE; part <= VALUES_MINUS_INFINITY; ++part) {
        if (part == VALUES_LARGE) continue;
        barrier(); // the last readers of what lies there are done
        stage_values_in_turn(tile, ValueStaging(0, part, number));
        barrier();
        if (part == VALUES_FINITE)
            sum_values(weights);
        else
            sum_infinities(weights, uintBitsToFloat(part == VALUES_MINUS_INFINITY ? 0xff800000u : 0x7f800000u));
    }
}

// number: of the tile, from 1 on.
void attend_tile(KeyTile tile, uint number) {
    barrier(); // the tiles' last readers are done
    stage_keys(tile, 0);
    stage_values(tile, ValueStaging(0, VALUES_ALL, number));
    barrier();
    SCORES scores;
    score_tile(tile, scores);
    apply_softmax(scores);
    if (has(FEATURE_DROPOUT)) coopMatPerElementNV(scores, scores, dropped, rows_of_unit(), numbers_of(tile));
    WEIGHTS weights = WEIGHTS(scores);
    if (HIDES_KEYS == 0 || tile.all_visible || last_special != number)
        sum_values(weights);
    else
        sum_parts(tile, weights, number);
}

// Of the unit's row of this invocation, what a matrix has in its first column.
float number_of_row(OUTPUTS matrix) {
    coopMatStore(matrix, tiles, strip(), STRIP_PITCH, ROWS_IN_MEMORY);
    synchronise_unit();
    float number = uintBitsToFloat(tiles[strip() + min(place(), UNIT_ROWS - 1) * STRIP_PITCH].x);
    synchronise_unit(); // the strip's last readers are done
    return number;
}

// What there is one of for each row. Returns what its sums of values are to be multiplied with.
float finish_state(SoftmaxState state, uint tile_row, uint part) {
    Row row = row_of_tile(rows, tile_row);
    float kept = has(FEATURE_DROPOUT) ? parameters.dropout_scale : 1.0;
    bool exists = rows.first + tile_row < rows.end;
    if (leaves_states()) {
        if (exists) store_state(state_element(row, part), state);
        return kept;
    }
    float rescale = softmax_denominator_scale(state, row);
    if (exists) store_log_sum_exp(state, row);
    return normaliser_of(state, kept * rescale);
}

void finish_rows(uint part) {
    OUTPUTS numbers;
    coopMatReduceNV(numbers, sums, gl_CooperativeMatrixReduceRowNV, added);
    float sum = number_of_row(numbers);
    coopMatReduceNV(numbers, references, gl_CooperativeMatrixReduceRowNV, larger);
    float reference = number_of_row(numbers);
    if (place() >= UNIT_ROWS) return;
    row_factors[unit_row() + place()] = finish_state(SoftmaxState(reference, sum), unit_row() + place(), part);
}

void store_strip(uint dim, uint part) {
    const uint blocks = STEP_OF_VALUES / 4;
    for (uint i = place(); i < UNIT_ROWS * blocks; i += UNIT_SIZE) {
        uint tile_row = unit_row() + i / blocks, at = dim + i % blocks * 4;
        if (rows.first + tile_row >= rows.end) break;
        Row row = row_of_tile(rows, tile_row);
        vec4 values = row_factors[tile_row] * uintBitsToFloat(tiles[strip() + i / blocks * STRIP_PITCH + i % blocks]);
        if (leaves_states())
            store_state_block(state_element(row, part), at, values);
        else
            store_output_block(output_element(row), at, values);
    }
}

// Through the unit's strip, a step at a time.
void store_outputs(uint part) {
    [[dont_unroll]] for (uint current = 0; current < VALUE_STEPS; ++current) {
        FOR_STEPS(step, VALUE_STEPS)
        if (step == current) coopMatStore(outputs[step], tiles, strip(), STRIP_PITCH, ROWS_IN_MEMORY);
        synchronise_unit();
        store_strip(current * STEP_OF_VALUES, part);
        synchronise_unit(); // the strip's last readers are done
    }
}

void main() {
    uint group = workgroup().x;
    uint part = group % parts();
    rows = row_tile_of_grid(group / parts(), TILE_ROWS);
    if (is_empty(rows)) return; // the whole workgroup
    KeyWalk walk = begin_walk(rows, part, KEYS_OF_TILE, 1);

    start_rows();
    uint number = 1;
    for (; next_tile(walk, KEYS_OF_TILE); pass_tile(walk, KEYS_OF_TILE))
        attend_tile(tile_of_walk(walk, KEYS_OF_TILE), number++);
    barrier(); // the tiles' last readers are done
    finish_rows(part);
    synchronise_unit();
    store_outputs(part);
}
