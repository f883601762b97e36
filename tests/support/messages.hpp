// What the library says of calls that it refuses.
#pragma once

#include <vkattn/vkattn.hpp>

#include <doctest/doctest.h>

#include <functional>
#include <string>

namespace vkattn_test {

// The message of the error that a call ends with; "no error" if it does not.
inline std::string message_of(const std::function<void()> &call) {
    try {
        call();
    } catch (const vkattn::Error &error) {
        return error.what();
    }
    return "no error";
}

inline void check_refused(const std::function<void()> &call, const char *expected) {
    const std::string message = message_of(call);
    CHECK_MESSAGE(message.find(expected) != std::string::npos, message);
}

} // namespace vkattn_test
