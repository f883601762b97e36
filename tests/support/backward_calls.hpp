// Calls of attention's gradients for tests, compared with the reference.
#pragma once

#include "compare.hpp"
#include "device.hpp"

namespace vkattn_test {

struct BackwardOptions {
    bool computes_output = false;
    vkattn_type gradients = VKATTN_TYPE_F32, d_output = VKATTN_TYPE_F32, output = VKATTN_TYPE_F32;
    bool has_gaps = true;
    float d_output_scale = 1.0f;
};

HostTensor filled(vkattn_type type, const Shape &shape, const std::vector<double> &values);

// What a call writes; absent where the problem has no such gradient.
struct Gradients {
    HostTensor query, key, value, attn_mask, sinks;

    std::vector<std::pair<vkattn_role, HostTensor *>> all() {
        return {{VKATTN_ROLE_D_QUERY, &query},
                {VKATTN_ROLE_D_KEY, &key},
                {VKATTN_ROLE_D_VALUE, &value},
                {VKATTN_ROLE_D_ATTN_MASK, &attn_mask},
                {VKATTN_ROLE_D_SINKS, &sinks}};
    }
};

// A problem, and all that a call of its gradients takes.
struct BackwardCall {
    BackwardCall(const AttentionProblem &given, const BackwardOptions &asked);

    vkattn_attention_backward_desc describe();
    std::vector<Region> regions();

    AttentionProblem problem;
    BackwardOptions options;
    Gradients made;
    AttentionReference reference;
    HostTensor d_output;
    AttentionResults forward;
    vkattn_attention_desc attention{};
};

// What is wrong with a gradient, "" for nothing.
std::string compare_gradient(const char *name, const BackwardCall &call, const HostTensor &made,
                             const Gradient &expected);

bool same_bits(Gradients &one, Gradients &other);

// Runs it twice; what is wrong, "" for nothing.
std::string try_backward(BackwardCall &call, TestDevice &device = test_device());
std::string try_backward(const AttentionProblem &problem, const BackwardOptions &options = {});

} // namespace vkattn_test
