// The device under test on a context of its own, with limits lowered or traits changed.
#pragma once

#include "device.hpp"

namespace vkattn_test {

// The traits with modules that the driver specialises: a CorruptedDevice knows them by their code, and changes constants. What a
// context of them saves is for contexts of the same.
inline std::string with_whole_modules(const std::string &traits) { return "specialised_modules=0," + traits; }

class LimitedDevice {
  public:
    // get_instance_proc_addr: as vkattn_context_info has it. Behind one modules are whole.
    explicit LimitedDevice(const char *traits, PFN_vkGetInstanceProcAddr get_instance_proc_addr = nullptr)
        : device_(validation_messages(),
                  (get_instance_proc_addr == nullptr ? traits : with_whole_modules(traits)).c_str(),
                  get_instance_proc_addr) {}

    const vkattn::Context &context() const { return device_.context(); }
    TestDevice &device() const { return device_; }

    std::vector<float> run(const AttentionProblem &problem, const vkattn_attention_desc &desc,
                           HostTensor output) const {
        AttentionResults results{
            .output = std::move(output), .log_sum_exp = {}, .attn_weights = {}, .qk_matmul_output = {}};
        device_.run(context().attention_plan(desc), regions_of(problem, results));
        return results.output.floats();
    }

  private:
    mutable TestDevice device_;
};

} // namespace vkattn_test
