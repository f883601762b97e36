// Selects the numbers of the highest ranks of each chunk of a row, of equal ones those of lower indices, in the order of
// the row: a radix select finds the lowest selected rank, digit by digit.
//
// input [B,L,N], or ranks and indices [rows,N] -> ranks, indices [rows,to_width], chunk after chunk
// grid: (chunks, rows)
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

#include "interface/select.h"

layout(local_size_x_id = 6) in;

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
const uint BINS = DIGITS > WORKGROUP_SIZE ? DIGITS / WORKGROUP_SIZE : 1; // of an invocation that has some
const uint GROUPS = WORKGROUP_SIZE / SELECT_GROUP;

shared uint bins[DIGITS];
shared uvec2 sums[WORKGROUP_SIZE], sums_of_groups[GROUPS];
shared uvec2 found; // digit, and how many are still to be selected among those that have it

uint lane() { return gl_LocalInvocationID.x; }

// A rank that tells -0 from 0.
uint signed_rank_at(uint row, uint i) {
    if (INPUT_FORMAT == FORMAT_NONE) return ranks[base_bytes(BINDING_SELECT_RANKS) / 4 + row * push.width + i];
    uint begin = row / push.positions * push.input_strides[0] + row % push.positions * push.input_strides[1];
    return signed_rank_of(input_load(INPUT_FORMAT, begin + i));
}

uint index_at(uint row, uint i) {
    return HAS_INDICES != 0 ? indices[base_bytes(BINDING_SELECT_INDICES) / 4 + row * push.width + i] : i;
}

// What an invocation looks through: neighbours, so that what is selected keeps the order of the row. KEPT is 0, or not less than they
// are: each is loaded once, all at the same time, and behind them is nothing.
struct Share {
    uint row, first, last;
};
uint kept[KEPT > 0 ? KEPT : 1];

Share share_of(uint row, uint begin, uint end) {
    uint each = (end - begin + WORKGROUP_SIZE - 1) / WORKGROUP_SIZE, first = min(begin + lane() * each, end);
    Share share = Share(row, first, min(first + each, end));
    [[unroll]] for (uint i = 0; i < KEPT; ++i) kept[i] =
        uint(first + i < share.last) * signed_rank_at(row, min(first + i, max(end, 1) - 1));
    return share;
}

// The statement for each number of the share: `at` is its place, signed_rank its rank that tells -0 from 0.
#define FOR_SHARE(share, statement)                                                                                    \
    if (KEPT > 0) {                                                                                                    \
        [[unroll]] for (uint i_ = 0; i_ < KEPT; ++i_) {                                                                \
            uint at = share.first + i_, signed_rank = kept[i_];                                                        \
            statement;                                                                                                 \
        }                                                                                                              \
    } else {                                                                                                           \
        for (uint at = share.first; at < share.last; ++at) {                                                           \
            uint signed_rank = signed_rank_at(share.row, at);                                                          \
            statement;                                                                                                 \
        }                                                                                                              \
    }

// What the invocations before this one have, and all of them. Groups before this one by a mask of bits: compilers keep comparisons in
// registers of which there are few.
uvec2 sum_before(uvec2 own, out uvec2 all) {
    sums[lane()] = own;
    barrier();
    if (lane() < GROUPS) {
        uvec2 sum = uvec2(0);
        [[dont_unroll]] for (uint first = lane() * SELECT_GROUP; first < (lane() + 1) * SELECT_GROUP; first += 4) {
            uvec2 each[4]; // whose loads wait together
            [[unroll]] for (uint i = 0; i < 4; ++i) each[i] = sums[first + i];
            [[unroll]] for (uint i = 0; i < 4; ++i) {
                sums[first + i] = sum;
                sum += each[i];
            }
        }
        sums_of_groups[lane()] = sum;
    }
    barrier();
    int group = int(lane() / SELECT_GROUP);
    uvec2 before = sums[lane()];
    all = uvec2(0);
    for (int i = 0; i < GROUPS; ++i) {
        uvec2 each = sums_of_groups[i];
        all += each;
        before += each & uint((i - group) >> 31);
    }
    barrier(); // the sums' last readers are done
    return before;
}

// The digit of which, from the highest on, the wanted number is reached.
void find_digit(uint wanted) {
    bool has_bins = lane() * BINS < DIGITS;
    uint own = 0;
    for (uint i = 0; has_bins && i < BINS; ++i) own += bins[DIGITS - 1 - lane() * BINS - i];
    uvec2 all;
    uint above = sum_before(uvec2(own, 0), all).x;
    for (uint i = 0; has_bins && i < BINS; ++i) {
        uint digit = DIGITS - 1 - lane() * BINS - i;
        if (above < wanted && wanted <= above + bins[digit]) found = uvec2(digit, wanted - above);
        above += bins[digit];
    }
    barrier();
}

void count_digit(uint signed_rank, uint rank, uint known, uint shift) {
    uint each = rank_of_signed(signed_rank);
    if ((each & known) == rank) atomicAdd(bins[each >> shift & (DIGITS - 1)], 1);
}

// The lowest rank that is selected, and how many of those that have it are.
uvec2 lowest_selected(Share share, uint wanted) {
    if (wanted == 0) return uvec2(RANK_OF_NOTHING, 0);
    uint rank = 0, known = 0; // bits of it
    [[dont_unroll]] for (uint shift = 32 - DIGIT_BITS;; shift -= DIGIT_BITS) {
        for (uint i = lane(); i < DIGITS; i += WORKGROUP_SIZE) bins[i] = 0;
        barrier();
        FOR_SHARE(share, count_digit(signed_rank, rank, known, shift));
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

// 1 where a rank is above the lowest one, and where it is that.
uvec2 place_of(uint signed_rank, uint lowest) {
    uint rank = rank_of_signed(signed_rank);
    return uvec2(rank > lowest ? 1 : 0, rank == lowest ? 1 : 0);
}

// before: how many are above the lowest rank, and of it.
void store_if_selected(Share share, uint at, uint signed_rank, uint to, uvec2 lowest, inout uvec2 before) {
    uvec2 place = place_of(signed_rank, lowest.x);
    bool selected = place.x != 0 || (place.y != 0 && before.y < lowest.y);
    if (selected) store(to + before.x + min(before.y, lowest.y), signed_rank, index_at(share.row, at));
    before += place;
}

void store_selected(Share share, uint to, uint most, uvec2 lowest) {
    uvec2 own = uvec2(0);
    FOR_SHARE(share, own += place_of(signed_rank, lowest.x));
    uvec2 all, before = sum_before(own, all);
    FOR_SHARE(share, store_if_selected(share, at, signed_rank, to, lowest, before));
    for (uint i = all.x + lowest.y + lane(); i < most; i += WORKGROUP_SIZE) store(to + i, RANK_OF_NOTHING, 0xffffffffu);
}

void main() {
    uint row = workgroup().y, begin = workgroup().x * push.chunk, end = min(begin + push.chunk, push.width);
    uint most = end == push.width ? push.last_most : push.most;
    Share share = share_of(row, begin, end);
    uvec2 lowest = lowest_selected(share, min(most, end - begin));
    store_selected(share, row * push.to_width + workgroup().x * push.most, most, lowest);
}
