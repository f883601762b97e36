#include "layer_cases.hpp"

#include "compare.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace vkattn_test {
namespace {

void add_mha(LayerCase &c, const std::string &prefix) {
    const vkattn_layer_config &s = c.config;
    const std::uint64_t head_dim = s.head_dim != 0 ? s.head_dim : s.embed_dim / s.num_heads;
    const std::uint64_t query = s.num_heads * head_dim;
    const std::uint64_t key = (s.num_kv_heads != 0 ? s.num_kv_heads : s.num_heads) * head_dim;
    c.linears[prefix + "q_proj"] = {query, s.embed_dim};
    c.linears[prefix + "k_proj"] = c.linears[prefix + "v_proj"] = {key, s.embed_dim};
    c.linears[prefix + "out_proj"] = {s.embed_dim, query};
    c.others[prefix + "q_norm.weight"] = c.others[prefix + "k_norm.weight"] = {head_dim};
}

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
    if (s.index_topk == 0) return;
    const std::uint64_t size = s.index_head_dim;
    c.linears[prefix + "indexer.wq_b"] = {s.index_n_heads * size, s.q_lora_rank};
    c.linears[prefix + "indexer.wk"] = {size, s.embed_dim};
    c.linears[prefix + "indexer.weights_proj"] = {s.index_n_heads, s.embed_dim};
    c.others[prefix + "indexer.k_norm.weight"] = c.others[prefix + "indexer.k_norm.bias"] = {size};
}

void add_encoder(LayerCase &c) {
    const std::uint64_t width = c.config.embed_dim;
    add_mha(c, "self_attn.");
    c.linears["ffn.fc1"] = {c.config.ffn_dim, width};
    c.linears["ffn.fc2"] = {width, c.config.ffn_dim};
    for (const char *name : {"norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias"}) c.others[name] = {width};
}

void add_mla_block(LayerCase &c) {
    const std::uint64_t width = c.config.embed_dim, hidden = width * c.config.mlp_ratio;
    add_mla(c, "attention.");
    c.linears["mlp.fc1"] = {hidden, width};
    c.linears["mlp.fc2"] = {width, hidden};
    c.others["norm1.weight"] = c.others["norm2.weight"] = {width};
}

void add_latent_mha(LayerCase &c) {
    const std::uint64_t width = c.config.embed_dim, latent = c.config.latent_dim;
    c.linears = {{"q_proj", {c.config.num_heads * latent, width}},
                 {"kv_proj", {2 * latent, width}},
                 {"up_proj", {width, latent}}};
}

void add_latent_query(LayerCase &c) {
    const std::uint64_t width = c.config.latent_dim, input = c.config.input_dim;
    c.linears = {{"q_proj", {width, width}},
                 {"k_proj", {width, input}},
                 {"v_proj", {width, input}},
                 {"out_proj", {width, width}}};
    c.others["latents"] = {c.config.num_latents, width};
}

void add_compressed_kv(LayerCase &c) {
    const std::uint64_t width = c.config.embed_dim, latent = c.config.latent_dim, rank = c.config.decompress_lora_rank;
    c.linears = {
        {"uqkv_proj", {width + 2 * latent, width}}, {"latent_proj", {latent, latent}}, {"out_proj", {width, width}}};
    c.others["decompress_matrix"] = {latent, width};
    if (rank > 0) c.others["decompress_lora_a"] = {latent, rank};
    if (rank > 0) c.others["decompress_lora_b"] = {rank, width};
}

} // namespace

LayerCase layer_case(const std::string &name, const vkattn_layer_config &config) {
    LayerCase c{name, config, {}, {}};
    switch (config.kind) {
    case VKATTN_LAYER_LATENT_MHA:
        add_latent_mha(c);
        break;
    case VKATTN_LAYER_LATENT_QUERY:
        add_latent_query(c);
        break;
    case VKATTN_LAYER_MLA:
        add_mla(c, "");
        break;
    case VKATTN_LAYER_COMPRESSED_KV:
        add_compressed_kv(c);
        break;
    case VKATTN_LAYER_ENCODER:
        add_encoder(c);
        break;
    case VKATTN_LAYER_MLA_BLOCK:
        add_mla_block(c);
        break;
    default:
        add_mha(c, "");
    }
    return c;
}

