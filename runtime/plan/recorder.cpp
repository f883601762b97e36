#include "runtime/plan/recorder.hpp"

#include "runtime/support/error.hpp"
#include "runtime/support/rounding.hpp"
#include "runtime/vulkan/handles.hpp"
#include "shaders/interface/common.h"

#include <algorithm>

namespace vkattn {

// The writes point into infos: neither copied nor moved.
struct Descriptors {
    Descriptors() = default;
    Descriptors(const Descriptors &) = delete;
    Descriptors &operator=(const Descriptors &) = delete;

    std::array<VkDescriptorBufferInfo, kMostBindings + 1> infos{};
    std::array<VkWriteDescriptorSet, kMostBindings + 1> writes{};
    uint32_t count = 0;

    void add(VkDescriptorSet set, VkDescriptorType type, const VkDescriptorBufferInfo &info) {
        infos[count] = info;
        VkWriteDescriptorSet &write = writes[count];
        write.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET;
        write.dstSet = set;
        write.dstBinding = count;
        write.descriptorCount = 1;
        write.descriptorType = type;
        write.pBufferInfo = &infos[count];
        ++count;
    }
};

namespace {

// Splits a byte offset into what a descriptor can hold and what is left for the shader's `bases`.
struct Place {
    VkDescriptorBufferInfo info;
    uint32_t residue;
};

Place place_of(const Region &region, const DeviceCaps &caps) {
    const uint64_t aligned = region.offset / descriptor_alignment(caps) * descriptor_alignment(caps);
    const uint64_t residue = region.offset - aligned;
    return {{region.buffer, aligned, round_up(residue + region.bytes, 4u)}, static_cast<uint32_t>(residue)};
}

void set_base(std::array<uint32_t, 32> &push, uint32_t binding, uint32_t residue) {
    push[PUSH_FIRST_GROUP_WORDS + binding / 4] |= residue << (binding % 4 * 8);
}

} // namespace

DescriptorPool::DescriptorPool(Context &context, const vkattn_requirements &requirements) : context_(context) {
    if (requirements.descriptor_sets == 0) return;
    const VkDescriptorPoolSize sizes[] = {{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, requirements.storage_buffer_descriptors},
                                          {VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER, requirements.uniform_buffer_descriptors}};
    VkDescriptorPoolCreateInfo create{};
    create.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO;
    create.maxSets = requirements.descriptor_sets;
    create.poolSizeCount = requirements.uniform_buffer_descriptors > 0 ? 2 : 1;
    create.pPoolSizes = sizes;
    make_handle(pool_, "vkCreateDescriptorPool", context.vk().vkCreateDescriptorPool, context.device(), &create,
                nullptr);
}

DescriptorPool::~DescriptorPool() {
    if (!context_.is_abandoned()) context_.vk().vkDestroyDescriptorPool(context_.device(), pool_, nullptr);
}

void record_barrier(const Functions &vk, VkCommandBuffer commands) {
    const VkMemoryBarrier barrier{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, VK_ACCESS_SHADER_WRITE_BIT,
                                  VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT};
    vk.vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1,
                            &barrier, 0, nullptr, 0, nullptr);
}

Recorder::Recorder(const Plan &plan, std::span<const vkattn_binding> bindings, VkDescriptorPool pool)
    : plan_(plan), context_(plan.context()), regions_(plan.match(bindings)), sets_(allocate_sets(pool)) {}

std::vector<VkDescriptorSet> Recorder::allocate_sets(VkDescriptorPool pool) const {
    if (context_.caps().push_descriptors != 0 || plan_.steps().empty()) return {};
    std::vector<VkDescriptorSet> sets(plan_.steps().size(), VK_NULL_HANDLE);
    require(pool != VK_NULL_HANDLE, "descriptor_pool: VK_NULL_HANDLE, expected a pool with room for ",
            plan_.steps().size(), " sets, since the device has no push descriptors");
    std::vector<VkDescriptorSetLayout> layouts;
    for (const Step &step : plan_.steps()) layouts.push_back(step.pipeline->set_layout);
    VkDescriptorSetAllocateInfo allocate{};
    allocate.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO;
    allocate.descriptorPool = pool;
    allocate.descriptorSetCount = static_cast<uint32_t>(layouts.size());
    allocate.pSetLayouts = layouts.data();
    check(context_.vk().vkAllocateDescriptorSets(context_.device(), &allocate, sets.data()),
          "vkAllocateDescriptorSets");
    return sets;
}

Region Recorder::region_of(const Step::Bound &bound) const {
    if (bound.source.kind == Source::Kind::kOwned)
        return {bound.source.buffer, bound.source.offset + bound.offset, bound.bytes};
    const vkattn_region &region = regions_[static_cast<size_t>(bound.source.role)]->region;
    return {region.buffer, region.offset + bound.source.offset + bound.offset, bound.bytes};
}

