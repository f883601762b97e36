#pragma once

#include "runtime/emit/operator_tensors.hpp"
#include "runtime/emit/rms_norm.hpp"
#include "runtime/kernels/linear.hpp"

#include <span>
#include <string>

namespace vkattn {

// What follows the product: bias, then activation, then multiplier, then residual, each optional.
struct LinearEpilogue {
    View bias; // [out] contiguous; of a gated product [2,out], last stride 1
    vkattn_activation activation = VKATTN_ACTIVATION_NONE;
    View multiplier; // [B,L,out], last stride 1; may be the output
    View residual;   // the same
};

// Tokens [B,L,in] that products take, and how each of those normalises them.
struct ProductInput {
    ProductInput(const View &given, const RmsNorm &of_products = {}) : tokens(given), norm(of_products) {}

    View tokens;
    RmsNorm norm;
};

// Tokens for products with these weights. Where each takes so few rows that it normalises them itself, it will; else the tokens
// are normalised here, into the workspace, in the type (NONE: in their own).
ProductInput normalise_for(PlanBuilder &builder, const View &tokens, const RmsNorm &norm, std::span<const View> weights,
                           vkattn_type type = VKATTN_TYPE_NONE);

// output = activation(input weight^T + bias) * multiplier + residual, f32 accumulation. Gated, without multiplier:
// activation(input weight[0]^T + bias[0]) * (input weight[1]^T + bias[1]) + residual.
//
// input [B,L,in], last stride 1; weight [out,in], gated [2,out,in], any strides
// output [B,L,out], or [B,H,L,D] with H * D = out: feature h * D + d of token l goes to [b,h,l,d]
// F32, F16 or BF16 each.
struct LinearOperands {
    LINEAR_TENSORS(VKATTN_TENSOR_MEMBER)
    vkattn_activation activation = VKATTN_ACTIVATION_NONE;
    float norm_epsilon = 0; // with norm_weight, as normalise_for leaves them
    // TRANSPOSED_* of shaders/interface/linear.h: weight lies as [in,out], last stride 1. With TRANSPOSED_INPUT the input's rows are the
    // output's and `in` are tokens: input [B,L,rows] and weight [B,L,out], last strides 1, output [1,rows,out]. No gate, no norm.
    uint32_t transposed = 0;
    VKATTN_OPERATOR_TABLE(LinearOperands, Linear, LINEAR_TENSORS)
};

LinearProblem problem_of(const LinearOperands &operands);

// Whether tokens [B,L,N] lie at one stride.
bool is_one_sequence(const vkattn_tensor &tokens);

// Output features of a weight [out,in] or [2,out,in].
inline uint64_t out_features_of(const vkattn_tensor &weight) { return weight.shape[weight.rank - 2]; }

// Follows problem.tile where it suits, or what tuning found; tests shaders until the one that is chosen has passed.
LinearChoice choose_tested(Context &context, LinearProblem problem);

// Adds the dispatch of a choice.
void add_product(PlanBuilder &builder, const LinearProblem &problem, const LinearOperands &operands,
                 const LinearChoice &choice);

// Returns which shader computes it and why. problem.tile is followed where it suits; without one, what tuning found.
std::string add_product(PlanBuilder &builder, const LinearProblem &problem, const LinearOperands &operands);

// The product, in as many parts as the device needs to bind its weights. Returns the shader and why.
std::string add_products(PlanBuilder &builder, const LinearOperands &operands);

void add_linear(PlanBuilder &builder, const ProductInput &input, const View &weight, const View &output,
                const LinearEpilogue &epilogue = {});

// A matrix of its own for each head: output[b,h,l,:] = weight[h] input[b,h,l,:] + bias[h].
//
// input [B,H,L,in], element stride 1 (a head stride of 0 feeds one input to every head); weight [H,out,in], any
// strides; bias [H,out], element stride 1, may be absent; output [B,H,L,out]. Lifts latents to heads and folds heads
// into latents.
void add_latent_up_projection(PlanBuilder &builder, const View &input, const View &weight, const View &bias,
                              const View &output);

// The norm of tokens with so many features on their way into a product; none where weight is absent. Fails with
// VKATTN_ERROR_INVALID_ARGUMENT where it is wrong.
RmsNorm checked_input_norm(const vkattn_tensor &weight, vkattn_optional_float epsilon, uint64_t features);

// The caller's product. Fails, naming the member, where it is none.
LinearOperands check_linear(const vkattn_linear_desc &desc);

} // namespace vkattn