LayerCase mla_case(vkattn_mla_form form, std::uint32_t q_lora_rank, bool interleaved, bool wide) {
    vkattn_layer_config config{};
    config.kind = VKATTN_LAYER_MLA;
    config.embed_dim = 48;
    config.num_heads = 3;
    config.qk_nope_head_dim = 10;
    config.qk_rope_head_dim = wide ? 32 : 6;
    config.v_head_dim = 7;
    config.q_lora_rank = q_lora_rank;
    config.kv_lora_rank = wide ? 32 : 21;
    config.mla_form = form;
    config.rope_theta = 10000.0f;
    config.rope_interleaved = interleaved;
    return layer_case(form == VKATTN_MLA_NAIVE ? "mla naive" : "mla absorb", config);
}

LayerCase sparse_mla_case(vkattn_mla_form form, bool wide) {
    vkattn_layer_config config = mla_case(form, 11, true, wide).config;
    config.index_n_heads = wide ? 5 : 3;
    config.index_head_dim = wide ? 64 : 11;
    config.index_topk = 4;
    config.index_rope_interleaved = wide;
    return layer_case(form == VKATTN_MLA_NAIVE ? "sparse mla naive" : "sparse mla absorb", config);
}

namespace {

LayerCase mla_block_case(bool wide) {
    vkattn_layer_config config = mla_case(VKATTN_MLA_ABSORB, 11, true, wide).config;
    config.kind = VKATTN_LAYER_MLA_BLOCK;
    config.mlp_ratio = 2;
    return layer_case("mla_block", config);
}

LayerCase compressed_case(std::uint32_t rank, bool wide) {
    vkattn_layer_config config{};
    config.kind = VKATTN_LAYER_COMPRESSED_KV;
    config.embed_dim = 48;
    config.num_heads = 4;
    config.latent_dim = wide ? 32 : 9;
    config.decompress_lora_rank = rank;
    config.rope_theta = 10000.0f;
    return layer_case("compressed_kv", config);
}

vkattn_layer_config grouped_config(vkattn_layer_kind kind, bool wide) {
    vkattn_layer_config config{};
    config.kind = kind;
    config.embed_dim = 48;
    config.num_heads = 4;
    config.num_kv_heads = 2;
    config.head_dim = wide ? 32 : 12;
    return config;
}

LayerCase encoder_case(std::uint32_t norm_first, bool wide) {
    vkattn_layer_config config = grouped_config(VKATTN_LAYER_ENCODER, wide);
    config.ffn_dim = 50;
    config.activation = VKATTN_ACTIVATION_GELU;
    config.norm_first = norm_first;
    return layer_case("encoder_layer", config);
}

LayerCase mha_case(bool wide) {
    vkattn_layer_config config = grouped_config(VKATTN_LAYER_MHA, wide);
    config.rope_theta = 10000.0f;
    return layer_case("mha", config);
}

LayerCase part_of_head_case(bool wide) {
    vkattn_layer_config config = mha_case(wide).config;
    config.head_dim = wide ? 64 : 13;
    config.rotary_dim = wide ? 16 : 6;
    config.rope_interleaved = !wide;
    return layer_case("mha, rotated in part", config);
}

} // namespace

std::vector<LayerCase> cached_layers(bool wide) {
    return {mha_case(wide),
            mla_case(VKATTN_MLA_NAIVE, 0, true, wide),
            mla_case(VKATTN_MLA_ABSORB, 11, false, wide),
            sparse_mla_case(VKATTN_MLA_ABSORB, wide),
            mla_block_case(wide),
            compressed_case(0, wide),
            compressed_case(5, wide),
            encoder_case(0, wide),
            encoder_case(1, wide),
            part_of_head_case(wide)};
}

