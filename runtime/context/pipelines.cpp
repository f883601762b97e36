#include "runtime/context/pipelines.hpp"

#include "runtime/error.hpp"
#include "shaders/interface/advance_lengths.h"
#include "shaders/interface/attention.h"
#include "shaders/interface/embedding.h"
#include "shaders/interface/kv_append.h"
#include "shaders/interface/linear.h"
#include "shaders/interface/merge.h"
#include "shaders/interface/norm.h"
#include "shaders/interface/peak.h"
#include "shaders/interface/rope.h"

#include <algorithm>
#include <chrono>

#include "vkattn_shaders/advance_lengths.spv.hpp"
#include "vkattn_shaders/coopmat.spv.hpp"
#include "vkattn_shaders/coopmat2.spv.hpp"
#include "vkattn_shaders/coopmat2_bf16.spv.hpp"
#include "vkattn_shaders/coopmat2_rolled.spv.hpp"
#include "vkattn_shaders/coopmat_bf16.spv.hpp"
#include "vkattn_shaders/coopmat_rolled.spv.hpp"
#include "vkattn_shaders/embedding.spv.hpp"
#include "vkattn_shaders/flash.spv.hpp"
#include "vkattn_shaders/flash_addresses.spv.hpp"
#include "vkattn_shaders/kv_append.spv.hpp"
#include "vkattn_shaders/linear.spv.hpp"
#include "vkattn_shaders/linear_addresses.spv.hpp"
#include "vkattn_shaders/linear_coopmat.spv.hpp"
#include "vkattn_shaders/linear_coopmat_bf16.spv.hpp"
#include "vkattn_shaders/linear_vector.spv.hpp"
#include "vkattn_shaders/masked_softmax.spv.hpp"
#include "vkattn_shaders/merge.spv.hpp"
#include "vkattn_shaders/merge_parts.spv.hpp"
#include "vkattn_shaders/norm.spv.hpp"
#include "vkattn_shaders/peak_fma.spv.hpp"
#include "vkattn_shaders/peak_matrix.spv.hpp"
#include "vkattn_shaders/peak_stream.spv.hpp"
#include "vkattn_shaders/peak_stream_addresses.spv.hpp"
#include "vkattn_shaders/qk_scores.spv.hpp"
#include "vkattn_shaders/rope.spv.hpp"
#include "vkattn_shaders/weighted_values.spv.hpp"

