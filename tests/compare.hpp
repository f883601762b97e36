// How far a device's numbers may lie from the float64 reference, and what to say when they lie farther.
#pragma once

#include "host_tensor.hpp"

#include <initializer_list>
#include <string>

namespace vkattn_test {

// The NMSE allowed for a result that these storage types took part in: the bound of the least exact of them.
double nmse_bound(std::initializer_list<vkattn_type> types);

// Scores beyond +-50 are granted their own f32 rounding in the exponent: a weight is then off by as much as its score.
double nmse_bound(std::initializer_list<vkattn_type> types, double largest_score);

struct Comparison {
    bool passed = true;
    double nmse = 0.0;
    double max_error = 0.0;
    std::string report; // of a failure: what, where, how far
};

// Compares element by element and as a whole. NaN fails; an infinity must match; a single element may not be off by
// more than 30 times what the bound allows on average.
Comparison compare(const char *what, const Shape &shape, std::span<const double> expected,
                   std::span<const float> actual, double bound);

// The same of log_sum_exp, where one near 0 is what large products leave of each other, which no f32 sum gets to a share of
// itself: under f32's bound of 1e-10 it may be off by 2^-22, four units of rounding of a sum near 1.
Comparison compare_log_sum_exp(const Shape &shape, std::span<const double> expected, std::span<const float> actual,
                               double bound);

} // namespace vkattn_test
