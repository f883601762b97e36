// Grids larger than a device takes at once, and work above what it may be given at once: shared by several dispatches and
// submissions, with the same bits.
#include "compare.hpp"
#include "counted_vulkan.hpp"
#include "layer_cases.hpp"
#include "limited_device.hpp"
#include "sequence_cases.hpp"
#include "small_decoder.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <numeric>

using namespace vkattn_test;

namespace {

// Runs something on a device; returns what it wrote.
using Compute = std::function<std::vector<float>(TestDevice &, std::uint32_t &dispatches)>;

std::vector<float> run(TestDevice &device, const vkattn::Plan &plan, std::vector<Region> regions,
                       std::uint32_t &dispatches) {
    dispatches = plan.report().dispatches;
    device.run(plan, regions);
    std::vector<float> written;
    for (const Region &region : regions)
        if (region.access != Access::kRead) {
            const std::vector<float> values = region.tensor->floats();
            written.insert(written.end(), values.begin(), values.end());
        }
    return written;
}

// The same bits where no axis of a grid may have more than so many workgroups. Also in the shaders of GPUs, if this is a
// CPU driver.
void check_divided(const Compute &compute, const char *most = "3") {
    for (const std::string traits : {"", "scalar_address_loads=0,most_addressed_linear_rows=0,", "matrix_units=1,"}) {
        INFO("traits ", traits);
        const LimitedDevice whole((traits + "self_test=0").c_str());
        const LimitedDevice divided((traits + "self_test=0,max_workgroup_count=" + most).c_str());
        std::uint32_t few = 0, many = 0;
        const std::vector<float> expected = compute(whole.device(), few);
        const std::vector<float> actual = compute(divided.device(), many);
        CHECK(many > few);
        CHECK(actual == expected);
    }
}

Compute attention(AttentionProblem problem, vkattn_kernel kernel, vkattn_type output = VKATTN_TYPE_F32) {
    return [=](TestDevice &device, std::uint32_t &dispatches) {
        AttentionProblem own = problem;
        AttentionResults results = all_results(own, kernel, output);
        const vkattn::Plan plan = device.context().attention_plan(describe(own, results, kernel));
        return run(device, plan, regions_of(own, results), dispatches);
    };
}

AttentionProblem attention_problem(std::uint64_t batch, std::uint64_t heads, std::uint64_t queries, std::uint64_t keys,
                                   std::uint64_t size, vkattn_type type = VKATTN_TYPE_F32) {
    std::mt19937 random(71);
    AttentionProblem problem;
    problem.query = normal_tensor(type, {batch, 2 * heads, queries, size}, random);
    problem.key = normal_tensor(type, {batch, heads, keys, size}, random);
    problem.value = normal_tensor(type, {batch, heads, keys, size}, random);
    problem.mask_flags = VKATTN_MASK_CAUSAL;
    problem.causal_alignment = VKATTN_CAUSAL_BOTTOM_RIGHT;
    return problem;
}

Compute linear(std::uint64_t rows, std::uint64_t in, std::uint64_t out, vkattn_type type) {
    return [=](TestDevice &device, std::uint32_t &dispatches) {
        std::mt19937 random(72);
        HostTensor input = normal_tensor(type, {2, rows, in}, random), weight = normal_tensor(type, {out, in}, random),
                   bias = normal_tensor(type, {out}, random), output(VKATTN_TYPE_F32, {2, rows, out});
        vkattn_linear_desc desc{};
        desc.input = input.view();
        desc.weight = weight.view();
        desc.bias = bias.view();
        desc.output = output.view();
        return run(device, device.context().linear_plan(desc),
                   {{VKATTN_ROLE_INPUT, &input, Access::kRead},
                    {VKATTN_ROLE_WEIGHT, &weight, Access::kRead},
                    {VKATTN_ROLE_BIAS, &bias, Access::kRead},
                    {VKATTN_ROLE_OUTPUT, &output, Access::kWrite}},
                   dispatches);
    };
}

Compute norm(std::uint64_t batch, std::uint64_t tokens) {
    return [=](TestDevice &device, std::uint32_t &dispatches) {
        std::mt19937 random(73);
        HostTensor input = normal_tensor(VKATTN_TYPE_F32, {batch, tokens, 6}, random),
                   weight = normal_tensor(VKATTN_TYPE_F32, {6}, random), output(VKATTN_TYPE_F32, {batch, tokens, 6});
        vkattn_norm_desc desc{};
        desc.input = input.view();
        desc.weight = weight.view();
        desc.output = output.view();
        desc.kind = VKATTN_NORM_LAYER;
        return run(device, device.context().norm_plan(desc),
                   {{VKATTN_ROLE_INPUT, &input, Access::kRead},
                    {VKATTN_ROLE_WEIGHT, &weight, Access::kRead},
                    {VKATTN_ROLE_OUTPUT, &output, Access::kWrite}},
                   dispatches);
    };
}

Compute embedding(std::uint64_t batch, std::uint64_t tokens) {
    return [=](TestDevice &device, std::uint32_t &dispatches) {
        std::mt19937 random(74);
        HostTensor numbers(VKATTN_TYPE_I32, {batch, tokens}), weight = normal_tensor(VKATTN_TYPE_F32, {11, 3}, random),
                                                              output(VKATTN_TYPE_F32, {batch, tokens, 3});
        for (std::uint64_t i = 0; i < numbers.elements(); ++i) numbers.set(i, static_cast<float>(i % 11));
        vkattn_embedding_desc desc{};
        desc.tokens = numbers.view();
        desc.weight = weight.view();
        desc.output = output.view();
        const std::vector<float> all = run(device, device.context().embedding_plan(desc),
                                           {{VKATTN_ROLE_TOKENS, &numbers, Access::kRead},
                                            {VKATTN_ROLE_WEIGHT, &weight, Access::kRead},
                                            {VKATTN_ROLE_OUTPUT, &output, Access::kWrite}},
                                           dispatches);
        std::uint64_t wrong = 0;
        for (std::uint64_t i = 0; i < all.size(); ++i)
            if (all[i] != weight.get(i / 3 % 11 * 3 + i % 3)) ++wrong;
        CHECK(wrong == 0);
        return all;
    };
}

// Whose numbers are small integers, the same in every type.
Compute append(Shape shape, vkattn_type type) {
    return [=](TestDevice &device, std::uint32_t &dispatches) {
        HostTensor source(VKATTN_TYPE_F32, shape), cache(type, shape);
        for (std::uint64_t i = 0; i < source.elements(); ++i) source.set(i, static_cast<float>(i % 127));
        vkattn_kv_append_desc desc{};
        desc.source = source.view();
        desc.cache = cache.view();
        std::vector<float> all =
            run(device, device.context().kv_append_plan(desc),
                {{VKATTN_ROLE_SOURCE, &source, Access::kRead}, {VKATTN_ROLE_CACHE, &cache, Access::kReadWrite}},
                dispatches);
        if (!is_quantised(type)) CHECK(all == source.floats());
        return all;
    };
}

// Two parts of which each has the same sum of weights: their mean.
Compute merge(std::uint64_t batch, std::uint64_t heads, std::uint64_t rows) {
    return [=](TestDevice &device, std::uint32_t &dispatches) {
        const std::uint64_t all_rows = batch * heads * rows;
        HostTensor partial(VKATTN_TYPE_F32, {2 * batch, heads, rows, 3}),
            sums(VKATTN_TYPE_F32, {2 * batch, heads, rows}), output(VKATTN_TYPE_F32, {batch, heads, rows, 3}),
            sum(VKATTN_TYPE_F32, {batch, heads, rows});
        for (std::uint64_t i = 0; i < partial.elements(); ++i) partial.set(i, static_cast<float>(i % 251));
        for (std::uint64_t i = 0; i < sums.elements(); ++i) sums.set(i, static_cast<float>(i % all_rows % 7));
        vkattn_merge_desc desc{};
        desc.part_count = 2;
        desc.partial_output = vkattn::tensor(VKATTN_TYPE_F32, {batch, heads, rows, 3});
        desc.partial_log_sum_exp = vkattn::tensor(VKATTN_TYPE_F32, {batch, heads, rows});
        desc.partial_output_stride = 3 * all_rows;
        desc.partial_log_sum_exp_stride = all_rows;
        desc.output = output.view();
        desc.log_sum_exp = sum.view();
        const std::vector<float> all = run(device, device.context().merge_plan(desc),
                                           {{VKATTN_ROLE_PARTIAL_OUTPUT, &partial, Access::kRead},
                                            {VKATTN_ROLE_PARTIAL_LOG_SUM_EXP, &sums, Access::kRead},
                                            {VKATTN_ROLE_OUTPUT, &output, Access::kWrite},
                                            {VKATTN_ROLE_LOG_SUM_EXP, &sum, Access::kWrite}},
                                           dispatches);
        std::uint64_t wrong = 0;
        for (std::uint64_t i = 0; i < 3 * all_rows; ++i)
            if (std::abs(all[i] - (partial.get(i) + partial.get(i + 3 * all_rows)) / 2) > 1e-3f) ++wrong;
        for (std::uint64_t i = 0; i < all_rows; ++i)
            if (std::abs(all[3 * all_rows + i] - static_cast<float>(i % 7) - 0.6931472f) > 1e-5f) ++wrong;
        CHECK(wrong == 0);
        return all;
    };
}

void check_on_test_device(const Compute &compute) {
    std::uint32_t dispatches = 0;
    compute(test_device(), dispatches);
    const std::uint32_t most = *std::ranges::max_element(test_device().facts().max_workgroup_count);
    if (most < 65537) CHECK(dispatches > 1);
}

} // namespace

