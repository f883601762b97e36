// coopmat with the next tile on its way, on any device whose matrices of sums can become factors, whether or not it pays there.
#include "compare.hpp"
#include "limited_device.hpp"

#include "vkattn_shaders/table.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <span>

using namespace vkattn_test;

namespace {

struct Case {
    vkattn_type type = VKATTN_TYPE_F16;
    std::uint64_t q_len = 70, kv_len = 150, head_dim = 24, v_head_dim = 24;
    bool causal = true, lengths = false;
    float dropout_p = 0.0f;
};

AttentionProblem problem_of(const Case &c) {
    std::mt19937 random(33);
    AttentionProblem problem;
    problem.query = normal_tensor(c.type, {2, 4, c.q_len, c.head_dim}, random);
    problem.key = normal_tensor(c.type, {2, 2, c.kv_len, c.head_dim}, random);
    problem.value = normal_tensor(c.type, {2, 2, c.kv_len, c.v_head_dim}, random);
    problem.mask_flags = c.causal ? VKATTN_MASK_CAUSAL : VKATTN_MASK_NONE;
    problem.causal_alignment = VKATTN_CAUSAL_BOTTOM_RIGHT;
    problem.dropout_p = c.dropout_p;
    problem.dropout_seed = 7;
    if (c.lengths) {
        problem.key_lengths = HostTensor(VKATTN_TYPE_I32, {2});
        problem.key_lengths.set(0, 101);
        problem.key_lengths.set(1, static_cast<float>(c.kv_len));
    }
    return problem;
}

bool can_load_ahead(vkattn_type type) {
    const vkattn_device_facts &facts = test_device().facts();
    const auto shapes = std::span(facts.matrix_shapes, facts.matrix_shape_count);
    const bool is_bf16 = type == VKATTN_TYPE_BF16;
    return can_run(facts, VKATTN_KERNEL_COOPMAT) &&
           vkattn::is_built(is_bf16 ? vkattn::shaders::coopmat_ahead_bf16 : vkattn::shaders::coopmat_ahead) &&
           facts.cooperative_matrix_reductions != 0 && std::ranges::count(shapes, type, &vkattn_matrix_shape::type) > 0;
}

void check(const AttentionProblem &problem) {
    if (!can_load_ahead(problem.query.type())) return;
    const LimitedDevice device("unroll_matrices=1");
    AttentionResults results;
    const Shape &query = problem.query.shape();
    const Shape output{query[0], query[1], query[2], problem.value.shape()[3]};
    results.output = HostTensor(VKATTN_TYPE_F32, output);
    const vkattn_attention_desc desc = describe(problem, results, VKATTN_KERNEL_COOPMAT);
    for (const vkattn_option &option : device.context().explain(desc))
        if (option.kernel == VKATTN_KERNEL_COOPMAT)
            CHECK_MESSAGE(std::string(option.shape).find("loaded ahead") != std::string::npos, option.shape);
    const std::vector<float> computed = device.run(problem, desc, results.output);
    const Comparison comparison = compare("output", output, reference_attention(problem).output, computed,
                                          nmse_bound({problem.query.type(), problem.value.type()}));
    CHECK_MESSAGE(comparison.passed, comparison.report);
}

} // namespace

TEST_SUITE_BEGIN("attention.numbers");

// Few: CPU drivers take long over shaders that are unrolled.
TEST_CASE_FIXTURE(DeviceTest, "tiles that are loaded ahead: few rows in parts, dropout, bf16") {
    for (const Case &c : {Case{.q_len = 12, .kv_len = 400, .lengths = true, .dropout_p = 0.3f},
                          Case{.type = VKATTN_TYPE_BF16, .q_len = 9, .head_dim = 40, .causal = false}}) {
        INFO(type_name(c.type), ", q_len ", c.q_len, ", head_dim ", c.head_dim);
        check(problem_of(c));
    }
}

TEST_CASE_FIXTURE(DeviceTest, "tiles that are loaded ahead: hidden values that are no numbers") {
    AttentionProblem problem = problem_of({.lengths = true});
    const std::uint64_t dims = 24, keys = 150;
    for (std::uint64_t i = 0; i < 40 * dims; ++i) problem.value.set(101 * dims + i, NAN); // behind a sequence's keys
    for (std::uint64_t dim = 0; dim < dims; ++dim) // what the last row alone sees
        problem.value.set((3 * keys + keys - 1) * dims + dim, dim % 2 == 0 ? INFINITY : -INFINITY);
    check(problem);
}

TEST_SUITE_END();
