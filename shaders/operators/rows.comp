// Rows on their way into other memory: loaded, normalised, turned, mixed, scaled, and stored in the target's type, a quantised one where
// QUANTISED_TARGET is defined, another where it is not, so that what moves floats compiles no encoder. New rows of K and V go into
// their caches so. Rows that would lie beyond the capacity, or on a page outside the pool, are dropped. Queries of the same
// tokens may go into other memory beside them, at the rows that they are.
//
// source [B,H,L,D], or packed [1,H,total,D] with cu_seqlens -> target [B,H,capacity,D] at positions past ..
// past + L - 1; with KEY_HEADS the heads behind are those of V, for values, which lies as target does. With QUERY_HEADS those are
// the first heads of source, [B,H,L,QUERY_DIM], for queries [B,H,L,QUERY_DIM]; the others begin at element `beyond`.
// Source or target may lie in pages [pool,H,PAGE_SIZE,D], found through the block table; as a source, from token
// `first` on, and with HAS_LENGTHS only `beyond` rows further than the sequence is long.
//
// With NORM_FORMAT NORM_DIM elements of a row are normalised (RMSNorm: Zhang and Sennrich, 2019), norm [NORM_DIM]. With ROTATED
// ROTATED_DIMS are then turned by the rotary embedding of their position (Su et al., 2021). With HADAMARD, blocks of so many elements
// are then mixed by the orthonormal Walsh-Hadamard transform (Sylvester's order). Scales of the target's rows are looked up, or made
// and written.
// frequencies [ROTATED_DIMS / 2]: turns per position, as 64-bit fixed point (low word, high word), the factor that lengthens or
// shortens the rotated vector, and which stream of positions the pair turns by
// positions [S,B,L], with HAS_POSITIONS: streams of what stands in place of a row's position there
// grid: (tiles of whole rows of a head, H, B); PACKED_SEQUENCES: of `total` rows, and 1 in place of B, so that the cost follows the
// tokens. Neighbouring invocations have neighbouring items of a row; only they know of each other.
#version 460
#extension GL_GOOGLE_include_directive : require

layout(local_size_x = 64) in;

#include "interface/rows.h"

ROWS_CONSTANTS(VKATTN_CONSTANT)

#define PUSH RowsPush
#define CU_SEQLENS_BINDING BINDING_ROWS_CU_SEQLENS
#ifdef QUANTISED_TARGET
#include "formats/encode.glsl"
#endif
#include "operators/packed.glsl"
#include "operators/rotation.glsl"

#define TENSOR source
#define TENSOR_BINDING BINDING_ROWS_SOURCE
#define TENSOR_QUANTISED
#include "common/tensor.glsl"

#define TENSOR target
#define TENSOR_BINDING BINDING_ROWS_TARGET
#define TENSOR_WRITABLE
#include "common/tensor.glsl"

#define TENSOR values
#define TENSOR_BINDING BINDING_ROWS_VALUES
#define TENSOR_WRITABLE
#include "common/tensor.glsl"

#define TENSOR queries
#define TENSOR_BINDING BINDING_ROWS_QUERIES
#define TENSOR_WRITABLE
#include "common/tensor.glsl"

#define TENSOR norm
#define TENSOR_BINDING BINDING_ROWS_NORM
#include "common/tensor.glsl"

#define TENSOR query_norm
#define TENSOR_BINDING BINDING_ROWS_QUERY_NORM
#include "common/tensor.glsl"

layout(set = 0, binding = BINDING_ROWS_PAST_LENGTHS, std430) readonly buffer PastLengthsBuffer { int past_lengths[]; };
layout(set = 0, binding = BINDING_ROWS_BLOCK_TABLE, std430) readonly buffer BlockTableBuffer { int block_table[]; };
layout(set = 0, binding = BINDING_ROWS_LENGTHS, std430) readonly buffer LengthsBuffer { int lengths[]; };
layout(set = 0, binding = BINDING_ROWS_FREQUENCIES, std430) readonly buffer FrequencyBuffer { uint frequency_words[]; };
layout(set = 0, binding = BINDING_ROWS_POSITIONS, std430) readonly buffer PositionsBuffer { int positions[]; };
layout(set = 0, binding = BINDING_ROWS_SOURCE_SCALES, std430) readonly buffer SourceScalesBuffer {
    float source_scales[];
};

const uint QUERIES = 0, KEYS = 1, VALUES = 2; // parts of the grid

