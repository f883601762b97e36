#pragma once

#include "runtime/support/error.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace vkattn {

// What holds something while a plan runs.
class RunHold {
  public:
    virtual ~RunHold() = default;
    virtual void not_submitted() = 0; // what it counted did not happen
};

// What runs of plans make longer: a cache of tokens.
class Growing {
  public:
    virtual ~Growing() = default;
    // Counts so many tokens of each sequence, for what is submitted while the answer lives. Fails where there is no room.
    virtual std::unique_ptr<RunHold> grow(uint32_t tokens) = 0;
};

// How much a run makes longer.
struct Growth {
    Growing *what;
    uint32_t tokens;
};

// Submits what makes them longer. Counts nothing if nothing was submitted.
template <class Submit>
void grow_while(std::span<const Growth> growths, Submit &&submit) {
    std::vector<std::unique_ptr<RunHold>> holds;
    holds.reserve(growths.size());
    try {
        for (const Growth &growth : growths) holds.push_back(growth.what->grow(growth.tokens));
        submit();
    } catch (const std::exception &error) { // nothing was submitted, unless the device was lost on the way
        const auto *known = dynamic_cast<const Error *>(&error);
        if (known == nullptr || known->result() != VKATTN_ERROR_DEVICE_LOST)
            for (const auto &hold : holds) hold->not_submitted();
        throw;
    }
}

} // namespace vkattn
