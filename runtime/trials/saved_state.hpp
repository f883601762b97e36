#pragma once

#include "runtime/vulkan/context.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace vkattn {

// What a context has learned, as bytes that a later context of the same device, driver and library takes over: compiled
// pipelines, the verdicts of the self-test, what tuning chose and compiled variants. Layout: SavedHeader in saved_state.cpp,
// then the verdicts, the choices for attention, its gradients and linear layers, the variants, and the pipeline cache of the driver.
std::vector<std::byte> save_state(Context &context);

// The parts of saved bytes; all empty, with the reason, where they are not this device's, driver's and library's, or
// not whole.
struct SavedState {
    std::vector<SavedVerdict> verdicts;
    std::vector<SavedAttentionTuning> attention_tunings;
    std::vector<SavedBackwardTuning> backward_tunings;
    std::vector<SavedLinearTuning> linear_tunings;
    std::span<const std::byte> variants;
    std::span<const std::byte> pipelines;
    std::string reason; // "": taken over
};
// What saved bytes must name to be taken over: the device, its driver and traits, this library and its shaders.
uint64_t identity_of(const DeviceCaps &caps);

SavedState read_state(std::span<const std::byte> bytes, const DeviceCaps &caps);

} // namespace vkattn
