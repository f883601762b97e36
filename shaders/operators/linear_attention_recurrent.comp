// Linear attention token by token, for few of them: the state is read and written once (Schlag et al., 2021; gated: Yang et al., 2024).
//
// query, key [B,Hk,L,Dk], value [B,Hv,L,Dv], decay [B,Hv,L] or [B,Hv,L,Dk], beta [B,Hv,L] -> output [B,Hv,L,Dv]; packed: B = 1 and
// cu_seqlens. States [states,Hv,Dk,Dv]
// grid: (tiles of 4 * COLUMN_VECTORS columns, Hv, sequences). An invocation has four columns of ROWS rows of the state; what must be
// summed over rows goes through shared memory once a token: with the state S before the token's key, decayed,
//
//     u = beta (v - k S),  output = scale (q S + (q k) u),  S += k u
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;

#include "operators/linear_attention/own_state.glsl"

const uint ROW_VECTORS = ROWS / 4;
const uint PITCH = GROUPS * ROW_VECTORS; // fours of a token's query and key: zeros beyond HEAD_DIM
const uint DECAY_PITCH = DECAY == DECAY_OF_CHANNEL ? PITCH : 1;

shared vec4 query_tile[STAGED_TOKENS * PITCH];
shared vec4 key_tile[STAGED_TOKENS * PITCH];
shared vec4 decay_tile[STAGED_TOKENS * DECAY_PITCH]; // factors
// Of each group and its columns: k S, q S; of each group: k k, q q, q k. Two of each, so that a token needs one barrier.
shared vec4 products[2 * 2 * WORKGROUP_SIZE];
shared vec4 dots[2 * GROUPS];
// Of a single token what each invocation has of its own, (decay, beta): compilers would load it where it is used, after all other waits.
const uint SINGLE = STAGED_TOKENS == 1 ? WORKGROUP_SIZE : 1;
shared vec4 own_values[SINGLE];
shared vec2 own_numbers[SINGLE];

// Tokens that are on their way to shared memory, of each the invocation's channels.
const uint STAGE_STEPS = (STAGED_TOKENS * 4 * PITCH + WORKGROUP_SIZE - 1) / WORKGROUP_SIZE;
const uint DECAY_STEPS = DECAY == DECAY_OF_CHANNEL ? STAGE_STEPS : 1;
float loaded_query[STAGE_STEPS], loaded_key[STAGE_STEPS], loaded_decay[DECAY_STEPS];

uint staged_at(uint step) { return gl_LocalInvocationID.x + step * WORKGROUP_SIZE; }

// Tokens from `token` on, as many as are staged at a time.
void load_stage(Tokens tokens, uint head, uint token) {
    [[unroll]] for (uint step = 0; step < STAGE_STEPS; ++step) {
        uint i = staged_at(step);
        uint channel = min(i % (4 * PITCH), HEAD_DIM - 1), t = min(token + i / (4 * PITCH), tokens.count - 1);
        loaded_query[step] = query_load(QUERY_FORMAT, row_of(parameters.query_strides, tokens, key_head_of(head), t) +
                                                          channel * parameters.query_strides.w);
        loaded_key[step] = key_load(KEY_FORMAT, row_of(parameters.key_strides, tokens, key_head_of(head), t) +
                                                    channel * parameters.key_strides.w);
        if (DECAY == DECAY_OF_CHANNEL) loaded_decay[step] = decay_at(tokens, head, t, channel);
    }
}

void write_stage() {
    [[unroll]] for (uint step = 0; step < STAGE_STEPS; ++step) {
        uint i = staged_at(step);
        if (i >= STAGED_TOKENS * 4 * PITCH) break;
        bool exists = i % (4 * PITCH) < HEAD_DIM;
        query_tile[i / 4][i % 4] = exists ? loaded_query[step] : 0.0;
        key_tile[i / 4][i % 4] = exists ? loaded_key[step] : 0.0;
        if (DECAY == DECAY_OF_CHANNEL) decay_tile[i / 4][i % 4] = exp(loaded_decay[step]);
    }
}

