#pragma once

#include "runtime/device/device_caps.hpp"
#include "runtime/device/grid.hpp"
#include "runtime/kernels/row.hpp"
#include "runtime/kernels/shader_paths.hpp"
#include "runtime/problem/attention_problem.hpp"
#include "shaders/interface/attention.h"
#include "vkattn_shaders/table.hpp"

#include <array>
#include <span>
#include <string>
#include <vector>

namespace vkattn {

// What a kernel makes of a problem: all that its dispatches need but the pipelines.
struct AttentionShape {
    struct Dispatch {
        const Shader *shader;
        gpu::AttentionConstants constants;
        Grid groups;                       // 0 in its first axis: there is no such dispatch
        CodePaths paths = 0;               // of the shader's code that the constants switch on
        double flops = 0;                  // of the whole grid, at most
        uint32_t written = BINDING_OUTPUT; // the tensor of the problem that shows its numbers
    };
    // [0] once for every keys_per_dispatch keys, then the others in turn. unfused: scores, softmax, values; others: [1] merges
    // the parts
    std::array<Dispatch, 3> dispatches;
    gpu::AttentionParameters parameters;
    uint32_t keys_per_dispatch;
    uint32_t parts; // of a row's keys
    bool addressed; // [0] reads K and V through device addresses
    // f32 copies of one dispatch's keys in the workspace, where K and V do not suit the kernel; absent: not needed
    vkattn_tensor staged_key, staged_value;
    // in the workspace; absent: none. unfused: [B,Hq,Lq,Lk]; others: states of query positions, heads and parts, which
    // state_element of shaders/attention/states.glsl finds
    vkattn_tensor scores;
};

using AttentionAnswer = Answer<AttentionShape>;

// A kernel: a row here, a file beside this one, and a file in shaders/, all of one name.
struct AttentionKernel {
    vkattn_kernel kernel; // what callers name it by
    const char *name;
    std::span<const Shader *const> shaders; // that its dispatches may take
    const char *merit;                      // why it is chosen where it is the best
    bool keeps_scores = false;              // attn_weights and qk_matmul_output, and has dense sequences alone
    bool batch_invariant = false;           // a row's bits need not depend on the rest of the batch
    bool few_rows = false;                  // it is for them: a trial of it has one query, or else several
    // What the device lacks for it; "": nothing.
    const char *(*missing)(const DeviceCaps &caps);
    // Of any device; beside what `ask` says of every kernel.
    AttentionAnswer (*answer)(const AttentionProblem &problem, const DeviceCaps &caps);
    // "16x16x16 matrices, 4 x 1 subgroups, 64 keys".
    std::string (*describe)(const AttentionShape &shape);
    std::span<const Knob> knobs{};
    // Another name that callers have for it, where V is the first elements of K's rows; AUTO: none.
    vkattn_kernel latent_kernel = VKATTN_KERNEL_AUTO;
    const char *latent_name = "";
};

extern const AttentionKernel kCoopmat, kCoopmat2, kAddresses, kDecode, kFlash, kUnfused;

// Every kernel there is.
std::span<const AttentionKernel *const> attention_kernels();

// The row that callers name so; nullptr: none, as of AUTO.
const AttentionKernel *kernel_named(uint32_t kernel);

// What a row is called that attends the problem.
vkattn_kernel name_of(const AttentionKernel &kernel, const AttentionProblem &problem);

// Why the kernel cannot serve the problem on the device, what the self-test found wrong with its shaders included; or its shape.
AttentionAnswer ask(const AttentionKernel &kernel, const AttentionProblem &problem, const DeviceCaps &caps);

std::vector<ShaderUse> shaders_of(const AttentionShape &shape, const AttentionProblem &problem);

// What the device makes of each kernel. Their reasons are those of caps, or static.
std::vector<vkattn_kernel_support> list_kernels(const DeviceCaps &caps);
} // namespace vkattn
