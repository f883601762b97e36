#pragma once

#include "vkattn/vkattn.h"

#include <cstdint>
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

// A text of the user's that does not compile. Lines and columns count from 1; 0: the compiler does not say.
class CompileError : public Error {
  public:
    CompileError(std::string message, uint32_t at_line, uint32_t at_column)
        : Error(VKATTN_ERROR_COMPILE, std::move(message)), line(at_line), column(at_column) {}
    const uint32_t line, column;
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

// The same with VKATTN_ERROR_NO_ROOM.
template <class... Parts>
void require_room(bool condition, const Parts &...parts) {
    if (!condition) fail(VKATTN_ERROR_NO_ROOM, parts...);
}

// Throws the Error that a failed Vulkan call stands for; `call` is its name.
void check(VkResult result, const char *call);

// The same of what builds a pipeline: throws a PipelineError.
void check_pipeline(VkResult result, const char *call);

// Keeps what vkattn_last_failure of this thread says, the message cut to fit. Returns the result.
vkattn_result keep_failure(vkattn_result result, const char *message, uint32_t line = 0, uint32_t column = 0) noexcept;

// Runs a body and turns whatever it throws into a result and the thread's message.
template <class Body>
vkattn_result guard(Body &&body) noexcept {
    try {
        body();
        return VKATTN_SUCCESS;
    } catch (const CompileError &error) {
        return keep_failure(error.result(), error.what(), error.line, error.column);
    } catch (const Error &error) {
        return keep_failure(error.result(), error.what());
    } catch (const std::bad_alloc &) {
        return keep_failure(VKATTN_ERROR_OUT_OF_HOST_MEMORY, "out of host memory");
    } catch (const std::exception &error) {
        return keep_failure(VKATTN_ERROR_INTERNAL, error.what());
    } catch (...) {
        return keep_failure(VKATTN_ERROR_INTERNAL, "unknown exception");
    }
}

} // namespace vkattn
