// Dropout of weights, the same in every kernel, and results whose bits do not depend on the rest of the batch.
#include "compare.hpp"
#include "device.hpp"
#include "limited_device.hpp"
#include "philox.hpp"

#include <doctest/doctest.h>

using namespace vkattn_test;

namespace {

AttentionProblem random_problem(const AttentionSizes &s, unsigned seed) {
    std::mt19937 random(seed);
    AttentionProblem problem;
    problem.query = normal_tensor(VKATTN_TYPE_F32, {s.batch, s.query_heads, s.q_len, s.head_dim}, random);
    problem.key = normal_tensor(VKATTN_TYPE_F32, {s.batch, s.kv_heads, s.kv_len, s.head_dim}, random);
    problem.value = normal_tensor(VKATTN_TYPE_F32, {s.batch, s.kv_heads, s.kv_len, s.v_head_dim}, random);
    return problem;
}

// Entry `entry` of a batch of [B,H,L,D], by itself, with room for `rows` positions.
HostTensor entry_of(const HostTensor &from, std::uint64_t entry, std::uint64_t rows) {
    const Shape &shape = from.shape();
    HostTensor to(from.type(), {1, shape[1], rows, shape[3]});
    for (std::uint64_t h = 0; h < shape[1]; ++h)
        for (std::uint64_t i = 0; i < std::min(rows, shape[2]) * shape[3]; ++i)
            to.set(h * rows * shape[3] + i, from.get((entry * shape[1] + h) * shape[2] * shape[3] + i));
    return to;
}

std::vector<float> run(AttentionProblem problem, vkattn_type type) {
    const AttentionSizes s = sizes_of(problem);
    AttentionResults results;
    results.output = HostTensor(type, {s.batch, s.query_heads, s.q_len, s.v_head_dim});
    vkattn_attention_desc desc = describe(problem, results, VKATTN_KERNEL_AUTO);
    desc.batch_invariant = 1;
    const vkattn::Plan plan = test_device().context().attention_plan(desc);
    CHECK(plan.report().kernel == VKATTN_KERNEL_FLASH);
    run_attention(problem, results, plan);
    return results.output.floats();
}

} // namespace

TEST_SUITE_BEGIN("dropout");

TEST_CASE("the tests' own Philox gives the published answers") {
    CHECK(philox({0, 0, 0, 0}, 0) == std::array<std::uint32_t, 4>{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u});
    CHECK(philox({~0u, ~0u, ~0u, ~0u}, ~std::uint64_t{0}) ==
          std::array<std::uint32_t, 4>{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu});
}

TEST_CASE_FIXTURE(DeviceTest, "every kernel drops the same weights") {
    for (const float probability : {0.1f, 0.5f, 0.99f}) {
        for (const AttentionSizes &sizes : {AttentionSizes{2, 4, 2, 9, 70, 24, 40}, {1, 2, 1, 33, 33, 64, 64}}) {
            AttentionProblem problem = random_problem(sizes, 91);
            problem.dropout_p = probability;
            problem.dropout_seed = 0x0123456789abcdefu;
            problem.mask_flags = VKATTN_MASK_CAUSAL;
            problem.causal_alignment = VKATTN_CAUSAL_BOTTOM_RIGHT;
            check_every_kernel(problem);
        }
    }
}

TEST_CASE_FIXTURE(DeviceTest, "as many weights are dropped as asked for, others for another seed") {
    constexpr float kProbability = 0.3f;
    AttentionProblem problem = random_problem({1, 2, 2, 64, 256, 8, 8}, 93);
    problem.dropout_p = kProbability;
    std::vector<std::vector<float>> weights;
    for (const std::uint64_t seed : {1u, 2u}) {
        problem.dropout_seed = seed;
        AttentionResults results = all_results(problem, VKATTN_KERNEL_UNFUSED, VKATTN_TYPE_F32);
        run_attention(problem, results,
                      test_device().context().attention_plan(describe(problem, results, VKATTN_KERNEL_UNFUSED)));
        weights.push_back(results.attn_weights.floats());
        const auto dropped = static_cast<double>(std::ranges::count(weights.back(), 0.0f));
        const auto count = static_cast<double>(weights.back().size());
        const double deviation = std::sqrt(count * kProbability * (1 - kProbability));
        CHECK(std::abs(dropped - kProbability * count) < 5 * deviation);
    }
    CHECK(weights[0] != weights[1]);
}

