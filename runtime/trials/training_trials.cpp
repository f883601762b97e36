#include "runtime/trials/training_trials.hpp"

#include "runtime/ops/operators.hpp"
#include "runtime/support/error.hpp"
#include "runtime/trials/role_buffer.hpp"
#include "shaders/interface/squared_norm.h"

#include <array>
#include <cmath>
#include <memory>

namespace vkattn {
namespace {

vkattn_tensor f32(std::initializer_list<uint64_t> shape) { return contiguous(VKATTN_TYPE_F32, shape); }

// One number.
struct OneNumber : RoleBuffer {
    OneNumber(Context &context, vkattn_role role, float value) : RoleBuffer(context, role, f32({1})) {
        write(std::array{value});
    }
    OneNumber(Context &context, vkattn_role role, int32_t value)
        : RoleBuffer(context, role, contiguous(VKATTN_TYPE_I32, {1})) {
        write(std::array{value});
    }
};

} // namespace

// Both gradients of silu's gate, which its value is part of.
std::string check_gated_activation(Context &context) {
    TrialNumbers numbers;
    const vkattn_tensor rows = f32({1, 3, 701});
    RoleBuffer gate(context, VKATTN_ROLE_MULTIPLIER, rows), input(context, VKATTN_ROLE_INPUT, rows);
    RoleBuffer d_output(context, VKATTN_ROLE_D_OUTPUT, rows);
    RoleBuffer d_gate(context, VKATTN_ROLE_D_GATE, rows), d_input(context, VKATTN_ROLE_D_INPUT, rows);
    const std::vector<float> g = gate.randomise(numbers), x = input.randomise(numbers), d = d_output.randomise(numbers);
    vkattn_gated_activation_backward_desc desc{};
    desc.gate = desc.input = desc.d_output = desc.d_gate = desc.d_input = rows;
    desc.activation = VKATTN_ACTIVATION_SILU;
    run_plan(context, plan_gated_activation_backward, desc, {&gate, &input, &d_output, &d_gate, &d_input});
    std::vector<double> of_gate(g.size()), of_input(g.size());
    for (size_t i = 0; i < g.size(); ++i) {
        const double at = g[i], sigmoid = 1.0 / (1.0 + std::exp(-at)), gradient = d[i];
        of_gate[i] = sigmoid * (1.0 + at * (1.0 - sigmoid)) * static_cast<double>(x[i]) * gradient;
        of_input[i] = at * sigmoid * gradient;
    }
    const std::string reason = compare_numbers(d_gate.numbers(), of_gate);
    return !reason.empty() ? reason : compare_numbers(d_input.numbers(), of_input);
}

// Tokens that come more than once, far from each other too, that no row is for, and rows that no token names.
std::string check_embedding_backward(Context &context) {
    constexpr uint64_t kRows = 5, kFeatures = 70, kTokens = 600;
    TrialNumbers numbers;
    RoleBuffer tokens(context, VKATTN_ROLE_TOKENS, contiguous(VKATTN_TYPE_I32, {1, kTokens}));
    RoleBuffer d_output(context, VKATTN_ROLE_D_OUTPUT, f32({1, kTokens, kFeatures}));
    RoleBuffer d_weight(context, VKATTN_ROLE_D_WEIGHT, f32({kRows, kFeatures}));
    std::vector<int32_t> named(kTokens);
    for (uint64_t i = 0; i < kTokens; ++i)
        named[i] = i % 300 == 7 ? 3 : static_cast<int32_t>(i % 4) * 2 - 1; // -1, 1, 3, 5
    tokens.write(std::span<const int32_t>(named));
    const std::vector<float> d = d_output.randomise(numbers);
    vkattn_embedding_backward_desc desc{};
    desc.tokens = tokens.tensor();
    desc.d_output = d_output.tensor();
    desc.d_weight = d_weight.tensor();
    run_plan(context, plan_embedding_backward, desc, {&tokens, &d_output, &d_weight});
    std::vector<double> expected(kRows * kFeatures);
    for (uint64_t i = 0; i < d.size(); ++i)
        if (const auto row = static_cast<uint64_t>(named[i / kFeatures]); row < kRows)
            expected[row * kFeatures + i % kFeatures] += static_cast<double>(d[i]);
    return compare_numbers(d_weight.numbers(), expected);
}

namespace {

struct LossTrial {
    static constexpr uint64_t kRows = 4, kFeatures = 1003;
    static constexpr int32_t kLabels[kRows] = {1002, -100, 0, 517};
    static constexpr float kScale = 8;

