#pragma once

#include "runtime/device/device_caps.hpp"
#include "runtime/device/grid.hpp"
#include "runtime/kernels/shader_paths.hpp"
#include "runtime/problem/attention_problem.hpp"
#include "runtime/vulkan/shader.hpp"
#include "shaders/interface/attention.h"
#include "vkattn_shaders/table.hpp"

#include <array>
#include <span>
#include <string>
#include <vector>

namespace vkattn {

struct AttentionCall;

// What a kernel makes of a problem: all that its dispatches need but the pipelines.
struct AttentionShape {
    struct Dispatch {
        const Shader *shader;
        gpu::AttentionConstants constants;
        Grid groups;         // 0 in its first axis: there is no such dispatch
        CodePaths paths = 0; // of the shader's code that the constants switch on
        double flops = 0;    // of the whole grid, at most
    };
    // unfused: scores, softmax, values; others: [0], once for every keys_per_dispatch keys; then [1] merges parts
    std::array<Dispatch, 3> dispatches;
    gpu::AttentionParameters parameters;
    uint32_t keys_per_dispatch;
    uint32_t parts; // of a row's keys
    // f32 copies of one dispatch's keys in the workspace, where K and V do not suit the kernel; absent: not needed
    vkattn_tensor staged_key, staged_value;
    vkattn_tensor scores; // in the workspace; absent: none. unfused: [B,Hq,Lq,Lk]; others: states [B,Hq,Lq,parts,state]
};

// A kernel: a row here, a file beside this one, and a file in shaders/, all of one name. Pure but for emit.
struct AttentionKernel {
    vkattn_kernel kernel;                   // what callers name it by
    std::span<const Shader *const> shaders; // that its dispatches may take
    const char *merit;                      // why it is chosen where it is the best
    // What the device lacks for it; "": nothing.
    const char *(*missing)(const DeviceCaps &caps);
    // Why it cannot serve the problem, beside what obstacle_of says of every kernel; "": it serves.
    std::string (*obstacle)(const AttentionProblem &problem, const DeviceCaps &caps);
    // Among the kernels that serve, the one with the highest is the best.
    uint32_t (*rank)(const AttentionProblem &problem, const DeviceCaps &caps);
    AttentionShape (*shape)(const AttentionProblem &problem, const DeviceCaps &caps);
    // "16x16x16 matrices, 4 x 1 subgroups, 64 keys".
    std::string (*describe)(const AttentionShape &shape);
    void (*emit)(const AttentionCall &call);
};

extern const AttentionKernel kCoopmat, kAddresses, kLatentDecode, kDecode, kFlash, kUnfused;

// Every kernel there is. VKATTN_KERNEL_COOPMAT2 is none.
std::span<const AttentionKernel *const> attention_kernels();

// The row that callers name so. kernel must be one of the enumeration, neither AUTO nor COOPMAT2.
const AttentionKernel &kernel_named(vkattn_kernel kernel);

// Whether the device lacks nothing for the kernel.
bool can_run(vkattn_kernel kernel, const DeviceCaps &caps);

// A shader and the paths of its code that a choice takes.
struct ShaderUse {
    std::string shader; // its name
    CodePaths paths;
};
std::vector<ShaderUse> shaders_of(const AttentionShape &shape, const AttentionProblem &problem);

// Fills in the facts' list of kernels.
void list_kernels(const DeviceCaps &caps, vkattn_device_facts &facts);

// Why the kernel cannot serve the problem on a device that lacks nothing, what the self-test found wrong with its shaders
// included; "": it serves.
std::string obstacle_of(const AttentionKernel &kernel, const AttentionProblem &problem, const DeviceCaps &caps);

// What a device lacks for kernels that need nothing of it, and for those whose arrays are sized by specialisation
// constants.
const char *nothing_missing(const DeviceCaps &caps);
const char *obstacle_of_arrays(const DeviceCaps &caps);

} // namespace vkattn
