// How far an answer is from the expected one.
#pragma once

#include "tools/cases/case_file.hpp"

#include <map>
#include <string>

namespace vkattn::tools {

struct Difference {
    double nmse = 0.0; // sum((o-r)^2) / sum(r^2); infinite if a value is NaN, or infinite where the other is not
    double max_abs_error = 0.0;
};

// Compares tensors of the same shape. Equal infinities (the log-sum-exp of an empty row) count as no error.
Difference compare(const HostTensor &actual, const HostTensor &expected);

struct WorstDifference {
    std::string tensor;
    Difference difference;
};

// Compares every expected tensor of the case and returns the one with the greatest NMSE.
// Throws InputError if the case expects nothing, or another shape than the output has.
WorstDifference compare_case(const CaseFile &input, const TensorMap &outputs);

// Returns the NMSE that is granted to a case of this storage type.
double default_tolerance(const CaseFile &input);

} // namespace vkattn::tools
