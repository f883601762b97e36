#pragma once

#include "runtime/device/device_caps.hpp"

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace vkattn {

// A verdict on a shader as it is saved: see saved_state.hpp.
struct SavedVerdict {
    char shader[48]; // its name
    CodePaths passed, failed;
    char reason[512]; // "" if nothing failed
};

// What tests of a device have shown beyond what it reports: paths of shaders that gave wrong numbers are off.
// Thread safe.
class Verdicts {
  public:
    // Judges paths of the shader of this name, and tells what it found by pass and fail.
    using Test = std::function<void(std::string_view shader, CodePaths paths)>;

    // Tests paths before their first use. Not set: nothing is tested unasked.
    void set_test(Test test) { test_ = std::move(test); }

    // Tests those of the paths that have no verdict yet; other threads wait meanwhile. What a test itself plans is not
    // tested.
    void test_before_use(std::string_view shader, CodePaths paths);

    // path: one or several bits.
    void pass(std::string_view shader, CodePaths path);
    // What has failed stays off. reason: why, as the facts give it.
    void fail(std::string_view shader, CodePaths path, const std::string &reason);

    // What is known of a shader.
    ShaderVerdict find(std::string_view shader) const;

    std::vector<SavedVerdict> save() const;
    // Takes over what is saved; it needs no test.
    void load(std::span<const SavedVerdict> saved);

    // The device's facts with the verdicts; the same object as long as there is no new one.
    std::shared_ptr<const DeviceCaps> apply(const DeviceCaps &caps) const;

  private:
    bool is_judged(std::string_view shader, CodePaths paths) const;
    ShaderVerdict &verdict_of(std::string_view shader);

    Test test_;
    std::mutex testing_;                  // held during a test
    std::atomic<std::thread::id> tester_; // the thread of the test
    mutable std::mutex mutex_;            // of what follows
    ShaderVerdicts verdicts_;
    mutable std::shared_ptr<const DeviceCaps> applied_; // NULL: there is a new verdict since
};

} // namespace vkattn
