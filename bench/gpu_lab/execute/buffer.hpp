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
