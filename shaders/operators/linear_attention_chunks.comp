// The first of two kernels of linear attention over many tokens: the factors of each chunk, as operators/linear_attention/chunks.glsl has
// them, in any order.
//
// grid: (chunks of a stretch, Hv, 1). Four rows and four columns of the products within a chunk for each invocation; then a channel, or a
// column of the values, at a time, whose triangular system it solves in registers.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x = 64) in;

#include "operators/linear_attention/chunks.glsl"
#include "operators/linear_attention/tensors.glsl"

layout(set = 0, binding = BINDING_LINEAR_ATTENTION_FACTORS, std430) writeonly buffer FactorsBuffer { vec4 factors[]; };
layout(set = 0, binding = BINDING_LINEAR_ATTENTION_FACTORS, std430) writeonly buffer FactorValuesBuffer {
    float factor_values[];
};

const uint WORKGROUP = CHUNK_VECTORS * CHUNK_VECTORS; // LINEAR_ATTENTION_CHUNKS_WORKGROUP_SIZE
const uint SLICE = 16;                                // channels whose products are summed at a time
const uint DECAY_SLICE = DECAY == DECAY_OF_CHANNEL ? SLICE : 1;

// Sums of decays: whole numbers, whose sum is exact, and fractions, whose sum is small, since differences of large sums would lose
// what little differences are.
struct Sums {
    float whole;
    float rest;
};

Sums plus(Sums sums, float decay) {
    float whole = round(max(decay, -1.0e4));
    return Sums(sums.whole + whole, sums.rest + (max(decay, -1.0e4) - whole));
}

// The factor between two sums, of which the later one is not above the earlier.
float factor_between(Sums later, Sums earlier) {
    return exp(min(later.whole - earlier.whole + (later.rest - earlier.rest), 0.0));
}

shared vec4 query_tile[SLICE * CHUNK_VECTORS]; // of channels: of each its tokens
shared vec4 key_tile[SLICE * CHUNK_VECTORS];
shared vec4 whole_tile[DECAY_SLICE * CHUNK_VECTORS]; // sums of decays: of each channel, or of the head
shared vec4 rest_tile[DECAY_SLICE * CHUNK_VECTORS];
shared vec4 lower[CHUNK * CHUNK_VECTORS]; // diag(beta) A
shared float betas_of_chunk[CHUNK];
shared float key_norms[CHUNK]; // by what keys and queries are multiplied
shared float query_norms[CHUNK];

Tokens tokens;
uint head, first_token, count;

uint lane() { return gl_LocalInvocationID.x; }

// Beyond the chunk's tokens, channels and columns zeros. Loads have no branches, so that compilers let many of them be under way.
uint token_at(uint t) { return first_token + min(t, count - 1); }

float decay_of(uint t, uint channel) {
    float decay = decay_at(tokens, head, token_at(t), min(channel, HEAD_DIM - 1));
    return t < count && channel < HEAD_DIM ? decay : 0.0;
}

float key_of(uint t, uint channel) {
    float key = key_load(KEY_FORMAT, row_of(parameters.key_strides, tokens, key_head_of(head), token_at(t)) +
                                         min(channel, HEAD_DIM - 1) * parameters.key_strides.w);
    return t < count && channel < HEAD_DIM ? key : 0.0;
}

float query_of(uint t, uint channel) {
    float query = query_load(QUERY_FORMAT, row_of(parameters.query_strides, tokens, key_head_of(head), token_at(t)) +
                                               min(channel, HEAD_DIM - 1) * parameters.query_strides.w);
    return t < count && channel < HEAD_DIM ? query : 0.0;
}

float value_of(uint t, uint column) {
    float value = value_load(VALUE_FORMAT, row_of(parameters.value_strides, tokens, head, token_at(t)) +
                                               min(column, V_HEAD_DIM - 1) * parameters.value_strides.w);
    return t < count && column < V_HEAD_DIM ? value : 0.0;
}

// Of a channel, or of the head, in turn.
void sum_decays(uint channel) {
    Sums sums = Sums(0.0, 0.0);
    for (uint v = 0; v < CHUNK_VECTORS; ++v) {
        vec4 decays_of_four = whole_tile[channel * CHUNK_VECTORS + v], whole, rest;
        for (uint i = 0; i < 4; ++i) {
            sums = plus(sums, decays_of_four[i]);
            whole[i] = sums.whole;
            rest[i] = sums.rest;
        }
        whole_tile[channel * CHUNK_VECTORS + v] = whole;
        rest_tile[channel * CHUNK_VECTORS + v] = rest;
    }
}