#ifdef QUANTISED_TARGET
const uint ELEMENTS = QUANTISED_BLOCK; // of an item
#else
const uint ELEMENTS = 4;
#endif

// A row on its way, or what the workgroup has no row for.
struct Row {
    bool exists;
    uint part;
    uint index;    // in the workgroup
    uint lane;     // of those that have the row
    uint position; // of its token
    uint token;    // of all sequences'
    uint source;   // the element of its first dim
    uint target;   // the same of where it goes
    uint target_scale;
    float source_scale;
    float inverse_rms;
};

uint part_of(uint head) {
    if (QUERY_HEADS != 0u && head < QUERY_HEADS) return QUERIES;
    return KEY_HEADS != 0u && head - QUERY_HEADS >= KEY_HEADS ? VALUES : KEYS;
}

uint dims_of(uint part) { return part == QUERIES ? QUERY_DIM : HEAD_DIM; }

uint norm_dim_of(uint part) { return part == QUERIES ? QUERY_NORM_DIM : NORM_DIM; }

uint lanes_of(uint part) { return min((dims_of(part) + ELEMENTS - 1) / ELEMENTS, ROWS_WORKGROUP_SIZE); }

bool is_normalised(uint part) {
    return part == QUERIES ? QUERY_NORM_FORMAT != FORMAT_NONE : part == KEYS && NORM_FORMAT != FORMAT_NONE;
}

bool is_rotated(uint part) { return ROTATED != ROTATED_NONE && part != VALUES; }

bool is_mixed(uint part) { return HADAMARD != 0u && (part != QUERIES || MIXES_QUERIES != 0u); }

// Where the block table says that a position's page lies.
uint page_of(uint batch, uint position) {
    uint entry = batch * push.table_pages + min(position / PAGE_SIZE, push.table_pages - 1);
    return uint(block_table[base_bytes(BINDING_ROWS_BLOCK_TABLE) / 4 + entry]);
}

void place_row(inout Row row, uint token) {
    uint head = workgroup().y, batch = workgroup().z;
    uvec2 source = uvec2(batch, push.first + token);
    if (PACKED == PACKED_SEQUENCES) {
        if (token >= push.source_total) return;
        PackedToken packed = token_of_row(token, push.sequences, push.source_total);
        if (!packed.exists) return;
        source = uvec2(0, token);
        batch = packed.sequence;
        token = packed.token;
    }
    uint past = push.offset;
    if (HAS_PAST_LENGTHS != 0u) past = uint(max(past_lengths[base_bytes(BINDING_ROWS_PAST_LENGTHS) / 4 + batch], 0));
    row.position = past + token;
    row.token = source.x * push.source_total + source.y;
    if (token >= push.positions) return;
    if (row.part != QUERIES && row.position >= push.capacity) return;
    if (HAS_LENGTHS != 0u) {
        uint length = uint(max(lengths[base_bytes(BINDING_ROWS_LENGTHS) / 4 + batch], 0));
        if (push.first + token >= length + push.beyond) return;
    }

    if (PACKED == PACKED_AND_BEYOND)
        source = uvec2(0, min(packed_rows(batch, push.source_total).x + source.y, push.source_total - 1));
    uvec2 place = row.part == QUERIES ? source : uvec2(batch, row.position);
    if (PAGED != PAGED_NONE && row.part != QUERIES) {
        uint paged = PAGED == PAGED_SOURCE ? source.y : row.position;
        uint page = page_of(batch, paged);
        if (PAGED == PAGED_TARGET && page >= push.pool_pages) return;
        uvec2 in_page = uvec2(min(page, push.pool_pages - 1), paged % PAGE_SIZE);
        if (PAGED == PAGED_SOURCE) source = in_page; // of a page outside the pool some row: keys there are hidden
        if (PAGED == PAGED_TARGET) place = in_page;
    }
    uint head_of_target = head;
    row.source = source.x * push.source_strides[0] + head * push.source_strides[1] + source.y * push.source_strides[2];
    if (row.part != QUERIES) {
        head_of_target -= QUERY_HEADS;
        if (QUERY_HEADS != 0u) row.source += push.beyond - QUERY_HEADS * push.source_strides[1];
        if (row.part == VALUES) head_of_target -= KEY_HEADS;
        row.target = place.x * push.target_strides[0] + head_of_target * push.target_strides[1] +
                     place.y * push.target_strides[2];
    } else {
        row.target = place.x * push.source_scale_strides[0] + head * push.source_scale_strides[1] +
                     place.y * push.source_scale_strides[2];
    }
    if (SOURCE_SCALED != 0u)
        row.source_scale =
            source_scales[base_bytes(BINDING_ROWS_SOURCE_SCALES) / 4 + source.x * push.source_scale_strides[0] +
                          head * push.source_scale_strides[1] + source.y * push.source_scale_strides[2]];
    row.target_scale = place.x * push.target_scale_strides[0] + head_of_target * push.target_scale_strides[1] +
                       place.y * push.target_scale_strides[2];
    row.exists = true;
}

