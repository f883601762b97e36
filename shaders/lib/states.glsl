// Where a query row's softmax state and running output wait, in scores, for the next dispatch or for merge_parts:
// maximum, sum, two unused, then the output. After lib/work.glsl.

const uint VALUE_BLOCKS = (V_HEAD_DIM + 3) / 4;
const uint STATE_HEADER = 4;
const uint STATE_SIZE = STATE_HEADER + 4 * VALUE_BLOCKS;

uint state_element(Row row, uint part) {
    return base_bytes(BINDING_SCORES) / 4 + (row_index(row) * PARTS + part) * STATE_SIZE;
}
