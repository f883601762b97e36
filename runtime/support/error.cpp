#include "runtime/support/error.hpp"

#include <cstdio>

namespace vkattn {
namespace {

constexpr size_t kLongestMessage = 2048;
thread_local char last_error[kLongestMessage] = "";

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

void set_last_error(const char *message) noexcept { std::snprintf(last_error, sizeof last_error, "%s", message); }

} // namespace vkattn

const char *vkattn_last_error(void) { return vkattn::last_error; }

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
    default:
        return "VKATTN_UNKNOWN_RESULT";
    }
#undef VKATTN_CASE
}
