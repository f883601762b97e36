#include "pipeline_record.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace vkattn::gpu_lab {

namespace {

using Json = nlohmann::ordered_json;

Json value_of(const VkPipelineExecutableStatisticKHR &statistic) {
    switch (statistic.format) {
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_BOOL32_KHR:
        return statistic.value.b32 == VK_TRUE;
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR:
        return statistic.value.i64;
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR:
        return statistic.value.u64;
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_FLOAT64_KHR:
        return statistic.value.f64;
    default:
        return nullptr;
    }
}

Json statistics_of(const ExecutableFunctions &vk, VkDevice device, const VkPipelineExecutableInfoKHR &executable) {
    std::uint32_t count = 0;
    vk.statistics(device, &executable, &count, nullptr);
    std::vector<VkPipelineExecutableStatisticKHR> statistics(
        count, {VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR, nullptr, {}, {}, {}, {}});
    vk.statistics(device, &executable, &count, statistics.data());
    Json all = Json::object();
    for (const VkPipelineExecutableStatisticKHR &statistic : statistics) all[statistic.name] = value_of(statistic);
    return all;
}

// The machine code alone: the compilers' other representations would make a file of gigabytes.
bool is_assembly(const VkPipelineExecutableInternalRepresentationKHR &representation) {
    return representation.isText == VK_TRUE && std::strstr(representation.name, "ssembly") != nullptr;
}

Json texts_of(const ExecutableFunctions &vk, VkDevice device, const VkPipelineExecutableInfoKHR &executable) {
    std::uint32_t count = 0;
    vk.representations(device, &executable, &count, nullptr);
    std::vector<VkPipelineExecutableInternalRepresentationKHR> representations(
        count, {VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INTERNAL_REPRESENTATION_KHR, nullptr, {}, {}, {}, {}, {}});
    vk.representations(device, &executable, &count, representations.data());
    std::vector<std::string> texts(count);
    for (std::uint32_t i = 0; i < count; ++i) {
        texts[i].resize(representations[i].dataSize);
        representations[i].pData = texts[i].data();
    }
    vk.representations(device, &executable, &count, representations.data());
    Json all = Json::object();
    for (std::uint32_t i = 0; i < count; ++i)
        if (is_assembly(representations[i])) all[representations[i].name] = texts[i].c_str(); // up to its zero
    return all;
}

void append(const Json &record) {
    const char *name = std::getenv("VKATTN_STATISTICS_FILE");
    if (name == nullptr) return;
    const std::string line = record.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    std::FILE *file = std::fopen(name, "ab");
    const bool written = file != nullptr && std::fwrite(line.data(), 1, line.size(), file) == line.size();
    if (file == nullptr || std::fclose(file) != 0 || !written)
        std::fprintf(stderr, "VKATTN_STATISTICS_FILE: %s cannot be written, expected a file in a folder with room\n",
                     name);
}

} // namespace

Constants constants_of(const VkPipelineShaderStageCreateInfo &stage) {
    Constants constants;
    const VkSpecializationInfo *info = stage.pSpecializationInfo;
    for (std::uint32_t i = 0; info != nullptr && i < info->mapEntryCount; ++i) {
        const VkSpecializationMapEntry &entry = info->pMapEntries[i];
        std::uint32_t word = 0;
        if (entry.size > sizeof(word)) continue;
        std::memcpy(&word, static_cast<const char *>(info->pData) + entry.offset, entry.size);
        constants.push_back({entry.constantID, word});
    }
    return constants;
}

Json describe_pipeline(const ExecutableFunctions &vk, VkDevice device, VkPipeline pipeline, const Constants &constants,
                       const GivenModule &module, double compile_ms) {
    Json numbers = Json::object();
    for (const auto &[id, value] : constants) numbers[std::to_string(id)] = value;
    const std::optional<std::uint32_t> workgroup = module.size.invocations(constants);
    Json record = {{"module", nullptr},
                   {"spirv_bytes", module.bytes},
                   {"compile_ms", compile_ms},
                   {"subgroup_size", nullptr},
                   {"workgroup_size", workgroup ? Json(*workgroup) : Json(nullptr)},
                   {"constants", numbers},
                   {"statistics", Json::object()},
                   {"texts", Json::object()}};
    if (vk.properties == nullptr) return record;
    const VkPipelineInfoKHR info{VK_STRUCTURE_TYPE_PIPELINE_INFO_KHR, nullptr, pipeline};
    std::uint32_t count = 1; // a compute pipeline has one program
    VkPipelineExecutablePropertiesKHR properties{
        VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_PROPERTIES_KHR, nullptr, {}, {}, {}, {}};
    if (vk.properties(device, &info, &count, &properties) < VK_SUCCESS || count == 0) return record;
    const VkPipelineExecutableInfoKHR executable{VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR, nullptr, pipeline, 0};
    record["subgroup_size"] = properties.subgroupSize;
    record["statistics"] = statistics_of(vk, device, executable);
    record["texts"] = texts_of(vk, device, executable);
    return record;
}

Records::~Records() {
    for (const auto &[thread, record] : waiting_) append(record.json);
}

void Records::add(VkPipeline pipeline, Json record, bool may_get_name) {
    const std::lock_guard lock(mutex_);
    if (!may_get_name) return append(record);
    Record &waiting = waiting_[std::this_thread::get_id()];
    if (!waiting.json.is_null()) append(waiting.json);
    waiting = {reinterpret_cast<std::uint64_t>(pipeline), std::move(record)};
}

void Records::name(std::uint64_t pipeline, const char *name) {
    const std::lock_guard lock(mutex_);
    const auto waiting = waiting_.find(std::this_thread::get_id());
    if (waiting == waiting_.end() || waiting->second.pipeline != pipeline || name == nullptr) return;
    waiting->second.json["module"] = name;
}

} // namespace vkattn::gpu_lab