// Neighbouring invocations have neighbouring tokens: what they write lies side by side.
void stage(uint first_channel) {
    for (uint i = lane(); i < SLICE * CHUNK_VECTORS; i += WORKGROUP) {
        uint t = 4 * (i % CHUNK_VECTORS), channel = first_channel + i / CHUNK_VECTORS;
        vec4 query, key, decay;
        for (uint j = 0; j < 4; ++j) {
            query[j] = query_of(t + j, channel);
            key[j] = key_of(t + j, channel);
            if (DECAY == DECAY_OF_CHANNEL) decay[j] = decay_of(t + j, channel);
        }
        query_tile[i] = query;
        key_tile[i] = key;
        if (DECAY == DECAY_OF_CHANNEL) whole_tile[i] = decay;
    }
    barrier();
    if (DECAY != DECAY_OF_CHANNEL) return;
    if (lane() < SLICE) sum_decays(lane());
    barrier();
}

void load_chunk() {
    for (uint t = lane(); t < CHUNK; t += WORKGROUP) {
        betas_of_chunk[t] = t < count ? beta_at(tokens, head, first_token + t) : 0.0;
        key_norms[t] = query_norms[t] = L2_NORM != 0 ? 0.0 : 1.0; // sums of squares first
    }
    if (DECAY == DECAY_OF_CHANNEL) return;
    for (uint v = lane(); v < CHUNK_VECTORS; v += WORKGROUP) {
        vec4 decay;
        for (uint j = 0; j < 4; ++j) decay[j] = decay_of(4 * v + j, 0);
        whole_tile[v] = decay;
    }
    barrier();
    if (lane() == 0) sum_decays(0);
}

mat4 of_keys, of_queries; // columns: tokens t of the invocation's rows

void multiply_slice(uint row, uint column) {
    for (uint channel = 0; channel < SLICE; ++channel) {
        vec4 keys = key_tile[channel * CHUNK_VECTORS + column];
        vec4 later_keys = key_tile[channel * CHUNK_VECTORS + row], queries = query_tile[channel * CHUNK_VECTORS + row];
        if (DECAY == DECAY_OF_CHANNEL) {
            uint at = channel * CHUNK_VECTORS;
            vec4 whole = whole_tile[at + row], rest = rest_tile[at + row];
            vec4 earlier_whole = whole_tile[at + column], earlier_rest = rest_tile[at + column];
            [[unroll]] for (uint t = 0; t < 4; ++t) {
                vec4 difference = (whole[t] - earlier_whole) + (rest[t] - earlier_rest);
                vec4 products = keys * exp(min(difference, vec4(0)));
                of_keys[t] += later_keys[t] * products;
                of_queries[t] += queries[t] * products;
            }
        } else {
            [[unroll]] for (uint t = 0; t < 4; ++t) {
                of_keys[t] += later_keys[t] * keys;
                of_queries[t] += queries[t] * keys;
            }
        }
    }
}

// Adds the slice's squares to the norms.
void add_squares() {
    for (uint t = lane(); t < CHUNK; t += WORKGROUP) {
        float of_key = 0.0, of_query = 0.0;
        for (uint channel = 0; channel < SLICE; ++channel) {
            float key = key_tile[channel * CHUNK_VECTORS + t / 4][t % 4];
            float query = query_tile[channel * CHUNK_VECTORS + t / 4][t % 4];
            of_key += key * key;
            of_query += query * query;
        }
        key_norms[t] += of_key;
        query_norms[t] += of_query;
    }
}

void finish_norms() {
    for (uint t = lane(); t < CHUNK; t += WORKGROUP) {
        key_norms[t] = inversesqrt(key_norms[t] + parameters.epsilon);
        query_norms[t] = inversesqrt(query_norms[t] + parameters.epsilon);
    }
}

Sums sums_of_head(uint t) { return Sums(whole_tile[t / 4][t % 4], rest_tile[t / 4][t % 4]); }