TEST_SUITE_BEGIN("grids");

TEST_CASE_FIXTURE(DeviceTest, "attention in a grid beyond the device's, by every kernel that keeps no weights") {
    for (const vkattn_kernel kernel : {VKATTN_KERNEL_FLASH, VKATTN_KERNEL_DECODE, VKATTN_KERNEL_AUTO}) {
        INFO(kernel_text(kernel));
        check_divided(attention(attention_problem(5, 4, 40, 600, 16), kernel));
        check_divided(attention(attention_problem(5, 4, 1, 1200, 16), kernel));
    }
    check_divided(attention(attention_problem(4, 5, 40, 90, 32, VKATTN_TYPE_F16), VKATTN_KERNEL_AUTO, VKATTN_TYPE_F16));
}

TEST_CASE_FIXTURE(DeviceTest, "attention whose weights are kept in a grid beyond the device's") {
    check_divided(attention(attention_problem(3, 2, 9, 300, 12), VKATTN_KERNEL_UNFUSED));
}

TEST_CASE_FIXTURE(DeviceTest, "attention of packed and of paged sequences in a grid beyond the device's") {
    for (const Keys keys : {Keys::kPacked, Keys::kPaged}) {
        std::mt19937 random(75);
        SequencesCase c;
        c.lengths = {{40, 90}, {1, 1}, {7, 30}, {0, 5}, {33, 200}};
        c.keys = keys;
        std::vector<Sequence> sequences = make_sequences(c, random);
        SequencesBatch batch = make_batch(c, sequences, random);
        const ExpectedSequences expected = expect(c, sequences, batch);
        for (const vkattn_kernel kernel : {VKATTN_KERNEL_AUTO, VKATTN_KERNEL_FLASH, VKATTN_KERNEL_DECODE}) {
            INFO(kernel_text(kernel));
            const LimitedDevice divided("max_workgroup_count=2");
            CHECK(try_batch(c, batch, expected, kernel, divided.device()) == "");
        }
    }
}

