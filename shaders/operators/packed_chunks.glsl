// Chunks of packed sequences, one behind the other: sequence s has its chunks from number floor(rows before s / size) + s on, so that
// there are no more than `total / size` and one a sequence, whatever their lengths. A sequence without tokens has a number as well.
#ifndef PACKED_CHUNKS_GLSL
#define PACKED_CHUNKS_GLSL

#include "operators/packed.glsl"

uint first_packed_chunk(uint sequence, uint total, const uint size) {
    return uint(clamp(cu_seqlen(sequence), 0, int(total))) / size + sequence;
}

// The last sequence whose chunks begin at or before a number.
uint sequence_of_packed_chunk(uint number, uint sequences, uint total, const uint size) {
    uint sequence = 0;
    for (uint end = min(number + 1, sequences); sequence + 1 < end;) {
        uint middle = (sequence + end) / 2;
        if (first_packed_chunk(middle, total, size) <= number)
            sequence = middle;
        else
            end = middle;
    }
    return sequence;
}

#endif
