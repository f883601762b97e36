// Caches as objects: recordings that are replayed token by token, every storage type, and the host's side of them.
#include "application.hpp"
#include "compare.hpp"
#include "layer_cases.hpp"
#include "messages.hpp"

#include <doctest/doctest.h>
#include <vkattn/estimate.h>

#include <algorithm>

using namespace vkattn_test;

namespace {

const std::vector<vkattn_type> kTypes = cached_types();

vkattn_layer_call cached_call(const HostTensor &input, const HostTensor &output, const vkattn::Cache &cache,
                              std::uint32_t mask_flags) {
    vkattn_layer_call call{};
    call.query = input.view();
    call.output = output.view();
    call.mask_flags = mask_flags;
    call.cache = cache.get();
    return call;
}

std::vector<std::uint32_t> lengths_of(const vkattn::Cache &cache, std::size_t batch) {
    std::vector<std::uint32_t> lengths = cache.lengths();
    CHECK(lengths.size() == batch);
    return lengths;
}

// A command buffer of the test's own on the context's device, with one plan, to be submitted again and again.
class Recording {
  public:
    Recording(const vkattn::Context &context, const vkattn::Plan &plan, std::vector<vkattn_binding> bindings) {
        load_vulkan();
        VkInstance instance = VK_NULL_HANDLE;
        std::uint32_t family = 0;
        vkattn::check(vkattn_context_handles(context.get(), &instance, nullptr, &device_, &queue_, &family));
        volkLoadInstance(instance);
        const vkattn_requirements needs = plan.requirements();
        if (needs.workspace_bytes > 0) {
            workspace_ = context.buffer(needs.workspace_bytes);
            bindings.push_back(vkattn::bind(VKATTN_ROLE_WORKSPACE, workspace_));
        }
        create(needs, family);
        VkCommandBufferBeginInfo begin{};
        begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
        require_vk(vkBeginCommandBuffer(commands_, &begin));
        barrier(VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
        plan.record(commands_, bindings, descriptors_);
        barrier(VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
        require_vk(vkEndCommandBuffer(commands_));
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
        require_vk(vkQueueSubmit(queue_, 1, &submit, VK_NULL_HANDLE));
        require_vk(vkQueueWaitIdle(queue_));
    }

  private:
    void create(const vkattn_requirements &needs, std::uint32_t family) {
        const VkCommandPoolCreateInfo pool{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, nullptr, 0, family};
        require_vk(vkCreateCommandPool(device_, &pool, nullptr, &pool_));
        const VkCommandBufferAllocateInfo allocate{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, nullptr, pool_,
                                                   VK_COMMAND_BUFFER_LEVEL_PRIMARY, 1};
        require_vk(vkAllocateCommandBuffers(device_, &allocate, &commands_));
        if (needs.descriptor_sets == 0) return;
        const std::vector<VkDescriptorPoolSize> sizes = vkattn::descriptor_pool_sizes(needs);
        const VkDescriptorPoolCreateInfo create{
            VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO, nullptr,     0, needs.descriptor_sets,
            static_cast<std::uint32_t>(sizes.size()),      sizes.data()};
        require_vk(vkCreateDescriptorPool(device_, &create, nullptr, &descriptors_));
    }

    void barrier(VkPipelineStageFlags stages, VkAccessFlags accesses) {
        const VkMemoryBarrier written{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, VK_ACCESS_SHADER_WRITE_BIT, accesses};
        vkCmdPipelineBarrier(commands_, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, stages, 0, 1, &written, 0, nullptr, 0,
                             nullptr);
    }

    VkDevice device_ = VK_NULL_HANDLE;
    VkQueue queue_ = VK_NULL_HANDLE;
    VkCommandPool pool_ = VK_NULL_HANDLE;
    VkCommandBuffer commands_ = VK_NULL_HANDLE;
    VkDescriptorPool descriptors_ = VK_NULL_HANDLE;
    vkattn::Buffer workspace_; // empty: none is needed
};

// Feeds the tokens from `first` one by one through one recording, and returns all the outputs.
HostTensor replay(const vkattn::Layer &layer, const vkattn::Cache &cache, const HostTensor &input,
                  std::uint64_t first) {
    const Shape &shape = input.shape();
    HostTensor token = tokens_of(input, 0, 1), output(VKATTN_TYPE_F32, token.shape());
    HostTensor all(VKATTN_TYPE_F32, {shape[0], shape[1] - first, shape[2]});
    const vkattn::Plan plan = layer.plan(cached_call(token, output, cache, VKATTN_MASK_CAUSAL));
    const vkattn::Context &context = test_device().context();
    vkattn::Buffer query = context.buffer(token.bytes().size()), result = context.buffer(output.bytes().size());
    Recording recording(context, plan,
                        {vkattn::bind(VKATTN_ROLE_QUERY, query), vkattn::bind(VKATTN_ROLE_OUTPUT, result)});
    for (std::uint64_t position = first; position < shape[1]; ++position) {
        query.write(tokens_of(input, position, 1).bytes());
        cache.reserve(1);
        recording.submit_and_wait();
        result.read(output.bytes());
        for (std::uint64_t b = 0; b < shape[0]; ++b)
            for (std::uint64_t i = 0; i < shape[2]; ++i)
                all.set((b * all.shape()[1] + position - first) * shape[2] + i, output.get(b * shape[2] + i));
    }
    return all;
}

HostTensor random_tokens(const LayerCase &c, std::uint64_t batch, std::uint64_t len, unsigned seed) {
    std::mt19937 random(seed);
    return normal_tensor(VKATTN_TYPE_F32, {batch, len, c.config.embed_dim}, random);
}

} // namespace

TEST_SUITE_BEGIN("caches");

TEST_CASE_FIXTURE(DeviceTest, "one recording, replayed token by token, equals one prefill with the same storage") {
    std::size_t turn = 0; // f32 in every layer, the other types in every fifth
    for (const LayerCase &c : cached_layers(true)) {
        const vkattn::Layer layer = make_layer(c);
        const HostTensor input = random_tokens(c, 2, 11, 41);
        const HostTensor uncached = prefill(layer, input);
        std::size_t place = turn++;
        for (const vkattn_type type : kTypes) {
            if (type != VKATTN_TYPE_F32 && place++ % 5 != 0) continue;
            CAPTURE(c.name);
            CAPTURE(type_name(type));
            const vkattn::Cache whole = make_cache(layer, 2, 16, type, type);
            const vkattn::Cache stepped =
                make_cache(layer, 2, 16, type, type, place % 2 == 0 ? 0 : 4); // pages, in turn
            const HostTensor expected = append(layer, whole, input);
            if (type == VKATTN_TYPE_F32) check_equal("with a cache", expected, uncached, 1e-10);
            if (type == VKATTN_TYPE_F16) check_equal("with a cache", expected, uncached, 1e-6);
            const HostTensor start = append(layer, stepped, tokens_of(input, 0, 3));
            check_equal("start", start, tokens_of(expected, 0, 3), 1e-10);
            // a number that a GPU's sums put on the other side of a tie is stored as its neighbour
            check_equal("steps", replay(layer, stepped, input, 3), tokens_of(expected, 3, 8),
                        is_quantised(type) ? 1e-7 : 1e-9);
            CHECK(lengths_of(stepped, 2) == std::vector<std::uint32_t>{11, 11});
        }
    }
}

TEST_CASE_FIXTURE(DeviceTest, "odd sizes, and types that differ between keys and values") {
    for (const LayerCase &c : cached_layers()) {
        CAPTURE(c.name);
        const vkattn::Layer layer = make_layer(c);
        const HostTensor input = random_tokens(c, 3, 7, 42);
        const vkattn::Cache cache = make_cache(layer, 3, 7, VKATTN_TYPE_F16, VKATTN_TYPE_F32);
        append(layer, cache, tokens_of(input, 0, 5));
        check_equal("last", append(layer, cache, tokens_of(input, 5, 2)), tokens_of(prefill(layer, input), 5, 2), 1e-6);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "without a causal mask the keys after the last token stay hidden") {
    for (const LayerCase &c : cached_layers()) {
        CAPTURE(c.name);
        const vkattn::Layer layer = make_layer(c);
        const HostTensor input = random_tokens(c, 2, 6, 43);
        const vkattn::Cache small = make_cache(layer, 2, 6, VKATTN_TYPE_F32, VKATTN_TYPE_F32);
        const vkattn::Cache large = make_cache(layer, 2, 40, VKATTN_TYPE_F32, VKATTN_TYPE_F32);
        append(layer, large, random_tokens(c, 2, 30, 44)); // what comes after is not zero
        for (const std::uint32_t sequence : {0u, 1u}) large.rewind(sequence, 0);
        check_equal("large", append(layer, large, input, VKATTN_MASK_NONE),
                    append(layer, small, input, VKATTN_MASK_NONE), 1e-10);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "heads are normalised where they are rotated and cached, of few tokens and of many") {
    const std::vector<LayerCase> layers = cached_layers(true);
    const auto turns = [](const LayerCase &c) {
        return c.config.kind == VKATTN_LAYER_MHA && c.config.rope_theta > 0 && c.others.contains("q_norm.weight");
    };
    const auto given = std::ranges::find_if(layers, turns);
    REQUIRE(given != layers.end());
    LayerCase without = *given;
    without.others.erase("q_norm.weight");
    without.others.erase("k_norm.weight");
    const auto dispatches = [](const LayerCase &c, std::uint64_t len) {
        const vkattn::Layer layer = make_layer(c);
        const vkattn::Cache cache = make_cache(layer, 2, 16, VKATTN_TYPE_F16, VKATTN_TYPE_F16);
        const HostTensor input(VKATTN_TYPE_F32, {2, len, c.config.embed_dim}), output(VKATTN_TYPE_F32, input.shape());
        return layer.plan(cached_call(input, output, cache, VKATTN_MASK_CAUSAL)).report().dispatches;
    };
    const bool fits = test_device().context().facts().max_storage_buffers_per_stage >= 8;
    for (const std::uint64_t len : {2, 9}) CHECK(dispatches(*given, len) == dispatches(without, len) + (fits ? 0 : 2));
}

TEST_CASE_FIXTURE(DeviceTest, "after a rewind the same tokens give the same bits") {
    for (const LayerCase &c : cached_layers(true)) {
        CAPTURE(c.name);
        const vkattn::Layer layer = make_layer(c);
        const HostTensor input = random_tokens(c, 2, 9, 45);
        const vkattn::Cache cache = make_cache(layer, 2, 12, VKATTN_TYPE_Q8_0, VKATTN_TYPE_F16);
        append(layer, cache, tokens_of(input, 0, 5));
        const HostTensor first = append(layer, cache, tokens_of(input, 5, 4));
        for (const std::uint32_t sequence : {0u, 1u}) cache.rewind(sequence, 5);
        const HostTensor again = append(layer, cache, tokens_of(input, 5, 4));
        CHECK(std::ranges::equal(first.bytes(), again.bytes()));
    }
}

namespace {

// Appends tokens [B,L,N], drafted as the trees [B,L,1] say.
HostTensor append_trees(const vkattn::Layer &layer, const vkattn::Cache &cache, HostTensor input, HostTensor trees) {
    HostTensor output(VKATTN_TYPE_F32, input.shape());
    vkattn_layer_call call = cached_call(input, output, cache, VKATTN_MASK_NONE);
    call.tree_mask = trees.view();
    const std::array regions{Region{VKATTN_ROLE_QUERY, &input, Access::kRead},
                             Region{VKATTN_ROLE_TREE_MASK, &trees, Access::kRead},
                             Region{VKATTN_ROLE_OUTPUT, &output, Access::kWrite}};
    test_device().run(layer.plan(call), regions);
    return output;
}

// The tokens at some places of [1,L,N].
HostTensor tokens_at(const HostTensor &all, std::span<const std::uint32_t> places) {
    HostTensor chosen(VKATTN_TYPE_F32, {1, places.size(), all.shape()[2]});
    for (std::uint64_t i = 0; i < chosen.elements(); ++i)
        chosen.set(i, all.get(places[i / all.shape()[2]] * all.shape()[2] + i % all.shape()[2]));
    return chosen;
}

// Of sequence 1: the other has drafts, too, and forgets them all.
void check_drafts(const LayerCase &c, vkattn_type type, std::uint32_t pages) {
    CAPTURE(type_name(type));
    CAPTURE(pages);
    constexpr std::uint32_t kPast = 6;
    constexpr std::array<std::uint32_t, 4> kPath = {0, 2, 4, 6}; // of the places of the draft
    constexpr std::array<float, 7> kRows = {1, 3, 5, 11, 21, 37, 85};
    const vkattn::Layer layer = make_layer(c);
    const HostTensor past = random_tokens(c, 2, kPast, 51), draft = random_tokens(c, 2, 7, 52);
    const HostTensor next = random_tokens(c, 2, 2, 53);
    vkattn_cache_info info{};
    if (type == VKATTN_TYPE_F8_E4M3) info.key_scaling = info.value_scaling = VKATTN_SCALING_ROW;
    const vkattn::Cache cache = make_cache(layer, 2, 24, type, type, pages, info);
    const vkattn::Cache straight = make_cache(layer, 1, 24, type, type, pages / 2, info);
    append(layer, cache, past);
    HostTensor trees(VKATTN_TYPE_I32, {2, 7, 1});
    for (std::uint64_t i = 0; i < 14; ++i) trees.set(i, kRows[i % 7]);
    const HostTensor drafted = append_trees(layer, cache, draft, trees);
    std::vector<std::uint32_t> kept;
    for (const std::uint32_t place : kPath) kept.push_back(kPast + place);
    cache.keep(1, kPast, kept);
    cache.rewind(0, kPast);
    CHECK(lengths_of(cache, 2) == std::vector<std::uint32_t>{kPast, kPast + 4});
    const std::array<std::uint32_t, kPast> whole = {0, 1, 2, 3, 4, 5};
    const auto of_second = [&](const HostTensor &all, std::span<const std::uint32_t> places) {
        std::vector<std::uint32_t> in_second;
        for (const std::uint32_t place : places)
            in_second.push_back(static_cast<std::uint32_t>(all.shape()[1]) + place);
        return tokens_at(all, in_second);
    };
    append(layer, straight, of_second(past, whole));
    const HostTensor accepted = append(layer, straight, of_second(draft, kPath));
    check_equal("the accepted path", of_second(drafted, kPath), accepted, 1e-9);
    const std::array<std::uint32_t, 2> both = {0, 1};
    check_equal("after it", of_second(append(layer, cache, next), both), append(layer, straight, of_second(next, both)),
                1e-9);
}

} // namespace

TEST_CASE_FIXTURE(DeviceTest, "of a tree of drafts the accepted path is kept") {
    LayerCase c = cached_layers(true).front();
    c.config.rope_theta = 0; // which turns each token by its place
    std::uint32_t turn = 0;
    for (const vkattn_type type : {VKATTN_TYPE_F32, VKATTN_TYPE_F16, VKATTN_TYPE_Q8_0, VKATTN_TYPE_F8_E4M3})
        for (const std::uint32_t pages : {0u, 6u})
            if (turn++ % 2 == 0 || type != VKATTN_TYPE_F16) check_drafts(c, type, pages);
    const vkattn::Layer layer = make_layer(c);
    const vkattn::Cache cache = make_cache(layer, 2, 24, VKATTN_TYPE_F32, VKATTN_TYPE_F32, 6);
    append(layer, cache, random_tokens(c, 2, 12, 54));
    cache.keep(1, 12, {});
    cache.rewind(1, 0);
    cache.share_prefix(0, 1, 12);
    const auto check = [&](std::uint32_t length, std::vector<std::uint32_t> tokens, const char *expected) {
        const std::string message = message_of([&] { cache.keep(0, length, tokens); });
        CHECK_MESSAGE(message.find(expected) != std::string::npos, message);
    };
    check(13, {}, "length: 13, expected at most the 12 tokens");
    check(4, {5, 5}, "tokens[1]: 5, expected at least 6 and less than the 12 tokens");
    check(4, {3}, "tokens[0]: 3, expected at least 4");
    check(4, {12}, "tokens[0]: 12, expected at least 4 and less than the 12 tokens");
    check(9, {11}, "sequence: 0 shares the page of token 9");
    cache.rewind(1, 8);
    cache.keep(0, 9, std::vector<std::uint32_t>{11});
    CHECK(lengths_of(cache, 2) == std::vector<std::uint32_t>{10, 8});
}

TEST_CASE_FIXTURE(DeviceTest, "sequences of different lengths, and a sequence copied to another place") {
    for (const LayerCase &c : cached_layers(true)) {
        CAPTURE(c.name);
        const vkattn::Layer layer = make_layer(c);
        const HostTensor input = random_tokens(c, 2, 8, 46), next = random_tokens(c, 2, 1, 47);
        const vkattn::Cache cache = make_cache(layer, 2, 12, VKATTN_TYPE_Q4_0, VKATTN_TYPE_Q8_0);
        append(layer, cache, input);
        cache.rewind(1, 3);
        CHECK(lengths_of(cache, 2) == std::vector<std::uint32_t>{8, 3});
        const vkattn::Cache other = make_cache(layer, 2, 20, VKATTN_TYPE_Q4_0, VKATTN_TYPE_Q8_0);
        cache.copy_sequence_to(0, other, 0);
        cache.copy_sequence_to(1, other, 1);
        CHECK(lengths_of(other, 2) == std::vector<std::uint32_t>{8, 3});
        const HostTensor expected = append(layer, cache, next);
        check_equal("copied", append(layer, other, next), expected, 1e-10);
        // sequence 1 alone, as it was: its first three tokens, then the next one
        const vkattn::Cache alone = make_cache(layer, 2, 12, VKATTN_TYPE_Q4_0, VKATTN_TYPE_Q8_0);
        append(layer, alone, tokens_of(input, 0, 3));
        const HostTensor short_step = append(layer, alone, next);
        for (std::uint64_t i = 0; i < c.config.embed_dim; ++i)
            CHECK(static_cast<double>(short_step.get(c.config.embed_dim + i)) ==
                  doctest::Approx(static_cast<double>(expected.get(c.config.embed_dim + i))).epsilon(1e-4));
    }
}

TEST_CASE_FIXTURE(DeviceTest, "what is read back is what was stored") {
    const LayerCase c = cached_layers(true).front();
    const vkattn::Layer layer = make_layer(c);
    const HostTensor input = random_tokens(c, 2, 5, 48);
    const vkattn::Cache exact = make_cache(layer, 2, 9, VKATTN_TYPE_F32, VKATTN_TYPE_F32);
    const vkattn::Cache quantised = make_cache(layer, 2, 9, VKATTN_TYPE_Q8_0, VKATTN_TYPE_Q4_0);
    append(layer, exact, input);
    append(layer, quantised, input);
    const std::uint64_t count = std::uint64_t{2} * 5 * c.config.head_dim;
    for (const vkattn_cache_part part : {VKATTN_CACHE_KEYS, VKATTN_CACHE_VALUES}) {
        std::vector<float> stored(count), actual(count);
        exact.read(part, 1, stored);
        quantised.read(part, 1, actual);
        const vkattn_type type = part == VKATTN_CACHE_KEYS ? VKATTN_TYPE_Q8_0 : VKATTN_TYPE_Q4_0;
        HostTensor expected(type, {2, 5, c.config.head_dim});
        for (std::uint64_t i = 0; i < count; i += kBlockElements)
            expected.set_block(i, std::span<const float, kBlockElements>(&stored[i], kBlockElements));
        CHECK(actual == expected.floats());
    }
}

TEST_CASE_FIXTURE(DeviceTest, "an append beyond the capacity writes and counts nothing") {
    for (const LayerCase &c : cached_layers()) {
        CAPTURE(c.name);
        const vkattn::Layer layer = make_layer(c);
        const HostTensor input = random_tokens(c, 2, 4, 49);
        const vkattn::Cache cache = make_cache(layer, 2, 6, VKATTN_TYPE_F32, VKATTN_TYPE_F32);
        append(layer, cache, input);
        const std::string message = message_of([&] { append(layer, cache, tokens_of(input, 0, 3)); });
        CHECK_MESSAGE(message.find("cache: sequence 0 holds 4 tokens, and 3 more exceed its capacity") !=
                          std::string::npos,
                      message);
        CHECK(lengths_of(cache, 2) == std::vector<std::uint32_t>{4, 4});
        append(layer, cache, tokens_of(input, 0, 2));
        CHECK(message_of([&] { cache.reserve(1); }).find("exceed its capacity") != std::string::npos);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "a cache takes the memory that estimate says") {
    for (const vkattn_type type : kTypes) {
        CAPTURE(type_name(type));
        const LayerCase c = cached_layers(true).front();
        const vkattn::Layer layer = make_layer(c);
        const vkattn::Cache cache = make_cache(layer, 3, 64, type, type);
        vkattn_estimate_info info{};
        info.batch = 3;
        info.context_len = 64;
        info.cache_type = type;
        vkattn_estimate_result estimate{};
        REQUIRE(vkattn_estimate(&c.config, &info, &estimate) == VKATTN_SUCCESS);
        CHECK(cache.bytes() == estimate.cache_bytes + 3 * sizeof(std::int32_t)); // and its lengths
        info.key_scaling = info.value_scaling = VKATTN_SCALING_ROW;
        if (type != VKATTN_TYPE_F8_E4M3 && type != VKATTN_TYPE_F8_E5M2) {
            CHECK(vkattn_estimate(&c.config, &info, &estimate) == VKATTN_ERROR_INVALID_ARGUMENT);
            CHECK(std::string(vkattn_last_error()).starts_with("key_scaling: given beside "));
            continue;
        }
        REQUIRE(vkattn_estimate(&c.config, &info, &estimate) == VKATTN_SUCCESS);
        vkattn_cache_info scaling{};
        scaling.key_scaling = scaling.value_scaling = VKATTN_SCALING_ROW;
        const vkattn::Cache scaled = make_cache(layer, 3, 64, type, type, 0, scaling);
        CHECK(scaled.bytes() == estimate.cache_bytes + 3 * sizeof(std::int32_t));
        info.key_scaling = static_cast<vkattn_scaling>(9);
        CHECK(vkattn_estimate(&c.config, &info, &estimate) == VKATTN_ERROR_INVALID_ARGUMENT);
        CHECK(vkattn_last_error() == std::string("key_scaling: 9, expected a vkattn_scaling"));
    }
}

TEST_CASE_FIXTURE(DeviceTest, "wrong caches are named") {
    const std::vector<LayerCase> layers = cached_layers();
    const vkattn::Layer layer = make_layer(layers[0]);
    const vkattn::Cache cache = make_cache(layer, 2, 8, VKATTN_TYPE_F32, VKATTN_TYPE_F32);
    const HostTensor input = random_tokens(layers[0], 3, 1, 50);
    std::vector<float> none;
    const auto check = [](const std::string &message, const char *expected) {
        CHECK_MESSAGE(message.find(expected) != std::string::npos, message);
    };
    check(message_of([&] { append(layer, cache, input); }), "cache: batch 2, expected 3");
    check(message_of([&] { append(layer, cache, random_tokens(layers[0], 2, 9, 50)); }), "cache: capacity 8");
    check(message_of([&] { append(make_layer(layers[1]), cache, random_tokens(layers[1], 2, 1, 50)); }),
          "cache: heads 2");
    check(message_of([&] { make_cache(layer, 2, 8, VKATTN_TYPE_Q8_0, VKATTN_TYPE_F32); }), "key_type: type Q8_0");
    check(message_of([&] { make_cache(layer, 2, 8, VKATTN_TYPE_BOOL, VKATTN_TYPE_F32); }), "key_type: type BOOL");
    check(
        message_of([&] { make_cache(layer, 0, 8, VKATTN_TYPE_F32, VKATTN_TYPE_F32).read(VKATTN_CACHE_KEYS, 0, none); }),
        "sequence: 0");
    check(message_of([&] { cache.rewind(2, 0); }), "sequence: 2");
    check(message_of([&] { cache.rewind(0, 1); }), "length: 1, expected at most the 0 tokens");
    std::vector<float> room(3);
    check(message_of([&] { cache.read(VKATTN_CACHE_KEYS, 0, room); }), "values: room for 3 numbers, expected 0");
}

TEST_SUITE_END();
