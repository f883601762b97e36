// ONNX Runtime's interface as this library uses it, and how calls across it fail.
#pragma once

#include <exception>
#include <new>
#include <onnxruntime_cxx_api.h>
#include <stdexcept>
#include <string>
#include <vkattn/vkattn.hpp>

namespace vkattn_ort {

// The oldest interface that has what a plugin needs: later versions of ONNX Runtime serve it as well.
constexpr std::uint32_t kApiVersion = 23;
constexpr const char *kProviderName = "VkattnExecutionProvider";

// A call that failed, as a status of ONNX Runtime says it: a code and one line.
class Failure : public std::runtime_error {
  public:
    Failure(OrtErrorCode code, const std::string &message) : std::runtime_error(message), code_(code) {}
    OrtErrorCode code() const { return code_; }

  private:
    OrtErrorCode code_;
};

// What a program can do about a lost device.
constexpr const char *kLost =
    ": the device is lost, expected all sessions to be released and the library to be registered anew";

inline OrtErrorCode code_of(vkattn_result result) {
    switch (result) {
    case VKATTN_ERROR_INVALID_ARGUMENT:
        return ORT_INVALID_ARGUMENT;
    case VKATTN_ERROR_UNSUPPORTED:
        return ORT_NOT_IMPLEMENTED;
    default:
        return ORT_EP_FAIL;
    }
}

inline OrtStatus *status(OrtErrorCode code, const std::string &message) {
    return Ort::GetApi().CreateStatus(code, ("vkattn: " + message).c_str());
}

// Runs what may throw and returns it as a status; nullptr: all went well. where begins the message.
template <typename Run>
OrtStatus *guarded(const std::string &where, Run &&run) noexcept {
    try {
        try {
            run();
            return nullptr;
        } catch (const Failure &failure) {
            return status(failure.code(), where + failure.what());
        } catch (const vkattn::Error &error) {
            const bool is_lost = error.result() == VKATTN_ERROR_DEVICE_LOST;
            return status(code_of(error.result()), where + error.what() + (is_lost ? kLost : ""));
        } catch (const Ort::Exception &error) {
            return status(error.GetOrtErrorCode(), where + error.what());
        } catch (const std::exception &error) {
            return status(ORT_EP_FAIL, where + error.what());
        }
    } catch (const std::exception &) {
        return Ort::GetApi().CreateStatus(ORT_EP_FAIL, "vkattn: out of host memory");
    }
}

} // namespace vkattn_ort
