#include "runtime/support/error.hpp"

#include <cctype>
#include <charconv>
#include <cstdio>
#include <string_view>
#include <type_traits>

namespace vkattn {
namespace {

constexpr size_t kLongestMessage = 2048;
constexpr size_t kLongestMember = 128;

struct LastFailure {
    char message[kLongestMessage] = "";
    char member[kLongestMember] = "";
    vkattn_failure shown{VKATTN_SUCCESS, "", "", UINT32_MAX, 0, 0};
};
static_assert(std::is_trivially_destructible_v<LastFailure>); // threads end without it
thread_local LastFailure last;

bool is_of_name(char letter) {
    return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_' || letter == '.' || letter == '[' ||
           letter == ']';
}

// Messages about an argument begin with its name and a colon, or with those of what it is in: "descs[2]: scale: ...".
std::string member_of(std::string_view message) {
    std::string member;
    for (;;) {
        size_t length = 0;
        while (length < message.size() && is_of_name(message[length])) ++length;
        if (length == 0 || message.substr(length, 2) != ": ") return member;
        member.append(member.empty() ? "" : ".").append(message.substr(0, length));
        message.remove_prefix(length + 2);
    }
}

uint32_t entry_of(std::string_view member) {
    uint32_t entry = UINT32_MAX;
    const size_t bracket = member.find('[');
    if (bracket != std::string_view::npos)
        std::from_chars(member.data() + bracket + 1, member.data() + member.size(), entry);
    return entry;
}

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
    std::snprintf(last.message, sizeof last.message, "%s", message);
    try {
        std::snprintf(last.member, sizeof last.member, "%s", member_of(last.message).c_str());
    } catch (const std::bad_alloc &) { // the message is there
        last.member[0] = '\0';
    }
    last.shown = {result, last.message, last.member, entry_of(last.member), line, column};
    return result;
}

} // namespace vkattn

const vkattn_failure *vkattn_last_failure(void) { return &vkattn::last.shown; }

const char *vkattn_last_error(void) { return vkattn::last.shown.message; }

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
