// Linear layers by their sizes, as bench and tune take them from the command line.
#pragma once

#include "tools/bench/attention_shape.hpp"

namespace vkattn::tools {

// input [1,rows,in_features], weight [out_features,in_features], gated [2,out_features,in_features]
//   -> output [1,rows,out_features]
struct LinearShape {
    std::uint32_t rows = 1;
    std::uint32_t in_features = 4096;
    std::uint32_t out_features = 4096;
    std::string dtype = "f16";
    std::string weight_dtype; // "": dtype
    bool input_norm = false;  // RMSNorm of the input before it is multiplied
    bool gated = false;       // SwiGLU: of two matrices
};

// A shape as the library takes it.
struct ShapedLinear {
    vkattn_linear_desc desc{};
    NamedType type{}; // of input and output
    NamedType weight_type{};
};

// Throws InputError.
ShapedLinear problem_of(const LinearShape &shape);

// The gradients of its input and, where the weight is not quantised, of the weight.
vkattn_linear_backward_desc gradients_of(const ShapedLinear &layer);

// Returns "4096 to 1024 features, f16, weights f32".
std::string shape_text(const LinearShape &shape);

// An operation that is asked for, its sizes, and those that it is to take in turn.
struct OperationOptions : ShapeOptions {
    std::string op = "attention";
    LinearShape linear;                          // dtype is the shape's
    std::string form = "auto";                   // of linear_attention
    std::vector<std::uint32_t> rows{1, 16, 512}; // of linear
};

// Whether the operation is linear. Throws InputError where its options exclude each other.
bool is_linear(const OperationOptions &options);

// The linear layers of the rows.
std::vector<LinearShape> linear_shapes_of(const OperationOptions &options);

} // namespace vkattn::tools
