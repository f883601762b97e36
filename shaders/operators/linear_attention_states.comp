// The second of two kernels of linear attention over many tokens: goes through the chunks of a sequence, from state to state, and gives the
// outputs, as operators/linear_attention/chunks.glsl says.
//
// grid: (tiles of 4 * COLUMN_VECTORS columns, Hv, sequences of a stretch). The state's columns are in shared memory. In the products with
// the state an invocation has four rows, of K and of Q two each, and four columns, of a part of the channels.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;

#include "operators/linear_attention/chunks.glsl"
#include "operators/linear_attention/states.glsl"

#define TENSOR output
#define TENSOR_BINDING BINDING_LINEAR_ATTENTION_OUTPUT
#define TENSOR_WRITABLE
#include "common/tensor.glsl"

STATES(token_states, BINDING_LINEAR_ATTENTION_TOKEN_STATES, readonly)
STATES_LOAD(token_states, BINDING_LINEAR_ATTENTION_TOKEN_STATES)

layout(set = 0, binding = BINDING_LINEAR_ATTENTION_FACTORS, std430) readonly buffer FactorsBuffer { vec4 factors[]; };
layout(set = 0, binding = BINDING_LINEAR_ATTENTION_CARRY_FROM, std430) readonly buffer CarryFromBuffer {
    vec4 carried[];
};
layout(set = 0, binding = BINDING_LINEAR_ATTENTION_CARRY_TO, std430) writeonly buffer CarryToBuffer {
    vec4 carry_to[];
};

const uint TILE = CHUNK / 2 * COLUMN_VECTORS; // invocations of a part of the channels
const uint PARTS = WORKGROUP_SIZE / TILE;
const uint PART_CHANNELS = CHANNELS / PARTS;
const uint AT_ONCE = 8; // channels or tokens whose loads are under way at the same time
const uint STATE_FOURS = CHANNELS * COLUMN_VECTORS;

shared vec4 state[STATE_FOURS];          // of each channel its columns
shared vec4 partial[4 * WORKGROUP_SIZE]; // of each part; in its first one, then, the sums
shared vec4 u_tile[CHUNK * COLUMN_VECTORS];

uint lane() { return gl_LocalInvocationID.x; }
uint own_four(uint i) { return i % COLUMN_VECTORS; }
uint column_of(uint i) { return 4 * (workgroup().x * COLUMN_VECTORS + own_four(i)); }

// The carried state: [Hv,channels,columns] in fours.
uint carried_at(const uint binding, uint head, uint i) {
    return base_bytes(binding) / 16 + (head * CHANNELS + i / COLUMN_VECTORS) * COLUMN_FOURS + column_of(i) / 4;
}

vec4 initial_four(uint sequence, uint head, uint i) {
    uint own_state = state_of(sequence), channel = i / COLUMN_VECTORS, after = accepted_of(sequence);
    if (own_state == NO_STATE || channel >= HEAD_DIM) return vec4(0);
    uint columns = columns_from(column_of(i)), element = channel * V_HEAD_DIM + column_of(i);
    if (HAS_ACCEPTED != 0 && after != 0)
        return token_states_load(first_element(own_state * parameters.drafts + after - 1, head) + element, columns);
    if (HAS_INITIAL != 0) return initial_load(first_element(own_state, head) + element, columns);
    return vec4(0);
}

void load_state(uint sequence, uint head, bool begins) {
    for (uint i = lane(); i < STATE_FOURS; i += WORKGROUP_SIZE) {
        state[i] = vec4(0);
        if (column_of(i) >= V_HEAD_DIM) continue;
        state[i] = begins ? initial_four(sequence, head, i)
                          : carried[carried_at(BINDING_LINEAR_ATTENTION_CARRY_FROM, head, i)];
    }
    barrier();
}

void store_state(uint sequence, uint head, bool ends) {
    uint own_state = state_of(sequence);
    for (uint i = lane(); i < STATE_FOURS; i += WORKGROUP_SIZE) {
        uint channel = i / COLUMN_VECTORS;
        if (column_of(i) >= V_HEAD_DIM) continue;
        if (!ends)
            carry_to[carried_at(BINDING_LINEAR_ATTENTION_CARRY_TO, head, i)] = state[i];
        else if (HAS_FINAL != 0 && own_state != NO_STATE && channel < HEAD_DIM)
            final_store(first_element(own_state, head) + channel * V_HEAD_DIM + column_of(i),
                        columns_from(column_of(i)), state[i]);
    }
}

// The products of K and Q with the state, of a part of the channels.
void multiply_state(uint begin) {
    uint part = lane() / TILE, pair = lane() % TILE / COLUMN_VECTORS, four = lane() % COLUMN_VECTORS;
    mat4 sums = mat4(0);
    uint first = part * PART_CHANNELS, last = first + PART_CHANNELS;
    for (uint channel = first; channel < last; channel += AT_ONCE) {
        vec4 rows[AT_ONCE];
        [[unroll]] for (uint c = 0; c < AT_ONCE; ++c) rows[c] =
            factors[begin + PAIRS_BEGIN + (channel + c) * (CHUNK / 2) + pair];
        [[unroll]] for (uint c = 0; c < AT_ONCE; ++c) {
            vec4 columns = state[(channel + c) * COLUMN_VECTORS + four];
            [[unroll]] for (uint i = 0; i < 4; ++i) if (IS_DELTA != 0 || i >= 2) sums[i] += rows[c][i] * columns;
        }
    }
    [[unroll]] for (uint i = 0; i < 4; ++i) partial[(part * 4 + i) * TILE + lane() % TILE] = sums[i];
}

