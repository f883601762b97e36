#include "runtime/device/verdicts.hpp"

#include <algorithm>
#include <cstdio>

namespace vkattn {
namespace {

// Marks the thread of a test for as long as it lives.
class Testing {
  public:
    explicit Testing(std::atomic<std::thread::id> &tester) : tester_(tester) { tester_ = std::this_thread::get_id(); }
    ~Testing() { tester_ = std::thread::id(); }
    Testing(const Testing &) = delete;
    Testing &operator=(const Testing &) = delete;

  private:
    std::atomic<std::thread::id> &tester_;
};

// A text of a fixed size may lack its end.
template <size_t Size>
std::string text_of(const char (&text)[Size]) {
    return {text, std::find(text, text + Size, '\0')};
}

} // namespace

void Verdicts::test_before_use(std::string_view shader, CodePaths paths) {
    if (!test_ || is_judged(shader, paths) || tester_.load() == std::this_thread::get_id()) return;
    const std::lock_guard lock(testing_);
    if (is_judged(shader, paths)) return; // another thread tested them
    const Testing testing(tester_);
    test_(shader, paths);
}

// What is off needs no further test.
bool Verdicts::is_judged(std::string_view shader, CodePaths paths) const {
    const ShaderVerdict verdict = find(shader);
    return (verdict.failed & paths) != 0 || (verdict.passed & paths) == paths;
}

ShaderVerdict Verdicts::find(std::string_view shader) const {
    const std::lock_guard lock(mutex_);
    const auto found = verdicts_.find(shader);
    return found == verdicts_.end() ? ShaderVerdict{} : found->second;
}

ShaderVerdict &Verdicts::verdict_of(std::string_view shader) {
    applied_.reset();
    return verdicts_.try_emplace(std::string(shader)).first->second;
}

void Verdicts::pass(std::string_view shader, CodePaths path) {
    const std::lock_guard lock(mutex_);
    const auto known = verdicts_.find(shader);
    if (known != verdicts_.end() && ((known->second.passed | known->second.failed) & path) == path)
        return; // nothing new
    ShaderVerdict &verdict = verdict_of(shader);
    verdict.passed |= path & ~verdict.failed;
}

void Verdicts::fail(std::string_view shader, CodePaths path, const std::string &reason) {
    const std::lock_guard lock(mutex_);
    ShaderVerdict &verdict = verdict_of(shader);
    verdict.passed &= ~path;
    verdict.failed |= path;
    verdict.reason = reason;
}

std::vector<SavedVerdict> Verdicts::save() const {
    const std::lock_guard lock(mutex_);
    std::vector<SavedVerdict> saved;
    for (const auto &[shader, verdict] : verdicts_) {
        SavedVerdict &each = saved.emplace_back();
        each.passed = verdict.passed;
        each.failed = verdict.failed;
        std::snprintf(each.shader, sizeof each.shader, "%s", shader.c_str());
        std::snprintf(each.reason, sizeof each.reason, "%s", verdict.reason.c_str());
    }
    return saved;
}

void Verdicts::load(std::span<const SavedVerdict> saved) {
    for (const SavedVerdict &verdict : saved) {
        const std::string shader = text_of(verdict.shader), reason = text_of(verdict.reason);
        if (verdict.passed != 0) pass(shader, verdict.passed);
        if (verdict.failed != 0) fail(shader, verdict.failed, reason.empty() ? "self-test: failed" : reason);
    }
}

std::shared_ptr<const DeviceCaps> Verdicts::apply(const DeviceCaps &caps) const {
    const std::lock_guard lock(mutex_);
    if (applied_ != nullptr) return applied_;
    auto judged = std::make_shared<DeviceCaps>(caps);
    judged->verdicts = verdicts_;
    return applied_ = judged;
}

} // namespace vkattn
