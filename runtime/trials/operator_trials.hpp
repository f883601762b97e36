#pragma once

#include "runtime/vulkan/context.hpp"

#include <span>
#include <string>

namespace vkattn {

// A shader of the operators that have one way to compute, and the small problem that judges it.
struct OperatorTrial {
    const Shader *shader;
    // Computes the problem on the device and on the host. Returns what is wrong, "" if nothing is. Fails as plans do.
    std::string (*check)(Context &context);
    const Shader *beside = nullptr;                   // another one that the problem takes, judged first
    bool (*serves)(const DeviceCaps &caps) = nullptr; // NULL: every device
};
std::span<const OperatorTrial> operator_trials();

// That of a shader, or NULL.
const OperatorTrial *operator_trial(const Shader &shader);

} // namespace vkattn
