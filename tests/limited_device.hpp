// The device under test on a context of its own, with limits lowered or traits changed.
#pragma once

#include "device.hpp"

namespace vkattn_test {

// Its own buffers hold whole tensors.
class LimitedDevice {
  public:
    explicit LimitedDevice(const char *traits) : context_(info(traits)) {}

    const vkattn::Context &context() const { return context_; }

    std::vector<float> run(const AttentionProblem &problem, const vkattn_attention_desc &desc,
                           HostTensor output) const {
        const vkattn::Plan plan = context_.attention_plan(desc);
        std::vector<vkattn::Buffer> buffers;
        std::vector<vkattn_binding> bindings;
        const auto add = [&](vkattn_role role, const HostTensor &tensor) {
            if (!tensor.present()) return;
            buffers.push_back(context_.buffer(tensor.bytes().size()));
            buffers.back().write(tensor.bytes());
            bindings.push_back(vkattn::bind(role, buffers.back()));
        };
        output.poison_as_output();
        add(VKATTN_ROLE_OUTPUT, output);
        add(VKATTN_ROLE_QUERY, problem.query);
        add(VKATTN_ROLE_KEY, problem.key);
        if (!problem.value_in_key) add(VKATTN_ROLE_VALUE, problem.value);
        add(VKATTN_ROLE_ATTN_MASK, problem.attn_mask);
        add(VKATTN_ROLE_BLOCK_MASK, problem.block_mask);
        add(VKATTN_ROLE_KEY_LENGTHS, problem.key_lengths);
        add(VKATTN_ROLE_ALIBI_SLOPES, problem.alibi_slopes);
        plan.run(bindings);
        buffers.front().read(output.bytes());
        return output.floats();
    }

  private:
    static vkattn_context_info info(const char *traits) {
        static std::string device;
        device = device_selector();
        vkattn_context_info info{};
        info.device_selector = device.c_str();
        info.device_traits = traits;
        info.enable_validation = validation_wanted();
        info.message_callback = ValidationMessages::callback;
        info.message_user = &validation_messages();
        return info;
    }

    vkattn::Context context_;
};

} // namespace vkattn_test
