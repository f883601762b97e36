#include "runtime/layers/page_table.hpp"

#include "runtime/support/error.hpp"
#include "runtime/support/rounding.hpp"

#include <numeric>

namespace vkattn {

PageTable::PageTable(uint32_t sequences, uint32_t page_len, uint32_t page_count)
    : page_len_(page_len), pages_(sequences), holders_(page_count), free_(page_count) {
    std::iota(free_.rbegin(), free_.rend(), 0); // page 0 is given first
}

uint32_t PageTable::pages_of(uint32_t tokens) const { return divide_up(tokens, page_len_); }

uint32_t PageTable::take(uint32_t sequence) {
    require_room(!free_.empty(), "cache: sequence ", sequence, " needs one more page, and none of its ",
                 holders_.size(), " is free, expected fewer tokens or a larger page_count");
    const uint32_t page = free_.back();
    free_.pop_back();
    holders_[page] = 1;
    return page;
}

void PageTable::give_back(uint32_t page) {
    if (--holders_[page] == 0) free_.push_back(page);
}

void PageTable::grow(uint32_t sequence, uint32_t tokens) {
    while (pages_[sequence].size() < pages_of(tokens)) pages_[sequence].push_back(take(sequence));
}

void PageTable::shrink(uint32_t sequence, uint32_t tokens) {
    while (pages_[sequence].size() > pages_of(tokens)) {
        give_back(pages_[sequence].back());
        pages_[sequence].pop_back();
    }
}

void PageTable::share(uint32_t from, uint32_t to, uint32_t tokens) {
    const auto first = pages_[from].begin();
    pages_[to].assign(first, first + pages_of(tokens));
    for (const uint32_t page : pages_[to]) ++holders_[page];
}

bool PageTable::is_ready(uint32_t sequence, uint32_t first, uint32_t end) const {
    if (first == end) return true;
    const std::vector<uint32_t> &pages = pages_[sequence];
    return pages.size() >= pages_of(end) && holders_[pages[first / page_len_]] == 1;
}

std::optional<PageTable::Copy> PageTable::prepare(uint32_t sequence, uint32_t first, uint32_t end) {
    if (is_ready(sequence, first, end)) return std::nullopt;
    const uint32_t place = first / page_len_;
    const std::optional<Copy> copy = place < pages_[sequence].size() ? own(sequence, place) : std::nullopt;
    grow(sequence, end);
    return copy;
}

std::optional<PageTable::Copy> PageTable::own(uint32_t sequence, uint32_t place) {
    uint32_t &page = pages_[sequence][place];
    if (holders_[page] == 1) return std::nullopt;
    const Copy copy{page, take(sequence)};
    give_back(copy.from);
    page = copy.to;
    return copy;
}

} // namespace vkattn