// Row i (0, 1: of K, 2, 3: of Q) of a pair of tokens.
void join_parts(uint begin) {
    for (uint j = lane(); j < 4 * TILE; j += WORKGROUP_SIZE) {
        vec4 sum = vec4(0);
        for (uint part = 0; part < PARTS; ++part) sum += partial[part * 4 * TILE + j];
        uint i = j / TILE, t = 2 * (j % TILE / COLUMN_VECTORS) + i % 2;
        if (i >= 2) {
            partial[j] = sum;
        } else {
            vec4 value = column_of(j) < V_HEAD_DIM ? factors[begin + VALUES_BEGIN + t * COLUMN_FOURS + column_of(j) / 4]
                                                   : vec4(0);
            u_tile[t * COLUMN_VECTORS + own_four(j)] = IS_DELTA != 0 ? value - sum : value;
        }
    }
}

void store_output(uint row, uint column, vec4 value) {
    uint stride = OUTPUT_PAIRS != 0 ? 1 : parameters.output_strides.w;
    for (uint i = 0; i < 4; i += 2) {
        uint columns = columns_from(column + i), at = row + (column + i) * stride;
        if (columns >= 2)
            output_store2(OUTPUT_FORMAT, OUTPUT_PAIRS != 0, at, stride, vec2(value[i], value[i + 1]));
        else if (columns == 1)
            output_store(OUTPUT_FORMAT, at, value[i]);
    }
}

void write_outputs(uint begin, Tokens tokens, uint head, uint first_token) {
    for (uint j = 2 * TILE + lane(); j < 4 * TILE; j += WORKGROUP_SIZE) {
        uint t = 2 * (j % TILE / COLUMN_VECTORS) + j / TILE % 2;
        if (first_token + t >= tokens.count) continue;
        vec4 sum = partial[j], weights[CHUNK_VECTORS]; // of later tokens 0
        [[unroll]] for (uint v = 0; v < CHUNK_VECTORS; ++v) weights[v] =
            factors[begin + WEIGHTS_BEGIN + t * CHUNK_VECTORS + v];
        [[unroll]] for (uint v = 0; v < CHUNK_VECTORS; ++v) [[unroll]] for (uint i = 0; i < 4; ++i) sum +=
            weights[v][i] * u_tile[(4 * v + i) * COLUMN_VECTORS + own_four(j)];
        store_output(row_of(parameters.output_strides, tokens, head, first_token + t), column_of(j), sum);
    }
}

void update_state(uint begin) {
    for (uint i = lane(); i < CHANNEL_VECTORS * COLUMN_VECTORS; i += WORKGROUP_SIZE) {
        uint channels = i / COLUMN_VECTORS;
        vec4 decays = factors[begin + DECAYS_BEGIN + channels];
        mat4 sums;
        [[unroll]] for (uint c = 0; c < 4; ++c) sums[c] =
            decays[c] * state[(4 * channels + c) * COLUMN_VECTORS + own_four(i)];
        for (uint s = 0; s < CHUNK; s += AT_ONCE) {
            vec4 keys[AT_ONCE];
            [[unroll]] for (uint j = 0; j < AT_ONCE; ++j) keys[j] =
                factors[begin + KEYS_BEGIN + (s + j) * CHANNEL_VECTORS + channels];
            [[unroll]] for (uint j = 0; j < AT_ONCE; ++j) {
                vec4 u = u_tile[(s + j) * COLUMN_VECTORS + own_four(i)];
                [[unroll]] for (uint c = 0; c < 4; ++c) sums[c] += keys[j][c] * u;
            }
        }
        [[unroll]] for (uint c = 0; c < 4; ++c) state[(4 * channels + c) * COLUMN_VECTORS + own_four(i)] = sums[c];
    }
}

void main() {
    uint head = workgroup().y, sequence = sequence_of_chunk(push.first_chunk) + workgroup().z;
    if (sequence >= parameters.sequences) return;
    Tokens tokens = tokens_of(sequence);
    uint own_first = first_chunk_of(sequence), own_end = own_first + chunks_of(tokens.count);
    bool begins = own_first >= push.first_chunk, ends = max(own_end, own_first + 1) <= push.end_chunk;
    if (own_first >= push.end_chunk || (!begins && own_end <= push.first_chunk)) return;
    load_state(sequence, head, begins);
    for (uint chunk = max(own_first, push.first_chunk); chunk < min(own_end, push.end_chunk); ++chunk) {
        uint begin = factors_begin(chunk, head);
        multiply_state(begin);
        barrier();
        join_parts(begin);
        barrier();
        write_outputs(begin, tokens, head, (chunk - own_first) * CHUNK);
        update_state(begin);
        barrier();
    }
    store_state(sequence, head, ends);
}
