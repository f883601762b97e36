#pragma once

#include "runtime/kernels/choose.hpp"
#include "runtime/kernels/linear.hpp"
#include "runtime/problem/attention_problem.hpp"

#include <optional>
#include <utility>
#include <vector>

namespace vkattn {

// Which small problem runs a path of a shader's code: what the self-test computes. Pure: no Vulkan call.

// A shader that plans may take.
struct TestedShader {
    const Shader *object;
    uint32_t matrix_shape = 0; // 1 + its index in the device's list; 0: it multiplies no matrices
};
std::string shader_name(const TestedShader &shader, const DeviceCaps &caps);

// Those of attention (kv_append, by which `addresses` copies keys, among them), of linear layers, with every matrix shape of
// their type, the largest first, and of operators with a trial of their own (operator_trials.hpp).
std::vector<TestedShader> tested_shaders(const DeviceCaps &caps);

constexpr uint32_t kTrialPage = 16; // positions

// A problem of attention whose plan takes the shader.
struct AttentionTrial {
    AttentionProblem problem; // causal, the last query at the last key
    uint64_t keys;            // of the sequence, whose last page they need not fill
    AttentionChoice choice;
    CodePaths paths; // of the shader's code that it runs
};

// The trial of these paths together; with Q, K and V of the types among them, Q of the first that is not quantised. Nothing
// where no plan on the device takes the shader so.
std::optional<AttentionTrial> attention_trial(const TestedShader &shader, CodePaths paths, const DeviceCaps &caps);

// Whether a plan of the trial's problem takes the shader by the rule: others are for tuning, and take the place of shaders that
// have failed.
bool is_taken(const TestedShader &shader, const AttentionTrial &trial, const DeviceCaps &caps);

// Returns the other shaders that the trial runs: copies, sorts or selections before it, a merge after it. Each has trials of its own,
// so that a failure can be blamed on one.
std::vector<std::pair<TestedShader, CodePaths>> company_of(const TestedShader &shader, CodePaths paths,
                                                           const DeviceCaps &caps);

// A linear layer for the shader: inputs and outputs of one type, weights of the same or quantised. Nothing where the shader
// does not serve it.
struct LinearTrial {
    LinearProblem problem;
    LinearChoice choice;
};
std::optional<LinearTrial> linear_trial(const TestedShader &shader, vkattn_type type, vkattn_type weight_type,
                                        const DeviceCaps &caps, bool gated = false);

// The two that need nothing of the device always are, for some layers.
bool is_taken(const TestedShader &shader, const LinearTrial &trial, const DeviceCaps &caps);

// Floating-point operations of attention, about.
double flops_of(const AttentionProblem &problem);

} // namespace vkattn
