// Several plans a frame, frames in flight, and a device without push descriptors: every recording takes descriptor sets, which must stay
// until the device is done with the frame. Each frame has pools of its own for that, adds one where the others are full, and empties
// them all when its fence says that they are free. The plans are made once: each frame binds its own part of larger buffers.
#include <vkattn/vkattn.hpp>
#include <vulkan/vulkan.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <random>
#include <stdexcept>

namespace {

constexpr std::uint32_t kHeads = 4, kKvHeads = 2, kHeadDim = 32, kTokens = 24, kInFlight = 3;
constexpr std::uint64_t kLengthBytes = 16; // of one frame: a binding's offset is a multiple of 16

void check(VkResult result) {
    if (result != VK_SUCCESS) throw std::runtime_error("Vulkan: " + std::to_string(result));
}

// The descriptor pools of one frame.
class DescriptorPools {
  public:
    explicit DescriptorPools(VkDevice device) : device_(device) {}
    ~DescriptorPools() {
        for (const Pool &pool : pools_) vkDestroyDescriptorPool(device_, pool.handle, nullptr);
    }
    DescriptorPools(const DescriptorPools &) = delete;
    DescriptorPools &operator=(const DescriptorPools &) = delete;

    // The device must be done with the frame.
    void reset() {
        for (Pool &pool : pools_) {
            check(vkResetDescriptorPool(device_, pool.handle, 0));
            pool.left = pool.whole;
        }
        current_ = 0;
    }

    // Returns a pool with room for one recording; none where the device has push descriptors.
    VkDescriptorPool take(const vkattn_requirements &needs) {
        if (needs.descriptor_sets == 0) return VK_NULL_HANDLE;
        while (current_ < pools_.size() && !has_room(pools_[current_].left, needs)) ++current_;
        if (current_ == pools_.size()) add(needs);
        vkattn_requirements &left = pools_[current_].left;
        left.descriptor_sets -= needs.descriptor_sets;
        left.storage_buffer_descriptors -= needs.storage_buffer_descriptors;
        left.uniform_buffer_descriptors -= needs.uniform_buffer_descriptors;
        return pools_[current_].handle;
    }
    std::size_t size() const { return pools_.size(); }

  private:
    struct Pool {
        VkDescriptorPool handle;
        vkattn_requirements whole, left;
    };

    static bool has_room(const vkattn_requirements &left, const vkattn_requirements &needs) {
        return left.descriptor_sets >= needs.descriptor_sets &&
               left.storage_buffer_descriptors >= needs.storage_buffer_descriptors &&
               left.uniform_buffer_descriptors >= needs.uniform_buffer_descriptors;
    }

    void add(const vkattn_requirements &needs) {
        vkattn_requirements whole{}; // an engine takes hundreds at once
        whole.descriptor_sets = std::max(needs.descriptor_sets, 2U);
        whole.storage_buffer_descriptors = std::max(needs.storage_buffer_descriptors, 16U);
        whole.uniform_buffer_descriptors = std::max(needs.uniform_buffer_descriptors, 2U);
        const std::vector<VkDescriptorPoolSize> sizes = vkattn::descriptor_pool_sizes(whole);
        VkDescriptorPoolCreateInfo create{};
        create.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO;
        create.maxSets = whole.descriptor_sets;
        create.poolSizeCount = static_cast<std::uint32_t>(sizes.size());
        create.pPoolSizes = sizes.data();
        VkDescriptorPool handle = VK_NULL_HANDLE;
        check(vkCreateDescriptorPool(device_, &create, nullptr, &handle));
        pools_.push_back({handle, whole, whole});
    }

    VkDevice device_;
    std::vector<Pool> pools_;
    std::size_t current_ = 0; // those before are full
};

// A command buffer, its fence, and what it keeps until that is signalled.
class Frame {
  public:
    Frame(VkDevice device, std::uint32_t queue_family) : descriptors(device), device_(device) {
        const VkCommandPoolCreateInfo pool{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, nullptr, 0, queue_family};
        check(vkCreateCommandPool(device, &pool, nullptr, &pool_));
        const VkCommandBufferAllocateInfo allocate{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, nullptr, pool_,
                                                   VK_COMMAND_BUFFER_LEVEL_PRIMARY, 1};
        check(vkAllocateCommandBuffers(device, &allocate, &commands));
        const VkFenceCreateInfo fence{VK_STRUCTURE_TYPE_FENCE_CREATE_INFO, nullptr, VK_FENCE_CREATE_SIGNALED_BIT};
        check(vkCreateFence(device, &fence, nullptr, &fence_));
    }
    ~Frame() {
        vkWaitForFences(device_, 1, &fence_, VK_TRUE, UINT64_MAX);
        vkDestroyFence(device_, fence_, nullptr);
        vkDestroyCommandPool(device_, pool_, nullptr);
    }
    Frame(const Frame &) = delete;
    Frame &operator=(const Frame &) = delete;

