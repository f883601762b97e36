// The device's matrix multiply-add rate (VK_KHR_cooperative_matrix): f16 factors, f32 sums, products that depend on
// nothing but their own sums.
//
// sums F32 [subgroups, MATRIX_M, MATRIX_N]; a subgroup computes `iterations` * PEAK_MATRIX_PRODUCTS products
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require

#include "peak_sizes.h"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint MATRIX_M = 16;
layout(constant_id = 2) const uint MATRIX_N = 16;
layout(constant_id = 3) const uint MATRIX_K = 16;

layout(push_constant, std430) uniform PushBlock { uint iterations; };
layout(set = 0, binding = PEAK_OUTPUT, std430) writeonly buffer OutputBuffer { float sums[]; };

#define FACTOR_A coopmat<float16_t, gl_ScopeSubgroup, MATRIX_M, MATRIX_K, gl_MatrixUseA>
#define FACTOR_B coopmat<float16_t, gl_ScopeSubgroup, MATRIX_K, MATRIX_N, gl_MatrixUseB>
#define ACCUMULATOR coopmat<float, gl_ScopeSubgroup, MATRIX_M, MATRIX_N, gl_MatrixUseAccumulator>

const uint AS = 2;
const uint BS = PEAK_MATRIX_PRODUCTS / AS;

void main() {
    float16_t number = float16_t(1.0 / float(iterations + 2)); // unknown to the compiler, and keeps sums finite
    FACTOR_A a[AS];
    FACTOR_B b[BS];
    ACCUMULATOR products[AS * BS];
    [[unroll]] for (uint i = 0; i < AS; ++i) a[i] = FACTOR_A(float16_t(i + 1));
    [[unroll]] for (uint j = 0; j < BS; ++j) b[j] = FACTOR_B(number * float16_t(j + 1));
    [[unroll]] for (uint p = 0; p < AS * BS; ++p) products[p] = ACCUMULATOR(0.0);
    for (uint iteration = 0; iteration < iterations; ++iteration) {
        [[unroll]] for (uint i = 0; i < AS; ++i) a[i] =
            a[i] * (float16_t(1.0) - number); // else a compiler multiplies once
        [[unroll]] for (uint i = 0; i < AS; ++i) [[unroll]] for (uint j = 0; j < BS; ++j) products[i * BS + j] =
            coopMatMulAdd(a[i], b[j], products[i * BS + j]);
    }
    ACCUMULATOR sum = products[0];
    [[unroll]] for (uint p = 1; p < AS * BS; ++p) sum = sum + products[p];
    uint subgroup = gl_WorkGroupID.x * gl_NumSubgroups + gl_SubgroupID;
    coopMatStore(sum, sums, subgroup * MATRIX_M * MATRIX_N, MATRIX_N, gl_CooperativeMatrixLayoutRowMajor);
}
