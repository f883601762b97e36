#include "compare.hpp"

#include <algorithm>
#include <sstream>

namespace vkattn_test {
namespace {

constexpr double kElementSlack = 30.0;

double bound_of(vkattn_type type) {
    if (type == VKATTN_TYPE_BF16) return 5e-5;
    if (type == VKATTN_TYPE_F16) return 1e-6;
    return 1e-10;
}

std::string index_text(const Shape &shape, std::size_t flat) {
    std::string text;
    for (std::size_t d = shape.size(); d-- > 0; flat /= shape[d]) {
        text = std::to_string(flat % shape[d]) + (text.empty() ? "" : ",") + text;
    }
    return "[" + text + "]";
}

struct Totals {
    double error = 0.0;
    double reference = 0.0;
    std::size_t finite = 0;
};

// Both finite, the same infinity, or both no numbers.
bool comparable(double expected, double actual) {
    if (std::isnan(expected)) return std::isnan(actual);
    return std::isfinite(expected) ? std::isfinite(actual) : expected == actual;
}

// least: what each expected number counts as at least.
Totals add_up(std::span<const double> expected, std::span<const float> actual, double least, double &max_error) {
    Totals totals;
    for (std::size_t i = 0; i < expected.size(); ++i) {
        const double value = static_cast<double>(actual[i]);
        if (!std::isfinite(expected[i]) || !std::isfinite(value)) continue;
        const double error = std::fabs(value - expected[i]);
        max_error = std::max(max_error, error);
        totals.error += error * error;
        const double magnitude = std::max(std::fabs(expected[i]), least);
        totals.reference += magnitude * magnitude;
        ++totals.finite;
    }
    return totals;
}

} // namespace

double nmse_bound(std::initializer_list<vkattn_type> types) {
    double bound = 1e-10;
    for (const vkattn_type type : types) bound = std::max(bound, bound_of(type));
    return bound;
}

double nmse_bound(std::initializer_list<vkattn_type> types, double largest_score) {
    const double rounding = largest_score > 50.0 ? 4.0 * largest_score * 0x1p-24 : 0.0;
    return nmse_bound(types) + rounding * rounding;
}

Comparison compare(const char *what, const Shape &shape, std::span<const double> expected,
                   std::span<const float> actual, double bound, double least) {
    Comparison result;
    const Totals totals = add_up(expected, actual, least, result.max_error);
    result.nmse = totals.reference > 0.0 ? totals.error / totals.reference : totals.error > 0.0 ? HUGE_VAL : 0.0;
    const double rms = totals.finite > 0 ? std::sqrt(totals.reference / static_cast<double>(totals.finite)) : 0.0;
    std::size_t count = 0;
    std::ostringstream report;
    report.precision(9);
    const auto note = [&](std::size_t i, double limit) {
        if (count++ > 0) return;
        report << "first at " << index_text(shape, i) << ": expected " << expected[i] << ", actual " << actual[i]
               << ", allowed error " << limit << "; ";
    };
    for (std::size_t i = 0; i < std::min(expected.size(), actual.size()); ++i) {
        const double value = static_cast<double>(actual[i]);
        const double limit = kElementSlack * std::sqrt(bound) * std::max(rms, std::fabs(expected[i]));
        if (!comparable(expected[i], value) || std::fabs(value - expected[i]) > limit) note(i, limit);
    }
    result.passed = expected.size() == actual.size() && count == 0 && result.nmse <= bound;
    report << count << " of " << expected.size() << " elements wrong; nmse " << result.nmse << ", bound " << bound
           << "; max error " << result.max_error << "; " << actual.size() << " elements received";
    result.report = std::string(what) + ": " + report.str();
    return result;
}

double nmse(std::span<const float> actual, std::span<const float> expected) {
    const std::vector<double> exact(expected.begin(), expected.end());
    return compare("rows", {actual.size()}, exact, actual, 1.0).nmse;
}

} // namespace vkattn_test