// The invocation's row.
Row own_row() {
    Row row;
    row.exists = false;
    row.part = part_of(workgroup().y);
    row.source_scale = 1.0;
    uint lanes = lanes_of(row.part), rows = ROWS_WORKGROUP_SIZE / lanes;
    row.index = gl_LocalInvocationID.x / lanes;
    row.lane = gl_LocalInvocationID.x % lanes;
    if (row.index < rows) place_row(row, workgroup().x * rows + row.index);
    return row;
}

// Four neighbours of a row from `dim` on; those past its end are zeros.
vec4 load_source(Row row, uint dim) {
    if (IN_FOURS != 0u) return row.source_scale * source_load4(SOURCE_FORMAT, true, row.source + dim, 1);
    vec4 four = vec4(0.0);
    for (uint i = 0; i < 4; ++i)
        if (dim + i < dims_of(row.part))
            four[i] = row.source_scale * source_load(SOURCE_FORMAT, row.source + (dim + i) * push.source_strides[3]);
    return four;
}

// The first of each `size` of `count` elements that are the invocation's. A loop that a driver can unroll, since lanes is known.
#define EACH_OWN(first, size, count, row, lanes)                                                                       \
    for (uint round = 0, first = (size) * (row).lane; round < ((count) + (size) * (lanes)-1) / ((size) * (lanes));     \
         ++round, first += (size) * (lanes))                                                                           \
        if ((row).exists && ((count) % ((size) * (lanes)) == 0 || first < (count)))

shared float lane_results[ROWS_WORKGROUP_SIZE];

// 1 / sqrt(mean of squares + epsilon) of the row: each of its invocations sums some, and then all sums.
float inverse_rms_of(Row row) {
    uint dims = norm_dim_of(row.part), lanes = lanes_of(row.part);
    float sum = 0.0;
    EACH_OWN(dim, 4, dims, row, lanes) {
        vec4 four = load_source(row, dim);
        for (uint i = 0; i < 4; ++i)
            if (dim + i < dims) sum += four[i] * four[i];
    }
    lane_results[gl_LocalInvocationID.x] = sum;
    barrier();
    if (!row.exists) return 0.0;
    sum = 0.0;
    for (uint i = 0; i < lanes; ++i) sum += lane_results[row.index * lanes + i];
    return inversesqrt(sum / float(dims) + push.epsilon);
}

vec4 load_normalised(Row row, uint dim) {
    vec4 four = load_source(row, dim);
    if (!is_normalised(row.part)) return four;
    for (uint i = 0; i < 4; ++i) {
        if (dim + i >= norm_dim_of(row.part)) continue;
        four[i] *= row.inverse_rms;
        four[i] *= row.part == QUERIES ? query_norm_load(QUERY_NORM_FORMAT, dim + i) : norm_load(NORM_FORMAT, dim + i);
    }
    return four;
}

// What a pair turns by.
uint position_of(Row row, uint stream) {
    if (HAS_POSITIONS == 0u) return row.position;
    uint tokens = (PACKED == PACKED_SEQUENCES ? 1 : push.sequences) * push.source_total;
    return uint(max(positions[base_bytes(BINDING_ROWS_POSITIONS) / 4 + stream * tokens + row.token], 0));
}

