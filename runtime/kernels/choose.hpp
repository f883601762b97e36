#pragma once

#include "runtime/kernels/kernel.hpp"

#include <string>
#include <vector>

namespace vkattn {

// A kernel, and its answer to a problem on a device.
struct KernelOption : AttentionAnswer {
    const AttentionKernel *kernel;
};

// Every kernel, the best first, whatever stands in its way.
std::vector<KernelOption> options_for(const AttentionProblem &problem, const DeviceCaps &caps);

// The kernel chosen for a problem and what it makes of it.
struct AttentionChoice {
    const AttentionKernel *kernel;
    vkattn_kernel name; // as callers name it
    AttentionShape shape;
    std::string reason; // one sentence: why this kernel, and why none that would be better
};

// Takes the kernel that was requested, else what tuning found, else the best that serves. Pure: no Vulkan call. Fails with
// VKATTN_ERROR_UNSUPPORTED and the reason where none does.
AttentionChoice choose_attention(const AttentionProblem &problem, const DeviceCaps &caps);

// How the shape divides a problem: "16x16x16 matrices, 4 x 1 subgroups, 64 keys, 2 parts". "" for unfused.
std::string tile_text(const AttentionKernel &kernel, const AttentionShape &shape);

} // namespace vkattn
