// The gradients of captured tensors: of each element the sum over all pairs of a query and a key of the score's gradient times the score's
// derivative by the element, as score_mod_grad_captured gives it. Of a variant alone.
//
// query [B,Hq,Lq,D], key [B,Hkv,Lk,D], value [B,Hkv,Lk,Dv], d_output [B,Hq,Lq,Dv], log_sum_exp and deltas [B,Hq,Lq] -> sums (attention/
// captured_sums.glsl) -> d_captured
// Three stages, CAPTURED_STAGE: sums become 0; tiles add to them; and they become d_captured, of one tensor.
// grid: (words of sums or elements by workgroups) or, of tiles, (query tiles, Hq, B). An invocation takes pairs of its tile along diagonals, since
// relative positions have one element there, and adds to a sum in memory where the element is another one.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

#define HAS_GRADIENTS
#define OF_MASK
#define OF_CAPTURED

layout(local_size_x_id = 0) in;

#include "attention/rows.glsl"
#include "attention/variant.glsl"

uint first_position, first_key; // of the workgroup, of the tile that passes by

Row row_of(uint own) {
    return row_of_head(workgroup().z, workgroup().y,
                       min(first_position + own, max(query_length(workgroup().z), 1) - 1));
}
Key key_of(uint passing) { return Key(min(first_key + passing, parameters.kv_len - 1)); }
Row row_of_pair(uint own, uint passing) { return row_of(own); }
Key key_of_pair(uint own, uint passing) { return key_of(passing); }
uint numbers_of_pair(uint own, uint passing) { return own; }

uint times_seen(Row row, uint own, uint passing) {
    if (first_key + passing >= parameters.kv_len) return 0;
    return LISTS_KEYS ? times_listed(row, key_of(passing)) : 1;
}

#include "kernels/backward/scores.glsl"

layout(set = 0, binding = BINDING_D_CAPTURED, std430) buffer DCapturedBuffer { float d_captured[]; };

VECTOR own_first(uint own, uint dim) { return load_query_of(row_of(own), dim); }
VECTOR own_second(uint own, uint dim) { return load_d_output_of(row_of(own), dim); }
VECTOR passing_first(uint i, uint dim) { return load_key_of(workgroup().z, row_of(0).kv_head, key_of(i), dim); }
VECTOR passing_second(uint i, uint dim) { return load_value_of(workgroup().z, row_of(0).kv_head, key_of(i), dim); }

void add_pair(uint own, uint passing) {
    uint position = position_at(passing);
    pair_gradient = NUMBER(gradient_tile, own, position);
    Row row = row_of(own);
    if (pair_gradient != 0.0)
        score_mod_grad_captured(cap_score(NUMBER(score_tile, own, position)) * LN_2, batch_of(row), head_of(row),
                                query_of(row), key_of(passing).number);
}

void attend_tile() {
    MAKE_GRADIENTS(false)
    barrier(); // they are there
    const uint pairs = ROWS * KEYS_OF_INVOCATION;
    [[dont_unroll]] for (uint i = 0; i < pairs; ++i) {
        uint at = lane() * pairs + i, own = at % OWN;
        add_pair(own, (own + at / OWN) % PASSING);
    }
}

shared uint least_element, greatest_element;

// Adds what invocations still have: one for all of them where they have one element, as of a number for each head.
void add_latest(uint tensor) {
    uint element = latest_element[tensor];
    barrier(); // the numbers' last readers are done
    if (lane() == 0) {
        least_element = NO_ELEMENT;
        greatest_element = 0;
    }
    NUMBER(score_tile, 0, lane()) = latest_sum[tensor];
    barrier();
    if (element != NO_ELEMENT) {
        atomicMin(least_element, element);
        atomicMax(greatest_element, element);
    }
    barrier();
    bool is_one = least_element == greatest_element;
    for (uint width = WORKGROUP_SIZE / 2; width > 0; width /= 2) {
        if (is_one && lane() < width) NUMBER(score_tile, 0, lane()) += NUMBER(score_tile, 0, lane() + width);
        barrier();
    }
    uint sum = first_captured_sum(tensor);
    if (is_one && lane() == 0) add_to_captured_sum(sum + least_element, score_tile[0].x);
    if (!is_one && element != NO_ELEMENT) add_to_captured_sum(sum + element, latest_sum[tensor]);
}

void add_tiles() {
    uint length = query_length(workgroup().z);
    first_position = workgroup().x * OWN;
    if (first_position >= length) return; // the whole workgroup
    KeyRange keys = seen_by_any(workgroup().z, first_position, min(first_position + OWN, length) - 1);
    if (has(FEATURE_SPLIT_KEYS)) keys = KeyRange(max(keys.begin, push.first_key), min(keys.end, push.last_key));
    [[unroll]] for (uint i = 0; i < CAPTURED_TENSORS; ++i) {
        latest_element[i] = NO_ELEMENT;
        latest_sum[i] = 0.0;
    }
    for (uint own = lane(); own < OWN; own += WORKGROUP_SIZE)
        keep_row_numbers(own, load_row_numbers(row_of(own), first_position + own < length));
    [[dont_unroll]] for (first_key = keys.begin / PASSING * PASSING; first_key < keys.end; first_key += PASSING)
        attend_tile();
    [[unroll]] for (uint i = 0; i < CAPTURED_TENSORS; ++i) if (is_differentiated(i)) add_latest(i);
}

void main() {
    uint number = workgroup().x * WORKGROUP_SIZE + gl_LocalInvocationID.x;
    if (CAPTURED_STAGE == CAPTURED_STAGE_TILES)
        add_tiles();
    else if (number < push.last_key && CAPTURED_STAGE == CAPTURED_STAGE_ZEROS)
        captured_sums[base_bytes(BINDING_CAPTURED_SUMS) / 4 + number] = 0;
    else if (number < push.last_key)
        d_captured[base_bytes(BINDING_D_CAPTURED) / 4 + number] = captured_sum_value(push.first_key + number);
}
