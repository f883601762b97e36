// norm_backward against float64: both kinds, every type, odd sizes, gaps, residuals, sums that accumulate, no tokens.
#include "compare.hpp"
#include "device.hpp"
#include "messages.hpp"
#include "weight_gradients.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

using namespace vkattn_test;

namespace {

constexpr vkattn_type kFloats[] = {VKATTN_TYPE_F32, VKATTN_TYPE_F16, VKATTN_TYPE_BF16};

struct Call {
    HostTensor input, weight, d_output, residual, d_input, d_weight, d_bias;
    vkattn_norm_kind kind = VKATTN_NORM_RMS;
    bool accumulates = false;
};

Shape strides_of(std::uint64_t len, std::uint64_t width, std::uint64_t gap) {
    return {std::max<std::uint64_t>(len, 1) * (width + gap) + gap, width + gap, 1};
}

Call drawn_call(vkattn_type type, vkattn_type gradients, vkattn_norm_kind kind, std::uint64_t len, std::uint64_t width,
                std::uint64_t gap, std::mt19937 &random) {
    Call call;
    const Shape shape = {2, len, width}, strides = strides_of(len, width, gap);
    call.kind = kind;
    call.input = normal_tensor(type, shape, strides, random);
    call.weight = normal_tensor(type, {width}, random);
    call.d_output = normal_tensor(type, shape, strides, random);
    call.d_input = HostTensor(gradients, shape, strides);
    call.d_weight = HostTensor(gradients, {width});
    call.d_bias = HostTensor(gradients, {width});
    return call;
}

vkattn_norm_backward_desc described(const Call &call) {
    vkattn_norm_backward_desc desc{};
    desc.input = call.input.view();
    desc.weight = call.weight.view();
    desc.d_output = call.d_output.view();
    desc.residual = call.residual.view();
    desc.d_input = call.d_input.view();
    desc.d_weight = call.d_weight.view();
    desc.d_bias = call.d_bias.view();
    desc.kind = call.kind;
    desc.accumulate = call.accumulates ? 1 : 0;
    return desc;
}

struct Expected {
    std::vector<double> d_input, d_weight, d_bias;
};

// Of one token.
void add_token(const Call &call, std::size_t token, const std::vector<double> &x, const std::vector<double> &w,
               const std::vector<double> &g, Expected &e) {
    const std::size_t width = w.size(), first = token * width;
    const auto n = static_cast<double>(width);
    const bool is_layer = call.kind == VKATTN_NORM_LAYER;
    double mean = 0, variance = 0, gradients = 0, products = 0;
    for (std::size_t i = 0; is_layer && i < width; ++i) mean += x[first + i] / n;
    for (std::size_t i = 0; i < width; ++i) variance += (x[first + i] - mean) * (x[first + i] - mean) / n;
    const double scale = 1 / std::sqrt(variance + (is_layer ? 1e-5 : 1e-6));
    for (std::size_t i = 0; i < width; ++i) {
        const double normal = (x[first + i] - mean) * scale, gradient = g[first + i] * w[i];
        if (is_layer) gradients += gradient / n;
        products += gradient * normal / n;
        e.d_weight[i] += g[first + i] * normal;
        e.d_bias[i] += g[first + i];
    }
    for (std::size_t i = 0; i < width; ++i) {
        const double normal = (x[first + i] - mean) * scale;
        e.d_input[first + i] += scale * (g[first + i] * w[i] - gradients - normal * products);
    }
}

Expected expected_of(const Call &call) {
    const std::vector<double> x = call.input.values(), w = call.weight.values(), g = call.d_output.values();
    const auto held = [&](const HostTensor &sums) {
        return call.accumulates ? sums.values() : std::vector<double>(w.size());
    };
    Expected e{call.residual.present() ? call.residual.values() : std::vector<double>(x.size()), held(call.d_weight),
               held(call.d_bias)};
    for (std::size_t token = 0; token < x.size() / w.size(); ++token) add_token(call, token, x, w, g, e);
    return e;
}

std::string compare_gradient(const char *name, const HostTensor &made, const std::vector<double> &expected,
                             const Call &call) {
    if (!made.present() || made.elements() == 0) return "";
    const Comparison result =
        compare(name, made.shape(), expected, made.floats(), nmse_bound({call.input.type(), made.type()}));
    return result.passed ? "" : result.report + "\n";
}

// Runs it twice; what is wrong, "" for nothing.
std::string try_call(Call call) {
    const Expected expected = expected_of(call);
    const vkattn::Plan plan = test_device().context().norm_backward_plan(described(call));
    Call again = call;
    std::string wrong = test_device().try_run(plan, regions_of_gradients(call));
    wrong += compare_gradient("d_input", call.d_input, expected.d_input, call) +
             compare_gradient("d_weight", call.d_weight, expected.d_weight, call) +
             compare_gradient("d_bias", call.d_bias, expected.d_bias, call);
    wrong += test_device().try_run(plan, regions_of_gradients(again));
    for (const auto &[one, other] :
         {std::pair(&call.d_input, &again.d_input), std::pair(&call.d_weight, &again.d_weight),
          std::pair(&call.d_bias, &again.d_bias)})
        if (!std::ranges::equal(one->bytes(), other->bytes())) wrong += "other bits in a second run\n";
    return wrong;
}

} // namespace

