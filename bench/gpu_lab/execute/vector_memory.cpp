// MUBUF, GLOBAL, FLAT and SCRATCH: an address a lane.
#include "atomics.hpp"
#include "buffer.hpp"
#include "findings.hpp"
#include "instruction_table.hpp"
#include "memory_journal.hpp"
#include "memory_map.hpp"
#include "memory_races.hpp"
#include "operands.hpp"
#include "settings.hpp"

namespace execute {
namespace {

const Operand *operand_at(const Instruction &instruction, uint8_t index) {
    return index == Instruction::kNoOperand ? nullptr : &instruction.operands[index];
}

// written: the bytes that are stored; null of a load.
uint8_t *mapped(const Wave &wave, const Instruction &instruction, uint64_t address, uint32_t bytes,
                const void *written) {
    uint8_t *host = memory().at(address, bytes);
    const bool is_atomic = instruction.kind == Kind::atomic; // which may meet in a dispatch
    if (host && !is_atomic) touch_memory(wave, instruction, address, bytes, {host, written});
    if (!host) find(wave, instruction, "an access to an address that is not mapped,", address);
    if (host && (written || is_atomic)) journal().note(host, bytes);
    return host;
}

// Each finds the host's address of a lane's bytes from byte `first` of its access on; null if there are none.
struct BufferSpace {
    static constexpr uint32_t kPiece = 4; // bounds are checked by words, where not all are inside
    BufferSpace(const Wave &wave, const Instruction &instruction)
        : buffer(wave, instruction.operands[instruction.memory_base].index),
          base(buffer.base + read_scalar(wave, instruction.operands[size_t(instruction.memory_base) + 1])) {}

    uint32_t index(const Wave &wave, const Instruction &instruction, int lane) const {
        const int first = instruction.operands[instruction.memory_address].index;
        return instruction.has_index_register ? wave.vectors[first][lane] : 0;
    }
    uint32_t offset(const Wave &wave, const Instruction &instruction, int lane) const {
        const int first = instruction.operands[instruction.memory_address].index;
        if (!instruction.has_offset_register) return instruction.offset;
        return instruction.offset + wave.vectors[first + instruction.has_index_register][lane];
    }
    bool has_all(const Wave &wave, const Instruction &instruction, int lane, uint32_t bytes) const {
        const uint32_t at = offset(wave, instruction, lane);
        return !buffer.is_swizzled(wave.generation) && at + bytes > at &&
               buffer.contains(wave.generation, index(wave, instruction, lane), at, bytes);
    }
    uint8_t *at(Wave &wave, const Instruction &instruction, int lane, uint32_t first, uint32_t bytes,
                const void *written) const {
        const uint32_t row = index(wave, instruction, lane), byte = offset(wave, instruction, lane) + first;
        if (buffer.contains(wave.generation, row, byte, bytes)) {
            const uint64_t place = base + buffer.place(wave.generation, row, byte, lane);
            if (buffer.is_swizzled(wave.generation)) return memory().at(place, bytes); // a wave's own
            return mapped(wave, instruction, place, bytes, written);
        }
        // a wider access may have words beyond the end, which the compiler fused; the first is what the shader asks for
        if (settings().bounds && first == 0)
            find(wave, instruction,
                 written ? "a store beyond its buffer's end, at byte" : "a load beyond its buffer's end, at byte",
                 byte);
        return nullptr;
    }

