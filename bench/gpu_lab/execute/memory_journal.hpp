// What stores changed, so that a dispatch can be run again from the same memory.
#pragma once
#include <cstdint>
#include <map>
#include <vector>

namespace execute {

class MemoryJournal {
  public:
    using Words = std::map<uint8_t *, uint32_t>; // by address in this process

    void start() { is_on_ = true, writes_.clear(); }
    // Before a store.
    void note(uint8_t *host, uint32_t bytes) {
        if (is_on_) add(host, bytes);
    }
    Words before() const; // what the words that were stored to held at the start
    Words now() const;    // and what they hold
    void stop() { is_on_ = false; }

  private:
    struct Write {
        uint8_t *word;
        uint32_t value;
    };
    void add(uint8_t *host, uint32_t bytes);
    bool is_on_ = false;
    std::vector<Write> writes_; // the oldest first
};

MemoryJournal &journal();

void put_words(const MemoryJournal::Words &words);

} // namespace execute
