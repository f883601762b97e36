#pragma once

#include "runtime/vulkan/shader.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>

namespace vkattn {

// Why a row goes before others that serve: a later reason before an earlier one.
enum class Rank : uint32_t {
    kByTuningAlone,         // where it is the fastest, tuning finds it
    kMatricesDoNotPay,      // matrix units are slow here, or the rows do not fill them
    kUntiled,               // every product reads its factors anew
    kPartsDoNotPay,         // of keys: their merge takes more time than it saves
    kTiles,                 // in shared memory
    kTilesOfPairs,          // in shared memory, and an instruction takes two products
    kFewRows,               // keys are split to fill the device
    kAddresses,             // loads through device addresses cost less than shared memory
    kScalars,               // so do loads through addresses that invocations share: each is one scalar
    kMatrices,              // the matrix units take the types
    kFewRowsIdleTheMatrices // few rows, which would leave most of the matrix units idle
};

// What a row says of a problem: it is asked once, and the answer is passed on.
template <class Shape>
struct Answer {
    Rank rank;
    std::string obstacle{}; // why it cannot serve the problem; "": it serves
    Shape shape{};          // of what serves: all that its dispatches need
};

// What tuning may turn of a row's tile: a member of KernelTile::knobs, by its place in the row's list.
struct Knob {
    const char *name;
    std::span<const uint32_t> values; // that are tried
};

// The row whose dispatches may take the shader; nullptr: none.
template <class Row>
const Row *row_of(std::span<const Row *const> rows, const Shader &shader) {
    const auto found = std::ranges::find_if(
        rows, [&](const Row *row) { return std::ranges::find(row->shaders, &shader) != row->shaders.end(); });
    return found == rows.end() ? nullptr : *found;
}

} // namespace vkattn
