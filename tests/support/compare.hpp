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
// more than 30 times what the bound allows on average. least: what each expected number counts as at least.
Comparison compare(const char *what, const Shape &shape, std::span<const double> expected,
                   std::span<const float> actual, double bound, double least = 0.0);

// The error of numbers whose right values are floats.
double nmse(std::span<const float> actual, std::span<const float> expected);

} // namespace vkattn_test
