// linear, norm, embedding and argmax as callers plan them: against float64, in every type, with odd sizes and gaps between
// rows.
#include "activations.hpp"
#include "compare.hpp"
#include "limited_device.hpp"
#include "norms.hpp"
#include "skips.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

using namespace vkattn_test;

namespace {

constexpr vkattn_type kFloats[] = {VKATTN_TYPE_F32, VKATTN_TYPE_F16, VKATTN_TYPE_BF16};

// [batch,len,width] with a gap after every row.
HostTensor rows(vkattn_type type, std::uint64_t batch, std::uint64_t len, std::uint64_t width, std::mt19937 &random,
                std::uint64_t gap = 3) {
    return normal_tensor(type, {batch, len, width}, {len * (width + gap), width + gap, 1}, random);
}

struct LinearProblem {
    HostTensor input, weight, bias, multiplier, residual;
    vkattn_activation activation = VKATTN_ACTIVATION_NONE;
    HostTensor norm; // of the input
    vkattn_optional_float norm_epsilon;
};

std::uint64_t out_features(const LinearProblem &p) {
    const auto shape = p.weight.shape(); // [out,in], gated [2,out,in]
    return shape[shape.size() - 2];
}

LinearProblem linear_problem(vkattn_type type, std::uint64_t len, std::uint64_t in, std::uint64_t out) {
    std::mt19937 random(static_cast<unsigned>(91 + in));
    LinearProblem problem;
    problem.input = rows(type, 2, len, in, random);
    problem.weight = normal_tensor(type, {out, in}, random, 1.0f / std::sqrt(static_cast<float>(in)));
    return problem;
}

void add_epilogue(LinearProblem &problem, vkattn_activation activation, vkattn_type type) {
    std::mt19937 random(17);
    const std::uint64_t batch = problem.input.shape()[0], len = problem.input.shape()[1];
    const std::uint64_t out = out_features(problem);
    problem.activation = activation;
    problem.bias = normal_tensor(type, {out}, random);
    problem.multiplier = rows(type, batch, len, out, random);
    problem.residual = rows(type, batch, len, out, random);
}

// Two matrices of that type, each row with a gap after it, and another between the matrices.
LinearProblem gated_problem(vkattn_type type, vkattn_type weight, std::uint64_t len, std::uint64_t in,
                            std::uint64_t out) {
    std::mt19937 random(static_cast<unsigned>(57 + in + out));
    const std::uint64_t block = type_info(weight).block_elements, row = in + block;
    LinearProblem problem = linear_problem(type, len, in, out);
    problem.weight = normal_tensor(weight, {2, out, in}, {out * row + 3 * block, row, 1}, random,
                                   1.0f / std::sqrt(static_cast<float>(in)));
    problem.activation = VKATTN_ACTIVATION_SILU;
    return problem;
}

std::vector<double> reference(const LinearProblem &p) {
    const std::uint64_t out = out_features(p), in = p.weight.shape().back();
    const bool gated = p.weight.shape().size() == 3;
    std::vector<double> x = p.input.values();
    if (p.norm.present())
        x = normalised(std::move(x), p.norm.values(), {}, VKATTN_NORM_RMS,
                       p.norm_epsilon.present == 0 ? 1e-6 : static_cast<double>(p.norm_epsilon.value));
    const std::vector<double> w = p.weight.values();
    std::vector<double> result(x.size() / in * out);
    for (std::uint64_t i = 0; i < result.size(); ++i) {
        const auto sum_of = [&](std::uint64_t row) { // of the weight
            double sum = p.bias.present() ? static_cast<double>(p.bias.get(row)) : 0.0;
            for (std::uint64_t f = 0; f < in; ++f) sum += x[i / out * in + f] * w[row * in + f];
            return sum;
        };
        double sum = activated(p.activation, sum_of(i % out));
        if (gated) sum *= sum_of(out + i % out);
        if (p.multiplier.present()) sum *= static_cast<double>(p.multiplier.get(i));
        result[i] = p.residual.present() ? sum + static_cast<double>(p.residual.get(i)) : sum;
    }
    return result;
}

vkattn_linear_desc describe(const LinearProblem &p, const HostTensor &output) {
    vkattn_linear_desc desc{};
    desc.input = p.input.view();
    desc.weight = p.weight.view();
    desc.bias = p.bias.view();
    desc.multiplier = p.multiplier.view();
    desc.residual = p.residual.view();
    desc.output = output.view();
    desc.activation = p.activation;
    desc.norm_weight = p.norm.view();
    desc.norm_epsilon = p.norm_epsilon;
    return desc;
}

// Runs a plan whose output is also its multiplier or residual, the role.
void run_in_place(const vkattn::Plan &plan, const HostTensor &input, const HostTensor &weight, vkattn_role role,
                  HostTensor &output) {
    const vkattn::Context &context = test_device().context();
    vkattn::Buffer from(context.get(), input.bytes().size()), by(context.get(), weight.bytes().size()),
        both(context.get(), output.bytes().size());
    from.write(input.bytes());
    by.write(weight.bytes());
    both.write(output.bytes());
    plan.run({vkattn::bind(VKATTN_ROLE_INPUT, from), vkattn::bind(VKATTN_ROLE_WEIGHT, by), vkattn::bind(role, both),
              vkattn::bind(VKATTN_ROLE_OUTPUT, both)});
    both.read(output.bytes());
}

// Returns why the plan computes it as it does.
std::string check_linear(LinearProblem &p, vkattn_type output_type, TestDevice &device = test_device()) {
    const std::uint64_t batch = p.input.shape()[0], len = p.input.shape()[1], out = out_features(p);
    HostTensor output(output_type, {batch, len, out}, {len * (out + 5), out + 5, 1});
    const vkattn::Plan plan = device.context().linear_plan(describe(p, output));
    std::vector<Region> regions = {{VKATTN_ROLE_INPUT, &p.input, Access::kRead},
                                   {VKATTN_ROLE_WEIGHT, &p.weight, Access::kRead},
                                   {VKATTN_ROLE_OUTPUT, &output, Access::kWrite}};
    if (p.bias.present()) regions.push_back({VKATTN_ROLE_BIAS, &p.bias, Access::kRead});
    if (p.multiplier.present()) regions.push_back({VKATTN_ROLE_MULTIPLIER, &p.multiplier, Access::kRead});
    if (p.residual.present()) regions.push_back({VKATTN_ROLE_RESIDUAL, &p.residual, Access::kRead});
    if (p.norm.present()) regions.push_back({VKATTN_ROLE_NORM_WEIGHT, &p.norm, Access::kRead});
    device.run(plan, regions);
    const Comparison result =
        compare("output", output.shape(), reference(p), output.floats(), nmse_bound({output_type}));
    CHECK_MESSAGE(result.passed, result.report);
    return plan.report().reason;
}

vkattn::List<vkattn_candidate> tuned(const vkattn::Context &context, const LinearProblem &p, vkattn_type output_type) {
    const std::uint64_t len = p.input.shape()[1], out = out_features(p);
    return context.tune(describe(p, HostTensor(output_type, {2, len, out}, {len * (out + 5), out + 5, 1})));
}

std::string message_of(const std::function<void()> &call) {
    try {
        call();
    } catch (const vkattn::Error &error) {
        return error.what();
    }
    return "";
}

} // namespace