TEST_CASE_FIXTURE(DeviceTest, "linear in a grid beyond the device's, for few rows and many") {
    for (const vkattn_type type : {VKATTN_TYPE_F32, VKATTN_TYPE_F16}) {
        check_divided(linear(1, 16, 600, type));
        check_divided(linear(150, 16, 600, type));
    }
}

TEST_CASE_FIXTURE(DeviceTest, "norm, embedding, appends and merge in a grid beyond the device's") {
    check_divided(norm(5, 7));
    check_divided(embedding(5, 7));
    check_divided(merge(4, 5, 7));
    for (const vkattn_type type : {VKATTN_TYPE_F32, VKATTN_TYPE_F16, VKATTN_TYPE_Q8_0})
        check_divided(append({5, 4, 300, 32}, type));
}

TEST_CASE_FIXTURE(DeviceTest, "a layer with a cache in grids beyond the device's") {
    const LimitedDevice whole("self_test=0"), divided("self_test=0,max_workgroup_count=1");
    const auto decoded = [](const vkattn::Context &context) {
        const vkattn::Layer layer = small_layer(context);
        SmallDecoder decoder(context, layer, 8);
        std::vector<std::vector<std::uint32_t>> steps;
        for (std::uint8_t i = 0; i < 3; ++i) {
            std::mt19937 random(i);
            steps.push_back(decoder.step(normal_tensor(VKATTN_TYPE_F32, {kDecoderWidth}, random).bytes()));
        }
        return steps;
    };
    CHECK(decoded(divided.context()) == decoded(whole.context()));
}

TEST_CASE_FIXTURE(DeviceTest, "65537 tokens, heads, sequences, rows and blocks") {
    constexpr std::uint64_t n = 65537;
    check_on_test_device(norm(1, n));
    check_on_test_device(norm(n, 1));
    check_on_test_device(embedding(n, 1));
    check_on_test_device(embedding(1, n));
    check_on_test_device(merge(n, 1, 1));
    check_on_test_device(merge(1, n, 1));
    check_on_test_device(merge(1, 1, n));
    check_on_test_device(append({n, 1, 1, 4}, VKATTN_TYPE_F16));
    check_on_test_device(append({1, n, 1, 4}, VKATTN_TYPE_F16));
    check_on_test_device(append({1, 1, 64 * n, 2}, VKATTN_TYPE_F16));
    std::uint32_t dispatches = 0;
    linear(16 * n, 1, 1, VKATTN_TYPE_F32)(test_device(), dispatches);
    linear(1, 1, n, VKATTN_TYPE_F32)(test_device(), dispatches);
}