// Decays the state by a staged token, and sums what is the group's.
void multiply(uint staged, uint buffer_of_two, float decay) {
    vec4 of_key = vec4(0), of_query = vec4(0);
    vec3 sums = vec3(0);
    [[unroll]] for (uint j = 0; j < ROW_VECTORS; ++j) {
        uint at = staged * PITCH + row_group() * ROW_VECTORS + j;
        vec4 k = key_tile[at], q = query_tile[at];
        vec4 factors = DECAY == DECAY_OF_CHANNEL ? decay_tile[at] : vec4(decay);
        [[unroll]] for (uint c = 0; c < 4; ++c) {
            if (DECAY != DECAY_NONE) state[4 * j + c] *= factors[c];
            if (IS_DELTA != 0) of_key += k[c] * state[4 * j + c];
            of_query += q[c] * state[4 * j + c];
        }
        sums += vec3(dot(k, k), dot(q, q), dot(q, k));
    }
    uint own = 2 * (buffer_of_two * WORKGROUP_SIZE + gl_LocalInvocationID.x);
    if (IS_DELTA != 0) products[own] = of_key;
    products[own + 1] = of_query;
    if (column_vector() == 0) dots[buffer_of_two * GROUPS + row_group()] = vec4(sums, 0.0);
}

struct Sums {
    vec4 of_key;
    vec4 of_query;
    vec3 dots;
};

Sums sums_of_groups(uint buffer_of_two) {
    Sums sums = Sums(vec4(0), vec4(0), vec3(0));
    [[unroll]] for (uint g = 0; g < GROUPS; ++g) {
        uint at = 2 * (buffer_of_two * WORKGROUP_SIZE + g * COLUMN_VECTORS + column_vector());
        if (IS_DELTA != 0) sums.of_key += products[at];
        sums.of_query += products[at + 1];
        sums.dots += dots[buffer_of_two * GROUPS + g].xyz;
    }
    return sums;
}

// Adds a staged token to the state, and gives its output.
void add_token(Tokens tokens, uint head, uint token, uint staged, Token own) {
    multiply(staged, token % 2, exp(own.decay));
    barrier();
    Sums sums = sums_of_groups(token % 2);
    vec4 u = update_of(own, sums.of_key, sums.dots);
    if (row_group() == 0) store_output(tokens, head, token, output_of(sums.of_query, u, sums.dots));
    [[unroll]] for (uint j = 0; j < ROW_VECTORS; ++j) {
        vec4 k = key_tile[staged * PITCH + row_group() * ROW_VECTORS + j];
        [[unroll]] for (uint c = 0; c < 4; ++c) state[4 * j + c] += k[c] * u;
    }
}

void add_tokens(Tokens tokens, uint head, uint own_state) {
    Token own, next;
    if (tokens.count != 0) next = load_token(tokens, head, 0);
    for (uint token = 0; token < tokens.count; ++token) {
        uint staged = token % STAGED_TOKENS;
        if (staged == 0) {
            if (token != 0) barrier(); // the tokens before are read
            load_stage(tokens, head, token);
            write_stage();
            barrier();
        }
        own = next;
        next = load_token(tokens, head, token + 1);
        add_token(tokens, head, token, staged, own);
        store_token_state(own_state, head, token);
    }
}

void main() {
    uint head = workgroup().y, sequence = workgroup().z, own_state = state_of(sequence);
    Tokens tokens = tokens_of(sequence);
    // All loads of a single token are under way before the first wait. Its place in the sequence, 0, is not told: loads at one place for
    // all invocations go through a scalar unit, which waits for each.
    if (STAGED_TOKENS == 1 && (HAS_CU_SEQLENS == 0 || tokens.count != 0)) {
        uint lane = gl_LocalInvocationID.x;
        Token own = load_token(tokens, head, lane);
        load_stage(tokens, head, 0);
        load_state(sequence, own_state, head);
        own_values[lane] = own.value;
        own_numbers[lane] = vec2(own.decay, own.beta);
        write_stage();
        barrier();
        add_token(tokens, head, 0, 0, Token(own_numbers[lane].x, own_numbers[lane].y, own_values[lane]));
        store_token_state(own_state, head, 0);
    } else {
        load_state(sequence, own_state, head);
    }
    if (STAGED_TOKENS != 1) add_tokens(tokens, head, own_state);
    store_state(own_state, head);
}
