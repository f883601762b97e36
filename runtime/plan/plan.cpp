#include "runtime/plan/plan.hpp"

#include "runtime/problem/attention_tensors.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/support/error.hpp"
#include "runtime/support/extensions.hpp"
#include "runtime/support/rounding.hpp"
#include "runtime/vulkan/handles.hpp"
#include "runtime/vulkan/memory.hpp"
#include "runtime/vulkan/submissions.hpp"
#include "shaders/interface/common.h"

#include <algorithm>
#include <bit>
#include <optional>

namespace vkattn {
namespace {

constexpr uint64_t kBindingAlignment = 16;

// Of the roles that are none of attention's, in the order of their numbers.
constexpr const char *kOtherRoleNames[] = {
    "workspace", "past_key", "past_value", "present_key", "present_value", "partial_output", "partial_log_sum_exp",
    "input",     "weight",   "bias",       "multiplier",  "residual",      "tokens",         "source",
    "cache",     "indices"};

constexpr auto kRoleNames = [] {
    std::array<const char *, VKATTN_ROLE_COUNT> names{};
    for (const AttentionTensor &tensor : kAttentionTensors) names[tensor.role] = tensor.name;
    const char *const *other = kOtherRoleNames;
    for (const char *&name : names)
        if (name == nullptr) name = *other++;
    return names;
}();
static_assert(std::size(kOtherRoleNames) + std::size(kAttentionTensors) == VKATTN_ROLE_COUNT);

// A descriptor pool for the length of one run, where the device needs one.
class TemporaryPool {
  public:
    TemporaryPool(Context &context, const vkattn_requirements &requirements) : context_(context) {
        if (requirements.descriptor_sets == 0) return;
        const VkDescriptorPoolSize sizes[] = {
            {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, requirements.storage_buffer_descriptors},
            {VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER, requirements.uniform_buffer_descriptors}};
        VkDescriptorPoolCreateInfo create{};
        create.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO;
        create.maxSets = requirements.descriptor_sets;
        create.poolSizeCount = requirements.uniform_buffer_descriptors > 0 ? 2 : 1;
        create.pPoolSizes = sizes;
        make_handle(pool_, "vkCreateDescriptorPool", context.vk().vkCreateDescriptorPool, context.device(), &create,
                    nullptr);
    }
    ~TemporaryPool() {
        if (!context_.is_abandoned()) context_.vk().vkDestroyDescriptorPool(context_.device(), pool_, nullptr);
    }
    TemporaryPool(const TemporaryPool &) = delete;
    TemporaryPool &operator=(const TemporaryPool &) = delete;
    VkDescriptorPool handle() const { return pool_; }

  private:
    Context &context_;
    VkDescriptorPool pool_ = VK_NULL_HANDLE;
};

} // namespace

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

Place place_of(VkBuffer buffer, uint64_t offset, uint64_t bytes, uint64_t alignment) {
    const uint64_t aligned = offset / alignment * alignment;
    return {{buffer, aligned, (offset - aligned + bytes + 3) / 4 * 4}, static_cast<uint32_t>(offset - aligned)};
}

void set_base(std::array<uint32_t, 32> &push, uint32_t binding, uint32_t residue) {
    push[PUSH_FIRST_GROUP_WORDS + binding / 4] |= residue << (binding % 4 * 8);
}

} // namespace

const char *role_name(vkattn_role role) {
    const auto index = static_cast<uint32_t>(role);
    return index < VKATTN_ROLE_COUNT ? kRoleNames[index] : "an unknown role";
}

uint32_t dispatches_of(const Step &step) {
    const auto [x, y, z] = dispatches_along(step.groups, step.groups_per_dispatch);
    return x * y * z;
}

StepPart part_of(const Step &step, uint32_t dispatch) {
    const Grid count = dispatches_along(step.groups, step.groups_per_dispatch);
    StepPart part;
    for (size_t axis = 0; axis < count.size(); ++axis) {
        part.first[axis] = dispatch % count[axis] * step.groups_per_dispatch[axis];
        part.groups[axis] = std::min(step.groups_per_dispatch[axis], step.groups[axis] - part.first[axis]);
        dispatch /= count[axis];
    }
    return part;
}

Plan::~Plan() {
    for (const UniformSlot &slot : uniforms_) context_.uniforms().give_back(slot);
}

