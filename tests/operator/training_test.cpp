// Cross-entropy, norms of gradients, the optimizer's step and AdamW against float64: every type, odd sizes, gaps, in place, many steps,
// gradients that are not finite, and what is refused.
#include "compare.hpp"
#include "limited_device.hpp"
#include "messages.hpp"
#include "shared_regions.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>

using namespace vkattn_test;

namespace {

constexpr vkattn_type kFloats[] = {VKATTN_TYPE_F32, VKATTN_TYPE_F16, VKATTN_TYPE_BF16};

void check_close(const char *name, const HostTensor &made, const std::vector<double> &expected,
                 std::initializer_list<vkattn_type> types) {
    const Comparison result = compare(name, made.shape(), expected, made.floats(), nmse_bound(types));
    CHECK_MESSAGE(result.passed, result.report);
}

HostTensor number(float value) { return tensor_of(VKATTN_TYPE_F32, {1}, std::array{value}); }
HostTensor count(std::int32_t value) { return tensor_of(VKATTN_TYPE_I32, {1}, std::array{static_cast<float>(value)}); }

struct LossProblem {
    LossProblem(vkattn_type type, vkattn_type d_type, const Shape &shape, std::uint64_t gap, bool has_scale)
        : width(shape[2]) {
        std::mt19937 random(static_cast<unsigned>(width + gap));
        const Shape strides = {shape[1] * (width + gap), width + gap, 1};
        input = HostTensor(type, shape, strides, gap % 2);
        fill_normal(input, random, 4.0f);
        d_input = HostTensor(d_type, shape, strides, gap % 2);
        labels = HostTensor(VKATTN_TYPE_I32, {shape[0], shape[1]}, {1, shape[0]}); // transposed
        losses = HostTensor(VKATTN_TYPE_F32, {shape[0], shape[1]}, {shape[1] * 3, 3});
        mean = HostTensor(VKATTN_TYPE_F32, {1});
        std::uniform_int_distribution<int> any(0, static_cast<int>(width) - 1);
        for (std::uint64_t row = 0; row < labels.elements(); ++row) labels.set(row, static_cast<float>(any(random)));
        if (has_scale) scale = number(64.0f);
    }

    // The row's label does not count, and nothing of the row is looked at.
    void ignore(std::uint64_t row, float label) {
        labels.set(row, label);
        for (std::uint64_t i = 0; i < width; ++i) input.set(row * width + i, NAN);
    }

    vkattn_cross_entropy_desc describe() {
        vkattn_cross_entropy_desc desc{};
        desc.input = input.view();
        desc.labels = labels.view();
        desc.loss_scale = scale.view();
        desc.loss = losses.view();
        desc.mean_loss = mean.view();
        desc.d_input = d_input.view();
        if (ignored >= 0) desc.ignore_label = static_cast<std::uint32_t>(ignored);
        return desc;
    }

    // outputs: of loss, mean_loss and d_input, bits.
    void check(unsigned outputs = 7) {
        vkattn_cross_entropy_desc desc = describe();
        std::vector<Region> regions = {{VKATTN_ROLE_INPUT, &input, Access::kRead},
                                       {VKATTN_ROLE_LABELS, &labels, Access::kRead}};
        const auto take = [&](unsigned bit, vkattn_role role, HostTensor &tensor, vkattn_tensor &described) {
            if ((outputs >> bit & 1) != 0)
                regions.push_back({role, &tensor, Access::kWrite});
            else
                described = {};
        };
        take(0, VKATTN_ROLE_LOSS, losses, desc.loss);
        take(1, VKATTN_ROLE_MEAN_LOSS, mean, desc.mean_loss);
        take(2, VKATTN_ROLE_D_INPUT, d_input, desc.d_input);
        if (scale.present()) regions.push_back({VKATTN_ROLE_LOSS_SCALE, &scale, Access::kRead});
        test_device().run(test_device().context().cross_entropy_plan(desc), regions);
        compute();
        if ((outputs & 1) != 0) check_close("loss", losses, of_rows, {VKATTN_TYPE_F32});
        if ((outputs & 2) != 0) check_close("mean_loss", mean, {of_all}, {VKATTN_TYPE_F32});
        if ((outputs & 4) != 0) check_close("d_input", d_input, gradients, {d_input.type()});
    }

