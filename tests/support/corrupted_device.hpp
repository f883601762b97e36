// Devices whose pipelines compute something else than their shaders say, to try what notices it: between the library and
// Vulkan, chosen pipelines get another specialisation constant. Or devices that are lost when such a pipeline runs. They stay within their tensors.
#pragma once

#include <vkattn/vkattn.h>

#include <string>

namespace vkattn_test {

// Which pipelines.
struct Corruption {
    vkattn_kernel kernel = VKATTN_KERNEL_AUTO; // of attention by this kernel; AUTO: of none. Both decodes share theirs
    vkattn_matrix_shape shape{};               // of that only those with matrices of this shape; m 0: of any
    const char *shaders = "";                  // of these modules, whatever their kernel: "linear qk_scores"
    vkattn_type key_type = VKATTN_TYPE_NONE;   // of these modules those whose K is of this type; NONE: of any
    bool pages = false;                        // of these modules those alone that read pages
    // What they do in place of computing something else.
    enum class Effect { kWrongNumbers, kLosesDevice, kEndsProcessInBuild, kEndsProcessInSubmit, kWrongEverySecondRun };
    Effect effect = Effect::kWrongNumbers; // the device is lost to whoever submits them
    // A file that gets a line of each that ends the process or loses the device: shader and constants.
    std::string log{};
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