Weights random_weights(const LayerCase &c, std::mt19937 &random, const WeightStorage &storage) {
    Weights weights;
    for (const auto &[name, shape] : c.linears) {
        const float deviation = 1.0f / std::sqrt(static_cast<float>(shape[1]));
        weights[name + ".weight"] = normal_tensor(VKATTN_TYPE_F32, shape, random, deviation);
        weights[name + ".bias"] = normal_tensor(VKATTN_TYPE_F32, {shape[0]}, random, 0.5f);
    }
    for (const auto &[name, shape] : c.others) weights[name] = normal_tensor(VKATTN_TYPE_F32, shape, random, 0.5f);
    for (auto &[name, tensor] : weights) {
        tensor = tensor_of(storage.rounded, tensor.shape(), tensor.floats());
        if (storage.as_f32) tensor = tensor_of(VKATTN_TYPE_F32, tensor.shape(), tensor.floats());
    }
    return weights;
}

vkattn::Layer make_layer(const vkattn_layer_config &config, const Weights &weights, const vkattn::Context &context) {
    std::vector<vkattn_weight> given;
    for (const auto &[name, tensor] : weights)
        given.push_back(vkattn::weight(name.c_str(), tensor.view(), tensor.bytes().data(), tensor.bytes().size()));
    return context.layer(config, given);
}

vkattn::Layer make_layer(const LayerCase &c, const WeightStorage &storage) {
    std::mt19937 random(31);
    return make_layer(c.config, random_weights(c, random, storage));
}

vkattn_layer_call call_of(const LayerProblem &p, const LayerResults &r, vkattn_kernel kernel) {
    vkattn_layer_call call{};
    call.query = p.query.view();
    call.key = p.key.view();
    call.value = p.value.view();
    call.output = r.output.view();
    if (!r.in_place) {
        call.past_key = p.past_key.view();
        call.past_value = p.past_value.view();
    }
    call.present_key = r.present_key.view();
    call.present_value = r.present_value.view();
    call.attn_mask = p.attn_mask.view();
    call.block_mask = p.block_mask.view();
    call.block_q_len = p.block_q_len;
    call.block_kv_len = p.block_kv_len;
    call.tree_mask = p.tree_mask.view();
    call.key_padding_mask = p.key_padding_mask.view();
    call.key_lengths = p.key_lengths.view();
    call.positions = p.positions.view();
    call.norm_weight = p.norm_weight.view();
    call.cu_seqlens = p.cu_seqlens.view();
    call.attn_weights = r.attn_weights.view();
    call.mask_flags = p.mask_flags;
    call.causal_alignment = p.causal_alignment;
    call.window_left = p.window_left;
    call.window_right = p.window_right;
    call.past_len = static_cast<std::uint32_t>(past_len(p));
    call.kernel = kernel;
    return call;
}

std::vector<Region> regions_of_inputs(const LayerProblem &p) {
    std::vector<Region> regions;
    const auto add = [&](vkattn_role role, const HostTensor &tensor) {
        if (tensor.present()) regions.push_back({role, const_cast<HostTensor *>(&tensor), Access::kRead});
    };
    add(VKATTN_ROLE_QUERY, p.query);
    add(VKATTN_ROLE_KEY, p.key);
    add(VKATTN_ROLE_VALUE, p.value);
    add(VKATTN_ROLE_ATTN_MASK, p.attn_mask);
    add(VKATTN_ROLE_BLOCK_MASK, p.block_mask);
    add(VKATTN_ROLE_TREE_MASK, p.tree_mask);
    add(VKATTN_ROLE_KEY_PADDING_MASK, p.key_padding_mask);
    add(VKATTN_ROLE_KEY_LENGTHS, p.key_lengths);
    add(VKATTN_ROLE_POSITIONS, p.positions);
    add(VKATTN_ROLE_NORM_WEIGHT, p.norm_weight);
    add(VKATTN_ROLE_CU_SEQLENS_Q, p.cu_seqlens);
    return regions;
}

std::string run_layer(const LayerProblem &p, LayerResults &r, const vkattn::Plan &plan) {
    std::vector<Region> regions = regions_of_inputs(p);
    const auto add = [&](vkattn_role role, const HostTensor &tensor, Access access) {
        if (tensor.present()) regions.push_back({role, const_cast<HostTensor *>(&tensor), access});
    };
    if (!r.in_place) {
        add(VKATTN_ROLE_PAST_KEY, p.past_key, Access::kRead);
        add(VKATTN_ROLE_PAST_VALUE, p.past_value, Access::kRead);
    }
    const Access cache = r.in_place ? Access::kReadWrite : Access::kWrite;
    add(VKATTN_ROLE_PRESENT_KEY, r.present_key, cache);
    add(VKATTN_ROLE_PRESENT_VALUE, r.present_value, cache);
    add(VKATTN_ROLE_OUTPUT, r.output, Access::kWrite);
    add(VKATTN_ROLE_ATTN_WEIGHTS, r.attn_weights, Access::kWrite);
    return test_device().try_run(plan, regions);
}