    bool counts(std::uint64_t row) const {
        const float label = labels.get(row);
        return label >= 0 && label < static_cast<float>(width) && label != static_cast<float>(ignored);
    }

    void compute() {
        of_rows.assign(labels.elements(), 0.0);
        gradients.assign(input.elements(), 0.0);
        double counted = 0;
        for (std::uint64_t row = 0; row < labels.elements(); ++row) counted += counts(row) ? 1 : 0;
        for (std::uint64_t row = 0; row < labels.elements(); ++row) {
            if (!counts(row)) continue;
            const auto at = [&](std::uint64_t i) { return static_cast<double>(input.get(row * width + i)); };
            double largest = -HUGE_VAL, sum = 0;
            for (std::uint64_t i = 0; i < width; ++i) largest = std::max(largest, at(i));
            for (std::uint64_t i = 0; i < width; ++i) sum += std::exp(at(i) - largest);
            const auto label = static_cast<std::uint64_t>(labels.get(row));
            of_rows[row] = largest + std::log(sum) - at(label);
            const double by = (scale.present() ? static_cast<double>(scale.get(0)) : 1.0) / counted;
            for (std::uint64_t i = 0; i < width; ++i)
                gradients[row * width + i] = by * (std::exp(at(i) - largest) / sum - (i == label ? 1.0 : 0.0));
        }
        of_all = 0;
        for (const double each : of_rows) of_all += each / std::max(counted, 1.0);
    }

    std::uint64_t width;
    int ignored = -1;
    HostTensor input, labels, scale, losses, mean, d_input;
    std::vector<double> of_rows, gradients;
    double of_all = 0;
};

} // namespace

TEST_SUITE_BEGIN("training");

TEST_CASE_FIXTURE(DeviceTest, "cross-entropy and its gradient in every type, odd sizes and rows with gaps") {
    for (const vkattn_type type : kFloats)
        for (const std::uint64_t width : {1u, 2u, 131u, 1000u, 4098u, 49152u}) {
            CAPTURE(type_name(type));
            CAPTURE(width);
            LossProblem problem(type, kFloats[width % 3], {2, 3, width}, width % 4, width % 2 == 0);
            problem.ignore(1, -100.0f);
            if (width == 1000) {
                problem.ignored = 17;
                problem.ignore(3, 17.0f);
                problem.ignore(4, 1000.0f);
            }
            problem.check();
        }
    LossProblem(VKATTN_TYPE_F16, VKATTN_TYPE_F16, {1, 2, 262144}, 0, true).check();
}

