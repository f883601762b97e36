// The operator attention without masks: head sizes, lengths, head counts, storage types, layouts, extreme numbers.
#include "compare.hpp"
#include "device.hpp"

#include <doctest/doctest.h>

#include <array>
#include <sstream>

using namespace vkattn_test;

namespace {

struct Types {
    vkattn_type query = VKATTN_TYPE_F32;
    vkattn_type key = VKATTN_TYPE_F32;
    vkattn_type value = VKATTN_TYPE_F32;
    vkattn_type output = VKATTN_TYPE_F32;
};

AttentionProblem random_problem(const AttentionSizes &s, const Types &types = {}, unsigned seed = 1) {
    std::mt19937 random(seed);
    AttentionProblem problem;
    problem.query = normal_tensor(types.query, {s.batch, s.query_heads, s.q_len, s.head_dim}, random);
    problem.key = normal_tensor(types.key, {s.batch, s.kv_heads, s.kv_len, s.head_dim}, random);
    problem.value = normal_tensor(types.value, {s.batch, s.kv_heads, s.kv_len, s.v_head_dim}, random);
    return problem;
}

std::string text(const AttentionSizes &s, const Types &types = {}) {
    std::ostringstream out;
    out << "B " << s.batch << ", Hq " << s.query_heads << ", Hkv " << s.kv_heads << ", Lq " << s.q_len << ", Lk "
        << s.kv_len << ", D " << s.head_dim << ", Dv " << s.v_head_dim << ", types " << type_name(types.query) << " "
        << type_name(types.key) << " " << type_name(types.value) << " -> " << type_name(types.output);
    return out.str();
}

void check_sizes(const AttentionSizes &s, const Types &types = {}) {
    INFO(text(s, types));
    check_every_kernel(random_problem(s, types), types.output);
}

constexpr vkattn_type kF32 = VKATTN_TYPE_F32;
constexpr vkattn_type kF16 = VKATTN_TYPE_F16;
constexpr vkattn_type kBF16 = VKATTN_TYPE_BF16;
constexpr vkattn_type kQ8 = VKATTN_TYPE_Q8_0;
constexpr vkattn_type kQ4 = VKATTN_TYPE_Q4_0;

// Every pair of types in every pair of places, in nine rows instead of eighty-one.
constexpr std::array<Types, 9> kPairwiseTypes = {{{kF32, kF32, kF32, kF32},
                                                  {kF32, kF16, kF16, kF16},
                                                  {kF32, kBF16, kBF16, kBF16},
                                                  {kF16, kF32, kF16, kBF16},
                                                  {kF16, kF16, kBF16, kF32},
                                                  {kF16, kBF16, kF32, kF16},
                                                  {kBF16, kF32, kBF16, kF16},
                                                  {kBF16, kF16, kF32, kBF16},
                                                  {kBF16, kBF16, kF16, kF32}}};

} // namespace

TEST_SUITE_BEGIN("attention.sizes");

TEST_CASE_FIXTURE(DeviceTest, "every head size at lengths on both sides of a tile") {
    for (const std::size_t head_dim : {1, 3, 8, 16, 40, 64, 72, 80, 96, 128}) {
        check_sizes({1, 2, 1, 7, 31, head_dim, head_dim});
        check_sizes({2, 2, 2, 33, 64, head_dim, head_dim});
        check_sizes({1, 1, 1, 1, 257, head_dim, head_dim});
    }
}

TEST_CASE_FIXTURE(DeviceTest, "large head sizes, and values of another size than keys") {
    check_sizes({1, 2, 1, 5, 37, 192, 128});
    check_sizes({1, 1, 1, 33, 65, 256, 256});
    check_sizes({1, 2, 1, 3, 35, 576, 512});
    check_sizes({1, 1, 1, 2, 33, 576, 576});
}

TEST_CASE_FIXTURE(DeviceTest, "values wider or narrower than keys by far") {
    check_sizes({1, 1, 1, 9, 40, 1, 96});
    check_sizes({1, 1, 1, 9, 40, 65, 3});
}

