#pragma once

#include <cstdint>
#include <string>

namespace vkattn {

// Why a row goes before others that serve: a later reason before an earlier one.
enum class Rank : uint32_t {
    kMatricesDoNotPay,      // matrix units are slow here, or the rows do not fill them
    kUntiled,               // every product reads its factors anew
    kPartsDoNotPay,         // of keys: their merge takes more time than it saves
    kTiles,                 // in shared memory
    kFewRows,               // keys are split to fill the device
    kAddresses,             // loads through device addresses cost less than shared memory
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

} // namespace vkattn
