#include "runtime/vulkan/pipelines.hpp"

#include "runtime/device/emulated_subgroups.hpp"
#include "runtime/spirv/workgroup_size.hpp"
#include "runtime/support/error.hpp"
#include "runtime/support/hash.hpp"
#include "runtime/vulkan/handles.hpp"
#include "shaders/interface/common.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <string_view>

namespace vkattn {

Pipelines::Pipelines(const Functions &vk, VkDevice device, VkPipelineCache cache, const DeviceCaps &caps,
                     vkattn_shader_capture capture, const DebugLabels &labels)
    : vk_(vk), device_(device), cache_(cache), capture_(capture), labels_(labels),
      push_descriptors_(caps.push_descriptors != 0), traits_(caps.traits),
      max_storage_buffers_(caps.max_storage_buffers_per_stage),
      takes_subgroup_sizes_(!kSubgroupsAreEmulated && caps.features.subgroup_size_control &&
                            caps.subgroup_size_control != 0),
      takes_full_subgroups_(!kSubgroupsAreEmulated && caps.features.full_subgroups) {}

Pipelines::~Pipelines() {
    for (const auto &[key, entry] : pipelines_) vk_.vkDestroyPipeline(device_, entry.pipeline.pipeline, nullptr);
    if (own_cache_ != VK_NULL_HANDLE) vk_.vkDestroyPipelineCache(device_, own_cache_, nullptr);
    for (const auto &[key, layout] : layouts_) destroy(layout);
}

void Pipelines::destroy(const Layout &layout) const {
    vk_.vkDestroyPipelineLayout(device_, layout.pipeline, nullptr);
    vk_.vkDestroyDescriptorSetLayout(device_, layout.set, nullptr);
}

void Pipelines::forget(const Shader &shader, bool leak) {
    const std::lock_guard lock(mutex_);
    std::erase_if(pipelines_, [&](const auto &each) {
        const bool goes = each.first.first.first == &shader;
        if (goes && !leak) vk_.vkDestroyPipeline(device_, each.second.pipeline.pipeline, nullptr);
        return goes;
    });
    std::erase_if(layouts_, [&](const auto &each) {
        const bool goes = each.first.first == &shader;
        if (goes && !leak) destroy(each.second);
        return goes;
    });
    modules_.erase(&shader);
}

void Pipelines::load(std::span<const std::byte> saved) {
    if (cache_ != VK_NULL_HANDLE) return; // the caller's
    VkPipelineCacheCreateInfo create{};
    create.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO;
    create.initialDataSize = saved.size();
    create.pInitialData = saved.empty() ? nullptr : saved.data();
    make_handle(own_cache_, "vkCreatePipelineCache", vk_.vkCreatePipelineCache, device_, &create, nullptr);
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

void Pipelines::set_journal(std::shared_ptr<CrashJournal> journal, uint64_t device) {
    journal_ = std::move(journal);
    journal_device_ = device;
}

const Pipeline &Pipelines::get(const Shader &shader, BindingSet bindings, std::span<const uint32_t> constants,
                               const ShaderUse &use) {
    if (!is_built(shader))
        fail(VKATTN_ERROR_UNSUPPORTED, shader.name, ": not in this library, which was ", shader.code.why_empty());
    const Found found = entry_of(shader, bindings, constants);
    const std::lock_guard lock(found.entry.mutex);
    Pipeline &pipeline = found.entry.pipeline;
    if (pipeline.pipeline != VK_NULL_HANDLE) return pipeline;
    if (journal_ == nullptr) {
        make(shader, found, constants);
        return pipeline;
    }
    Attempt attempt = attempt_of(shader, found.key, use);
    Trying trying(journal_, {&attempt, 1});
    require_survivor(attempt);
    make(shader, found, constants);
    trying.end(CrashJournal::Outcome::kSurvived);
    attempt.stage = Stage::kRun;
    pipeline.first_run = std::make_shared<const Attempt>(std::move(attempt));
    return pipeline;
}

// What fails after it is compiled leaves it to the next call.
void Pipelines::make(const Shader &shader, const Found &found, std::span<const uint32_t> constants) {
    const auto &[layout, key, entry] = found;
    const auto start = std::chrono::steady_clock::now();
    const Module module = module_of(shader, layout, key.second);
    const auto workgroup_size = spirv::WorkgroupSize(module.code).invocations(module.constants).value_or(1);
    const VkPipeline made = create(shader, layout, subgroup_size_of(shader, constants), module);
    const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
    entry.pipeline = {.pipeline = made,
                      .layout = layout.pipeline,
                      .set_layout = layout.set,
                      .bindings = layout.bindings,
                      .written = layout.module->facts.written,
                      .has_uniforms = layout.module->facts.uniforms.has_value(),
                      .shader = &shader,
                      .constants = key.second,
                      .compile_ms = taken.count(),
                      .spirv_bytes = static_cast<uint32_t>(module.code.size() * sizeof(uint32_t)),
                      .workgroup_size = workgroup_size,
                      .first_run = nullptr};
    labels_.name(VK_OBJECT_TYPE_PIPELINE, made, text("vkattn ", shader.name).c_str());
}

// What the same pipeline is in every run of a program.
Attempt Pipelines::attempt_of(const Shader &shader, const Key &key, const ShaderUse &use) const {
    Hash hash;
    hash.add(shader.code.stored().data(), shader.code.stored().size());
    hash.add(key.first.second);
    hash.add(key.second.data(), key.second.size() * sizeof(SpecialisationConstant));
    return {journal_device_, hash.value(), Stage::kBuild, use.paths, shader.code.word_count(), use.shader};
}

void Pipelines::require_survivor(const Attempt &attempt) const {
    for (const Stage stage : {Stage::kBuild, Stage::kRun}) {
        Attempt earlier = attempt;
        earlier.stage = stage;
        if (journal_->has_failed(earlier)) fail(VKATTN_ERROR_UNSUPPORTED, failure_text(earlier));
    }
}

Pipelines::Found Pipelines::entry_of(const Shader &shader, BindingSet bindings, std::span<const uint32_t> constants) {
    const std::lock_guard lock(mutex_);
    const Unpacked &module = unpacked(shader);
    const LayoutKey layout_key{&shader, bindings & module.facts.bindings};
    const Layout &layout = layout_of(module, layout_key);
    auto &[key, entry] = *pipelines_.try_emplace({layout_key, values_of(layout, constants)}).first;
    return {layout, key, entry};
}

std::vector<SpecialisationConstant> Pipelines::values_of(const Layout &layout,
                                                         std::span<const uint32_t> constants) const {
    std::vector<SpecialisationConstant> values;
    values.reserve(layout.module->facts.constant_ids.size());
    for (const uint32_t id : layout.module->facts.constant_ids) {
        if (id == CONSTANT_UNPACKS_HALVES)
            values.push_back({id, traits_.unpacks_halves});
        else if (id < constants.size())
            values.push_back({id, constants[id]});
    }
    return values;
}

uint32_t Pipelines::subgroup_size_of(const Shader &shader, std::span<const uint32_t> constants) const {
    if (!takes_subgroup_sizes_ || !shader.full_subgroups) return 0;
    const auto name = std::ranges::find(shader.constants, std::string_view("SUBGROUP_SIZE"));
    return constants[static_cast<size_t>(name - shader.constants.begin())];
}

size_t Pipelines::count() {
    const std::lock_guard lock(mutex_);
    return pipelines_.size();
}

const Pipelines::Unpacked &Pipelines::unpacked(const Shader &shader) {
    if (const auto found = modules_.find(&shader); found != modules_.end()) return found->second;
    std::vector<uint32_t> words = shader.code.words();
    ModuleFacts facts = module_facts(words);
    return modules_.emplace(&shader, Unpacked{std::move(words), std::move(facts)}).first->second;
}

const Pipelines::Layout &Pipelines::layout_of(const Unpacked &module, LayoutKey key) {
    const Shader &shader = *key.first;
    const BindingSet bindings = key.second;
    const uint32_t buffers = static_cast<uint32_t>(std::popcount(bindings));
    if (buffers > max_storage_buffers_)
        fail(VKATTN_ERROR_UNSUPPORTED, shader.name, ": binds ", buffers,
             " storage buffers, expected at most maxPerStageDescriptorStorageBuffers, which is ", max_storage_buffers_);
    const auto [found, is_new] = layouts_.try_emplace(key);
    Layout &layout = found->second;
    if (is_new) { // other threads read those that are there already
        layout.module = &module;
        layout.bindings = bindings;
    }
    if (layout.set == VK_NULL_HANDLE) add_set_layout(layout);
    if (layout.pipeline == VK_NULL_HANDLE) add_pipeline_layout(shader, layout);
    return layout;
}

void Pipelines::add_set_layout(Layout &layout) const {
    const uint32_t buffers = static_cast<uint32_t>(std::popcount(layout.bindings));
    std::vector<VkDescriptorSetLayoutBinding> bindings(buffers);
    for (uint32_t i = 0; i < buffers; ++i)
        bindings[i] = {i, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr};
    if (layout.module->facts.uniforms)
        bindings.push_back({buffers, VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr});
    VkDescriptorSetLayoutCreateInfo create{};
    create.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO;
    create.flags = push_descriptors_ ? VK_DESCRIPTOR_SET_LAYOUT_CREATE_PUSH_DESCRIPTOR_BIT_KHR : 0;
    create.bindingCount = static_cast<uint32_t>(bindings.size());
    create.pBindings = bindings.data();
    make_handle(layout.set, "vkCreateDescriptorSetLayout", vk_.vkCreateDescriptorSetLayout, device_, &create, nullptr);
}

void Pipelines::add_pipeline_layout(const Shader &shader, Layout &layout) const {
    const VkPushConstantRange push{VK_SHADER_STAGE_COMPUTE_BIT, 0, shader.push_bytes};
    VkPipelineLayoutCreateInfo create{};
    create.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
    create.setLayoutCount = 1;
    create.pSetLayouts = &layout.set;
    create.pushConstantRangeCount = 1;
    create.pPushConstantRanges = &push;
    make_handle(layout.pipeline, "vkCreatePipelineLayout", vk_.vkCreatePipelineLayout, device_, &create, nullptr);
}

Pipelines::Module Pipelines::module_of(const Shader &shader, const Layout &layout,
                                       std::span<const SpecialisationConstant> constants) const {
    std::vector<uint32_t> code = renumber_bindings(layout.module->words, layout.bindings);
    if (traits_.specialised_modules == 0) return {std::move(code), constants};
    try {
        return {spirv::specialise(code, constants, shader.name), {}};
    } catch (const spirv::CannotSpecialise &error) { // a variant's, in an unusual form
        if (traits_.specialised_arrays != 0) return {std::move(code), constants};
        fail(VKATTN_ERROR_UNSUPPORTED, shader.name, ": has ", error.what(),
             ", expected a module that can be specialised for a driver that does not size arrays");
    }
}

VkPipeline Pipelines::create(const Shader &shader, const Layout &layout, uint32_t subgroup_size,
                             const Module &module) const {
    VkShaderModuleCreateInfo create{};
    create.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
    create.codeSize = module.code.size() * sizeof(uint32_t);
    create.pCode = module.code.data();
    struct Owner {
        const Pipelines &pipelines;
        VkShaderModule module = VK_NULL_HANDLE;
        ~Owner() {
            pipelines.vk_.vkDestroyShaderModule(pipelines.device_, module, nullptr);
        } // nothing where it is none
    } owner{*this};
    make_handle<check_pipeline>(owner.module, "vkCreateShaderModule", vk_.vkCreateShaderModule, device_, &create,
                                nullptr);
    labels_.name(VK_OBJECT_TYPE_SHADER_MODULE, owner.module, text("vkattn ", shader.name).c_str());
    return create_of_module(shader, layout, subgroup_size, module.constants, owner.module);
}

VkPipeline Pipelines::create_of_module(const Shader &shader, const Layout &layout, uint32_t subgroup_size,
                                       std::span<const SpecialisationConstant> constants, VkShaderModule module) const {
    std::vector<VkSpecializationMapEntry> entries;
    for (const SpecialisationConstant &constant : constants) {
        const size_t offset = entries.size() * sizeof constant + offsetof(SpecialisationConstant, value);
        entries.push_back({constant.id, static_cast<uint32_t>(offset), sizeof constant.value});
    }
    const VkSpecializationInfo specialisation{static_cast<uint32_t>(entries.size()), entries.data(),
                                              constants.size() * sizeof(SpecialisationConstant), constants.data()};
    VkComputePipelineCreateInfo create{};
    create.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
    if (capture_ != VKATTN_SHADER_CAPTURE_NONE) create.flags |= VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR;
    if (capture_ == VKATTN_SHADER_CAPTURE_TEXTS)
        create.flags |= VK_PIPELINE_CREATE_CAPTURE_INTERNAL_REPRESENTATIONS_BIT_KHR;
    create.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
    create.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
    create.stage.module = module;
    create.stage.pName = "main";
    create.stage.pSpecializationInfo = &specialisation;
    create.layout = layout.pipeline;
    VkPipelineShaderStageRequiredSubgroupSizeCreateInfo required{};
    required.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO;
    required.requiredSubgroupSize = subgroup_size;
    if (subgroup_size != 0) create.stage.pNext = &required;
    if (takes_full_subgroups_ && shader.full_subgroups)
        create.stage.flags = VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
    VkPipeline pipeline = VK_NULL_HANDLE;
    check_pipeline(vk_.vkCreateComputePipelines(device_, cache_, 1, &create, nullptr, &pipeline),
                   "vkCreateComputePipelines");
    return pipeline;
}

} // namespace vkattn
