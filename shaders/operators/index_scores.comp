// Scores of blocks of keys for queries, as ranks: what index selects of.
//
// query [B,Hi,Lq,D], key [B,1,Lk,D], weights [B,Lq,Hi] -> ranks [rows,blocks] of rows first_row ..: neighbours of [B,Lq], or
// of the packed queries
// grid: (tiles of WORKGROUP_SIZE blocks, rows), a block an invocation; it takes ROWS heads at a time. Where DOT_PRODUCTS is defined
// queries and keys are rows of f16 of whole, aligned eights, whose products are taken in pairs.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#ifdef DOT_PRODUCTS
#extension GL_EXT_spirv_intrinsics : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#endif

layout(local_size_x_id = 0) in;

#include "attention/key_value.glsl"
#include "attention/query.glsl"
#include "operators/index_ranks.glsl"
#ifdef DOT_PRODUCTS
#include "common/dot_of_halves.glsl"
#endif

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
#ifdef DOT_PRODUCTS
        uvec4 k = key_load8_halves(key + dim);
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            uvec4 q = query_load8_halves(queries[r] + dim);
            [[unroll]] for (uint i = 0; i < 4; ++i) products[r] = dot_of_halves(q[i], k[i], products[r]);
        }
#else
        mat2x4 k = key_load_vector(KEY_FORMAT, has(FEATURE_KEY_PAIRS), has(FEATURE_KEY_ALIGNED), key, dim, HEAD_DIM,
                                   KEY_DIM_STRIDE);
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            mat2x4 q = query_load_vector(QUERY_FORMAT, has(FEATURE_QUERY_PAIRS), has(FEATURE_QUERY_ALIGNED), queries[r],
                                         dim, HEAD_DIM, QUERY_DIM_STRIDE);
            [[unroll]] for (uint block = 0; block < 2; ++block) [[unroll]] for (uint i = 0; i < 4; ++i) products[r] =
                fma(q[block][i], k[block][i], products[r]);
        }
#endif
    }
}

float score_key(Row row, Slot slot, uint query) {
    if (has_more(MORE_FEATURE_INDEX_NO_HEADS)) return no_heads();
    float score = no_heads(), scale = key_scale(row, Key(slot.number));
    [[dont_unroll]] for (uint head = 0; head < GROUP; head += ROWS) {
        float products[ROWS];
        multiply(row, slot, head, products);
        [[unroll]] for (uint r = 0; r < ROWS; ++r) if (head + r < GROUP) score =
            add_head(score, score_of_head(scale * products[r], query, head + r));
    }
    return score;
}

uint rank_of_block(Row row, uint block, uint query) {
    BlockScore visible = BlockScore(0.0, 0);
    uint end = min((block + 1) * KEY_BLOCK_LEN, parameters.kv_len);
    [[dont_unroll]] for (uint slot = block * KEY_BLOCK_LEN; slot < end; ++slot) {
        if (!has_key(row, Slot(slot)) || mask_score(0.0, row, Key(slot)) == HIDDEN) continue;
        visible = add_key(visible, score_key(row, Slot(slot), query));
    }
    return rank_of_score(row, block, visible);
}

void main() {
    uint block = workgroup().x * WORKGROUP_SIZE + gl_LocalInvocationID.x;
    if (block >= all_blocks()) return;
    uint query = push.first_row + workgroup().y;
    bool exists;
    Row row = row_of_query(query, exists);
    store_rank(workgroup().y, block, exists ? rank_of_block(row, block, query) : RANK_OF_NOTHING);
}
