#include "runtime/ops/prewarm.hpp"

#include "runtime/support/error.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

namespace vkattn {
namespace {

// Pipelines stay with the context. CPU drivers compile them at their first dispatch.
void warm(Context &context, size_t i, const std::function<void(PlanBuilder &, size_t)> &build) {
    const bool is_cpu = context.caps().device_type == VK_PHYSICAL_DEVICE_TYPE_CPU;
    PlanBuilder builder(context, is_cpu ? PlanBuilder::Purpose::kWarm : PlanBuilder::Purpose::kRun);
    build(builder, i);
    const std::unique_ptr<const Plan> plan = builder.build();
    if (is_cpu) plan->run({});
}

// Says which description it was.
[[noreturn]] void throw_error(size_t index, const std::exception_ptr &error) {
    try {
        std::rethrow_exception(error);
    } catch (const Error &known) {
        fail(known.result(), "descs[", index, "]: ", known.what());
    } catch (const std::bad_alloc &) {
        fail(VKATTN_ERROR_OUT_OF_HOST_MEMORY, "descs[", index, "]: out of host memory");
    }
}

} // namespace

void prewarm(Context &context, size_t count, const std::function<void(PlanBuilder &, size_t)> &build,
             uint32_t threads) {
    std::vector<std::exception_ptr> errors(count);
    std::atomic<size_t> next = 0;
    const auto work = [&] {
        for (size_t i = next++; i < count; i = next++) {
            try {
                warm(context, i, build);
            } catch (...) {
                errors[i] = std::current_exception(); // no message here: there may be no memory for it
            }
        }
    };
    std::vector<std::jthread> others;
    try {
        for (uint32_t i = 1; i < std::min<size_t>(threads, count); ++i) others.emplace_back(work);
    } catch (const std::system_error &) { // the system has no more threads: fewer do the same
    }
    work();
    others.clear(); // joins them
    for (size_t i = 0; i < errors.size(); ++i)
        if (errors[i] != nullptr) throw_error(i, errors[i]);
}

} // namespace vkattn
