// The operator attention on strided, shifted and broadcast tensors, and on extreme numbers.
#include "device.hpp"
#include "limited_device.hpp"

#include <doctest/doctest.h>

#include <array>

using namespace vkattn_test;

namespace {

enum class Layout { kHeadMajor, kTokenMajor, kTransposed, kGaps, kOddGaps };

std::string layout_name(Layout layout) {
    switch (layout) {
    case Layout::kHeadMajor:
        return "[B,H,L,D]";
    case Layout::kTokenMajor:
        return "[B,L,H,D]";
    case Layout::kTransposed:
        return "[B,H,D,L]";
    case Layout::kGaps:
        return "gaps of 4 after rows, 8 after heads";
    default:
        return "gaps of 3 after rows, 5 after heads, 7 after sequences, first element at 3";
    }
}

// A tensor whose logical shape is [B,H,L,D], stored as the layout says.
HostTensor laid_out(vkattn_type type, const Shape &shape, Layout layout) {
    const std::uint64_t heads = shape[1];
    const std::uint64_t len = shape[2];
    const std::uint64_t dim = shape[3];
    switch (layout) {
    case Layout::kHeadMajor:
        return HostTensor(type, shape);
    case Layout::kTokenMajor:
        return HostTensor(type, shape, {len * heads * dim, dim, heads * dim, 1});
    case Layout::kTransposed:
        return HostTensor(type, shape, {heads * dim * len, dim * len, 1, len});
    case Layout::kGaps: {
        const std::uint64_t row = dim + 4;
        const std::uint64_t head = len * row + 8;
        return HostTensor(type, shape, {heads * head, head, row, 1});
    }
    default: {
        const std::uint64_t row = dim + 3;
        const std::uint64_t head = len * row + 5;
        return HostTensor(type, shape, {heads * head + 7, head, row, 1}, 3);
    }
    }
}

struct Sizes {
    std::uint64_t batch = 2, query_heads = 4, kv_heads = 2, q_len = 9, kv_len = 35, head_dim = 16, v_head_dim = 16;
};

AttentionProblem problem_of(const Sizes &s, vkattn_type type, Layout layout) {
    std::mt19937 random(7);
    AttentionProblem problem;
    problem.query = laid_out(type, {s.batch, s.query_heads, s.q_len, s.head_dim}, layout);
    problem.key = laid_out(type, {s.batch, s.kv_heads, s.kv_len, s.head_dim}, layout);
    problem.value = laid_out(type, {s.batch, s.kv_heads, s.kv_len, s.v_head_dim}, layout);
    for (HostTensor *tensor : {&problem.query, &problem.key, &problem.value}) fill_normal(*tensor, random);
    return problem;
}

void check_layout(const Sizes &s, vkattn_type type, Layout inputs, Layout output) {
    INFO(type_name(type), ", D ", s.head_dim, ", inputs ", layout_name(inputs), ", output ", layout_name(output));
    const AttentionProblem problem = problem_of(s, type, inputs);
    const AttentionReference reference = reference_attention(problem);
    for (const vkattn_kernel kernel : kernels_for(problem)) {
        AttentionResults results;
        results.output = laid_out(type, {s.batch, s.query_heads, s.q_len, s.v_head_dim}, output);
        check_attention(problem, reference, results, kernel);
    }
}

constexpr std::array kTypes = {VKATTN_TYPE_F32, VKATTN_TYPE_F16, VKATTN_TYPE_BF16};

} // namespace

TEST_SUITE_BEGIN("attention.layouts");

TEST_CASE_FIXTURE(DeviceTest, "token-major tensors") {
    for (const vkattn_type type : kTypes) check_layout({}, type, Layout::kTokenMajor, Layout::kTokenMajor);
}

TEST_CASE_FIXTURE(DeviceTest, "head size in an outer dimension of storage") {
    for (const vkattn_type type : kTypes) check_layout({}, type, Layout::kTransposed, Layout::kTransposed);
}

TEST_CASE_FIXTURE(DeviceTest, "gaps are not read and not written") {
    for (const vkattn_type type : kTypes) check_layout({}, type, Layout::kGaps, Layout::kGaps);
}