TEST_CASE_FIXTURE(DeviceTest, "values that are the first elements of the keys") {
    for (const Types &types : {Types{}, Types{kF16, kF16, kF16, kF32}, Types{kF32, kQ8, kQ8, kF32}}) {
        for (const std::size_t q_len : {1, 7, 33}) {
            const AttentionSizes s{2, 6, 1, q_len, 70, 96, 64};
            INFO(text(s, types));
            AttentionProblem problem = random_problem(s, types);
            HostTensor beginnings(types.value, {2, 1, 70, 64}); // what is read if V is taken to be a tensor of its own
            for (std::uint64_t row = 0; row < 140; ++row) {
                const std::size_t bytes = problem.key.bytes().size() / 140, begin = beginnings.bytes().size() / 140;
                std::memcpy(beginnings.bytes().data() + row * begin, problem.key.bytes().data() + row * bytes, begin);
            }
            problem.value = beginnings;
            const AttentionReference reference = reference_attention(problem);
            problem.value = HostTensor();
            AttentionResults results;
            results.output = HostTensor(types.output, {2, 6, q_len, 64});
            for (const vkattn_kernel kernel : kernels_for(describe(problem, results, VKATTN_KERNEL_AUTO))) {
                INFO("kernel ", kernel_text(kernel));
                run_attention(problem, results,
                              test_device().context().attention_plan(describe(problem, results, kernel)));
                const Comparison comparison =
                    compare("output", results.output.shape(), reference.output, results.output.floats(),
                            nmse_bound({types.query, types.key, types.output}));
                CHECK_MESSAGE(comparison.passed, comparison.report);
            }
        }
    }
}

TEST_CASE_FIXTURE(DeviceTest, "every pair of lengths") {
    for (const std::size_t q_len : {1, 2, 7, 33, 64, 65}) {
        for (const std::size_t kv_len : {1, 5, 31, 32, 33, 64, 257}) check_sizes({1, 2, 1, q_len, kv_len, 16, 16});
    }
}

TEST_CASE_FIXTURE(DeviceTest, "long contexts") {
    check_sizes({1, 2, 1, 33, 1024, 64, 64});
    check_sizes({1, 4, 1, 1, 8192, 64, 64});
    check_sizes({1, 1, 1, 7, 8192, 64, 64});
    check_sizes({1, 1, 1, 3, 8192, 128, 128});
    check_sizes({1, 1, 1, 2, 131072, 8, 8});
    check_sizes({1, 1, 1, 1, 131072, 64, 64});
}

TEST_CASE_FIXTURE(DeviceTest, "batches of multi-head, grouped-query and multi-query attention in both head mappings") {
    constexpr std::array<std::array<std::size_t, 2>, 5> kHeads = {{{1, 1}, {4, 4}, {6, 2}, {6, 3}, {5, 1}}};
    for (const auto mapping : {VKATTN_KV_HEADS_GROUPED, VKATTN_KV_HEADS_MODULO}) {
        for (const auto &[query_heads, kv_heads] : kHeads) {
            const AttentionSizes sizes{3, query_heads, kv_heads, 9, 41, 16, 16};
            INFO(text(sizes), ", mapping ", static_cast<int>(mapping));
            AttentionProblem problem = random_problem(sizes);
            problem.kv_head_mapping = mapping;
            check_every_kernel(problem);
        }
    }
}

TEST_CASE_FIXTURE(DeviceTest, "the kernel left open is one that serves") {
    const AttentionProblem problem = random_problem({1, 2, 2, 5, 9, 16, 16});
    const AttentionReference reference = reference_attention(problem);
    AttentionResults fused = all_results(problem, VKATTN_KERNEL_AUTO, kF32);
    check_attention(problem, reference, fused, VKATTN_KERNEL_AUTO);
    AttentionResults with_weights = all_results(problem, VKATTN_KERNEL_UNFUSED, kF32);
    check_attention(problem, reference, with_weights, VKATTN_KERNEL_AUTO);
}

