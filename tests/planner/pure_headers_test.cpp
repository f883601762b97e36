// Problems, devices and kernels are plain data: their headers compile where Vulkan's functions may not even be named.
#include "vkattn/vkattn.h"

#pragma GCC poison vkCreateDevice vkCreateComputePipelines vkCmdDispatch vkAllocateMemory vkQueueSubmit
#pragma GCC poison vkGetPhysicalDeviceProperties2 vkGetPhysicalDeviceFeatures2 vkGetDeviceProcAddr

#include "runtime/device/bindable.hpp"
#include "runtime/device/device_caps.hpp"
#include "runtime/device/device_overrides.hpp"
#include "runtime/device/device_table.hpp"
#include "runtime/device/gpu_tiles.hpp"
#include "runtime/device/grid.hpp"
#include "runtime/device/tunings.hpp"
#include "runtime/device/verdicts.hpp"
#include "runtime/kernels/choose.hpp"
#include "runtime/kernels/flash.hpp"
#include "runtime/kernels/linear.hpp"
#include "runtime/kernels/matrix_shapes.hpp"
#include "runtime/kernels/parameters.hpp"
#include "runtime/kernels/split_keys.hpp"
#include "runtime/problem/attention_problem.hpp"
#include "runtime/problem/sequences.hpp"
#include "runtime/problem/tensor_checks.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

using namespace vkattn;

namespace {

// A causal prefill, and a device that has all that Vulkan must have and nothing else.
AttentionProblem small_problem() {
    vkattn_attention_desc desc{};
    desc.query = desc.output = contiguous(VKATTN_TYPE_F32, {1, 8, 64, 64});
    desc.key = desc.value = contiguous(VKATTN_TYPE_F32, {1, 2, 64, 64});
    desc.mask_flags = VKATTN_MASK_CAUSAL;
    return check_attention(desc);
}

DeviceCaps plain_device() {
    DeviceCaps caps{};
    caps.max_storage_buffers_per_stage = 64;
    caps.max_storage_buffer_range = UINT32_MAX;
    caps.max_shared_memory_bytes = 16384;
    caps.max_workgroup_invocations = 128;
    caps.subgroup_size = 32;
    std::fill(std::begin(caps.max_workgroup_count), std::end(caps.max_workgroup_count), 65535u);
    return caps;
}

} // namespace

TEST_SUITE_BEGIN("planner");

TEST_CASE("every kernel is asked once, and says what stands in its way") {
    const std::vector<KernelOption> options = options_for(small_problem(), plain_device());
    std::set<vkattn_kernel> asked;
    for (const KernelOption &option : options) asked.insert(option.kernel->kernel);
    CHECK(asked.size() == VKATTN_KERNEL_COUNT - 2); // AUTO is none, LATENT_DECODE is another name of DECODE
    CHECK(options.size() == asked.size());
    CHECK(std::ranges::is_sorted(options, std::greater(), &KernelOption::rank));
    for (const KernelOption &option : options) {
        const vkattn_kernel kernel = option.kernel->kernel;
        const bool serves =
            kernel == VKATTN_KERNEL_FLASH || kernel == VKATTN_KERNEL_DECODE || kernel == VKATTN_KERNEL_UNFUSED;
        CHECK_MESSAGE(option.obstacle.empty() == serves, vkattn_kernel_name(kernel), ": ", option.obstacle);
    }
}

TEST_CASE("what tests have ruled out is passed over, and the reason says so") {
    DeviceCaps caps = plain_device();
    CHECK(choose_attention(small_problem(), caps).kernel == &kFlash);
    caps.verdicts["flash"] = {0, kPathF32, "self-test: flash, f32: wrong numbers"};
    CHECK(choose_attention(small_problem(), caps).kernel == &kFlash); // by flash_split, which stages f32, too
    caps.verdicts["flash_split"] = {0, kPathF32, "self-test: flash_split, f32: wrong numbers"};
    const AttentionChoice choice = choose_attention(small_problem(), caps);
    CHECK(choice.kernel == &kUnfused); // decode takes the same shader for so many rows
    CHECK(choice.reason.find("; not flash: self-test: flash, f32: wrong numbers") != std::string::npos);
}

TEST_SUITE_END();
