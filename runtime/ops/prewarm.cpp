#include "runtime/ops/prewarm.hpp"

#include "runtime/ops/attention.hpp"
#include "runtime/support/error.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

namespace vkattn {
namespace {

// Pipelines stay with the context. CPU drivers compile them at their first dispatch.
void warm(Context &context, const vkattn_attention_desc &desc) {
    const bool is_cpu = context.caps().device_type == VK_PHYSICAL_DEVICE_TYPE_CPU;
    PlanBuilder builder(context, is_cpu ? PlanBuilder::Purpose::kWarm : PlanBuilder::Purpose::kRun);
    const AttentionProblem problem = check_attention(desc);
    add_attention(builder, problem, roles_of(problem));
    const std::unique_ptr<const Plan> plan = builder.build();
    if (is_cpu) plan->run({});
}

} // namespace

void prewarm(Context &context, std::span<const vkattn_attention_desc> descs, uint32_t threads) {
    std::vector<std::optional<Error>> errors(descs.size());
    std::atomic<size_t> next = 0;
    const auto work = [&] {
        for (size_t i = next++; i < descs.size(); i = next++) {
            try {
                warm(context, descs[i]);
            } catch (const Error &error) {
                errors[i].emplace(error.result(), text("descs[", i, "]: ", error.what()));
            } catch (const std::bad_alloc &) {
                errors[i].emplace(VKATTN_ERROR_OUT_OF_HOST_MEMORY, text("descs[", i, "]: out of host memory"));
            } catch (const std::exception &error) {
                errors[i].emplace(VKATTN_ERROR_INTERNAL, text("descs[", i, "]: ", error.what()));
            }
        }
    };
    std::vector<std::jthread> others;
    for (uint32_t i = 1; i < std::min<size_t>(threads, descs.size()); ++i) others.emplace_back(work);
    work();
    others.clear(); // joins them
    for (const std::optional<Error> &error : errors)
        if (error) throw *error;
}

} // namespace vkattn