// Writes P, keeps diag(beta) A.
void finish_products(uint row, uint column, uint begin) {
    [[unroll]] for (uint j = 0; j < 4; ++j) {
        uint t = 4 * row + j;
        vec4 keys, weights;
        [[unroll]] for (uint i = 0; i < 4; ++i) {
            uint s = 4 * column + i;
            float factor = s <= t ? key_norms[s] : 0.0;
            if (DECAY == DECAY_OF_HEAD && s <= t) factor *= factor_between(sums_of_head(t), sums_of_head(s));
            keys[i] = s < t ? betas_of_chunk[t] * key_norms[t] * factor * of_keys[j][i] : 0.0;
            weights[i] = parameters.scale * query_norms[t] * factor * of_queries[j][i];
        }
        lower[t * CHUNK_VECTORS + column] = keys;
        factors[begin + WEIGHTS_BEGIN + t * CHUNK_VECTORS + column] = weights;
    }
}

float x[CHUNK]; // of one column

// Solves (I + lower) X = x for a column.
void solve() {
    [[unroll]] for (uint t = 1; t < CHUNK; ++t) {
        float sum = x[t];
        [[unroll]] for (uint v = 0; v < CHUNK_VECTORS; ++v) if (4 * v < t) {
            vec4 row = lower[t * CHUNK_VECTORS + v];
            [[unroll]] for (uint i = 0; i < 4; ++i) if (4 * v + i < t) sum -= row[i] * x[4 * v + i];
        }
        x[t] = sum;
    }
}

// The sums of a channel's decays up to a token, after those before it.
Sums next_sums(Sums sums, uint t, uint channel) {
    if (DECAY == DECAY_OF_HEAD) return sums_of_head(t);
    if (DECAY == DECAY_OF_CHANNEL) return plus(sums, decay_of(t, channel));
    return sums;
}

const Sums NO_SUMS = Sums(0.0, 0.0);

void write_channel(uint channel, uint begin) {
    Sums last = NO_SUMS;
    [[unroll]] for (uint t = 0; t < CHUNK; ++t) {
        last = next_sums(last, t, channel);
        x[t] =
            IS_DELTA != 0 ? betas_of_chunk[t] * key_norms[t] * factor_between(last, NO_SUMS) * key_of(t, channel) : 0.0;
    }
    if (IS_DELTA != 0) solve();
    Sums sums = NO_SUMS;
    [[unroll]] for (uint t = 0; t < CHUNK; t += 2) {
        vec2 queries;
        [[unroll]] for (uint i = 0; i < 2; ++i) {
            sums = next_sums(sums, t + i, channel);
            queries[i] =
                parameters.scale * query_norms[t + i] * factor_between(sums, NO_SUMS) * query_of(t + i, channel);
            factor_values[4 * (begin + KEYS_BEGIN) + (t + i) * CHANNELS + channel] =
                key_norms[t + i] * factor_between(last, sums) * key_of(t + i, channel);
        }
        factors[begin + PAIRS_BEGIN + channel * (CHUNK / 2) + t / 2] = vec4(x[t], x[t + 1], queries);
    }
    factor_values[4 * (begin + DECAYS_BEGIN) + channel] = factor_between(last, NO_SUMS);
}

void write_column(uint column, uint begin) {
    [[unroll]] for (uint t = 0; t < CHUNK; ++t) x[t] = betas_of_chunk[t] * value_of(t, column);
    if (IS_DELTA != 0) solve();
    [[unroll]] for (uint t = 0; t < CHUNK; ++t) factor_values[4 * (begin + VALUES_BEGIN) + t * ALL_COLUMNS + column] =
        x[t];
}

void main() {
    uint chunk = push.first_chunk + workgroup().x;
    head = workgroup().y;
    uint sequence = sequence_of_chunk(chunk);
    tokens = tokens_of(sequence);
    first_token = (chunk - first_chunk_of(sequence)) * CHUNK;
    if (chunk < first_chunk_of(sequence) || first_token >= tokens.count) return;
    count = min(tokens.count - first_token, CHUNK);
    uint begin = factors_begin(chunk, head);
    uint row = lane() / CHUNK_VECTORS, column = lane() % CHUNK_VECTORS;

    load_chunk();
    of_keys = of_queries = mat4(0);
    for (uint channel = 0; channel < HEAD_DIM; channel += SLICE) {
        barrier(); // the slice before is read
        stage(channel);
        if (L2_NORM != 0) add_squares();
        if (column <= row) multiply_slice(row, column);
    }
    barrier();
    if (L2_NORM != 0) finish_norms();
    barrier();
    finish_products(row, column, begin);
    barrier();
    for (uint i = lane(); i < CHANNELS; i += WORKGROUP) write_channel(i, begin);
    for (uint i = lane(); i < ALL_COLUMNS; i += WORKGROUP) write_column(i, begin);
}