TEST_CASE_FIXTURE(DeviceTest, "attention of 65537 sequences and of 131074 heads") {
    for (const AttentionProblem &problem :
         {attention_problem(65537, 1, 1, 2, 4), attention_problem(1, 65537, 1, 2, 4)}) {
        const AttentionReference reference = reference_attention(problem);
        for (const vkattn_kernel kernel : {VKATTN_KERNEL_AUTO, VKATTN_KERNEL_UNFUSED}) {
            INFO(kernel_text(kernel));
            AttentionResults results = all_results(problem, kernel, VKATTN_TYPE_F32);
            check_attention(problem, reference, results, kernel);
        }
    }
}

namespace {

std::uint64_t sum(const std::vector<std::uint64_t> &numbers) {
    return std::accumulate(numbers.begin(), numbers.end(), std::uint64_t{0});
}

struct Submitted {
    std::vector<float> results;
    std::vector<std::vector<std::uint64_t>> submissions; // workgroups of each dispatch
};

Submitted submitted(const Compute &compute, const std::string &megaflops) {
    const std::string traits =
        "scalar_address_loads=0,most_addressed_linear_rows=0,self_test=0,max_dispatch_megaflops=";
    load_vulkan();
    const LimitedDevice device((traits + megaflops).c_str(), counted_instance_function);
    vulkan_calls().clear();
    std::uint32_t dispatches = 0;
    Submitted all{compute(device.device(), dispatches), vulkan_calls().submissions};
    std::erase_if(all.submissions, [](const auto &each) { return each.empty(); }); // copies
    std::size_t counted = 0;
    for (const auto &submission : all.submissions) counted += submission.size();
    CHECK(counted == dispatches);
    return all;
}

// flops: of the only grid, whose workgroups all have as many.
void check_bounded(const Compute &compute, double flops, double megaflops) {
    const Submitted whole = submitted(compute, "0");
    REQUIRE(whole.submissions.size() == 1);
    REQUIRE(whole.submissions[0].size() == 1);
    const double flops_of_workgroup = flops / static_cast<double>(whole.submissions[0][0]);
    const Submitted bounded = submitted(compute, std::to_string(static_cast<int>(megaflops)));
    CHECK(bounded.results == whole.results);
    CHECK(static_cast<double>(bounded.submissions.size()) >= flops / megaflops * 1e-6);
    std::uint64_t workgroups = 0;
    for (const auto &submission : bounded.submissions) {
        CHECK(flops_of_workgroup * static_cast<double>(sum(submission)) <= megaflops * 1e6);
        workgroups += sum(submission);
    }
    CHECK(workgroups == whole.submissions[0][0]);
}

} // namespace

TEST_CASE_FIXTURE(DeviceTest, "no dispatch or submission of linear has more operations than the device may be given") {
    check_bounded(linear(320, 64, 96, VKATTN_TYPE_F32), 2.0 * 2 * 320 * 64 * 96, 1);
}

TEST_CASE_FIXTURE(DeviceTest,
                  "no dispatch or submission of attention has more operations than the device may be given") {
    const AttentionProblem problem = attention_problem(2, 2, 256, 250, 32);
    check_bounded(attention(problem, VKATTN_KERNEL_FLASH), 2.0 * 2 * 4 * 256 * 250 * (32 + 32), 20);
}

TEST_CASE_FIXTURE(DeviceTest, "dispatches that wait for each other are bounded as well, in as many submissions") {
    const Compute compute = attention(attention_problem(2, 2, 60, 700, 16), VKATTN_KERNEL_UNFUSED);
    const Submitted whole = submitted(compute, "0"), bounded = submitted(compute, "8");
    REQUIRE(whole.submissions.size() == 1);
    CHECK(whole.submissions[0].size() == 3);
    CHECK(bounded.results == whole.results);
    const double flops = 8 * 2.0 * 2 * 4 * 60 * 700 * (16 + 16); // each counts as eight, see unfused.cpp
    CHECK(static_cast<double>(bounded.submissions.size()) >= flops / 8e6);
    std::uint64_t workgroups = 0;
    for (const auto &submission : bounded.submissions) workgroups += sum(submission);
    CHECK(workgroups == sum(whole.submissions[0]));
}

TEST_SUITE_END();
