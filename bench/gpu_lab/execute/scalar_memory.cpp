// SMEM: loads into scalar registers.
#include "buffer.hpp"
#include "findings.hpp"
#include "instruction_table.hpp"
#include "memory_map.hpp"
#include "memory_races.hpp"
#include "operands.hpp"
#include "settings.hpp"

namespace execute {

int64_t scalar_load_offset(const Wave &wave, const Instruction &instruction) {
    int64_t offset = as_signed(instruction.offset);
    for (size_t k = 2; k < instruction.operand_count; k++)
        offset += as_signed(read_scalar(wave, instruction.operands[k]));
    return offset & ~3ll;
}

namespace {

uint32_t load_word(const Wave &wave, const Instruction &instruction, uint64_t address) {
    const uint8_t *host = memory().at(address, 4);
    if (!host) {
        find(wave, instruction, "a load from an address that is not mapped,", address);
        return 0;
    }
    touch_memory(wave, instruction, address, 4);
    uint32_t value;
    memcpy(&value, host, sizeof value);
    return value;
}

void put(Wave &wave, const Instruction &instruction, const uint32_t *values, int words) {
    const Operand &destination = instruction.operands[0];
    if (destination.index == kNull) return;
    memcpy(&wave.scalars[destination.index], values, size_t(words) * 4);
    wave.add_pending(wave.generation >= kRdna4 ? Counter::scalar : Counter::shared, instruction, &destination, words);
}

template <int words>
void load(Wave &wave, const Instruction &instruction) {
    uint32_t values[words];
    const uint64_t address =
        (read_scalar_pair(wave, instruction.operands[1]) & ~3ull) + uint64_t(scalar_load_offset(wave, instruction));
    for (int k = 0; k < words; k++) values[k] = load_word(wave, instruction, address + 4 * uint64_t(k));
    put(wave, instruction, values, words);
}

template <int words>
void load_buffer(Wave &wave, const Instruction &instruction) {
    const BufferDescriptor buffer(wave, instruction.operands[1].index);
    const uint64_t size = buffer.stride ? uint64_t(buffer.records) * buffer.stride : buffer.records;
    const auto first = uint64_t(scalar_load_offset(wave, instruction));
    uint32_t values[words];
    // a wider load may have words beyond the end, which the compiler fused; the first is what the shader asks for
    if (settings().bounds && first + 4 > size)
        find(wave, instruction, "a scalar load beyond its buffer's end, at byte", first);
    for (int k = 0; k < words; k++) {
        const uint64_t offset = first + 4 * uint64_t(k);
        values[k] = offset + 4 > size ? 0 : load_word(wave, instruction, buffer.base + offset);
    }
    put(wave, instruction, values, words);
}

void read_clock(Wave &wave, const Instruction &instruction) {
    const uint32_t values[2] = {uint32_t(wave.executed), uint32_t(wave.executed >> 32)};
    put(wave, instruction, values, 2);
}

constexpr Entry kEntries[] = {
    {"s_load_b32", load<1>},
    {"s_load_b64", load<2>},
    {"s_load_b96", load<3>},
    {"s_load_b128", load<4>},
    {"s_load_b256", load<8>},
    {"s_load_b512", load<16>},
    {"s_buffer_load_b32", load_buffer<1>},
    {"s_buffer_load_b64", load_buffer<2>},
    {"s_buffer_load_b96", load_buffer<3>},
    {"s_buffer_load_b128", load_buffer<4>},
    {"s_buffer_load_b256", load_buffer<8>},
    {"s_buffer_load_b512", load_buffer<16>},
    {"s_memtime", read_clock},
    {"s_memrealtime", read_clock},
};

} // namespace

std::span<const Entry> scalar_memory_instructions() { return kEntries; }

} // namespace execute
