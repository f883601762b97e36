#pragma once

#include "runtime/device/device_caps.hpp"

namespace vkattn {

// Whether shaders make subgroups and matrices of shared memory (shaders/emulated), for tests on CPU drivers alone.
#ifdef VKATTN_EMULATED_SUBGROUPS
constexpr bool kSubgroupsAreEmulated = true;
#else
constexpr bool kSubgroupsAreEmulated = false;
#endif

// Gives the device the subgroups and matrix units of the GPU that the environment variable VKATTN_EMULATED_GPU names, if it is
// set; fails with VKATTN_ERROR_INVALID_ARGUMENT for a name that is unknown. Defined where they are emulated.
void emulate_subgroups(DeviceCaps &caps);

} // namespace vkattn
