#include "memory_journal.hpp"

#include <cstring>

namespace execute {
namespace {

uint32_t word_at(const uint8_t *host) {
    uint32_t value;
    memcpy(&value, host, sizeof value);
    return value;
}

} // namespace

MemoryJournal &journal() {
    static MemoryJournal result;
    return result;
}

void MemoryJournal::add(uint8_t *host, uint32_t bytes) {
    uint8_t *word = host - reinterpret_cast<uintptr_t>(host) % 4;
    for (; word < host + bytes; word += 4) writes_.push_back({word, word_at(word)});
}

MemoryJournal::Words MemoryJournal::before() const {
    Words result;
    for (const Write &write : writes_) result.emplace(write.word, write.value); // the first write of a word stays
    return result;
}

MemoryJournal::Words MemoryJournal::now() const {
    Words result;
    for (const Write &write : writes_) result[write.word] = word_at(write.word);
    return result;
}

void put_words(const MemoryJournal::Words &words) {
    for (const auto &[word, value] : words) memcpy(word, &value, sizeof value);
}

} // namespace execute