std::string compare_layer(const LayerProblem &p, const LayerReference &reference, const LayerResults &r) {
    double bound = nmse_bound({p.query.type(), r.output.type(), r.present_key.type(), r.present_value.type()});
    for (const auto &[name, tensor] : p.weights) bound = std::max(bound, nmse_bound({tensor.type()}));
    std::string complaints;
    const auto check = [&](const char *what, const HostTensor &actual, const std::vector<double> &expected) {
        if (!actual.present()) return;
        const Comparison comparison = compare(what, actual.shape(), expected, actual.floats(), bound);
        if (!comparison.passed) complaints += comparison.report + "\n";
    };
    check("output", r.output, reference.output);
    check("present_key", r.present_key, reference.present_key);
    check("present_value", r.present_value, reference.present_value);
    check("attn_weights", r.attn_weights, reference.attn_weights);
    return complaints;
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

vkattn::Cache make_cache(const vkattn::Layer &layer, std::uint32_t batch, std::uint32_t capacity, vkattn_type keys,
                         vkattn_type values, std::uint32_t pages, vkattn_cache_info info) {
    info.layer = layer.get();
    info.batch = batch;
    info.capacity = capacity;
    info.key_type = keys;
    info.value_type = values;
    info.page_len = pages != 0 ? 8 : 0;
    info.page_count = pages;
    return test_device().context().cache(info);
}

void fill(const vkattn::Cache &cache, HostTensor keys, HostTensor values) {
    vkattn_cache_append_desc desc{};
    desc.cache = cache.get();
    desc.key = keys.view();
    desc.value = values.view();
    const std::array regions{Region{VKATTN_ROLE_KEY, &keys, Access::kRead},
                             Region{VKATTN_ROLE_VALUE, &values, Access::kRead}};
    test_device().run(test_device().context().cache_append_plan(desc), regions);
}

std::vector<float> read(const vkattn::Cache &cache, vkattn_cache_part part, std::uint32_t sequence,
                        std::uint64_t count) {
    std::vector<float> values(count);
    cache.read(part, sequence, values);
    return values;
}

namespace {

HostTensor run(const vkattn::Layer &layer, vkattn_cache cache, HostTensor input, std::uint32_t mask_flags,
               HostTensor norm = {}) {
    HostTensor output(VKATTN_TYPE_F32, input.shape());
    vkattn_layer_call call{};
    call.query = input.view();
    call.output = output.view();
    call.mask_flags = mask_flags;
    call.cache = cache;
    call.norm_weight = norm.view();
    std::vector<Region> regions{{VKATTN_ROLE_QUERY, &input, Access::kRead},
                                {VKATTN_ROLE_OUTPUT, &output, Access::kWrite}};
    if (norm.present()) regions.push_back({VKATTN_ROLE_NORM_WEIGHT, &norm, Access::kRead});
    test_device().run(layer.plan(call), regions);
    return output;
}

} // namespace

HostTensor prefill(const vkattn::Layer &layer, HostTensor input, HostTensor norm) {
    return run(layer, nullptr, std::move(input), VKATTN_MASK_CAUSAL, std::move(norm));
}

HostTensor append(const vkattn::Layer &layer, const vkattn::Cache &cache, HostTensor input, std::uint32_t mask_flags) {
    return run(layer, cache.get(), std::move(input), mask_flags);
}

void check_equal(const char *what, const HostTensor &actual, const HostTensor &expected, double bound) {
    const std::vector<float> floats = expected.floats();
    const Comparison comparison =
        compare(what, actual.shape(), std::vector<double>(floats.begin(), floats.end()), actual.floats(), bound);
    CHECK_MESSAGE(comparison.passed, comparison.report);
}

} // namespace vkattn_test
