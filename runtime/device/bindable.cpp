#include "runtime/device/bindable.hpp"

#include "runtime/problem/tensor.hpp"
#include "runtime/support/error.hpp"
#include "runtime/support/rounding.hpp"

#include <algorithm>

namespace vkattn {
namespace {

constexpr uint64_t kLargestResidue = 256; // the largest minStorageBufferOffsetAlignment that Vulkan allows

uint64_t span_bytes(const vkattn_tensor &tensor) { return bytes_of(tensor.type, span_elements(tensor)); }

} // namespace

bool is_bindable(const DeviceCaps &caps, const vkattn_tensor &tensor) {
    return !present(tensor) || (span_bytes(tensor) + kLargestResidue <= caps.max_storage_buffer_range &&
                                span_elements(tensor) <= kMostElements);
}

uint64_t rows_that_fit(const DeviceCaps &caps, const vkattn_tensor &tensor) {
    constexpr uint64_t kUnit = 64; // of the largest tiles of outputs
    const uint64_t all = tensor.shape[0];
    const auto fits = [&](uint64_t rows) {
        vkattn_tensor some = tensor;
        slice(some, 0, 0, rows);
        return is_bindable(caps, some);
    };
    if (!present(tensor) || is_empty(tensor) || fits(all) || !fits(1)) return all;
    uint64_t most = 1, too_many = all;
    while (too_many - most > 1) {
        const uint64_t middle = (most + too_many) / 2;
        (fits(middle) ? most : too_many) = middle;
    }
    if (most < kUnit) return most;
    const uint64_t whole_units = most / kUnit * kUnit;
    return round_up(divide_up(all, divide_up(all, whole_units)), kUnit);
}

void require_bindable(const DeviceCaps &caps, const vkattn_tensor &tensor, const char *name) {
    if (is_bindable(caps, tensor)) return;
    if (span_elements(tensor) > kMostElements)
        fail(VKATTN_ERROR_UNSUPPORTED, name, ": ", span_elements(tensor), " elements, expected at most 2^32");
    fail(VKATTN_ERROR_UNSUPPORTED, name, ": ", span_bytes(tensor), " bytes, expected at most ",
         caps.max_storage_buffer_range - kLargestResidue, " (maxStorageBufferRange of ", caps.name, ")");
}

} // namespace vkattn
