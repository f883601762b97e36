#include "runtime/device/bindable.hpp"

#include "runtime/problem/tensor.hpp"
#include "runtime/support/error.hpp"

namespace vkattn {
namespace {

constexpr uint64_t kLargestResidue = 256; // the largest minStorageBufferOffsetAlignment that Vulkan allows

uint64_t span_bytes(const vkattn_tensor &tensor) { return bytes_of(tensor.type, span_elements(tensor)); }

} // namespace

bool is_bindable(const DeviceCaps &caps, const vkattn_tensor &tensor) {
    return !present(tensor) || (span_bytes(tensor) + kLargestResidue <= caps.max_storage_buffer_range &&
                                span_elements(tensor) <= kMostElements);
}

void require_bindable(const DeviceCaps &caps, const vkattn_tensor &tensor, const char *name) {
    if (is_bindable(caps, tensor)) return;
    if (span_elements(tensor) > kMostElements)
        fail(VKATTN_ERROR_UNSUPPORTED, name, ": ", span_elements(tensor), " elements, expected at most 2^32");
    fail(VKATTN_ERROR_UNSUPPORTED, name, ": ", span_bytes(tensor), " bytes, expected at most ",
         caps.max_storage_buffer_range - kLargestResidue, " (maxStorageBufferRange of ", caps.name, ")");
}

} // namespace vkattn
