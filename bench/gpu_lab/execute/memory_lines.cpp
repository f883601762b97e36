#include "memory_lines.hpp"

#include "accesses.hpp"

namespace execute {

RecentLines::RecentLines(uint64_t bytes) : most_(bytes / kLineBytes) {}

uint64_t RecentLines::add(uint64_t line, bool is_written) {
    if (most_ == 0) return 0;
    const auto [found, is_new] = lines_.try_emplace(line);
    if (!is_new) order_.erase(found->second.place);
    order_.push_back(line);
    found->second = {std::prev(order_.end()), is_written || (!is_new && found->second.is_written)};
    if (lines_.size() <= most_) return 0;
    const auto oldest = lines_.find(order_.front());
    const bool was_written = oldest->second.is_written;
    order_.pop_front();
    lines_.erase(oldest);
    return was_written;
}

void RecentLines::clear() {
    order_.clear();
    lines_.clear();
}

MemoryLines::MemoryLines(uint64_t l2_bytes, uint64_t last_level_bytes)
    : l2_(l2_bytes), last_level_(last_level_bytes), has_last_level_(last_level_bytes != 0) {}

void MemoryLines::begin_submission() {
    l2_.clear();
    last_level_.clear();
}

void MemoryLines::begin_dispatch() {
    lines_.clear();
    order_.clear();
    traffic_ = {};
}

Level MemoryLines::touch(uint64_t line, bool is_write) {
    const auto [found, is_new] = lines_.try_emplace(line);
    Line &known = found->second;
    const bool is_known_to_group = known.group == group_;
    known.group = group_;
    known.is_written |= is_write;
    if (is_known_to_group && !is_new) return Level::workgroup;
    traffic_.l2 += kLineBytes;
    if (!is_new) return Level::l2;
    order_.push_back(line);
    if (is_write || l2_.contains(line)) return Level::l2; // what is written whole is not fetched before
    const bool is_near = last_level_.contains(line);
    (is_near ? traffic_.last_level : traffic_.dram) += kLineBytes;
    return is_near ? Level::last_level : Level::dram;
}

// What it wrote was touched after what it only read: results come last.
Traffic MemoryLines::end_dispatch() {
    for (const bool is_written : {false, true})
        for (const uint64_t line : order_) {
            if (lines_.at(line).is_written != is_written) continue;
            uint64_t &below_l2 = has_last_level_ ? traffic_.last_level : traffic_.dram;
            below_l2 += l2_.add(line, is_written) * kLineBytes;
            traffic_.dram += last_level_.add(line, is_written) * kLineBytes;
        }
    return traffic_;
}

} // namespace execute
