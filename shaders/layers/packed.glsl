// Sequences of unequal length, packed one behind the other.
#ifndef PACKED_GLSL
#define PACKED_GLSL

// The sequence's begin in packed rows, and its tokens; what ends before it begins is empty.
uvec2 packed_rows(int begin, int end, uint total) {
    int first = clamp(begin, 0, int(total));
    return uvec2(first, clamp(end, first, int(total)) - first);
}

#endif
