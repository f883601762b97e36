#pragma once

#include "vkattn/vkattn.h"

#include <exception>
#include <new>
#include <sstream>
#include <string>

namespace vkattn {

// The one exception type inside the library. It never crosses the C ABI: see guard.
class Error : public std::exception {
  public:
    Error(vkattn_result result, std::string message) : result_(result), message_(std::move(message)) {}
    vkattn_result result() const { return result_; }
    const char *what() const noexcept override { return message_.c_str(); }

  private:
    vkattn_result result_;
    std::string message_;
};

// A pipeline that the driver cannot build, whatever reason it gives: some say that they are out of memory.
class PipelineError : public Error {
  public:
    using Error::Error;
};

// Whether another kernel may serve: the device lacks what this one needs, or cannot build it. Else nothing is said of
// it.
bool blames_kernel(const Error &error);

// Joins its arguments as operator<< prints them.
template <class... Parts>
std::string text(const Parts &...parts) {
    std::ostringstream stream;
    (stream << ... << parts);
    return stream.str();
}

template <class... Parts>
[[noreturn]] void fail(vkattn_result result, const Parts &...parts) {
    throw Error(result, text(parts...));
}

// Fails with VKATTN_ERROR_INVALID_ARGUMENT unless the condition holds.
template <class... Parts>
void require(bool condition, const Parts &...parts) {
    if (!condition) fail(VKATTN_ERROR_INVALID_ARGUMENT, parts...);
}

// Throws the Error that a failed Vulkan call stands for; `call` is its name.
void check(VkResult result, const char *call);

// The same of what builds a pipeline: throws a PipelineError.
void check_pipeline(VkResult result, const char *call);

// Keeps the message for vkattn_last_error of this thread, cut to fit.
void set_last_error(const char *message) noexcept;

// Runs a body and turns whatever it throws into a result and the thread's message.
template <class Body>
vkattn_result guard(Body &&body) noexcept {
    try {
        body();
        return VKATTN_SUCCESS;
    } catch (const Error &error) {
        set_last_error(error.what());
        return error.result();
    } catch (const std::bad_alloc &) {
        set_last_error("out of host memory");
        return VKATTN_ERROR_OUT_OF_HOST_MEMORY;
    } catch (const std::exception &error) {
        set_last_error(error.what());
        return VKATTN_ERROR_INTERNAL;
    } catch (...) {
        set_last_error("unknown exception");
        return VKATTN_ERROR_INTERNAL;
    }
}

} // namespace vkattn
