// A buffer's descriptor, of four scalar registers.
#pragma once
#include "wave.hpp"

namespace execute {

struct BufferDescriptor {
    uint64_t base;
    uint32_t stride, records, last_word;

    BufferDescriptor(const Wave &wave, int first)
        : base(uint64_t(wave.scalars[first + 1] & 0xffff) << 32 | wave.scalars[first]),
          stride(wave.scalars[first + 1] >> 16 & 0x3fff), records(wave.scalars[first + 2]),
          last_word(wave.scalars[first + 3]) {}

    // GCN's scratch: lanes' words lie side by side.
    bool is_swizzled(int generation) const { return generation < kRdna1 && (last_word >> 23 & 1); }

    // From the base on. A swizzled buffer has elements of one place of the lanes of a wave next to each other.
    uint64_t place(int generation, uint32_t index, uint64_t offset, int lane) const {
        if (!is_swizzled(generation)) return offset + uint64_t(index) * stride;
        const uint32_t lanes = 8u << (last_word >> 21 & 3);
        const uint32_t element = generation <= kGcn4 ? 2u << (last_word >> 19 & 3) : 4; // bytes
        const uint64_t row = uint64_t(index) + uint32_t(lane);
        return (row / lanes * stride + offset / element * element) * lanes + row % lanes * element + offset % element;
    }

    // Since RDNA the descriptor says how bounds are checked.
    bool contains(int generation, uint32_t index, uint64_t offset, uint32_t bytes) const {
        if (generation < kRdna1) return stride == 0 ? offset + bytes <= records : index < records;
        switch (last_word >> 28 & 3) {
        case 3:
            return offset + bytes <= records;
        case 2:
            return records != 0;
        case 1:
            return index < records;
        default:
            return index < records && (!stride || offset + bytes <= stride);
        }
    }
};

} // namespace execute
