#include "runtime/problem/stored_types.hpp"

#include "shaders/interface/stored_types.h"

#include <algorithm>
#include <array>

namespace vkattn {
namespace {

// The words of the table.
struct Kind {
    vkattn_type_kind kind;
    bool has_minimum;
    std::span<const int8_t> entries{};
    uint32_t fraction_bits = 0;
};
constexpr int8_t kEntries[] = {IQ4_NL_ENTRIES};
[[maybe_unused]] constexpr Kind FLOAT{VKATTN_TYPE_KIND_FLOAT, false}, INTEGER{VKATTN_TYPE_KIND_INTEGER, false},
    BOOLEAN{VKATTN_TYPE_KIND_BOOL, false}, SCALED{VKATTN_TYPE_KIND_QUANTISED, false},
    AFFINE{VKATTN_TYPE_KIND_QUANTISED, true}, LISTED{VKATTN_TYPE_KIND_QUANTISED, false, kEntries},
    E4M3{VKATTN_TYPE_KIND_QUANTISED, false, {}, 3}, E5M2{VKATTN_TYPE_KIND_QUANTISED, false, {}, 2};

struct Uses {
    bool cached, weight;
};
[[maybe_unused]] constexpr Uses NONE{false, false}, CACHED{true, false}, WEIGHT{false, true}, ANY{true, true};

constexpr StoredType row(const char *name, const char *shown, vkattn_type type, uint32_t elements, uint32_t bytes,
                         const Kind &kind, uint32_t bits, const Uses &uses) {
    return {{type, kind.kind, shown, elements, bytes, bits, kind.has_minimum, uses.cached, uses.cached, uses.weight},
            name,
            kind.entries,
            kind.fraction_bits};
}

#define ROW(NAME, name, number, elements, bytes, KIND, width, USES)                                                    \
    row(#NAME, #name, VKATTN_TYPE_##NAME, elements, bytes, KIND, width, USES),
template <size_t count>
constexpr std::array<StoredType, count> by_number(std::array<StoredType, count> rows) {
    std::ranges::sort(rows, {}, [](const StoredType &each) { return each.info.type; });
    return rows;
}
constexpr std::array kTypes = by_number(std::array{STORED_TYPES(ROW)});

#define IS_NUMBERED(NAME, name, number, ...) &&VKATTN_TYPE_##NAME == (number)
static_assert(true STORED_TYPES(IS_NUMBERED), "shaders and vkattn_type number the types alike");

constexpr bool rows_are_in_place() {
    for (uint32_t i = 0; i < std::size(kTypes); ++i) {
        const vkattn_type_info &info = kTypes[i].info;
        const bool quantised = info.kind == VKATTN_TYPE_KIND_QUANTISED;
        if (info.type != static_cast<vkattn_type>(i + 1)) return false;
        if (quantised && info.cache != 0 && info.block_elements != QUANTISED_BLOCK) return false;
        if (quantised && info.block_bytes % 2 != 0) return false; // blocks are read and written by halves
    }
    return true;
}
static_assert(rows_are_in_place());

constexpr StoredType kNone = row("NONE", "none", VKATTN_TYPE_NONE, 0, 0, Kind{}, 0, NONE);
constexpr StoredType kUnknown = row("an unknown type", "unknown", VKATTN_TYPE_MAX_ENUM, 0, 0, Kind{}, 0, NONE);

} // namespace

std::span<const StoredType> stored_types() { return kTypes; }

const StoredType &stored_type(vkattn_type type) {
    if (type == VKATTN_TYPE_NONE) return kNone;
    const auto index = static_cast<uint32_t>(type) - 1;
    return index < std::size(kTypes) ? kTypes[index] : kUnknown;
}

uint64_t bytes_of(vkattn_type type, uint64_t elements) {
    const StorageBlock block = storage_block(type);
    return elements / block.elements * block.bytes;
}

std::string type_names(bool (*is_one)(vkattn_type)) {
    std::string names;
    for (size_t i = std::size(kTypes); i-- > 0;) {
        if (!is_one(kTypes[i].info.type)) continue;
        const bool last = names.empty(), second = names.find(' ') == std::string::npos;
        if (!last) names.insert(0, second ? " or " : ", ");
        names.insert(0, kTypes[i].name);
    }
    return names;
}

} // namespace vkattn
