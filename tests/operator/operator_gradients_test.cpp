// Gated activations, their gradients and embedding's against float64: every type, odd sizes, gaps between rows, in place, what is refused.
#include "activations.hpp"
#include "compare.hpp"
#include "limited_device.hpp"
#include "messages.hpp"
#include "shared_regions.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace vkattn_test;

namespace {

constexpr vkattn_type kFloats[] = {VKATTN_TYPE_F32, VKATTN_TYPE_F16, VKATTN_TYPE_BF16};

// By a difference, whose error is far below that of f32.
double slope_of(vkattn_activation activation, double x) {
    constexpr double kStep = 1e-5;
    return (activated(activation, x + kStep) - activated(activation, x - kStep)) / (2 * kStep);
}

// [batch,len,width] with a gap after every row, of an even number of elements or an odd one; or none.
HostTensor rows(vkattn_type type, const Shape &shape, std::uint64_t gap) {
    const std::uint64_t row = shape[2] + gap;
    return gap == 0 ? HostTensor(type, shape) : HostTensor(type, shape, {shape[1] * row, row, 1}, gap % 2);
}

HostTensor normal_rows(vkattn_type type, const Shape &shape, std::uint64_t gap, std::mt19937 &random) {
    HostTensor tensor = rows(type, shape, gap);
    fill_normal(tensor, random, 2.0f);
    return tensor;
}

void check_close(const char *name, const HostTensor &made, const std::vector<double> &expected, vkattn_type least) {
    const Comparison result =
        compare(name, made.shape(), expected, made.floats(), nmse_bound({made.type(), least}), 1e-6);
    CHECK_MESSAGE(result.passed, result.report);
}

struct GatedProblem {
    GatedProblem(vkattn_type type, vkattn_type other, const Shape &shape, std::uint64_t gap) {
        std::mt19937 random(static_cast<unsigned>(shape[2] * 7 + gap));
        gate = normal_rows(type, shape, gap, random);
        input = normal_rows(other, shape, 0, random);
        d_output = normal_rows(type, shape, gap, random);
        output = rows(other, shape, gap);
        d_gate = rows(type, shape, gap);
        d_input = rows(other, shape, gap);
    }

    void check(vkattn_activation activation, bool has_input) {
        vkattn_gated_activation_desc forward{};
        forward.gate = gate.view();
        forward.output = output.view();
        forward.activation = activation;
        vkattn_gated_activation_backward_desc backward{};
        backward.gate = gate.view();
        backward.d_output = d_output.view();
        backward.d_gate = d_gate.view();
        backward.activation = activation;
        std::vector<Region> of_forward = {{VKATTN_ROLE_MULTIPLIER, &gate, Access::kRead},
                                          {VKATTN_ROLE_OUTPUT, &output, Access::kWrite}};
        std::vector<Region> of_backward = {{VKATTN_ROLE_MULTIPLIER, &gate, Access::kRead},
                                           {VKATTN_ROLE_D_OUTPUT, &d_output, Access::kRead},
                                           {VKATTN_ROLE_D_GATE, &d_gate, Access::kWrite}};
        if (has_input) {
            forward.input = backward.input = input.view();
            backward.d_input = d_input.view();
            of_forward.push_back({VKATTN_ROLE_INPUT, &input, Access::kRead});
            of_backward.push_back({VKATTN_ROLE_INPUT, &input, Access::kRead});
            of_backward.push_back({VKATTN_ROLE_D_INPUT, &d_input, Access::kWrite});
        }
        test_device().run(test_device().context().gated_activation_plan(forward), of_forward);
        test_device().run(test_device().context().gated_activation_backward_plan(backward), of_backward);
        std::vector<double> outputs, of_gate, of_input;
        for (std::uint64_t i = 0; i < gate.elements(); ++i) {
            const double x = gate.get(i), factor = has_input ? input.get(i) : 1.0f, gradient = d_output.get(i);
            outputs.push_back(activated(activation, x) * factor);
            of_gate.push_back(slope_of(activation, x) * factor * gradient);
            of_input.push_back(activated(activation, x) * gradient);
        }
        check_close("output", output, outputs, gate.type());
        check_close("d_gate", d_gate, of_gate, gate.type());
        if (has_input) check_close("d_input", d_input, of_input, gate.type());
    }

    HostTensor gate, input, d_output, output, d_gate, d_input;
};

} // namespace

TEST_SUITE_BEGIN("gradients");