uint64_t descriptor_alignment(const DeviceCaps &caps) {
    return std::max(kBindingAlignment, caps.min_storage_buffer_offset_alignment);
}

vkattn_requirements Plan::requirements() const {
    vkattn_requirements result{};
    result.workspace_bytes = workspace_bytes_;
    result.workspace_alignment = descriptor_alignment(context_.caps());
    if (context_.caps().push_descriptors != 0) return result;
    result.descriptor_sets = static_cast<uint32_t>(steps_.size());
    for (const Step &step : steps_) {
        result.storage_buffer_descriptors += static_cast<uint32_t>(std::popcount(step.pipeline->bindings));
        result.uniform_buffer_descriptors += step.pipeline->has_uniforms ? 1 : 0;
    }
    return result;
}

// What of its buffer a binding gives to its role.
uint64_t Plan::region_bytes(const vkattn_binding &binding) const {
    const char *name = role_name(binding.role);
    const std::optional<uint64_t> own = context_.buffer_bytes(binding.buffer);
    if (!own.has_value()) {
        require(binding.bytes != 0, "bindings: role ", name,
                " has bytes 0, expected the size of its region, since the "
                "buffer is not one of vkattn's");
        return binding.bytes;
    }
    require(binding.offset <= *own && binding.bytes <= *own - binding.offset, "bindings: role ", name, " has offset ",
            binding.offset, " and bytes ", binding.bytes, ", expected a region within the buffer's ", *own, " bytes");
    return binding.bytes != 0 ? binding.bytes : *own - binding.offset;
}

Plan::Regions Plan::match(std::span<const vkattn_binding> bindings) const {
    Regions regions{};
    for (const vkattn_binding &binding : bindings) {
        require_no_extensions(binding.next, "bindings");
        const auto role = static_cast<uint32_t>(binding.role);
        require(role < VKATTN_ROLE_COUNT, "bindings: role ", role, " is unknown, expected a vkattn_role");
        const char *name = role_name(binding.role);
        require(roles_.test(role) || (role == VKATTN_ROLE_WORKSPACE && workspace_bytes_ == 0), "bindings: role ", name,
                " is not used by this plan, expected only the tensors of its description");
        require(regions[role] == nullptr, "bindings: role ", name, " is bound twice, expected once");
        regions[role] = &binding;
        if (role_bytes_[role] == 0 && role != VKATTN_ROLE_WORKSPACE) continue;
        require(binding.buffer != VK_NULL_HANDLE, "bindings: role ", name,
                " has buffer VK_NULL_HANDLE, expected a buffer");
        const uint64_t alignment =
            role == VKATTN_ROLE_WORKSPACE ? descriptor_alignment(context_.caps()) : kBindingAlignment;
        require(binding.offset % alignment == 0, "bindings: role ", name, " has offset ", binding.offset,
                ", expected a multiple of ", alignment);
        const uint64_t bytes = region_bytes(binding);
        const uint64_t needed = role == VKATTN_ROLE_WORKSPACE ? workspace_bytes_ : role_bytes_[role];
        require(bytes >= needed, "bindings: role ", name, " has a region of ", bytes, " bytes, expected at least ",
                needed);
    }
    for (uint32_t role = 0; role < VKATTN_ROLE_COUNT; ++role)
        require(role_bytes_[role] == 0 || regions[role] != nullptr, "bindings: role ", kRoleNames[role],
                " is missing, expected a region for it");
    return regions;
}

std::vector<VkDescriptorSet> Plan::allocate_sets(VkDescriptorPool pool) const {
    if (context_.caps().push_descriptors != 0 || steps_.empty()) return {};
    std::vector<VkDescriptorSet> sets(steps_.size(), VK_NULL_HANDLE);
    require(pool != VK_NULL_HANDLE, "descriptor_pool: VK_NULL_HANDLE, expected a pool with room for ", steps_.size(),
            " sets, since the device has no push descriptors");
    std::vector<VkDescriptorSetLayout> layouts;
    for (const Step &step : steps_) layouts.push_back(step.pipeline->set_layout);
    VkDescriptorSetAllocateInfo allocate{};
    allocate.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO;
    allocate.descriptorPool = pool;
    allocate.descriptorSetCount = static_cast<uint32_t>(layouts.size());
    allocate.pSetLayouts = layouts.data();
    check(context_.vk().vkAllocateDescriptorSets(context_.device(), &allocate, sets.data()),
          "vkAllocateDescriptorSets");
    return sets;
}

