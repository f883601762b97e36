#include "runtime/programs/hazards.hpp"

#include <algorithm>
#include <iterator>

namespace vkattn {

bool Hazards::overlaps(const Buffers &buffers, const Access &access) {
    const auto ranges = buffers.find(access.buffer);
    if (ranges == buffers.end()) return false;
    const auto after = ranges->second.lower_bound(access.end); // the first that begins behind the access
    return after != ranges->second.begin() && std::prev(after)->second > access.begin;
}

bool Hazards::conflict(std::span<const Access> accesses) const {
    return std::ranges::any_of(accesses, [&](const Access &next) {
        return overlaps(writes_, next) || (next.writes && overlaps(reads_, next));
    });
}

// Joins the access with the ranges that it touches.
void Hazards::add(std::span<const Access> accesses) {
    for (const Access &access : accesses) {
        Ranges &ranges = (access.writes ? writes_ : reads_)[access.buffer];
        uint64_t begin = access.begin, end = access.end;
        auto next = ranges.upper_bound(end);
        while (next != ranges.begin() && std::prev(next)->second >= begin) {
            const auto before = std::prev(next);
            begin = std::min(begin, before->first);
            end = std::max(end, before->second);
            next = ranges.erase(before);
        }
        ranges.emplace(begin, end);
    }
}

} // namespace vkattn