TEST_CASE_FIXTURE(DeviceTest, "gated activations and their gradients in every type, odd sizes and rows with gaps") {
    for (const vkattn_activation activation : kActivations)
        for (const vkattn_type type : kFloats)
            for (const std::uint64_t width : {1u, 3u, 130u, 1029u}) {
                const auto gap = static_cast<std::uint64_t>(activation) % 4 + (width == 130 ? 2 : 0);
                CAPTURE(static_cast<int>(activation));
                CAPTURE(type_name(type));
                CAPTURE(width);
                GatedProblem(type, kFloats[width % 3], {2, 3, width}, gap).check(activation, width != 3);
            }
    GatedProblem(VKATTN_TYPE_F16, VKATTN_TYPE_F16, {2, 70, 96}, 0).check(VKATTN_ACTIVATION_SILU, true); // one long row
    GatedProblem(VKATTN_TYPE_F16, VKATTN_TYPE_F16, {2, 3, 2052}, 4).check(VKATTN_ACTIVATION_GELU_TANH, true);
}

TEST_CASE_FIXTURE(DeviceTest, "gated activations and their gradients in place") {
    std::mt19937 random(5);
    for (const vkattn_type type : kFloats)
        for (const std::uint64_t width : {1000u, 1027u}) {
            const Shape shape = {1, 3, width};
            HostTensor gate = normal_tensor(type, shape, random), input = normal_tensor(type, shape, random);
            HostTensor d_output = normal_tensor(type, shape, random);
            vkattn_gated_activation_backward_desc desc{};
            desc.gate = desc.input = desc.d_output = desc.d_gate = desc.d_input = gate.view();
            desc.activation = VKATTN_ACTIVATION_SILU;
            std::vector<double> of_gate, of_input;
            for (std::uint64_t i = 0; i < gate.elements(); ++i) {
                of_gate.push_back(slope_of(desc.activation, gate.get(i)) * static_cast<double>(input.get(i)) *
                                  static_cast<double>(d_output.get(i)));
                of_input.push_back(activated(desc.activation, gate.get(i)) * static_cast<double>(d_output.get(i)));
            }
            run_shared(test_device().context().gated_activation_backward_plan(desc),
                       {{&gate, {VKATTN_ROLE_MULTIPLIER, VKATTN_ROLE_D_GATE}},
                        {&input, {VKATTN_ROLE_INPUT, VKATTN_ROLE_D_INPUT}},
                        {&d_output, {VKATTN_ROLE_D_OUTPUT}}});
            check_close("d_gate", gate, of_gate, type);
            check_close("d_input", input, of_input, type);
        }
}

TEST_CASE_FIXTURE(DeviceTest, "slopes of activations at their corners and far from them") {
    const std::vector<float> at = {0.0f, -0.0f, 1e20f, -1e20f, 90.0f, -90.0f};
    const auto slopes = [&](vkattn_activation activation) {
        HostTensor gate = tensor_of(VKATTN_TYPE_F32, {1, 1, 6}, at), ones(VKATTN_TYPE_F32, {1, 1, 6}),
                   d_gate(VKATTN_TYPE_F32, {1, 1, 6});
        for (std::uint64_t i = 0; i < 6; ++i) ones.set(i, 1.0f);
        vkattn_gated_activation_backward_desc desc{};
        desc.gate = desc.d_output = desc.d_gate = gate.view();
        desc.activation = activation;
        const std::vector<Region> regions = {{VKATTN_ROLE_MULTIPLIER, &gate, Access::kRead},
                                             {VKATTN_ROLE_D_OUTPUT, &ones, Access::kRead},
                                             {VKATTN_ROLE_D_GATE, &d_gate, Access::kWrite}};
        test_device().run(test_device().context().gated_activation_backward_plan(desc), regions);
        std::vector<double> made;
        for (const float each : d_gate.floats())
            made.push_back(std::round(1000.0 * static_cast<double>(each)) / 1000.0);
        return made;
    };
    using Slopes = std::vector<double>;
    CHECK(slopes(VKATTN_ACTIVATION_NONE) == Slopes{1, 1, 1, 1, 1, 1});
    CHECK(slopes(VKATTN_ACTIVATION_RELU) == Slopes{0, 0, 1, 0, 1, 0});
    CHECK(slopes(VKATTN_ACTIVATION_LEAKY_RELU) == Slopes{0.01, 0.01, 1, 0.01, 1, 0.01});
    for (const vkattn_activation activation :
         {VKATTN_ACTIVATION_GELU, VKATTN_ACTIVATION_SILU, VKATTN_ACTIVATION_GELU_TANH, VKATTN_ACTIVATION_SOFTPLUS})
        CHECK(slopes(activation) == Slopes{0.5, 0.5, 1, 0, 1, 0});
    CHECK(slopes(VKATTN_ACTIVATION_SIGMOID) == Slopes{0.25, 0.25, 0, 0, 0, 0});
}

