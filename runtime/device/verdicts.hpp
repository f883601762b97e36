#pragma once

#include "runtime/device/device_caps.hpp"

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace vkattn {

// A verdict on a kernel as it is saved: see saved_state.hpp.
struct SavedVerdict {
    uint32_t kernel; // vkattn_kernel
    uint32_t passed;
    uint32_t without_addresses; // it passed with buffers bound, and not through device addresses
    uint32_t failed_shapes;     // see KernelVerdict
    char told[512];             // "" if nothing failed
};

// What tests of a device have shown beyond what it reports: kernels and features that gave wrong numbers are off.
// Thread safe.
class Verdicts {
  public:
    using Test = std::function<void(vkattn_kernel)>;

    // Tests a kernel before its first use, and rules out what fails. Not set: nothing is tested unasked.
    void set_test(Test test) { test_ = std::move(test); }

    // Runs the test of a kernel once; other threads that come with the same kernel wait. What the test itself plans is
    // not tested. Returns whether there is a verdict that there was not before.
    bool test_before_use(vkattn_kernel kernel);

    void pass(vkattn_kernel kernel);
    // told: why, as the facts tell it.
    void rule_out(vkattn_kernel kernel, const std::string &told);
    void rule_out_addresses();
    // Of a kernel, the shape at this index of the device's list.
    void rule_out_matrix_shape(vkattn_kernel kernel, uint32_t index, const std::string &told);

    std::vector<SavedVerdict> save() const;
    // Takes over what is saved; kernels of it need no test.
    void load(std::span<const SavedVerdict> saved);

    // The device's facts with the verdicts; the same object as long as there is no new one.
    std::shared_ptr<const DeviceCaps> apply(const DeviceCaps &caps) const;

  private:
    bool is_judged(vkattn_kernel kernel) const;

    Test test_;
    // Of one kernel. No std::call_once: on mingw an exception through it is never forgotten.
    struct TestState {
        std::mutex mutex; // held while it is tested
        bool is_done = false;
        std::atomic<std::thread::id> tester{};
    };
    std::array<TestState, VKATTN_KERNEL_COUNT> tests_;
    mutable std::mutex mutex_;                                // of what follows
    std::array<KernelVerdict, VKATTN_KERNEL_COUNT> verdicts_; // by kernel
    bool addresses_ruled_out_ = false;
    mutable std::shared_ptr<const DeviceCaps> applied_; // NULL: something was ruled out since
};

} // namespace vkattn