// Records a plan piece by piece. The bindings must outlive it.
class Plan::Recorder {
  public:
    Recorder(const Plan &plan, std::span<const vkattn_binding> bindings, VkDescriptorPool pool)
        : plan_(plan), regions_(plan.match(bindings)), sets_(plan.allocate_sets(pool)) {}

    void record_next(VkCommandBuffer commands) { record(commands, plan_.pieces_[next_++]); }
    void record_all(VkCommandBuffer commands) { record(commands, {{}, {plan_.steps_.size(), 0}}); }

  private:
    void record(VkCommandBuffer commands, const Piece &piece) {
        plan_.context_.debug_labels().begin(commands, "vkattn plan");
        for (size_t i = piece.first.step; i < plan_.steps_.size() && i <= piece.end.step; ++i) {
            const uint32_t first = i == piece.first.step ? piece.first.dispatch : 0;
            const uint32_t end = i == piece.end.step ? piece.end.dispatch : dispatches_of(plan_.steps_[i]);
            const VkDescriptorSet set = sets_.empty() ? VK_NULL_HANDLE : sets_[i];
            if (first < end) plan_.record_step(commands, plan_.steps_[i], regions_, set, first, end);
        }
        plan_.context_.debug_labels().end(commands);
    }

    const Plan &plan_;
    Regions regions_;
    std::vector<VkDescriptorSet> sets_;
    size_t next_ = 0;
};

void Plan::record(const vkattn_record_info &info) const {
    require(info.command_buffer != VK_NULL_HANDLE,
            "command_buffer: VK_NULL_HANDLE, expected a recording command buffer");
    require(info.bindings != nullptr || info.binding_count == 0, "bindings: NULL, expected binding_count entries");
    require_no_extensions(info.next, "info");
    Recorder(*this, {info.bindings, info.binding_count}, info.descriptor_pool).record_all(info.command_buffer);
}

Plan::Region Plan::region_of(const Step::Bound &bound, const Regions &regions) const {
    if (bound.source.kind == Source::Kind::kOwned)
        return {bound.source.buffer, bound.source.offset + bound.offset, bound.bytes};
    const vkattn_binding *region = regions[static_cast<size_t>(bound.source.role)];
    return {region->buffer, region->offset + bound.source.offset + bound.offset, bound.bytes};
}

void Plan::push_addresses(const Step &step, const Regions &regions, std::array<uint32_t, 32> &push) const {
    for (const Step::Address &address : step.addresses) {
        if (address.push_word == 0) continue;
        const Region region = region_of(address.bound, regions);
        VkBufferDeviceAddressInfo info{VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO, nullptr, region.buffer};
        const uint64_t value = context_.vk().vkGetBufferDeviceAddress(context_.device(), &info) + region.offset;
        push[address.push_word] = static_cast<uint32_t>(value);
        push[address.push_word + 1] = static_cast<uint32_t>(value >> 32);
    }
}

void Plan::describe(const Step &step, const Regions &regions, VkDescriptorSet set, std::array<uint32_t, 32> &push,
                    Descriptors &descriptors) const {
    for (uint32_t binding = 0; binding < kMostBindings; ++binding) {
        if ((step.pipeline->bindings >> binding & 1) == 0) continue;
        const Region region = region_of(step.bound[binding], regions);
        const Place place = place_of(region.buffer, region.offset, region.bytes, descriptor_alignment(context_.caps()));
        set_base(push, binding, place.residue);
        descriptors.add(set, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, place.info);
    }
    if (step.pipeline->has_uniforms)
        descriptors.add(set, VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER,
                        {step.uniforms.buffer, step.uniforms.offset, Uniforms::kSlotBytes});
}

void Plan::record_barrier(VkCommandBuffer commands) const {
    const VkMemoryBarrier barrier{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, VK_ACCESS_SHADER_WRITE_BIT,
                                  VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT};
    context_.vk().vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                                       VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1, &barrier, 0, nullptr, 0, nullptr);
}

