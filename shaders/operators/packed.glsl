// Sequences of unequal length, packed one behind the other. Device buffers are not trusted: whatever cu_seqlens says,
// rows stay inside the tensors.
// Before: CU_SEQLENS_BINDING.
#ifndef PACKED_GLSL
#define PACKED_GLSL

#include "common/push.glsl"

layout(set = 0, binding = CU_SEQLENS_BINDING, std430) readonly buffer CuSeqlensBuffer { int cu_seqlens[]; };

int cu_seqlen(uint index) { return cu_seqlens[base_bytes(CU_SEQLENS_BINDING) / 4 + index]; }

// A sequence's begin in `total` packed rows, and its tokens; what ends before it begins is empty.
uvec2 packed_rows(uint sequence, uint total) {
    int first = clamp(cu_seqlen(sequence), 0, int(total));
    return uvec2(first, clamp(cu_seqlen(sequence + 1), first, int(total)) - first);
}

struct PackedToken {
    uint sequence;
    uint token;  // of the sequence
    bool exists; // a sequence has the row
};

// What a packed row is: it belongs to the last of the sequences that begin at or before it, or to none.
PackedToken token_of_row(uint row, uint sequences, uint total) {
    uint sequence = 0; // the last that is known to begin there, or 0
    for (uint end = sequences; sequence + 1 < end;) {
        uint middle = (sequence + end) / 2;
        if (cu_seqlen(middle) <= int(row))
            sequence = middle;
        else
            end = middle;
    }
    uvec2 rows = packed_rows(sequence, total);
    return PackedToken(sequence, row - rows.x, row >= rows.x && row - rows.x < rows.y);
}

#endif