TEST_SUITE_BEGIN("gradients");

TEST_CASE_FIXTURE(DeviceTest, "norm_backward in every type and of both kinds") {
    std::mt19937 random(std::random_device{}());
    for (const vkattn_type type : kFloats)
        for (const vkattn_norm_kind kind : {VKATTN_NORM_RMS, VKATTN_NORM_LAYER})
            for (const std::uint64_t width : {1, 5, 7, 64, 130, 1030, 4096})
                for (const auto &lengths : {std::pair(3, 3), std::pair(41, 0), std::pair(150, 4)}) {
                    const auto len = static_cast<std::uint64_t>(lengths.first);
                    const auto gap = static_cast<std::uint64_t>(lengths.second);
                    if (width > 1000 && len > 100) continue;
                    if (width == 1 && kind == VKATTN_NORM_RMS) continue; // of whose gradient rounding alone is left
                    INFO(type_name(type), ", kind ", static_cast<int>(kind), ", ", len, " x ", width, ", gap ", gap);
                    Call call = drawn_call(type, type, kind, len, width, gap, random);
                    if (width == 1) call.d_bias = {}; // a sum by itself may be near 0, and has no digits then
                    CHECK(try_call(call) == "");
                }
}

TEST_CASE_FIXTURE(DeviceTest, "norm_backward with residuals, onto sums, and each gradient alone") {
    std::mt19937 random(std::random_device{}());
    for (const vkattn_type type : kFloats)
        for (const vkattn_norm_kind kind : {VKATTN_NORM_RMS, VKATTN_NORM_LAYER})
            for (const std::uint64_t width : {33, 128}) {
                Call call = drawn_call(type, VKATTN_TYPE_F32, kind, 20, width, 2, random);
                call.residual = normal_tensor(type, {2, 20, width}, strides_of(20, width, 2), random);
                call.accumulates = true;
                fill_normal(call.d_weight, random);
                fill_normal(call.d_bias, random);
                CHECK(try_call(call) == "");
                Call of_input = call, of_weight = call, of_bias = call;
                of_input.d_weight = of_input.d_bias = of_weight.d_bias = of_bias.d_weight = {};
                of_weight.d_input = of_weight.residual = of_bias.d_input = of_bias.residual = {};
                const Expected expected = expected_of(call);
                for (Call *alone : {&of_input, &of_weight, &of_bias}) {
                    test_device().run(test_device().context().norm_backward_plan(described(*alone)),
                                      regions_of_gradients(*alone));
                    CHECK(compare_gradient("d_input", alone->d_input, expected.d_input, call) == "");
                    CHECK(compare_gradient("d_weight", alone->d_weight, expected.d_weight, call) == "");
                    CHECK(compare_gradient("d_bias", alone->d_bias, expected.d_bias, call) == "");
                }
            }
}

TEST_CASE_FIXTURE(DeviceTest, "norm_backward without tokens") {
    std::mt19937 random(1);
    for (const bool accumulates : {false, true}) {
        Call call = drawn_call(VKATTN_TYPE_F32, VKATTN_TYPE_F32, VKATTN_NORM_RMS, 0, 33, 3, random);
        call.accumulates = accumulates;
        fill_normal(call.d_weight, random);
        fill_normal(call.d_bias, random);
        CHECK(try_call(call) == "");
    }
}

TEST_CASE_FIXTURE(DeviceTest, "what norm_backward refuses") {
    std::mt19937 random(1);
    const Call good = drawn_call(VKATTN_TYPE_F32, VKATTN_TYPE_F32, VKATTN_NORM_RMS, 3, 8, 0, random);
    const auto refused = [&](const std::function<void(vkattn_norm_backward_desc &)> &spoil) {
        vkattn_norm_backward_desc desc = described(good);
        spoil(desc);
        return message_of([&] { test_device().context().norm_backward_plan(desc); });
    };
    CHECK(refused([](auto &d) { d.d_input = d.d_weight = d.d_bias = {}; }) ==
          "d_input, d_weight, d_bias: absent, expected one of them at least");
    CHECK(refused([](auto &d) {
              d.weight = vkattn::tensor(VKATTN_TYPE_F32, {2, 4});
          }) == "weight: shape [2,4], expected [N] with N at least 1");
    CHECK(refused([](auto &d) { d.d_output.shape[1] = 4; }) == "d_output: shape [2,4,8], expected [2,3,8]");
    CHECK(refused([](auto &d) { d.d_input.shape[2] = 7; }) == "d_input: shape [2,3,7], expected [2,3,8]");
    CHECK(refused([](auto &d) { d.kind = static_cast<vkattn_norm_kind>(2); }) ==
          "kind: 2, expected a vkattn_norm_kind");
    CHECK(refused([](auto &d) {
              d.accumulate = 1;
              d.d_bias.type = VKATTN_TYPE_BF16;
          }) == "d_bias: type BF16, expected F32 with accumulate");
    CHECK(refused([](auto &d) { d.epsilon = -1.0f; }) == "epsilon: -1, expected at least 0");
    CHECK(refused([](auto &d) {
              d.residual = d.d_input;
              d.d_input = {};
          }) == "residual: given without d_input, expected none");
}

TEST_SUITE_END();
