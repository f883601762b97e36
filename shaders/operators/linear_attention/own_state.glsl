// What the kernels that go from token to token have in common: an invocation's four columns of ROWS rows of the state, and what a token
// has of its own.
#ifndef LINEAR_ATTENTION_OWN_STATE_GLSL
#define LINEAR_ATTENTION_OWN_STATE_GLSL

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

vec4 state[ROWS];

// CPU drivers make one scalar of what is the same for all invocations, where they see it.
uint column_vector() { return GROUPS == 1 ? gl_LocalInvocationID.x : gl_LocalInvocationID.x % COLUMN_VECTORS; }
uint row_group() { return GROUPS == 1 ? 0 : gl_LocalInvocationID.x / COLUMN_VECTORS; }
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
    if ((HAS_SLOTS != 0 && own_state == NO_STATE) || !has_columns()) return;
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

// The sums k k, q q and q k of a token's raw key and query are dots.
float norm_of(float square) { return L2_NORM != 0 ? inversesqrt(square + parameters.epsilon) : 1.0; }

// What the raw key brings into the state, where k S is of_key.
vec4 update_of(Token own, vec4 of_key, vec3 dots) {
    float norm = norm_of(dots.x);
    return own.beta * norm * (IS_DELTA != 0 ? own.value - norm * of_key : own.value);
}

// Where q S is of_query.
vec4 output_of(vec4 of_query, vec4 update, vec3 dots) {
    return parameters.scale * norm_of(dots.y) * (of_query + dots.z * update);
}

#endif
