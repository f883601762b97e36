#include "runtime/support/error.hpp"

#include "runtime/support/failure.hpp"

namespace vkattn {
namespace {

thread_local LastFailure last;

vkattn_result result_of(VkResult result) {
    switch (result) {
    case VK_ERROR_OUT_OF_HOST_MEMORY:
        return VKATTN_ERROR_OUT_OF_HOST_MEMORY;
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
    case VK_ERROR_OUT_OF_POOL_MEMORY:
    case VK_ERROR_FRAGMENTED_POOL:
        return VKATTN_ERROR_OUT_OF_DEVICE_MEMORY;
    case VK_ERROR_DEVICE_LOST:
        return VKATTN_ERROR_DEVICE_LOST;
    default:
        return VKATTN_ERROR_VULKAN;
    }
}

template <class Failure>
void check_as(VkResult result, const char *call) {
    if (result == VK_SUCCESS) return;
    throw Failure(result_of(result), text(call, " failed with VkResult ", static_cast<int>(result)));
}

} // namespace

bool blames_kernel(const Error &error) {
    return error.result() == VKATTN_ERROR_UNSUPPORTED || dynamic_cast<const PipelineError *>(&error) != nullptr;
}

void check(VkResult result, const char *call) { check_as<Error>(result, call); }

void check_pipeline(VkResult result, const char *call) { check_as<PipelineError>(result, call); }

vkattn_result keep_failure(vkattn_result result, const char *message, uint32_t line, uint32_t column) noexcept {
    return last.keep(result, message, line, column);
}

} // namespace vkattn

const vkattn_failure *vkattn_last_failure(void) { return &vkattn::last.shown(); }

const char *vkattn_last_error(void) { return vkattn::last.shown().message; }

const char *vkattn_result_name(vkattn_result result) {
#define VKATTN_CASE(name)                                                                                              \
    case name:                                                                                                         \
        return #name;
    switch (result) {
        VKATTN_CASE(VKATTN_SUCCESS)
        VKATTN_CASE(VKATTN_ERROR_INVALID_ARGUMENT)
        VKATTN_CASE(VKATTN_ERROR_UNSUPPORTED)
        VKATTN_CASE(VKATTN_ERROR_NO_VULKAN)
        VKATTN_CASE(VKATTN_ERROR_NO_DEVICE)
        VKATTN_CASE(VKATTN_ERROR_OUT_OF_HOST_MEMORY)
        VKATTN_CASE(VKATTN_ERROR_OUT_OF_DEVICE_MEMORY)
        VKATTN_CASE(VKATTN_ERROR_DEVICE_LOST)
        VKATTN_CASE(VKATTN_ERROR_VULKAN)
        VKATTN_CASE(VKATTN_ERROR_INTERNAL)
        VKATTN_CASE(VKATTN_ERROR_NO_ROOM)
        VKATTN_CASE(VKATTN_ERROR_COMPILE)
        VKATTN_CASE(VKATTN_ERROR_TIMEOUT)
    default:
        return "VKATTN_UNKNOWN_RESULT";
    }
#undef VKATTN_CASE
}