    void begin() {
        check(vkWaitForFences(device_, 1, &fence_, VK_TRUE, UINT64_MAX));
        check(vkResetFences(device_, 1, &fence_));
        check(vkResetCommandPool(device_, pool_, 0));
        descriptors.reset();
        VkCommandBufferBeginInfo info{};
        info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
        info.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
        check(vkBeginCommandBuffer(commands, &info));
    }

    void submit(VkQueue queue) {
        check(vkEndCommandBuffer(commands));
        VkSubmitInfo info{};
        info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
        info.commandBufferCount = 1;
        info.pCommandBuffers = &commands;
        check(vkQueueSubmit(queue, 1, &info, fence_));
    }

    // What compute shaders wrote before is read, or written again, after.
    void barrier() const {
        const VkMemoryBarrier written{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, VK_ACCESS_SHADER_WRITE_BIT,
                                      VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT};
        vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1,
                             &written, 0, nullptr, 0, nullptr);
    }

    VkCommandBuffer commands = VK_NULL_HANDLE;
    DescriptorPools descriptors;

  private:
    VkDevice device_;
    VkCommandPool pool_ = VK_NULL_HANDLE;
    VkFence fence_ = VK_NULL_HANDLE;
};

// One token a frame: its key and value go into caches, and its queries see all that is there.
class Decoder {
  public:
    explicit Decoder(const vkattn::Context &context, const std::vector<float> &queries, const std::vector<float> &keys,
                     const std::vector<float> &values)
        : key_cache_(context.buffer(cache_)), value_cache_(context.buffer(cache_)),
          queries_(context.buffer(queries.size() * sizeof(float))),
          outputs_(context.buffer(queries.size() * sizeof(float))), keys_(context.buffer(keys.size() * sizeof(float))),
          values_(context.buffer(values.size() * sizeof(float))), lengths_(context.buffer(kTokens * kLengthBytes)) {
        queries_.write(queries);
        keys_.write(keys);
        values_.write(values);
        std::vector<std::int32_t> lengths(kTokens * kLengthBytes / sizeof(std::int32_t));
        for (std::uint32_t token = 0; token < kTokens; ++token)
            lengths[token * kLengthBytes / sizeof(std::int32_t)] = static_cast<std::int32_t>(token);
        lengths_.write(lengths);
        plan(context);
    }

    void record(Frame &frame, std::uint32_t token) const {
        const VkDeviceSize query = token * kHeads * kHeadDim * sizeof(float),
                           row = token * kKvHeads * kHeadDim * sizeof(float);
        const vkattn_binding past = vkattn::bind(VKATTN_ROLE_PAST_LENGTHS, lengths_, token * kLengthBytes);
        frame.barrier(); // the frame before has written the caches, and its workspace
        record(frame, append_,
               {vkattn::bind(VKATTN_ROLE_SOURCE, keys_, row), vkattn::bind(VKATTN_ROLE_CACHE, key_cache_), past});
        if (append_.requirements().workspace_bytes > 0) frame.barrier();
        record(frame, append_,
               {vkattn::bind(VKATTN_ROLE_SOURCE, values_, row), vkattn::bind(VKATTN_ROLE_CACHE, value_cache_), past});
        frame.barrier();
        record(frame, attend_,
               {vkattn::bind(VKATTN_ROLE_QUERY, queries_, query), vkattn::bind(VKATTN_ROLE_KEY, key_cache_),
                vkattn::bind(VKATTN_ROLE_VALUE, value_cache_), vkattn::bind(VKATTN_ROLE_OUTPUT, outputs_, query),
                past});
    }

    // The device must be done with all frames.
    std::vector<float> outputs() const {
        std::vector<float> read(kTokens * kHeads * kHeadDim);
        outputs_.read(read);
        return read;
    }

  private:
    void plan(const vkattn::Context &context) {
        vkattn_kv_append_desc append{};
        append.source = vkattn::tensor(VKATTN_TYPE_F32, {1, kKvHeads, 1, kHeadDim});
        append.cache = cache_;
        append.past_lengths = vkattn::tensor(VKATTN_TYPE_I32, {1});
        append_ = context.kv_append_plan(append);
        vkattn_attention_desc attend{};
        attend.query = attend.output = vkattn::tensor(VKATTN_TYPE_F32, {1, kHeads, 1, kHeadDim});
        attend.key = attend.value = cache_;
        attend.past_lengths = append.past_lengths;
        attend.mask_flags = VKATTN_MASK_KEYS_TO_LAST_QUERY;
        attend_ = context.attention_plan(attend);
        const std::array needs = {append_.requirements(), attend_.requirements()};
        workspace_ = context.buffer(vkattn::together(needs).workspace_bytes); // one for all: barriers are between them
    }

