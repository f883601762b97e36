#include "runtime/device/verdicts.hpp"

#include <algorithm>
#include <cstdio>

namespace vkattn {
bool Verdicts::test_before_use(vkattn_kernel kernel) {
    const auto is_own = [&](const TestState &test) { return test.tester == std::this_thread::get_id(); };
    if (!test_ || is_judged(kernel) || std::ranges::any_of(tests_, is_own)) return false;
    TestState &test = tests_[static_cast<size_t>(kernel)];
    const std::lock_guard lock(test.mutex);
    if (test.is_done) return true;
    test.tester = std::this_thread::get_id();
    try {
        test_(kernel);
    } catch (...) {
        test.tester = std::thread::id();
        throw;
    }
    test.tester = std::thread::id();
    test.is_done = true;
    return true;
}

bool Verdicts::is_judged(vkattn_kernel kernel) const {
    const std::lock_guard lock(mutex_);
    return verdicts_[static_cast<size_t>(kernel)].judged;
}

void Verdicts::pass(vkattn_kernel kernel) {
    const std::lock_guard lock(mutex_);
    verdicts_[static_cast<size_t>(kernel)].judged = true;
    applied_.reset();
}

void Verdicts::rule_out(vkattn_kernel kernel, const std::string &told) {
    const std::lock_guard lock(mutex_);
    KernelVerdict &verdict = verdicts_[static_cast<size_t>(kernel)];
    applied_.reset();
    verdict.judged = true;
    verdict.passed = false;
    verdict.told = told;
}

void Verdicts::rule_out_matrix_shape(vkattn_kernel kernel, uint32_t index, const std::string &told) {
    const std::lock_guard lock(mutex_);
    KernelVerdict &verdict = verdicts_[static_cast<size_t>(kernel)];
    applied_.reset();
    verdict.failed_shapes |= 1U << index;
    verdict.told = told;
}

void Verdicts::rule_out_addresses() {
    const std::lock_guard lock(mutex_);
    addresses_ruled_out_ = true;
    applied_.reset();
}

std::vector<SavedVerdict> Verdicts::save() const {
    const std::lock_guard lock(mutex_);
    std::vector<SavedVerdict> saved;
    for (size_t kernel = 0; kernel < verdicts_.size(); ++kernel) {
        if (!verdicts_[kernel].judged) continue;
        SavedVerdict &verdict = saved.emplace_back();
        verdict.kernel = static_cast<uint32_t>(kernel);
        verdict.passed = verdicts_[kernel].passed ? 1 : 0;
        verdict.without_addresses = addresses_ruled_out_ ? 1 : 0;
        verdict.failed_shapes = verdicts_[kernel].failed_shapes;
        std::snprintf(verdict.told, sizeof verdict.told, "%s", verdicts_[kernel].told.c_str());
    }
    return saved;
}

void Verdicts::load(std::span<const SavedVerdict> saved) {
    for (const SavedVerdict &verdict : saved) {
        if (verdict.kernel >= VKATTN_KERNEL_COUNT) continue;
        const auto kernel = static_cast<vkattn_kernel>(verdict.kernel);
        const std::string told(verdict.told, std::find(verdict.told, std::end(verdict.told), '\0'));
        if (verdict.without_addresses != 0) rule_out_addresses();
        for (uint32_t index = 0; index < 32; ++index)
            if ((verdict.failed_shapes >> index & 1) != 0) rule_out_matrix_shape(kernel, index, told);
        if (verdict.passed != 0)
            pass(kernel);
        else
            rule_out(kernel, told.empty() ? "self-test: failed" : told);
    }
}

std::shared_ptr<const DeviceCaps> Verdicts::apply(const DeviceCaps &caps) const {
    const std::lock_guard lock(mutex_);
    if (applied_ != nullptr) return applied_;
    auto judged = std::make_shared<DeviceCaps>(caps);
    if (addresses_ruled_out_) judged->buffers_have_addresses = 0;
    judged->verdicts = verdicts_;
    return applied_ = judged;
}

} // namespace vkattn
