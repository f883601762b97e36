#pragma once

#include "runtime/spirv/specialise.hpp"

#include <array>
#include <optional>

namespace vkattn::spirv {

// How many invocations a workgroup of a module has, as the module says it. Code may be anything.
class WorkgroupSize {
  public:
    WorkgroupSize() = default;
    explicit WorkgroupSize(std::span<const uint32_t> code);

    // With these constants, the others their defaults; nothing where the module does not say it.
    std::optional<uint32_t> invocations(std::span<const ConstantValue> constants) const;

  private:
    struct Number {
        uint32_t value;                   // or a default
        std::optional<uint32_t> constant; // the id of the constant that may replace it
    };
    std::array<std::optional<Number>, 3> axes_;
};

} // namespace vkattn::spirv
