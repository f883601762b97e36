// Layers against themselves computed otherwise: both forms of mla, and decoding with a cache against one prefill.
#include "compare.hpp"
#include "device.hpp"
#include "layer_cases.hpp"
#include "limited_device.hpp"
#include "messages.hpp"
#include "norms.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cmath>

using namespace vkattn_test;

namespace {

// The tensors of a layer's cache, `len` tokens long: K and V, two latents, one latent, or that and an indexer's keys.
std::vector<HostTensor> cache_of(const LayerCase &c, std::uint64_t batch, std::uint64_t len, vkattn_type type) {
    const vkattn_layer_config &s = c.config;
    switch (s.kind) {
    case VKATTN_LAYER_MLA:
    case VKATTN_LAYER_MLA_BLOCK:
        if (s.index_topk != 0) // F32: others may choose other keys
            return {HostTensor(type, {batch, len, s.kv_lora_rank + s.qk_rope_head_dim}),
                    HostTensor(VKATTN_TYPE_F32, {batch, len, s.index_head_dim})};
        return {HostTensor(type, {batch, len, s.kv_lora_rank + s.qk_rope_head_dim})};
    case VKATTN_LAYER_COMPRESSED_KV:
        return std::vector(2, HostTensor(type, {batch, len, s.latent_dim}));
    default:
        return std::vector(2, HostTensor(type, {batch, s.num_kv_heads, len, s.head_dim}));
    }
}

constexpr vkattn_role kPastRoles[] = {VKATTN_ROLE_PAST_KEY, VKATTN_ROLE_PAST_VALUE};
constexpr vkattn_role kPresentRoles[] = {VKATTN_ROLE_PRESENT_KEY, VKATTN_ROLE_PRESENT_VALUE};

// Runs the call, whose workspace is what the layer's sizes alone say it would be.
void run_measured(const vkattn::Layer &layer, const LayerCase &c, const vkattn_layer_call &call,
                  std::span<const Region> regions) {
    const vkattn::Plan plan = layer.plan(call);
    CHECK(test_device().context().measure(c.config, call).workspace_bytes == plan.requirements().workspace_bytes);
    test_device().run(plan, regions);
}

// One step: `past` is copied in front of the new tokens; its place is taken by the longer cache.
HostTensor decode(const vkattn::Layer &layer, const LayerCase &c, HostTensor input, std::vector<HostTensor> &past) {
    const std::uint64_t batch = input.shape()[0],
                        past_len = past[0].present() ? past[0].shape()[past[0].shape().size() - 2] : 0;
    std::vector<HostTensor> present = cache_of(c, batch, past_len + input.shape()[1], past[0].type());
    HostTensor output(VKATTN_TYPE_F32, input.shape());
    vkattn_layer_call call{};
    call.query = input.view();
    call.output = output.view();
    call.mask_flags = VKATTN_MASK_CAUSAL;
    vkattn_tensor *const past_views[] = {&call.past_key, &call.past_value};
    vkattn_tensor *const present_views[] = {&call.present_key, &call.present_value};
    std::vector<Region> regions{{VKATTN_ROLE_QUERY, &input, Access::kRead},
                                {VKATTN_ROLE_OUTPUT, &output, Access::kWrite}};
    for (std::size_t i = 0; i < present.size(); ++i) {
        *past_views[i] = past[i].view();
        *present_views[i] = present[i].view();
        regions.push_back({kPastRoles[i], &past[i], Access::kRead});
        regions.push_back({kPresentRoles[i], &present[i], Access::kWrite});
    }
    run_measured(layer, c, call, regions);
    past = present;
    return output;
}

void start_cache(const vkattn::Layer &layer, const LayerCase &c, HostTensor input, std::vector<HostTensor> &cache) {
    HostTensor output(VKATTN_TYPE_F32, input.shape());
    vkattn_layer_call call{};
    call.query = input.view();
    call.output = output.view();
    call.mask_flags = VKATTN_MASK_CAUSAL;
    vkattn_tensor *const views[] = {&call.present_key, &call.present_value};
    std::vector<Region> regions{{VKATTN_ROLE_QUERY, &input, Access::kRead},
                                {VKATTN_ROLE_OUTPUT, &output, Access::kWrite}};
    cache = cache_of(c, input.shape()[0], input.shape()[1], cache[0].type());
    for (std::size_t i = 0; i < cache.size(); ++i) {
        *views[i] = cache[i].view();
        regions.push_back({kPresentRoles[i], &cache[i], Access::kWrite});
    }
    run_measured(layer, c, call, regions);
}

void check_chunks(const LayerCase &c, vkattn_type cache_type, std::span<const std::uint64_t> chunks) {
    CAPTURE(c.name);
    const vkattn::Layer layer = make_layer(c);
    std::mt19937 random(32);
    const HostTensor input = normal_tensor(VKATTN_TYPE_F32, {2, 13, c.config.embed_dim}, random);
    const HostTensor expected = prefill(layer, input);
    std::vector<HostTensor> cache = cache_of(c, 2, 1, cache_type);
    std::uint64_t done = 4;
    start_cache(layer, c, tokens_of(input, 0, done), cache);
    for (const std::uint64_t len : chunks) {
        CAPTURE(done);
        const HostTensor output = decode(layer, c, tokens_of(input, done, len), cache);
        check_equal("output", output, tokens_of(expected, done, len), nmse_bound({VKATTN_TYPE_F32, cache_type}));
        done += len;
    }
    CHECK(done == 13);
}

// A call of self attention with one mask.
struct MaskedCall {
    explicit MaskedCall(const HostTensor &tokens) : input(tokens), output(VKATTN_TYPE_F32, tokens.shape()) {
        call.query = input.view();
        call.output = output.view();
    }

