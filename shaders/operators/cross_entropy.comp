// loss[b,l] = log(sum of exp(input[b,l,:])) - input[b,l,label]; d_input = (softmax(input) - 1 at the label) * scale. Of a label that does
// not count: zeros.
//
// input [B,L,N], labels I32 [B,L], scale F32 [1] -> loss F32 [B,L], d_input [B,L,N], which may be the input
// grid: (L, B), one workgroup a row, which it reads twice: exponentials are relative to an invocation's largest so far, then to the row's
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;

#include "interface/cross_entropy.h"

CROSS_ENTROPY_CONSTANTS(VKATTN_CONSTANT)

#define PUSH CrossEntropyPush
#include "common/push.glsl"

#define TENSOR input
#define TENSOR_BINDING BINDING_CROSS_ENTROPY_INPUT
#include "common/tensor.glsl"

#define TENSOR d_input
#define TENSOR_BINDING BINDING_CROSS_ENTROPY_D_INPUT
#define TENSOR_WRITABLE
#include "common/tensor.glsl"

layout(set = 0, binding = BINDING_CROSS_ENTROPY_LABELS, std430) readonly buffer LabelsBuffer { int labels[]; };
layout(set = 0, binding = BINDING_CROSS_ENTROPY_LOSS, std430) writeonly buffer LossBuffer { float losses[]; };
layout(set = 0, binding = BINDING_CROSS_ENTROPY_SCALE, std430) readonly buffer ScaleBuffer { float scales[]; };

#define REDUCE_SIZE WORKGROUP_SIZE
#include "common/reduce.glsl"

#include "operators/cross_entropy.glsl"

shared float at_label; // the logit, read before it may be written

const float LOWEST = -3.40282347e38;

uint row_of(const uint strides[2]) { return workgroup().y * strides[0] + workgroup().x * strides[1]; }

// Fours of an invocation whose loads are under way together: `first` and those WORKGROUP_SIZE fours apart.
const uint FOURS_AT_ONCE = 4;
uint feature_of_four(uint first, uint k) { return first + k * 4 * WORKGROUP_SIZE; }

// Past the last the first once more: no load is behind a branch, and none is of what another invocation writes.
void load_fours(uint first, out vec4 fours[FOURS_AT_ONCE]) {
    [[unroll]] for (uint k = 0; k < FOURS_AT_ONCE; ++k) {
        uint feature = feature_of_four(first, k);
        fours[k] = input_load4(INPUT_FORMAT, true,
                               row_of(push.input_strides) + (feature < push.features ? feature : first), 1);
    }
}

float maximum_of(vec4 x) { return max(max(x.x, x.y), max(x.z, x.w)); }

// The largest number, and the sum of the exponentials relative to it.
struct Sum {
    float largest, exponentials;
};

// With numbers whose largest is that.
Sum raised(Sum sum, float largest) {
    float raised = max(sum.largest, largest);
    return Sum(raised, sum.exponentials * exp(sum.largest - raised));
}

Sum sum_of_own_fours() {
    Sum sum = Sum(LOWEST, 0.0);
    for (uint first = 4 * gl_LocalInvocationID.x; first < push.features;
         first = feature_of_four(first, FOURS_AT_ONCE)) {
        vec4 fours[FOURS_AT_ONCE];
        load_fours(first, fours);
        float largest = maximum_of(fours[0]);
        [[unroll]] for (uint k = 1; k < FOURS_AT_ONCE; ++k) largest = max(largest, maximum_of(fours[k]));
        sum = raised(sum, largest);
        vec4 exponentials = vec4(0.0);
        [[unroll]] for (uint k = 0; k < FOURS_AT_ONCE; ++k) exponentials +=
            feature_of_four(first, k) < push.features ? exp(fours[k] - sum.largest) : vec4(0.0);
        sum.exponentials += exponentials.x + exponentials.y + exponentials.z + exponentials.w;
    }
    return sum;
}

Sum sum_of_own() {
    if (IN_FOURS != 0u) return sum_of_own_fours();
    Sum sum = Sum(LOWEST, 0.0);
    for (uint i = gl_LocalInvocationID.x; i < push.features; i += WORKGROUP_SIZE) {
        float x = input_load(INPUT_FORMAT, row_of(push.input_strides) + i);
        sum = raised(sum, x);
        sum.exponentials += exp(x - sum.largest);
    }
    return sum;
}