TEST_CASE_FIXTURE(DeviceTest, "wrong probabilities are named") {
    AttentionProblem problem = random_problem({1, 1, 1, 1, 1, 8, 8}, 94);
    for (const float probability : {-0.1f, 1.0f, NAN}) {
        problem.dropout_p = probability;
        AttentionResults results = all_results(problem, VKATTN_KERNEL_FLASH, VKATTN_TYPE_F32);
        try {
            test_device().context().attention_plan(describe(problem, results, VKATTN_KERNEL_AUTO));
            FAIL("accepted");
        } catch (const vkattn::Error &error) {
            CHECK(std::string(error.what()).find("dropout_p") == 0);
        }
    }
}

TEST_CASE_FIXTURE(DeviceTest, "batch-invariant bits: alone, in a batch, beside longer sequences, in larger buffers") {
    for (const std::uint64_t q_len : {1, 5, 40, 100}) {
        const AttentionSizes s{4, 4, 2, q_len, 600, 64, 64};
        AttentionProblem batch = random_problem(s, 97);
        batch.key_lengths = HostTensor(VKATTN_TYPE_I32, {4});
        const std::array<std::uint64_t, 4> lengths = {600, 37, 200, 599};
        for (std::uint64_t b = 0; b < 4; ++b) batch.key_lengths.set(b, static_cast<float>(lengths[b]));
        batch.mask_flags = VKATTN_MASK_WINDOW;
        batch.window_left = 500;
        batch.past_len = 30;
        const std::vector<float> together = run(batch, VKATTN_TYPE_F32);
        const std::size_t size = together.size() / 4;
        for (std::uint64_t b = 0; b < 4; ++b) {
            for (const std::uint64_t room : {lengths[b], std::uint64_t{600}, std::uint64_t{5000}}) {
                AttentionProblem alone = batch;
                alone.query = entry_of(batch.query, b, q_len);
                alone.key = entry_of(batch.key, b, room);
                alone.value = entry_of(batch.value, b, room);
                alone.key_lengths = HostTensor(VKATTN_TYPE_I32, {1});
                alone.key_lengths.set(0, static_cast<float>(lengths[b]));
                const std::vector<float> own = run(alone, VKATTN_TYPE_F32);
                CHECK(std::equal(own.begin(), own.end(), together.begin() + static_cast<std::ptrdiff_t>(b * size)));
            }
        }
    }
}

TEST_CASE_FIXTURE(DeviceTest, "batch-invariant bits whatever lies between the entries of a batch") {
    const LimitedDevice limited("gpu_class=7"); // stages halves, where rows are aligned
    constexpr std::uint64_t kKeys = 300, kHead = 64, kEntry = 2 * kKeys * kHead + 4; // no multiple of eight
    std::mt19937 random(98);
    std::vector<std::vector<float>> outputs;
    const HostTensor numbers = normal_tensor(VKATTN_TYPE_F16, {2, 2, kKeys, kHead}, random);
    const HostTensor queries = normal_tensor(VKATTN_TYPE_F16, {2, 4, 3, kHead}, random);
    for (const std::uint64_t batch : {1, 2}) {
        AttentionProblem problem;
        problem.query = HostTensor(VKATTN_TYPE_F16, {batch, 4, 3, kHead});
        for (std::uint64_t i = 0; i < problem.query.elements(); ++i) problem.query.set(i, queries.get(i));
        for (HostTensor *tensor : {&problem.key, &problem.value}) {
            *tensor = HostTensor(VKATTN_TYPE_F16, {batch, 2, kKeys, kHead}, {kEntry, kKeys * kHead, kHead, 1});
            for (std::uint64_t i = 0; i < tensor->elements(); ++i) tensor->set(i, numbers.get(i));
        }
        AttentionResults results;
        results.output = HostTensor(VKATTN_TYPE_F32, {batch, 4, 3, kHead});
        vkattn_attention_desc desc = describe(problem, results, VKATTN_KERNEL_AUTO);
        desc.batch_invariant = 1;
        outputs.push_back(limited.run(problem, desc, results.output));
    }
    CHECK(std::equal(outputs[0].begin(), outputs[0].end(), outputs[1].begin()));
}

TEST_SUITE_END();
