// The linear of linear.comp for few rows: bound by reading the weights, so LANES neighbours share each weight row.
//
// grid: (output tiles, rows, groups); a workgroup computes LINEAR_VECTOR_OUTPUTS values of one row
// shared memory: one f32 an invocation; the lanes' sums are added in an order that never changes
#version 460
#extension GL_GOOGLE_include_directive : require

layout(local_size_x = 64) in;

#include "lib/linear_bindings.glsl"

const uint LANES = LINEAR_WORKGROUP_SIZE / LINEAR_VECTOR_OUTPUTS;

shared float sums[LINEAR_WORKGROUP_SIZE];

float input_at(uint row, uint feature) { return load_input(INPUT_FORMAT, input_element(row, feature)); }

float weight_at(uint o, uint feature) { return load_weight(WEIGHT_FORMAT, weight_element(o, feature)); }

// Every LANES-th run of four input features, from this lane's first.
float partial_sum(uint row, uint o, uint lane) {
    float sum = 0.0;
    for (uint feature = 4 * lane; feature < push.in_features; feature += 4 * LANES) {
        if (feature + 4 <= push.in_features) {
            vec4 x = vec4(input_at(row, feature), input_at(row, feature + 1), input_at(row, feature + 2),
                          input_at(row, feature + 3));
            vec4 w = vec4(weight_at(o, feature), weight_at(o, feature + 1), weight_at(o, feature + 2),
                          weight_at(o, feature + 3));
            sum += dot(x, w);
            continue;
        }
        for (uint last = feature; last < push.in_features; ++last) sum += input_at(row, last) * weight_at(o, last);
    }
    return sum;
}

void main() {
    uint lane = gl_LocalInvocationID.x % LANES;
    uint row = gl_WorkGroupID.y;
    uint o = gl_WorkGroupID.x * LINEAR_VECTOR_OUTPUTS + gl_LocalInvocationID.x / LANES;
    sums[gl_LocalInvocationID.x] = o < push.out_features ? partial_sum(row, o, lane) : 0.0;
    barrier(); // all sums are there
    if (lane != 0 || o >= push.out_features) return;
    float sum = 0.0;
    for (uint i = 0; i < LANES; ++i) sum += sums[gl_LocalInvocationID.x + i];
    store_output(OUTPUT_FORMAT, output_element(row, o), finish(sum, row, o));
}