namespace {

struct EmbeddingProblem {
    vkattn_type type = VKATTN_TYPE_F32, d_type = VKATTN_TYPE_F32;
    std::uint64_t rows = 0, width = 0, len = 0;
    bool accumulates = false;
};

// Of tokens that come often, once, never, and that no row is for. Returns the dispatches.
std::uint32_t check_embedding_backward(const EmbeddingProblem &p, TestDevice &device = test_device()) {
    std::mt19937 random(static_cast<unsigned>(p.width + p.len));
    const auto end = static_cast<int>(p.rows);
    std::uniform_int_distribution<int> any(-2, end + 1), few(0, std::min(end - 1, 3));
    HostTensor tokens(VKATTN_TYPE_I32, {2, p.len}, {1, 2}); // transposed
    for (std::uint64_t i = 0; i < tokens.elements(); ++i)
        tokens.set(i, static_cast<float>(i % 3 == 0 ? any(random) : few(random)));
    HostTensor d_output = normal_rows(p.d_type, {2, p.len, p.width}, p.width % 3, random);
    HostTensor d_weight(p.type, {p.rows, p.width}, {p.width + p.width % 5, 1});
    std::vector<double> expected(d_weight.elements());
    if (p.accumulates) {
        fill_normal(d_weight, random);
        expected = d_weight.values();
    }
    for (std::uint64_t i = 0; i < d_output.elements(); ++i)
        if (const float row = tokens.get(i / p.width); row >= 0 && row < static_cast<float>(end))
            expected[static_cast<std::uint64_t>(row) * p.width + i % p.width] += static_cast<double>(d_output.get(i));
    vkattn_embedding_backward_desc desc{};
    desc.tokens = tokens.view();
    desc.d_output = d_output.view();
    desc.d_weight = d_weight.view();
    desc.accumulate = p.accumulates ? 1 : 0;
    const vkattn::Plan plan = device.context().embedding_backward_plan(desc);
    const HostTensor held = d_weight;
    const auto run = [&] {
        if (p.accumulates) d_weight = held;
        const std::vector<Region> regions = {
            {VKATTN_ROLE_TOKENS, &tokens, Access::kRead},
            {VKATTN_ROLE_D_OUTPUT, &d_output, Access::kRead},
            {VKATTN_ROLE_D_WEIGHT, &d_weight, p.accumulates ? Access::kReadWrite : Access::kWrite}};
        device.run(plan, regions);
        return std::vector<std::uint8_t>(d_weight.bytes().begin(), d_weight.bytes().end());
    };
    CHECK(run() == run()); // the same bits every time
    check_close("d_weight", d_weight, expected, VKATTN_TYPE_F32);
    return plan.report().dispatches;
}

} // namespace

TEST_CASE_FIXTURE(DeviceTest, "embedding's gradient is the sum over the positions of each token, in every type") {
    for (const vkattn_type type : kFloats)
        for (const EmbeddingProblem &p : {EmbeddingProblem{.rows = 1, .width = 1, .len = 5},
                                          {.rows = 9, .width = 7, .len = 200},
                                          {.rows = 40, .width = 130, .len = 3},
                                          {.rows = 11, .width = 1036, .len = 150},
                                          {.rows = 300, .width = 64, .len = 310}}) {
            CAPTURE(type_name(type));
            CAPTURE(p.width);
            EmbeddingProblem problem = p;
            problem.type = type;
            problem.d_type = kFloats[p.len % 3];
            check_embedding_backward(problem);
            problem.type = VKATTN_TYPE_F32;
            problem.d_type = type;
            problem.accumulates = true;
            check_embedding_backward(problem);
        }
}

TEST_CASE_FIXTURE(DeviceTest, "a gradient of a weight above the storage buffer range is added up in parts") {
    const LimitedDevice small("max_storage_buffer_range=8192,self_test=0"); // 7936 bytes of a tensor
    const EmbeddingProblem p{.rows = 70, .width = 60, .len = 6};
    CHECK(check_embedding_backward(p, small.device()) == 6); // 32 rows fit
}

