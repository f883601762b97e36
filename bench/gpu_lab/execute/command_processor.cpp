#include "command_processor.hpp"

#include "counters.hpp"
#include "dispatch.hpp"
#include "findings.hpp"
#include "memory_map.hpp"
#include "memory_races.hpp"
#include "removals.hpp"
#include "settings.hpp"
#include "shader_names.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>

namespace execute {
namespace {

// Operations, as AMD's packet headers name them.
enum Operation : uint32_t {
    kNop = 0x10,
    kSetBase = 0x11,
    kClearState = 0x12,
    kDispatchDirect = 0x15,
    kDispatchIndirect = 0x16,
    kCondExec = 0x22,
    kContextControl = 0x28,
    kWriteData = 0x37,
    kWaitRegMem = 0x3C,
    kIndirectBuffer = 0x3F,
    kCopyData = 0x40,
    kPfpSyncMe = 0x42,
    kEventWrite = 0x46,
    kEventWriteEop = 0x47,
    kReleaseMem = 0x49,
    kDmaData = 0x50,
    kAcquireMem = 0x58,
    kRewind = 0x59,
    kSetConfigReg = 0x68,
    kSetContextReg = 0x69,
    kSetShReg = 0x76,
    kSetUconfigReg = 0x79,
    kSetShRegIndex = 0x9B,
    kDispatchDirectInterleaved = 0xA7,
    kSetShRegPairs = 0xBA,
    kSetShRegPairsPacked = 0xBB,
    kSetShRegPairsPackedN = 0xBD,
};
constexpr uint32_t kWithoutEffect[] = {kNop,          kClearState,    kCondExec,      kContextControl,
                                       kWaitRegMem,   kPfpSyncMe,     kAcquireMem,    kRewind,
                                       kSetConfigReg, kSetContextReg, kSetUconfigReg, 0x13,
                                       0x1E,          0x1F,           0x43,           0x9D,
                                       0x9E,          0xB8,           0xB9,           0xBE};

constexpr uint32_t kShaderRegisters = 0xB000; // by byte address
constexpr uint32_t kOneWordNop = 0xffff1000;
constexpr uint32_t kComputePartialFlush = 7;
constexpr uint32_t kToMemory[] = {1, 2, 5};

uint64_t clock_value() { // at 100 MHz
    return uint64_t(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(10));
}

class CommandProcessor {
  public:
    void run(uint64_t address, uint32_t words) {
        for (uint32_t at = 0; at < words;) {
            address_ = address + 4ull * at;
            const uint32_t header = word_at(address_);
            if (header == kOneWordNop || header >> 30 == 2) {
                at++;
                continue;
            }
            if (header >> 30 != 3) stop("a packet has no type 3");
            operation_ = header >> 8 & 0xff;
            count_ = (header >> 16 & 0x3fff) + 1;
            at += 1 + count_;
            if (operation_ == kIndirectBuffer) {
                const bool is_chain = word(2) >> 20 & 1;
                run(pair(0), word(2) & 0xfffff);
                if (is_chain) return;
                continue;
            }
            execute();
        }
    }

  private:
    static uint32_t word_at(uint64_t address) {
        const uint8_t *host = memory().at(address, 4);
        if (!host) stop("commands lie outside of memory");
        uint32_t value;
        memcpy(&value, host, 4);
        return value;
    }
    uint32_t word(uint32_t k) const { return k < count_ ? word_at(address_ + 4ull * (1 + k)) : 0; }
    uint64_t pair(uint32_t k) const { return uint64_t(word(k + 1)) << 32 | word(k); }

    static uint8_t *host_of(uint64_t address, uint64_t bytes, const char *what) {
        uint8_t *host = memory().at(address, bytes);
        if (!host) stop(std::string(what) + " lies outside of memory");
        return host;
    }
    static void store(uint64_t address, uint64_t value, uint32_t bytes) {
        memcpy(host_of(address, bytes, "what a packet writes"), &value, bytes);
    }

    void set_register(uint32_t index, uint32_t value) {
        if (index < std::size(registers_)) registers_[index] = value;
    }
    uint32_t shader_register(uint32_t address) const { return registers_[(address - kShaderRegisters) / 4]; }

