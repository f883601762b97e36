// What index makes of scores: which head counts how much, what keys of a block count, and ranks of blocks.
#ifndef INDEX_RANKS_GLSL
#define INDEX_RANKS_GLSL

#include "attention/rows.glsl"
#include "attention/variant.glsl"
#include "common/rank.glsl"
#include "common/relu.glsl"

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

float activate(float product) { return has_more(MORE_FEATURE_INDEX_RELU) ? relu(product) : product; }

float weight_of(uint query, uint head) {
    if (!has_more(MORE_FEATURE_INDEX_WEIGHTS)) return 1.0;
    return index_weights[base_bytes(BINDING_INDEX_WEIGHTS) / 4 + query * GROUP + head];
}

// A head's product with a key, scaled and weighted.
float score_of_head(float product, uint query, uint head) {
    return weight_of(query, head) * activate(parameters.scale_log2 * LN_2 * product);
}

// The sum of none, or -infinity.
float no_heads() { return TAKES_GREATEST_HEAD ? uintBitsToFloat(0xff800000u) : 0.0; }

float add_head(float score, float each) { return TAKES_GREATEST_HEAD ? greater(score, each) : score + each; }

// Whether the first or the last visible blocks of the query include this one.
bool is_forced(Row row, uint block) {
    KeyRange seen = seen_by_any(row.batch, row.position, row.position);
    if (seen.begin >= seen.end) return false;
    uint first = seen.begin / KEY_BLOCK_LEN, last = (seen.end - 1) / KEY_BLOCK_LEN;
    return block - first < parameters.forced_first || last - block < parameters.forced_last;
}

// The visible keys of a block.
struct BlockScore {
    float score; // the largest, or the sum
    uint keys;
};

BlockScore add_key(BlockScore block, float score) {
    if (has_more(MORE_FEATURE_INDEX_MEAN_OF_KEYS))
        block.score += score;
    else
        block.score = block.keys == 0 ? score : greater(block.score, score);
    ++block.keys;
    return block;
}

uint rank_of_score(Row row, uint block, BlockScore visible) {
    if (visible.keys == 0) return RANK_OF_NOTHING;
    if (is_forced(row, block)) return HIGHEST_RANK;
    bool mean = has_more(MORE_FEATURE_INDEX_MEAN_OF_KEYS);
    return rank_of(mean ? visible.score / float(visible.keys) : visible.score);
}

// Of no keys there is one, which is never selected.
uint all_blocks() { return max((parameters.kv_len + KEY_BLOCK_LEN - 1) / KEY_BLOCK_LEN, 1); }

// line: of the dispatch's queries.
void store_rank(uint line, uint block, uint rank) {
    ranks[base_bytes(BINDING_SCORES) / 4 + line * all_blocks() + block] = rank;
}

#endif
