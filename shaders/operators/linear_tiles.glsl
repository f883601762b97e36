// Template: how linear and linear_dots divide a workgroup, what its invocations load, and its end. PARTS groups of LINEAR_SIDE x LINEAR_SIDE
// invocations each sum up their steps of the features; an invocation's ROW_TILES x TILES sums are of rows and outputs that lie LINEAR_SIDE
// apart. In the end sums pass through shared memory, where those of the parts are added in order, so that neighbours store neighbouring
// outputs, and what becomes of a sum stands there once: LINEAR_SIDE rows at a time.
//
// Before: PARTS; STEP, input features of a part's pass through shared memory; TILE_ROWS and TILE_OUTPUTS; STRIP(at), an lvalue of 32 bits in
// shared memory, for 0 <= at < LINEAR_SIDE^2 * TILES * PARTS, and AS_STRIP and FROM_STRIP, which make one of a float and back
const uint LOADS = STEP / FEATURES;                                 // of a line
const uint INPUT_LOADS = TILE_ROWS * LOADS / LINEAR_WORKGROUP_SIZE; // of an invocation, a load of each
const uint WEIGHT_LOADS = TILE_OUTPUTS * LOADS / LINEAR_WORKGROUP_SIZE;
const uint STRIP_SIZE = LINEAR_SIDE * LINEAR_SIDE * TILES;

float sums[ROW_TILES * TILES]; // [row][output]

uint own_part() { return PARTS > 1 ? gl_LocalInvocationID.x / LINEAR_WORKGROUP_SIZE : 0; }
uint place_in_part() { return PARTS > 1 ? gl_LocalInvocationID.x % LINEAR_WORKGROUP_SIZE : gl_LocalInvocationID.x; }
uint load_of(uint i) { return place_in_part() + i * LINEAR_WORKGROUP_SIZE; }
uint loaded_line(uint i) { return load_of(i) / LOADS; }
uint own_feature() { return place_in_part() % LOADS * FEATURES; } // of a step, of all that it loads of lines

// Elements of the first features of what this invocation loads; lines behind the last repeat it, and are not stored.
uint input_rows[INPUT_LOADS];
uint weight_rows[WEIGHT_LOADS];

void find_lines(uint first_row, uint first_output) {
    [[unroll]] for (uint i = 0; i < INPUT_LOADS; ++i) input_rows[i] =
        input_element(min(first_row + loaded_line(i), push.rows - 1), 0);
    [[unroll]] for (uint i = 0; i < WEIGHT_LOADS; ++i) weight_rows[i] =
        weight_element(min(first_output + loaded_line(i), push.out_features - 1), 0);
}

uint own_row(uint r) { return place_in_part() / LINEAR_SIDE + r * LINEAR_SIDE; }
uint own_output(uint o) { return place_in_part() % LINEAR_SIDE + o * LINEAR_SIDE; }

vec2 sums_of_parts(uint at) {
    vec2 sum = vec2(FROM_STRIP(STRIP(at)), FROM_STRIP(STRIP(at + 1)));
    [[unroll]] for (uint part = 1; part < PARTS; ++part) sum +=
        vec2(FROM_STRIP(STRIP(part * STRIP_SIZE + at)), FROM_STRIP(STRIP(part * STRIP_SIZE + at + 1)));
    return sum;
}

void store_tile(uint first_row, uint first_output) {
    const uint outputs = TILES * LINEAR_SIDE, pairs = outputs / SUMS_OF_PAIR; // of a row
    [[dont_unroll]] for (uint r = 0; r < ROW_TILES; ++r) {
        barrier(); // the tiles' last readers are done
        [[unroll]] for (uint o = 0; o < TILES; ++o) {
            STRIP(own_part() * STRIP_SIZE + own_row(0) * outputs + own_output(o)) = AS_STRIP(sums[o]);
        }
        barrier();
        [[dont_unroll]] for (uint i = gl_LocalInvocationID.x; i < LINEAR_SIDE * pairs; i += WORKGROUP_SIZE) {
            uint at = i * SUMS_OF_PAIR;
            vec4 found = vec4(sums_of_parts(at), sums_of_parts(at + SUMS_OF_PAIR - 2));
            store_pair(first_row + r * LINEAR_SIDE + i / pairs, first_output + i % pairs * SUMS_OF_PAIR, found);
        }
        [[unroll]] for (uint i = TILES; i < ROW_TILES * TILES; ++i) sums[i - TILES] =
            sums[i]; // no index finds registers
    }
}
