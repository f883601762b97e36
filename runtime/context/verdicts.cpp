#include "runtime/context/verdicts.hpp"

#include <algorithm>
#include <cstdio>

namespace vkattn {

void Verdicts::test_before_use(vkattn_kernel kernel) {
    const auto own = [&](const std::atomic<std::thread::id> &tester) { return tester == std::this_thread::get_id(); };
    if (!test_ || std::any_of(testers_.begin(), testers_.end(), own)) return;
    std::call_once(tested_[static_cast<size_t>(kernel)], [&] {
        std::atomic<std::thread::id> &tester = testers_[static_cast<size_t>(kernel)];
        tester = std::this_thread::get_id();
        try {
            test_(kernel);
        } catch (...) {
            tester = std::thread::id();
            throw;
        }
        tester = std::thread::id();
    });
}

void Verdicts::rule_out(vkattn_kernel kernel, const std::string &reason) {
    const std::lock_guard lock(mutex_);
    reasons_[static_cast<size_t>(kernel)] = reason;
}

void Verdicts::rule_out_addresses() {
    const std::lock_guard lock(mutex_);
    addresses_ruled_out_ = true;
}

void Verdicts::apply(DeviceCaps &caps) const {
    const std::lock_guard lock(mutex_);
    if (addresses_ruled_out_) caps.buffers_have_addresses = 0;
    for (uint32_t i = 0; i < caps.kernel_count; ++i) {
        vkattn_kernel_support &support = caps.kernels[i];
        const std::string &reason = reasons_[static_cast<size_t>(support.kernel)];
        if (reason.empty()) continue;
        support.supported = 0;
        std::snprintf(support.reason, sizeof support.reason, "self-test: %s", reason.c_str());
    }
}

} // namespace vkattn
