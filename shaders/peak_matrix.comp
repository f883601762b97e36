// The device's matrix multiply-add rate (VK_KHR_cooperative_matrix): f16 factors, f32 sums, products that depend on nothing
// but their own sums. For the roofline, see ops/peaks.cpp.
//
// sums F32 [subgroups, MATRIX_M, MATRIX_N]; a subgroup makes push.trips * MATRICES_OF_PEAK_TRIP products
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require

#include "interface.h"

PEAK_CONSTANTS(VKATTN_CONSTANT)

layout(local_size_x_id = 0) in;

layout(push_constant, std430) uniform PushBlock { PeakPush push; };

#include "lib/bases.glsl"

layout(set = 0, binding = BINDING_PEAK_OUTPUT, std430) writeonly buffer OutputBuffer { float sums[]; };

#define ACCUMULATOR coopmat<float, gl_ScopeSubgroup, MATRIX_M, MATRIX_N, gl_MatrixUseAccumulator>

void main() {
    float number = 1.0 / float(push.trips + 2); // unknown before it runs, and keeps sums finite
    coopmat<float16_t, gl_ScopeSubgroup, MATRIX_M, MATRIX_K, gl_MatrixUseA> a =
        coopmat<float16_t, gl_ScopeSubgroup, MATRIX_M, MATRIX_K, gl_MatrixUseA>(float16_t(number));
    coopmat<float16_t, gl_ScopeSubgroup, MATRIX_K, MATRIX_N, gl_MatrixUseB> b =
        coopmat<float16_t, gl_ScopeSubgroup, MATRIX_K, MATRIX_N, gl_MatrixUseB>(float16_t(number));
    ACCUMULATOR products[MATRICES_OF_PEAK_TRIP];
    [[unroll]] for (uint i = 0; i < MATRICES_OF_PEAK_TRIP; ++i) products[i] = ACCUMULATOR(float(i));
    for (uint trip = 0; trip < push.trips; ++trip)
        [[unroll]] for (uint i = 0; i < MATRICES_OF_PEAK_TRIP; ++i) products[i] = coopMatMulAdd(a, b, products[i]);
    ACCUMULATOR sum = products[0];
    [[unroll]] for (uint i = 1; i < MATRICES_OF_PEAK_TRIP; ++i) sum = sum + products[i];
    uint subgroup = gl_WorkGroupID.x * gl_NumSubgroups + gl_SubgroupID;
    coopMatStore(sum, sums, base_bytes(BINDING_PEAK_OUTPUT) / 4 + subgroup * MATRIX_M * MATRIX_N, MATRIX_N,
                 gl_CooperativeMatrixLayoutRowMajor);
}
