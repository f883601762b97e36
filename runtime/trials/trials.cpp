#include "runtime/trials/trials.hpp"

#include "runtime/problem/tensor.hpp"
#include "runtime/support/error.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace vkattn {
namespace {

constexpr double kEnoughMilliseconds = 60.0; // of the timed runs of a candidate
constexpr uint32_t kFewestRuns = 3, kMostRuns = 15;
constexpr size_t kMostCandidates = 128;
static_assert(kRunsOfTrial == 1 + 2 * kFewestRuns && kRunsOfChoice == 2 * kFewestRuns);
constexpr double kNear = 2.0;       // what takes so many times as long as the best is not tried with other tiles
constexpr double kGain = 1.03;      // what counts as faster, on a machine that does other things too
constexpr double kMostError = 1e-3; // NMSE between two ways of computing the same, of any types

double median(std::vector<double> values) {
    std::ranges::sort(values);
    return values[values.size() / 2];
}

} // namespace

Buffer &TrialBuffers::add(Context &context, vkattn_role role, const vkattn_tensor &tensor) {
    Buffer &buffer = *buffers_.emplace_back(std::make_unique<Buffer>(context, extent_bytes(tensor), "vkattn trial"));
    bindings_.push_back({role, {buffer.handle(), 0, buffer.bytes()}});
    return buffer;
}

void TrialBuffers::add_numbers(Context &context, vkattn_role role, const vkattn_tensor &tensor) {
    fill_with_numbers(add(context, role, tensor), tensor, numbers_);
}

void TrialBuffers::add_output(Context &context, vkattn_role role, const vkattn_tensor &tensor) {
    outputs_.emplace_back(&add(context, role, tensor), tensor);
}

void TrialBuffers::poison_outputs() {
    for (const auto &[buffer, tensor] : outputs_) {
        const std::vector<std::byte> not_a_number(buffer->bytes(), std::byte{0xff}); // in every type
        buffer->write(0, not_a_number.data(), not_a_number.size());
    }
}

std::vector<std::vector<float>> TrialBuffers::read_outputs() {
    std::vector<std::vector<float>> outputs;
    for (const auto &[buffer, tensor] : outputs_) outputs.push_back(read_numbers(*buffer, tensor));
    return outputs;
}

double guessed_milliseconds(const Plan &plan, uint64_t bytes) {
    constexpr double kBytes = 2e6; // filled and copied in a millisecond
    const VkPhysicalDeviceType type = plan.context().caps().device_type;
    const double rate = type == VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU ? 1e9
                        : type == VK_PHYSICAL_DEVICE_TYPE_CPU        ? 5e6
                                                                     : 1e8; // operations in a millisecond
    double operations = 0;
    for (const Step &step : plan.steps()) operations += step.flops;
    return operations / rate + static_cast<double>(bytes) / kBytes;
}

std::pair<double, double> Trials::rehearse(const Plan &plan, const Clock &now) const {
    const double start = now();
    plan.run(buffers_.bindings());
    const double between = now();
    plan.run(buffers_.bindings());
    return {between - start, now() - between};
}

double Trials::run(const Plan &plan) const {
    const auto start = std::chrono::steady_clock::now();
    double milliseconds = -1.0;
    plan.run(buffers_.bindings(), &milliseconds);
    if (milliseconds > 0.0) return milliseconds;
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

// Medians of runs of both in turn, so that what disturbs one disturbs the other.
std::pair<double, double> Trials::time_in_turn(const Plan &a, const Plan &b) const {
    std::vector<double> of_a, of_b;
    double spent = 0.0;
    while (of_a.size() < kFewestRuns || (spent < kEnoughMilliseconds && of_a.size() < kMostRuns)) {
        of_a.push_back(run(a));
        of_b.push_back(run(b));
        spent += of_b.back();
    }
    return {median(std::move(of_a)), median(std::move(of_b))};
}

// "" if the numbers are the untuned plan's, which are those of the first candidate, in each output by itself.
std::string Trials::compare_outputs() {
    std::vector<std::vector<float>> outputs = buffers_.read_outputs();
    if (expected_.empty())
        for (const std::vector<float> &output : outputs) expected_.emplace_back(output.begin(), output.end());
    for (size_t number = 0; number < outputs.size(); ++number) {
        std::vector<float> &actual = outputs[number];
        std::vector<double> expected = expected_[number];
        for (size_t i = 0; i < actual.size(); ++i)
            if ((std::isnan(expected[i]) && std::isnan(actual[i])) || // of no sequence, not written
                (std::isinf(expected[i]) && static_cast<double>(actual[i]) == expected[i]))
                expected[i] = actual[i] = 0; // their difference is no number
        const double error = nmse(actual, expected);
        if (!(error <= kMostError))
            return text("other numbers than untuned, NMSE ", error, ", expected at most ", kMostError);
    }
    return "";
}

bool Trials::measure(Trial trial) {
    if (std::ranges::find(trials_, trial.code, &Trial::code) != trials_.end()) return false;
    if (candidates_.size() == kMostCandidates) return false;
    buffers_.poison_outputs();
    run(*trial.plan);
    Candidate candidate{trial.kernel, trial.tile, 0.0, compare_outputs()};
    if (candidate.reason.empty()) {
        const Plan &rival = trials_.empty() ? *trial.plan : *trials_[*fastest()].plan;
        candidate.milliseconds = time_in_turn(rival, *trial.plan).second;
    }
    candidates_.push_back(std::move(candidate));
    trials_.push_back(std::move(trial));
    return true;
}

std::optional<size_t> Trials::fastest(std::optional<uint32_t> family) const {
    std::optional<size_t> best;
    for (size_t i = 0; i < candidates_.size(); ++i) {
        if (!candidates_[i].reason.empty() || (family.has_value() && trials_[i].family != *family)) continue;
        if (!best.has_value() || candidates_[i].milliseconds < candidates_[*best].milliseconds) best = i;
    }
    return best;
}

bool Trials::is_near(uint32_t family) const {
    const std::optional<size_t> best = fastest(family);
    return best.has_value() && candidates_[*best].milliseconds <= kNear * candidates_[*fastest()].milliseconds;
}

size_t Trials::choose() {
    size_t kept = *fastest();
    if (kept != 0) {
        const auto [untuned, tuned] = time_in_turn(*trials_.front().plan, *trials_[kept].plan);
        if (untuned < kGain * tuned) kept = 0;
    }
    candidates_[kept].kept = true;
    return kept;
}

} // namespace vkattn
