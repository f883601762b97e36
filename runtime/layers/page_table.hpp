#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace vkattn {

// Which pages of a pool hold the tokens of which sequence, as the host counts it. Sequences may hold the same page, which
// none of them then writes.
class PageTable {
  public:
    PageTable() = default; // without pages
    PageTable(uint32_t sequences, uint32_t page_len, uint32_t page_count);

    uint32_t free_pages() const { return static_cast<uint32_t>(free_.size()); }
    std::span<const uint32_t> pages(uint32_t sequence) const { return pages_[sequence]; }

    // Gives the sequence pages until they hold so many tokens. Fails where no page is free; the table is then of no use.
    void grow(uint32_t sequence, uint32_t tokens);
    // Gives back the pages that so many tokens do not need.
    void shrink(uint32_t sequence, uint32_t tokens);
    // Makes `to`, which has no pages, hold those of the first tokens of `from`.
    void share(uint32_t from, uint32_t to, uint32_t tokens);

    // Whether tokens first .. end - 1 of the sequence have pages that no other holds.
    bool is_ready(uint32_t sequence, uint32_t first, uint32_t end) const;
    struct Copy {
        uint32_t from, to; // pages
    };
    // Makes it so; all tokens before are held. Where others hold the first one's page too, another takes its place, into
    // which it must be copied. Fails as grow does.
    std::optional<Copy> prepare(uint32_t sequence, uint32_t first, uint32_t end);

  private:
    std::optional<Copy> own(uint32_t sequence, uint32_t place);
    uint32_t pages_of(uint32_t tokens) const;
    uint32_t take(uint32_t sequence);
    void give_back(uint32_t page);

    uint32_t page_len_ = 0;
    std::vector<std::vector<uint32_t>> pages_; // of each sequence, in the order of its tokens
    std::vector<uint32_t> holders_;            // of each page: how many sequences
    std::vector<uint32_t> free_;               // the last is given next
};

} // namespace vkattn