TEST_CASE_FIXTURE(DeviceTest, "an output alone needs no log_sum_exp") {
    const AttentionProblem problem = random_problem({1, 2, 1, 5, 9, 16, 16});
    const AttentionReference reference = reference_attention(problem);
    for (const vkattn_kernel kernel : kernels_for(problem)) {
        AttentionResults results;
        results.output = HostTensor(kF32, {1, 2, 5, 16});
        check_attention(problem, reference, results, kernel);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "scores are given at each stage") {
    AttentionProblem problem = random_problem({2, 2, 1, 9, 37, 16, 16});
    problem.softcap = 1.5f;
    problem.mask_flags = VKATTN_MASK_CAUSAL;
    for (const auto stage : {VKATTN_SCORES_SCALED, VKATTN_SCORES_CAPPED, VKATTN_SCORES_MASKED, VKATTN_SCORES_WEIGHTS}) {
        CAPTURE(stage);
        problem.score_stage = stage;
        check_every_kernel(problem);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "scores or weights may be asked for alone") {
    const AttentionProblem problem = random_problem({1, 2, 1, 9, 37, 16, 16});
    const AttentionReference reference = reference_attention(problem);
    AttentionResults results = all_results(problem, VKATTN_KERNEL_UNFUSED, kF32);
    AttentionResults weights_only = results;
    weights_only.qk_matmul_output = {};
    check_attention(problem, reference, weights_only, VKATTN_KERNEL_AUTO);
    AttentionResults scores_only = results;
    scores_only.attn_weights = {};
    check_attention(problem, reference, scores_only, VKATTN_KERNEL_AUTO);
}

TEST_SUITE_END();
TEST_SUITE_BEGIN("attention.types");

TEST_CASE_FIXTURE(DeviceTest, "every pair of storage types") {
    for (const Types &types : kPairwiseTypes) check_sizes({2, 2, 1, 7, 41, 40, 40}, types);
}

TEST_CASE_FIXTURE(DeviceTest, "16-bit rows of odd length share 32-bit words") {
    for (const Types &types : kPairwiseTypes) check_sizes({1, 3, 1, 5, 35, 7, 5}, types);
}

TEST_CASE_FIXTURE(DeviceTest, "16-bit head size 1") {
    check_sizes({2, 3, 1, 5, 33, 1, 1}, {kF16, kF16, kF16, kF16});
    check_sizes({2, 3, 1, 5, 33, 1, 1}, {kBF16, kBF16, kBF16, kBF16});
}

TEST_CASE_FIXTURE(DeviceTest, "16-bit storage at the head sizes of models") {
    check_sizes({1, 4, 2, 65, 130, 128, 128}, {kF16, kF16, kF16, kF16});
    check_sizes({1, 4, 2, 33, 70, 64, 64}, {kBF16, kBF16, kBF16, kBF16});
    check_sizes({1, 2, 1, 3, 35, 576, 512}, {kBF16, kBF16, kBF16, kBF16});
}

TEST_CASE_FIXTURE(DeviceTest, "quantised K and V, each by itself and with every other type") {
    constexpr AttentionSizes kTiles = {1, 2, 2, 33, 35, 32, 96}, kGroups = {2, 4, 2, 7, 41, 64, 64},
                             kParts = {1, 3, 1, 1, 300, 128, 64}, kWideValues = {2, 8, 1, 1, 70, 64, 128};
    for (const Types &types : {Types{kF32, kQ8, kQ4, kF32}, Types{kF32, kQ4, kF16, kBF16},
                               Types{kBF16, kF32, kQ8, kF32}, Types{kF32, kBF16, kQ4, kF32}})
        for (const AttentionSizes &sizes : {kTiles, kGroups, kParts, kWideValues}) check_sizes(sizes, types);
    std::size_t turn = 0;
    for (const vkattn_type type : quantised_types()) {
        const bool odd = turn++ % 2 != 0;
        check_sizes(odd ? kTiles : kParts, {kF32, type, type, kF32});
        check_sizes(odd ? kWideValues : kGroups, {kF16, type, type, kF16});
        check_sizes(odd ? kParts : kTiles, {kF16, type, type, kF16});
    }
}

TEST_CASE_FIXTURE(DeviceTest, "subnormal and largest f16 values are read exactly") {
    AttentionProblem problem = random_problem({1, 1, 1, 4, 8, 4, 4}, {kF16, kF16, kF16, kF32});
    for (std::uint64_t i = 0; i < problem.value.elements(); ++i) {
        problem.value.set(i, i % 2 == 0 ? std::ldexp(static_cast<float>(i + 1), -24) : 65504.0f);
    }
    for (std::uint64_t i = 0; i < problem.query.elements(); ++i) problem.query.set(i, std::ldexp(3.0f, -24));
    check_every_kernel(problem);
}

TEST_CASE_FIXTURE(DeviceTest, "every finite value of 8 bits passes through a single key unchanged") {
    for (const vkattn_type type : {VKATTN_TYPE_F8_E4M3, VKATTN_TYPE_F8_E5M2}) {
        CAPTURE(type_name(type));
        AttentionProblem problem = random_problem({1, 1, 1, 1, 1, 32, 256}, {kF32, kF32, type, kF32});
        const std::span<std::uint8_t> bytes = problem.value.bytes();
        for (std::size_t bits = 0; bits < bytes.size(); ++bits) {
            bytes[bits] = static_cast<std::uint8_t>(bits);
            if (!std::isfinite(problem.value.get(bits))) bytes[bits] = 0;
        }
        check_every_kernel(problem);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "every finite f16 and bf16 value passes through a single key unchanged") {
    for (const vkattn_type type : {kF16, kBF16}) {
        CAPTURE(type_name(type));
        AttentionProblem problem = random_problem({32, 4, 4, 1, 1, 4, 512}, {kF32, kF32, type, type});
        const std::span<std::uint8_t> bytes = problem.value.bytes();
        const unsigned infinity = type == kF16 ? 0x7c00u : 0x7f80u;
        for (unsigned bits = 0; bits < 0x10000u; ++bits) {
            const unsigned finite = (bits & infinity) == infinity ? bits & 0x8000u : bits;
            bytes[2 * bits] = static_cast<std::uint8_t>(finite & 0xffu);
            bytes[2 * bits + 1] = static_cast<std::uint8_t>(finite >> 8);
        }
        for (const vkattn_kernel kernel : kernels_for(problem)) {
            AttentionResults results;
            results.output = HostTensor(type, {32, 4, 1, 512});
            run_attention(problem, results, test_device().context().attention_plan(describe(problem, results, kernel)));
            std::size_t wrong = 0;
            for (std::uint64_t i = 0; i < results.output.elements(); ++i) {
                // f32 arithmetic may flush bf16 subnormals, as Vulkan allows.
                const float expected = problem.value.get(i);
                const bool flushed = std::fabs(expected) < 0x1p-126f && results.output.get(i) == 0.0f;
                wrong += results.output.get(i) == expected || flushed ? 0u : 1u;
            }
            CHECK(wrong == 0);
        }
    }
}

// Also rows that no sixteen bytes hold whole, and heads whose queries are in shared memory.
TEST_CASE_FIXTURE(DeviceTest, "f32 queries are multiplied on matrix units where they may be rounded, and there alone") {
    struct Case {
        vkattn_type stored, rounding;
        AttentionSizes sizes;
    };
    const Case cases[] = {{kF16, kF16, {1, 4, 2, 37, 70, 64, 64}},
                          {kF16, kF16, {1, 2, 1, 33, 45, 20, 12}},
                          {kF16, kF16, {1, 2, 1, 20, 40, 256, 256}},
                          {VKATTN_TYPE_Q8_0, kF16, {1, 4, 1, 9, 300, 64, 64}},
                          {VKATTN_TYPE_Q4_1, kF16, {2, 4, 2, 37, 70, 96, 64}},
                          {kBF16, kBF16, {1, 4, 2, 37, 70, 64, 40}}};
    for (const Case &c : cases) {
        const Types types{kF32, c.stored, c.stored, kF32};
        INFO(text(c.sizes, types), ", rounded to ", type_name(c.rounding));
        AttentionProblem problem = random_problem(c.sizes, types);
        AttentionResults results = all_results(problem, VKATTN_KERNEL_FLASH, kF32);
        CHECK(!serves(describe(problem, results, VKATTN_KERNEL_AUTO), VKATTN_KERNEL_COOPMAT));
        problem.query_rounding = c.rounding;
        const AttentionReference reference = reference_attention(problem);
        check_attention(problem, reference, results, VKATTN_KERNEL_FLASH);
        if (!serves(describe(problem, results, VKATTN_KERNEL_AUTO), VKATTN_KERNEL_COOPMAT)) {
            CHECK((c.rounding == kBF16 || !has_matrix_kernels())); // few have matrices of bf16
            continue;
        }
        AttentionResults of_matrices = all_results(problem, VKATTN_KERNEL_COOPMAT, kF32);
        check_attention(problem, reference, of_matrices, VKATTN_KERNEL_COOPMAT);
    }
}

TEST_SUITE_END();
