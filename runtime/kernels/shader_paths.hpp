#pragma once

#include "runtime/device/device_caps.hpp"
#include "runtime/problem/attention_problem.hpp"
#include "runtime/vulkan/shader.hpp"

#include <string>
#include <string_view>

namespace vkattn {

// What verdicts call shaders and paths of their code, and what they say.

// "decode_subgroups"; with the shape where it multiplies matrices: "coopmat, 16x16x16".
std::string shader_name(const Shader &shader, uint32_t m, uint32_t n, uint32_t k);
template <class Constants>
std::string shader_name(const Shader &shader, const Constants &constants) {
    return shader_name(shader, constants.MATRIX_M, constants.MATRIX_N, constants.MATRIX_K);
}
inline std::string shader_name(const Shader &shader, const vkattn_matrix_shape &shape) {
    return shader_name(shader, shape.m, shape.n, shape.k);
}

// What a problem switches on in any kernel that attends it; which keys it takes at a time is the kernel's.
CodePaths paths_of(const AttentionProblem &problem);

// Why a shader may not take these paths: what the self-test found; "": it may, as far as is known.
std::string_view why_off(const DeviceCaps &caps, std::string_view shader, CodePaths paths);
bool is_off(const DeviceCaps &caps, const Shader &shader, CodePaths paths); // of one without matrices

// What a device lacks for kernels that need nothing of it, and for those whose arrays are sized by specialisation
// constants.
const char *nothing_missing(const DeviceCaps &caps);
const char *obstacle_of_arrays(const DeviceCaps &caps);

// Why a device does not take a shader of common/dot_of_halves.glsl; "": it does.
const char *obstacle_of_dots(const DeviceCaps &caps, const Shader &shader);

// Whether anything is off.
bool has_failures(const DeviceCaps &caps);

} // namespace vkattn
