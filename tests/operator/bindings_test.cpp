// Attention on devices of few storage buffers: a dispatch binds what it uses.
#include "compare.hpp"
#include "device.hpp"
#include "limited_device.hpp"

#include <doctest/doctest.h>

#include <array>

using namespace vkattn_test;

namespace {

constexpr std::array kKernels = {VKATTN_KERNEL_UNFUSED, VKATTN_KERNEL_FLASH, VKATTN_KERNEL_DECODE};

AttentionProblem random_problem() {
    std::mt19937 random(31);
    AttentionProblem problem;
    problem.query = normal_tensor(VKATTN_TYPE_F32, {2, 4, 5, 16}, random);
    problem.key = normal_tensor(VKATTN_TYPE_F32, {2, 2, 200, 16}, random);
    problem.value = normal_tensor(VKATTN_TYPE_F32, {2, 2, 200, 16}, random);
    return problem;
}

// Every kernel that needs nothing of a device, for an output alone or with log_sum_exp.
void check_on(const LimitedDevice &limited, const AttentionProblem &problem, bool with_log_sum_exp) {
    const AttentionReference reference = reference_attention(problem);
    for (const vkattn_kernel kernel : kKernels) {
        INFO("kernel ", kernel_text(kernel));
        AttentionResults results;
        results.output = HostTensor(VKATTN_TYPE_F32, {2, 4, 5, 16});
        if (with_log_sum_exp) results.log_sum_exp = HostTensor(VKATTN_TYPE_F32, {2, 4, 5});
        const vkattn::Plan plan = limited.context().attention_plan(describe(problem, results, kernel));
        limited.device().run(plan, regions_of(problem, results));
        const Comparison output = compare("output", results.output.shape(), reference.output, results.output.floats(),
                                          nmse_bound({VKATTN_TYPE_F32}));
        CHECK_MESSAGE(output.passed, output.report);
        if (!with_log_sum_exp) continue;
        const Comparison log_sum_exp = compare("log_sum_exp", results.log_sum_exp.shape(), reference.log_sum_exp,
                                               results.log_sum_exp.floats(), nmse_bound({VKATTN_TYPE_F32}));
        CHECK_MESSAGE(log_sum_exp.passed, log_sum_exp.report);
    }
}

} // namespace

TEST_SUITE_BEGIN("attention.bindings");

TEST_CASE_FIXTURE(DeviceTest,
                  "four storage buffers, the fewest that Vulkan allows, take query, key, value and output") {
    check_on(LimitedDevice("max_storage_buffers_per_stage=4"), random_problem(), false);
}

TEST_CASE_FIXTURE(DeviceTest, "eight storage buffers take dense problems with masks, sinks and log_sum_exp") {
    AttentionProblem problem = random_problem();
    std::mt19937 random(32);
    problem.attn_mask = normal_tensor(VKATTN_TYPE_F32, {2, 4, 5, 200}, random);
    problem.sinks = normal_tensor(VKATTN_TYPE_F32, {4}, random);
    check_on(LimitedDevice("max_storage_buffers_per_stage=8"), problem, true);
}

TEST_CASE_FIXTURE(DeviceTest, "more tensors than the device takes are refused by their number") {
    const LimitedDevice limited("max_storage_buffers_per_stage=4");
    const AttentionProblem problem = random_problem();
    AttentionResults results;
    results.output = HostTensor(VKATTN_TYPE_F32, {2, 4, 5, 16});
    results.log_sum_exp = HostTensor(VKATTN_TYPE_F32, {2, 4, 5});
    for (const vkattn_kernel kernel : kKernels)
        CHECK_THROWS_WITH_AS(limited.context().attention_plan(describe(problem, results, kernel)),
                             doctest::Contains("5 tensors, expected at most maxPerStageDescriptorStorageBuffers, which "
                                               "is 4"),
                             vkattn::Error);
}

TEST_SUITE_END();
