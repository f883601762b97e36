// Reductions over a workgroup through shared memory, in an order that never changes.
// Before: REDUCE_SIZE, the invocations of the workgroup, a power of two.
#ifndef REDUCE_GLSL
#define REDUCE_GLSL

shared float reduced[REDUCE_SIZE];

float reduce_maximum(float value) {
    uint lane = gl_LocalInvocationID.x;
    reduced[lane] = value;
    barrier();
    for (uint half_width = REDUCE_SIZE / 2; half_width > 0; half_width /= 2) {
        if (lane < half_width) reduced[lane] = max(reduced[lane], reduced[lane + half_width]);
        barrier();
    }
    float result = reduced[0];
    barrier(); // everyone has read the result before the next reduction writes
    return result;
}

float reduce_sum(float value) {
    uint lane = gl_LocalInvocationID.x;
    reduced[lane] = value;
    barrier();
    for (uint half_width = REDUCE_SIZE / 2; half_width > 0; half_width /= 2) {
        if (lane < half_width) reduced[lane] += reduced[lane + half_width];
        barrier();
    }
    float result = reduced[0];
    barrier();
    return result;
}

#endif
