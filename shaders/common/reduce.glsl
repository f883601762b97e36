// Reductions over a workgroup through shared memory, in an order that never changes.
// Before: REDUCE_SIZE, the invocations of the workgroup, a power of two; REDUCE_TYPE, float or a vector, float if it is not defined.
#ifndef REDUCE_GLSL
#define REDUCE_GLSL

#ifndef REDUCE_TYPE
#define REDUCE_TYPE float
#endif

shared REDUCE_TYPE reduced[REDUCE_SIZE];

REDUCE_TYPE reduce_maximum(REDUCE_TYPE value) {
    uint lane = gl_LocalInvocationID.x;
    reduced[lane] = value;
    barrier();
    for (uint half_width = REDUCE_SIZE / 2; half_width > 0; half_width /= 2) {
        if (lane < half_width) reduced[lane] = max(reduced[lane], reduced[lane + half_width]);
        barrier();
    }
    REDUCE_TYPE result = reduced[0];
    barrier(); // everyone has read the result before the next reduction writes
    return result;
}

REDUCE_TYPE reduce_sum(REDUCE_TYPE value) {
    uint lane = gl_LocalInvocationID.x;
    reduced[lane] = value;
    barrier();
    for (uint half_width = REDUCE_SIZE / 2; half_width > 0; half_width /= 2) {
        if (lane < half_width) reduced[lane] += reduced[lane + half_width];
        barrier();
    }
    REDUCE_TYPE result = reduced[0];
    barrier();
    return result;
}

#endif
