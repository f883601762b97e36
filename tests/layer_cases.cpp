#include "layer_cases.hpp"

#include "compare.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cmath>

namespace vkattn_test {
namespace {

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

} // namespace

LayerCase mla_case(vkattn_mla_form form, std::uint32_t q_lora_rank, bool interleaved, bool wide) {
    LayerCase c{form == VKATTN_MLA_NAIVE ? "mla naive" : "mla absorb", {}, {}, {}};
    c.config.kind = VKATTN_LAYER_MLA;
    c.config.embed_dim = 48;
    c.config.num_heads = 3;
    c.config.qk_nope_head_dim = 10;
    c.config.qk_rope_head_dim = wide ? 32 : 6;
    c.config.v_head_dim = 7;
    c.config.q_lora_rank = q_lora_rank;
    c.config.kv_lora_rank = wide ? 32 : 21;
    c.config.mla_form = form;
    c.config.rope_theta = 10000.0f;
    c.config.rope_interleaved = interleaved;
    add_mla(c, "");
    return c;
}

namespace {

LayerCase mla_block_case(bool wide) {
    LayerCase c = mla_case(VKATTN_MLA_ABSORB, 11, true, wide);
    c = {"mla_block", c.config, {}, {}};
    c.config.kind = VKATTN_LAYER_MLA_BLOCK;
    c.config.mlp_ratio = 2;
    add_mla(c, "attention.");
    c.linears["mlp.fc1"] = {96, 48};
    c.linears["mlp.fc2"] = {48, 96};
    c.others["norm1.weight"] = c.others["norm2.weight"] = {48};
    return c;
}

LayerCase compressed_case(std::uint32_t rank, bool wide) {
    const std::uint32_t latent = wide ? 32 : 9;
    LayerCase c{"compressed_kv", {}, {}, {}};
    c.config.kind = VKATTN_LAYER_COMPRESSED_KV;
    c.config.embed_dim = 48;
    c.config.num_heads = 4;
    c.config.latent_dim = latent;
    c.config.decompress_lora_rank = rank;
    c.config.rope_theta = 10000.0f;
    c.linears = {{"uqkv_proj", {48 + 2 * latent, 48}}, {"latent_proj", {latent, latent}}, {"out_proj", {48, 48}}};
    c.others["decompress_matrix"] = {latent, 48};
    if (rank > 0) c.others["decompress_lora_a"] = {latent, rank};
    if (rank > 0) c.others["decompress_lora_b"] = {rank, 48};
    return c;
}

LayerCase encoder_case(std::uint32_t norm_first, bool wide) {
    const std::uint32_t head_dim = wide ? 32 : 12;
    LayerCase c{"encoder_layer", {}, {}, {}};
    c.config.kind = VKATTN_LAYER_ENCODER;
    c.config.embed_dim = 48;
    c.config.num_heads = 4;
    c.config.num_kv_heads = 2;
    c.config.head_dim = head_dim;
    c.config.ffn_dim = 50;
    c.config.activation = VKATTN_ACTIVATION_GELU;
    c.config.norm_first = norm_first;
    c.linears = {{"self_attn.q_proj", {4 * head_dim, 48}},
                 {"self_attn.k_proj", {2 * head_dim, 48}},
                 {"self_attn.v_proj", {2 * head_dim, 48}},
                 {"self_attn.out_proj", {48, 4 * head_dim}},
                 {"ffn.fc1", {50, 48}},
                 {"ffn.fc2", {48, 50}}};
    for (const char *name : {"norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias"}) c.others[name] = {48};
    return c;
}

LayerCase mha_case(bool wide) {
    const std::uint32_t head_dim = wide ? 32 : 12;
    LayerCase c{"mha", {}, {}, {}};
    c.config.kind = VKATTN_LAYER_MHA;
    c.config.embed_dim = 48;
    c.config.num_heads = 4;
    c.config.num_kv_heads = 2;
    c.config.head_dim = head_dim;
    c.config.rope_theta = 10000.0f;
    c.linears = {{"q_proj", {4 * head_dim, 48}},
                 {"k_proj", {2 * head_dim, 48}},
                 {"v_proj", {2 * head_dim, 48}},
                 {"out_proj", {48, 4 * head_dim}}};
    c.others["q_norm.weight"] = c.others["k_norm.weight"] = {head_dim};
    return c;
}

} // namespace

vkattn::Layer make_layer(const LayerCase &c, const WeightStorage &storage) {
    std::mt19937 random(31);
    std::map<std::string, HostTensor> tensors;
    for (const auto &[name, shape] : c.linears) {
        const float deviation = 1.0f / std::sqrt(static_cast<float>(shape[1]));
        tensors[name + ".weight"] = normal_tensor(VKATTN_TYPE_F32, shape, random, deviation);
        tensors[name + ".bias"] = normal_tensor(VKATTN_TYPE_F32, {shape[0]}, random, 0.5f);
    }
    for (const auto &[name, shape] : c.others) tensors[name] = normal_tensor(VKATTN_TYPE_F32, shape, random, 0.5f);
    for (auto &[name, tensor] : tensors) {
        tensor = tensor_of(storage.rounded, tensor.shape(), tensor.floats());
        if (storage.as_f32) tensor = tensor_of(VKATTN_TYPE_F32, tensor.shape(), tensor.floats());
    }
    std::vector<vkattn_weight> weights;
    for (const auto &[name, tensor] : tensors) weights.push_back({name.c_str(), tensor.view(), tensor.bytes().data()});
    return test_device().context().layer(c.config, weights);
}

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

void check_equal(const char *what, const HostTensor &actual, const HostTensor &expected, double bound) {
    const std::vector<float> floats = expected.floats();
    const Comparison comparison =
        compare(what, actual.shape(), std::vector<double>(floats.begin(), floats.end()), actual.floats(), bound);
    CHECK_MESSAGE(comparison.passed, comparison.report);
}

std::vector<LayerCase> cached_layers(bool wide) {
    return {mha_case(wide),
            mla_case(VKATTN_MLA_NAIVE, 0, true, wide),
            mla_case(VKATTN_MLA_ABSORB, 11, false, wide),
            mla_block_case(wide),
            compressed_case(0, wide),
            compressed_case(5, wide),
            encoder_case(0, wide),
            encoder_case(1, wide)};
}

} // namespace vkattn_test