TEST_SUITE_BEGIN("operators");

TEST_CASE_FIXTURE(DeviceTest, "linear in every type, for few rows and many") {
    for (const vkattn_type type : kFloats)
        for (const std::uint64_t len : {1, 37})
            for (const auto &[in, out] : {std::pair{1, 1}, {7, 33}, {64, 96}}) {
                LinearProblem problem =
                    linear_problem(type, len, static_cast<std::uint64_t>(in), static_cast<std::uint64_t>(out));
                check_linear(problem, type);
            }
}

TEST_CASE_FIXTURE(DeviceTest, "linear whose rows begin at multiples of four and of eight, but for the output's") {
    std::mt19937 random(92);
    const vkattn_type f16 = VKATTN_TYPE_F16, f32 = VKATTN_TYPE_F32;
    for (const vkattn_type type : kFloats)
        for (const std::uint64_t len : {1, 2, 3, 9, 33})
            for (const std::uint64_t gap : {4, 8})
                for (const auto &features : {std::pair{4, 1}, {20, 35}, {40, 70}, {136, 33}, {1016, 5}}) {
                    const auto width = static_cast<std::uint64_t>(features.first);
                    const auto outputs = static_cast<std::uint64_t>(features.second);
                    INFO(type_name(type), ", rows ", 2 * len, ", ", width, " to ", outputs, ", gap ", gap);
                    LinearProblem problem;
                    const vkattn_type weight_type = len != 2 ? type : type == f32 ? f16 : f32;
                    problem.input = rows(type, 2, len, width, random, gap);
                    problem.weight = normal_tensor(weight_type, {outputs, width}, {width + 8, 1}, random);
                    check_linear(problem, type);
                    check_linear(problem, f16);
                }
}

TEST_CASE_FIXTURE(DeviceTest, "linear with quantised weights, for few rows and many, odd numbers of blocks and gaps") {
    constexpr std::array<std::array<std::uint64_t, 2>, 3> kShapes = {{{1, 3}, {2, 35}, {5, 70}}}; // blocks, outputs
    std::mt19937 random(94);
    for (const vkattn_type weight_type : quantised_weight_types())
        for (const std::uint64_t len : {weight_type % 2 == 0 ? 1u : 3u, 21u}) {
            const vkattn_type type = kFloats[(len + weight_type) % 3];
            const std::uint64_t blocks = kShapes[(len / 3 + weight_type) % 3][0];
            const std::uint64_t outputs =
                kShapes[(len / 3 + weight_type) % 3][1]; // no structured binding: clang 14 captures none
            const std::uint64_t elements = type_info(weight_type).block_elements, in = blocks * elements;
            const std::uint64_t gap = blocks == 2 ? 3 * elements : 0;
            INFO(type_name(weight_type), ", rows ", 2 * len, " of ", type_name(type), ", ", in, " to ", outputs);
            LinearProblem problem;
            problem.input = rows(type, 2, len, in, random, 8);
            problem.weight = normal_tensor(weight_type, {outputs, in}, {in + gap, 1}, random,
                                           1.0f / std::sqrt(static_cast<float>(in)));
            add_epilogue(problem, blocks == 1 ? VKATTN_ACTIVATION_NONE : VKATTN_ACTIVATION_GELU_TANH, type);
            check_linear(problem, type);
        }
}

TEST_CASE_FIXTURE(DeviceTest, "linear of few rows where a lane has one output, two or four, in lanes of 16 and 32") {
    const LimitedDevice device("matrix_units=0,most_addressed_linear_rows=0,gpu_class=1,parallel_workgroups=4");
    std::mt19937 random(97);
    std::size_t vectors = 0, drawn = 0;
    for (const vkattn_type weight : {VKATTN_TYPE_F16, VKATTN_TYPE_Q8_0, VKATTN_TYPE_Q5_0, VKATTN_TYPE_Q4_1,
                                     VKATTN_TYPE_Q4_K, VKATTN_TYPE_Q5_K, VKATTN_TYPE_Q6_K})
        for (const std::uint64_t outputs : {6, 15, 45, 390})
            for (const std::uint64_t len : {1, 4, 5}) {
                const vkattn_type type = drawn % 2 == 0 ? VKATTN_TYPE_F32 : VKATTN_TYPE_F16;
                const std::uint64_t elements = type_info(weight).block_elements;
                const std::uint64_t in = elements == 256 ? 768 : elements == 32 ? 608 : 584;
                INFO(type_name(weight), ", rows ", len, " of ", type_name(type), ", ", in, " to ", outputs);
                const float scale = 1.0f / std::sqrt(static_cast<float>(in));
                LinearProblem problem;
                problem.input = rows(type, 1, len, in, random, 8);
                problem.weight =
                    normal_tensor(weight, {outputs, in}, {in + elements * (elements == 1 ? 8 : 1), 1}, random, scale);
                if (drawn % 3 != 0) problem.norm = normal_tensor(type, {in}, random);
                if (drawn % 5 != 0) add_epilogue(problem, VKATTN_ACTIVATION_SILU, type);
                vectors += check_linear(problem, type, device.device()).starts_with("linear_vector") ? 1u : 0u;
                ++drawn;
                if (outputs == 390) continue;
                LinearProblem gated = problem;
                gated.weight = normal_tensor(weight, {2, outputs, in}, random, scale);
                gated.bias = gated.multiplier = {};
                check_linear(gated, type, device.device());
            }
    CHECK(vectors == drawn);
}

