// The index_scores of operators/index_scores.comp for CPU drivers, of few heads: bound by reading the keys, once. The lanes of a
// subgroup share a key, four neighbouring elements each in turn, which they load through device addresses that are the same
// for all of them: of neighbours' loads of neighbouring words the driver's compiler makes one of a vector.
//
// grid: (tiles of WORKGROUP_SIZE * STEP blocks, rows); a workgroup is one subgroup, and takes as many blocks as it has lanes
// at a time. Dims are a multiple of 4 * WORKGROUP_SIZE; keys without gaps between elements, whose rows begin at whole words;
// floats, or eight bits a number. No shared memory or barrier.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_KHR_shader_subgroup_ballot : require

layout(local_size_x_id = 0) in;

#include "attention/key_value.glsl"
#include "attention/query.glsl"
#include "cpu/address_loads.glsl"
#include "operators/index_ranks.glsl"

const uint LANES = WORKGROUP_SIZE;
const uint QUADS = HEAD_DIM / 4, TURNS = QUADS / LANES; // quads of each lane
const uint QUADS_OF_BLOCK = QUANTISED_BLOCK / 4, BLOCKS_OF_TURN = (LANES + QUADS_OF_BLOCK - 1) / QUADS_OF_BLOCK;

// What is unrolled over the lanes: a broadcast's lane is a constant in GLSL.
#define EACH_LANE(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)

vec4 queries[GROUP * TURNS];

uint lane() { return gl_SubgroupInvocationID; }

void load_queries(Row row) {
    [[unroll]] for (uint h = 0; h < GROUP; ++h) {
        uint element = query_element(row_of_head(row.batch, h, row.position));
        [[unroll]] for (uint t = 0; t < TURNS; ++t) queries[h * TURNS + t] =
            load_query_block(element, t * LANES + lane());
    }
}

// Where the numbers of a quad begin, in bytes of the row.
uint byte_of_quad(uint quad) {
    if (!is_quantised(KEY_FORMAT)) return quad * 4 * bytes_of_block(KEY_FORMAT);
    const uint block = bytes_of_block(KEY_FORMAT);
    return quad / QUADS_OF_BLOCK * block + (block - QUANTISED_BLOCK) + quad % QUADS_OF_BLOCK * 4;
}

// A word of each lane's quad.
uint load_words(uvec2 key, const uint turn, const uint word) {
    uint words = 0;
    [[unroll]] for (uint l = 0; l < LANES; ++l) {
        uint loaded = Words(key).values[byte_of_quad(turn * LANES + l) / 4 + word];
        words = lane() == l ? loaded : words;
    }
    return words;
}

// The second words of quads that begin in the middle of one.
uint load_next_words(uvec2 key, const uint turn) {
    uint words = 0;
    [[unroll]] for (uint l = 0; l < LANES; ++l) {
        uint byte = byte_of_quad(turn * LANES + l), loaded = 0;
        if ((byte & 2) != 0) loaded = Words(key).values[byte / 4 + 1];
        words = lane() == l ? loaded : words;
    }
    return words;
}

// The numbers of each lane's quad.
vec4 load_numbers(uvec2 key, const uint turn) {
    uvec4 words = uvec4(load_words(key, turn, 0), 0, 0, 0);
    if (!is_quantised(KEY_FORMAT)) {
        words.y = load_words(key, turn, 1);
        if (bytes_of_block(KEY_FORMAT) == 4) {
            words.z = load_words(key, turn, 2);
            words.w = load_words(key, turn, 3);
        }
        return element_values(KEY_FORMAT, words);
    }
    if (is_float8(KEY_FORMAT)) return float8_values(words.x, kind_of_block(KEY_FORMAT) == E4M3);
    bool is_second = (byte_of_quad(turn * LANES + lane()) & 2) != 0; // half of a word
    return signed_bytes(is_second ? words.x >> 16 | load_next_words(key, turn) << 16 : words.x);
}

