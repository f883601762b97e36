#include "memory_races.hpp"

#include "findings.hpp"
#include "memory_map.hpp"
#include "settings.hpp"
#include "wave.hpp"

#include <memory>
#include <unordered_map>

namespace execute {
namespace {

constexpr uint64_t kPageWords = 1024;

struct Access {
    uint32_t dispatch = 0, workgroup = 0, epoch = 0;
    uint16_t wave = 0;
};
struct Word {
    Access write, read;
    bool has_many_readers = false;
};
using Page = Word[kPageWords];

std::unordered_map<uint64_t, std::unique_ptr<Page>> pages;
uint64_t last_number = ~0ull;
Page *last_page = nullptr;
uint32_t dispatch = 0;
DispatchOrder order;

Word &word_at(uint64_t index) {
    const uint64_t number = index / kPageWords;
    if (number != last_number) {
        auto &page = pages[number];
        if (!page) page.reset(reinterpret_cast<Page *>(new Page{}));
        last_number = number, last_page = page.get();
    }
    return (*last_page)[index % kPageWords];
}

void note_need(const Access &access) {
    order.is_needed |= access.dispatch > order.previous && access.dispatch <= order.done;
}

// Whether an earlier access is ordered before one of this wave, in its dispatch by program order or a barrier.
bool is_ordered(const Access &access, const Wave &wave) {
    if (access.dispatch <= order.done) return true;
    if (access.dispatch != dispatch || access.workgroup != wave.workgroup->number) return false;
    return access.wave == wave.id || access.epoch < wave.workgroup->epoch;
}

Access access_of(const Wave &wave) {
    return {dispatch, wave.workgroup->number, wave.workgroup->epoch, uint16_t(wave.id)};
}

void touch_word(const Wave &wave, const Instruction &instruction, uint64_t index, bool is_write) {
    Word &word = word_at(index);
    note_need(word.write);
    if (is_write) note_need(word.read);
    if (!is_ordered(word.write, wave))
        find(wave, instruction,
             is_write ? "memory race: written twice, unordered, at" : "memory race: read, unordered after a write, at",
             index * 4, word.write.dispatch == dispatch ? "in a dispatch" : "between dispatches without a barrier");
    if (is_write) {
        const bool is_own = !word.has_many_readers && is_ordered(word.read, wave);
        if (!is_own && word.read.dispatch > order.done)
            find(wave, instruction, "memory race: written, unordered after a read, at", index * 4,
                 word.read.dispatch == dispatch ? "in a dispatch" : "between dispatches without a barrier");
        word.write = access_of(wave);
        return;
    }
    const Access access = access_of(wave);
    const bool is_same = word.read.workgroup == access.workgroup && word.read.wave == access.wave;
    word.has_many_readers = word.read.dispatch == dispatch && (word.has_many_readers || !is_same);
    word.read = access;
}

} // namespace

void begin_dispatch_for_races() { dispatch++; }
void note_barrier_between_dispatches() { order = {dispatch, order.done, false}; }
DispatchOrder &dispatch_order() { return order; }

void touch_by_copy(uint64_t address, uint64_t bytes) {
    address = MemoryMap::canonical(address);
    for (uint64_t index = address / 4; settings().memory && index < (address + bytes + 3) / 4; index++) {
        note_need(word_at(index).write);
        note_need(word_at(index).read);
    }
}

void touch_memory(const Wave &wave, const Instruction &instruction, uint64_t address, uint32_t bytes, bool is_write) {
    if (!settings().memory || bytes < 4) return; // smaller accesses of neighbours share a word
    address = MemoryMap::canonical(address);
    for (uint64_t index = address / 4; index < (address + bytes + 3) / 4; index++)
        touch_word(wave, instruction, index, is_write);
}

void forget_races(uint64_t address, uint64_t bytes) {
    address = MemoryMap::canonical(address);
    for (uint64_t number = address / 4 / kPageWords; number <= (address + bytes) / 4 / kPageWords; number++)
        pages.erase(number);
    last_number = ~0ull;
}

} // namespace execute