TEST_CASE_FIXTURE(DeviceTest, "embedding's gradient without tokens is zeros, or what was there") {
    for (const std::uint32_t accumulate : {0u, 1u}) {
        HostTensor tokens(VKATTN_TYPE_I32, {2, 0}), d_output(VKATTN_TYPE_F32, {2, 0, 5});
        HostTensor d_weight(VKATTN_TYPE_F32, {3, 5});
        for (std::uint64_t i = 0; i < 15; ++i) d_weight.set(i, 7.0f);
        vkattn_embedding_backward_desc desc{};
        desc.tokens = tokens.view();
        desc.d_output = d_output.view();
        desc.d_weight = d_weight.view();
        desc.accumulate = accumulate;
        const std::vector<Region> regions = {{VKATTN_ROLE_D_WEIGHT, &d_weight, Access::kReadWrite}};
        test_device().run(test_device().context().embedding_backward_plan(desc), regions);
        for (const float each : d_weight.floats()) CHECK(each == (accumulate != 0 ? 7.0f : 0.0f));
    }
}

TEST_CASE_FIXTURE(DeviceTest,
                  "what gated activations and embedding's gradient refuse, and that of nothing there is no dispatch") {
    const vkattn::Context &context = test_device().context();
    const auto f32 = [](std::initializer_list<std::uint64_t> shape) { return vkattn::tensor(VKATTN_TYPE_F32, shape); };
    vkattn_gated_activation_desc forward{};
    const auto refused = [&] { return message_of([&] { context.gated_activation_plan(forward); }); };
    CHECK(refused() == "gate: absent, expected a tensor of rank 3");
    forward.gate = f32({2, 3, 0});
    CHECK(refused() == "gate: shape [2,3,0], expected [B,L,N] with N at least 1");
    forward.gate = f32({2, 3, 6});
    CHECK(refused() == "output: absent, expected [2,3,6]");
    forward.output = f32({2, 3, 5});
    CHECK(refused() == "output: shape [2,3,5], expected [2,3,6]");
    forward.output = f32({2, 3, 6});
    forward.activation = static_cast<vkattn_activation>(9);
    CHECK(refused() == "activation: 9, expected a vkattn_activation");
    forward.activation = VKATTN_ACTIVATION_SILU;
    forward.gate = forward.output = f32({2, 0, 6});
    CHECK(context.gated_activation_plan(forward).report().dispatches == 0);

    vkattn_gated_activation_backward_desc backward{};
    backward.gate = f32({2, 3, 6});
    const auto backward_refused = [&] { return message_of([&] { context.gated_activation_backward_plan(backward); }); };
    CHECK(backward_refused() == "d_output: absent, expected [2,3,6]");
    backward.d_output = f32({2, 3, 6});
    CHECK(backward_refused() == "d_gate, d_input: absent, expected one at least");
    backward.d_input = f32({2, 3, 6});
    CHECK(backward_refused() == "d_input: given without input, expected none");

    vkattn_embedding_backward_desc embedding{};
    const auto embedding_refused = [&] { return message_of([&] { context.embedding_backward_plan(embedding); }); };
    embedding.tokens = f32({2, 3});
    CHECK(embedding_refused() == "tokens: type F32, shape [2,3], expected I32 [B,L]");
    embedding.tokens = vkattn::tensor(VKATTN_TYPE_I32, {2, 3});
    embedding.d_weight = vkattn::tensor(VKATTN_TYPE_F16, {5, 6});
    embedding.d_output = f32({2, 3, 7});
    CHECK(embedding_refused() == "d_output: shape [2,3,7], expected [2,3,6]");
    embedding.d_output = f32({2, 3, 6});
    embedding.accumulate = 1;
    CHECK(embedding_refused() == "d_weight: type F16, expected F32 with accumulate");
    embedding.accumulate = 2;
    CHECK(embedding_refused() == "accumulate: 2, expected 0 or 1");
    const LimitedDevice bounded("max_loop_iterations=5000,self_test=0");
    embedding.accumulate = 0;
    embedding.tokens = vkattn::tensor(VKATTN_TYPE_I32, {1, 5000});
    embedding.d_output = f32({1, 5000, 6});
    CHECK(message_of([&] {
              bounded.context().embedding_backward_plan(embedding);
          }).starts_with("tokens: 5000 of them, expected fewer on "));
}

TEST_SUITE_END();
