// linear_backward against float64: every type, quantised weights, strides, residuals, sums that accumulate, parts of a weight, no tokens,
// the same bits every time.
#include "compare.hpp"
#include "limited_device.hpp"
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

struct Layout {
    std::uint64_t batch, len, in, out, gap;
};

// [batch,len,width] with gaps behind rows and behind entries of the batch.
Shape strides_of(const Layout &layout, std::uint64_t width) {
    const std::uint64_t row = width + layout.gap;
    return {std::max<std::uint64_t>(layout.len, 1) * row + layout.gap, row, 1};
}

HostTensor drawn(const Layout &layout, vkattn_type type, std::uint64_t width, std::mt19937 &random) {
    return normal_tensor(type, {layout.batch, layout.len, width}, strides_of(layout, width), random);
}

struct Call {
    Layout layout{};
    HostTensor input, weight, d_output, residual, d_input, d_weight, d_bias;
    bool accumulates = false;
    bool onto_residual = false; // d_input is the residual
};

// All gradients of tensors of that type, the weight and the gradients of others.
Call drawn_call(const Layout &layout, vkattn_type type, vkattn_type weight_type, vkattn_type gradients,
                std::mt19937 &random) {
    Call call;
    call.layout = layout;
    call.input = drawn(layout, type, layout.in, random);
    call.d_output = drawn(layout, type, layout.out, random);
    const std::uint64_t block = type_info(weight_type).block_elements;
    call.weight =
        normal_tensor(weight_type, {layout.out, layout.in}, {layout.in + (layout.gap + block - 1) / block * block, 1},
                      random, 1.0f / std::sqrt(static_cast<float>(layout.out)));
    call.d_input = HostTensor(gradients, {layout.batch, layout.len, layout.in}, strides_of(layout, layout.in));
    call.d_weight = HostTensor(gradients, {layout.out, layout.in}, {layout.in + layout.gap, 1});
    call.d_bias = HostTensor(gradients, {layout.out});
    return call;
}

vkattn_linear_backward_desc described(const Call &call) {
    vkattn_linear_backward_desc desc{};
    desc.input = call.input.view();
    desc.weight = call.weight.view();
    desc.d_output = call.d_output.view();
    desc.residual = call.onto_residual ? call.d_input.view() : call.residual.view();
    desc.d_input = call.d_input.view();
    desc.d_weight = call.d_weight.view();
    desc.d_bias = call.d_bias.view();
    desc.accumulate = call.accumulates ? 1 : 0;
    return desc;
}

struct Expected {
    std::vector<double> d_input, d_weight, d_bias;
};

std::vector<double> held(const HostTensor &tensor, bool counts) {
    return counts ? tensor.values() : std::vector<double>(tensor.elements());
}

Expected expected_of(const Call &call) {
    const auto &[batch, len, in, out, gap] = call.layout;
    Expected e;
    e.d_input = call.residual.present() ? call.residual.values() : held(call.d_input, call.onto_residual);
    e.d_weight = held(call.d_weight, call.accumulates);
    e.d_bias = held(call.d_bias, call.accumulates);
    const std::vector<double> x = call.input.values(), w = call.weight.values(), g = call.d_output.values();
    for (std::uint64_t token = 0; token < batch * len; ++token)
        for (std::uint64_t o = 0; o < out; ++o) {
            const double gradient = g[token * out + o];
            if (call.d_bias.present()) e.d_bias[o] += gradient;
            for (std::uint64_t i = 0; i < in; ++i) {
                if (call.d_input.present()) e.d_input[token * in + i] += gradient * w[o * in + i];
                if (call.d_weight.present()) e.d_weight[o * in + i] += gradient * x[token * in + i];
            }
        }
    return e;
}

std::string compare_gradient(const char *name, const HostTensor &made, const std::vector<double> &expected,
                             const Call &call) {
    if (!made.present() || made.elements() == 0) return "";
    const vkattn_type weight = is_quantised(call.weight.type()) ? VKATTN_TYPE_F16 : call.weight.type();
    const double bound = nmse_bound({call.d_output.type(), made.type(), weight, call.input.type()});
    const Comparison result = compare(name, made.shape(), expected, made.floats(), bound);
    return result.passed ? "" : result.report + "\n";
}

// Runs it twice; what is wrong, "" for nothing.
std::string try_call(Call call, TestDevice &device = test_device()) {
    const Expected expected = expected_of(call);
    const vkattn::Plan plan = device.context().linear_backward_plan(described(call));
    const Call given = call;
    std::string wrong = device.try_run(plan, regions_of_gradients(call));
    wrong += compare_gradient("d_input", call.d_input, expected.d_input, call) +
             compare_gradient("d_weight", call.d_weight, expected.d_weight, call) +
             compare_gradient("d_bias", call.d_bias, expected.d_bias, call);
    Call again = given;
    wrong += device.try_run(plan, regions_of_gradients(again));
    for (const auto &[one, other] :
         {std::pair(&call.d_input, &again.d_input), std::pair(&call.d_weight, &again.d_weight),
          std::pair(&call.d_bias, &again.d_bias)})
        if (!std::ranges::equal(one->bytes(), other->bytes())) wrong += "other bits in a second run\n";
    return wrong;
}