    const BufferDescriptor buffer;
    const uint64_t base;
};

struct GlobalSpace {
    static constexpr uint32_t kPiece = 16;
    GlobalSpace(const Wave &, const Instruction &) {}
    static bool has_all(const Wave &, const Instruction &, int, uint32_t) { return true; }
    static uint8_t *at(Wave &wave, const Instruction &instruction, int lane, uint32_t first, uint32_t bytes,
                       const void *written) {
        const Operand &address = instruction.operands[instruction.memory_address];
        const Operand *base = operand_at(instruction, instruction.memory_base);
        uint64_t at = uint64_t(int64_t(as_signed(instruction.offset))) + first;
        if (base && base->is_register())
            at += read_scalar_pair(wave, *base) +
                  (address.source == Source::vector ? wave.vectors[address.index][lane] : 0);
        else
            at += uint64_t(wave.vectors[address.index + 1][lane]) << 32 | wave.vectors[address.index][lane];
        return mapped(wave, instruction, at, bytes, written);
    }
};

struct ScratchSpace {
    static constexpr uint32_t kPiece = 16;
    ScratchSpace(const Wave &, const Instruction &) {}
    static bool has_all(const Wave &, const Instruction &, int, uint32_t) { return true; }
    static uint8_t *at(Wave &wave, const Instruction &instruction, int lane, uint32_t first, uint32_t bytes,
                       const void *) {
        uint32_t offset = instruction.offset + first;
        for (const uint8_t k : {instruction.memory_address, instruction.memory_base}) {
            const Operand *operand = operand_at(instruction, k);
            if (operand && operand->source == Source::vector) offset += wave.vectors[operand->index][lane];
            if (operand && operand->is_register()) offset += read_scalar(wave, *operand);
        }
        if (uint64_t(offset) + bytes <= wave.scratch_bytes)
            return wave.scratch + size_t(lane) * wave.scratch_bytes + offset;
        find(wave, instruction, "an access beyond scratch, byte", offset);
        return nullptr;
    }
};

void note_load(Wave &wave, const Instruction &instruction, int registers) {
    if (instruction.returns || registers || wave.generation < kRdna1)
        wave.add_pending(Counter::loads, instruction,
                         registers ? operand_at(instruction, instruction.memory_result) : nullptr, registers);
    else
        wave.add_pending(Counter::stores, instruction, nullptr, 0);
}

template <class Space, int words>
void load(Wave &wave, const Instruction &instruction) {
    constexpr uint32_t bytes = words * 4;
    const Space space(wave, instruction);
    const int destination = instruction.operands[instruction.memory_result].index;
    for_each_lane(wave, [&](int lane) {
        uint32_t values[words] = {};
        const uint32_t piece = space.has_all(wave, instruction, lane, bytes) ? bytes : std::min(Space::kPiece, bytes);
        for (uint32_t first = 0; first < bytes; first += piece)
            if (const uint8_t *host = space.at(wave, instruction, lane, first, piece, nullptr))
                memcpy(values + first / 4, host, piece);
        for (int k = 0; k < words; k++) wave.vectors[destination + k][lane] = values[k];
    });
    note_load(wave, instruction, words);
}

template <class Space, int words>
void store(Wave &wave, const Instruction &instruction) {
    constexpr uint32_t bytes = words * 4;
    const Space space(wave, instruction);
    const int data = instruction.operands[instruction.memory_data].index;
    for_each_lane(wave, [&](int lane) {
        const uint32_t piece = space.has_all(wave, instruction, lane, bytes) ? bytes : std::min(Space::kPiece, bytes);
        uint32_t values[words];
        for (int k = 0; k < words; k++) values[k] = wave.vectors[data + k][lane];
        for (uint32_t first = 0; first < bytes; first += piece)
            if (uint8_t *host = space.at(wave, instruction, lane, first, piece, values + first / 4))
                memcpy(host, values + first / 4, piece);
    });
    note_load(wave, instruction, 0);
}

template <class Space, class Small, Half half>
void load_small(Wave &wave, const Instruction &instruction) {
    const Space space(wave, instruction);
    const Operand &destination = instruction.operands[instruction.memory_result];
    for_each_lane(wave, [&](int lane) {
        Small value = 0;
        if (const uint8_t *host = space.at(wave, instruction, lane, 0, sizeof value, nullptr))
            memcpy(&value, host, sizeof value);
        put_small(wave.vectors[destination.index][lane], uint32_t(value), destination, half);
    });
    note_load(wave, instruction, 1);
}

template <class Space, class Small, bool upper>
void store_small(Wave &wave, const Instruction &instruction) {
    const Space space(wave, instruction);
    const Operand &data = instruction.operands[instruction.memory_data];
    const bool takes_upper = upper || (data.is_half && data.is_high);
    for_each_lane(wave, [&](int lane) {
        const auto value = Small(wave.vectors[data.index][lane] >> (takes_upper ? 16 : 0));
        if (uint8_t *host = space.at(wave, instruction, lane, 0, sizeof value, &value))
            memcpy(host, &value, sizeof value);
    });
    note_load(wave, instruction, 0);
}

template <class Space, auto operation>
void atomic(Wave &wave, const Instruction &instruction) {
    const Space space(wave, instruction);
    const int data = instruction.operands[instruction.memory_data].index;
    for_each_lane(wave, [&](int lane) {
        uint32_t old = 0;
        if (uint8_t *host = space.at(wave, instruction, lane, 0, 4, &wave.vectors[data][lane])) {
            memcpy(&old, host, 4);
            uint32_t value;
            if constexpr (std::is_null_pointer_v<decltype(operation)>) // compare and swap
                value = old == wave.vectors[data + 1][lane] ? wave.vectors[data][lane] : old;
            else
                value = operation(old, wave.vectors[data][lane]);
            memcpy(host, &value, 4);
        }
        if (instruction.returns) wave.vectors[instruction.operands[instruction.memory_result].index][lane] = old;
    });
    note_load(wave, instruction, instruction.returns ? 1 : 0);
}

#define ACCESSES(prefix, space)                                                                                        \
    {prefix "load_b32", load<space, 1>}, {prefix "load_b64", load<space, 2>}, {prefix "load_b96", load<space, 3>},     \
        {prefix "load_b128", load<space, 4>}, {prefix "store_b32", store<space, 1>},                                   \
        {prefix "store_b64", store<space, 2>}, {prefix "store_b96", store<space, 3>},                                  \
        {prefix "store_b128", store<space, 4>}, {prefix "load_u8", load_small<space, uint8_t, Half::whole>},           \
        {prefix "load_i8", load_small<space, int8_t, Half::whole>},                                                    \
        {prefix "load_u16", load_small<space, uint16_t, Half::whole>},                                                 \
        {prefix "load_i16", load_small<space, int16_t, Half::whole>},                                                  \
        {prefix "load_d16_b16", load_small<space, uint16_t, Half::low>},                                               \
        {prefix "load_d16_hi_b16", load_small<space, uint16_t, Half::high>},                                           \
        {prefix "load_d16_u8", load_small<space, uint8_t, Half::low>},                                                 \
        {prefix "load_d16_hi_u8", load_small<space, uint8_t, Half::high>},                                             \
        {prefix "load_d16_i8", load_small<space, int8_t, Half::low>},                                                  \
        {prefix "load_d16_hi_i8", load_small<space, int8_t, Half::high>},                                              \
        {prefix "store_b8", store_small<space, uint8_t, false>},                                                       \
        {prefix "store_b16", store_small<space, uint16_t, false>},                                                     \
        {prefix "store_d16_hi_b8", store_small<space, uint8_t, true>}, {                                               \
        prefix "store_d16_hi_b16", store_small<space, uint16_t, true>                                                  \
    }

#define ATOMICS(prefix, space)                                                                                         \
    {prefix "add_u32", atomic<space, kAdd>}, {prefix "sub_u32", atomic<space, kSubtract>},                             \
        {prefix "and_b32", atomic<space, kAnd>}, {prefix "or_b32", atomic<space, kOr>},                                \
        {prefix "xor_b32", atomic<space, kXor>}, {prefix "swap_b32", atomic<space, kSwap>},                            \
        {prefix "min_i32", atomic<space, kMinSigned>}, {prefix "max_i32", atomic<space, kMaxSigned>},                  \
        {prefix "min_u32", atomic<space, kMinUnsigned>}, {prefix "max_u32", atomic<space, kMaxUnsigned>},              \
        {prefix "add_f32", atomic<space, kAddFloat>}, {                                                                \
        prefix "cmpswap_b32", atomic<space, nullptr>                                                                   \
    }

constexpr Entry kEntries[] = {
    ACCESSES("buffer_", BufferSpace),       ACCESSES("global_", GlobalSpace),
    ACCESSES("flat_", GlobalSpace),         ACCESSES("scratch_", ScratchSpace),
    ATOMICS("buffer_atomic_", BufferSpace), ATOMICS("global_atomic_", GlobalSpace),
    ATOMICS("flat_atomic_", GlobalSpace),
};

} // namespace

std::span<const Entry> vector_memory_instructions() { return kEntries; }

} // namespace execute