// The same as the rotary embedding turns them.
vec4 load_turned(Row row, uint dim) {
    vec4 four = load_normalised(row, dim);
    if (!is_rotated(row.part)) return four;
    const uint pairs = ROTATED_DIMS / 2;
    const bool interleaved = ROTATED == ROTATED_INTERLEAVED;
    uint from = row.part == QUERIES ? QUERY_ROTATED_FROM : ROTATED_FROM;
    uint begin = dim - from; // of the turned ones; IN_FOURS: it and pairs are multiples of 4
    vec4 partners = four.yxwz;
    if (IN_FOURS != 0u) {
        if (dim < from || begin >= ROTATED_DIMS) return four;
        if (!interleaved) partners = load_normalised(row, begin < pairs ? dim + pairs : dim - pairs);
    }
    vec4 turned = four;
    for (uint i = 0; i < 4; ++i) {
        uint at = begin + i;
        if (IN_FOURS == 0u && (dim + i < from || at >= ROTATED_DIMS)) continue;
        bool second = interleaved ? (IN_FOURS != 0u ? i : at) % 2 != 0 : at >= pairs;
        uint pair = interleaved ? (IN_FOURS != 0u ? begin / 2 + i / 2 : at / 2) : (second ? at - pairs : at);
        if (IN_FOURS == 0u)
            partners[i] = load_normalised(row, from + (interleaved ? at ^ 1u : (second ? at - pairs : at + pairs))).x;
        uint word = base_bytes(BINDING_ROWS_FREQUENCIES) / 4 + 4 * pair;
        uint stream = HAS_POSITIONS != 0u ? frequency_words[word + 3] : 0;
        vec2 rotation = rotation_of(position_of(row, stream),
                                    uvec3(frequency_words[word], frequency_words[word + 1], frequency_words[word + 2]));
        turned[i] = four[i] * rotation.x + partners[i] * (second ? rotation.y : -rotation.y);
    }
    return turned;
}

// Elements of a row that wait in the tile at once, where blocks are larger than an item: all, or of a wide one a block.
const uint MIXED_DIMS = HEAD_DIM <= ROWS_WIDEST_TILE ? HEAD_DIM : HADAMARD;
const uint ROW_LANES = (HEAD_DIM + ELEMENTS - 1) / ELEMENTS;
const uint TILE_ROWS = ROW_LANES < ROWS_WORKGROUP_SIZE ? ROWS_WORKGROUP_SIZE / ROW_LANES : 1;
const uint TILE_DIMS = TILE_ROWS * MIXED_DIMS;
const uint TILE_GAPS = ELEMENTS / QUANTISED_BLOCK; // behind each block, by which items begin at different banks
shared float tile[HADAMARD <= ELEMENTS ? 1u : TILE_DIMS + TILE_DIMS / QUANTISED_BLOCK * TILE_GAPS];

bool waits_in_tile(uint part) { return is_mixed(part) && HADAMARD > ELEMENTS; }

uint with_gaps(uint at) { return at + at / QUANTISED_BLOCK * TILE_GAPS; }

uint place_in_tile(Row row, uint at) { return with_gaps(row.index * MIXED_DIMS + at); }

// Neighbouring elements of a row.
struct Item {
    vec4 fours[ELEMENTS / 4];
};

// Sums and differences of two pairs: of neighbours, and of those two further on.
vec4 mix_neighbours(vec4 x) { return vec4(x.x + x.y, x.x - x.y, x.z + x.w, x.z - x.w); }

vec4 mix_halves(vec4 x) { return vec4(x.xy + x.zw, x.xy - x.zw); }

// Each pair of an item's elements of a block whose numbers differ in one bit becomes its sum and its difference.
void mix_item(inout Item item) {
    for (uint i = 0; i < ELEMENTS / 4; ++i) {
        item.fours[i] = mix_neighbours(item.fours[i]);
        if (HADAMARD >= 4) item.fours[i] = mix_halves(item.fours[i]);
    }
    for (uint bit = 1; bit < ELEMENTS / 4; bit *= 2)
        for (uint i = 0; i < ELEMENTS / 4; ++i) {
            if ((i & bit) != 0) continue;
            vec4 a = item.fours[i], b = item.fours[i + bit];
            item.fours[i] = a + b;
            item.fours[i + bit] = a - b;
        }
}

Item load_item(Row row, uint dim) {
    Item item;
    for (uint i = 0; i < ELEMENTS / 4; ++i) item.fours[i] = load_turned(row, dim + 4 * i);
    if (is_mixed(row.part)) mix_item(item);
    return item;
}

// The same of the elements in the tile and two bits, or the last.
void mix_tile(Row row, const uint bit) {
    const bool is_last = 2 * bit == HADAMARD;
    const uint second = with_gaps(bit), third = is_last ? 1 : with_gaps(2 * bit);
    EACH_OWN(group, 1, MIXED_DIMS / 4, row, lanes_of(row.part)) {
        uint first = place_in_tile(row, 4 * group - (is_last ? 2 * group % bit : 3 * (group % bit)));
        uvec4 places = first + uvec4(0, second, third, second + third);
        vec4 x = mix_neighbours(vec4(tile[places.x], tile[places.y], tile[places.z], tile[places.w]));
        if (!is_last) x = mix_halves(x);
        for (uint i = 0; i < 4; ++i) tile[places[i]] = x[i];
    }
}

