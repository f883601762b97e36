// One product with a weight matrix on random inputs, timed.
#pragma once

#include "bench_measure.hpp"

namespace vkattn::tools {

// input [1,rows,in_features], weight [out_features,in_features] -> output [1,rows,out_features]
struct LinearShape {
    std::uint32_t rows = 1;
    std::uint32_t in_features = 4096;
    std::uint32_t out_features = 4096;
    std::string dtype = "f16";
    std::string weight_dtype; // "": dtype
};

// Throws InputError, and Error of the library.
OperationTimes time_linear(const Context &context, const LinearShape &shape, const RepeatOptions &options);

// Returns "4096 to 1024 features, f16, weights f32".
std::string shape_text(const LinearShape &shape);

} // namespace vkattn::tools
