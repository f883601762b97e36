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

#include "operators/linear_attention/states.glsl"
#include "operators/linear_attention/tensors.glsl"

#define TENSOR output
#define TENSOR_BINDING BINDING_LINEAR_ATTENTION_OUTPUT
#define TENSOR_WRITABLE
#include "common/tensor.glsl"

STATES(token_states, BINDING_LINEAR_ATTENTION_TOKEN_STATES, )
STATES_LOAD(token_states, BINDING_LINEAR_ATTENTION_TOKEN_STATES)
STATES_STORE(token_states, BINDING_LINEAR_ATTENTION_TOKEN_STATES)

const uint GROUPS = WORKGROUP_SIZE / COLUMN_VECTORS; // of rows
const uint ROW_VECTORS = ROWS / 4;
const uint PITCH = GROUPS * ROW_VECTORS; // fours of a token's query and key: zeros beyond HEAD_DIM
const uint DECAY_PITCH = DECAY == DECAY_OF_CHANNEL ? PITCH : 1;

shared vec4 query_tile[STAGED_TOKENS * PITCH];
shared vec4 key_tile[STAGED_TOKENS * PITCH];
shared vec4 decay_tile[STAGED_TOKENS * DECAY_PITCH]; // factors
// Of each group and its columns: k S, q S; of each group: k k, q q, q k. Two of each, so that a token needs one barrier.
shared vec4 products[2 * 2 * WORKGROUP_SIZE];
shared vec4 dots[2 * GROUPS];

vec4 state[ROWS];

uint column_vector() { return gl_LocalInvocationID.x % COLUMN_VECTORS; }
uint row_group() { return gl_LocalInvocationID.x / COLUMN_VECTORS; }
uint own_row(uint i) { return row_group() * ROWS + i; }
uint own_column() { return 4 * (workgroup().x * COLUMN_VECTORS + column_vector()); }

// Whether the invocation has columns.
bool has_columns() { return V_HEAD_DIM % (4 * COLUMN_VECTORS) == 0 || own_column() < V_HEAD_DIM; }

uint own_element(uint begin, uint i) { return begin + own_row(i) * V_HEAD_DIM + own_column(); }

// Rows that the state has; the others repeat the last one where they are loaded.
bool exists(uint i) { return HEAD_DIM == GROUPS * ROWS || own_row(i) < HEAD_DIM; }
uint loaded_element(uint begin, uint i) {
    return begin + (HEAD_DIM == GROUPS * ROWS ? own_row(i) : min(own_row(i), HEAD_DIM - 1)) * V_HEAD_DIM + own_column();
}

void load_state(uint sequence, uint own_state, uint head) {
    uint after = accepted_of(sequence);
    [[unroll]] for (uint i = 0; i < ROWS; ++i) state[i] = vec4(0);
    if (own_state == NO_STATE || !has_columns()) return;
    if (HAS_ACCEPTED != 0 && after != 0) {
        uint begin = first_element(own_state * parameters.drafts + after - 1, head);
        [[unroll]] for (uint i = 0; i < ROWS; ++i) state[i] =
            token_states_load(loaded_element(begin, i), columns_from(own_column()));
    } else if (HAS_INITIAL != 0) {
        uint begin = first_element(own_state, head);
        [[unroll]] for (uint i = 0; i < ROWS; ++i) state[i] =
            initial_load(loaded_element(begin, i), columns_from(own_column()));
    }
    [[unroll]] for (uint i = 0; i < ROWS; ++i) state[i] = exists(i) ? state[i] : vec4(0);
}

void store_state(uint own_state, uint head) {
    if (HAS_FINAL == 0 || own_state == NO_STATE || !has_columns()) return;
    uint begin = first_element(own_state, head);
    [[unroll]] for (uint i = 0; i < ROWS; ++i) if (exists(i))
        final_store(own_element(begin, i), columns_from(own_column()), state[i]);
}

void store_token_state(uint own_state, uint head, uint token) {
    if (KEEPS_TOKEN_STATES == 0 || own_state == NO_STATE || token >= parameters.drafts || !has_columns()) return;
    uint begin = first_element(own_state * parameters.drafts + token, head);
    [[unroll]] for (uint i = 0; i < ROWS; ++i) if (exists(i))
        token_states_store(own_element(begin, i), columns_from(own_column()), state[i]);
}

