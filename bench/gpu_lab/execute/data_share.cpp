// DS: the workgroup's shared memory, and moves between lanes by its crossbar.
#include "atomics.hpp"
#include "findings.hpp"
#include "instruction_table.hpp"
#include "operands.hpp"
#include "settings.hpp"

#include <algorithm>
#include <optional>

namespace execute {
namespace {

// The workgroup's shared memory, as an instruction of a wave sees it.
class SharedMemory {
  public:
    SharedMemory(Wave &wave, const Instruction &instruction)
        : wave_(wave), instruction_(instruction), data_(wave.workgroup->lds.data()), bytes_(wave.workgroup->lds.size()),
          words_(wave.workgroup->lds_words.data()), epoch_(wave.workgroup->epoch), reader_(1u << wave.id),
          checks_(settings().lds) {}

    const uint8_t *to_read(uint32_t address, uint32_t bytes) const {
        if (!contains(address, bytes)) return nullptr;
        if (checks_)
            for (uint32_t index = address / 4; index < (address + bytes + 3) / 4; index++) check_read(index);
        return data_ + address;
    }
    uint8_t *to_write(uint32_t address, uint32_t bytes) const {
        if (!contains(address, bytes)) return nullptr;
        if (checks_)
            for (uint32_t index = address / 4; index < (address + bytes + 3) / 4; index++) check_write(index);
        return data_ + address;
    }
    uint8_t *to_change(uint32_t address) const { // by an atomic operation, which may meet others
        if (!contains(address, 4)) return nullptr;
        if (checks_ && !words_[address / 4].is_written) find_at(kUnwritten, address);
        if (checks_) check_write(address / 4, true);
        return data_ + address;
    }

  private:
    static constexpr const char *kUnwritten = "LDS is read where nobody wrote, byte";

    void find_at(const char *what, uint32_t address) const { find(wave_, instruction_, what, address); }
    bool contains(uint32_t address, uint32_t bytes) const { // the workgroup's allocation
        if (uint64_t(address) + bytes > bytes_) {
            find_at("an access beyond the workgroup's LDS, byte", address);
            return false;
        }
        if (address % std::min(bytes, 4u)) find_at("LDS is misaligned, byte", address);
        return true;
    }
    bool is_of_another(const LdsWord &word) const { return word.write_epoch == epoch_ && word.writer != wave_.id; }
    // Of an earlier epoch, but its wave had not waited for it when it came to the barrier between.
    bool is_late(uint32_t epoch, uint16_t other, uint32_t number) const {
        return epoch && epoch != epoch_ && other != wave_.id && settings().waits &&
               number >= wave_.workgroup->waves[other]->shared_done_at_barrier;
    }
    void check_late_write(const LdsWord &word, uint32_t index) const {
        if (is_late(word.write_epoch, word.writer, word.write_number))
            find_at("LDS race: written by another wave that did not wait for it before the barrier, byte", index * 4);
    }
    void check_read(uint32_t index) const {
        LdsWord &word = words_[index];
        if (is_of_another(word))
            find_at("LDS race: read, written by another wave with no barrier between, byte", index * 4);
        check_late_write(word, index);
        if (!word.is_written) find_at(kUnwritten, index * 4);
        word.readers = word.read_epoch == epoch_ ? word.readers | reader_ : reader_;
        word.read_epoch = epoch_;
        word.read_number = wave_.shared_accesses;
        word.last_reader = uint16_t(wave_.id);
    }
    void check_write(uint32_t index, bool is_atomic = false) const {
        LdsWord &word = words_[index];
        check_late_write(word, index);
        if (is_late(word.read_epoch, word.last_reader, word.read_number))
            find_at("LDS race: read by another wave that did not wait for it before the barrier, byte", index * 4);
        if (is_of_another(word) && !(is_atomic && word.is_atomic))
            find_at("LDS race: written by two waves with no barrier between, byte", index * 4);
        if (word.read_epoch == epoch_ && (word.readers & ~reader_))
            find_at("LDS race: read by another wave with no barrier before this write, byte", index * 4);
        word.write_epoch = epoch_;
        word.writer = uint16_t(wave_.id);
        word.is_written = true;
        word.is_atomic = is_atomic;
        word.write_number = wave_.shared_accesses;
    }