void Recorder::push_addresses(const Step &step, std::array<uint32_t, 32> &push) const {
    for (const Step::Address &address : step.addresses) {
        if (address.push_word == 0) continue;
        const Region region = region_of(address.bound);
        VkBufferDeviceAddressInfo info{VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO, nullptr, region.buffer};
        const uint64_t value = context_.vk().vkGetBufferDeviceAddress(context_.device(), &info) + region.offset;
        push[address.push_word] = static_cast<uint32_t>(value);
        push[address.push_word + 1] = static_cast<uint32_t>(value >> 32);
    }
}

void Recorder::describe(const Step &step, VkDescriptorSet set, std::array<uint32_t, 32> &push,
                        Descriptors &descriptors) const {
    for (uint32_t binding = 0; binding < kMostBindings; ++binding) {
        if ((step.pipeline->bindings >> binding & 1) == 0) continue;
        const Place place = place_of(region_of(step.bound[binding]), context_.caps());
        set_base(push, binding, place.residue);
        descriptors.add(set, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, place.info);
    }
    if (step.pipeline->has_uniforms)
        descriptors.add(set, VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER,
                        {step.uniforms.buffer, step.uniforms.offset, Uniforms::kSlotBytes});
}

// Dispatches of one grid take turns, so that what else the device does may come between them.
void Recorder::record_dispatches(VkCommandBuffer commands, const Step &step, uint32_t first, uint32_t end,
                                 std::array<uint32_t, 32> &push) const {
    const Functions &vk = context_.vk();
    for (uint32_t dispatch = first; dispatch < end; ++dispatch) {
        const StepPart part = part_of(step, dispatch);
        if (dispatch > first) record_barrier(vk, commands);
        std::ranges::copy(part.first, push.begin());
        vk.vkCmdPushConstants(commands, step.pipeline->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, step.push_bytes,
                              push.data());
        vk.vkCmdDispatch(commands, part.groups[0], part.groups[1], part.groups[2]);
    }
}

void Recorder::record_step(VkCommandBuffer commands, size_t step, uint32_t first, uint32_t end) const {
    const Functions &vk = context_.vk();
    const Step &own = plan_.steps()[step];
    const VkDescriptorSet set = sets_.empty() ? VK_NULL_HANDLE : sets_[step];
    std::array<uint32_t, 32> push = own.push;
    push_addresses(own, push);
    Descriptors descriptors;
    describe(own, set, push, descriptors);
    context_.debug_labels().begin(commands, own.pipeline->shader->name);
    const VkPipelineLayout layout = own.pipeline->layout;
    vk.vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, own.pipeline->pipeline);
    if (set == VK_NULL_HANDLE) {
        vk.vkCmdPushDescriptorSetKHR(commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, descriptors.count,
                                     descriptors.writes.data());
    } else {
        if (first == 0) // a set that an earlier piece has bound must not change
            vk.vkUpdateDescriptorSets(context_.device(), descriptors.count, descriptors.writes.data(), 0, nullptr);
        vk.vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, 1, &set, 0, nullptr);
    }
    record_dispatches(commands, own, first, end, push);
    context_.debug_labels().end(commands);
}

void Recorder::record(VkCommandBuffer commands, const Plan::Piece &piece) const {
    const std::vector<Step> &steps = plan_.steps();
    context_.debug_labels().begin(commands, "vkattn plan");
    for (size_t i = piece.first.step; i < steps.size() && i <= piece.end.step; ++i) {
        const uint32_t first = i == piece.first.step ? piece.first.dispatch : 0;
        const uint32_t end = i == piece.end.step ? piece.end.dispatch : dispatches_of(steps[i]);
        if (first >= end) continue;
        if (steps[i].barrier_before && first == 0) record_barrier(context_.vk(), commands);
        record_step(commands, i, first, end);
    }
    context_.debug_labels().end(commands);
}

void Recorder::record_all(VkCommandBuffer commands) const { record(commands, {{}, {plan_.steps().size(), 0}}); }

std::vector<Access> Recorder::accesses(size_t step) const {
    const Step &own = plan_.steps()[step];
    std::vector<Access> all;
    const auto add = [&](const VkDescriptorBufferInfo &range, bool writes) {
        all.push_back({range.buffer, range.offset, range.offset + range.range, writes});
    };
    for (uint32_t binding = 0; binding < kMostBindings; ++binding)
        if ((own.pipeline->bindings >> binding & 1) != 0)
            add(place_of(region_of(own.bound[binding]), context_.caps()).info, own.pipeline->written >> binding & 1);
    for (const Step::Address &address : own.addresses) // which no kernel writes through
        if (address.push_word != 0) add(place_of(region_of(address.bound), context_.caps()).info, false);
    return all;
}

} // namespace vkattn
