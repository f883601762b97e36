#pragma once

#include "runtime/attention_problem.hpp"
#include "runtime/context/device_caps.hpp"
#include "runtime/grid.hpp"
#include "shaders/interface/attention.h"

#include <array>
#include <string>

namespace vkattn {

// The bodies of flash and decode: kernels/flash.comp, cpu/addresses.comp; kernels/coopmat.comp.
enum class FlashBody { kTiles, kAddresses, kMatrices };

// Whether a body reads K and V through device addresses.
bool reads_addresses(FlashBody body);

// A kernel chosen for a problem, with everything that its dispatches need but the pipelines.
struct AttentionChoice {
    vkattn_kernel kernel;
    std::string reason;
    gpu::AttentionParameters parameters;
    struct Dispatch {
        gpu::AttentionConstants constants;
        Grid groups;
    };
    // unfused: scores, softmax, values; others: [0], once for every keys_per_dispatch keys; then [1] merges parts
    std::array<Dispatch, 3> dispatches;
    FlashBody body;
    uint32_t keys_per_dispatch;
    uint32_t groups_per_dispatch; // of dispatches[0]'s first axis
    uint32_t parts;               // of a row's keys
    // f32 copies of one dispatch's keys in the workspace, for bodies that K and V do not suit; absent: not needed
    vkattn_tensor staged_key, staged_value;
    vkattn_tensor scores; // in the workspace; absent: none. unfused: [B,Hq,Lq,Lk]; others: states [B,Hq,Lq,parts,state]
};

// Pure: no Vulkan call. Fails with VKATTN_ERROR_UNSUPPORTED and the reason where no kernel, or not the one insisted on,
// serves.
AttentionChoice plan_attention(const AttentionProblem &problem, const DeviceCaps &caps);

// How the choice divides a problem: "16x16x16 matrices, 4 x 1 subgroups, 64 keys, 2 parts". "" for unfused.
std::string tile_text(const AttentionChoice &choice);

// The one of decode and latent_decode that is the problem's.
vkattn_kernel decode_of(const AttentionProblem &problem);

// decode or latent_decode.
bool is_decode(vkattn_kernel kernel);

// coopmat or coopmat2.
bool is_coopmat(vkattn_kernel kernel);

// The problem's part of a dispatch's constants; its kernel's planner adds the tile's.
gpu::AttentionConstants constants_of(const AttentionProblem &problem, uint32_t workgroup_size);

} // namespace vkattn
