// The device under test on a context of its own, with limits lowered or traits changed.
#pragma once

#include "device.hpp"

namespace vkattn_test {

class LimitedDevice {
  public:
    explicit LimitedDevice(const char *traits) : device_(validation_messages(), traits) {}

    const vkattn::Context &context() const { return device_.context(); }
    TestDevice &device() const { return device_; }

    std::vector<float> run(AttentionProblem problem, const vkattn_attention_desc &desc, HostTensor output) const {
        std::vector<Region> regions;
        const auto add = [&](vkattn_role role, HostTensor &tensor, Access access) {
            if (tensor.present()) regions.push_back({role, &tensor, access});
        };
        add(VKATTN_ROLE_QUERY, problem.query, Access::kRead);
        add(VKATTN_ROLE_KEY, problem.key, Access::kRead);
        if (!problem.value_in_key) add(VKATTN_ROLE_VALUE, problem.value, Access::kRead);
        add(VKATTN_ROLE_ATTN_MASK, problem.attn_mask, Access::kRead);
        add(VKATTN_ROLE_BLOCK_MASK, problem.block_mask, Access::kRead);
        add(VKATTN_ROLE_KEY_LENGTHS, problem.key_lengths, Access::kRead);
        add(VKATTN_ROLE_ALIBI_SLOPES, problem.alibi_slopes, Access::kRead);
        add(VKATTN_ROLE_OUTPUT, output, Access::kWrite);
        device_.run(context().attention_plan(desc), regions);
        return output.floats();
    }

  private:
    mutable TestDevice device_;
};

} // namespace vkattn_test