// Of odd sizes without alignment, of whole eights, and of several tiles; entries of a batch with gaps between them and without.
constexpr Layout kLayouts[] = {{1, 1, 1, 1, 0},    {2, 3, 7, 5, 3},      {1, 19, 40, 24, 0}, {3, 21, 33, 65, 1},
                               {2, 32, 64, 96, 8}, {1, 130, 136, 72, 0}, {4, 1, 24, 130, 8}, {2, 70, 200, 48, 0}};

} // namespace

TEST_SUITE_BEGIN("gradients");

TEST_CASE_FIXTURE(DeviceTest, "linear_backward in every type") {
    std::mt19937 random(std::random_device{}());
    for (const vkattn_type type : kFloats)
        for (const Layout &layout : kLayouts) {
            INFO(type_name(type), " ", layout.batch, " x ", layout.len, ", ", layout.in, " to ", layout.out);
            CHECK(try_call(drawn_call(layout, type, type, type, random)) == "");
        }
}

TEST_CASE_FIXTURE(DeviceTest, "linear_backward of types in mixture, each gradient alone") {
    std::mt19937 random(std::random_device{}());
    for (const vkattn_type type : kFloats)
        for (const vkattn_type weight : kFloats)
            for (const vkattn_type gradients : kFloats) {
                INFO(type_name(type), ", ", type_name(weight), " to ", type_name(gradients));
                Call call = drawn_call({2, 9, 24, 40, 0}, type, weight, gradients, random);
                HostTensor *const made[] = {&call.d_input, &call.d_weight, &call.d_bias};
                for (HostTensor *kept : made) {
                    Call alone = call;
                    if (kept != &call.d_input) alone.d_input = alone.weight = {};
                    if (kept != &call.d_weight) alone.d_weight = alone.input = {};
                    if (kept != &call.d_bias) alone.d_bias = {};
                    const Expected expected = [&] {
                        Call full = call; // whose numbers an absent factor does not have
                        return expected_of(full);
                    }();
                    test_device().run(test_device().context().linear_backward_plan(described(alone)),
                                      regions_of_gradients(alone));
                    CHECK(compare_gradient("d_input", alone.d_input, expected.d_input, call) == "");
                    CHECK(compare_gradient("d_weight", alone.d_weight, expected.d_weight, call) == "");
                    CHECK(compare_gradient("d_bias", alone.d_bias, expected.d_bias, call) == "");
                }
            }
}

TEST_CASE_FIXTURE(DeviceTest, "linear_backward of frozen quantised weights") {
    std::mt19937 random(std::random_device{}());
    for (const vkattn_type weight : quantised_weight_types())
        for (const vkattn_type type : {VKATTN_TYPE_F32, VKATTN_TYPE_F16}) {
            const std::uint64_t block = type_info(weight).block_elements;
            for (const std::uint64_t len : {3u, 37u}) {
                INFO(type_name(weight), " for ", type_name(type), ", ", len, " tokens");
                Call call = drawn_call({2, len, 3 * block, 45, 0}, type, weight, type, random);
                call.d_weight = call.d_bias = call.input = {};
                call.input = {};
                call.residual = drawn(call.layout, type, call.layout.in, random);
                Call full = call;
                full.input = drawn(call.layout, type, call.layout.in, random);
                const Expected expected = expected_of(full);
                test_device().run(test_device().context().linear_backward_plan(described(call)),
                                  regions_of_gradients(call));
                CHECK(compare_gradient("d_input", call.d_input, expected.d_input, full) == "");
            }
        }
}

TEST_CASE_FIXTURE(DeviceTest, "linear_backward of weights that lie transposed, or with gaps between elements") {
    std::mt19937 random(std::random_device{}());
    for (const vkattn_type type : kFloats)
        for (const Shape &strides : {Shape{1, 48}, Shape{3, 150}, Shape{80, 2}}) {
            Call call = drawn_call({2, 19, 40, 48, 0}, type, type, type, random);
            call.weight = normal_tensor(type, {48, 40}, strides, random, 0.2f);
            CHECK(try_call(call) == "");
        }
}

TEST_CASE_FIXTURE(DeviceTest, "linear_backward adds residuals and what sums held") {
    std::mt19937 random(std::random_device{}());
    for (const vkattn_type type : kFloats)
        for (const Layout &layout : {Layout{2, 9, 33, 21, 3}, Layout{1, 40, 64, 48, 0}}) {
            Call call = drawn_call(layout, type, type, VKATTN_TYPE_F32, random);
            call.accumulates = true;
            fill_normal(call.d_weight, random);
            fill_normal(call.d_bias, random);
            call.residual = drawn(layout, type, layout.in, random);
            CHECK(try_call(call) == "");
        }
}

