// Devices whose pipelines compute something else than their shaders say, to try what notices it: between the library and
// Vulkan, chosen pipelines get another specialisation constant. They stay within their tensors.
#pragma once

#include <vkattn/vkattn.h>

namespace vkattn_test {

// Which pipelines.
struct Corruption {
    vkattn_kernel kernel = VKATTN_KERNEL_AUTO; // of attention by this kernel; AUTO: of none. Both decodes share theirs
    vkattn_matrix_shape shape{};               // of that only those with matrices of this shape; m 0: of any
    bool linear_addresses = false;             // of linear layers that read through device addresses
};

// Whether pipelines can be told apart: a shared library hides its shaders.
bool can_corrupt();

// While it lives, and for contexts made with its function. One at a time.
class CorruptedDevice {
  public:
    explicit CorruptedDevice(const Corruption &corruption);
    ~CorruptedDevice();
    CorruptedDevice(const CorruptedDevice &) = delete;
    CorruptedDevice &operator=(const CorruptedDevice &) = delete;

    // For vkattn_context_info.get_instance_proc_addr.
    PFN_vkGetInstanceProcAddr get_instance_proc_addr() const;
};

} // namespace vkattn_test
