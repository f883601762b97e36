#pragma once

namespace vkattn {

// The Vulkan features that kernels can use: as a device has them, as an application enabled them, or as a device of our
// own is made with them.
struct DeviceFeatures {
    bool buffer_device_address = false;
    bool vulkan_memory_model = false; // with device scope
    bool shader_float16 = false;
    bool shader_int8 = false;
    bool storage_16bit = false;
    bool storage_8bit = false;
    bool integer_dot_product = false;
    bool maintenance4 = false; // workgroup sizes by specialisation in modules of Vulkan 1.3
    bool subgroup_size_control = false;
    bool full_subgroups = false; // computeFullSubgroups
    bool cooperative_matrix = false;
    // Of VK_NV_cooperative_matrix2: reductions, with conversions and per-element operations; dimensions that are any
    // multiples of a granularity; matrices that a workgroup holds together.
    bool cooperative_matrix_reductions = false;
    bool flexible_matrices = false;
    bool workgroup_matrices = false;
    bool bfloat16_cooperative_matrix = false;
    bool mixed_float_dot_product = false;  // of two pairs of f16 and an f32: VK_VALVE_shader_mixed_float_dot_product
    bool pipeline_executable_info = false; // what the driver's compiler says of pipelines can be asked for
};

} // namespace vkattn
