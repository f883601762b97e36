// Linear attention token by token for CPU drivers: a subgroup has four columns of the state an invocation, with all their rows, so that
// sums over rows stay in registers. Along the rows its invocations lie where they load a query and a key, whose numbers they then
// exchange: of what is the same for all of them a CPU driver makes one scalar. Without shared memory or barriers.
//
// As operators/linear_attention_recurrent.comp; with the state S before the token's decay d
//
//     u = beta (v - (d k) S),  output = scale ((d q) S + (q k) u),  S = d S + k u
//
// grid: (tiles of 4 * COLUMN_VECTORS columns, Hv, sequences); a workgroup is a subgroup of COLUMN_VECTORS invocations.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require

layout(local_size_x_id = 0) in;

#include "operators/linear_attention/own_state.glsl"

const uint LANES = SUBGROUP_SIZE;
const uint MOST_LANES = 16;
const uint STEPS = ROWS / LANES; // rows of an invocation, where it loads them

#define LANE gl_SubgroupInvocationID // whose values llvmpipe knows

float keys[STEPS], decayed_keys[STEPS], decayed_queries[STEPS], factors[STEPS]; // of the invocation's rows
vec3 dots;                                                                      // k k, q q, q k

// A row's number, of the invocation that has loaded it.
#define OF_ROW(NUMBERS, row) subgroupShuffle(NUMBERS[(row) / LANES], (row) % LANES)

vec3 sum_of_lanes(vec3 value) {
    [[unroll]] for (uint other = 1; other < MOST_LANES; other *= 2) if (other < LANES) value +=
        subgroupShuffleXor(value, other);
    return value;
}

// Rows beyond the last are zeros.
void load_rows(Tokens tokens, uint head, uint token, float decay) {
    uint key_row = row_of(parameters.key_strides, tokens, key_head_of(head), token);
    uint query_row = row_of(parameters.query_strides, tokens, key_head_of(head), token);
    dots = vec3(0);
    [[unroll]] for (uint i = 0; i < STEPS; ++i) {
        uint row = i * LANES + LANE, channel = min(row, HEAD_DIM - 1);
        float key = key_load(KEY_FORMAT, key_row + channel * parameters.key_strides.w);
        float query = query_load(QUERY_FORMAT, query_row + channel * parameters.query_strides.w);
        if (DECAY == DECAY_OF_CHANNEL) decay = decay_at(tokens, head, token, channel);
        key = row < HEAD_DIM ? key : 0.0;
        query = row < HEAD_DIM ? query : 0.0;
        factors[i] = DECAY == DECAY_NONE ? 1.0 : exp(decay);
        keys[i] = key;
        decayed_keys[i] = factors[i] * key;
        decayed_queries[i] = factors[i] * query;
        dots += vec3(key * key, query * query, query * key);
    }
    dots = sum_of_lanes(dots);
}

void add_token(Tokens tokens, uint head, uint token) {
    Token own = load_token(tokens, head, token);
    load_rows(tokens, head, token, own.decay);
    vec4 of_key = vec4(0), of_query = vec4(0);
    [[unroll]] for (uint row = 0; row < ROWS; ++row) {
        if (IS_DELTA != 0) of_key += OF_ROW(decayed_keys, row) * state[row];
        of_query += OF_ROW(decayed_queries, row) * state[row];
    }
    vec4 u = update_of(own, of_key, dots);
    store_output(tokens, head, token, output_of(of_query, u, dots));
    [[unroll]] for (uint row = 0; row < ROWS; ++row) {
        vec4 decayed = state[row];
        if (DECAY == DECAY_OF_HEAD) decayed *= factors[0];
        if (DECAY == DECAY_OF_CHANNEL) decayed *= OF_ROW(factors, row);
        state[row] = decayed + OF_ROW(keys, row) * u;
    }
}

void main() {
    uint head = workgroup().y, sequence = workgroup().z, own_state = state_of(sequence);
    Tokens tokens = tokens_of(sequence);
    load_state(sequence, own_state, head);
    for (uint token = 0; token < tokens.count; ++token) {
        add_token(tokens, head, token);
        store_token_state(own_state, head, token);
    }
    store_state(own_state, head);
}
