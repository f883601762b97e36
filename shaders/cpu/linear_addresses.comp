// The linear of linear.comp for CPU drivers, which run straight code fast and pay dearly for shared memory and
// barriers: an invocation owns ROWS rows and OUTPUTS neighbouring output features, and reads the rows of input and
// weight through device addresses, of the input the same for the whole workgroup.
//
// grid: (row tiles, output tiles, groups); WORKGROUP_SIZE invocations. Input features are a multiple of 4 * BLOCKS; the
// rows of input and weight have no gaps between elements and begin at multiples of four; f32, f16 or bf16. Where
// QUANTISED_WEIGHT is defined, weights are quantised and 4 * BLOCKS a multiple of 32. No shared memory or barrier.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require

layout(local_size_x_id = 7) in; // WORKGROUP_SIZE

#include "cpu/address_loads.glsl"
#include "operators/linear_tensors.glsl"

const uint OUTPUTS = LINEAR_ADDRESSES_OUTPUTS;

uvec2 rows[ROWS]; // addresses
uvec2 weights[OUTPUTS];
float sums[ROWS * OUTPUTS];

// `element` elements further on.
uvec2 element_address(const uint format, uvec2 address, uint element) {
#ifdef QUANTISED_WEIGHT
    element /= elements_of_block(format);
#endif
    return advance_address(address, element, bytes_of_block(format));
}

// Those behind the last repeat it, and are not stored.
void find_rows(uint first_row, uint first_output) {
    [[unroll]] for (uint r = 0; r < ROWS; ++r) rows[r] =
        element_address(INPUT_FORMAT, uvec2(push.input_address[0], push.input_address[1]),
                        input_element(min(first_row + r, push.rows - 1), 0));
    [[unroll]] for (uint i = 0; i < OUTPUTS; ++i) weights[i] =
        element_address(WEIGHT_FORMAT, uvec2(push.weight_address[0], push.weight_address[1]),
                        weight_element(min(first_output + i, push.out_features - 1), 0));
}

#ifdef QUANTISED_WEIGHT
const bool WHOLE_WORDS = (ALIGNED & ALIGNED_WEIGHT) != 0; // weights of a step begin at them

// The rows of weights stay where they are: a step may begin within a block.
void add_blocks(uint first_feature) {
    uvec2 addresses[OUTPUTS];
    uint begins[OUTPUTS];
    vec2 affine[OUTPUTS];
    const uint elements = elements_of_block(WEIGHT_FORMAT);
    const uint blocks_of_affine = elements == QUANTISED_BLOCK ? QUANTISED_BLOCK / 4 : 4;
    uint element = elements > 4 * BLOCKS ? first_feature % elements : 0;
    [[unroll]] for (uint i = 0; i < OUTPUTS; ++i) {
        addresses[i] = element_address(WEIGHT_FORMAT, weights[i], first_feature);
        begins[i] = WHOLE_WORDS ? 0 : addresses[i].x & 2;
        addresses[i].x -= begins[i];
    }
    [[unroll]] for (uint b = 0; b < BLOCKS; ++b) {
        vec4 x[ROWS];
        [[unroll]] for (uint r = 0; r < ROWS; ++r) x[r] = load_own_block(INPUT_FORMAT, rows[r], b);
        [[unroll]] for (uint i = 0; i < OUTPUTS; ++i) {
            if (b % blocks_of_affine == 0)
                affine[i] = load_quantised_affine(WEIGHT_FORMAT, addresses[i], begins[i], element + 4 * b);
            vec4 w = load_quantised_numbers(WEIGHT_FORMAT, addresses[i], begins[i], element + 4 * b);
            w = apply_affine(WEIGHT_FORMAT, affine[i], w);
            [[unroll]] for (uint c = 0; c < 4; ++c) [[unroll]] for (uint r = 0; r < ROWS; ++r) sums[r * OUTPUTS + i] =
                fma(x[r][c], w[c], sums[r * OUTPUTS + i]);
        }
    }
}
#else
// The blocks of one output one after the other, while their cache line is at hand: rows are often a power of two apart.
void add_blocks() {
    vec4 x[ROWS * BLOCKS];
    [[unroll]] for (uint r = 0; r < ROWS; ++r) [[unroll]] for (uint b = 0; b < BLOCKS; ++b) x[r * BLOCKS + b] =
        load_own_block(INPUT_FORMAT, rows[r], b);
    [[unroll]] for (uint i = 0; i < OUTPUTS; ++i) [[unroll]] for (uint b = 0; b < BLOCKS; ++b) {
        vec4 w = load_own_block(WEIGHT_FORMAT, weights[i], b);
        [[unroll]] for (uint c = 0; c < 4; ++c) [[unroll]] for (uint r = 0; r < ROWS; ++r) sums[r * OUTPUTS + i] =
            fma(x[r * BLOCKS + b][c], w[c], sums[r * OUTPUTS + i]);
    }
}
#endif

void main() {
    uint first_row = workgroup().x * ROWS;
    uint first_output = (workgroup().y * WORKGROUP_SIZE + gl_LocalInvocationID.x) * OUTPUTS;
    find_rows(first_row, first_output);
    [[unroll]] for (uint i = 0; i < ROWS * OUTPUTS; ++i) sums[i] = 0.0;
    uint block = 0;
    do { // see addresses.comp
#ifdef QUANTISED_WEIGHT
        add_blocks(4 * block);
#else
        add_blocks();
#endif
        [[unroll]] for (uint r = 0; r < ROWS; ++r) rows[r] = element_address(INPUT_FORMAT, rows[r], 4 * BLOCKS);
#ifndef QUANTISED_WEIGHT
        [[unroll]] for (uint i = 0; i < OUTPUTS; ++i) weights[i] =
            element_address(WEIGHT_FORMAT, weights[i], 4 * BLOCKS);
#endif
        block += BLOCKS;
    } while (block < push.in_features / 4);
    [[unroll]] for (uint r = 0; r < ROWS; ++r) [[unroll]] for (uint i = 0; i < OUTPUTS; i += SUMS_OF_PAIR) {
        vec4 own = vec4(0);
        [[unroll]] for (uint k = 0; k < SUMS_OF_PAIR; ++k) own[k] = sums[r * OUTPUTS + i + k];
        store_pair(first_row + r, first_output + i, own);
    }
}
