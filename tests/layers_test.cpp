// Layers against themselves computed otherwise: both forms of mla, and decoding with a cache against one prefill.
#include "compare.hpp"
#include "device.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cmath>

using namespace vkattn_test;

namespace {

struct LayerCase {
    const char *name;
    vkattn_layer_config config;
    std::map<std::string, Shape> linears; // [out, in], each with a bias
    std::map<std::string, Shape> others;
};

void add_mla(LayerCase &c, const std::string &prefix) {
    const vkattn_layer_config &s = c.config;
    const std::uint64_t query = s.num_heads * (s.qk_nope_head_dim + s.qk_rope_head_dim);
    if (s.q_lora_rank == 0) {
        c.linears[prefix + "wq"] = {query, s.embed_dim};
    } else {
        c.linears[prefix + "wq_a"] = {s.q_lora_rank, s.embed_dim};
        c.linears[prefix + "wq_b"] = {query, s.q_lora_rank};
        c.others[prefix + "q_norm.weight"] = {s.q_lora_rank};
    }
    c.linears[prefix + "wkv_a"] = {s.kv_lora_rank + s.qk_rope_head_dim, s.embed_dim};
    c.others[prefix + "kv_norm.weight"] = {s.kv_lora_rank};
    c.linears[prefix + "wkv_b"] = {s.num_heads * (s.qk_nope_head_dim + s.v_head_dim), s.kv_lora_rank};
    c.linears[prefix + "wo"] = {s.embed_dim, s.num_heads * s.v_head_dim};
}

LayerCase mla_case(vkattn_mla_form form, std::uint32_t q_lora_rank, bool interleaved) {
    LayerCase c{form == VKATTN_MLA_NAIVE ? "mla naive" : "mla absorb", {}, {}, {}};
    c.config.kind = VKATTN_LAYER_MLA;
    c.config.embed_dim = 48;
    c.config.num_heads = 3;
    c.config.qk_nope_head_dim = 10;
    c.config.qk_rope_head_dim = 6;
    c.config.v_head_dim = 7;
    c.config.q_lora_rank = q_lora_rank;
    c.config.kv_lora_rank = 21;
    c.config.mla_form = form;
    c.config.rope_theta = 10000.0f;
    c.config.rope_interleaved = interleaved;
    add_mla(c, "");
    return c;
}

LayerCase mla_block_case() {
    LayerCase c = mla_case(VKATTN_MLA_ABSORB, 11, true);
    c = {"mla_block", c.config, {}, {}};
    c.config.kind = VKATTN_LAYER_MLA_BLOCK;
    c.config.mlp_ratio = 2;
    add_mla(c, "attention.");
    c.linears["mlp.fc1"] = {96, 48};
    c.linears["mlp.fc2"] = {48, 96};
    c.others["norm1.weight"] = c.others["norm2.weight"] = {48};
    return c;
}

LayerCase compressed_case(std::uint32_t rank) {
    LayerCase c{"compressed_kv", {}, {}, {}};
    c.config.kind = VKATTN_LAYER_COMPRESSED_KV;
    c.config.embed_dim = 48;
    c.config.num_heads = 4;
    c.config.latent_dim = 9;
    c.config.decompress_lora_rank = rank;
    c.config.rope_theta = 10000.0f;
    c.linears = {{"uqkv_proj", {66, 48}}, {"latent_proj", {9, 9}}, {"out_proj", {48, 48}}};
    c.others["decompress_matrix"] = {9, 48};
    if (rank > 0) c.others["decompress_lora_a"] = {9, rank};
    if (rank > 0) c.others["decompress_lora_b"] = {rank, 48};
    return c;
}

LayerCase encoder_case(std::uint32_t norm_first) {
    LayerCase c{"encoder_layer", {}, {}, {}};
    c.config.kind = VKATTN_LAYER_ENCODER;
    c.config.embed_dim = 48;
    c.config.num_heads = 4;
    c.config.num_kv_heads = 2;
    c.config.ffn_dim = 50;
    c.config.activation = VKATTN_ACTIVATION_GELU;
    c.config.norm_first = norm_first;
    c.linears = {{"self_attn.q_proj", {48, 48}},   {"self_attn.k_proj", {24, 48}}, {"self_attn.v_proj", {24, 48}},
                 {"self_attn.out_proj", {48, 48}}, {"ffn.fc1", {50, 48}},          {"ffn.fc2", {48, 50}}};
    for (const char *name : {"norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias"}) c.others[name] = {48};
    return c;
}

LayerCase mha_case() {
    LayerCase c{"mha", {}, {}, {}};
    c.config.kind = VKATTN_LAYER_MHA;
    c.config.embed_dim = 48;
    c.config.num_heads = 4;
    c.config.num_kv_heads = 2;
    c.config.rope_theta = 10000.0f;
    c.linears = {{"q_proj", {48, 48}}, {"k_proj", {24, 48}}, {"v_proj", {24, 48}}, {"out_proj", {48, 48}}};
    c.others["q_norm.weight"] = c.others["k_norm.weight"] = {12};
    return c;
}

// The same weights for the same names, whatever else differs.
vkattn::Layer make_layer(const LayerCase &c) {
    std::mt19937 random(31);
    std::map<std::string, HostTensor> tensors;
    for (const auto &[name, shape] : c.linears) {
        const float deviation = 1.0f / std::sqrt(static_cast<float>(shape[1]));
        tensors[name + ".weight"] = normal_tensor(VKATTN_TYPE_F32, shape, random, deviation);
        tensors[name + ".bias"] = normal_tensor(VKATTN_TYPE_F32, {shape[0]}, random, 0.5f);
    }
    for (const auto &[name, shape] : c.others) tensors[name] = normal_tensor(VKATTN_TYPE_F32, shape, random, 0.5f);
    std::vector<vkattn_weight> weights;
    for (const auto &[name, tensor] : tensors) weights.push_back({name.c_str(), tensor.view(), tensor.bytes().data()});
    return test_device().context().layer(c.config, weights);
}

// The tensors of a layer's cache, `len` tokens long: K and V, two latents, or one latent.
std::vector<HostTensor> cache_of(const LayerCase &c, std::uint64_t batch, std::uint64_t len, vkattn_type type) {
    const vkattn_layer_config &s = c.config;
    switch (s.kind) {
    case VKATTN_LAYER_MLA:
    case VKATTN_LAYER_MLA_BLOCK:
        return {HostTensor(type, {batch, len, s.kv_lora_rank + s.qk_rope_head_dim})};
    case VKATTN_LAYER_COMPRESSED_KV:
        return std::vector(2, HostTensor(type, {batch, len, s.latent_dim}));
    default:
        return std::vector(2, HostTensor(type, {batch, s.num_kv_heads, len, s.embed_dim / s.num_heads}));
    }
}

constexpr vkattn_role kPastRoles[] = {VKATTN_ROLE_PAST_KEY, VKATTN_ROLE_PAST_VALUE};
constexpr vkattn_role kPresentRoles[] = {VKATTN_ROLE_PRESENT_KEY, VKATTN_ROLE_PRESENT_VALUE};

// Tokens first .. first + len - 1 of [B,L,N].
HostTensor tokens_of(const HostTensor &all, std::uint64_t first, std::uint64_t len) {
    const Shape &shape = all.shape();
    HostTensor part(all.type(), {shape[0], len, shape[2]});
    for (std::uint64_t i = 0; i < part.elements(); ++i) {
        const std::uint64_t row = i / shape[2];
        part.set(i, all.get(((row / len) * shape[1] + first + row % len) * shape[2] + i % shape[2]));
    }
    return part;
}

HostTensor prefill(const vkattn::Layer &layer, HostTensor input) {
    HostTensor output(VKATTN_TYPE_F32, input.shape());
    vkattn_layer_call call{};
    call.query = input.view();
    call.output = output.view();
    call.mask_flags = VKATTN_MASK_CAUSAL;
    const std::array regions{Region{VKATTN_ROLE_QUERY, &input, Access::kRead},
                             Region{VKATTN_ROLE_OUTPUT, &output, Access::kWrite}};
    test_device().run(layer.plan(call), regions);
    return output;
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
    test_device().run(layer.plan(call), regions);
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
    test_device().run(layer.plan(call), regions);
}

void check_equal(const char *what, const HostTensor &actual, const HostTensor &expected, double bound) {
    const std::vector<float> floats = expected.floats();
    const Comparison comparison =
        compare(what, actual.shape(), std::vector<double>(floats.begin(), floats.end()), actual.floats(), bound);
    CHECK_MESSAGE(comparison.passed, comparison.report);
}

void check_chunks(const LayerCase &c, vkattn_type cache_type, std::span<const std::uint64_t> chunks) {
    CAPTURE(std::string(c.name));
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

std::vector<LayerCase> cached_layers() {
    return {mha_case(),
            mla_case(VKATTN_MLA_NAIVE, 0, true),
            mla_case(VKATTN_MLA_ABSORB, 11, false),
            mla_block_case(),
            compressed_case(0),
            compressed_case(5),
            encoder_case(0),
            encoder_case(1)};
}

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

TEST_CASE_FIXTURE(DeviceTest, "every layer names its missing weights, all in one message") {
    for (const LayerCase &c : cached_layers()) {
        CAPTURE(std::string(c.name));
        const std::vector<float> none(1);
        const vkattn_weight strange{"strange.weight", vkattn::tensor(VKATTN_TYPE_F32, {1}), none.data()};
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