TEST_CASE_FIXTURE(DeviceTest, "linear of quantised weights takes small, large and infinite inputs") {
    const LimitedDevice device("matrix_units=0,most_addressed_linear_rows=64,scalar_address_loads=1");
    std::mt19937 random(101);
    for (const vkattn_type weight : quantised_weight_types())
        for (const std::uint64_t len : {1, 2, 5})
            for (const float scale : {1e-33f, 1e27f, INFINITY}) {
                // of an infinity times a number and one times the minimum the sum is no number
                if (std::isinf(scale) && type_info(weight).has_minimum != 0) continue;
                INFO(type_name(weight), ", rows ", len, ", inputs times ", scale);
                LinearProblem problem;
                problem.input = normal_tensor(VKATTN_TYPE_F32, {1, len, 768}, random);
                problem.weight = normal_tensor(weight, {35, 768}, random, 0.05f);
                for (std::uint64_t i = 0; i < problem.input.elements(); ++i)
                    if (std::isfinite(scale) || i == 300) problem.input.set(i, problem.input.get(i) * scale);
                check_linear(problem, VKATTN_TYPE_F32, device.device());
            }
}

TEST_CASE_FIXTURE(DeviceTest, "linear with quantised weights at addresses that a subgroup shares") {
    const LimitedDevice device("matrix_units=0,most_addressed_linear_rows=64,scalar_address_loads=1");
    std::mt19937 random(95);
    std::size_t shared = 0, drawn = 0;
    for (const vkattn_type weight_type : quantised_weight_types())
        for (const std::uint64_t len : {weight_type % 2 == 0 ? 1u : 2u, weight_type % 3 == 0 ? 3u : 7u}) {
            const vkattn_type type = kFloats[(len + weight_type) % 3];
            const std::uint64_t elements = type_info(weight_type).block_elements;
            const std::uint64_t many = weight_type / 2 % 2 == 0 ? 3072
                                       : elements == 32         ? 3168
                                                                : 3840; // in several turns
            const std::uint64_t in = len < 3 ? (1 + random() % 4) * elements : many, outputs = 1 + random() % 40;
            const std::uint64_t gap = random() % 3 * elements;
            INFO(type_name(weight_type), ", rows ", len, " of ", type_name(type), ", ", in, " to ", outputs);
            LinearProblem problem;
            problem.input = rows(type, 1, len, in, random, 8);
            problem.weight = normal_tensor(weight_type, {outputs, in}, {in + gap, 1}, random,
                                           1.0f / std::sqrt(static_cast<float>(in)));
            if (len > 1) add_epilogue(problem, VKATTN_ACTIVATION_SILU, type);
            if (drawn % 2 != 0) problem.norm = normal_tensor(kFloats[drawn / 2 % 3], {in}, random);
            shared += check_linear(problem, type, device.device()).starts_with("linear_uniform") ? 1u : 0u;
            ++drawn;
        }
    if (shared == 0) return skip("linear layers share no addresses");
    const auto dispatches = [&](std::uint64_t len, std::uint64_t outputs) {
        LinearProblem problem;
        problem.input = normal_tensor(VKATTN_TYPE_F32, {1, len, 64}, random);
        problem.weight = normal_tensor(VKATTN_TYPE_Q8_0, {outputs, 64}, random);
        problem.norm = normal_tensor(VKATTN_TYPE_F32, {64}, random);
        const HostTensor output(VKATTN_TYPE_F32, {1, len, outputs});
        return device.device().context().linear_plan(describe(problem, output)).report().dispatches;
    };
    CHECK(dispatches(8, 4096) == 1);
    CHECK(dispatches(9, 64) == 2); // the norm once for all
    CHECK(dispatches(1, 4097) == 2);
    CHECK(shared == drawn);
}

TEST_CASE_FIXTURE(DeviceTest, "linear over nearly as many features as loops may have iterations for") {
    for (const std::uint64_t len : {1, 19})
        for (const std::uint64_t in : {37401, 37404}) {
            INFO("rows ", 2 * len, ", ", in, " features");
            std::mt19937 random(93);
            LinearProblem problem;
            problem.input = rows(VKATTN_TYPE_F32, 2, len, in, random, 4);
            problem.weight = normal_tensor(VKATTN_TYPE_F32, {5, in}, random);
            check_linear(problem, VKATTN_TYPE_F32);
        }
}

TEST_CASE_FIXTURE(DeviceTest, "linear with bias, every activation, multiplier and residual") {
    for (const vkattn_activation activation : kActivations)
        for (const std::uint64_t len : {1, 19}) {
            LinearProblem problem = linear_problem(VKATTN_TYPE_F16, len, 40, 30);
            add_epilogue(problem, activation, VKATTN_TYPE_F16);
            check_linear(problem, VKATTN_TYPE_F32);
        }
}

