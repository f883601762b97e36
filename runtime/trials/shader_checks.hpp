#pragma once

#include "runtime/trials/shader_trials.hpp"
#include "runtime/vulkan/context.hpp"

#include <string>

namespace vkattn {

// What a check of a shader found.
struct Findings {
    bool is_known = false; // or a shader before it gave wrong numbers, which says nothing of this one
    std::string reason;    // "": right
    CodePaths paths = 0;   // that ran
};

// Whether there is a small problem of these paths that the device can plan for the shader.
bool can_check(const TestedShader &shader, CodePaths paths, const DeviceCaps &caps);

// A path of a shader's code, and the paths that are checked together to judge it.
struct ShaderCheck {
    TestedShader shader;
    CodePaths path, paths;
};

// What the whole self-test checks on a device, with the verdicts that there are: the shaders that plans take by the rule, each
// with every path, and every matrix shape.
std::vector<ShaderCheck> wanted_checks(const DeviceCaps &caps);

// Computes it on the device and on the host. Fails as plans do.
Findings check_shader(Context &context, const TestedShader &shader, CodePaths paths);

} // namespace vkattn
