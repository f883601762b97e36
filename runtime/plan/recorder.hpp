#pragma once

#include "runtime/plan/plan.hpp"

#include <span>
#include <vector>

namespace vkattn {

// Room for the descriptor sets of recordings, where the device needs one.
class DescriptorPool {
  public:
    DescriptorPool(Context &context, const vkattn_requirements &requirements);
    ~DescriptorPool();
    DescriptorPool(const DescriptorPool &) = delete;
    DescriptorPool &operator=(const DescriptorPool &) = delete;
    VkDescriptorPool handle() const { return pool_; }

  private:
    Context &context_;
    VkDescriptorPool pool_ = VK_NULL_HANDLE;
};

// A part of a buffer, in bytes.
struct Region {
    VkBuffer buffer;
    uint64_t offset;
    uint64_t bytes;
};

// What a dispatch reads, and perhaps writes.
struct Access {
    VkBuffer buffer;
    uint64_t begin, end; // bytes
    bool writes;
};

void record_barrier(const Functions &vk, VkCommandBuffer commands);

struct Descriptors;

// Records a plan with the buffers that it is bound to. The plan and the bindings must outlive it.
class Recorder {
  public:
    // Fails as vkattn_record does.
    Recorder(const Plan &plan, std::span<const vkattn_binding> bindings, VkDescriptorPool pool);

    // A piece of the plan, or all of it, with the barriers between its steps.
    void record(VkCommandBuffer commands, const Plan::Piece &piece) const;
    void record_all(VkCommandBuffer commands) const;
    // Dispatches first to end - 1 of a step, without the barrier before it.
    void record_step(VkCommandBuffer commands, size_t step, uint32_t first, uint32_t end) const;
    // What a step reads and writes: whole descriptors, since validation layers see no less.
    std::vector<Access> accesses(size_t step) const;

  private:
    std::vector<VkDescriptorSet> allocate_sets(VkDescriptorPool pool) const;
    Region region_of(const Step::Bound &bound) const;
    void push_addresses(const Step &step, std::array<uint32_t, 32> &push) const;
    void describe(const Step &step, VkDescriptorSet set, std::array<uint32_t, 32> &push,
                  Descriptors &descriptors) const;
    void record_dispatches(VkCommandBuffer commands, const Step &step, uint32_t first, uint32_t end,
                           std::array<uint32_t, 32> &push) const;

    const Plan &plan_;
    Context &context_;
    Plan::Regions regions_;
    std::vector<VkDescriptorSet> sets_; // one for each step; none where the device has push descriptors
};

} // namespace vkattn
