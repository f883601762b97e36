#include "layer_draws.hpp"

#include "block_states.hpp"

#include <algorithm>
#include <sstream>

namespace vkattn_test {
namespace {

bool keeps_cache(const vkattn_layer_config &c) {
    return c.kind != VKATTN_LAYER_LATENT_MHA && c.kind != VKATTN_LAYER_LATENT_QUERY;
}

bool keeps_values(const vkattn_layer_config &c) {
    return keeps_cache(c) && ((c.kind != VKATTN_LAYER_MLA && c.kind != VKATTN_LAYER_MLA_BLOCK) || c.index_topk != 0);
}

std::uint64_t q_len(const LayerDraw &d) {
    return d.config.kind == VKATTN_LAYER_LATENT_QUERY ? d.config.num_latents : d.len;
}

std::uint64_t kv_len(const LayerDraw &d) { return d.past_len + (d.other_len != 0 ? d.other_len : d.len); }

// Sizes of all kinds: each takes of them what it knows.
vkattn_layer_config draw_config(Random &random) {
    vkattn_layer_config c{};
    c.kind = static_cast<vkattn_layer_kind>(random.up_to(VKATTN_LAYER_KIND_COUNT) - 1);
    const auto number = [&](std::uint64_t most) { return static_cast<std::uint32_t>(random.up_to(most)); };
    const bool divides = c.kind == VKATTN_LAYER_LATENT_MHA || c.kind == VKATTN_LAYER_COMPRESSED_KV;
    c.num_kv_heads = number(3);
    c.num_heads = c.num_kv_heads * random.any<std::uint32_t>({1, 1, 2, 3});
    const bool rotates_part = random.one_in(3);
    c.head_dim = rotates_part ? 1 + number(random.one_in(4) ? 95 : 23) : 2 * number(random.one_in(4) ? 48 : 12);
    c.embed_dim = divides ? c.num_heads * c.head_dim : number(70);
    c.input_dim = number(50);
    c.latent_dim = c.kind == VKATTN_LAYER_LATENT_QUERY ? c.num_heads * number(20) : number(random.one_in(4) ? 70 : 20);
    c.num_latents = number(20);
    c.qk_nope_head_dim = number(24);
    c.qk_rope_head_dim = 2 * number(12);
    c.v_head_dim = number(24);
    c.q_lora_rank = random.one_in(2) ? 0 : number(30);
    c.kv_lora_rank = number(40);
    c.mla_form = random.one_in(2) ? VKATTN_MLA_NAIVE : VKATTN_MLA_ABSORB;
    c.decompress_lora_rank = random.one_in(2) ? 0 : number(9);
    c.ffn_dim = number(90);
    c.activation = static_cast<vkattn_activation>(random.up_to(VKATTN_ACTIVATION_GELU_TANH + 1) - 1);
    c.norm_first = random.one_in(2);
    c.mlp_ratio = number(3);
    c.rope_theta = random.one_in(2) ? 10000.0f : 0.0f;
    c.rope_interleaved = random.one_in(2);
    if (rotates_part && c.rope_theta > 0) c.rotary_dim = 2 * number(c.head_dim / 2);
    if (random.one_in(4)) c.kv_head_mapping = VKATTN_KV_HEADS_MODULO;
    if (random.one_in(5)) c.softcap = 3.0f;
    if (random.one_in(5)) c.scale = 0.3f;
    if (random.one_in(3)) c.norm_epsilon = random.one_in(2) ? 0.0f : 0.5f; // 0 is a number like others
    return c;
}

// Positions in as many streams as there are pairs for.
void draw_positions(Random &random, LayerDraw &d) {
    vkattn_layer_config &c = d.config;
    const bool mla = c.kind == VKATTN_LAYER_MLA || c.kind == VKATTN_LAYER_MLA_BLOCK;
    const std::uint32_t head_dim = c.kind == VKATTN_LAYER_COMPRESSED_KV ? c.embed_dim / c.num_heads : c.head_dim;
    const std::uint32_t pairs = (mla ? c.qk_rope_head_dim : c.rotary_dim != 0 ? c.rotary_dim : head_dim) / 2;
    d.position_streams = std::min<std::uint64_t>(random.up_to(VKATTN_ROPE_SECTIONS), pairs);
    if (d.position_streams == 1) return;
    c.rope_sections_interleaved = random.one_in(2);
    std::uint32_t left = pairs;
    for (auto s = static_cast<std::uint32_t>(d.position_streams) - 1; s > 0; --s) {
        const auto streams = static_cast<std::uint32_t>(d.position_streams);
        left -= c.rope_sections[s] = static_cast<std::uint32_t>(random.up_to((pairs + streams - 1 - s) / streams));
    }
    c.rope_sections[0] = left;
}

void draw_indexer(Random &random, LayerDraw &d) {
    const auto number = [&](std::uint64_t most) { return static_cast<std::uint32_t>(random.up_to(most)); };
    d.config.index_n_heads = number(9);
    d.config.index_head_dim = d.config.qk_rope_head_dim + number(40) - 1;
    d.config.index_topk = number(random.one_in(2) ? 10 : 100);
    d.config.index_rope_interleaved = random.one_in(2);
    d.mask = d.blocks = d.key_padding = d.with_weights = false; // which it does not take
}

} // namespace

LayerDraw draw_layer(unsigned seed) {
    Draws draws(seed);
    Random &compiled = draws.compiled, &random = draws.free;
    LayerDraw d;
    d.seed = seed;
    d.config = draw_config(compiled);
    const auto type = [&] {
        return compiled.any({VKATTN_TYPE_F32, VKATTN_TYPE_F32, VKATTN_TYPE_F16, VKATTN_TYPE_BF16});
    };
    d.weights = type();
    d.tokens = type();
    d.output = type();
    d.cache = type();
    d.head_norms = compiled.one_in(3);
    d.causal = compiled.one_in(2);
    d.window = compiled.one_in(5);
    d.key_padding = compiled.one_in(5);
    d.key_lengths = compiled.one_in(5);
    d.mask = compiled.one_in(4);
    d.with_weights = compiled.one_in(4);
    d.blocks = compiled.one_in(6);
    d.biases = random.one_in(3) ? 0 : static_cast<unsigned>(random.up_to(256) - 1);
    d.batch = random.up_to(3);
    d.len = random.one_in(3) ? 1 : random.up_to(random.one_in(3) ? 80 : 20);
    const bool crosses = d.config.kind == VKATTN_LAYER_MHA || d.config.kind == VKATTN_LAYER_LATENT_MHA;
    if (crosses && random.one_in(4)) d.other_len = random.up_to(70);
    if (keeps_cache(d.config) && d.other_len == 0 && random.one_in(2)) d.past_len = random.up_to(60);
    d.present = keeps_cache(d.config) && d.other_len == 0 && random.one_in(2);
    d.bottom_right = random.one_in(3);
    d.window_left = static_cast<int>(random.up_to(40)) - 2;
    d.window_right = static_cast<int>(random.up_to(40)) - 2;
    const bool mla = d.config.kind == VKATTN_LAYER_MLA || d.config.kind == VKATTN_LAYER_MLA_BLOCK;
    if (mla && d.config.q_lora_rank != 0 && compiled.one_in(2)) draw_indexer(compiled, d);
    d.trees = compiled.one_in(5) && d.config.index_topk == 0;
    if (keeps_cache(d.config) && d.config.rope_theta > 0 && d.other_len == 0 && compiled.one_in(2))
        draw_positions(compiled, d);
    return d;
}

namespace {

// [B,Hkv,L,D] or [B,L,latent]
HostTensor keys_of(const LayerDraw &d, std::uint64_t len) {
    const vkattn_layer_config &c = d.config;
    if (c.kind == VKATTN_LAYER_COMPRESSED_KV) return HostTensor(d.cache, {d.batch, len, c.latent_dim});
    if (c.kind == VKATTN_LAYER_MLA || c.kind == VKATTN_LAYER_MLA_BLOCK)
        return HostTensor(d.cache, {d.batch, len, c.kv_lora_rank + c.qk_rope_head_dim});
    return HostTensor(d.cache, {d.batch, c.num_kv_heads, len, c.head_dim});
}

// The same, or an indexer's keys
HostTensor values_of(const LayerDraw &d, std::uint64_t len) {
    if (d.config.index_topk != 0) return HostTensor(d.cache, {d.batch, len, d.config.index_head_dim});
    return keys_of(d, len);
}

Weights weights_of(const LayerDraw &d, std::mt19937 &random) {
    LayerCase c = layer_case("", d.config);
    const bool optional = d.config.kind == VKATTN_LAYER_MHA || d.config.kind == VKATTN_LAYER_ENCODER;
    const std::string prefix = d.config.kind == VKATTN_LAYER_ENCODER ? "self_attn." : "";
    if (optional && d.seed % 2 != 0) c.linears[prefix + "gate_proj"] = c.linears.at(prefix + "q_proj");
    Weights weights = random_weights(c, random, {d.weights, false});
    unsigned bit = 0;
    for (const auto &[name, shape] : c.linears)
        if ((d.biases >> bit++ & 1) == 0) weights.erase(name + ".bias");
    const auto is_head_norm = [](const auto &weight) {
        return weight.first.ends_with("q_norm.weight") || weight.first.ends_with("k_norm.weight");
    };
    if (optional && !d.head_norms) std::erase_if(weights, is_head_norm);
    return weights;
}

} // namespace

LayerProblem problem_of(const LayerDraw &d) {
    std::mt19937 random(d.seed);
    const vkattn_layer_config &c = d.config;
    LayerProblem p;
    p.config = c;
    p.weights = weights_of(d, random);
    const std::uint64_t width = c.kind == VKATTN_LAYER_LATENT_QUERY ? c.input_dim : c.embed_dim;
    p.query = normal_tensor(d.tokens, {d.batch, d.len, width}, random);
    if (d.other_len != 0) p.key = normal_tensor(d.tokens, {d.batch, d.other_len, width}, random);
    if (d.other_len != 0 && c.kind == VKATTN_LAYER_MHA)
        p.value = normal_tensor(d.tokens, {d.batch, d.other_len, width}, random);
    if (d.past_len != 0) {
        p.past_key = keys_of(d, d.past_len);
        fill_normal(p.past_key, random);
        if (keeps_values(c)) p.past_value = values_of(d, d.past_len);
        if (keeps_values(c)) fill_normal(p.past_value, random);
    }
    if (d.position_streams != 0) {
        p.positions = HostTensor(VKATTN_TYPE_I32, {d.position_streams, d.batch, d.len});
        std::uniform_int_distribution<int> any(-2, 300000);
        for (std::uint64_t i = 0; i < p.positions.elements(); ++i) p.positions.set(i, static_cast<float>(any(random)));
    }
    const std::uint64_t keys = kv_len(d);
    const auto booleans = [&](HostTensor tensor, double probability) {
        std::bernoulli_distribution is_set(probability);
        for (std::uint64_t i = 0; i < tensor.elements(); ++i) tensor.set(i, is_set(random) ? 1.0f : 0.0f);
        return tensor;
    };
    if (d.key_padding) p.key_padding_mask = booleans(HostTensor(VKATTN_TYPE_BOOL, {d.batch, keys}), 0.3);
    if (d.mask) p.attn_mask = booleans(HostTensor(VKATTN_TYPE_BOOL, {q_len(d), keys}), 0.8);
    if (d.blocks) {
        p.block_q_len = 8;
        p.block_kv_len = 16;
        p.block_mask = random_block_states({1, c.num_heads, (q_len(d) + 7) / 8, (keys + 15) / 16}, random);
    }
    if (d.trees && q_len(d) <= keys)
        p.tree_mask = random_trees({d.batch, q_len(d), (q_len(d) + 31) / 32}, q_len(d), random);
    if (d.key_lengths) {
        std::uniform_int_distribution<int> any(0, static_cast<int>(keys) + 2);
        p.key_lengths = HostTensor(VKATTN_TYPE_I32, {d.batch});
        for (std::uint64_t b = 0; b < d.batch; ++b) p.key_lengths.set(b, static_cast<float>(any(random)));
    }
    if (d.causal) p.mask_flags |= VKATTN_MASK_CAUSAL;
    if (d.window) p.mask_flags |= VKATTN_MASK_WINDOW;
    p.causal_alignment = d.bottom_right ? VKATTN_CAUSAL_BOTTOM_RIGHT : VKATTN_CAUSAL_TOP_LEFT;
    p.window_left = d.window_left;
    p.window_right = d.window_right;
    return p;
}

std::string text(const LayerDraw &d) {
    const vkattn_layer_config &c = d.config;
    std::ostringstream out;
    out << "kind " << c.kind << ", embed_dim " << c.embed_dim << ", input_dim " << c.input_dim << ", heads "
        << c.num_heads << "/" << c.num_kv_heads << " of " << c.head_dim << ", latents " << c.num_latents << " of "
        << c.latent_dim << ", nope " << c.qk_nope_head_dim << ", rope " << c.qk_rope_head_dim << ", v " << c.v_head_dim
        << ", ranks " << c.q_lora_rank << " " << c.kv_lora_rank << " " << c.decompress_lora_rank << ", form "
        << c.mla_form << ", ffn " << c.ffn_dim << ", ratio " << c.mlp_ratio << ", activation " << c.activation
        << ", norm first " << c.norm_first << ", theta " << c.rope_theta << ", interleaved " << c.rope_interleaved
        << ", rotated " << c.rotary_dim << ", mapping " << c.kv_head_mapping << ", softcap " << c.softcap << ", scale "
        << c.scale.value << ", epsilon " << c.norm_epsilon.value << ", biases " << d.biases << ", head norms "
        << d.head_norms << ", types " << type_name(d.weights) << " " << type_name(d.tokens) << " -> "
        << type_name(d.output) << ", cache " << type_name(d.cache) << ", batch " << d.batch << ", len " << d.len
        << " other " << d.other_len << " past " << d.past_len << ", present " << d.present << ", attn_weights "
        << d.with_weights << ", causal " << d.causal << ", bottom right " << d.bottom_right << ", window " << d.window
        << " " << d.window_left << " " << d.window_right << ", key_padding " << d.key_padding << ", key_lengths "
        << d.key_lengths << ", mask " << d.mask << ", blocks " << d.blocks << ", trees " << d.trees;
    if (d.position_streams != 0) {
        out << ", positions in sections";
        for (const std::uint32_t pairs : c.rope_sections) out << ' ' << pairs;
        out << (c.rope_sections_interleaved != 0 ? ", interleaved" : "");
    }
    if (c.index_topk != 0)
        out << ", indexer of " << c.index_n_heads << " heads of " << c.index_head_dim << ", the best " << c.index_topk
            << ", interleaved " << c.index_rope_interleaved;
    return out.str();
}

bool operator==(const LayerDraw &a, const LayerDraw &b) { return text(a) == text(b); }

LayerResults results_of(const LayerDraw &d) {
    const vkattn_layer_config &c = d.config;
    LayerResults results;
    const std::uint64_t width = c.kind == VKATTN_LAYER_LATENT_QUERY ? c.latent_dim : c.embed_dim;
    results.output = HostTensor(d.output, {d.batch, q_len(d), width});
    if (d.present) results.present_key = keys_of(d, kv_len(d));
    if (d.present && keeps_values(c)) results.present_value = values_of(d, kv_len(d));
    if (d.with_weights) results.attn_weights = HostTensor(VKATTN_TYPE_F32, {d.batch, c.num_heads, q_len(d), kv_len(d)});
    return results;
}

} // namespace vkattn_test