    explicit LossTrial(Context &context)
        : input(context, VKATTN_ROLE_INPUT, f32({1, kRows, kFeatures})),
          labels(context, VKATTN_ROLE_LABELS, contiguous(VKATTN_TYPE_I32, {1, kRows})),
          scale(context, VKATTN_ROLE_LOSS_SCALE, kScale), mean(context, VKATTN_ROLE_MEAN_LOSS, f32({1})),
          d_input(context, VKATTN_ROLE_D_INPUT, input.tensor()) {
        TrialNumbers numbers;
        const std::vector<float> x = input.randomise(numbers);
        labels.write(std::span<const int32_t>(kLabels));
        constexpr double kCounted = 3;
        for (uint64_t row = 0; row < kRows; ++row) {
            const auto own = std::span(x).subspan(row * kFeatures, kFeatures);
            const bool counts = kLabels[row] >= 0;
            double sum = 0;
            for (const float each : own) sum += std::exp(static_cast<double>(each));
            for (uint64_t i = 0; i < kFeatures; ++i) {
                const bool is_label = counts && i == static_cast<uint64_t>(kLabels[row]);
                if (is_label) loss += (std::log(sum) - static_cast<double>(own[i])) / kCounted;
                const double gradient = std::exp(static_cast<double>(own[i])) / sum - (is_label ? 1.0 : 0.0);
                gradients.push_back(counts ? gradient * static_cast<double>(kScale) / kCounted : 0.0);
            }
        }
        vkattn_cross_entropy_desc desc{};
        desc.input = input.tensor();
        desc.labels = labels.tensor();
        desc.loss_scale = scale.tensor();
        desc.mean_loss = mean.tensor();
        desc.d_input = d_input.tensor();
        PlanBuilder builder(context);
        plan_cross_entropy(builder, desc);
        const std::unique_ptr<const Plan> plan = builder.build();
        RoleBuffer workspace(context, VKATTN_ROLE_WORKSPACE, f32({plan->workspace_bytes() / sizeof(float)}));
        plan->run(std::array{input.binding(), labels.binding(), scale.binding(), mean.binding(), d_input.binding(),
                             workspace.binding()});
    }

