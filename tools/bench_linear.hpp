// One product with a weight matrix on random inputs, timed.
#pragma once

#include "bench_measure.hpp"
#include "linear_shape.hpp"

namespace vkattn::tools {

// Throws InputError, and Error of the library.
OperationTimes time_linear(const Context &context, const LinearShape &shape, const RepeatOptions &options);

} // namespace vkattn::tools
