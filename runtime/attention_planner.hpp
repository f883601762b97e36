#pragma once

#include "runtime/attention_problem.hpp"
#include "runtime/context/device_caps.hpp"
#include "shaders/interface.h"

#include <array>

namespace vkattn {

// A kernel chosen for a problem, with everything that its dispatches need but the pipelines.
// flash: dispatches[0], once for every keys_per_dispatch keys; unfused: scores, softmax, values.
struct AttentionChoice {
    vkattn_kernel kernel;
    std::string reason;
    gpu::AttentionParameters parameters;
    struct Dispatch {
        gpu::AttentionConstants constants;
        std::array<uint32_t, 3> groups;
    };
    std::array<Dispatch, 3> dispatches;
    uint32_t keys_per_dispatch;
    bool addressed; // flash by flash_addresses, which wants f32 rows in blocks: K and V themselves, or
    vkattn_tensor staged_key, staged_value; // copies of one dispatch's keys in the workspace; absent: not needed
    vkattn_tensor scores; // in the workspace; absent: none. unfused: [B,Hq,Lq,Lk]; flash: row states [B,Hq,Lq,Dv + 2]
};

// Pure: no Vulkan call. Fails with VKATTN_ERROR_UNSUPPORTED and the reason where no kernel, or not the one insisted on,
// serves.
AttentionChoice plan_attention(const AttentionProblem &problem, const DeviceCaps &caps);

} // namespace vkattn
