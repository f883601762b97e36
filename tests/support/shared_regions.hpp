// Runs whose outputs lie where inputs do.
#pragma once

#include "device.hpp"

namespace vkattn_test {

// A tensor, and the roles that its memory is bound as.
struct SharedRegion {
    HostTensor *tensor;
    std::vector<vkattn_role> roles;
};

// Uploads each tensor, runs the plan and downloads them.
inline void run_shared(const vkattn::Plan &plan, std::initializer_list<SharedRegion> regions) {
    const vkattn_context context = test_device().context().get();
    std::vector<vkattn::Buffer> buffers;
    std::vector<vkattn_binding> bindings;
    buffers.reserve(regions.size() + 1);
    for (const SharedRegion &region : regions) {
        vkattn::Buffer &buffer = buffers.emplace_back(context, region.tensor->bytes().size());
        buffer.write(region.tensor->bytes());
        for (const vkattn_role role : region.roles) bindings.push_back(vkattn::bind(role, buffer));
    }
    if (const std::uint64_t bytes = plan.requirements().workspace_bytes; bytes != 0)
        bindings.push_back(vkattn::bind(VKATTN_ROLE_WORKSPACE, buffers.emplace_back(context, bytes)));
    plan.run(bindings);
    std::size_t i = 0;
    for (const SharedRegion &region : regions) buffers[i++].read(region.tensor->bytes());
}

} // namespace vkattn_test