    template <class Value>
    void add(vkattn_role mask_role, vkattn_tensor &member, HostTensor tensor, Value value) {
        for (std::uint64_t i = 0; i < tensor.elements(); ++i) tensor.set(i, value(i));
        mask = std::move(tensor);
        role = mask_role;
        member = mask.view();
    }

    HostTensor run(const vkattn::Layer &layer) {
        const std::array regions{Region{VKATTN_ROLE_QUERY, &input, Access::kRead}, Region{role, &mask, Access::kRead},
                                 Region{VKATTN_ROLE_OUTPUT, &output, Access::kWrite}};
        test_device().run(layer.plan(call), regions);
        return output;
    }

    HostTensor input, output, mask;
    vkattn_role role = VKATTN_ROLE_ATTN_MASK;
    vkattn_layer_call call{};
};

} // namespace

TEST_SUITE_BEGIN("layers");

TEST_CASE_FIXTURE(DeviceTest, "mla naive and mla absorb agree, biases included") {
    for (const std::uint32_t q_lora_rank : {0u, 11u}) {
        for (const bool interleaved : {true, false}) {
            CAPTURE(q_lora_rank);
            CAPTURE(interleaved);
            std::mt19937 random(33);
            const HostTensor input = normal_tensor(VKATTN_TYPE_F32, {2, 19, 48}, random);
            const HostTensor naive = prefill(make_layer(mla_case(VKATTN_MLA_NAIVE, q_lora_rank, interleaved)), input);
            const HostTensor absorb = prefill(make_layer(mla_case(VKATTN_MLA_ABSORB, q_lora_rank, interleaved)), input);
            check_equal("absorb", absorb, naive, nmse_bound({VKATTN_TYPE_F32}));
        }
    }
}

TEST_CASE_FIXTURE(DeviceTest, "a layer normalises its input as a norm before it does, few tokens and many") {
    std::size_t served = 0;
    for (const LayerCase &c : cached_layers(true)) {
        if (c.config.kind != VKATTN_LAYER_MHA && c.config.kind != VKATTN_LAYER_MLA) continue;
        CAPTURE(c.name);
        const vkattn::Layer layer = make_layer(c);
        for (const std::uint64_t len : {1, 19}) {
            CAPTURE(len);
            std::mt19937 random(35);
            const HostTensor input = normal_tensor(VKATTN_TYPE_F32, {2, len, c.config.embed_dim}, random);
            const HostTensor weight = normal_tensor(VKATTN_TYPE_F32, {c.config.embed_dim}, random);
            const std::vector<double> rows = normalised(input.values(), weight.values(), {}, VKATTN_NORM_RMS, 1e-6);
            const HostTensor normed =
                tensor_of(VKATTN_TYPE_F32, input.shape(), std::vector<float>(rows.begin(), rows.end()));
            check_equal("output", prefill(layer, input, weight), prefill(layer, normed), nmse_bound({VKATTN_TYPE_F32}));
            ++served;
        }
    }
    CHECK(served >= 6);
    const HostTensor input(VKATTN_TYPE_F32, {1, 2, 48}), weight(VKATTN_TYPE_F32, {47});
    const vkattn::Layer layer = make_layer(mla_case(VKATTN_MLA_ABSORB, 0, false));
    check_refused([&] { (void)prefill(layer, input, weight); }, "norm_weight: shape [47], expected [48] contiguous");
    for (const LayerCase &c : cached_layers(true))
        if (c.config.kind == VKATTN_LAYER_COMPRESSED_KV)
            check_refused(
                [&] {
                    (void)prefill(make_layer(c), HostTensor(VKATTN_TYPE_F32, {1, 2, c.config.embed_dim}), weight);
                },
                "norm_weight: given, expected none but for MHA and MLA");
}

