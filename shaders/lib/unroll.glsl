// for (uint i = 0; i < n; ++i), written out where UNROLL says so. After lib/attention_bindings.glsl.
#define TRIP_OF_UNROLLED(n) (UNROLL != 0 ? (n) : 1)
#define FOR_UNROLLED(i, n)                                                                                             \
    for (uint i##_first = 0; i##_first < (n); i##_first += TRIP_OF_UNROLLED(n))                                        \
    [[unroll]] for (uint i = i##_first; i < i##_first + TRIP_OF_UNROLLED(n); ++i)
