// A prompt, then token after token with one recorded command buffer: the cache's lengths live on the device, so that
// submitting the same commands again goes on with the next token.
#include <vkattn/vkattn.hpp>
#include <vulkan/vulkan.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <stdexcept>

namespace {

constexpr std::uint32_t kWidth = 64, kHeads = 4, kKvHeads = 2, kPrompt = 20, kTokens = 12;

std::vector<float> random_values(std::size_t count, unsigned seed) {
    std::mt19937 engine(seed);
    std::normal_distribution<float> normal;
    std::vector<float> values(count);
    std::ranges::generate(values, [&] { return normal(engine); });
    return values;
}

float largest_difference(const std::vector<float> &a, const std::vector<float> &b) {
    float largest = 0.0f;
    for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::fabs(a[i] - b[i]));
    return largest;
}

void check(VkResult result) {
    if (result != VK_SUCCESS) throw std::runtime_error("Vulkan: " + std::to_string(result));
}

// The application's part: a command buffer with one plan, to be submitted again and again.
class Recording {
  public:
    Recording(const vkattn::Context &context, const vkattn::Plan &plan, std::vector<vkattn_binding> bindings) {
        std::uint32_t family = 0;
        vkattn::check(vkattn_context_handles(context.get(), nullptr, nullptr, &device_, &queue_, &family));
        const vkattn_requirements needs = plan.requirements();
        if (needs.workspace_bytes > 0) {
            workspace_ = context.buffer(needs.workspace_bytes);
            bindings.push_back(vkattn::bind(VKATTN_ROLE_WORKSPACE, workspace_));
        }
        create(needs, family);
        VkCommandBufferBeginInfo begin{};
        begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
        check(vkBeginCommandBuffer(commands_, &begin));
        // What the submission before wrote: the cache, its lengths, the workspace.
        barrier(VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
        plan.record(commands_, bindings, descriptors_);
        barrier(VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
        check(vkEndCommandBuffer(commands_));
    }
    ~Recording() {
        vkDestroyDescriptorPool(device_, descriptors_, nullptr);
        vkDestroyCommandPool(device_, pool_, nullptr);
    }
    Recording(const Recording &) = delete;
    Recording &operator=(const Recording &) = delete;

    void submit_and_wait() {
        VkSubmitInfo submit{};
        submit.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
        submit.commandBufferCount = 1;
        submit.pCommandBuffers = &commands_;
        check(vkQueueSubmit(queue_, 1, &submit, VK_NULL_HANDLE));
        check(vkQueueWaitIdle(queue_));
    }

  private:
    void create(const vkattn_requirements &needs, std::uint32_t family) {
        const VkCommandPoolCreateInfo pool{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, nullptr, 0, family};
        check(vkCreateCommandPool(device_, &pool, nullptr, &pool_));
        const VkCommandBufferAllocateInfo allocate{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, nullptr, pool_,
                                                   VK_COMMAND_BUFFER_LEVEL_PRIMARY, 1};
        check(vkAllocateCommandBuffers(device_, &allocate, &commands_));
        if (needs.descriptor_sets == 0) return; // where the device has push descriptors
        const std::vector<VkDescriptorPoolSize> sizes = vkattn::descriptor_pool_sizes(needs);
        VkDescriptorPoolCreateInfo create{};
        create.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO;
        create.maxSets = needs.descriptor_sets;
        create.poolSizeCount = static_cast<std::uint32_t>(sizes.size());
        create.pPoolSizes = sizes.data();
        check(vkCreateDescriptorPool(device_, &create, nullptr, &descriptors_));
    }

    void barrier(VkPipelineStageFlags stages, VkAccessFlags accesses) {
        const VkMemoryBarrier written{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, VK_ACCESS_SHADER_WRITE_BIT, accesses};
        vkCmdPipelineBarrier(commands_, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, stages, 0, 1, &written, 0, nullptr, 0,
                             nullptr);
    }

    VkDevice device_ = VK_NULL_HANDLE;
    VkQueue queue_ = VK_NULL_HANDLE;
    VkCommandPool pool_ = VK_NULL_HANDLE;
    VkDescriptorPool descriptors_ = VK_NULL_HANDLE;
    VkCommandBuffer commands_ = VK_NULL_HANDLE;
    vkattn::Buffer workspace_; // empty: none is needed
};

vkattn::Layer make_layer(const vkattn::Context &context) {
    vkattn_layer_config config{};
    config.kind = VKATTN_LAYER_MHA;
    config.embed_dim = kWidth;
    config.num_heads = kHeads;
    config.num_kv_heads = kKvHeads;
    config.rope_theta = 10000.0f;
    std::vector<float> weights = random_values(kWidth * kWidth, 7);
    for (float &weight : weights) weight /= 8.0f;
    const auto weight = [&](const char *name, std::uint64_t rows) {
        return vkattn::weight(name, vkattn::tensor(VKATTN_TYPE_F32, {rows, kWidth}), weights.data(),
                              weights.size() * sizeof(float));
    };
    const std::uint64_t kv_rows = kKvHeads * (kWidth / kHeads);
    return context.layer(config, std::vector{weight("q_proj.weight", kWidth), weight("k_proj.weight", kv_rows),
                                             weight("v_proj.weight", kv_rows), weight("out_proj.weight", kWidth)});
}

vkattn_layer_call call_of(std::uint64_t tokens, vkattn_cache cache) {
    vkattn_layer_call call{};
    call.query = call.output = vkattn::tensor(VKATTN_TYPE_F32, {1, tokens, kWidth});
    call.mask_flags = VKATTN_MASK_CAUSAL;
    call.cache = cache;
    return call;
}

std::vector<float> run_once(const vkattn::Context &context, const vkattn::Plan &plan, const std::vector<float> &input) {
    vkattn::Buffer query = context.buffer(input.size() * sizeof(float));
    const vkattn::Buffer output = context.buffer(input.size() * sizeof(float));
    query.write(input);
    plan.run({vkattn::bind(VKATTN_ROLE_QUERY, query), vkattn::bind(VKATTN_ROLE_OUTPUT, output)});
    std::vector<float> result(input.size());
    output.read(result);
    return result;
}

} // namespace

int main() try {
    const vkattn::Context context;
    const vkattn::Layer layer = make_layer(context);
    const std::vector<float> tokens = random_values((kPrompt + kTokens) * kWidth, 9);
    vkattn_cache_info info{};
    info.layer = layer.get();
    info.batch = 1;
    info.capacity = 64;
    info.key_type = info.value_type = VKATTN_TYPE_F32;
    const vkattn::Cache cache = context.cache(info);

    run_once(context, layer.plan(call_of(kPrompt, cache.get())), {tokens.begin(), tokens.begin() + kPrompt * kWidth});

    const vkattn::Plan plan = layer.plan(call_of(1, cache.get()));
    vkattn::Buffer token = context.buffer(kWidth * sizeof(float));
    const vkattn::Buffer output = context.buffer(kWidth * sizeof(float));
    Recording step(context, plan, {vkattn::bind(VKATTN_ROLE_QUERY, token), vkattn::bind(VKATTN_ROLE_OUTPUT, output)});
    std::vector<float> answer(kWidth);
    for (std::uint32_t i = kPrompt; i < kPrompt + kTokens; ++i) {
        token.write(std::span(tokens).subspan(i * kWidth, kWidth));
        cache.reserve(1);
        step.submit_and_wait();
        output.read(answer);
    }

    const std::vector<float> whole = run_once(context, layer.plan(call_of(kPrompt + kTokens, nullptr)), tokens);
    const float difference = largest_difference(answer, {whole.end() - kWidth, whole.end()});
    std::printf("a prompt of %u tokens and %u steps of one recording: largest difference to one prefill %.1e\n",
                kPrompt, kTokens, static_cast<double>(difference));
    return difference < 1e-4f ? 0 : 1;
} catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
