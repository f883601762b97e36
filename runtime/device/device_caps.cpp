#include "runtime/device/device_caps.hpp"

#include "runtime/support/error.hpp"

namespace vkattn {

bool may_diverge(const DeviceCaps &caps) {
    const uint32_t widest = caps.traits.widest_divergent_addresses;
    return widest == 0 || caps.subgroup_size <= widest;
}

std::string on_bounded_loops(const DeviceCaps &caps) {
    return text("on ", caps.name, ", whose shaders end a loop after ", caps.max_loop_iterations, " iterations");
}

} // namespace vkattn