// What each lane's numbers are to be multiplied by.
float load_scales(uvec2 key, const uint turn) {
    float scales = 1.0;
    if (!is_quantised(KEY_FORMAT) || is_float8(KEY_FORMAT)) return scales;
    [[unroll]] for (uint b = 0; b < BLOCKS_OF_TURN; ++b) {
        uint block = turn * LANES / QUADS_OF_BLOCK + b, byte = block * bytes_of_block(KEY_FORMAT);
        float scale = unpack_halves(Words(key).values[byte / 4] >> (byte & 2) * 8).x;
        scales = lane() / QUADS_OF_BLOCK >= b ? scale : scales;
    }
    return scales;
}

// The lanes' parts of the products of all heads and a key.
void multiply(uvec2 key, out float products[GROUP]) {
    [[unroll]] for (uint h = 0; h < GROUP; ++h) products[h] = 0.0;
    [[unroll]] for (uint t = 0; t < TURNS; ++t) {
        vec4 k = load_numbers(key, t);
        float scale = load_scales(key, t);
        [[unroll]] for (uint h = 0; h < GROUP; ++h) {
            vec4 q = queries[h * TURNS + t];
            products[h] = fma(scale, fma(q.x, k.x, q.y * k.y) + fma(q.z, k.z, q.w * k.w), products[h]);
        }
    }
}

// In four sums, each of which waits for itself alone.
float sum_of_lanes(float part) {
    float sums[4] = {0.0, 0.0, 0.0, 0.0};
#define ADD_LANE(l)                                                                                                    \
    if (l < LANES) sums[l % 4] += subgroupBroadcast(part, l);
    EACH_LANE(ADD_LANE)
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// Each lane's score of its own key. Clamped, because some CPU drivers run code with every lane off: a slot is then any number,
// and loads through addresses are not checked: addressed_end is where the last row begins, in elements or quantised blocks.
float score_keys(Row row, Slot slot, uint query) {
    uvec2 keys = uvec2(push.key_address[0], push.key_address[1]);
    uint block = min(key_element(row, slot) / elements_of_block(KEY_FORMAT), push.addressed_end);
    float products[GROUP], own[GROUP];
    [[unroll]] for (uint h = 0; h < GROUP; ++h) own[h] = 0.0;
#define MULTIPLY_LANE(l)                                                                                               \
    if (l < LANES) {                                                                                                   \
        multiply(advance_address(keys, subgroupBroadcast(block, l), bytes_of_block(KEY_FORMAT)), products);            \
        [[unroll]] for (uint h = 0; h < GROUP; ++h) {                                                                  \
            float sum = sum_of_lanes(products[h]);                                                                     \
            own[h] = lane() == l ? sum : own[h];                                                                       \
        }                                                                                                              \
    }
    EACH_LANE(MULTIPLY_LANE)
    float score = no_heads(), scale = key_scale(row, Key(slot.number));
    [[unroll]] for (uint h = 0; h < GROUP; ++h) score = add_head(score, score_of_head(scale * own[h], query, h));
    return score;
}

// A do-while, as in addresses.comp.
uint rank_of_block(Row row, uint block, uint query) {
    BlockScore visible = BlockScore(0.0, 0);
    uint i = 0;
    do {
        Slot slot = Slot(min(block * KEY_BLOCK_LEN + i, parameters.kv_len - 1));
        float score = score_keys(row, slot, query);
        bool counts = block * KEY_BLOCK_LEN + i < parameters.kv_len && has_key(row, slot) &&
                      mask_score(0.0, row, Key(slot.number)) != HIDDEN;
        if (counts) visible = add_key(visible, score);
    } while (++i < KEY_BLOCK_LEN);
    return rank_of_score(row, block, visible);
}

void main() {
    uint query = push.first_row + workgroup().y, first = workgroup().x * STEP * LANES;
    bool exists;
    Row row = row_of_query(query, exists);
    load_queries(row);
    uint step = 0;
    do {
        uint block = first + step * LANES + lane();
        uint rank = rank_of_block(row, min(block, all_blocks() - 1), query);
        if (block < all_blocks()) store_rank(workgroup().y, block, exists ? rank : RANK_OF_NOTHING);
    } while (++step < STEP && first + step * LANES < all_blocks());
}