// Brings the row's elements from `begin` on into the tile, mixed.
void fill_tile(Row row, uint begin) {
    barrier(); // everyone has read the last ones
    EACH_OWN(at, ELEMENTS, MIXED_DIMS, row, lanes_of(row.part)) {
        Item item = load_item(row, begin + at);
        uint place = place_in_tile(row, at);
        for (uint i = 0; i < ELEMENTS; ++i) tile[place + i] = item.fours[i / 4][i % 4];
    }
    barrier();
    for (uint bit = ELEMENTS; bit < HADAMARD; bit *= 4) {
        mix_tile(row, bit);
        barrier();
    }
}

// An item as it is stored, `at` elements behind `begin`.
Item take_item(Row row, uint begin, uint at) {
    Item item;
    uint place = place_in_tile(row, at);
    if (waits_in_tile(row.part))
        for (uint i = 0; i < ELEMENTS; ++i) item.fours[i / 4][i % 4] = tile[place + i];
    else
        item = load_item(row, begin + at);
    for (uint i = 0; i < ELEMENTS / 4 && is_mixed(row.part); ++i) item.fours[i] *= push.scale;
    return item;
}

#ifdef QUANTISED_TARGET
layout(set = 0, binding = BINDING_ROWS_TARGET_SCALES, std430) buffer TargetScalesBuffer { float target_scales[]; };
layout(set = 0, binding = BINDING_ROWS_VALUE_SCALES, std430) buffer ValueScalesBuffer { float value_scales[]; };

const float LEAST_SCALE = 1.17549435e-38; // whose inverse is finite

void store_word(uint part, uint word, uint bits) {
    if (part == VALUES)
        values_words[word] = bits;
    else
        target_words[word] = bits;
}

// Half a word that the block shares with its neighbour, whose invocation writes the other half: two atomics.
void store_half(uint part, uint byte_offset, uint bits) {
    uint shift = (byte_offset & 2) * 8, word = byte_offset / 4;
    if (part == VALUES) {
        atomicAnd(values_words[word], 0xffff0000u >> shift);
        atomicOr(values_words[word], bits << shift);
    } else {
        atomicAnd(target_words[word], 0xffff0000u >> shift);
        atomicOr(target_words[word], bits << shift);
    }
}

// A block is whole halves: all but its first and last lie in words of its own.
void store_block(uint part, const uint format, uint byte_offset, EncodedBlock block) {
    const uint halves = bytes_of_block(format) / 2;
    uint word = byte_offset / 4;
    bool shifted = (byte_offset & 2) != 0;
    if (shifted) {
        store_half(part, byte_offset, block.words[0] & 0xffffu);
        for (uint i = 1; 2 * i < halves; ++i)
            store_word(part, word + i, (block.words[i - 1] >> 16) | (block.words[i] << 16));
    } else {
        for (uint i = 0; i < halves / 2; ++i) store_word(part, word + i, block.words[i]);
    }
    uint last = block.words[(halves - 1) / 2];
    if (shifted == (halves % 2 == 0)) store_half(part, byte_offset + 2 * (halves - 1), shifted ? last >> 16 : last);
}

uint largest_of(Item item) {
    uint largest = 0u;
    for (uint i = 0; i < ELEMENTS; ++i) {
        uint magnitude = magnitude_bits(item.fours[i / 4][i % 4]);
        largest = magnitude < INFINITY_BITS ? max(largest, magnitude) : largest;
    }
    return largest;
}

// By which the row's largest finite element becomes the type's largest number, from the largest that each of its invocations has.
float make_scale(Row row, uint largest) {
    uint lanes = lanes_of(row.part);
    lane_results[gl_LocalInvocationID.x] = uintBitsToFloat(largest);
    barrier();
    if (!row.exists) return 0.0;
    for (uint i = 0; i < lanes; ++i) largest = max(largest, floatBitsToUint(lane_results[row.index * lanes + i]));
    float scale = divide(uintBitsToFloat(largest), largest_float8(TARGET_FORMAT));
    return scale < LEAST_SCALE ? 0.0 : scale;
}

