// Every kernel between pages that nobody may touch (VKATTN_GUARD_PAGES=1), and that those pages are there.
#include "compare.hpp"
#include "guarded_vulkan.hpp"
#include "limited_device.hpp"
#include "skips.hpp"

#include <doctest/doctest.h>

#ifdef __linux__
#include <csignal>
#include <sys/wait.h>
#include <unistd.h>
#endif

using namespace vkattn_test;

namespace {

// Rows of K and V end the memory; the last key is not the last of a tile. As many rows as no two subgroups share.
AttentionProblem problem_of(vkattn_type type, std::uint64_t v_head_dim) {
    constexpr std::uint64_t kHeadDim = 32, kKeys = 30, kRows = 160;
    std::mt19937 random(11);
    AttentionProblem problem;
    problem.query = HostTensor(type, {1, 1, kRows, kHeadDim});
    problem.key = HostTensor(type, {1, 1, kKeys, kHeadDim});
    problem.value = HostTensor(type, {1, 1, kKeys, v_head_dim});
    for (HostTensor *tensor : {&problem.query, &problem.key, &problem.value}) fill_normal(*tensor, random);
    return problem;
}

} // namespace

TEST_SUITE_BEGIN("guard_pages");

#ifdef __linux__

// Whether a child that reads this byte is ended for it.
bool ends_reader(const volatile std::uint8_t *byte) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        _exit(*byte & 0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

TEST_CASE_FIXTURE(DeviceTest, "memory lies between pages that nobody may touch") {
    if (!guards_pages()) return skip("no guard pages, expected VKATTN_GUARD_PAGES=1");
    const vkattn::Buffer buffer = test_device().context().buffer(4096 + 64);
    const GuardedMemory memory = last_guarded_memory();
    REQUIRE(memory.bytes >= 4096 + 64);
    CHECK(!ends_reader(memory.begin));
    CHECK(!ends_reader(memory.begin + memory.bytes - 1));
    CHECK(ends_reader(memory.begin + memory.bytes));
    CHECK(ends_reader(memory.begin - 4096));
}

#endif

// Odd numbers of 16 dims among them, which are no whole number of the blocks that invocations take side by side.
constexpr std::uint64_t kSizesOfValue[] = {48, 80, 112, 20, 128};

TEST_CASE_FIXTURE(DeviceTest, "coopmat reads nothing past the last value") {
    if (!has_matrix_kernels()) return;
    const LimitedDevice device("matrix_outputs=128"); // of an invocation, as GPUs have it: no dims to spare
    const OpenRanges ranges;
    for (const std::uint64_t v_head_dim : kSizesOfValue) {
        INFO("V head size ", v_head_dim);
        const AttentionProblem problem = problem_of(VKATTN_TYPE_F16, v_head_dim);
        AttentionResults results;
        results.output = HostTensor(VKATTN_TYPE_F16, {1, 1, problem.query.shape()[2], v_head_dim});
        const std::vector<float> actual =
            device.run(problem, describe(problem, results, VKATTN_KERNEL_COOPMAT), results.output);
        const Comparison comparison = compare("output", results.output.shape(), reference_attention(problem).output,
                                              actual, nmse_bound({VKATTN_TYPE_F16}));
        CHECK_MESSAGE(comparison.passed, comparison.report);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "no kernel reads past the last key and value") {
    for (const vkattn_type type : {VKATTN_TYPE_F16, VKATTN_TYPE_BF16, VKATTN_TYPE_F32})
        for (const std::uint64_t v_head_dim : kSizesOfValue) check_every_kernel(problem_of(type, v_head_dim), type);
}

TEST_SUITE_END();
