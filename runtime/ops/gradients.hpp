#pragma once

#include "runtime/kernels/backward.hpp"
#include "runtime/ops/attention.hpp"
#include "runtime/ops/linear.hpp"
#include "runtime/ops/norm.hpp"
#include "shaders/interface/gated_activation.h"

namespace vkattn {

// The steps of gradients, for what is made of operators: of views that the caller has checked, as the operators' descriptions say
// (vkattn/gradients.h). Gradients that are absent are not computed. What is read was written before a barrier.

struct AttentionGradients {
    View d_output{}, d_query{}, d_key{}, d_value{};
};

// Of a description with output and log_sum_exp. Fails with VKATTN_ERROR_UNSUPPORTED for what has no gradients.
void add_attention_backward(PlanBuilder &builder, const vkattn_attention_desc &attention,
                            const AttentionSources &sources, const AttentionGradients &gradients);

// What tuning measures of a checked description: the gradients of queries, those of keys and values; none without queries or keys.
std::vector<BackwardProblem> backward_problems(const vkattn_attention_backward_desc &desc);

// How a plan computes them, divided as the problem's tile says or, if it names no kernel, untuned.
BackwardChoice choose_tested(Context &context, const BackwardProblem &problem);

// The steps of these alone, of what is bound for roles; its tile names a kernel.
void add_attention_backward(PlanBuilder &builder, const BackwardProblem &problem);

struct LinearGradients {
    View input{}, weight{}, d_output{}, residual{}, d_input{}, d_weight{}, d_bias{}; // weight [out,in]
    bool accumulates = false;
};

// Returns which shader computes d_input and why.
std::string add_linear_backward(PlanBuilder &builder, const LinearGradients &gradients);

struct NormGradients {
    View input{}, weight{}, d_output{}, residual{}, d_input{}, d_weight{}, d_bias{};
    bool accumulates = false;
};
void add_norm_backward(PlanBuilder &builder, Norm norm, float epsilon, const NormGradients &gradients);

VKATTN_OPERATOR(GatedActivation, GATED_ACTIVATION_TENSORS)

// The forward pass where output is there, else its gradients.
void add_gated_activation(PlanBuilder &builder, GatedActivationTensors tensors, vkattn_activation activation);

} // namespace vkattn
