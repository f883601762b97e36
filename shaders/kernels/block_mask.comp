// block_mask from mask_mod: what it says of each block of queries and keys.
//
// -> block_mask [B|1,Hq|1,blocks of queries,blocks of keys]
// grid: (blocks of keys, blocks of queries, batch entries times heads of block_mask), one workgroup a block. Queries and keys
// beyond a sequence's end count for nothing; a block without any is hidden.
#version 460
#extension GL_GOOGLE_include_directive : require

#include "attention/functions.glsl"

layout(local_size_x = BLOCK_MASK_WORKGROUP_SIZE) in;

layout(set = 0, binding = BINDING_BLOCK_MASK, std430) writeonly buffer BlockMaskBuffer { uint block_mask[]; };

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

void main() {
    uint heads = parameters.block_mask_strides[1] == 0 ? 1 : parameters.kv_heads * GROUP;
    uint batch = workgroup().z / heads, head = workgroup().z % heads;
    uint first_query = workgroup().y * BLOCK_Q_LEN, first_key = workgroup().x * BLOCK_KV_LEN;
    if (gl_LocalInvocationID.x == 0) found = 0;
    barrier();
    uint own = find(batch, head, uvec2(first_query, min(first_query + BLOCK_Q_LEN, query_length(batch))),
                    uvec2(first_key, min(first_key + BLOCK_KV_LEN, sequence_keys(batch))));
    if (own != 0) atomicOr(found, own);
    barrier();
    if (gl_LocalInvocationID.x != 0) return;
    uint element = batch * parameters.block_mask_strides[0] + head * parameters.block_mask_strides[1] +
                   workgroup().y * parameters.block_mask_strides[2] + workgroup().x;
    block_mask[base_bytes(BINDING_BLOCK_MASK) / 4 + element] = (found & SEEN) == 0     ? BLOCK_HIDDEN
                                                               : (found & UNSEEN) == 0 ? BLOCK_FULL
                                                                                       : BLOCK_PARTIAL;
}
