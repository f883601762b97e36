// The factors of LongRoPE, as rope_scaling.next of a layer points to them.
#pragma once

#include <vkattn/vkattn.h>

#include <memory>
#include <vector>

namespace vkattn::tools {

struct RopeFactors {
    std::vector<float> values;
    vkattn_rope_factors extension{};
};

} // namespace vkattn::tools
