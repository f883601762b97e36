#include "runtime/plan/shader_reports.hpp"

#include "runtime/support/error.hpp"

#include <algorithm>

namespace vkattn {
namespace {

VkPipelineExecutableInfoKHR executable_info(const Pipeline &pipeline, uint32_t index) {
    return {VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR, nullptr, pipeline.pipeline, index};
}

std::vector<VkPipelineExecutablePropertiesKHR> executables_of(const Context &context, const Pipeline &pipeline) {
    const VkPipelineInfoKHR info{VK_STRUCTURE_TYPE_PIPELINE_INFO_KHR, nullptr, pipeline.pipeline};
    const auto ask = context.vk().vkGetPipelineExecutablePropertiesKHR;
    uint32_t count = 0;
    check(ask(context.device(), &info, &count, nullptr), "vkGetPipelineExecutablePropertiesKHR");
    VkPipelineExecutablePropertiesKHR empty{};
    empty.sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_PROPERTIES_KHR;
    std::vector<VkPipelineExecutablePropertiesKHR> all(count, empty);
    check(ask(context.device(), &info, &count, all.data()), "vkGetPipelineExecutablePropertiesKHR");
    return all;
}

double number_of(const VkPipelineExecutableStatisticKHR &statistic) {
    switch (statistic.format) {
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_BOOL32_KHR:
        return statistic.value.b32 != VK_FALSE ? 1.0 : 0.0;
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR:
        return static_cast<double>(statistic.value.i64);
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_FLOAT64_KHR:
        return statistic.value.f64;
    default:
        return static_cast<double>(statistic.value.u64);
    }
}

// Pipelines in the order of their first dispatch, and how many dispatches each has.
std::vector<std::pair<const Pipeline *, uint32_t>> pipelines_of(const Plan &plan) {
    std::vector<std::pair<const Pipeline *, uint32_t>> all;
    for (const Step &step : plan.steps()) {
        const auto known = std::ranges::find(all, step.pipeline, &std::pair<const Pipeline *, uint32_t>::first);
        if (known == all.end())
            all.emplace_back(step.pipeline, dispatches_of(step));
        else
            known->second += dispatches_of(step);
    }
    return all;
}

} // namespace

ShaderReports::ShaderReports(const Plan &plan) {
    const Context &context = plan.context();
    if (context.pipelines().capture() == VKATTN_SHADER_CAPTURE_NONE)
        fail(VKATTN_ERROR_UNSUPPORTED,
             "plan: its context keeps nothing of shaders, expected one made with capture_shaders");
    for (const auto &[pipeline, dispatches] : pipelines_of(plan)) add(context, *pipeline, dispatches);
}

void ShaderReports::add(const Context &context, const Pipeline &pipeline, uint32_t dispatches) {
    const std::span<const char *const> names = pipeline.shader->constants;
    uint32_t index = 0;
    for (const VkPipelineExecutablePropertiesKHR &executable : executables_of(context, pipeline)) {
        Report &report = reports_.emplace_back();
        for (const auto &[id, value] : pipeline.constants)
            if (id < names.size()) report.constants.push_back({names[id], value});
        const VkPipelineExecutableInfoKHR info = executable_info(pipeline, index++);
        add_statistics(context, info, report);
        if (context.pipelines().capture() == VKATTN_SHADER_CAPTURE_TEXTS) add_texts(context, info, report);
        vkattn_shader &shader = shaders_.emplace_back();
        shader.module = pipeline.shader->name;
        shader.executable = keep(executable.name);
        shader.dispatches = dispatches;
        shader.workgroup_size = pipeline.workgroup_size;
        shader.subgroup_size = executable.subgroupSize;
        shader.compile_ms = pipeline.compile_ms;
        shader.spirv_bytes = pipeline.spirv_bytes;
        shader.constant_count = static_cast<uint32_t>(report.constants.size());
        shader.statistic_count = static_cast<uint32_t>(report.statistics.size());
        shader.text_count = static_cast<uint32_t>(report.texts.size());
        shader.constants = report.constants.data();
        shader.statistics = report.statistics.data();
        shader.texts = report.texts.data();
    }
}

void ShaderReports::add_statistics(const Context &context, const VkPipelineExecutableInfoKHR &executable,
                                   Report &report) {
    const auto ask = context.vk().vkGetPipelineExecutableStatisticsKHR;
    uint32_t count = 0;
    check(ask(context.device(), &executable, &count, nullptr), "vkGetPipelineExecutableStatisticsKHR");
    VkPipelineExecutableStatisticKHR empty{};
    empty.sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR;
    std::vector<VkPipelineExecutableStatisticKHR> all(count, empty);
    check(ask(context.device(), &executable, &count, all.data()), "vkGetPipelineExecutableStatisticsKHR");
    for (const VkPipelineExecutableStatisticKHR &each : all)
        report.statistics.push_back({keep(each.name), keep(each.description), number_of(each)});
}

void ShaderReports::add_texts(const Context &context, const VkPipelineExecutableInfoKHR &executable, Report &report) {
    const auto ask = context.vk().vkGetPipelineExecutableInternalRepresentationsKHR;
    constexpr const char *kName = "vkGetPipelineExecutableInternalRepresentationsKHR";
    uint32_t count = 0;
    check(ask(context.device(), &executable, &count, nullptr), kName);
    VkPipelineExecutableInternalRepresentationKHR empty{};
    empty.sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INTERNAL_REPRESENTATION_KHR;
    std::vector<VkPipelineExecutableInternalRepresentationKHR> all(count, empty);
    check(ask(context.device(), &executable, &count, all.data()), kName); // sizes only
    std::deque<std::string> texts;
    for (VkPipelineExecutableInternalRepresentationKHR &each : all)
        each.pData = texts.emplace_back(each.dataSize, '\0').data();
    check(ask(context.device(), &executable, &count, all.data()), kName);
    for (size_t i = 0; i < all.size(); ++i)
        if (all[i].isText != VK_FALSE) report.texts.push_back({keep(all[i].name), keep(std::move(texts[i]))});
}

} // namespace vkattn