// Dispatches of one grid take turns, so that what else the device does may come between them.
void Plan::record_dispatches(VkCommandBuffer commands, const Step &step, uint32_t first, uint32_t end,
                             std::array<uint32_t, 32> &push) const {
    const Functions &vk = context_.vk();
    for (uint32_t dispatch = first; dispatch < end; ++dispatch) {
        const StepPart part = part_of(step, dispatch);
        if (dispatch > first) record_barrier(commands);
        std::ranges::copy(part.first, push.begin());
        vk.vkCmdPushConstants(commands, step.pipeline->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, step.push_bytes,
                              push.data());
        vk.vkCmdDispatch(commands, part.groups[0], part.groups[1], part.groups[2]);
    }
}

// Its dispatches from first to end - 1.
void Plan::record_step(VkCommandBuffer commands, const Step &step, const Regions &regions, VkDescriptorSet set,
                       uint32_t first, uint32_t end) const {
    const Functions &vk = context_.vk();
    std::array<uint32_t, 32> push = step.push;
    push_addresses(step, regions, push);
    Descriptors descriptors;
    describe(step, regions, set, push, descriptors);
    if (step.barrier_before && first == 0) record_barrier(commands);
    context_.debug_labels().begin(commands, step.pipeline->shader->name);
    const VkPipelineLayout layout = step.pipeline->layout;
    vk.vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, step.pipeline->pipeline);
    if (set == VK_NULL_HANDLE) {
        vk.vkCmdPushDescriptorSetKHR(commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, descriptors.count,
                                     descriptors.writes.data());
    } else {
        if (first == 0) // a set that an earlier piece has bound must not change
            vk.vkUpdateDescriptorSets(context_.device(), descriptors.count, descriptors.writes.data(), 0, nullptr);
        vk.vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, 1, &set, 0, nullptr);
    }
    record_dispatches(commands, step, first, end, push);
    context_.debug_labels().end(commands);
}

// The bindings, with a workspace of their own where none is given.
struct Plan::Bindings {
    std::vector<vkattn_binding> all;
    std::shared_ptr<Buffer> workspace; // or NULL
};

Plan::Bindings Plan::with_workspace(std::span<const vkattn_binding> bindings) const {
    Bindings result{{bindings.begin(), bindings.end()}, nullptr};
    const bool has_workspace =
        std::ranges::any_of(bindings, [](const auto &binding) { return binding.role == VKATTN_ROLE_WORKSPACE; });
    if (!has_workspace && workspace_bytes_ > 0) {
        result.workspace = std::make_shared<Buffer>(context_, workspace_bytes_, "vkattn workspace");
        result.all.push_back({VKATTN_ROLE_WORKSPACE, result.workspace->handle(), 0, 0, nullptr});
    }
    match(result.all); // before anything is created
    return result;
}

// Counts what a run holds; takes it back if nothing was submitted.
template <class Submit>
void Plan::hold_while(Submit &&submit) const {
    const std::unique_ptr<RunHold> hold = hold_ ? hold_() : nullptr;
    try {
        submit();
    } catch (const std::exception &error) { // nothing was submitted, unless the device was lost on the way
        const auto *known = dynamic_cast<const Error *>(&error);
        if (hold != nullptr && (known == nullptr || known->result() != VKATTN_ERROR_DEVICE_LOST)) hold->not_submitted();
        throw;
    }
}

double Plan::run(std::span<const vkattn_binding> bindings) const {
    const Bindings all = with_workspace(bindings);
    double milliseconds = -1.0;
    hold_while([&] {
        const TemporaryPool pool(context_, requirements());
        Recorder recorder(*this, all.all, pool.handle());
        milliseconds = context_.submissions().run_and_time(
            [&](VkCommandBuffer commands) { recorder.record_next(commands); }, submissions());
    });
    return milliseconds;
}

void Plan::submit(std::span<const vkattn_binding> bindings, const vkattn_sync *sync) const {
    const Bindings all = with_workspace(bindings);
    hold_while([&] {
        const auto pool = std::make_shared<TemporaryPool>(context_, requirements());
        Submissions::Work work;
        Recorder recorder(*this, all.all, pool->handle());
        work.record = [&](VkCommandBuffer commands) { recorder.record_next(commands); };
        work.pieces = submissions();
        work.kept = {pool, all.workspace};
        context_.submissions().submit(Submissions::Lane::kCompute, std::move(work), sync);
    });
}

} // namespace vkattn