TEST_CASE_FIXTURE(DeviceTest, "few tokens without a cache equal the first of many") {
    for (const LayerCase &c : cached_layers(true)) {
        CAPTURE(c.name);
        const vkattn::Layer layer = make_layer(c);
        std::mt19937 random(36);
        const HostTensor input = normal_tensor(VKATTN_TYPE_F32, {2, 19, c.config.embed_dim}, random);
        const HostTensor many = prefill(layer, input);
        for (const std::uint64_t len : {1, 2})
            check_equal("output", prefill(layer, tokens_of(input, 0, len)), tokens_of(many, 0, len),
                        nmse_bound({VKATTN_TYPE_F32}));
    }
}

namespace {

// The output for f32 tokens, with f16 between the steps where `halves`.
HostTensor with_intermediates(TestDevice &device, const vkattn::Layer &layer, HostTensor input, bool halves,
                              std::uint64_t &workspace_bytes) {
    HostTensor output(VKATTN_TYPE_F32, input.shape());
    vkattn_layer_call call{};
    call.query = input.view();
    call.output = output.view();
    call.mask_flags = VKATTN_MASK_CAUSAL;
    if (halves) call.intermediate_type = VKATTN_TYPE_F16;
    const vkattn::Plan plan = layer.plan(call);
    workspace_bytes = plan.requirements().workspace_bytes;
    device.run(plan, std::array{Region{VKATTN_ROLE_QUERY, &input, Access::kRead},
                                Region{VKATTN_ROLE_OUTPUT, &output, Access::kWrite}});
    return output;
}

} // namespace

TEST_CASE_FIXTURE(DeviceTest, "f16 between the steps of a layer of f32 tokens, where the call asks for it") {
    const LimitedDevice device("half_workspaces=1");
    const bool serves = device.context().facts().half_workspaces != 0;
    for (const LayerCase &c : cached_layers(true)) {
        if (c.config.index_topk != 0) continue; // its indexer may choose other keys
        CAPTURE(c.name);
        std::mt19937 random(37);
        const vkattn::Layer layer = make_layer(c.config, random_weights(c, random), device.context());
        for (const std::uint64_t len : {1, 19}) {
            CAPTURE(len);
            const HostTensor input = normal_tensor(VKATTN_TYPE_F32, {2, len, c.config.embed_dim}, random);
            std::uint64_t bytes = 0, bytes_of_halves = 0;
            const HostTensor plain = with_intermediates(device.device(), layer, input, false, bytes),
                             halves = with_intermediates(device.device(), layer, input, true, bytes_of_halves);
            check_equal("output", halves, plain, nmse_bound({VKATTN_TYPE_F16}));
            CHECK((bytes_of_halves < bytes) == serves);
        }
    }
}

TEST_CASE_FIXTURE(DeviceTest, "an intermediate type that is no float is named") {
    const LayerCase c = mla_case(VKATTN_MLA_ABSORB, 0, false);
    const vkattn::Layer layer = make_layer(c);
    vkattn_layer_call call{};
    call.query = call.output = vkattn::tensor(VKATTN_TYPE_F32, {1, 2, c.config.embed_dim});
    call.intermediate_type = VKATTN_TYPE_I32;
    check_refused([&] { (void)layer.plan(call); }, "intermediate_type: ");
}

TEST_CASE_FIXTURE(DeviceTest,
                  "mla absorb agrees with naive where biases stay in the scores, and where a query sees no key") {
    constexpr std::uint64_t kLen = 9;
    for (const float softcap : {0.0f, 2.0f}) {
        CAPTURE(softcap);
        std::mt19937 random(36);
        const HostTensor input = normal_tensor(VKATTN_TYPE_F32, {2, kLen, 48}, random);
        std::vector<HostTensor> outputs;
        for (const vkattn_mla_form form : {VKATTN_MLA_NAIVE, VKATTN_MLA_ABSORB}) {
            LayerCase c = mla_case(form, 0, true);
            c.config.softcap = softcap;
            const vkattn::Layer layer = make_layer(c);
            outputs.push_back(prefill(layer, input));
            MaskedCall masked(input);
            masked.add(VKATTN_ROLE_ATTN_MASK, masked.call.attn_mask, HostTensor(VKATTN_TYPE_BOOL, {kLen, kLen}),
                       [&](std::uint64_t i) { return i / kLen == 3 || i % 4 == 1 ? 0.0f : 1.0f; });
            outputs.push_back(masked.run(layer));
        }
        check_equal("all keys", outputs[2], outputs[0], nmse_bound({VKATTN_TYPE_F32}));
        check_equal("masked", outputs[3], outputs[1], nmse_bound({VKATTN_TYPE_F32}));
    }
}

TEST_CASE_FIXTURE(DeviceTest, "decoding token by token equals one prefill in every cached layer") {
    const std::vector<std::uint64_t> ones(9, 1);
    for (const LayerCase &c : cached_layers()) check_chunks(c, VKATTN_TYPE_F32, ones);
}

