// Selects the numbers of the highest ranks of each chunk of a row, of equal ones those of lower indices, in the order of
// the row: a radix select finds the lowest selected rank, digit by digit.
//
// input [B,L,N], or ranks and indices [rows,N] -> ranks, indices [rows,to_width], chunk after chunk
// grid: (chunks, rows)
#version 460
#extension GL_GOOGLE_include_directive : require

#include "interface/select.h"

layout(local_size_x = SELECT_WORKGROUP_SIZE) in;

SELECT_CONSTANTS(VKATTN_CONSTANT)

#define PUSH SelectPush
#include "common/push.glsl"
#include "common/rank.glsl"

#define TENSOR input
#define TENSOR_BINDING BINDING_SELECT_INPUT
#include "common/tensor.glsl"

layout(set = 0, binding = BINDING_SELECT_RANKS, std430) readonly buffer RanksBuffer { uint ranks[]; };
layout(set = 0, binding = BINDING_SELECT_INDICES, std430) readonly buffer IndicesBuffer { uint indices[]; };
layout(set = 0, binding = BINDING_SELECT_TO_RANKS, std430) writeonly buffer ToRanksBuffer { uint to_ranks[]; };
layout(set = 0, binding = BINDING_SELECT_TO_INDICES, std430) writeonly buffer ToIndicesBuffer { uint to_indices[]; };

const uint DIGIT_BITS = 8, DIGITS = 1 << DIGIT_BITS;
const uint BINS = DIGITS / SELECT_WORKGROUP_SIZE; // of an invocation

shared uint bins[DIGITS];
shared uvec2 sums[SELECT_WORKGROUP_SIZE];
shared uvec2 found; // digit, and how many are still to be selected among those that have it

uint lane() { return gl_LocalInvocationID.x; }

// A rank that tells -0 from 0.
uint signed_rank_at(uint row, uint i) {
    if (INPUT_FORMAT == FORMAT_NONE) return ranks[base_bytes(BINDING_SELECT_RANKS) / 4 + row * push.width + i];
    uint begin = row / push.positions * push.input_strides[0] + row % push.positions * push.input_strides[1];
    return signed_rank_of(input_load(INPUT_FORMAT, begin + i));
}

uint rank_at(uint row, uint i) { return rank_of_signed(signed_rank_at(row, i)); }

uint index_at(uint row, uint i) {
    return HAS_INDICES != 0 ? indices[base_bytes(BINDING_SELECT_INDICES) / 4 + row * push.width + i] : i;
}

// What the invocations before this one have, and all of them.
uvec2 sum_before(uvec2 own, out uvec2 all) {
    sums[lane()] = own;
    barrier();
    for (uint distance = 1; distance < SELECT_WORKGROUP_SIZE; distance *= 2) {
        uvec2 before = lane() >= distance ? sums[lane() - distance] : uvec2(0);
        barrier();
        sums[lane()] += before;
        barrier();
    }
    all = sums[SELECT_WORKGROUP_SIZE - 1];
    uvec2 before = sums[lane()] - own;
    barrier();
    return before;
}

// The digit of which, from the highest on, the wanted number is reached.
void find_digit(uint wanted) {
    uint own = 0;
    for (uint i = 0; i < BINS; ++i) own += bins[DIGITS - 1 - lane() * BINS - i];
    uvec2 all;
    uint above = sum_before(uvec2(own, 0), all).x;
    for (uint i = 0; i < BINS; ++i) {
        uint digit = DIGITS - 1 - lane() * BINS - i;
        if (above < wanted && wanted <= above + bins[digit]) found = uvec2(digit, wanted - above);
        above += bins[digit];
    }
    barrier();
}

// The lowest rank that is selected, and how many of those that have it are.
uvec2 lowest_selected(uint row, uint begin, uint end, uint wanted) {
    if (wanted == 0) return uvec2(RANK_OF_NOTHING, 0);
    uint rank = 0, known = 0; // bits of it
    for (uint shift = 32 - DIGIT_BITS;; shift -= DIGIT_BITS) {
        for (uint i = lane(); i < DIGITS; i += SELECT_WORKGROUP_SIZE) bins[i] = 0;
        barrier();
        for (uint i = begin + lane(); i < end; i += SELECT_WORKGROUP_SIZE) {
            uint each = rank_at(row, i);
            if ((each & known) == rank) atomicAdd(bins[each >> shift & (DIGITS - 1)], 1);
        }
        barrier();
        find_digit(wanted);
        rank |= found.x << shift;
        known |= (DIGITS - 1) << shift;
        wanted = found.y;
        if (shift == 0) break;
    }
    return uvec2(rank, rank == RANK_OF_NOTHING ? 0 : wanted);
}

void store(uint at, uint rank, uint index) {
    if (HAS_TO_RANKS != 0) to_ranks[base_bytes(BINDING_SELECT_TO_RANKS) / 4 + at] = rank;
    to_indices[base_bytes(BINDING_SELECT_TO_INDICES) / 4 + at] = index;
}

// Each invocation looks through neighbours, so that what is selected keeps the order of the row.
void store_selected(uint row, uint begin, uint end, uint to, uint most, uvec2 lowest) {
    uint share = (end - begin + SELECT_WORKGROUP_SIZE - 1) / SELECT_WORKGROUP_SIZE;
    uint first = min(begin + lane() * share, end), last = min(first + share, end);
    uvec2 own = uvec2(0); // above the lowest rank, and of it
    for (uint i = first; i < last; ++i) {
        uint rank = rank_at(row, i);
        own += uvec2(rank > lowest.x ? 1 : 0, rank == lowest.x ? 1 : 0);
    }
    uvec2 all, before = sum_before(own, all);
    for (uint i = first; i < last; ++i) {
        uint signed_rank = signed_rank_at(row, i), rank = rank_of_signed(signed_rank);
        bool selected = rank > lowest.x || (rank == lowest.x && before.y < lowest.y);
        if (selected) store(to + before.x + min(before.y, lowest.y), signed_rank, index_at(row, i));
        before += uvec2(rank > lowest.x ? 1 : 0, rank == lowest.x ? 1 : 0);
    }
    for (uint i = all.x + lowest.y + lane(); i < most; i += SELECT_WORKGROUP_SIZE)
        store(to + i, RANK_OF_NOTHING, 0xffffffffu);
}

void main() {
    uint row = workgroup().y, begin = workgroup().x * push.chunk, end = min(begin + push.chunk, push.width);
    uint most = end == push.width ? push.last_most : push.most;
    uvec2 lowest = lowest_selected(row, begin, end, min(most, end - begin));
    store_selected(row, begin, end, row * push.to_width + workgroup().x * push.most, most, lowest);
}
