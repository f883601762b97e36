// How many parts a problem's keys are split into, on devices of so many cores.
#include "runtime/kernels/split_keys.hpp"
#include "runtime/problem/tensor.hpp"

#include <doctest/doctest.h>

using namespace vkattn;

namespace {

constexpr std::uint64_t kKeys = 1024, kHeads = 16;

AttentionProblem problem_of(std::uint64_t q_len, bool causal) {
    vkattn_attention_desc desc{};
    desc.query = desc.output = contiguous(VKATTN_TYPE_F16, {1, kHeads, q_len, 128});
    desc.key = desc.value = contiguous(VKATTN_TYPE_F16, {1, 1, kKeys, 128});
    if (causal) desc.mask_flags = VKATTN_MASK_CAUSAL;
    return check_attention(desc);
}

std::uint32_t parts_on(std::uint32_t cores, std::uint64_t q_len, bool causal = false, std::uint32_t few_rows = 0) {
    DeviceCaps caps;
    caps.traits.parallel_workgroups = kWorkgroupsOfCore * cores;
    caps.max_storage_buffer_range = UINT32_MAX;
    const PartWorkgroups workgroups{
        .count = 16, .filling = caps.traits.parallel_workgroups, .few_rows = few_rows, .keys_of_tile = 64};
    return parts_that_pay(problem_of(q_len, causal), caps, workgroups);
}

} // namespace

TEST_SUITE_BEGIN("planner");

TEST_CASE("parts are whole rounds of the cores") {
    CHECK(parts_on(96, 32) == 6);            // 96 workgroups: a round
    CHECK(parts_on(64, 32) == 4);            // 64, where 96 would leave half of the cores idle in the second round
    CHECK(parts_on(64, 32, true) == 4);      // each query sees nearly all keys
    CHECK(parts_on(64, 512, true) == 6);     // the first of these sees few, and its workgroups end soon
    CHECK(parts_on(90, 32) == 4);            // rather than 96
    CHECK(parts_on(64, 32, false, 4) == 16); // few rows wait for memory: as many parts as the device takes
}

TEST_SUITE_END();
