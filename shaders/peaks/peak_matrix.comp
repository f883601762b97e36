// The device's matrix multiply-add rate (VK_KHR_cooperative_matrix): f16 factors, f32 sums, products that depend on
// nothing but their own sums. For the roofline, see ops/peaks.cpp.
//
// sums F32 [subgroups, MATRIX_M, MATRIX_N]; a subgroup makes push.trips * MATRICES_OF_PEAK_TRIP products
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require

#include "interface/peak.h"

PEAK_CONSTANTS(VKATTN_CONSTANT)

layout(local_size_x_id = 0) in;

#define PUSH PeakPush
#include "common/push.glsl"

layout(set = 0, binding = BINDING_PEAK_OUTPUT, std430) writeonly buffer OutputBuffer { float sums[]; };

#define FACTOR_A coopmat<float16_t, gl_ScopeSubgroup, MATRIX_M, MATRIX_K, gl_MatrixUseA>
#define FACTOR_B coopmat<float16_t, gl_ScopeSubgroup, MATRIX_K, MATRIX_N, gl_MatrixUseB>
#define ACCUMULATOR coopmat<float, gl_ScopeSubgroup, MATRIX_M, MATRIX_N, gl_MatrixUseAccumulator>

const uint AS = 2;
const uint BS = MATRICES_OF_PEAK_TRIP / AS;

void main() {
    float16_t number = float16_t(1.0 / float(push.trips + 2)); // unknown before it runs, and keeps sums finite
    FACTOR_A a[AS];
    FACTOR_B b[BS];
    ACCUMULATOR products[AS * BS];
    [[unroll]] for (uint i = 0; i < AS; ++i) a[i] = FACTOR_A(float16_t(i + 1));
    [[unroll]] for (uint j = 0; j < BS; ++j) b[j] = FACTOR_B(number * float16_t(j + 1));
    [[unroll]] for (uint p = 0; p < AS * BS; ++p) products[p] = ACCUMULATOR(0.0);
    for (uint trip = 0; trip < push.trips; ++trip) {
        [[unroll]] for (uint i = 0; i < AS; ++i) a[i] =
            a[i] * (float16_t(1.0) - number); // else a compiler multiplies once
        [[unroll]] for (uint i = 0; i < AS; ++i) [[unroll]] for (uint j = 0; j < BS; ++j) products[i * BS + j] =
            coopMatMulAdd(a[i], b[j], products[i * BS + j]);
    }
    ACCUMULATOR sum = products[0];
    [[unroll]] for (uint p = 1; p < AS * BS; ++p) sum = sum + products[p];
    uint subgroup = gl_WorkGroupID.x * gl_NumSubgroups + gl_SubgroupID;
    coopMatStore(sum, sums, base_bytes(BINDING_PEAK_OUTPUT) / 4 + subgroup * MATRIX_M * MATRIX_N, MATRIX_N,
                 gl_CooperativeMatrixLayoutRowMajor);
}
