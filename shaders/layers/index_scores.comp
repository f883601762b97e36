// Scores of blocks of keys for queries, as ranks: what index selects of.
//
// query [B,Hi,Lq,D], key [B,1,Lk,D], weights [B,Lq,Hi] -> ranks [rows,blocks] of rows first_row ..: neighbours of [B,Lq], or
// of the packed queries
// grid: (tiles of WORKGROUP_SIZE blocks, rows), a block an invocation; it takes ROWS heads at a time
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;

#include "attention/key_value.glsl"
#include "attention/query.glsl"
#include "attention/rows.glsl"
#include "attention/variant.glsl"
#include "common/rank.glsl"

layout(set = 0, binding = BINDING_INDEX_WEIGHTS, std430) readonly buffer WeightsBuffer { float index_weights[]; };
layout(set = 0, binding = BINDING_SCORES, std430) writeonly buffer RanksBuffer { uint ranks[]; };

const bool TAKES_GREATEST_HEAD = (MORE_FEATURES & MORE_FEATURE_INDEX_MAX_OF_HEADS) != 0u;

// The sequence that a packed query belongs to, or one before it.
uint sequence_of(uint query) {
    uint element = base_bytes(BINDING_CU_SEQLENS_Q) / 4;
    uint low = 0, high = parameters.sequences; // the first sequence that begins after the query
    while (low < high) {
        uint middle = (low + high) / 2;
        if (cu_seqlens_q[element + middle] <= int(query))
            low = middle + 1;
        else
            high = middle;
    }
    return max(low, 1) - 1;
}

// The query's first head. exists: it belongs to a sequence.
Row row_of_query(uint query, out bool exists) {
    exists = true;
    if (!has(FEATURE_CU_SEQLENS_Q)) return row_of_head(query / parameters.q_len, 0, query % parameters.q_len);
    uint batch = sequence_of(query);
    uvec2 queries = packed_queries(batch);
    exists = query >= queries.x && query < queries.x + queries.y;
    return row_of_head(batch, 0, exists ? query - queries.x : 0);
}

float activate(float product) { return has_more(MORE_FEATURE_INDEX_RELU) ? max(product, 0.0) : product; }

float weight_of(uint query, uint head) {
    if (!has_more(MORE_FEATURE_INDEX_WEIGHTS)) return 1.0;
    return index_weights[base_bytes(BINDING_INDEX_WEIGHTS) / 4 + query * GROUP + head];
}

uint query_of_head(Row row, uint head) {
    return query_element(row_of_head(row.batch, min(head, GROUP - 1), row.position));
}

// The products of ROWS heads, from a head on, and a key.
void multiply(Row row, Slot slot, uint head, out float products[ROWS]) {
    uint queries[ROWS], key = key_element(row, slot);
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        queries[r] = query_of_head(row, head + r);
        products[r] = 0.0;
    }
    [[dont_unroll]] for (uint dim = 0; dim < HEAD_DIM; dim += 8) {
        mat2x4 k = key_load_vector(KEY_FORMAT, has(FEATURE_KEY_PAIRS), has(FEATURE_KEY_ALIGNED), key, dim, HEAD_DIM,
                                   KEY_DIM_STRIDE);
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            mat2x4 q = query_load_vector(QUERY_FORMAT, has(FEATURE_QUERY_PAIRS), has(FEATURE_QUERY_ALIGNED), queries[r],
                                         dim, HEAD_DIM, QUERY_DIM_STRIDE);
            [[unroll]] for (uint block = 0; block < 2; ++block) [[unroll]] for (uint i = 0; i < 4; ++i) products[r] =
                fma(q[block][i], k[block][i], products[r]);
        }
    }
}

float score_key(Row row, Slot slot, uint query) {
    float score = TAKES_GREATEST_HEAD ? -3.4e38 : 0.0;
    [[dont_unroll]] for (uint head = 0; head < GROUP; head += ROWS) {
        float products[ROWS];
        multiply(row, slot, head, products);
        [[unroll]] for (uint r = 0; r < ROWS; ++r) if (head + r < GROUP) {
            float each = weight_of(query, head + r) * activate(parameters.scale_log2 * LN_2 * products[r]);
            score = TAKES_GREATEST_HEAD ? max(score, each) : score + each;
        }
    }
    return score;
}

// Whether the first or the last visible blocks of the query include this one.
bool is_forced(Row row, uint block) {
    KeyRange seen = seen_by_any(row.batch, row.position, row.position);
    if (seen.begin >= seen.end) return false;
    uint first = seen.begin / KEY_BLOCK_LEN, last = (seen.end - 1) / KEY_BLOCK_LEN;
    return block - first < parameters.forced_first || last - block < parameters.forced_last;
}

uint rank_of_block(Row row, uint block, uint query) {
    float score = 0.0;
    uint visible = 0;
    uint end = min((block + 1) * KEY_BLOCK_LEN, parameters.kv_len);
    [[dont_unroll]] for (uint slot = block * KEY_BLOCK_LEN; slot < end; ++slot) {
        if (!has_key(row, Slot(slot)) || mask_score(0.0, row, Key(slot)) == HIDDEN) continue;
        float each = score_key(row, Slot(slot), query);
        if (has_more(MORE_FEATURE_INDEX_MEAN_OF_KEYS))
            score += each;
        else
            score = visible == 0 ? each : max(score, each);
        ++visible;
    }
    if (visible == 0) return RANK_OF_NOTHING;
    if (is_forced(row, block)) return HIGHEST_RANK;
    return rank_of(has_more(MORE_FEATURE_INDEX_MEAN_OF_KEYS) ? score / float(visible) : score);
}

void main() {
    uint blocks = (parameters.kv_len + KEY_BLOCK_LEN - 1) / KEY_BLOCK_LEN;
    uint block = workgroup().x * WORKGROUP_SIZE + gl_LocalInvocationID.x;
    if (block >= blocks) return;
    uint query = push.first_row + workgroup().y;
    bool exists;
    Row row = row_of_query(query, exists);
    ranks[base_bytes(BINDING_SCORES) / 4 + workgroup().y * blocks + block] =
        exists ? rank_of_block(row, block, query) : RANK_OF_NOTHING;
}
