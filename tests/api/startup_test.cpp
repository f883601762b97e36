// The first use of a pipeline. On CPU drivers it is the driver's compiler that one waits for, and code that unrolls too
// far keeps it busy for minutes: this is a guard against that, far above any time measured, not a benchmark (that is
// `vkattn bench`). Drivers that cache on disk must be told not to: see CMakeLists.txt.
#include "limited_device.hpp"

#include <doctest/doctest.h>

#include <array>
#include <ctime>

using namespace vkattn_test;

namespace {

struct HeadSizes {
    std::uint64_t head_dim, v_head_dim;
};

// Processor time, so that other programs on the machine do not count.
AttentionProblem small_problem(const HeadSizes &sizes, vkattn_type type) {
    std::mt19937 random(51);
    AttentionProblem problem;
    problem.query = normal_tensor(type, {1, 2, 7, sizes.head_dim}, random);
    problem.key = normal_tensor(type, {1, 1, 33, sizes.head_dim}, random);
    problem.value = normal_tensor(type, {1, 1, 33, sizes.v_head_dim}, random);
    problem.mask_flags = VKATTN_MASK_CAUSAL;
    return problem;
}

double first_run_seconds(const AttentionProblem &problem, vkattn_kernel kernel) {
    AttentionResults results;
    results.output = HostTensor(problem.query.type(), {1, 2, 7, problem.value.shape()[3]});
    const std::clock_t start = std::clock();
    run_attention(problem, results, test_device().context().attention_plan(describe(problem, results, kernel)));
    return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

// On a context of its own, for which nothing is compiled yet.
double run_seconds(const AttentionProblem &problem, bool prewarmed) {
    const LimitedDevice device("");
    AttentionResults results;
    results.output = HostTensor(problem.query.type(), {1, 2, 7, problem.value.shape()[3]});
    const vkattn_attention_desc desc = describe(problem, results, VKATTN_KERNEL_AUTO);
    if (prewarmed) device.context().prewarm({&desc, 1});
    const std::clock_t start = std::clock();
    device.device().run(device.context().attention_plan(desc), regions_of(problem, results));
    return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

} // namespace

TEST_SUITE_BEGIN("startup");

TEST_CASE_FIXTURE(DeviceTest, "a prewarmed problem compiles nothing when it is planned and first run") {
    const AttentionProblem problem = small_problem({64, 64}, VKATTN_TYPE_F32);
    const double cold = run_seconds(problem, false), warm = run_seconds(problem, true);
    CHECK_MESSAGE(warm < cold / 4, cold, " s and ", warm, " s");
}

TEST_CASE_FIXTURE(DeviceTest, "no pipeline keeps a driver's compiler busy for more than half a minute") {
    constexpr std::array<HeadSizes, 6> kSizes = {{{8, 8}, {64, 64}, {80, 80}, {128, 128}, {192, 128}, {576, 512}}};
    for (const HeadSizes &sizes : kSizes) {
        for (const vkattn_type type : {VKATTN_TYPE_F32, VKATTN_TYPE_F16}) {
            const AttentionProblem problem = small_problem(sizes, type);
            for (const vkattn_kernel kernel : kernels_for(problem)) {
                INFO("D ", sizes.head_dim, ", Dv ", sizes.v_head_dim, ", ", type_name(type), ", ", kernel_text(kernel));
                CHECK(first_run_seconds(problem, kernel) < 30.0);
            }
        }
    }
}

TEST_SUITE_END();