TEST_CASE_FIXTURE(DeviceTest, "odd gaps put rows of different heads into one 32-bit word") {
    for (const vkattn_type type : kTypes) {
        check_layout({}, type, Layout::kOddGaps, Layout::kOddGaps);
        check_layout({.head_dim = 5, .v_head_dim = 3}, type, Layout::kOddGaps, Layout::kOddGaps);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "a transposed 16-bit output shares every word between two queries") {
    for (const vkattn_type type : kTypes) {
        check_layout({.q_len = 33, .head_dim = 8, .v_head_dim = 5}, type, Layout::kHeadMajor, Layout::kTransposed);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "keys, values and queries may be broadcast by stride 0") {
    std::mt19937 random(11);
    AttentionProblem problem;
    problem.query = HostTensor(VKATTN_TYPE_F32, {2, 4, 9, 16}, {0, 9 * 16, 16, 1});
    problem.key = HostTensor(VKATTN_TYPE_F16, {2, 2, 35, 16}, {0, 35 * 16, 16, 1});
    problem.value = HostTensor(VKATTN_TYPE_F16, {2, 2, 35, 16}, {35 * 16, 0, 16, 1});
    for (HostTensor *tensor : {&problem.query, &problem.key, &problem.value}) fill_normal(*tensor, random);
    check_every_kernel(problem);
}

TEST_CASE_FIXTURE(DeviceTest, "values may be the first columns of the keys") {
    std::mt19937 random(12);
    AttentionProblem problem;
    problem.query = normal_tensor(VKATTN_TYPE_F32, {1, 4, 3, 24}, random);
    problem.key = normal_tensor(VKATTN_TYPE_F16, {1, 1, 35, 24}, random);
    problem.value = HostTensor(VKATTN_TYPE_F16, {1, 1, 35, 16}, {35 * 24, 35 * 24, 24, 1});
    const HostTensor columns = first_columns(problem.key, 16);
    for (std::uint64_t i = 0; i < columns.elements(); ++i) problem.value.set(i, columns.get(i));
    check_every_kernel(problem);
}

TEST_CASE_FIXTURE(DeviceTest, "values that are not given are the first elements of the keys") {
    std::mt19937 random(13);
    AttentionProblem problem;
    problem.value_in_key = true;
    for (const vkattn_type type : {VKATTN_TYPE_F32, VKATTN_TYPE_F16, VKATTN_TYPE_BF16, VKATTN_TYPE_Q8_0}) {
        for (const std::uint64_t v_head_dim : {64, 96}) {
            INFO(type_name(type), ", Dv ", v_head_dim);
            problem.query = normal_tensor(is_quantised(type) ? VKATTN_TYPE_F32 : type, {2, 6, 5, 96}, random);
            problem.key = normal_tensor(type, {2, 1, 700, 96}, random);
            problem.value = first_columns(problem.key, v_head_dim);
            check_every_kernel(problem);
        }
    }
}

TEST_CASE_FIXTURE(DeviceTest, "latents are decoded by latent_decode, and nothing else is") {
    std::mt19937 random(14);
    AttentionProblem problem;
    problem.query = normal_tensor(VKATTN_TYPE_F32, {1, 16, 1, 64}, random);
    problem.key = normal_tensor(VKATTN_TYPE_F32, {1, 1, 2000, 64}, random);
    problem.value = first_columns(problem.key, 32);
    const LimitedDevice device("parallel_workgroups=64,matrix_units=0,scalar_address_loads=0");
    const auto chosen = [&](bool value_in_key, vkattn_kernel kernel) {
        problem.value_in_key = value_in_key;
        const AttentionResults results = all_results(problem, kernel, VKATTN_TYPE_F32);
        return device.context().attention_plan(describe(problem, results, kernel)).report().kernel;
    };
    CHECK(chosen(true, VKATTN_KERNEL_AUTO) == VKATTN_KERNEL_LATENT_DECODE);
    CHECK(chosen(false, VKATTN_KERNEL_AUTO) == VKATTN_KERNEL_DECODE);
    CHECK(chosen(true, VKATTN_KERNEL_DECODE) == VKATTN_KERNEL_DECODE);
    CHECK_THROWS_WITH_AS(chosen(false, VKATTN_KERNEL_LATENT_DECODE),
                         "kernel: latent_decode, and value has rows of its own, expected the first elements of key's "
                         "rows, or another kernel",
                         vkattn::Error);
}

// Their loads are loops; keys enough for the tiles of one dispatch if a trip of each load were not counted.
TEST_CASE_FIXTURE(DeviceTest, "rows that begin anywhere, over more keys than loops may have iterations") {
    std::mt19937 random(97);
    const std::uint64_t keys = test_device().facts().max_loop_iterations != 0 ? 2240 : 70;
    for (const std::uint64_t head_dim : {100, 101}) {
        INFO("D ", head_dim);
        AttentionProblem problem;
        problem.query = normal_tensor(VKATTN_TYPE_F32, {1, 1, 1, head_dim}, random);
        problem.key = normal_tensor(VKATTN_TYPE_F32, {1, 1, keys, head_dim}, random);
        problem.value = normal_tensor(VKATTN_TYPE_F32, {1, 1, keys, head_dim}, random);
        check_every_kernel(problem);
    }
}

TEST_SUITE_END();
TEST_SUITE_BEGIN("attention.numbers");

TEST_CASE_FIXTURE(DeviceTest, "a scale takes the place of the default") {
    AttentionProblem problem = problem_of({}, VKATTN_TYPE_F32, Layout::kHeadMajor);
    for (const float scale : {0.03f, 1.0f, -0.4f}) {
        CAPTURE(scale);
        problem.scale = scale;
        check_every_kernel(problem);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "logits up to ten thousand") {
    AttentionProblem problem = problem_of({.kv_len = 70}, VKATTN_TYPE_F32, Layout::kHeadMajor);
    problem.scale = 600.0f;
    const AttentionReference reference = reference_attention(problem);
    CHECK(reference.largest_score > 5e3);
    check_every_kernel(problem);
    problem.softcap = 9e3f;
    check_every_kernel(problem);
}

TEST_CASE_FIXTURE(DeviceTest, "constant rows average the values at any height of the logits") {
    for (const float logit : {0.0f, 80.0f, -80.0f, 1e4f, -1e4f}) {
        CAPTURE(logit);
        AttentionProblem problem = problem_of({.kv_len = 257}, VKATTN_TYPE_F32, Layout::kHeadMajor);
        problem.scale = logit / 16.0f != 0.0f ? logit / 16.0f : 1.0f;
        for (std::uint64_t i = 0; i < problem.query.elements(); ++i) problem.query.set(i, logit != 0.0f ? 1.0f : 0.0f);
        for (std::uint64_t i = 0; i < problem.key.elements(); ++i) problem.key.set(i, 1.0f);
        check_every_kernel(problem);
    }
}

TEST_CASE_FIXTURE(DeviceTest,
                  "large values average as long as their sum is a number, and unfused averages larger ones") {
    constexpr std::uint64_t kKeys = 70;
    AttentionProblem problem = problem_of({.kv_len = kKeys}, VKATTN_TYPE_F32, Layout::kHeadMajor);
    const auto fill = [](HostTensor &tensor, float value) {
        for (std::uint64_t i = 0; i < tensor.elements(); ++i) tensor.set(i, value);
    };
    fill(problem.query, 0.0f);
    fill(problem.value, 3e38f / static_cast<float>(kKeys));
    check_every_kernel(problem);
    fill(problem.value, 3e38f);
    AttentionResults results = all_results(problem, VKATTN_KERNEL_UNFUSED, VKATTN_TYPE_F32);
    check_attention(problem, reference_attention(problem), results, VKATTN_KERNEL_UNFUSED);
}

TEST_CASE_FIXTURE(DeviceTest, "a rising row: the maximum comes last") {
    AttentionProblem problem =
        problem_of({.q_len = 3, .kv_len = 300, .head_dim = 1}, VKATTN_TYPE_F32, Layout::kHeadMajor);
    for (const float step : {0.125f, 30.0f}) {
        CAPTURE(step);
        for (std::uint64_t i = 0; i < problem.query.elements(); ++i) problem.query.set(i, 1.0f);
        for (std::uint64_t i = 0; i < problem.key.elements(); ++i) {
            problem.key.set(i, step * static_cast<float>(i % 300));
        }
        check_every_kernel(problem);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "f16 products beyond the range of f16 stay finite") {
    AttentionProblem problem = problem_of({}, VKATTN_TYPE_F16, Layout::kHeadMajor);
    for (std::uint64_t i = 0; i < problem.query.elements(); ++i) problem.query.set(i, problem.query.get(i) * 1000.0f);
    for (std::uint64_t i = 0; i < problem.key.elements(); ++i) problem.key.set(i, problem.key.get(i) * 1000.0f);
    problem.scale = 1e-6f;
    check_every_kernel(problem);
}

TEST_CASE_FIXTURE(DeviceTest, "the same call gives the same bits") {
    const AttentionProblem problem = problem_of({.q_len = 65, .kv_len = 300}, VKATTN_TYPE_F16, Layout::kTokenMajor);
    for (const vkattn_kernel kernel : kernels_for(problem)) {
        INFO("kernel ", kernel_text(kernel));
        AttentionResults first = all_results(problem, kernel, VKATTN_TYPE_F32);
        const vkattn::Plan plan = test_device().context().attention_plan(describe(problem, first, kernel));
        run_attention(problem, first, plan);
        for (int repeat = 0; repeat < 3; ++repeat) {
            AttentionResults again = all_results(problem, kernel, VKATTN_TYPE_F32);
            run_attention(problem, again, test_device().context().attention_plan(describe(problem, again, kernel)));
            CHECK(std::ranges::equal(first.output.bytes(), again.output.bytes()));
            CHECK(std::ranges::equal(first.log_sum_exp.bytes(), again.log_sum_exp.bytes()));
        }
    }
}

TEST_CASE_FIXTURE(DeviceTest, "regions begin at any word where a plan is made for it, and there alone") {
    std::mt19937 random(61);
    const vkattn_type types[] = {VKATTN_TYPE_F32, VKATTN_TYPE_F16, VKATTN_TYPE_BF16, VKATTN_TYPE_Q8_0,
                                 VKATTN_TYPE_Q4_1};
    std::size_t turn = 0;
    for (const vkattn_type type : types) {
        const bool quantised = type == VKATTN_TYPE_Q8_0 || type == VKATTN_TYPE_Q4_1;
        AttentionProblem problem;
        problem.query = normal_tensor(quantised ? VKATTN_TYPE_F16 : type, {2, 4, 19, 64}, random);
        problem.key = normal_tensor(type, {2, 2, 75, 64}, random);
        problem.value = normal_tensor(type, {2, 2, 75, 64}, random);
        problem.attn_mask = normal_tensor(VKATTN_TYPE_F16, {19, 75}, random);
        problem.sinks = normal_tensor(VKATTN_TYPE_F32, {4}, random);
        problem.score_stage = VKATTN_SCORES_MASKED;
        const std::uint64_t shift = std::array{4, 8, 12}[turn++ % 3];
        INFO(type_name(type), ", shifted by ", shift);
        const ShiftedRegions shifted(shift);
        AttentionResults results = all_results(problem, VKATTN_KERNEL_FLASH, VKATTN_TYPE_F32);
        const vkattn::Plan wants_more =
            test_device().context().attention_plan(describe(problem, results, VKATTN_KERNEL_FLASH));
        CHECK_THROWS_WITH_AS(run_attention(problem, results, wants_more),
                             doctest::Contains("expected a multiple of 16"), vkattn::Error);
        problem.region_alignment = shift == 8 ? 8 : 4;
        const AttentionReference reference = reference_attention(problem);
        for (const vkattn_kernel kernel : {VKATTN_KERNEL_FLASH, VKATTN_KERNEL_DECODE, VKATTN_KERNEL_UNFUSED,
                                           VKATTN_KERNEL_COOPMAT, VKATTN_KERNEL_ADDRESSES}) {
            if (!serves(describe(problem, results, VKATTN_KERNEL_AUTO), kernel)) continue;
            AttentionResults of_kernel = all_results(problem, kernel, VKATTN_TYPE_F32);
            check_attention(problem, reference, of_kernel, kernel);
        }
    }
}

TEST_SUITE_END();