    void record(Frame &frame, const vkattn::Plan &plan, std::vector<vkattn_binding> bindings) const {
        const vkattn_requirements needs = plan.requirements();
        if (needs.workspace_bytes > 0) bindings.push_back(vkattn::bind(VKATTN_ROLE_WORKSPACE, workspace_));
        plan.record(frame.commands, bindings, frame.descriptors.take(needs));
    }

    vkattn_tensor cache_ = vkattn::tensor(VKATTN_TYPE_F32, {1, kKvHeads, kTokens, kHeadDim});
    vkattn::Plan append_, attend_;
    vkattn::Buffer key_cache_, value_cache_, queries_, outputs_, keys_, values_, lengths_, workspace_;
};

std::vector<float> random_values(std::size_t count, unsigned seed) {
    std::mt19937 engine(seed);
    std::normal_distribution<float> normal;
    std::vector<float> values(count);
    std::ranges::generate(values, [&] { return normal(engine); });
    return values;
}

// The same tokens at once, [tokens,heads,head_dim] as the frames have them.
std::vector<float> attend_at_once(const vkattn::Context &context, const std::vector<float> &queries,
                                  const std::vector<float> &keys, const std::vector<float> &values) {
    const auto tensor = [](std::uint64_t heads) {
        return vkattn::tensor(VKATTN_TYPE_F32, {1, heads, kTokens, kHeadDim},
                              {kTokens * heads * kHeadDim, kHeadDim, heads * kHeadDim, 1});
    };
    vkattn_attention_desc desc{};
    desc.query = desc.output = tensor(kHeads);
    desc.key = desc.value = tensor(kKvHeads);
    desc.mask_flags = VKATTN_MASK_CAUSAL;
    vkattn::Buffer query = context.buffer(desc.query), key = context.buffer(desc.key),
                   value = context.buffer(desc.value);
    const vkattn::Buffer output = context.buffer(desc.output);
    query.write(queries);
    key.write(keys);
    value.write(values);
    context.attention_plan(desc).run({vkattn::bind(VKATTN_ROLE_QUERY, query), vkattn::bind(VKATTN_ROLE_KEY, key),
                                      vkattn::bind(VKATTN_ROLE_VALUE, value),
                                      vkattn::bind(VKATTN_ROLE_OUTPUT, output)});
    std::vector<float> read(queries.size());
    output.read(read);
    return read;
}

} // namespace

int main() try {
    const vkattn_trait no_push_descriptors{VKATTN_TRAIT_PUSH_DESCRIPTORS, 0}; // as on devices that have none
    vkattn_context_info info{};
    info.traits = &no_push_descriptors;
    info.trait_count = 1;
    const vkattn::Context context(info);
    VkDevice device = VK_NULL_HANDLE;
    VkQueue queue = VK_NULL_HANDLE;
    std::uint32_t family = 0;
    vkattn::check(vkattn_context_handles(context.get(), nullptr, nullptr, &device, &queue, &family));

    const std::vector<float> queries = random_values(kTokens * kHeads * kHeadDim, 1),
                             keys = random_values(kTokens * kKvHeads * kHeadDim, 2),
                             values = random_values(kTokens * kKvHeads * kHeadDim, 3);
    const Decoder decoder(context, queries, keys, values);
    Frame first(device, family), second(device, family), third(device, family);
    const std::array<Frame *, kInFlight> frames = {&first, &second, &third};
    for (std::uint32_t token = 0; token < kTokens; ++token) {
        Frame &frame = *frames[token % kInFlight];
        frame.begin(); // waits for the frame that was here before, and for no other
        decoder.record(frame, token);
        frame.submit(queue);
    }
    check(vkQueueWaitIdle(queue));

    const std::vector<float> stepwise = decoder.outputs(), whole = attend_at_once(context, queries, keys, values);
    float difference = 0.0f;
    for (std::size_t i = 0; i < whole.size(); ++i) difference = std::max(difference, std::fabs(stepwise[i] - whole[i]));
    std::printf("%u frames, %u in flight, %zu descriptor pools each: largest difference to one call %.1e\n", kTokens,
                kInFlight, first.descriptors.size(), static_cast<double>(difference));
    return difference < 1e-5f && first.descriptors.size() > 1 ? 0 : 1;
} catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
