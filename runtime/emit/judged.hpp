#pragma once

#include "runtime/plan/builder.hpp"

namespace vkattn {

// Shaders without paths of their own, those of operators with one trial: this one stands for all of their code.
constexpr CodePaths kWholeShader = kPathF32;

// Runs the shader's self-test once, before its first use. Does nothing in plans that only measure the workspace.
void test_whole(const PlanBuilder &builder, const Shader &shader);

// The same. Whether the shader is right, as far as is known.
bool is_right(const PlanBuilder &builder, const Shader &shader);

// The same; fails with VKATTN_ERROR_UNSUPPORTED where the self-test has found it wrong.
void require_right(const PlanBuilder &builder, const Shader &shader);

} // namespace vkattn
