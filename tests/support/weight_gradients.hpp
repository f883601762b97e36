// What the tests of gradients of a layer with a weight and a bias share.
#pragma once

#include "device.hpp"

#include <vector>

namespace vkattn_test {

// Regions of one run of a call with input, weight, d_output, residual, d_input, d_weight and d_bias: of those that are there. A gradient
// that holds something is uploaded.
template <class Call>
std::vector<Region> regions_of_gradients(Call &call) {
    std::vector<Region> regions;
    const auto add = [&](vkattn_role role, HostTensor &tensor, Access access) {
        if (tensor.present()) regions.push_back({role, &tensor, access});
    };
    add(VKATTN_ROLE_INPUT, call.input, Access::kRead);
    add(VKATTN_ROLE_WEIGHT, call.weight, Access::kRead);
    add(VKATTN_ROLE_D_OUTPUT, call.d_output, Access::kRead);
    add(VKATTN_ROLE_RESIDUAL, call.residual, Access::kRead);
    add(VKATTN_ROLE_D_INPUT, call.d_input, Access::kWrite);
    const Access sums = call.accumulates ? Access::kReadWrite : Access::kWrite;
    add(VKATTN_ROLE_D_WEIGHT, call.d_weight, sums);
    add(VKATTN_ROLE_D_BIAS, call.d_bias, sums);
    return regions;
}

} // namespace vkattn_test
