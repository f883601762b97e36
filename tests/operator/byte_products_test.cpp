// Decode by dot products of bytes, on any device that takes them, whether or not it accelerates them; on others the same by f32.
#include "compare.hpp"
#include "limited_device.hpp"

#include "vkattn_shaders/table.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace vkattn_test;

namespace {

// Tiles as RDNA likes them, in parts of many keys.
std::string traits_of(bool byte_products) {
    return std::string("parallel_workgroups=8,gpu_class=1,byte_products=") + (byte_products ? "1" : "0");
}

struct Case {
    vkattn_type query = VKATTN_TYPE_F16, value = VKATTN_TYPE_Q8_0;
    std::uint64_t heads = 8, kv_heads = 1, q_len = 1, kv_len = 700, head_dim = 128, v_head_dim = 128;
    float deviation = 1.0f;
};

AttentionProblem problem_of(const Case &c) {
    std::mt19937 random(121);
    AttentionProblem problem;
    problem.query = normal_tensor(c.query, {2, c.heads, c.q_len, c.head_dim}, random, c.deviation);
    problem.key = normal_tensor(VKATTN_TYPE_Q8_0, {2, c.kv_heads, c.kv_len, c.head_dim}, random);
    problem.value = normal_tensor(c.value, {2, c.kv_heads, c.kv_len, c.v_head_dim}, random);
    problem.mask_flags = c.q_len > 1 ? VKATTN_MASK_CAUSAL : VKATTN_MASK_NONE;
    problem.causal_alignment = VKATTN_CAUSAL_BOTTOM_RIGHT;
    return problem;
}

std::vector<float> output_of(const AttentionProblem &problem, bool byte_products) {
    const LimitedDevice device(traits_of(byte_products).c_str());
    AttentionResults results;
    const Shape &query = problem.query.shape();
    results.output = HostTensor(VKATTN_TYPE_F32, {query[0], query[1], query[2], problem.value.shape()[3]});
    return device.run(problem, describe(problem, results, VKATTN_KERNEL_DECODE), results.output);
}

bool has_byte_products() {
    return vkattn::is_built(vkattn::shaders::decode_bytes) && test_device().context().facts().integer_dot_product != 0;
}

// The output; of bytes it is not that of products of f32 to the bit.
std::vector<float> check(const AttentionProblem &problem) {
    std::vector<float> output = output_of(problem, true);
    CHECK((output != output_of(problem, false)) == has_byte_products());
    const std::vector<double> expected = reference_attention(problem).output;
    const Shape &query = problem.query.shape();
    const Comparison comparison = compare("output", {query[0], query[1], query[2], problem.value.shape()[3]}, expected,
                                          output, nmse_bound({problem.query.type(), problem.value.type()}));
    CHECK_MESSAGE(comparison.passed, comparison.report);
    return output;
}

} // namespace

TEST_SUITE_BEGIN("attention.numbers");

TEST_CASE_FIXTURE(DeviceTest, "K of q8_0 as bytes: the contract of f16 holds") {
    for (const Case &c :
         {Case{},
          Case{.value = VKATTN_TYPE_F16, .heads = 4, .kv_heads = 2, .q_len = 3, .head_dim = 64, .v_head_dim = 40},
          Case{.query = VKATTN_TYPE_BF16, .value = VKATTN_TYPE_F16, .head_dim = 96, .v_head_dim = 160},
          Case{.value = VKATTN_TYPE_Q4_0, .head_dim = 32, .v_head_dim = 32}, Case{.kv_len = 333, .deviation = 100.0f},
          Case{.deviation = 1e-4f}}) {
        INFO("head_dim ", c.head_dim, ", deviation ", c.deviation);
        check(problem_of(c));
    }
}

TEST_CASE_FIXTURE(DeviceTest, "K of q8_0 as bytes: zeros, outliers, and what is no number") {
    AttentionProblem problem = problem_of({});
    const std::uint64_t dims = 128;
    for (std::uint64_t i = 0; i < dims; ++i) problem.query.set(i, 0.0f); // head 0
    problem.query.set(dims + 5, 300.0f);                                 // head 1
    check(problem);

    problem.query.set(2 * dims + 40, std::numeric_limits<float>::quiet_NaN());
    problem.query.set(3 * dims + 41, std::numeric_limits<float>::infinity());
    const std::vector<float> output = output_of(problem, true);
    for (std::uint64_t head = 0; head < 8; ++head) CHECK(std::isnan(output[head * dims]) == (head == 2 || head == 3));
}

TEST_SUITE_END();
