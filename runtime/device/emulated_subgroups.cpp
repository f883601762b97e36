#include "runtime/device/emulated_subgroups.hpp"

#include "runtime/support/error.hpp"

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace vkattn {
namespace {

struct Gpu {
    std::string_view name;
    uint32_t narrowest, widest; // subgroups
    uint32_t m, n, k;           // matrices
    bool bf16;
    GpuClass gpu_class;
};

// As tests/devices has them.
constexpr Gpu kGpus[] = {
    {"rdna3", 32, 64, 16, 16, 16, false, GpuClass::kRdna},
    {"rdna4", 32, 64, 16, 16, 16, true, GpuClass::kRdna},
    {"nvidia", 32, 32, 16, 16, 16, true, GpuClass::kNvidia},
    {"xe2", 16, 32, 8, 16, 16, true, GpuClass::kIntel},
};

// Shared memory that shaders/emulated declares, at most: of eight subgroups, and a word of each invocation.
constexpr uint32_t kSharedBytes = 8 * 1024 + 4 * 1024;

constexpr VkSubgroupFeatureFlags kOperations =
    VK_SUBGROUP_FEATURE_BASIC_BIT | VK_SUBGROUP_FEATURE_VOTE_BIT | VK_SUBGROUP_FEATURE_SHUFFLE_BIT;

} // namespace

void emulate_subgroups(DeviceCaps &caps) {
    const char *name = std::getenv("VKATTN_EMULATED_GPU");
    if (name == nullptr) return;
    const auto *gpu = std::ranges::find(kGpus, std::string_view(name), &Gpu::name);
    require(gpu != std::end(kGpus), "VKATTN_EMULATED_GPU: ", name, ", expected rdna3, rdna4, nvidia or xe2");
    caps.min_subgroup_size = gpu->narrowest;
    caps.max_subgroup_size = caps.subgroup_size = gpu->widest;
    caps.subgroup_size_control = 1;
    caps.features.subgroup_size_control = caps.features.full_subgroups = true;
    caps.max_workgroup_subgroups = 0;
    caps.subgroup_features = kOperations;
    caps.shader_float16 = caps.cooperative_matrix = caps.vulkan_memory_model = 1;
    caps.features.shader_float16 = caps.features.cooperative_matrix = caps.features.vulkan_memory_model = true;
    caps.features.bfloat16_cooperative_matrix = gpu->bf16;
    caps.matrix_shapes[0] = {gpu->m, gpu->n, gpu->k, VKATTN_TYPE_F16};
    caps.matrix_shapes[1] = {gpu->m, gpu->n, gpu->k, VKATTN_TYPE_BF16};
    caps.matrix_shape_count = gpu->bf16 ? 2 : 1;
    caps.rounded_shapes = 0b11;
    caps.max_shared_memory_bytes -= kSharedBytes;
    caps.traits.matrix_units = 1;
    caps.traits.widest_matrix_subgroup = 0;
    caps.traits.matrix_outputs = DeviceTraits().matrix_outputs;
    caps.traits.gpu_class = static_cast<uint32_t>(gpu->gpu_class);
}

} // namespace vkattn