void store_four(uint i, vec4 x) {
    uint to = row_of(push.d_input_strides) + i;
    d_input_store2(D_INPUT_FORMAT, true, to, 1, x.xy);
    d_input_store2(D_INPUT_FORMAT, true, to + 2, 1, x.zw);
}

// The exponentials times the scale.
void store_fours(Sum sum, float scale) {
    for (uint first = 4 * gl_LocalInvocationID.x; first < push.features;
         first = feature_of_four(first, FOURS_AT_ONCE)) {
        vec4 fours[FOURS_AT_ONCE];
        load_fours(first, fours);
        [[unroll]] for (uint k = 0; k < FOURS_AT_ONCE; ++k) fours[k] = exp(fours[k] - sum.largest) * scale;
        [[unroll]] for (uint k = 0; k < FOURS_AT_ONCE; ++k) if (feature_of_four(first, k) < push.features)
            store_four(feature_of_four(first, k), fours[k]);
    }
}

float exponential_of(uint i, Sum sum) {
    return exp(input_load(INPUT_FORMAT, row_of(push.input_strides) + i) - sum.largest);
}

// An odd row's last element apart, so that no compiler reads beyond it, where another workgroup writes.
void store_pairs(Sum sum, float scale) {
    uint to = row_of(push.d_input_strides), whole = push.features & ~1u;
    for (uint i = 2 * gl_LocalInvocationID.x; i < whole; i += 2 * WORKGROUP_SIZE) {
        vec2 exponentials = vec2(exponential_of(i, sum), exponential_of(i + 1, sum));
        d_input_store2(D_INPUT_FORMAT, D_INPUT_PAIRS != 0u, to + i, 1, exponentials * scale);
    }
    if (whole < push.features && gl_LocalInvocationID.x == 0)
        d_input_store(D_INPUT_FORMAT, to + whole, exponential_of(whole, sum) * scale);
}

// After what its invocation has stored there.
void store_label(uint label, float gradient) {
    uint owner = label / (IN_FOURS != 0u ? 4 : 2) % WORKGROUP_SIZE;
    if (IN_FOURS == 0u && label == (push.features & ~1u)) owner = 0;
    if (gl_LocalInvocationID.x == owner) d_input_store(D_INPUT_FORMAT, row_of(push.d_input_strides) + label, gradient);
}

void store_zeros() {
    uint to = row_of(push.d_input_strides), whole = push.features & ~1u;
    for (uint i = 2 * gl_LocalInvocationID.x; i < whole; i += 2 * WORKGROUP_SIZE)
        d_input_store2(D_INPUT_FORMAT, D_INPUT_PAIRS != 0u, to + i, 1, vec2(0.0));
    if (whole < push.features && gl_LocalInvocationID.x == 0) d_input_store(D_INPUT_FORMAT, to + whole, 0.0);
}

void store_loss(float loss) {
    if (HAS_LOSS != 0u && gl_LocalInvocationID.x == 0)
        losses[base_bytes(BINDING_CROSS_ENTROPY_LOSS) / 4 + row_of(push.loss_strides)] = loss;
}

void main() {
    uint label = uint(label_of(workgroup().y, workgroup().x));
    if (!counts(label)) {
        store_loss(0.0);
        if (D_INPUT_FORMAT != FORMAT_NONE) store_zeros();
        return;
    }
    Sum sum = sum_of_own();
    if (gl_LocalInvocationID.x == 0) at_label = input_load(INPUT_FORMAT, row_of(push.input_strides) + label);
    sum = raised(sum, reduce_maximum(sum.largest));
    sum.exponentials = reduce_sum(sum.exponentials);
    store_loss(sum.largest - at_label + log(sum.exponentials));
    if (D_INPUT_FORMAT == FORMAT_NONE) return;
    float scale = scales[base_bytes(BINDING_CROSS_ENTROPY_SCALE) / 4];
    if (IN_FOURS != 0u)
        store_fours(sum, scale / sum.exponentials);
    else
        store_pairs(sum, scale / sum.exponentials);
    store_label(label, scale * (exp(at_label - sum.largest) / sum.exponentials - 1.0));
}
