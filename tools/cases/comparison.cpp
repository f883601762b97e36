#include "tools/cases/comparison.hpp"

#include "tools/cases/case_problem.hpp"
#include "tools/io/input_error.hpp"
#include "tools/tensors/stored_types.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace vkattn::tools {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kF16Tolerance = 1e-6;
constexpr double kBf16Tolerance = 5e-5;
constexpr double kQuantisedTolerance = 1e-5;
constexpr double kLeastTolerance = 1e-9; // expected values are stored as f32

double error_between(double actual, double expected) {
    if (actual == expected) return 0.0; // also for equal infinities
    const double error = std::abs(actual - expected);
    return std::isnan(error) ? kInfinity : error;
}

double tolerance_of(vkattn_type storage) {
    if (storage == VKATTN_TYPE_BF16) return kBf16Tolerance;
    if (storage == VKATTN_TYPE_F16) return kF16Tolerance;
    return is_quantised(storage) ? kQuantisedTolerance : kLeastTolerance;
}

} // namespace

Difference compare(const HostTensor &actual, const HostTensor &expected) {
    const std::vector<double> actual_values = values_of(actual);
    const std::vector<double> expected_values = values_of(expected);
    Difference difference;
    double error_sum = 0.0;
    double reference_sum = 0.0;
    for (std::size_t i = 0; i < expected_values.size(); ++i) {
        const double error = error_between(actual_values[i], expected_values[i]);
        difference.max_abs_error = std::max(difference.max_abs_error, error);
        error_sum += error * error;
        if (std::isfinite(expected_values[i])) reference_sum += expected_values[i] * expected_values[i];
    }
    const bool is_exact = expected.dtype == Dtype::kI32; // an index that is off is another
    if (error_sum > 0.0 && is_exact)
        difference.nmse = kInfinity;
    else if (error_sum > 0.0)
        difference.nmse = reference_sum > 0.0 ? error_sum / reference_sum : kInfinity;
    return difference;
}

WorstDifference compare_case(const CaseFile &input, const TensorMap &outputs) {
    if (input.expected.empty()) throw InputError(input.file, "has nothing to check, expected a tensor expected.*");
    WorstDifference worst;
    for (const auto &[name, expected] : input.expected) {
        const HostTensor &actual = outputs.at(name);
        if (actual.shape != expected.shape)
            throw InputError(input.file, "tensor 'expected." + name + "' is " + shape_text(expected.shape) +
                                             ", expected " + shape_text(actual.shape));
        const Difference difference = compare(actual, expected);
        if (worst.tensor.empty() || difference.nmse > worst.difference.nmse) worst = {name, difference};
    }
    return worst;
}

double default_tolerance(const CaseFile &input) {
    double tolerance = kLeastTolerance;
    constexpr double kOfSeveralProducts =
        10; // errors of a token are in the state of those after it, of weights in gradients
    const auto widen = [&tolerance](vkattn_type storage) { tolerance = std::max(tolerance, tolerance_of(storage)); };
    for (const auto &[name, tensor] : input.tensors)
        if (name != "attn_mask" && name != "alibi_slopes" && name != "sinks") widen(type_of(tensor.dtype));
    if (input.attention.k_dtype) widen(*input.attention.k_dtype);
    if (input.attention.v_dtype) widen(*input.attention.v_dtype);
    if (input.linear.weight_dtype) widen(*input.linear.weight_dtype);
    const bool has_several = input.is_recurrence() || input.op == "attention_backward";
    return has_several && tolerance > kLeastTolerance ? kOfSeveralProducts * tolerance : tolerance;
}

} // namespace vkattn::tools