    void execute() {
        switch (operation_) {
        case kSetShReg:
        case kSetShRegIndex:
            for (uint32_t k = 1; k < count_; k++) set_register((word(0) & 0xffff) + k - 1, word(k));
            return;
        case kSetShRegPairs:
            for (uint32_t k = 0; k + 1 < count_; k += 2) set_register(word(k) & 0xffff, word(k + 1));
            return;
        case kSetShRegPairsPacked:
        case kSetShRegPairsPackedN:
            for (uint32_t k = 1; k + 2 < count_; k += 3) {
                set_register(word(k) & 0xffff, word(k + 1));
                set_register(word(k) >> 16, word(k + 2));
            }
            return;
        case kDispatchDirect:
        case kDispatchDirectInterleaved:
            dispatch({word(0), word(1), word(2)}, word(3), false);
            return;
        case kDispatchIndirect:
            dispatch_indirect();
            return;
        case kSetBase:
            indirect_base_ = pair(1);
            return;
        case kWriteData:
            write_data();
            return;
        case kCopyData:
            copy_data();
            return;
        case kReleaseMem:
            write_fence(word(1) >> 29 & 7, pair(2), pair(4));
            return;
        case kEventWriteEop:
            write_fence(word(2) >> 29 & 7, uint64_t(word(2) & 0xffff) << 32 | word(1), pair(3));
            return;
        case kDmaData:
            copy_memory();
            return;
        case kEventWrite:
            if ((word(0) & 0x3f) == kComputePartialFlush) {
                if (flushes_++ == settings().remove_flush) return;
                note_flush(flushes_ - 1);
                note_barrier_between_dispatches();
                counters().note_flush();
            }
            return;
        default:
            break;
        }
        if (std::find(std::begin(kWithoutEffect), std::end(kWithoutEffect), operation_) == std::end(kWithoutEffect))
            stop("the packet " + std::to_string(operation_) + " is not known");
    }

    void dispatch(std::array<uint32_t, 3> size, uint32_t initiator, bool is_indirect) {
        Dispatch result;
        const bool is_in_threads = initiator >> 5 & 1, starts_at_zero = initiator >> 2 & 1;
        result.lanes = settings().generation >= 10 && (initiator >> 15 & 1) ? 32 : 64;
        result.code = (uint64_t(shader_register(0xB834) & 0xff) << 32 | shader_register(0xB830)) << 8;
        result.resources[0] = shader_register(0xB848);
        result.resources[1] = shader_register(0xB84C);
        result.resources[2] = shader_register(0xB8A0);
        for (uint32_t k = 0; k < 3; k++) {
            const uint32_t threads = std::max(shader_register(0xB81C + 4 * k) & 0xffff, 1u);
            const uint32_t rest = is_in_threads ? size[k] % threads : 0;
            result.group_size[k] = threads;
            result.groups[k] = is_in_threads ? (size[k] + threads - 1) / threads : size[k];
            result.last_size[k] = rest ? rest : threads;
            result.first_group[k] = starts_at_zero ? 0 : shader_register(0xB810 + 4 * k);
        }
        if (is_indirect || !is_in_threads) result.shader = next_shader(is_indirect ? nullptr : &result.groups);
        result.scratch_ring = shader_register(0xB860);
        for (uint32_t k = 0; k < 16; k++) result.user_data[k] = shader_register(0xB900 + 4 * k);
        execute::run(result);
    }

    // On the compute ring the packet has the address, else an offset to the base that was set.
    void dispatch_indirect() {
        const bool has_address = count_ == 3;
        const uint64_t address = has_address ? pair(0) : indirect_base_ + word(0);
        std::array<uint32_t, 3> size;
        memcpy(size.data(), host_of(address, sizeof size, "an indirect dispatch"), sizeof size);
        dispatch(size, word(has_address ? 2 : 1), true);
    }

    void write_data() {
        const uint32_t target = word(0) >> 8 & 15;
        if (std::find(std::begin(kToMemory), std::end(kToMemory), target) == std::end(kToMemory)) return; // a register
        for (uint32_t k = 3; k < count_; k++) store(pair(1) + 4ull * (k - 3), word(k), 4);
    }

    void copy_data() {
        const uint32_t from = word(0) & 15, to = word(0) >> 8 & 15, bytes = word(0) >> 16 & 1 ? 8 : 4;
        uint64_t value = 0;
        if (from == 1 || from == 2)
            memcpy(&value, host_of(pair(1), bytes, "what a packet copies"), bytes);
        else if (from == 5)
            value = pair(1);
        else if (from == 9)
            value = clock_value();
        if (std::find(std::begin(kToMemory), std::end(kToMemory), to) != std::end(kToMemory))
            store(pair(3), value, bytes);
    }

    static void write_fence(uint32_t select, uint64_t address, uint64_t value) {
        if (select == 0) return;
        store(address, select == 3 ? clock_value() : value, select == 1 ? 4 : 8);
    }

    void copy_memory() {
        const uint32_t from = word(0) >> 29 & 3, to = word(0) >> 20 & 3;
        const uint32_t bytes = word(5) & (settings().generation < 9 ? 0x1fffff : 0x3ffffff);
        if (to == 2 || bytes == 0) return; // only waits
        uint8_t *target = host_of(pair(3), bytes, "what a copy writes");
        touch_by_copy(pair(3), bytes);
        if (from != 2) touch_by_copy(pair(1), bytes);
        const uint32_t value = word(1);
        if (from != 2)
            memmove(target, host_of(pair(1), bytes, "what a copy reads"), bytes);
        else
            for (uint32_t k = 0; k + 4 <= bytes; k += 4) memcpy(target + k, &value, 4);
    }

    uint64_t address_ = 0; // of the packet's header
    uint32_t operation_ = 0, count_ = 0;
    uint64_t indirect_base_ = 0;
    static inline uint32_t registers_[1024];
    static inline int64_t flushes_ = 0;
};

} // namespace

void run_commands(uint64_t address, uint32_t words) { CommandProcessor().run(address, words); }

} // namespace execute