TEST_CASE_FIXTURE(DeviceTest, "linear_backward onto its residual") {
    std::mt19937 random(std::random_device{}());
    Call call = drawn_call({2, 9, 40, 24, 0}, VKATTN_TYPE_F32, VKATTN_TYPE_F32, VKATTN_TYPE_F32, random);
    call.d_weight = call.d_bias = {};
    fill_normal(call.d_input, random);
    call.onto_residual = true;
    const Expected expected = expected_of(call);
    const vkattn::Context &context = test_device().context();
    const auto room = [&](const HostTensor &tensor) {
        vkattn::Buffer buffer(context.get(), tensor.bytes().size());
        buffer.write(tensor.bytes());
        return buffer;
    };
    const vkattn::Buffer g = room(call.d_output), w = room(call.weight), both = room(call.d_input);
    vkattn_linear_backward_desc desc = described(call);
    desc.input = {};
    const vkattn::Plan plan = context.linear_backward_plan(desc);
    const std::vector<vkattn_binding> bindings = {{VKATTN_ROLE_D_OUTPUT, g.region()},
                                                  {VKATTN_ROLE_WEIGHT, w.region()},
                                                  {VKATTN_ROLE_RESIDUAL, both.region()},
                                                  {VKATTN_ROLE_D_INPUT, both.region()}};
    plan.run(bindings);
    both.read(call.d_input.bytes());
    CHECK(compare_gradient("d_input", call.d_input, expected.d_input, call) == "");
}

TEST_CASE_FIXTURE(DeviceTest, "linear_backward without tokens") {
    std::mt19937 random(1);
    for (const bool accumulates : {false, true}) {
        Call call = drawn_call({2, 0, 33, 21, 3}, VKATTN_TYPE_F32, VKATTN_TYPE_F32, VKATTN_TYPE_F32, random);
        call.accumulates = accumulates;
        fill_normal(call.d_weight, random);
        fill_normal(call.d_bias, random);
        CHECK(try_call(call) == "");
    }
}

TEST_CASE_FIXTURE(DeviceTest, "linear_backward of a weight above the storage buffer range comes in parts") {
    const LimitedDevice small("max_storage_buffer_range=8192,self_test=0");
    std::mt19937 random(std::random_device{}());
    for (const vkattn_type type : kFloats) {
        Call call = drawn_call({1, 3, 24, 500, 0}, type, type, type, random);
        call.residual = drawn(call.layout, type, 24, random);
        call.d_weight = call.input = {};
        Call full = call;
        full.input = drawn(call.layout, type, 24, random);
        const Expected expected = expected_of(full);
        const vkattn::Plan plan = small.context().linear_backward_plan(described(call));
        CHECK(plan.report().dispatches > 2);
        small.device().run(plan, regions_of_gradients(call));
        CHECK(compare_gradient("d_input", call.d_input, expected.d_input, full) == "");
    }
}

TEST_CASE_FIXTURE(DeviceTest, "what linear_backward refuses") {
    std::mt19937 random(1);
    const Call good = drawn_call({2, 3, 8, 6, 0}, VKATTN_TYPE_F32, VKATTN_TYPE_F32, VKATTN_TYPE_F32, random);
    const auto refused = [&](const std::function<void(vkattn_linear_backward_desc &)> &spoil) {
        vkattn_linear_backward_desc desc = described(good);
        spoil(desc);
        return message_of([&] { test_device().context().linear_backward_plan(desc); });
    };
    CHECK(refused([](auto &d) { d.d_input = d.d_weight = d.d_bias = {}; }) ==
          "d_input, d_weight, d_bias: absent, expected one of them at least");
    CHECK(refused([](auto &d) { d.weight = {}; }) == "weight: absent, expected [out,in] with d_input");
    CHECK(refused([](auto &d) {
              d.weight = vkattn::tensor(VKATTN_TYPE_F32, {7, 8});
          }) == "weight: shape [7,8], expected [6,in] with in at least 1, as d_output");
    CHECK(refused([](auto &d) { d.input = {}; }) == "input: absent, expected [2,3,8]");
    CHECK(refused([](auto &d) { d.d_input.shape[2] = 7; }) == "d_input: shape [2,3,7], expected [2,3,8]");
    CHECK(refused([](auto &d) {
              d.d_weight = vkattn::tensor(VKATTN_TYPE_F32, {6, 8}, {1, 6});
          }) == "d_weight: shape [6,8], expected [6,8], last stride 1");
    CHECK(refused([](auto &d) { d.d_bias = vkattn::tensor(VKATTN_TYPE_F32, {7}); }) ==
          "d_bias: shape [7], expected [6] contiguous");
    CHECK(refused([](auto &d) {
              d.accumulate = 1;
              d.d_weight.type = VKATTN_TYPE_F16;
          }) == "d_weight: type F16, expected F32 with accumulate");
    CHECK(refused([](auto &d) { d.accumulate = 2; }) == "accumulate: 2, expected 0 or 1");
    CHECK(refused([](auto &d) {
              d.residual = d.d_input;
              d.d_input = {};
          }) == "residual: given without d_input, expected none");
    CHECK(refused([](auto &d) {
              d.d_output = vkattn::tensor(VKATTN_TYPE_F32, {2, 3, 0});
          }) == "d_output: shape [2,3,0], expected at least 1 feature");
}

TEST_SUITE_END();
