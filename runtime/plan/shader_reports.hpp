#pragma once

#include "runtime/plan/plan.hpp"

#include <deque>

namespace vkattn {

// What the driver's compiler made of a plan's pipelines, in the C interface's form, with the strings that it points to.
class ShaderReports {
  public:
    // Asks the driver. Fails with VKATTN_ERROR_UNSUPPORTED unless the plan's context captures shaders.
    explicit ShaderReports(const Plan &plan);
    ShaderReports(const ShaderReports &) = delete;
    ShaderReports &operator=(const ShaderReports &) = delete;

    std::span<const vkattn_shader> shaders() const { return shaders_; }

  private:
    // Everything stays where it is: reports and strings are added, never moved.
    struct Report {
        std::vector<vkattn_shader_constant> constants;
        std::vector<vkattn_shader_statistic> statistics;
        std::vector<vkattn_shader_text> texts;
    };

    void add(const Context &context, const Pipeline &pipeline, uint32_t dispatches);
    void add_statistics(const Context &context, const VkPipelineExecutableInfoKHR &executable, Report &report);
    void add_texts(const Context &context, const VkPipelineExecutableInfoKHR &executable, Report &report);
    const char *keep(std::string text) { return strings_.emplace_back(std::move(text)).c_str(); }

    std::vector<vkattn_shader> shaders_;
    std::deque<Report> reports_;
    std::deque<std::string> strings_;
};

} // namespace vkattn