TEST_CASE_FIXTURE(DeviceTest, "gated linear in every type, with biases, activations, residual and norm") {
    std::mt19937 random(61);
    for (const vkattn_type type : kFloats)
        for (const std::uint64_t len : {1, 3, 23})
            for (const auto &[in, out] : {std::pair{9, 1}, {64, 33}, {40, 70}}) {
                LinearProblem problem = gated_problem(type, out == 33 ? VKATTN_TYPE_F32 : type, len,
                                                      static_cast<std::uint64_t>(in), static_cast<std::uint64_t>(out));
                check_linear(problem, out == 1 ? VKATTN_TYPE_F32 : type);
                const std::uint64_t outs = static_cast<std::uint64_t>(out), ins = static_cast<std::uint64_t>(in);
                problem.bias = normal_tensor(type, {2, outs}, {outs + 3, 1}, random);
                problem.residual = rows(type, 2, len, outs, random);
                problem.activation = kActivations[len % std::size(kActivations)];
                if (len == 1) problem.norm = normal_tensor(type, {ins}, random);
                check_linear(problem, type);
            }
    for (const vkattn_activation activation : kActivations) {
        LinearProblem problem = gated_problem(VKATTN_TYPE_F16, VKATTN_TYPE_F16, 2, 24, 10);
        problem.activation = activation;
        check_linear(problem, VKATTN_TYPE_F16);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "gated linear of quantised weights") {
    std::mt19937 random(67);
    for (const vkattn_type weight :
         {VKATTN_TYPE_Q8_0, VKATTN_TYPE_Q5_0, VKATTN_TYPE_Q4_1, VKATTN_TYPE_Q4_K, VKATTN_TYPE_Q5_K, VKATTN_TYPE_Q6_K})
        for (const vkattn_type type : {VKATTN_TYPE_F32, VKATTN_TYPE_F16})
            for (const std::uint64_t len : {1, 4, 30}) {
                LinearProblem problem = gated_problem(type, weight, len, 512, 46);
                if (len == 1) problem.norm = normal_tensor(type, {512}, random);
                check_linear(problem, type);
            }
}

TEST_CASE_FIXTURE(DeviceTest, "gated linear of matrices that lie between each other, tuned, and onto its residual") {
    std::mt19937 random(71);
    LinearProblem problem = gated_problem(VKATTN_TYPE_F16, VKATTN_TYPE_F16, 12, 64, 40);
    problem.weight = normal_tensor(VKATTN_TYPE_F16, {2, 40, 64}, {64, 128, 1}, random, 0.1f);
    check_linear(problem, VKATTN_TYPE_F16);
    const LimitedDevice device("");
    for (const vkattn_candidate &each : tuned(device.context(), problem, VKATTN_TYPE_F16))
        CHECK_MESSAGE(std::string(each.reason) == "", std::string(each.tile));
    check_linear(problem, VKATTN_TYPE_F16, device.device());
    problem.residual = rows(VKATTN_TYPE_F32, 2, 12, 40, random);
    HostTensor &own = problem.residual;
    const std::vector<double> expected = reference(problem);
    run_in_place(test_device().context().linear_plan(describe(problem, own)), problem.input, problem.weight,
                 VKATTN_ROLE_RESIDUAL, own);
    const Comparison result = compare("output", own.shape(), expected, own.floats(), nmse_bound({VKATTN_TYPE_F32}));
    CHECK_MESSAGE(result.passed, result.report);
}

TEST_CASE_FIXTURE(DeviceTest, "linear of many rows on a device of few cores, whose tiles are the largest") {
    const LimitedDevice few("parallel_workgroups=4");
    std::mt19937 random(73);
    for (const vkattn_type weight : {VKATTN_TYPE_F16, VKATTN_TYPE_Q4_1, VKATTN_TYPE_Q4_K}) {
        LinearProblem problem = linear_problem(VKATTN_TYPE_F16, 121, 256, 250);
        if (weight != VKATTN_TYPE_F16) problem.weight = normal_tensor(weight, {250, 256}, random, 0.05f);
        add_epilogue(problem, VKATTN_ACTIVATION_SILU, VKATTN_TYPE_F16);
        check_linear(problem, VKATTN_TYPE_F16, few.device());
        LinearProblem gated = gated_problem(VKATTN_TYPE_F16, weight, 60, 256, 119);
        check_linear(gated, VKATTN_TYPE_F16, few.device());
    }
}

TEST_CASE_FIXTURE(DeviceTest, "linear on devices of many cores and of few, whose tiles are of all sizes") {
    std::mt19937 random(29);
    for (const char *cores : {"320", "160", "40", "28"}) {
        const LimitedDevice device((std::string("parallel_workgroups=") + cores).c_str());
        CAPTURE(cores);
        for (const vkattn_type weight : {VKATTN_TYPE_F16, VKATTN_TYPE_Q4_1, VKATTN_TYPE_Q4_K}) {
            const std::uint64_t block = std::max(type_info(weight).block_elements, 8u);
            const std::uint64_t in = (1032 + block - 1) / block * block;
            CAPTURE(type_info(weight).name);
            LinearProblem problem = linear_problem(VKATTN_TYPE_F16, 57, in, 149);
            if (weight != VKATTN_TYPE_F16) problem.weight = normal_tensor(weight, {149, in}, random, 0.03f);
            add_epilogue(problem, VKATTN_ACTIVATION_SILU, VKATTN_TYPE_F16);
            // matrix units take quantised weights as halves
            check_linear(problem, weight == VKATTN_TYPE_F16 ? VKATTN_TYPE_F32 : VKATTN_TYPE_F16, device.device());
            LinearProblem gated = gated_problem(VKATTN_TYPE_F16, weight, 19, in, 75);
            add_epilogue(gated, VKATTN_ACTIVATION_SILU, VKATTN_TYPE_F16);
            gated.bias = normal_tensor(VKATTN_TYPE_F16, {2, 75}, random);
            gated.multiplier = {};
            check_linear(gated, VKATTN_TYPE_F16, device.device());
        }
    }
}

TEST_CASE_FIXTURE(DeviceTest, "every activation of what is not a number is not one") {
    for (const vkattn_activation activation : kActivations) {
        CAPTURE(static_cast<int>(activation));
        HostTensor input(VKATTN_TYPE_F32, {1, 1, 4}), weight(VKATTN_TYPE_F32, {3, 4}),
            output(VKATTN_TYPE_F32, {1, 1, 3});
        for (std::uint64_t i = 0; i < 12; ++i) weight.set(i, i < 4 ? 1.0f : i < 8 ? -1.0f : NAN);
        for (std::uint64_t i = 0; i < 4; ++i) input.set(i, 1.0f);
        vkattn_linear_desc desc{};
        desc.input = input.view();
        desc.weight = weight.view();
        desc.output = output.view();
        desc.activation = activation;
        test_device().run(test_device().context().linear_plan(desc),
                          std::array{Region{VKATTN_ROLE_INPUT, &input, Access::kRead},
                                     Region{VKATTN_ROLE_WEIGHT, &weight, Access::kRead},
                                     Region{VKATTN_ROLE_OUTPUT, &output, Access::kWrite}});
        CHECK_FALSE(std::isnan(output.get(0)));
        CHECK_FALSE(std::isnan(output.get(1)));
        CHECK(std::isnan(output.get(2)));
    }
}

TEST_CASE_FIXTURE(DeviceTest, "linear of a normalised input, by itself where rows are few") {
    std::mt19937 random(23);
    std::size_t fused = 0;
    for (const vkattn_type type : {VKATTN_TYPE_F32, VKATTN_TYPE_F16, VKATTN_TYPE_BF16})
        for (const std::uint64_t in : {96, 37})
            for (const std::uint64_t len : {1, 5, 40}) {
                LinearProblem problem = linear_problem(type, len, in, 30);
                problem.norm = normal_tensor(in == 37 ? VKATTN_TYPE_F32 : type, {in}, random);
                if (len != 40) problem.norm_epsilon = len == 5 ? 0.5f : 0.0f;
                if (len == 1) add_epilogue(problem, VKATTN_ACTIVATION_SILU, type);
                check_linear(problem, type);
                const HostTensor output(type, {2, len, 30});
                const vkattn::Plan plan = test_device().context().linear_plan(describe(problem, output));
                const bool vector = std::string(plan.report().reason).starts_with("linear_vector");
                CHECK(plan.report().dispatches == (vector ? 1 : 2));
                fused += vector ? 1u : 0u;
            }
    for (const vkattn_type weight : {VKATTN_TYPE_Q8_0, VKATTN_TYPE_Q4_K, VKATTN_TYPE_Q6_K})
        for (const std::uint64_t len : {1, 3}) {
            LinearProblem problem = linear_problem(VKATTN_TYPE_F32, len, 512, 20);
            problem.weight = normal_tensor(weight, {20, 512}, random, 0.05f);
            problem.norm = normal_tensor(VKATTN_TYPE_F32, {512}, random);
            check_linear(problem, VKATTN_TYPE_F32);
        }
    if (!can_run(test_device().facts(), VKATTN_KERNEL_ADDRESSES))
        CHECK(fused >=
              (can_run(test_device().facts(), VKATTN_KERNEL_COOPMAT) ? 8 : 12)); // else linear_addresses serves most
}

TEST_CASE_FIXTURE(DeviceTest, "linear as tuning finds it fastest, and a saved choice" * doctest::test_suite("tuning")) {
    struct Layer {
        const char *traits;
        vkattn_type type;
        std::uint64_t len;
    };
    for (const Layer &layer : {Layer{"matrix_units=0", VKATTN_TYPE_F32, 1}, Layer{"matrix_units=0", VKATTN_TYPE_F16, 9},
                               Layer{"matrix_units=1", VKATTN_TYPE_F16, 40}}) {
        INFO(layer.traits << ", rows " << 2 * layer.len);
        const LimitedDevice device(layer.traits);
        LinearProblem problem = linear_problem(layer.type, layer.len, 72, 90);
        std::mt19937 random(29);
        problem.input = rows(layer.type, 2, layer.len, 72, random, 8);
        add_epilogue(problem, VKATTN_ACTIVATION_SILU, layer.type);
        const std::string untuned = check_linear(problem, layer.type, device.device());
        const vkattn::List<vkattn_candidate> candidates = tuned(device.context(), problem, layer.type);
        const std::string first = candidates.front().tile;
        CHECK(first.substr(0, first.find(',')) == untuned.substr(0, untuned.find(':')));
        CHECK(candidates.size() > 1);
        for (const vkattn_candidate &each : candidates)
            CHECK_MESSAGE(std::string(each.reason) == "", std::string(each.tile));
        CHECK(std::ranges::count(candidates, 1u, &vkattn_candidate::kept) == 1);
        CHECK(check_linear(problem, layer.type, device.device()).find("tuning") != std::string::npos);
    }
    const LimitedDevice first("");
    LinearProblem problem = linear_problem(VKATTN_TYPE_F32, 6, 64, 32);
    tuned(first.context(), problem, VKATTN_TYPE_F32);
    vkattn_linear_desc wrong = describe(problem, problem.input);
    wrong.weight.rank = 3;
    CHECK(message_of([&] { first.context().tune(wrong); }).find("weight: ") == 0);
    const std::vector<std::uint8_t> saved = first.context().save();
    ContextRequest request;
    request.info.saved_data = saved.data();
    request.info.saved_bytes = saved.size();
    const vkattn::Context second(request.info);
    const auto by_tuning = [&](std::uint64_t len, std::uint64_t in) {
        const LinearProblem other = linear_problem(VKATTN_TYPE_F32, len, in, 32);
        const HostTensor output(VKATTN_TYPE_F32, {2, len, 32}, {len * 37, 37, 1});
        return std::string(second.linear_plan(describe(other, output)).report().reason).find("tuning") !=
               std::string::npos;
    };
    CHECK(by_tuning(6, 64));
    CHECK(by_tuning(8, 64));
    CHECK(!by_tuning(9, 64));
    CHECK(!by_tuning(6, 60));
}

TEST_CASE_FIXTURE(DeviceTest, "linear onto its own residual and multiplier") {
    const auto type = VKATTN_TYPE_F32;
    LinearProblem problem = linear_problem(type, 6, 24, 10);
    std::mt19937 random(5);
    for (const bool multiplies : {false, true}) {
        problem.residual = multiplies ? HostTensor() : rows(type, 2, 6, 10, random);
        problem.multiplier = multiplies ? rows(type, 2, 6, 10, random) : HostTensor();
        HostTensor &own = multiplies ? problem.multiplier : problem.residual;
        const std::vector<double> expected = reference(problem);
        run_in_place(test_device().context().linear_plan(describe(problem, own)), problem.input, problem.weight,
                     multiplies ? VKATTN_ROLE_MULTIPLIER : VKATTN_ROLE_RESIDUAL, own);
        const Comparison result = compare("output", own.shape(), expected, own.floats(), nmse_bound({type}));
        CHECK_MESSAGE(result.passed, result.report);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "norms in every type") {
    for (const vkattn_type type : kFloats)
        for (const std::uint64_t width : {1, 5, 192})
            for (const vkattn_norm_kind kind : {VKATTN_NORM_RMS, VKATTN_NORM_LAYER}) {
                std::mt19937 random(static_cast<unsigned>(width));
                HostTensor input = rows(type, 2, 3, width, random), weight = normal_tensor(type, {width}, random),
                           bias = normal_tensor(type, {width}, random);
                HostTensor output(type, {2, 3, width}, {3 * (width + 2), width + 2, 1});
                vkattn_norm_desc desc{};
                desc.input = input.view();
                desc.weight = weight.view();
                desc.bias = bias.view();
                desc.output = output.view();
                desc.kind = kind;
                desc.epsilon = 0.25f;
                const std::vector<Region> regions = {{VKATTN_ROLE_INPUT, &input, Access::kRead},
                                                     {VKATTN_ROLE_WEIGHT, &weight, Access::kRead},
                                                     {VKATTN_ROLE_BIAS, &bias, Access::kRead},
                                                     {VKATTN_ROLE_OUTPUT, &output, Access::kWrite}};
                test_device().run(test_device().context().norm_plan(desc), regions);
                const std::vector<double> expected =
                    normalised(input.values(), weight.values(), bias.values(), kind, 0.25);
                const Comparison result =
                    compare("output", output.shape(), expected, output.floats(), nmse_bound({type}));
                CHECK_MESSAGE(result.passed, result.report);
            }
}

TEST_CASE_FIXTURE(DeviceTest, "norms with a residual of another type, and one that is the output") {
    for (const vkattn_type type : kFloats)
        for (const std::uint64_t width : {1, 7, 640})
            for (const bool in_place : {false, true}) {
                INFO(type_name(type), ", ", width, " wide", in_place ? ", in place" : "");
                std::mt19937 random(static_cast<unsigned>(width) + 5);
                const vkattn_type other = in_place ? type : kFloats[(type + 1) % 3];
                const vkattn_type added_type = in_place ? type : kFloats[type % 3];
                const vkattn_norm_kind kind = in_place ? VKATTN_NORM_LAYER : VKATTN_NORM_RMS;
                HostTensor input = rows(other, 2, 3, width, random), weight = normal_tensor(type, {width}, random);
                HostTensor residual = normal_tensor(added_type, {2, 3, width}, {3 * (width + 2), width + 2, 1}, random);
                HostTensor output = in_place ? residual : HostTensor(type, {2, 3, width});
                vkattn_norm_desc desc{};
                desc.input = input.view();
                desc.weight = weight.view();
                desc.output = output.view();
                desc.kind = kind;
                desc.epsilon = 0.25f;
                desc.residual = residual.view();
                std::vector<double> expected = normalised(input.values(), weight.values(), {}, kind, 0.25);
                const std::vector<float> addends = residual.floats();
                for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += static_cast<double>(addends[i]);
                const vkattn::Plan plan = test_device().context().norm_plan(desc);
                if (in_place) {
                    run_in_place(plan, input, weight, VKATTN_ROLE_RESIDUAL, output);
                } else {
                    const std::vector<Region> regions = {{VKATTN_ROLE_INPUT, &input, Access::kRead},
                                                         {VKATTN_ROLE_WEIGHT, &weight, Access::kRead},
                                                         {VKATTN_ROLE_RESIDUAL, &residual, Access::kRead},
                                                         {VKATTN_ROLE_OUTPUT, &output, Access::kWrite}};
                    test_device().run(plan, regions);
                }
                const Comparison result =
                    compare("output", output.shape(), expected, output.floats(), nmse_bound({type, other, added_type}));
                CHECK_MESSAGE(result.passed, result.report);
            }
}

namespace {

// Tokens of which some have no row. Returns the dispatches.
std::uint32_t check_embedding(TestDevice &device, vkattn_type type, std::uint64_t width, int known_tokens = 5) {
    std::mt19937 random(3);
    HostTensor weight = normal_tensor(type, {static_cast<std::uint64_t>(known_tokens), width}, {width + 1, 1}, random);
    HostTensor tokens(VKATTN_TYPE_I32, {2, 4}, {1, 2}); // transposed
    const int numbers[8] = {known_tokens - 1, 0,       -1,        known_tokens - 2, known_tokens,
                            known_tokens / 2, 1 << 30, -(1 << 30)};
    for (std::uint64_t i = 0; i < 8; ++i) tokens.set(i, static_cast<float>(numbers[i]));
    HostTensor output(type, {2, 4, width}, {4 * (width + 2), width + 2, 1});
    vkattn_embedding_desc desc{};
    desc.tokens = tokens.view();
    desc.weight = weight.view();
    desc.output = output.view();
    const std::vector<Region> regions = {{VKATTN_ROLE_TOKENS, &tokens, Access::kRead},
                                         {VKATTN_ROLE_WEIGHT, &weight, Access::kRead},
                                         {VKATTN_ROLE_OUTPUT, &output, Access::kWrite}};
    const vkattn::Plan plan = device.context().embedding_plan(desc);
    device.run(plan, regions);
    for (std::uint64_t i = 0; i < 8 * width; ++i) {
        const int token = numbers[i / width];
        const bool known = token >= 0 && token < known_tokens;
        const float expected = known ? weight.get(static_cast<std::uint64_t>(token) * width + i % width) : 0.0f;
        REQUIRE(output.get(i) == expected);
    }
    return plan.report().dispatches;
}

} // namespace

TEST_CASE_FIXTURE(DeviceTest, "embedding gives the tokens' rows, and zeros for tokens that lie") {
    for (const vkattn_type type : kFloats)
        for (const std::uint64_t width : {1, 7, 130}) check_embedding(test_device(), type, width);
}

TEST_CASE_FIXTURE(DeviceTest, "a weight above the storage buffer range is multiplied and looked up in parts") {
    const LimitedDevice small("max_storage_buffer_range=8192,self_test=0"); // 7936 bytes of a tensor
    CHECK(check_embedding(small.device(), VKATTN_TYPE_F32, 60, 70) == 3);   // 32 rows fit
    CHECK(check_embedding(small.device(), VKATTN_TYPE_F16, 60, 150) == 3);  // 65 rows fit, and so 64
    const auto parts_of = [&](LinearProblem &problem, vkattn_type type) {
        const std::string reason = check_linear(problem, type, small.device());
        INFO(reason);
        const std::size_t at = reason.find("; in ");
        REQUIRE(at != std::string::npos);
        CHECK(reason.ends_with(" parts, for a weight above maxStorageBufferRange or 2^32 elements"));
        return std::stoi(reason.substr(at + 5));
    };
    std::mt19937 random(95);
    for (const std::uint64_t len : {1u, 3u}) {
        LinearProblem problem = linear_problem(VKATTN_TYPE_F32, len, 24, 250); // 24000 bytes; 82 rows fit, and so 64
        add_epilogue(problem, VKATTN_ACTIVATION_SILU, VKATTN_TYPE_F32);
        problem.norm = normal_tensor(VKATTN_TYPE_F32, {24}, random);
        CHECK(parts_of(problem, VKATTN_TYPE_F32) == 4);
    }
    LinearProblem wide = linear_problem(VKATTN_TYPE_F16, 1, 450, 19); // 8 rows fit, an odd number of outputs is left
    add_epilogue(wide, VKATTN_ACTIVATION_NONE, VKATTN_TYPE_F16);
    CHECK(parts_of(wide, VKATTN_TYPE_F16) == 3);
    for (const vkattn_type type : {VKATTN_TYPE_Q8_0, VKATTN_TYPE_Q4_K}) {
        const std::uint64_t in = type_info(type).block_elements;
        LinearProblem quantised = linear_problem(VKATTN_TYPE_F32, 2, in, 300);
        quantised.weight = normal_tensor(type, {300, in}, random, 0.1f);
        add_epilogue(quantised, VKATTN_ACTIVATION_RELU, VKATTN_TYPE_F32);
        CHECK(parts_of(quantised, VKATTN_TYPE_F32) == (type == VKATTN_TYPE_Q8_0 ? 2 : 6));
    }
}

TEST_CASE_FIXTURE(DeviceTest, "gated weights above the storage buffer range are two products") {
    const LimitedDevice small("max_storage_buffer_range=8192,self_test=0"); // 7936 bytes of a tensor
    std::mt19937 random(97);
    for (const std::uint64_t len : {1u, 6u})
        for (const std::uint64_t out : {60u, 150u}) { // each bound at once, and in parts
            LinearProblem problem = gated_problem(VKATTN_TYPE_F32, VKATTN_TYPE_F32, len, 24, out);
            problem.bias = normal_tensor(VKATTN_TYPE_F32, {2, out}, random);
            problem.residual = rows(VKATTN_TYPE_F32, 2, len, out, random);
            problem.norm = normal_tensor(VKATTN_TYPE_F32, {24}, random);
            const std::string reason = check_linear(problem, VKATTN_TYPE_F32, small.device());
            CHECK(reason.find("; gated in two products") != std::string::npos);
            CHECK((reason.find("parts") != std::string::npos) == (out == 150));
        }
}

TEST_CASE_FIXTURE(DeviceTest, "a row of a weight above the storage buffer range is refused") {
    const LimitedDevice small("max_storage_buffer_range=1024,self_test=0");
    LinearProblem problem = linear_problem(VKATTN_TYPE_F16, 1, 8, 4);
    problem.weight = HostTensor(VKATTN_TYPE_F16, {4, 8}, {1, 200}); // whose rows lie across
    const HostTensor output(VKATTN_TYPE_F16, {2, 1, 4}, {9, 9, 1});
    CHECK(message_of([&] {
              small.context().linear_plan(describe(problem, output));
          }).starts_with("weight: 2808 bytes, expected at most 768 (maxStorageBufferRange of "));
}

TEST_CASE_FIXTURE(DeviceTest, "embedding of quantised rows, in every type of output") {
    std::mt19937 random(4);
    for (const vkattn_type weight_type : quantised_weight_types()) {
        const std::uint64_t width = 3 * type_info(weight_type).block_elements;
        const vkattn_type type = kFloats[static_cast<std::size_t>(weight_type) % 3];
        INFO(type_name(weight_type), " to ", type_name(type));
        HostTensor weight = normal_tensor(weight_type, {5, width}, {width * 5 / 3 * 3, 1}, random);
        HostTensor tokens(VKATTN_TYPE_I32, {1, 5});
        const int numbers[5] = {4, 0, -1, 3, 5};
        for (std::uint64_t i = 0; i < 5; ++i) tokens.set(i, static_cast<float>(numbers[i]));
        HostTensor output(type, {1, 5, width}, {5 * (width + 1), width + 1, 1});
        vkattn_embedding_desc desc{};
        desc.tokens = tokens.view();
        desc.weight = weight.view();
        desc.output = output.view();
        const std::vector<Region> regions = {{VKATTN_ROLE_TOKENS, &tokens, Access::kRead},
                                             {VKATTN_ROLE_WEIGHT, &weight, Access::kRead},
                                             {VKATTN_ROLE_OUTPUT, &output, Access::kWrite}};
        test_device().run(test_device().context().embedding_plan(desc), regions);
        std::vector<double> expected(5 * width);
        for (std::uint64_t i = 0; i < expected.size(); ++i) {
            const int token = numbers[i / width];
            const bool known = token >= 0 && token < 5;
            expected[i] = known ? weight.get(static_cast<std::uint64_t>(token) * width + i % width) : 0.0f;
        }
        const Comparison result = compare("output", output.shape(), expected, output.floats(), nmse_bound({type}));
        CHECK_MESSAGE(result.passed, result.report);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "argmax gives the lowest of equal places, in every type and width") {
    std::mt19937 random(12);
    std::uniform_int_distribution<int> whole(-9, 9); // so that there are equal ones
    for (const vkattn_type type : kFloats)
        for (const std::uint64_t width : {1u, 2u, 127u, 8192u, 8193u, 40001u, 262144u}) {
            HostTensor input = rows(type, 2, 3, width, random);
            for (std::uint64_t i = 0; i < input.elements(); ++i) input.set(i, static_cast<float>(whole(random)));
            input.set(width * 2 - 1, 9.5f);                                                // the last of a row
            for (std::uint64_t i = 2 * width; i < 3 * width; ++i) input.set(i, -INFINITY); // nothing else in a row
            for (std::uint64_t i = 3 * width; i < 4 * width; ++i) input.set(i, i % 2 == 0 ? -0.0f : 0.0f);
            input.set(4 * width + width / 2, std::nanf(""));
            input.set(5 * width - 1, INFINITY);
            HostTensor tokens(VKATTN_TYPE_I32, {2, 3}, {7, 2}), values(VKATTN_TYPE_F32, {2, 3});
            vkattn_argmax_desc desc{};
            desc.input = input.view();
            desc.tokens = tokens.view();
            for (const bool with_values : {true, false}) {
                if (with_values) desc.values = values.view();
                std::vector<Region> regions = {{VKATTN_ROLE_INPUT, &input, Access::kRead},
                                               {VKATTN_ROLE_TOKENS, &tokens, Access::kWrite}};
                if (with_values) regions.push_back({VKATTN_ROLE_VALUES, &values, Access::kWrite});
                test_device().run(test_device().context().argmax_plan(desc), regions);
                desc.values = {};
                for (std::uint64_t row = 0; row < 6; ++row) {
                    std::uint64_t best = 0;
                    const auto at = [&](std::uint64_t i) { return input.get(row * width + i); };
                    for (std::uint64_t i = 1; i < width; ++i)
                        if (at(i) > at(best) || (std::isnan(at(i)) && !std::isnan(at(best)))) best = i;
                    REQUIRE(tokens.get(row) == static_cast<float>(best));
                    REQUIRE((values.get(row) == at(best) || (std::isnan(values.get(row)) && std::isnan(at(best)))));
                    REQUIRE((std::isnan(at(best)) || std::signbit(values.get(row)) == std::signbit(at(best))));
                }
            }
        }
}

TEST_CASE_FIXTURE(DeviceTest, "what operators refuse") {
    const vkattn::Context &context = test_device().context();
    const LinearProblem good = linear_problem(VKATTN_TYPE_F32, 3, 8, 6);
    const HostTensor output(VKATTN_TYPE_F32, {2, 3, 6});
    const auto refused = [&](const std::function<void(vkattn_linear_desc &)> &spoil) {
        vkattn_linear_desc desc = describe(good, output);
        spoil(desc);
        return message_of([&] { context.linear_plan(desc); });
    };
    CHECK(refused([](auto &d) { d.weight = {}; }) == "weight: absent, expected [out,in] or [2,out,in]");
    CHECK(refused([](auto &d) {
              d.weight = vkattn::tensor(VKATTN_TYPE_F32, {3, 6, 8});
          }) == "weight: shape [3,6,8], expected [out,in] or [2,out,in] with in at least 1");
    const auto gated_refused = [&](const std::function<void(vkattn_linear_desc &)> &spoil) {
        return refused([&](auto &d) {
            d.weight = vkattn::tensor(VKATTN_TYPE_F32, {2, 6, 8});
            spoil(d);
        });
    };
    CHECK(gated_refused([](auto &d) {
              d.multiplier = vkattn::tensor(VKATTN_TYPE_F32, {2, 3, 6});
          }) == "multiplier: given with a weight [2,out,in], expected none");
    CHECK(gated_refused([](auto &d) { d.bias = vkattn::tensor(VKATTN_TYPE_F32, {6}); }) ==
          "bias: shape [6], expected [2,6], last stride 1");
    CHECK(gated_refused([](auto &d) {
              d.output = vkattn::tensor(VKATTN_TYPE_F32, {2, 3, 12});
          }) == "output: shape [2,3,12], expected [2,3,6]");
    CHECK(refused([](auto &d) { d.input.shape[2] = 7; }) == "input: shape [2,3,7], expected [B,L,8]");
    CHECK(refused([](auto &d) { d.output.shape[2] = 7; }) == "output: shape [2,3,7], expected [2,3,6]");
    CHECK(refused([](auto &d) {
              d.residual = vkattn::tensor(VKATTN_TYPE_F32, {2, 4, 6});
          }) == "residual: shape [2,4,6], expected [2,3,6]");
    CHECK(refused([](auto &d) {
              d.multiplier = vkattn::tensor(VKATTN_TYPE_I32, {2, 3, 6});
          }) == "multiplier: type I32, expected F32, F16 or BF16");
    CHECK(refused([](auto &d) { d.bias = vkattn::tensor(VKATTN_TYPE_F32, {7}); }) ==
          "bias: shape [7], expected [6] contiguous");
    CHECK(refused([](auto &d) { // rows that 32 bits would count as none
              d.input = vkattn::tensor(VKATTN_TYPE_F32, {1u << 16, 1u << 16, 8}, {0, 0, 1});
          }) == "input: shape [65536,65536,8], 4294967296 tokens, expected at most 2^29");
    CHECK(refused([](auto &d) { d.activation = static_cast<vkattn_activation>(9); }) ==
          "activation: 9, expected a vkattn_activation");
    CHECK(refused([](auto &d) { d.norm_weight = vkattn::tensor(VKATTN_TYPE_F32, {7}); }) ==
          "norm_weight: shape [7], expected [8] contiguous");
    CHECK(refused([](auto &d) {
              d.norm_weight = vkattn::tensor(VKATTN_TYPE_F32, {8});
              d.norm_epsilon = -1.0f;
          }) == "norm_epsilon: -1, expected at least 0");

    vkattn_norm_desc norm{};
    CHECK(message_of([&] { context.norm_plan(norm); }).starts_with("weight: shape"));
    norm.weight = vkattn::tensor(VKATTN_TYPE_F32, {6});
    norm.input = norm.output = output.view();
    norm.epsilon = -1.0f;
    CHECK(message_of([&] { context.norm_plan(norm); }) == "epsilon: -1, expected at least 0");
    norm.epsilon = {};
    norm.residual = vkattn::tensor(VKATTN_TYPE_F32, {2, 3, 5});
    CHECK(message_of([&] { context.norm_plan(norm); }).starts_with("residual: shape [2,3,5], expected "));

    vkattn_embedding_desc embedding{};
    embedding.tokens = vkattn::tensor(VKATTN_TYPE_F32, {2, 3});
    CHECK(message_of([&] { context.embedding_plan(embedding); }) ==
          "tokens: type F32, shape [2,3], expected I32 [B,L]");
    embedding.tokens = vkattn::tensor(VKATTN_TYPE_I32, {2, 3});
    embedding.weight = vkattn::tensor(VKATTN_TYPE_F32, {(std::uint64_t{1} << 32) + 1, 6}, {0, 1});
    CHECK(message_of([&] { context.embedding_plan(embedding); }) ==
          "weight: shape [4294967297,6], expected sizes of at most 2^29");

    vkattn_argmax_desc argmax{};
    argmax.input = vkattn::tensor(VKATTN_TYPE_F32, {2, 3});
    CHECK(message_of([&] { context.argmax_plan(argmax); }) == "input: shape [2,3], expected [B,L,N] with N at least 1");
    argmax.input = vkattn::tensor(VKATTN_TYPE_I32, {2, 3, 6});
    CHECK(message_of([&] { context.argmax_plan(argmax); }) == "input: type I32, expected F32, F16 or BF16");
    argmax.input = vkattn::tensor(VKATTN_TYPE_F32, {2, 3, 6});
    CHECK(message_of([&] { context.argmax_plan(argmax); }) == "tokens: absent, expected I32 [2,3]");
    argmax.tokens = vkattn::tensor(VKATTN_TYPE_I32, {2, 3}, {0, 1});
    CHECK(message_of([&] { context.argmax_plan(argmax); }).starts_with("tokens: "));
}

TEST_SUITE_END();