namespace vkattn {
namespace {

#define VKATTN_CONSTANT_NAME(id, NAME, default_value) #NAME,
constexpr const char *kAttentionConstants[] = {ATTENTION_CONSTANTS(VKATTN_CONSTANT_NAME)};
constexpr const char *kLinearConstants[] = {LINEAR_CONSTANTS(VKATTN_CONSTANT_NAME)};
constexpr const char *kEmbeddingConstants[] = {EMBEDDING_CONSTANTS(VKATTN_CONSTANT_NAME)};
constexpr const char *kNormConstants[] = {NORM_CONSTANTS(VKATTN_CONSTANT_NAME)};
constexpr const char *kRopeConstants[] = {ROPE_CONSTANTS(VKATTN_CONSTANT_NAME)};
constexpr const char *kAppendConstants[] = {APPEND_CONSTANTS(VKATTN_CONSTANT_NAME)};
constexpr const char *kMergeConstants[] = {MERGE_CONSTANTS(VKATTN_CONSTANT_NAME)};
constexpr const char *kPeakConstants[] = {PEAK_CONSTANTS(VKATTN_CONSTANT_NAME)};
#undef VKATTN_CONSTANT_NAME

struct ModuleInfo {
    const char *name;
    std::span<const uint32_t> code;
    std::span<const char *const> constants;
    uint32_t bindings;
    uint32_t push_bytes;
    uint32_t uniform_bytes;
    bool full_subgroups = false; // of the device's subgroup size
};

constexpr uint32_t kAttentionPush = sizeof(gpu::AttentionPush);
constexpr uint32_t kAttentionUniforms = sizeof(gpu::AttentionParameters);

// In the order of enum Module.
const ModuleInfo kModules[] = {
    {"flash", flash_spv, kAttentionConstants, ATTENTION_BINDINGS, kAttentionPush, kAttentionUniforms},
    {"flash_addresses", flash_addresses_spv, kAttentionConstants, ATTENTION_BINDINGS, kAttentionPush,
     kAttentionUniforms},
    {"coopmat", coopmat_spv, kAttentionConstants, ATTENTION_BINDINGS, kAttentionPush, kAttentionUniforms, true},
    {"coopmat_rolled", coopmat_rolled_spv, kAttentionConstants, ATTENTION_BINDINGS, kAttentionPush, kAttentionUniforms,
     true},
    {"coopmat_bf16", coopmat_bf16_spv, kAttentionConstants, ATTENTION_BINDINGS, kAttentionPush, kAttentionUniforms,
     true},
    {"coopmat2", coopmat2_spv, kAttentionConstants, ATTENTION_BINDINGS, kAttentionPush, kAttentionUniforms, true},
    {"coopmat2_rolled", coopmat2_rolled_spv, kAttentionConstants, ATTENTION_BINDINGS, kAttentionPush,
     kAttentionUniforms, true},
    {"coopmat2_bf16", coopmat2_bf16_spv, kAttentionConstants, ATTENTION_BINDINGS, kAttentionPush, kAttentionUniforms,
     true},
    {"merge_parts", merge_parts_spv, kAttentionConstants, ATTENTION_BINDINGS, kAttentionPush, kAttentionUniforms},
    {"merge", merge_spv, kMergeConstants, MERGE_BINDINGS, sizeof(gpu::MergePush), 0},
    {"qk_scores", qk_scores_spv, kAttentionConstants, ATTENTION_BINDINGS, kAttentionPush, kAttentionUniforms},
    {"masked_softmax", masked_softmax_spv, kAttentionConstants, ATTENTION_BINDINGS, kAttentionPush, kAttentionUniforms},
    {"weighted_values", weighted_values_spv, kAttentionConstants, ATTENTION_BINDINGS, kAttentionPush,
     kAttentionUniforms},
    {"linear", linear_spv, kLinearConstants, LINEAR_BINDINGS, sizeof(gpu::LinearPush), 0},
    {"linear_vector", linear_vector_spv, kLinearConstants, LINEAR_BINDINGS, sizeof(gpu::LinearPush), 0},
    {"linear_addresses", linear_addresses_spv, kLinearConstants, LINEAR_BINDINGS, sizeof(gpu::LinearPush), 0},
    {"linear_coopmat", linear_coopmat_spv, kLinearConstants, LINEAR_BINDINGS, sizeof(gpu::LinearPush), 0, true},
    {"linear_coopmat_bf16", linear_coopmat_bf16_spv, kLinearConstants, LINEAR_BINDINGS, sizeof(gpu::LinearPush), 0,
     true},
    {"embedding", embedding_spv, kEmbeddingConstants, EMBEDDING_BINDINGS, sizeof(gpu::EmbeddingPush), 0},
    {"norm", norm_spv, kNormConstants, NORM_BINDINGS, sizeof(gpu::NormPush), 0},
    {"rope", rope_spv, kRopeConstants, ROPE_BINDINGS, sizeof(gpu::RopePush), 0},
    {"kv_append", kv_append_spv, kAppendConstants, APPEND_BINDINGS, sizeof(gpu::AppendPush), 0},
    {"advance_lengths", advance_lengths_spv, {}, ADVANCE_BINDINGS, sizeof(gpu::AdvancePush), 0},
    {"peak_fma", peak_fma_spv, kPeakConstants, PEAK_BINDINGS, sizeof(gpu::PeakPush), 0},
    {"peak_matrix", peak_matrix_spv, kPeakConstants, PEAK_BINDINGS, sizeof(gpu::PeakPush), 0, true},
    {"peak_stream", peak_stream_spv, kPeakConstants, PEAK_BINDINGS, sizeof(gpu::PeakPush), 0},
    {"peak_stream_addresses", peak_stream_addresses_spv, kPeakConstants, PEAK_BINDINGS, sizeof(gpu::PeakPush), 0},
};
static_assert(std::size(kModules) == static_cast<size_t>(Module::kCount));

const ModuleInfo &info_of(Module module) { return kModules[static_cast<size_t>(module)]; }

} // namespace

const char *module_name(Module module) { return info_of(module).name; }

std::span<const uint32_t> module_code(Module module) { return info_of(module).code; }

bool module_is_built(Module module) { return !info_of(module).code.empty(); }

std::span<const char *const> module_constants(Module module) { return info_of(module).constants; }

std::vector<uint32_t> specialisation_ids(std::span<const uint32_t> code) {
    constexpr uint32_t kHeaderWords = 5, kOpDecorate = 71, kSpecId = 1; // the SPIR-V specification's numbers
    std::vector<uint32_t> ids;
    for (size_t at = kHeaderWords; at < code.size();) {
        const uint32_t words = code[at] >> 16, opcode = code[at] & 0xffffu;
        if (words == 0) break;
        if (opcode == kOpDecorate && words == 4 && code[at + 2] == kSpecId) ids.push_back(code[at + 3]);
        at += words;
    }
    std::ranges::sort(ids); // the one of the workgroup's size may be there twice
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    return ids;
}

Pipelines::Pipelines(const Functions &vk, VkDevice device, VkPipelineCache cache, const DeviceCaps &caps,
                     vkattn_shader_capture capture)
    : vk_(vk), device_(device), cache_(cache), capture_(capture), push_descriptors_(caps.push_descriptors != 0),
      unpacks_halves_(caps.traits.unpacks_halves),
      subgroup_size_(caps.features.subgroup_size_control && caps.subgroup_size_control != 0 ? caps.subgroup_size : 0) {}

Pipelines::~Pipelines() {
    for (const auto &[key, entry] : pipelines_) vk_.vkDestroyPipeline(device_, entry.pipeline.pipeline, nullptr);
    if (own_cache_ != VK_NULL_HANDLE) vk_.vkDestroyPipelineCache(device_, own_cache_, nullptr);
    for (const Layout &layout : layouts_) {
        vk_.vkDestroyShaderModule(device_, layout.module, nullptr);
        vk_.vkDestroyPipelineLayout(device_, layout.pipeline, nullptr);
        vk_.vkDestroyDescriptorSetLayout(device_, layout.set, nullptr);
    }
}

void Pipelines::load(std::span<const std::byte> saved) {
    if (cache_ != VK_NULL_HANDLE) return; // the caller's
    VkPipelineCacheCreateInfo create{};
    create.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO;
    create.initialDataSize = saved.size();
    create.pInitialData = saved.empty() ? nullptr : saved.data();
    check(vk_.vkCreatePipelineCache(device_, &create, nullptr, &own_cache_), "vkCreatePipelineCache");
    cache_ = own_cache_;
}

std::vector<std::byte> Pipelines::saved() const {
    if (own_cache_ == VK_NULL_HANDLE) return {};
    size_t bytes = 0;
    check(vk_.vkGetPipelineCacheData(device_, own_cache_, &bytes, nullptr), "vkGetPipelineCacheData");
    std::vector<std::byte> data(bytes);
    const VkResult result = vk_.vkGetPipelineCacheData(device_, own_cache_, &bytes, data.data());
    if (result != VK_INCOMPLETE) check(result, "vkGetPipelineCacheData"); // another thread may have compiled meanwhile
    data.resize(bytes);
    return data;
}

const Pipeline &Pipelines::find_or_create(Module module, std::span<const uint32_t> constants) {
    const auto [layout, key, entry] = entry_of(module, constants);
    const std::lock_guard lock(entry.mutex);
    if (entry.pipeline.pipeline == VK_NULL_HANDLE) {
        const ModuleInfo &info = info_of(module);
        const auto start = std::chrono::steady_clock::now();
        const VkPipeline made = create(layout, info.full_subgroups, key.second);
        const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
        entry.pipeline = {made,      layout.pipeline, layout.set,   info.bindings, info.uniform_bytes != 0,
                          key.first, key.second,      taken.count()};
    }
    return entry.pipeline;
}

Pipelines::Found Pipelines::entry_of(Module module, std::span<const uint32_t> constants) {
    const std::lock_guard lock(mutex_);
    const Layout &layout = layout_of(module);
    auto &[key, entry] = *pipelines_.try_emplace(key_of(module, layout, constants)).first;
    return {layout, key, entry};
}

Pipelines::Key Pipelines::key_of(Module module, const Layout &layout, std::span<const uint32_t> constants) const {
    Key key{module, {}};
    for (const uint32_t id : layout.constant_ids) {
        if (id == CONSTANT_UNPACKS_HALVES)
            key.second.push_back({id, unpacks_halves_});
        else if (id < constants.size())
            key.second.push_back({id, constants[id]});
    }
    return key;
}

size_t Pipelines::count() {
    const std::lock_guard lock(mutex_);
    return pipelines_.size();
}

const Pipelines::Layout &Pipelines::layout_of(Module module) {
    Layout &layout = layouts_[static_cast<size_t>(module)];
    const ModuleInfo &info = info_of(module);
    if (layout.set == VK_NULL_HANDLE) {
        std::vector<VkDescriptorSetLayoutBinding> bindings(info.bindings);
        for (uint32_t i = 0; i < info.bindings; ++i)
            bindings[i] = {i, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr};
        if (info.uniform_bytes != 0)
            bindings.push_back(
                {info.bindings, VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr});
        VkDescriptorSetLayoutCreateInfo create{};
        create.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO;
        create.flags = push_descriptors_ ? VK_DESCRIPTOR_SET_LAYOUT_CREATE_PUSH_DESCRIPTOR_BIT_KHR : 0;
        create.bindingCount = static_cast<uint32_t>(bindings.size());
        create.pBindings = bindings.data();
        check(vk_.vkCreateDescriptorSetLayout(device_, &create, nullptr, &layout.set), "vkCreateDescriptorSetLayout");
    }
    if (layout.pipeline == VK_NULL_HANDLE) {
        const VkPushConstantRange push{VK_SHADER_STAGE_COMPUTE_BIT, 0, info.push_bytes};
        VkPipelineLayoutCreateInfo create{};
        create.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
        create.setLayoutCount = 1;
        create.pSetLayouts = &layout.set;
        create.pushConstantRangeCount = 1;
        create.pPushConstantRanges = &push;
        check(vk_.vkCreatePipelineLayout(device_, &create, nullptr, &layout.pipeline), "vkCreatePipelineLayout");
    }
    if (layout.module == VK_NULL_HANDLE) {
        VkShaderModuleCreateInfo create{};
        create.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
        create.codeSize = info.code.size_bytes();
        create.pCode = info.code.data();
        check_pipeline(vk_.vkCreateShaderModule(device_, &create, nullptr, &layout.module), "vkCreateShaderModule");
        layout.constant_ids = specialisation_ids(info.code);
    }
    return layout;
}

VkPipeline Pipelines::create(const Layout &layout, bool full_subgroups,
                             std::span<const SpecialisationConstant> constants) {
    std::vector<VkSpecializationMapEntry> entries;
    for (const SpecialisationConstant &constant : constants) {
        const size_t offset = entries.size() * sizeof constant + offsetof(SpecialisationConstant, value);
        entries.push_back({constant.id, static_cast<uint32_t>(offset), sizeof constant.value});
    }
    const VkSpecializationInfo specialisation{static_cast<uint32_t>(entries.size()), entries.data(),
                                              constants.size_bytes(), constants.data()};
    VkComputePipelineCreateInfo create{};
    create.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
    if (capture_ != VKATTN_SHADER_CAPTURE_NONE) create.flags |= VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR;
    if (capture_ == VKATTN_SHADER_CAPTURE_TEXTS)
        create.flags |= VK_PIPELINE_CREATE_CAPTURE_INTERNAL_REPRESENTATIONS_BIT_KHR;
    create.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
    create.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
    create.stage.module = layout.module;
    create.stage.pName = "main";
    create.stage.pSpecializationInfo = &specialisation;
    create.layout = layout.pipeline;
    VkPipelineShaderStageRequiredSubgroupSizeCreateInfo required{};
    required.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO;
    required.requiredSubgroupSize = subgroup_size_;
    if (full_subgroups && subgroup_size_ != 0) {
        create.stage.pNext = &required;
        create.stage.flags = VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
    }
    VkPipeline pipeline = VK_NULL_HANDLE;
    check_pipeline(vk_.vkCreateComputePipelines(device_, cache_, 1, &create, nullptr, &pipeline),
                   "vkCreateComputePipelines");
    return pipeline;
}

} // namespace vkattn
