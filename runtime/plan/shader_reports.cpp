#include "runtime/plan/shader_reports.hpp"

#include "runtime/spirv/numbers.hpp"
#include "runtime/support/error.hpp"

#include <algorithm>
#include <map>

namespace vkattn {
namespace {

using namespace spirv;

// What of a module says how large its workgroups are.
struct WorkgroupWords {
    std::map<uint32_t, uint32_t> spec_ids;  // result id -> id of the specialisation constant
    std::map<uint32_t, uint32_t> constants; // result id -> value, or default
    std::map<uint32_t, std::array<uint32_t, 3>> composites;
    uint32_t builtin = 0; // result id of WorkgroupSize, which goes before the execution mode
    std::array<uint32_t, 3> ids{};
    std::array<uint32_t, 3> sizes{1, 1, 1};

    void read(uint32_t opcode, std::span<const uint32_t> words) {
        const auto three = [&](size_t from) { return std::array{words[from], words[from + 1], words[from + 2]}; };
        const size_t count = words.size();
        if (opcode == OpDecorate && count == 4 && words[2] == kSpecId) spec_ids[words[1]] = words[3];
        if (opcode == OpDecorate && count == 4 && words[2] == kBuiltIn && words[3] == kBuiltInWorkgroupSize)
            builtin = words[1];
        if ((opcode == OpConstant || opcode == OpSpecConstant) && count == 4) constants[words[2]] = words[3];
        if ((opcode == OpConstantComposite || opcode == OpSpecConstantComposite) && count == 6)
            composites[words[2]] = three(3);
        if (opcode == OpExecutionMode && count == 6 && words[2] == kModeLocalSize) sizes = three(3);
        if (opcode == OpExecutionModeId && count == 6 && words[2] == kModeLocalSizeId) ids = three(3);
    }

    uint32_t value_of(uint32_t id, std::span<const uint32_t> given) const {
        const auto spec = spec_ids.find(id);
        if (spec != spec_ids.end() && spec->second < given.size()) return given[spec->second];
        const auto constant = constants.find(id);
        return constant != constants.end() ? constant->second : 1;
    }
};

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

// Constants by their ids; 0 for those that the shader does not read.
std::vector<uint32_t> by_id(std::span<const SpecialisationConstant> constants) {
    std::vector<uint32_t> values(constants.empty() ? 0 : constants.back().id + 1);
    for (const auto &[id, value] : constants) values[id] = value;
    return values;
}

} // namespace

uint32_t workgroup_size(std::span<const uint32_t> code, std::span<const uint32_t> constants) {
    WorkgroupWords found;
    for (size_t at = kHeaderWords; at < code.size();) {
        const uint32_t count = code[at] >> 16;
        if (count == 0 || count > code.size() - at) break;
        found.read(code[at] & 0xffffu, code.subspan(at, count));
        at += count;
    }
    std::array<uint32_t, 3> ids = found.ids;
    if (found.builtin != 0) ids = found.composites[found.builtin];
    uint32_t size = 1;
    for (size_t axis = 0; axis < 3; ++axis)
        size *= ids[axis] != 0 ? found.value_of(ids[axis], constants) : found.sizes[axis];
    return size;
}

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
            if (id < names.size()) report.constants.push_back({names[id], value, nullptr});
        const VkPipelineExecutableInfoKHR info = executable_info(pipeline, index++);
        add_statistics(context, info, report);
        if (context.pipelines().capture() == VKATTN_SHADER_CAPTURE_TEXTS) add_texts(context, info, report);
        vkattn_shader &shader = shaders_.emplace_back();
        shader.module = pipeline.shader->name;
        shader.executable = keep(executable.name);
        shader.dispatches = dispatches;
        shader.workgroup_size = workgroup_size(pipeline.shader->code, by_id(pipeline.constants));
        shader.subgroup_size = executable.subgroupSize;
        shader.compile_ms = pipeline.compile_ms;
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
        report.statistics.push_back({keep(each.name), keep(each.description), number_of(each), nullptr});
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
        if (all[i].isText != VK_FALSE) report.texts.push_back({keep(all[i].name), keep(std::move(texts[i])), nullptr});
}

} // namespace vkattn
