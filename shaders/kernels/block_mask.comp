// block_mask from mask_mod: what it says of each block of queries and keys.
//
// -> block_mask [B|1,Hq|1,blocks of queries,blocks of keys]
// grid: (blocks of keys, blocks of queries, batch entries times heads of block_mask), one workgroup a block. Queries and keys
// beyond a sequence's end count for nothing; a block without any is hidden. A dispatch takes ROWS queries of each block, from its
// query first_row on, and the last one leaves states: a workgroup's work is bounded, whatever the size of a block.
#version 460
#extension GL_GOOGLE_include_directive : require

#include "attention/functions.glsl"

layout(local_size_x = BLOCK_MASK_WORKGROUP_SIZE) in;

layout(set = 0, binding = BINDING_BLOCK_MASK, std430) buffer BlockMaskBuffer { uint block_mask[]; };

shared uint found; // bits of what is in the block
const uint SEEN = 1, UNSEEN = 2;

uint look_at(Row row, Key key) { return hidden_by_function(row, key) ? UNSEEN : SEEN; }

// What this invocation finds among its share of the block.
uint find(uint batch, uint head, uvec2 queries, uvec2 keys) {
    uint own = 0, width = keys.y - min(keys.x, keys.y), count = (queries.y - min(queries.x, queries.y)) * width;
    for (uint i = gl_LocalInvocationID.x; i < count; i += BLOCK_MASK_WORKGROUP_SIZE)
        own |= look_at(row_of_head(batch, head, queries.x + i / width), Key(keys.x + i % width));
    return own;
}

// The same in all the sequences that block_mask's entry stands for: they differ in lengths and in positions.
uint find_in_sequences(uint entry, uint head) {
    uint own = 0, first_key = workgroup().x * BLOCK_KV_LEN, first_query = workgroup().y * BLOCK_Q_LEN + push.first_row;
    uint end = min(workgroup().y * BLOCK_Q_LEN + BLOCK_Q_LEN, first_query + ROWS);
    for (uint batch = entry; batch < entry + parameters.sequences; ++batch)
        own |= find(batch, head, uvec2(first_query, min(end, query_length(batch))),
                    uvec2(first_key, min(first_key + BLOCK_KV_LEN, sequence_keys(batch))));
    return own;
}

uint state_of(uint bits) {
    if ((bits & SEEN) == 0) return BLOCK_HIDDEN;
    return (bits & UNSEEN) == 0 ? BLOCK_FULL : BLOCK_PARTIAL;
}

void main() {
    uint heads = parameters.block_mask_strides[1] == 0 ? 1 : parameters.kv_heads * GROUP;
    uint entry = workgroup().z / heads, head = workgroup().z % heads;
    if (gl_LocalInvocationID.x == 0) found = 0;
    barrier();
    uint own = find_in_sequences(entry, head);
    if (own != 0) atomicOr(found, own);
    barrier();
    if (gl_LocalInvocationID.x != 0) return;
    uint element = base_bytes(BINDING_BLOCK_MASK) / 4 + entry * parameters.block_mask_strides[0] +
                   head * parameters.block_mask_strides[1] + workgroup().y * parameters.block_mask_strides[2] +
                   workgroup().x;
    uint bits = found | (push.first_row == 0 ? 0 : block_mask[element]); // of the dispatches before, bits wait there
    block_mask[element] = BLOCK_Q_LEN - push.first_row <= ROWS ? state_of(bits) : bits;
}