TEST_CASE_FIXTURE(DeviceTest, "a prompt fed in odd chunks equals one prefill, with each type of cache") {
    const std::array<std::uint64_t, 3> chunks{3, 1, 5};
    for (const vkattn_type type : {VKATTN_TYPE_F32, VKATTN_TYPE_F16, VKATTN_TYPE_BF16}) {
        CAPTURE(static_cast<int>(type));
        for (const LayerCase &c : cached_layers()) check_chunks(c, type, chunks);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "16-bit weights are used as the values that they hold") {
    for (const LayerCase &c : cached_layers())
        for (const vkattn_type type : {VKATTN_TYPE_F16, VKATTN_TYPE_BF16}) {
            CAPTURE(c.name);
            CAPTURE(type_name(type));
            std::mt19937 random(34);
            const HostTensor input = normal_tensor(VKATTN_TYPE_F32, {2, 9, c.config.embed_dim}, random);
            check_equal("output", prefill(make_layer(c, {type, false}), input),
                        prefill(make_layer(c, {type, true}), input), nmse_bound({VKATTN_TYPE_F32}));
        }
}

TEST_CASE_FIXTURE(DeviceTest, "one mask said in every way gives one answer in every layer") {
    constexpr std::uint64_t kBatch = 2, kLen = 9;
    constexpr std::array<std::uint64_t, kBatch> kLengths = {6, 9};
    for (const LayerCase &c : cached_layers()) {
        if (c.config.index_topk != 0) continue; // an indexer takes key_lengths alone
        CAPTURE(c.name);
        const vkattn::Layer layer = make_layer(c);
        std::mt19937 random(35);
        const HostTensor input = normal_tensor(VKATTN_TYPE_F32, {kBatch, kLen, c.config.embed_dim}, random);
        MaskedCall by_lengths(input), by_padding(input), by_boolean(input), by_f32(input), by_f16(input);
        for (MaskedCall *each : {&by_lengths, &by_padding}) each->call.mask_flags = VKATTN_MASK_CAUSAL;
        by_lengths.add(VKATTN_ROLE_KEY_LENGTHS, by_lengths.call.key_lengths, HostTensor(VKATTN_TYPE_I32, {kBatch}),
                       [&](std::uint64_t b) { return static_cast<float>(kLengths[b]); });
        by_padding.add(VKATTN_ROLE_KEY_PADDING_MASK, by_padding.call.key_padding_mask,
                       HostTensor(VKATTN_TYPE_BOOL, {kBatch, kLen}), // PyTorch: true is ignored
                       [&](std::uint64_t i) { return i % kLen >= kLengths[i / kLen] ? 1.0f : 0.0f; });
        const auto visible = [&](std::uint64_t i) {
            return i % kLen <= i / kLen % kLen && i % kLen < kLengths[i / (kLen * kLen)];
        };
        by_boolean.add(VKATTN_ROLE_ATTN_MASK, by_boolean.call.attn_mask,
                       HostTensor(VKATTN_TYPE_BOOL, {kBatch, 1, kLen, kLen}), // ONNX: true is attended
                       [&](std::uint64_t i) { return visible(i) ? 1.0f : 0.0f; });
        for (auto [masked, type] : {std::pair{&by_f32, VKATTN_TYPE_F32}, std::pair{&by_f16, VKATTN_TYPE_F16}})
            masked->add(VKATTN_ROLE_ATTN_MASK, masked->call.attn_mask, HostTensor(type, {kBatch, 1, kLen, kLen}),
                        [&](std::uint64_t i) { return visible(i) ? 0.0f : -HUGE_VALF; });
        const HostTensor expected = by_lengths.run(layer);
        for (MaskedCall *each : {&by_padding, &by_boolean, &by_f32, &by_f16})
            check_equal("output", each->run(layer), expected, nmse_bound({VKATTN_TYPE_F32}));
    }
}

TEST_CASE_FIXTURE(DeviceTest, "every layer names its missing weights, all in one message") {
    for (const LayerCase &c : cached_layers()) {
        CAPTURE(c.name);
        const float none = 0.0f;
        const vkattn_weight strange =
            vkattn::weight("strange.weight", vkattn::tensor(VKATTN_TYPE_F32, {1}), &none, sizeof none);
        vkattn_layer layer = nullptr;
        const vkattn_context context = test_device().context().get();
        CHECK(vkattn_layer_create(context, &c.config, &strange, 1, &layer) == VKATTN_ERROR_INVALID_ARGUMENT);
        const std::string message = vkattn_last_error();
        CHECK(message.find("strange.weight") != std::string::npos);
        for (const auto &[name, shape] : c.linears)
            CHECK_MESSAGE(message.find(name + ".weight") != std::string::npos, message);
        CHECK(layer == nullptr);
    }
}

TEST_SUITE_END();