// Tokens from `token` on, as many as are staged at a time.
void stage(Tokens tokens, uint head, uint token) {
    for (uint i = gl_LocalInvocationID.x; i < STAGED_TOKENS * 4 * PITCH; i += WORKGROUP_SIZE) {
        uint channel = min(i % (4 * PITCH), HEAD_DIM - 1), t = min(token + i / (4 * PITCH), tokens.count - 1);
        float query = query_load(QUERY_FORMAT, row_of(parameters.query_strides, tokens, key_head_of(head), t) +
                                                   channel * parameters.query_strides.w);
        float key = key_load(KEY_FORMAT, row_of(parameters.key_strides, tokens, key_head_of(head), t) +
                                             channel * parameters.key_strides.w);
        bool exists = i % (4 * PITCH) < HEAD_DIM;
        query_tile[i / 4][i % 4] = exists ? query : 0.0;
        key_tile[i / 4][i % 4] = exists ? key : 0.0;
        if (DECAY == DECAY_OF_CHANNEL) decay_tile[i / 4][i % 4] = exp(decay_at(tokens, head, t, channel));
    }
}

// Columns beyond the last repeat it: nothing is stored of them.
vec4 value_at(Tokens tokens, uint head, uint token) {
    uint row = row_of(parameters.value_strides, tokens, head, token);
    if (VALUE_PAIRS != 0 && V_HEAD_DIM % 4 == 0)
        return value_load4(VALUE_FORMAT, true, row + min(own_column(), V_HEAD_DIM - 4), 1);
    vec4 value;
    for (uint i = 0; i < 4; ++i)
        value[i] = value_load(VALUE_FORMAT, row + min(own_column() + i, V_HEAD_DIM - 1) * parameters.value_strides.w);
    return value;
}

// What a token has of its own beside its query and its key.
struct Token {
    float decay;
    float beta;
    vec4 value;
};

// Beyond the last token it again.
Token load_token(Tokens tokens, uint head, uint token) {
    token = min(token, tokens.count - 1);
    return Token(DECAY == DECAY_OF_HEAD ? decay_at(tokens, head, token, 0) : 0.0, beta_at(tokens, head, token),
                 value_at(tokens, head, token));
}

void store_output(Tokens tokens, uint head, uint token, vec4 value) {
    uint stride = OUTPUT_PAIRS != 0 ? 1 : parameters.output_strides.w;
    uint row = row_of(parameters.output_strides, tokens, head, token) + own_column() * stride;
    for (uint i = 0; i < 4; i += 2) {
        uint columns = columns_from(own_column() + i);
        if (columns >= 2)
            output_store2(OUTPUT_FORMAT, OUTPUT_PAIRS != 0, row + i * stride, stride, vec2(value[i], value[i + 1]));
        else if (columns == 1)
            output_store(OUTPUT_FORMAT, row + i * stride, value[i]);
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
    float of_key = 1.0, of_query = 1.0; // what norms divide by
    if (L2_NORM != 0) {
        of_key = inversesqrt(sums.dots.x + parameters.epsilon);
        of_query = inversesqrt(sums.dots.y + parameters.epsilon);
    }
    vec4 u = own.beta * (IS_DELTA != 0 ? own.value - of_key * sums.of_key : own.value);
    u *= of_key; // of the raw key
    if (row_group() == 0)
        store_output(tokens, head, token, parameters.scale * of_query * (sums.of_query + sums.dots.z * u));
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
            stage(tokens, head, token);
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
    if (STAGED_TOKENS == 1 && HAS_CU_SEQLENS == 0) tokens.count = 1;
    load_state(sequence, own_state, head);
    if (STAGED_TOKENS == 1 && tokens.count != 0) { // one at most: all loads are under way before the first wait
        Token own = load_token(tokens, head, 0);
        stage(tokens, head, 0);
        barrier();
        add_token(tokens, head, 0, 0, own);
        store_token_state(own_state, head, 0);
    }
    if (STAGED_TOKENS != 1) add_tokens(tokens, head, own_state);
    store_state(own_state, head);
}
