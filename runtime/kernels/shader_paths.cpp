#include "runtime/kernels/shader_paths.hpp"

#include "runtime/support/error.hpp"

#include <algorithm>

namespace vkattn {

std::string shader_name(const Shader &shader, uint32_t m, uint32_t n, uint32_t k) {
    return shader.matrices != VKATTN_TYPE_NONE ? text(shader.name, ", ", m, "x", n, "x", k) : shader.name;
}

CodePaths paths_of(const AttentionProblem &problem) {
    CodePaths paths = path_of(problem.query.type) | path_of(problem.key.type) | path_of(problem.value.type);
    if (std::max(problem.head_dim, problem.v_head_dim) > kUsualHeadDim) paths |= kPathLargeHeads;
    if (present(problem.block_table)) paths |= kPathPages;
    if (problem.value_in_key) paths |= kPathLatent;
    return paths;
}

std::string_view why_off(const DeviceCaps &caps, std::string_view shader, CodePaths paths) {
    const auto found = caps.verdicts.find(shader);
    if (found == caps.verdicts.end() || (found->second.failed & paths) == 0) return "";
    return found->second.reason;
}

bool is_off(const DeviceCaps &caps, const Shader &shader, CodePaths paths) {
    return !why_off(caps, shader.name, paths).empty();
}

const char *nothing_missing(const DeviceCaps &) { return ""; }

const char *obstacle_of_arrays(const DeviceCaps &caps) {
    const bool sizes_arrays = caps.traits.specialised_modules != 0 || caps.traits.specialised_arrays != 0;
    return sizes_arrays ? "" : "the driver does not size arrays by specialisation constants";
}

const char *obstacle_of_dots(const DeviceCaps &caps, const Shader &shader) {
    if (!is_built(shader)) return shader.code.why_empty();
    if (!caps.features.mixed_float_dot_product) return "no VK_VALVE_shader_mixed_float_dot_product";
    return caps.features.shader_float16 ? "" : "shaderFloat16 is not enabled";
}

bool has_failures(const DeviceCaps &caps) {
    return std::ranges::any_of(caps.verdicts, [](const auto &each) { return each.second.failed != 0; });
}

} // namespace vkattn