    RoleBuffer input, labels;
    OneNumber scale;
    RoleBuffer mean, d_input;
    std::vector<double> gradients;
    double loss = 0;
};

} // namespace

std::string check_cross_entropy(Context &context) {
    LossTrial trial(context);
    return compare_numbers(trial.d_input.numbers(), trial.gradients);
}

std::string check_mean_loss(Context &context) {
    LossTrial trial(context);
    return compare_numbers(trial.mean.numbers(), {trial.loss});
}

// Of two parts.
std::string check_squared_norm(Context &context) {
    TrialNumbers numbers;
    RoleBuffer gradient(context, VKATTN_ROLE_GRADIENT, f32({SQUARED_NORM_PART_ELEMENTS + 301}));
    OneNumber sum(context, VKATTN_ROLE_SQUARED_NORM, 3.0f);
    vkattn_squared_norm_desc desc{};
    desc.gradient = gradient.tensor();
    desc.squared_norm = sum.tensor();
    desc.accumulate = 1;
    double expected = 3;
    for (const float each : gradient.randomise(numbers))
        expected += static_cast<double>(each) * static_cast<double>(each);
    PlanBuilder builder(context);
    plan_squared_norm(builder, desc);
    const std::unique_ptr<const Plan> plan = builder.build();
    RoleBuffer workspace(context, VKATTN_ROLE_WORKSPACE, f32({plan->workspace_bytes() / sizeof(float)}));
    plan->run(std::array{gradient.binding(), sum.binding(), workspace.binding()});
    return compare_numbers(sum.numbers(), {expected});
}

// Clipped, and not taken.
std::string check_optimizer_step(Context &context) {
    constexpr float kSquared[] = {64.0f, HUGE_VALF}, kFactor[] = {0.1875f, 0.0f}, kNextScale[] = {8.0f, 2.0f};
    for (size_t i = 0; i < std::size(kSquared); ++i) {
        OneNumber sum(context, VKATTN_ROLE_SQUARED_NORM, kSquared[i]);
        OneNumber scale(context, VKATTN_ROLE_LOSS_SCALE, 4.0f);
        OneNumber good(context, VKATTN_ROLE_GOOD_STEPS, 0), step(context, VKATTN_ROLE_STEP, 6);
        RoleBuffer factor(context, VKATTN_ROLE_FACTOR, f32({1}));
        vkattn_optimizer_step_desc desc{};
        desc.squared_norm = desc.loss_scale = desc.factor = f32({1});
        desc.good_steps = desc.step = step.tensor();
        desc.max_norm = 1.5f;
        desc.growth_interval = 1;
        run_plan(context, plan_optimizer_step, desc, {&sum, &scale, &good, &factor, &step});
        const std::vector<float> made = {factor.numbers()[0], scale.numbers()[0]};
        if (std::string reason = compare_numbers(made, {kFactor[i], kNextScale[i]}); !reason.empty()) return reason;
        const int32_t steps = i == 0 ? 7 : 6;
        if (std::string reason = compare_entries("step", step.read(0, 1), {steps}); !reason.empty()) return reason;
    }
    return "";
}

std::string check_adamw(Context &context) {
    constexpr uint64_t kElements = 1103;
    constexpr double kRate = 0.125, kStep = 3, kBeta1 = 0.9, kBeta2 = 0.999, kDecay = 0.5;
    TrialNumbers numbers;
    const vkattn_tensor all = f32({kElements});
    RoleBuffer parameter(context, VKATTN_ROLE_PARAMETER, all), gradient(context, VKATTN_ROLE_GRADIENT, all);
    RoleBuffer first(context, VKATTN_ROLE_FIRST_MOMENT, all), second(context, VKATTN_ROLE_SECOND_MOMENT, all);
    OneNumber step(context, VKATTN_ROLE_STEP, static_cast<int32_t>(kStep));
    OneNumber rate(context, VKATTN_ROLE_LEARNING_RATE, static_cast<float>(kRate));
    const std::vector<float> p = parameter.randomise(numbers), g = gradient.randomise(numbers),
                             m = first.randomise(numbers);
    std::vector<float> v = second.randomise(numbers);
    for (float &each : v) each = std::abs(each);
    second.write(std::span<const float>(v));
    vkattn_adamw_desc desc{};
    desc.parameter = desc.gradient = desc.first_moment = desc.second_moment = all;
    desc.step = step.tensor();
    desc.learning_rate = rate.tensor();
    desc.weight_decay = static_cast<float>(kDecay);
    run_plan(context, plan_adamw, desc, {&parameter, &gradient, &first, &second, &step, &rate});
    std::vector<double> expected(kElements);
    for (size_t i = 0; i < kElements; ++i) {
        const double d = g[i], mean = kBeta1 * static_cast<double>(m[i]) + (1 - kBeta1) * d;
        const double square = kBeta2 * static_cast<double>(v[i]) + (1 - kBeta2) * d * d;
        expected[i] =
            static_cast<double>(p[i]) * (1 - kRate * kDecay) -
            kRate * mean / (1 - std::pow(kBeta1, kStep)) / (std::sqrt(square / (1 - std::pow(kBeta2, kStep))) + 1e-8);
    }
    return compare_numbers(parameter.numbers(), expected);
}

} // namespace vkattn
