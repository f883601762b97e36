#include "runtime/programs/hazards.hpp"

#include <algorithm>

namespace vkattn {
namespace {

bool conflict(const Access &a, const Access &b) {
    return a.buffer == b.buffer && (a.writes || b.writes) && a.begin < b.end && b.begin < a.end;
}

} // namespace

bool Hazards::conflict(std::span<const Access> accesses) const {
    return std::ranges::any_of(accesses, [&](const Access &next) {
        return std::ranges::any_of(since_, [&](const Access &before) { return vkattn::conflict(before, next); });
    });
}

} // namespace vkattn