    const Wave &wave_;
    const Instruction &instruction_;
    uint8_t *const data_;
    const size_t bytes_;
    LdsWord *const words_;
    const uint32_t epoch_, reader_;
    const bool checks_;
};

constexpr uint8_t kZeros[4] = {}; // what is read beyond

void note_load(Wave &wave, const Instruction &instruction, int registers) {
    wave.add_pending(Counter::shared, instruction, registers ? &instruction.operands[0] : nullptr, registers);
}

template <int words>
void load(Wave &wave, const Instruction &instruction) {
    const SharedMemory shared(wave, instruction);
    const uint32_t *addresses = wave.vectors[instruction.operands[1].index];
    uint32_t(*destination)[kMostLanes] = wave.vectors + instruction.operands[0].index;
    std::optional<uint32_t> last; // neighbouring lanes often read the same
    uint32_t values[words] = {};
    for_each_lane(wave, [&](int lane) {
        const uint32_t address = addresses[lane] + instruction.offset;
        if (address != last) {
            const uint8_t *host = shared.to_read(address, words * 4);
            for (int k = 0; k < words; k++) memcpy(values + k, host ? host + 4 * k : kZeros, 4);
            last = address;
        }
        for (int k = 0; k < words; k++) destination[k][lane] = values[k];
    });
    note_load(wave, instruction, words);
}

template <int words>
void store(Wave &wave, const Instruction &instruction) {
    const SharedMemory shared(wave, instruction);
    const int data = instruction.operands[1].index;
    for_each_lane(wave, [&](int lane) {
        const uint32_t address = wave.vectors[instruction.operands[0].index][lane] + instruction.offset;
        uint8_t *host = shared.to_write(address, words * 4);
        for (int k = 0; host && k < words; k++) memcpy(host + 4 * k, &wave.vectors[data + k][lane], 4);
    });
    note_load(wave, instruction, 0);
}

template <int words, uint32_t scale>
void load_two(Wave &wave, const Instruction &instruction) {
    const SharedMemory shared(wave, instruction);
    const int destination = instruction.operands[0].index;
    for_each_lane(wave, [&](int lane) {
        const uint32_t address = wave.vectors[instruction.operands[1].index][lane];
        uint32_t values[2 * words] = {};
        for (int half = 0; half < 2; half++)
            if (const uint8_t *host = shared.to_read(address + instruction.offsets[half] * scale, words * 4))
                memcpy(values + half * words, host, words * 4);
        for (int k = 0; k < 2 * words; k++) wave.vectors[destination + k][lane] = values[k];
    });
    note_load(wave, instruction, 2 * words);
}

template <int words, uint32_t scale>
void store_two(Wave &wave, const Instruction &instruction) {
    const SharedMemory shared(wave, instruction);
    for_each_lane(wave, [&](int lane) {
        for (int half = 0; half < 2; half++) {
            const int data = instruction.operands[size_t(1 + half)].index;
            const uint32_t address =
                wave.vectors[instruction.operands[0].index][lane] + instruction.offsets[half] * scale;
            uint8_t *host = shared.to_write(address, words * 4);
            for (int k = 0; host && k < words; k++) memcpy(host + 4 * k, &wave.vectors[data + k][lane], 4);
        }
    });
    note_load(wave, instruction, 0);
}

template <class Small, Half half>
void load_small(Wave &wave, const Instruction &instruction) {
    const SharedMemory shared(wave, instruction);
    const Operand &destination = instruction.operands[0];
    for_each_lane(wave, [&](int lane) {
        const uint32_t address = wave.vectors[instruction.operands[1].index][lane] + instruction.offset;
        Small value = 0;
        if (const uint8_t *host = shared.to_read(address, sizeof value)) memcpy(&value, host, sizeof value);
        put_small(wave.vectors[destination.index][lane], uint32_t(value), destination, half);
    });
    note_load(wave, instruction, 1);
}

template <class Small, bool upper>
void store_small(Wave &wave, const Instruction &instruction) {
    const SharedMemory shared(wave, instruction);
    const Operand &data = instruction.operands[1];
    for_each_lane(wave, [&](int lane) {
        const uint32_t address = wave.vectors[instruction.operands[0].index][lane] + instruction.offset;
        const bool takes_upper = upper || (data.is_half && data.is_high);
        const auto value = Small(wave.vectors[data.index][lane] >> (takes_upper ? 16 : 0));
        if (uint8_t *host = shared.to_write(address, sizeof value)) memcpy(host, &value, sizeof value);
    });
    note_load(wave, instruction, 0);
}

template <auto operation, bool returns>
void atomic(Wave &wave, const Instruction &instruction) {
    const SharedMemory shared(wave, instruction);
    const size_t first = returns ? 1 : 0;
    for_each_lane(wave, [&](int lane) {
        const uint32_t address = wave.vectors[instruction.operands[first].index][lane] + instruction.offset;
        uint8_t *host = shared.to_change(address);
        if (!host) return;
        uint32_t old;
        memcpy(&old, host, 4);
        const uint32_t value = operation(old, wave.vectors[instruction.operands[first + 1].index][lane]);
        memcpy(host, &value, 4);
        if (returns) wave.vectors[instruction.operands[0].index][lane] = old;
    });
    note_load(wave, instruction, returns);
}

// A lane among all 64 of GCN, among the 32 of its half since RDNA.
int crossbar_lane(const Wave &wave, uint32_t address, int lane) {
    const int to = int(address / 4);
    return wave.lanes == 64 && wave.generation < kRdna1 ? to & 63 : (to & 31) | (lane & 32);
}

void permute_backward(Wave &wave, const Instruction &instruction) {
    const uint64_t exec = wave.exec();
    Lanes result;
    for_each_lane(wave, [&](int lane) {
        const int from =
            crossbar_lane(wave, wave.vectors[instruction.operands[1].index][lane] + instruction.offset, lane);
        result[lane] = exec >> from & 1 ? wave.vectors[instruction.operands[2].index][from] : 0;
    });
    for_each_lane(wave, [&](int lane) { wave.vectors[instruction.operands[0].index][lane] = result[lane]; });
    note_load(wave, instruction, 1);
}

void permute_forward(Wave &wave, const Instruction &instruction) {
    Lanes result = {};
    for_each_lane(wave, [&](int lane) {
        const int to =
            crossbar_lane(wave, wave.vectors[instruction.operands[1].index][lane] + instruction.offset, lane);
        result[to] = wave.vectors[instruction.operands[2].index][lane];
    });
    for_each_lane(wave, [&](int lane) { wave.vectors[instruction.operands[0].index][lane] = result[lane]; });
    note_load(wave, instruction, 1);
}

void swizzle(Wave &wave, const Instruction &instruction) {
    const uint32_t offset = instruction.offset;
    const uint64_t exec = wave.exec();
    Lanes result;
    for_each_lane(wave, [&](int lane) {
        const int from =
            offset & 0x8000
                ? (lane & ~3) | int(offset >> (2 * (lane & 3)) & 3)
                : (lane & 32) | int(((uint32_t(lane) & offset & 31) | (offset >> 5 & 31)) ^ (offset >> 10 & 31));
        result[lane] = exec >> from & 1 ? wave.vectors[instruction.operands[1].index][from] : 0;
    });
    for_each_lane(wave, [&](int lane) { wave.vectors[instruction.operands[0].index][lane] = result[lane]; });
    note_load(wave, instruction, 1);
}

#define ATOMIC(name, type, operation)                                                                                  \
    {"ds_" name "_" type, atomic<operation, false>}, { "ds_" name "_rtn_" type, atomic<operation, true> }

constexpr Entry kEntries[] = {
    {"ds_load_b32", load<1>},
    {"ds_load_b64", load<2>},
    {"ds_load_b96", load<3>},
    {"ds_load_b128", load<4>},
    {"ds_store_b32", store<1>},
    {"ds_store_b64", store<2>},
    {"ds_store_b96", store<3>},
    {"ds_store_b128", store<4>},
    {"ds_load_2addr_b32", load_two<1, 4>},
    {"ds_load_2addr_b64", load_two<2, 8>},
    {"ds_load_2addr_stride64_b32", load_two<1, 256>},
    {"ds_load_2addr_stride64_b64", load_two<2, 512>},
    {"ds_store_2addr_b32", store_two<1, 4>},
    {"ds_store_2addr_b64", store_two<2, 8>},
    {"ds_store_2addr_stride64_b32", store_two<1, 256>},
    {"ds_store_2addr_stride64_b64", store_two<2, 512>},
    {"ds_load_u8", load_small<uint8_t, Half::whole>},
    {"ds_load_i8", load_small<int8_t, Half::whole>},
    {"ds_load_u16", load_small<uint16_t, Half::whole>},
    {"ds_load_i16", load_small<int16_t, Half::whole>},
    {"ds_load_u8_d16", load_small<uint8_t, Half::low>},
    {"ds_load_i8_d16", load_small<int8_t, Half::low>},
    {"ds_load_u16_d16", load_small<uint16_t, Half::low>},
    {"ds_load_u8_d16_hi", load_small<uint8_t, Half::high>},
    {"ds_load_i8_d16_hi", load_small<int8_t, Half::high>},
    {"ds_load_u16_d16_hi", load_small<uint16_t, Half::high>},
    {"ds_store_b8", store_small<uint8_t, false>},
    {"ds_store_b16", store_small<uint16_t, false>},
    {"ds_store_b8_d16_hi", store_small<uint8_t, true>},
    {"ds_store_b16_d16_hi", store_small<uint16_t, true>},
    ATOMIC("add", "u32", kAdd),
    ATOMIC("sub", "u32", kSubtract),
    ATOMIC("and", "b32", kAnd),
    ATOMIC("or", "b32", kOr),
    ATOMIC("xor", "b32", kXor),
    ATOMIC("min", "i32", kMinSigned),
    ATOMIC("max", "i32", kMaxSigned),
    ATOMIC("min", "u32", kMinUnsigned),
    ATOMIC("max", "u32", kMaxUnsigned),
    {"ds_bpermute_b32", permute_backward},
    {"ds_permute_b32", permute_forward},
    {"ds_swizzle_b32", swizzle},
};

} // namespace

std::span<const Entry> data_share_instructions() { return kEntries; }

} // namespace execute
