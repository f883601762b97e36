#include "memory_races.hpp"

#include "findings.hpp"
#include "memory_map.hpp"
#include "settings.hpp"
#include "wave.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <unordered_map>

namespace execute {
namespace {

constexpr uint64_t kPageWords = 1024;

// Workgroups are numbered in the program's life. Of readers the last is kept, and whether there were others: workgroups, or
// waves of its own in its epoch.
struct Access {
    uint32_t workgroup = 0; // 0: none
    uint32_t epoch : 22 = 0, wave : 8 = 0, is_of_groups : 1 = 0, is_of_waves : 1 = 0;
};
struct Word {
    Access write, read;
};
using Page = Word[kPageWords];

std::unordered_map<uint64_t, std::unique_ptr<Page>> pages;
uint64_t last_number = ~0ull;
Page *last_page = nullptr;
uint32_t first_workgroup = 1, last_workgroup = 0; // of the dispatch
DispatchOrder order;

Page &page_at(uint64_t number) {
    if (number != last_number) {
        auto &page = pages[number];
        if (!page) page.reset(reinterpret_cast<Page *>(new Page{}));
        last_number = number, last_page = page.get();
    }
    return *last_page;
}

void note_need(const Access &access) {
    order.is_needed |= access.workgroup > order.previous && access.workgroup <= order.done;
}

// Whether an earlier access is ordered before one of this wave, in its dispatch by program order or a barrier.
bool is_ordered(const Access &access, const Wave &wave) {
    if (access.workgroup <= order.done) return true;
    if (access.workgroup != wave.workgroup->number) return false;
    return access.wave == uint32_t(wave.id) || access.epoch < wave.workgroup->epoch;
}

Access access_of(const Wave &wave) {
    return {wave.workgroup->number, wave.workgroup->epoch & 0x3fffff, uint8_t(wave.id)};
}

bool is_of(const Access &access, const Wave &wave) {
    return access.workgroup == wave.workgroup->number && access.epoch == wave.workgroup->epoch &&
           access.wave == uint32_t(wave.id);
}

const char *place_of(const Access &access) {
    return access.workgroup >= first_workgroup ? "in a dispatch" : "between dispatches without a barrier";
}

void find_race(const Wave &wave, const Instruction &instruction, const char *what, uint64_t index,
               const Access &access) {
    find(wave, instruction, what, index * 4, place_of(access));
}

// Two that write the same are no race: those of a driver's own copies overlap at the end.
void write_word(const Wave &wave, const Instruction &instruction, Word &word, uint64_t index, bool changes) {
    note_need(word.write);
    note_need(word.read);
    if (changes && !is_ordered(word.write, wave))
        find_race(wave, instruction, "memory race: written twice, unordered, at", index, word.write);
    const Access &read = word.read;
    const bool has_others = read.is_of_groups || (read.is_of_waves && read.epoch == wave.workgroup->epoch);
    if (!is_ordered(read, wave) || (has_others && read.workgroup > order.done))
        find_race(wave, instruction, "memory race: written, unordered after a read, at", index, read);
    word.write = access_of(wave);
}

void read_word(const Wave &wave, const Instruction &instruction, Word &word, uint64_t index) {
    note_need(word.write);
    if (!is_ordered(word.write, wave))
        find_race(wave, instruction, "memory race: read, unordered after a write, at", index, word.write);
    Access &read = word.read;
    if (is_of(read, wave)) return;
    Access now = access_of(wave);
    if (read.workgroup > order.done) {
        const bool is_own_group = read.workgroup == now.workgroup;
        now.is_of_groups = read.is_of_groups || !is_own_group;
        now.is_of_waves = is_own_group && read.epoch == now.epoch;
    }
    read = now;
}

} // namespace

void begin_dispatch_for_races() { first_workgroup = last_workgroup + 1; }
uint32_t number_of_next_workgroup() { return ++last_workgroup; }
void note_barrier_between_dispatches() { order = {last_workgroup, order.done, false}; }
DispatchOrder &dispatch_order() { return order; }

void touch_by_copy(uint64_t address, uint64_t bytes) {
    address = MemoryMap::canonical(address);
    for (uint64_t index = address / 4; settings().memory && index < (address + bytes + 3) / 4; index++) {
        const Word &word = page_at(index / kPageWords)[index % kPageWords];
        note_need(word.write);
        note_need(word.read);
    }
}

void touch_memory(const Wave &wave, const Instruction &instruction, uint64_t address, uint32_t bytes, Store store) {
    if (bytes < 4 || !settings().memory) return; // smaller accesses of neighbours share a word
    address = MemoryMap::canonical(address);
    const auto *written = static_cast<const uint8_t *>(store.written);
    for (uint64_t index = address / 4; index < (address + bytes + 3) / 4; index++) {
        Word &word = page_at(index / kPageWords)[index % kPageWords];
        if (!written) {
            read_word(wave, instruction, word, index);
            continue;
        }
        const uint64_t at = (index - address / 4) * 4, size = std::min<uint64_t>(4, bytes - at);
        write_word(wave, instruction, word, index, memcmp(store.host + at, written + at, size) != 0);
    }
}

void forget_races(uint64_t address, uint64_t bytes) {
    address = MemoryMap::canonical(address);
    for (uint64_t number = address / 4 / kPageWords; number <= (address + bytes) / 4 / kPageWords; number++)
        pages.erase(number);
    last_number = ~0ull;
}

} // namespace execute
