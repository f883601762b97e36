#pragma once

#include "runtime/context/device_caps.hpp"

#include <array>
#include <atomic>
#include <functional>
#include <mutex>
#include <thread>

namespace vkattn {

// What tests of a device have shown beyond what it reports: kernels and features that gave wrong numbers are off. Thread
// safe.
class Verdicts {
  public:
    using Test = std::function<void(vkattn_kernel)>;

    // Tests a kernel before its first use, and rules out what fails. Not set: nothing is tested unasked.
    void set_test(Test test) { test_ = std::move(test); }

    // Runs the test of a kernel once; other threads that come with the same kernel wait. What the test itself plans is not
    // tested.
    void test_before_use(vkattn_kernel kernel);

    void rule_out(vkattn_kernel kernel, const std::string &reason);
    void rule_out_addresses();

    // The device's facts and kernels less what was ruled out.
    void apply(DeviceCaps &caps) const;

  private:
    Test test_;
    std::array<std::once_flag, VKATTN_KERNEL_COUNT> tested_;
    std::array<std::atomic<std::thread::id>, VKATTN_KERNEL_COUNT> testers_{};
    mutable std::mutex mutex_; // of what follows
    std::array<std::string, VKATTN_KERNEL_COUNT> reasons_;
    bool addresses_ruled_out_ = false;
};

} // namespace vkattn