TEST_CASE_FIXTURE(DeviceTest, "any of cross-entropy's outputs may be absent") {
    for (unsigned outputs = 1; outputs < 8; ++outputs) {
        CAPTURE(outputs);
        LossProblem problem(VKATTN_TYPE_F32, VKATTN_TYPE_F32, {2, 5, 60}, 3, (outputs & 4) != 0);
        problem.ignore(7, -1.0f);
        problem.check(outputs);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "where no label counts losses and gradients are zeros") {
    LossProblem problem(VKATTN_TYPE_BF16, VKATTN_TYPE_F32, {2, 2, 37}, 1, true);
    for (std::uint64_t row = 0; row < 4; ++row) problem.ignore(row, row % 2 == 0 ? -100.0f : 37.0f);
    problem.check();
}

TEST_CASE_FIXTURE(DeviceTest, "cross-entropy of logits that are large, and infinite below") {
    LossProblem problem(VKATTN_TYPE_F32, VKATTN_TYPE_F32, {1, 3, 300}, 0, false);
    for (std::uint64_t i = 0; i < 300; ++i) {
        problem.input.set(i, problem.input.get(i) + 3e4f);
        if (i % 7 != 3) problem.input.set(300 + i, -INFINITY);
        problem.input.set(600 + i, i == 9 ? 1e30f : -1e30f);
    }
    problem.labels.set(1, 3.0f);
    problem.labels.set(2, 9.0f);
    problem.check();
}

TEST_CASE_FIXTURE(DeviceTest, "cross-entropy's gradient in place of the logits") {
    for (const vkattn_type type : kFloats)
        for (const std::uint64_t width : {1000u, 1027u}) {
            LossProblem problem(type, type, {1, 3, width}, 0, true);
            problem.compute();
            vkattn_cross_entropy_desc desc = problem.describe();
            desc.loss = {};
            run_shared(test_device().context().cross_entropy_plan(desc),
                       {{&problem.input, {VKATTN_ROLE_INPUT, VKATTN_ROLE_D_INPUT}},
                        {&problem.labels, {VKATTN_ROLE_LABELS}},
                        {&problem.scale, {VKATTN_ROLE_LOSS_SCALE}},
                        {&problem.mean, {VKATTN_ROLE_MEAN_LOSS}}});
            check_close("mean_loss", problem.mean, {problem.of_all}, {VKATTN_TYPE_F32});
            check_close("d_input", problem.input, problem.gradients, {type});
        }
}

TEST_CASE_FIXTURE(DeviceTest, "squared norms of one part and of several, added up, in every type") {
    std::mt19937 random(8);
    for (const vkattn_type type : kFloats)
        for (const Shape &shape :
             {Shape{1}, Shape{7}, Shape{3, 129}, Shape{2, 90, 91}, Shape{5, 16384}, Shape{40001}, Shape{3, 0}}) {
            HostTensor gradient(type, shape, {}, shape.size() - 1);
            fill_normal(gradient, random);
            HostTensor sum = number(3.5f);
            vkattn_squared_norm_desc desc{};
            desc.gradient = gradient.view();
            desc.squared_norm = sum.view();
            for (const std::uint32_t accumulate : {0u, 1u}) {
                desc.accumulate = accumulate;
                if (accumulate != 0) desc.scale = -0.5f;
                std::vector<Region> regions = {{VKATTN_ROLE_GRADIENT, &gradient, Access::kRead},
                                               {VKATTN_ROLE_SQUARED_NORM, &sum, Access::kReadWrite}};
                sum.set(0, 3.5f);
                test_device().run(test_device().context().squared_norm_plan(desc), regions);
                double expected = accumulate != 0 ? 3.5 : 0.0;
                for (const double each : gradient.values()) expected += each * each * (accumulate != 0 ? 0.25 : 1.0);
                CHECK(static_cast<double>(sum.get(0)) == doctest::Approx(expected).epsilon(1e-6));
            }
        }
}

namespace {

// The optimizer in float64, as PyTorch has it.
struct Optimizer {
    double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0.01, loss_scale = 1.0, max_norm = 0;
    int interval = 2000, good = 0, steps = 0;
    bool updates_scale = false;
    std::vector<double> parameters, first, second;

    // Of gradients that loss_scale has multiplied. Returns what they are multiplied by, 0 where the step is not taken.
    double step(const std::vector<double> &gradients, double rate) {
        double squares = 0;
        for (const double each : gradients) squares += each * each;
        const double scale = loss_scale;
        if (!std::isfinite(squares)) {
            if (updates_scale) loss_scale *= 0.5, good = 0;
            return 0;
        }
        ++steps;
        if (updates_scale && ++good == interval) loss_scale *= 2, good = 0;
        const double norm = std::sqrt(squares) / scale;
        const double factor = (max_norm > 0 ? std::min(1.0, max_norm / (norm + 1e-6)) : 1.0) / scale;
        for (std::size_t i = 0; i < gradients.size(); ++i) {
            const double g = gradients[i] * factor;
            first[i] = beta1 * first[i] + (1 - beta1) * g;
            second[i] = beta2 * second[i] + (1 - beta2) * g * g;
            const double mean = first[i] / (1 - std::pow(beta1, steps)),
                         square = second[i] / (1 - std::pow(beta2, steps));
            parameters[i] = parameters[i] * (1 - rate * weight_decay) - rate * mean / (std::sqrt(square) + epsilon);
        }
        return factor;
    }
};

// The same on the device.
struct Training {
    Training(std::uint64_t elements, vkattn_type gradient_type, vkattn_type copy_type, std::uint64_t offset = 0)
        : parameter(VKATTN_TYPE_F32, {elements}, {}, offset), first(VKATTN_TYPE_F32, {elements}),
          second(VKATTN_TYPE_F32, {elements}), gradient(gradient_type, {elements}, {}, offset),
          copy(copy_type, {elements}, {}, offset) {
        std::mt19937 random(static_cast<unsigned>(elements));
        fill_normal(parameter, random);
        for (std::uint64_t i = 0; i < elements; ++i) {
            first.set(i, 0.0f);
            second.set(i, 0.0f);
            copy.set(i, 0.0f);
        }
        expected.parameters = parameter.values();
        expected.first = expected.second = std::vector<double>(elements);
    }

    // One program of the three calls, as a caller has them.
    void step(float rate) {
        const vkattn::Context &context = test_device().context();
        learning_rate.set(0, rate);
        vkattn_squared_norm_desc norm{};
        norm.gradient = gradient.view();
        norm.squared_norm = squared_norm.view();
        norm.scale = adamw.copy_scale;
        decision.squared_norm = squared_norm.view();
        decision.loss_scale = loss_scale.view();
        decision.good_steps = good_steps.view();
        decision.factor = factor.view();
        decision.step = steps.view();
        adamw.parameter = parameter.view();
        adamw.gradient = gradient.view();
        adamw.first_moment = first.view();
        adamw.second_moment = second.view();
        adamw.step = steps.view();
        adamw.factor = factor.view();
        adamw.learning_rate = learning_rate.view();
        adamw.copy = copy.view();
        const std::vector<Region> of_norm = {{VKATTN_ROLE_GRADIENT, &gradient, Access::kRead},
                                             {VKATTN_ROLE_SQUARED_NORM, &squared_norm, Access::kWrite}};
        test_device().run(context.squared_norm_plan(norm), of_norm);
        const std::vector<Region> of_decision = {{VKATTN_ROLE_SQUARED_NORM, &squared_norm, Access::kRead},
                                                 {VKATTN_ROLE_LOSS_SCALE, &loss_scale, Access::kReadWrite},
                                                 {VKATTN_ROLE_GOOD_STEPS, &good_steps, Access::kReadWrite},
                                                 {VKATTN_ROLE_FACTOR, &factor, Access::kWrite},
                                                 {VKATTN_ROLE_STEP, &steps, Access::kReadWrite}};
        test_device().run(context.optimizer_step_plan(decision), of_decision);
        const std::vector<Region> of_step = {{VKATTN_ROLE_PARAMETER, &parameter, Access::kReadWrite},
                                             {VKATTN_ROLE_GRADIENT, &gradient, Access::kRead},
                                             {VKATTN_ROLE_FIRST_MOMENT, &first, Access::kReadWrite},
                                             {VKATTN_ROLE_SECOND_MOMENT, &second, Access::kReadWrite},
                                             {VKATTN_ROLE_STEP, &steps, Access::kRead},
                                             {VKATTN_ROLE_FACTOR, &factor, Access::kRead},
                                             {VKATTN_ROLE_LEARNING_RATE, &learning_rate, Access::kRead},
                                             {VKATTN_ROLE_COPY, &copy, Access::kReadWrite}};
        test_device().run(context.adamw_plan(adamw), of_step);
    }

    void check_state() {
        check_close("parameter", parameter, expected.parameters, {VKATTN_TYPE_F32});
        check_close("first_moment", first, expected.first, {VKATTN_TYPE_F32});
        check_close("second_moment", second, expected.second, {VKATTN_TYPE_F32});
        std::vector<double> scaled = expected.parameters;
        const double scale = adamw.copy_scale.present != 0 ? static_cast<double>(adamw.copy_scale.value) : 1.0;
        for (double &each : scaled) each *= scale;
        check_close("copy", copy, scaled, {copy.type()});
        CHECK(steps.get(0) == static_cast<float>(expected.steps));
        CHECK(loss_scale.get(0) == static_cast<float>(expected.loss_scale));
        CHECK(good_steps.get(0) == static_cast<float>(expected.good));
    }

    HostTensor parameter, first, second, gradient, copy;
    HostTensor squared_norm = number(0.0f), loss_scale = number(1.0f), good_steps = count(0), factor = number(0.0f),
               steps = count(0), learning_rate = number(0.0f);
    vkattn_optimizer_step_desc decision{};
    vkattn_adamw_desc adamw{};
    Optimizer expected;
};

} // namespace

// Of sum(w (x - target)^2) / 2 of each element, whose loss falls.
TEST_CASE_FIXTURE(DeviceTest, "twenty steps of AdamW with clipping and a schedule are float64's") {
    for (const vkattn_type type : kFloats)
        for (const std::uint64_t elements : {5u, 1031u, 20000u}) {
            CAPTURE(type_name(type));
            CAPTURE(elements);
            Training training(elements, type, kFloats[elements % 3], elements % 2);
            training.decision.max_norm = 0.75f;
            training.expected.max_norm = 0.75;
            training.loss_scale.set(0, 16.0f);
            training.expected.loss_scale = 16;
            training.expected.updates_scale = true;
            training.adamw.copy_scale = 0.5f;
            training.adamw.weight_decay = 0.125f;
            training.expected.weight_decay = 0.125;
            training.adamw.epsilon = 0x1p-20f;
            training.expected.epsilon = 0x1p-20;
            for (int step = 0; step < 20; ++step) {
                const float rate = 0.0625f / static_cast<float>(1 + step / 4);
                std::vector<double> gradients;
                for (std::uint64_t i = 0; i < elements; ++i) {
                    const auto at = static_cast<float>(training.expected.parameters[i]);
                    training.gradient.set(i, 16.0f * (0.5f + static_cast<float>(i % 3)) * (at - 0.25f) / 64.0f);
                    gradients.push_back(0.5 * static_cast<double>(training.gradient.get(i))); // of the copy
                }
                training.step(rate);
                training.expected.step(gradients, static_cast<double>(rate));
            }
            training.check_state();
        }
}

TEST_CASE_FIXTURE(DeviceTest,
                  "steps whose gradients are not finite change nothing, and the loss scale goes down and up") {
    Training training(77, VKATTN_TYPE_F16, VKATTN_TYPE_F16);
    training.loss_scale.set(0, 1024.0f);
    training.expected.loss_scale = 1024;
    training.expected.updates_scale = true;
    training.decision.growth_interval = 3;
    training.expected.interval = 3;
    std::mt19937 random(2);
    const float spoilt[] = {0, INFINITY, 0, 0, NAN, -INFINITY, 0, 0, 0, 0, 0, 0, 0, NAN};
    for (std::size_t step = 0; step < std::size(spoilt); ++step) {
        CAPTURE(step);
        fill_normal(training.gradient, random);
        if (spoilt[step] != 0) training.gradient.set(step * 5, spoilt[step]);
        const HostTensor held[] = {training.parameter, training.first, training.second, training.copy};
        training.step(0.01f);
        const double taken = training.expected.step(training.gradient.values(), static_cast<double>(0.01f));
        CHECK(static_cast<double>(training.factor.get(0)) == doctest::Approx(taken).epsilon(1e-6));
        const HostTensor *now[] = {&training.parameter, &training.first, &training.second, &training.copy};
        for (std::size_t i = 0; i < std::size(held); ++i)
            CHECK(std::ranges::equal(held[i].bytes(), now[i]->bytes()) == (taken == 0));
        training.check_state();
    }
    CHECK(training.loss_scale.get(0) == 256.0f); // down by 1, 4, 5 and 13, up by 6 to 8 and 9 to 11
}

TEST_CASE_FIXTURE(DeviceTest, "a loss scale that would not be finite stays, and one without good_steps too") {
    const auto decided = [](float scale, bool has_good) {
        HostTensor sum = number(4.0f), loss_scale = number(scale), good = count(1), factor = number(0),
                   steps = count(41);
        vkattn_optimizer_step_desc desc{};
        desc.squared_norm = sum.view();
        desc.loss_scale = loss_scale.view();
        desc.factor = factor.view();
        desc.step = steps.view();
        desc.growth_interval = 2;
        if (has_good) desc.good_steps = good.view();
        std::vector<Region> regions = {{VKATTN_ROLE_SQUARED_NORM, &sum, Access::kRead},
                                       {VKATTN_ROLE_LOSS_SCALE, &loss_scale, Access::kReadWrite},
                                       {VKATTN_ROLE_FACTOR, &factor, Access::kWrite},
                                       {VKATTN_ROLE_STEP, &steps, Access::kReadWrite}};
        if (has_good) regions.push_back({VKATTN_ROLE_GOOD_STEPS, &good, Access::kReadWrite});
        test_device().run(test_device().context().optimizer_step_plan(desc), regions);
        CHECK(steps.get(0) == 42.0f);
        CHECK(good.get(0) == (has_good ? 0.0f : 1.0f));
        return loss_scale.get(0);
    };
    CHECK(decided(0x1p127f, true) == 0x1p127f);
    CHECK(decided(8.0f, true) == 16.0f);
    CHECK(decided(8.0f, false) == 8.0f);
}

TEST_CASE_FIXTURE(DeviceTest, "a first step of AdamW without factor or copy, with betas of 0") {
    HostTensor parameter = tensor_of(VKATTN_TYPE_F32, {2, 3}, std::array{1.0f, 2.0f, -3.0f, 0.0f, 5.0f, 6.0f});
    HostTensor gradient = tensor_of(VKATTN_TYPE_F32, {2, 3}, std::array{0.5f, -2.0f, 1.0f, 4.0f, -1e-3f, 9.0f});
    HostTensor first(VKATTN_TYPE_F32, {2, 3}), second(VKATTN_TYPE_F32, {2, 3}), steps = count(1), rate = number(0.25f);
    for (std::uint64_t i = 0; i < 6; ++i) first.set(i, 0), second.set(i, 0);
    std::vector<double> expected;
    for (std::uint64_t i = 0; i < 6; ++i)
        expected.push_back(static_cast<double>(parameter.get(i)) - (gradient.get(i) > 0 ? 0.25 : -0.25)); // by its sign
    vkattn_adamw_desc desc{};
    desc.parameter = parameter.view();
    desc.gradient = gradient.view();
    desc.first_moment = first.view();
    desc.second_moment = second.view();
    desc.step = steps.view();
    desc.learning_rate = rate.view();
    desc.beta1 = desc.beta2 = desc.epsilon = desc.weight_decay = 0.0f;
    const std::vector<Region> regions = {{VKATTN_ROLE_PARAMETER, &parameter, Access::kReadWrite},
                                         {VKATTN_ROLE_GRADIENT, &gradient, Access::kRead},
                                         {VKATTN_ROLE_FIRST_MOMENT, &first, Access::kReadWrite},
                                         {VKATTN_ROLE_SECOND_MOMENT, &second, Access::kReadWrite},
                                         {VKATTN_ROLE_STEP, &steps, Access::kRead},
                                         {VKATTN_ROLE_LEARNING_RATE, &rate, Access::kRead}};
    test_device().run(test_device().context().adamw_plan(desc), regions);
    check_close("parameter", parameter, expected, {VKATTN_TYPE_F32});
}

TEST_CASE_FIXTURE(DeviceTest, "what training's operators refuse, and that of nothing there is no dispatch") {
    const vkattn::Context &context = test_device().context();
    const auto f32 = [](std::initializer_list<std::uint64_t> shape) { return vkattn::tensor(VKATTN_TYPE_F32, shape); };
    const auto i32 = [](std::initializer_list<std::uint64_t> shape) { return vkattn::tensor(VKATTN_TYPE_I32, shape); };
    vkattn_cross_entropy_desc loss{};
    const auto loss_refused = [&] { return message_of([&] { context.cross_entropy_plan(loss); }); };
    loss.input = f32({2, 3});
    CHECK(loss_refused() == "input: rank 2, expected 3");
    loss.input = f32({2, 3, 6});
    CHECK(loss_refused() == "labels: absent, expected I32 [2,3]");
    loss.labels = i32({2, 4});
    CHECK(loss_refused() == "labels: shape [2,4], expected [2,3]");
    loss.labels = i32({2, 3});
    CHECK(loss_refused() == "loss, mean_loss, d_input: absent, expected one at least");
    loss.mean_loss = f32({2});
    CHECK(loss_refused() == "mean_loss: shape [2], expected [1]");
    loss.mean_loss = f32({1});
    loss.ignore_label = 6u;
    CHECK(loss_refused() == "ignore_label: 6, expected one of 0 to 5; other labels are ignored anyway");
    loss.ignore_label = {};
    loss.d_input = f32({2, 3, 5});
    CHECK(loss_refused() == "d_input: shape [2,3,5], expected [2,3,6]");
    loss.input = loss.d_input = f32({2, 0, 6});
    loss.labels = i32({2, 0});
    CHECK(context.cross_entropy_plan(loss).report().dispatches == 0);

    vkattn_squared_norm_desc norm{};
    const auto norm_refused = [&] { return message_of([&] { context.squared_norm_plan(norm); }); };
    CHECK(norm_refused() == "gradient: absent, expected a contiguous tensor");
    norm.gradient = i32({4});
    CHECK(norm_refused() == "gradient: type I32, expected F32, F16 or BF16");
    norm.gradient = vkattn::tensor(VKATTN_TYPE_F32, {2, 3}, {4, 1});
    CHECK(norm_refused() == "gradient: strides are not those of a contiguous tensor, expected them to be");
    norm.gradient = f32({4});
    CHECK(norm_refused() == "squared_norm: absent, expected F32 [1]");
    norm.squared_norm = f32({1});
    norm.accumulate = 2;
    CHECK(norm_refused() == "accumulate: 2, expected 0 or 1");

    vkattn_optimizer_step_desc step{};
    const auto step_refused = [&] { return message_of([&] { context.optimizer_step_plan(step); }); };
    CHECK(step_refused() == "squared_norm: absent, expected F32 [1]");
    step.squared_norm = step.factor = f32({1});
    CHECK(step_refused() == "step: absent, expected I32 [1]");
    step.step = step.good_steps = i32({1});
    CHECK(step_refused() == "good_steps: given without loss_scale, expected none");
    step.loss_scale = f32({1});
    step.max_norm = 0.0f;
    CHECK(step_refused() == "max_norm: 0, expected a number above 0");
    step.max_norm = {};
    step.backoff_factor = 2.0f;
    CHECK(step_refused() == "backoff_factor: 2, expected a number above 0, at most 1");
    step.growth_factor = 0.5f;
    CHECK(step_refused() == "growth_factor: 0.5, expected at least 1");

    vkattn_adamw_desc adamw{};
    const auto adamw_refused = [&] { return message_of([&] { context.adamw_plan(adamw); }); };
    CHECK(adamw_refused() == "parameter: absent, expected a contiguous tensor");
    adamw.parameter = vkattn::tensor(VKATTN_TYPE_F16, {4});
    CHECK(adamw_refused() == "parameter: type F16, expected F32");
    adamw.parameter = adamw.first_moment = adamw.second_moment = f32({4});
    adamw.gradient = vkattn::tensor(VKATTN_TYPE_F16, {5});
    CHECK(adamw_refused() == "gradient: shape [5], expected [4]");
    adamw.gradient = vkattn::tensor(VKATTN_TYPE_F16, {4});
    CHECK(adamw_refused() == "step: absent, expected I32 [1]");
    adamw.step = i32({1});
    CHECK(adamw_refused() == "learning_rate: absent, expected F32 [1]");
    adamw.learning_rate = f32({1});
    adamw.beta2 = 1.0f;
    CHECK(adamw_refused() == "beta2: 1, expected at least 0, below 1");
    adamw.beta2 = {};
    adamw.weight_decay = -1.0f;
    CHECK(adamw_refused() == "weight_decay: -1, expected at least 0");
    adamw.weight_decay = {};
    adamw.parameter = adamw.first_moment = adamw.second_moment = adamw.gradient = f32({0});
    CHECK(context.adamw_plan(adamw).report().dispatches == 0);
}

TEST_SUITE_END();