void write_scale(Row row, float scale) {
    if (!row.exists || row.lane != 0) return;
    if (row.part == VALUES)
        value_scales[base_bytes(BINDING_ROWS_VALUE_SCALES) / 4 + row.target_scale] = scale;
    else
        target_scales[base_bytes(BINDING_ROWS_TARGET_SCALES) / 4 + row.target_scale] = scale;
}

float read_scale(Row row) {
    if (row.part == VALUES) return value_scales[base_bytes(BINDING_ROWS_VALUE_SCALES) / 4 + row.target_scale];
    return target_scales[base_bytes(BINDING_ROWS_TARGET_SCALES) / 4 + row.target_scale];
}

// A block divided by the scale of its row; by 0 nothing is left of it.
void store_item(Row row, uint dim, Item item, float scale) {
    float values[QUANTISED_BLOCK];
    float inverse = abs(scale) >= LEAST_SCALE ? divide(1.0, scale) : 0.0;
    for (uint i = 0; i < QUANTISED_BLOCK; ++i) {
        float value = item.fours[i / 4][i % 4];
        precise float scaled = value * inverse;
        values[i] = TARGET_SCALES == TARGET_SCALES_NONE ? value : scaled;
    }
    uint base = row.part == VALUES ? base_bytes(BINDING_ROWS_VALUES) : base_bytes(BINDING_ROWS_TARGET);
    uint to = row.target + dim * push.target_strides[3];
    store_block(row.part, TARGET_FORMAT, base + block_of_element(TARGET_FORMAT, to),
                encode_block(TARGET_FORMAT, values));
}
#else
// Two neighbours of a row from `dim` on. pairs: none of their words is shared.
void store_neighbours(Row row, const bool pairs, uint dim, vec2 numbers) {
    uint to = row.target + dim * push.target_strides[3];
    const uint stride = pairs ? 1 : push.target_strides[3];
    if (row.part == QUERIES)
        queries_store2(QUERY_FORMAT, pairs || QUERY_PAIRS != 0u, to, stride, numbers);
    else if (row.part == VALUES)
        values_store2(TARGET_FORMAT, pairs || TARGET_PAIRS != 0u, to, stride, numbers);
    else
        target_store2(TARGET_FORMAT, pairs || TARGET_PAIRS != 0u, to, stride, numbers);
}

// The last element of a row of an odd number of them.
void store_last(Row row, uint dim, float number) {
    uint to = row.target + dim * push.target_strides[3];
    if (row.part == QUERIES)
        queries_store(QUERY_FORMAT, to, number);
    else if (row.part == VALUES)
        values_store(TARGET_FORMAT, to, number);
    else
        target_store(TARGET_FORMAT, to, number);
}

void store_item(Row row, uint dim, Item item, float scale) {
    vec4 four = item.fours[0];
    for (uint i = 0; i < 4; i += 2)
        if (IN_FOURS != 0u || dim + i + 1 < dims_of(row.part))
            store_neighbours(row, IN_FOURS != 0u, dim + i, vec2(four[i], four[i + 1]));
        else if (dim + i < dims_of(row.part))
            store_last(row, dim + i, four[i]);
}
#endif

void main() {
    Row row = own_row();
    if (is_normalised(row.part)) row.inverse_rms = inverse_rms_of(row);
    const uint dims = dims_of(row.part), lanes = lanes_of(row.part);
    const uint step = waits_in_tile(row.part) ? MIXED_DIMS : dims; // elements of the row at a time
    float scale = 0.0;
    bool is_filled = !waits_in_tile(row.part);
#ifdef QUANTISED_TARGET
    if (TARGET_SCALES == TARGET_SCALES_READ && row.exists) scale = read_scale(row);
    if (TARGET_SCALES == TARGET_SCALES_MADE) {
        uint largest = 0u;
        for (uint begin = 0; begin < dims; begin += step) {
            if (waits_in_tile(row.part)) fill_tile(row, begin);
            EACH_OWN(at, ELEMENTS, step, row, lanes) largest = max(largest, largest_of(take_item(row, begin, at)));
        }
        is_filled = is_filled || step == dims;
        scale = make_scale(row, largest);
        write_scale(row, scale);
    }
#endif
    for (uint begin = 0; begin < dims; begin += step) {
        if (!is_filled) fill_tile(row, begin);
        EACH_OWN(at, ELEMENTS, step, row, lanes) store_item(row, begin + at, take_item(row, begin, at), scale);
    }
}
