// Plans that are measured, not run, on a device whose limits the input lowers or lifts. Needs a device to begin with.
#pragma once

#include "runtime/plan/builder.hpp"
#include "runtime/support/error.hpp"
#include "tests/fuzz/expect.hpp"

#include <fuzzer/FuzzedDataProvider.h>

#include <cstdint>
#include <optional>

// The context that every input plans in.
inline vkattn::Context &context_of_limits(FuzzedDataProvider &data) {
    static vkattn::Context context{vkattn_context_info{}};
    static const vkattn::DeviceCaps own = context.caps();
    vkattn::DeviceCaps caps = own;
    caps.max_storage_buffer_range = (std::uint64_t{1} << data.ConsumeIntegralInRange(20, 32)) - 1;
    for (std::uint32_t &count : caps.max_workgroup_count) count = data.ConsumeBool() ? 65535 : 0xffffffff;
    caps.traits.max_loop_iterations = data.ConsumeBool() ? 65536 : 0;
    caps.traits.max_dispatch_megaflops = 0;
    // what is bound by, and what kernels are chosen by; nothing is compiled, allocated or recorded
    const_cast<vkattn::DeviceCaps &>(context.caps()) = caps;
    const_cast<vkattn::DeviceCaps &>(*context.judged_caps()) = caps;
    return context;
}

// What every step must keep to: the device's grid, one descriptor's range, and offsets that have not wrapped.
inline void expect_within_limits(const vkattn::Plan &plan) {
    const vkattn::DeviceCaps &caps = plan.context().caps();
    const std::uint64_t workspace = plan.requirements().workspace_bytes;
    for (const vkattn::Step &step : plan.steps()) {
        for (std::size_t axis = 0; axis < 3; ++axis)
            expect(step.groups[axis] >= 1 && step.groups_per_dispatch[axis] >= 1 &&
                       step.groups_per_dispatch[axis] <= caps.max_workgroup_count[axis],
                   "each dispatch fits the device");
        for (const vkattn::Step::Bound &bound : step.bound) {
            if (bound.bytes == 0) continue;
            expect(bound.bytes <= caps.max_storage_buffer_range, "a descriptor can hold what is bound");
            if (bound.source.kind == vkattn::Source::Kind::kRole && bound.source.role == VKATTN_ROLE_WORKSPACE)
                expect(bound.source.offset + bound.offset + bound.bytes <= workspace, "the workspace has room");
        }
    }
}

// Plans by one of functions that return a plan of a builder's, or refuse.
template <class Operators>
void plan_one_of(FuzzedDataProvider &data, const Operators &operators) {
    try {
        vkattn::PlanBuilder builder(context_of_limits(data), vkattn::PlanBuilder::Purpose::kMeasure);
        expect_within_limits(*data.PickValueInArray(operators)(data, builder));
    } catch (const vkattn::Error &error) {
        expect(error.result() == VKATTN_ERROR_INVALID_ARGUMENT || error.result() == VKATTN_ERROR_UNSUPPORTED,
               "what is refused is refused as a wrong or an unserved request");
    }
}
