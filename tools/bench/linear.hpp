// One product with a weight matrix on random inputs, timed.
#pragma once

#include "tools/bench/linear_shape.hpp"
#include "tools/bench/measure.hpp"

namespace vkattn::tools {

// Throws InputError, and Error of the library.
OperationTimes time_linear(const Context &context, const LinearShape &shape, const RepeatOptions &options);

// The same of its backward pass: the gradients of its input and, where the weight is not quantised, of the weight.
OperationTimes time_linear_backward(const Context &context, const LinearShape &shape, const RepeatOptions &options);

} // namespace vkattn::tools
