// Candidates of a tuning, compared: outputs that hold infinities are numbers like others.
#include "runtime/ops/linear.hpp"
#include "runtime/ops/operators.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/trials/ready_context.hpp"
#include "runtime/trials/trials.hpp"
#include "runtime/vulkan/memory.hpp"

#include <doctest/doctest.h>

#include <cstdlib>

namespace {

constexpr std::uint64_t kIn = 8, kOut = 4;

// input 1, weight as given: every output is 8 times the weight, in f16.
vkattn_linear_desc small_linear() {
    vkattn_linear_desc desc{};
    desc.input = vkattn::contiguous(VKATTN_TYPE_F32, {1, 2, kIn});
    desc.weight = vkattn::contiguous(VKATTN_TYPE_F32, {kOut, kIn});
    desc.output = vkattn::contiguous(VKATTN_TYPE_F16, {1, 2, kOut});
    return desc;
}

void fill(vkattn::Buffer &buffer, float value) {
    const std::vector<float> values(buffer.bytes() / sizeof value, value);
    buffer.write(0, values.data(), buffer.bytes());
}

vkattn::Trial trial(vkattn::Context &context, const vkattn_linear_desc &desc, int code) {
    vkattn::PlanBuilder builder(context);
    vkattn::plan_linear(builder, desc);
    return {builder.build(), VKATTN_KERNEL_AUTO, 0, "tile", vkattn::code_of(code)};
}

} // namespace

TEST_SUITE_BEGIN("tuning");

TEST_CASE("a tuning whose output overflows keeps a candidate, and refuses one with other infinities") {
    vkattn_context_info info{};
    info.device_selector = std::getenv("VKATTN_TEST_DEVICE"); // NULL: the default
    const std::unique_ptr<vkattn::Context> context = vkattn::ready_context(info);
    const vkattn_linear_desc desc = small_linear();
    vkattn::TrialBuffers buffers;
    fill(buffers.add(*context, VKATTN_ROLE_INPUT, desc.input), 1.0f);
    vkattn::Buffer &weight = buffers.add(*context, VKATTN_ROLE_WEIGHT, desc.weight);
    buffers.add_output(*context, VKATTN_ROLE_OUTPUT, vkattn::contiguous(VKATTN_TYPE_F16, {1, 1, 2, kOut}));
    fill(weight, 60000.0f);
    vkattn::Trials trials(std::move(buffers));
    CHECK(trials.measure(trial(*context, desc, 1)));
    CHECK(trials.measure(trial(*context, desc, 2)));
    fill(weight, -60000.0f);
    CHECK(trials.measure(trial(*context, desc, 3)));
    CHECK(trials.choose() < 2);
    const std::vector<vkattn::Candidate> candidates = std::move(trials).candidates();
    REQUIRE(candidates.size() == 3);
    CHECK_MESSAGE(candidates[0].reason.empty(), candidates[0].reason);
    CHECK_MESSAGE(candidates[1].reason.empty(), candidates[1].reason);
    CHECK(candidates[2].reason.find("other numbers than untuned") == 0);
}

TEST_SUITE_END();
