// The mha layer: heads, biases, types, caches, rotary embedding.
#include "compare.hpp"
#include "layer_cases.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>

using namespace vkattn_test;

namespace {

struct Config {
    std::uint32_t embed_dim = 32;
    std::uint32_t num_heads = 4;
    std::uint32_t num_kv_heads = 0;
    std::uint32_t head_dim = 0;
    vkattn_kv_head_mapping mapping = VKATTN_KV_HEADS_GROUPED;
    float rope_theta = 0.0f;
    std::uint32_t rope_interleaved = 0;
    vkattn_type weight_type = VKATTN_TYPE_F32;
    bool biases = true;
    std::uint32_t rotary_dim = 0;
};

vkattn_layer_config layer_config(const Config &c) {
    vkattn_layer_config config{};
    config.kind = VKATTN_LAYER_MHA;
    config.embed_dim = c.embed_dim;
    config.num_heads = c.num_heads;
    config.num_kv_heads = c.num_kv_heads;
    config.head_dim = c.head_dim;
    config.kv_head_mapping = c.mapping;
    config.rope_theta = c.rope_theta;
    config.rope_interleaved = c.rope_interleaved;
    config.rotary_dim = c.rotary_dim;
    return config;
}

std::uint64_t kv_heads_of(const Config &c) { return c.num_kv_heads != 0 ? c.num_kv_heads : c.num_heads; }
std::uint64_t head_dim_of(const Config &c) { return c.head_dim != 0 ? c.head_dim : c.embed_dim / c.num_heads; }

Weights random_weights(const Config &c, std::mt19937 &random) {
    const std::uint64_t query_width = c.num_heads * head_dim_of(c);
    const std::uint64_t kv_width = kv_heads_of(c) * head_dim_of(c);
    struct Shaped {
        const char *name;
        std::uint64_t out, in;
    };
    const std::array<Shaped, 4> linears = {{{"q_proj", query_width, c.embed_dim},
                                            {"k_proj", kv_width, c.embed_dim},
                                            {"v_proj", kv_width, c.embed_dim},
                                            {"out_proj", c.embed_dim, query_width}}};
    Weights weights;
    for (const auto &[name, out, in] : linears) {
        const float deviation = 1.5f / std::sqrt(static_cast<float>(in));
        weights[std::string(name) + ".weight"] = normal_tensor(c.weight_type, {out, in}, random, deviation);
        if (c.biases) weights[std::string(name) + ".bias"] = normal_tensor(c.weight_type, {out}, random, 0.3f);
    }
    return weights;
}

LayerProblem self_attention(const Config &c, std::uint64_t batch, std::uint64_t len,
                            vkattn_type activations = VKATTN_TYPE_F32) {
    std::mt19937 random(21);
    LayerProblem problem;
    problem.config = layer_config(c);
    problem.weights = random_weights(c, random);
    problem.query = normal_tensor(activations, {batch, len, c.embed_dim}, random);
    return problem;
}

LayerResults output_of(const LayerProblem &p, vkattn_type type = VKATTN_TYPE_F32) {
    LayerResults results;
    results.output = HostTensor(type, p.query.shape());
    return results;
}

void check_layer(const LayerProblem &p, LayerResults results, vkattn_kernel kernel) {
    INFO("kernel ", kernel_text(kernel));
    const vkattn::Layer layer = make_layer(p.config, p.weights);
    const std::string complaints = run_layer(p, results, layer.plan(call_of(p, results, kernel)));
    CHECK_MESSAGE(complaints.empty(), complaints);
    const std::string differences = compare_layer(p, reference_layer(p), results);
    CHECK_MESSAGE(differences.empty(), differences);
}

void check_both(const LayerProblem &p, vkattn_type output_type = VKATTN_TYPE_F32) {
    check_layer(p, output_of(p, output_type), VKATTN_KERNEL_FLASH);
    LayerResults with_weights = output_of(p, output_type);
    const std::uint64_t kv_len =
        (p.key.present() ? p.key : p.query).shape()[1] + (p.past_key.present() ? p.past_key.shape()[2] : 0);
    with_weights.attn_weights =
        HostTensor(VKATTN_TYPE_F32, {p.query.shape()[0], p.config.num_heads, p.query.shape()[1], kv_len});
    check_layer(p, with_weights, VKATTN_KERNEL_UNFUSED);
}

void check_layer_alone(const Config &config, std::uint64_t batch, std::uint64_t len) {
    const LayerProblem p = self_attention(config, batch, len);
    check_layer(p, output_of(p), VKATTN_KERNEL_AUTO);
}

// [B,Hkv,L,D] for a cache of the problem's layer.
HostTensor cache_tensor(const LayerProblem &p, const Config &c, std::uint64_t len, vkattn_type type) {
    return HostTensor(type, {p.query.shape()[0], kv_heads_of(c), len, head_dim_of(c)});
}

LayerProblem with_past(const Config &c, std::uint64_t batch, std::uint64_t len, std::uint64_t past_len,
                       vkattn_type cache = VKATTN_TYPE_F32) {
    LayerProblem p = self_attention(c, batch, len);
    std::mt19937 random(22);
    p.past_key = cache_tensor(p, c, past_len, cache);
    p.past_value = cache_tensor(p, c, past_len, cache);
    fill_normal(p.past_key, random);
    fill_normal(p.past_value, random);
    p.mask_flags = VKATTN_MASK_CAUSAL;
    return p;
}

// The past in the first tokens of each head of a cache with room for capacity tokens; NaN in the rest of it.
HostTensor grown(const HostTensor &past, std::uint64_t len, std::uint64_t capacity) {
    Shape shape = past.shape();
    const std::uint64_t past_row = shape[2] * shape[3];
    shape[2] = len;
    HostTensor present(past.type(), shape, {shape[1] * capacity * shape[3], capacity * shape[3], shape[3], 1});
    for (std::uint64_t i = 0; i < past.elements(); ++i) {
        present.set(i / past_row * len * shape[3] + i % past_row, past.get(i));
    }
    return present;
}

constexpr Config kGqa{.num_kv_heads = 2};
constexpr Config kMqa{.num_kv_heads = 1};
constexpr Config kModulo{.num_kv_heads = 2, .mapping = VKATTN_KV_HEADS_MODULO};

} // namespace

TEST_SUITE_BEGIN("layer");

TEST_CASE_FIXTURE(DeviceTest, "heads of any size are normalised and rotated, alone and beside one another") {
    for (const std::uint32_t head_dim : {18u, 24u, 288u}) // pairs, fours, more fours than a workgroup has invocations
        for (const float theta : {0.0f, 10000.0f})
            for (const std::uint32_t interleaved : {0u, 1u}) {
                if (theta == 0 && interleaved != 0) continue;
                CAPTURE(head_dim);
                CAPTURE(theta);
                CAPTURE(interleaved);
                const Config config{
                    .num_kv_heads = 2, .head_dim = head_dim, .rope_theta = theta, .rope_interleaved = interleaved};
                LayerProblem p = self_attention(config, 2, 7);
                std::mt19937 random(27);
                for (const char *name : {"q_norm.weight", "k_norm.weight"})
                    p.weights[name] = normal_tensor(VKATTN_TYPE_F32, {head_dim}, random);
                check_layer(p, output_of(p), VKATTN_KERNEL_AUTO);
            }
}

TEST_CASE_FIXTURE(DeviceTest, "multi-head, grouped-query and multi-query self attention, with biases and without") {
    for (Config config : {Config{}, kGqa, kMqa, kModulo}) {
        for (const bool biases : {true, false}) {
            INFO("kv heads ", config.num_kv_heads, ", mapping ", static_cast<int>(config.mapping), ", biases ", biases);
            config.biases = biases;
            check_both(self_attention(config, 2, 17));
        }
    }
}

TEST_CASE_FIXTURE(DeviceTest, "some biases only") {
    for (const char *kept : {"q_proj.bias", "k_proj.bias", "v_proj.bias", "out_proj.bias"}) {
        CAPTURE(std::string(kept));
        LayerProblem p = self_attention(kGqa, 1, 5);
        std::erase_if(p.weights, [&](const auto &w) { return w.first.ends_with(".bias") && w.first != kept; });
        check_both(p);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "cross attention to a sequence of another length") {
    std::mt19937 random(23);
    for (const std::uint64_t kv_len : {3, 40}) {
        CAPTURE(kv_len);
        LayerProblem p = self_attention(kGqa, 2, 9);
        p.key = normal_tensor(VKATTN_TYPE_F32, {2, kv_len, 32}, random);
        p.value = normal_tensor(VKATTN_TYPE_F32, {2, kv_len, 32}, random);
        check_both(p);
        p.attn_mask = HostTensor(VKATTN_TYPE_BOOL, {9, kv_len});
        for (std::uint64_t i = 0; i < p.attn_mask.elements(); ++i) p.attn_mask.set(i, i % 3 == 0 ? 0.0f : 1.0f);
        p.key_padding_mask = HostTensor(VKATTN_TYPE_BOOL, {2, kv_len});
        for (std::uint64_t i = 0; i < 2 * kv_len; ++i) p.key_padding_mask.set(i, i % 5 == 1 ? 1.0f : 0.0f);
        check_both(p);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "causal, windowed and ragged self attention") {
    LayerProblem p = self_attention(kGqa, 2, 37);
    p.mask_flags = VKATTN_MASK_CAUSAL;
    check_both(p);
    p.mask_flags |= VKATTN_MASK_WINDOW;
    p.window_left = 5;
    check_both(p);
    p.key_lengths = tensor_of(VKATTN_TYPE_I32, {2}, std::array{0.0f, 20.0f});
    check_both(p);
}

TEST_CASE_FIXTURE(DeviceTest, "sizes that fill no tile of the linear kernel") {
    check_both(self_attention({.embed_dim = 3, .num_heads = 1}, 1, 1));
    check_both(self_attention({.embed_dim = 35, .num_heads = 5}, 3, 7));
    check_both(self_attention({.embed_dim = 130, .num_heads = 2}, 2, 33));
    check_both(self_attention({.embed_dim = 24, .num_heads = 3, .head_dim = 20}, 2, 11));
}

TEST_CASE_FIXTURE(DeviceTest, "a wide model with a small head") {
    check_layer_alone({.embed_dim = 20000, .num_heads = 1, .head_dim = 4}, 1, 3);
}

TEST_CASE_FIXTURE(DeviceTest, "16-bit weights and activations") {
    for (const vkattn_type weights : {VKATTN_TYPE_F32, VKATTN_TYPE_F16, VKATTN_TYPE_BF16}) {
        for (const vkattn_type activations : {VKATTN_TYPE_F32, VKATTN_TYPE_F16, VKATTN_TYPE_BF16}) {
            INFO("weights ", type_name(weights), ", activations ", type_name(activations));
            const Config config{.num_kv_heads = 2, .weight_type = weights};
            check_both(self_attention(config, 2, 17, activations), activations);
        }
    }
    check_both(self_attention({.embed_dim = 35, .num_heads = 5, .weight_type = VKATTN_TYPE_F16}, 3, 7, VKATTN_TYPE_F16),
               VKATTN_TYPE_BF16);
}

TEST_CASE_FIXTURE(DeviceTest, "16-bit weights that end within a word are not taken for what follows them") {
    // 27 * 37 elements: two bytes less than 2000, where the next weight begins
    check_both(self_attention({.embed_dim = 37, .num_heads = 9, .head_dim = 3, .weight_type = VKATTN_TYPE_F16}, 1, 3));
}

TEST_CASE_FIXTURE(DeviceTest, "rotary embedding, both pairings") {
    for (const std::uint32_t interleaved : {0u, 1u}) {
        CAPTURE(interleaved);
        Config config{.num_kv_heads = 2, .rope_theta = 10000.0f, .rope_interleaved = interleaved};
        check_both(self_attention(config, 2, 17));
        check_both(with_past(config, 2, 3, 900));
        for (const vkattn_type type : {VKATTN_TYPE_F16, VKATTN_TYPE_BF16}) {
            CAPTURE(type_name(type));
            check_both(self_attention(config, 2, 17, type), type);
            LayerProblem p = with_past(config, 2, 3, 40, type);
            p.query = self_attention(config, 2, 3, type).query;
            check_both(p, type);
        }
        config.head_dim = 6; // whose halves are of an odd number of elements
        check_both(self_attention(config, 2, 5, VKATTN_TYPE_F16), VKATTN_TYPE_F16);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "a rotary embedding of a part of each head, normalised and not, of odd heads too") {
    struct Part {
        std::uint32_t head_dim, rotary_dim;
    };
    // by fours of whole words, by elements, of odd heads, more fours than a workgroup has invocations
    for (const auto &[head_dim, rotary_dim] : {Part{64, 16}, {64, 64}, {24, 6}, {13, 4}, {13, 12}, {7, 2}, {288, 256}})
        for (const std::uint32_t interleaved : {0u, 1u}) {
            const std::uint32_t rotated = rotary_dim;
            INFO(rotated, " elements, interleaved ", interleaved);
            const Config config{.num_kv_heads = 2,
                                .head_dim = head_dim,
                                .rope_theta = 10000.0f,
                                .rope_interleaved = interleaved,
                                .rotary_dim = rotary_dim};
            check_both(self_attention(config, 2, 7));
            LayerProblem p = with_past(config, 2, 3, 900);
            std::mt19937 random(27);
            for (const char *name : {"q_norm.weight", "k_norm.weight"})
                p.weights[name] = normal_tensor(VKATTN_TYPE_F32, {head_dim}, random);
            check_layer(p, output_of(p), VKATTN_KERNEL_AUTO);
        }
}

// [S,B,L], anywhere from below 0 to beyond any context.
HostTensor random_positions(const LayerProblem &p, std::uint64_t streams, std::mt19937 &random) {
    HostTensor positions(VKATTN_TYPE_I32, {streams, p.query.shape()[0], p.query.shape()[1]});
    std::uniform_int_distribution<int> any(-3, 2000000);
    for (std::uint64_t i = 0; i < positions.elements(); ++i) positions.set(i, static_cast<float>(any(random)));
    return positions;
}

void set_sections(vkattn_layer_config &config, std::initializer_list<std::uint32_t> sections, bool interleaved) {
    std::ranges::copy(sections, config.rope_sections);
    config.rope_sections_interleaved = interleaved;
}

TEST_CASE_FIXTURE(DeviceTest, "positions of time, height and width, in sections of both orders") {
    struct Sectioned {
        std::uint32_t head_dim, rotary_dim;
        std::array<std::uint32_t, 4> pairs;
        bool interleaved;
    };
    for (const auto &[head_dim, rotary_dim, pairs, interleaved] : {Sectioned{64, 32, {4, 6, 6, 0}, false},
                                                                   {64, 64, {12, 10, 10, 0}, true},
                                                                   {13, 12, {3, 1, 2, 0}, false},
                                                                   {13, 12, {3, 1, 2, 0}, true},
                                                                   {24, 16, {0, 3, 0, 5}, false},
                                                                   {24, 16, {5, 1, 1, 1}, true},
                                                                   {18, 0, {0, 0, 0, 0}, false}}) // one stream
        for (const std::uint32_t rope_interleaved : {0u, 1u}) {
            const auto first_pairs = pairs[0];
            INFO(first_pairs, " pairs in the first section, interleaved ", rope_interleaved);
            LayerProblem p = with_past({.num_kv_heads = 2,
                                        .head_dim = head_dim,
                                        .rope_theta = 10000.0f,
                                        .rope_interleaved = rope_interleaved,
                                        .rotary_dim = rotary_dim},
                                       3, 5, 17);
            std::ranges::copy(pairs, p.config.rope_sections);
            p.config.rope_sections_interleaved = interleaved;
            std::uint64_t streams = 1;
            for (std::uint64_t s = 0; s < pairs.size(); ++s)
                if (pairs[s] != 0) streams = s + 1;
            std::mt19937 random(29);
            p.positions = random_positions(p, streams, random);
            check_layer(p, output_of(p), VKATTN_KERNEL_AUTO);
            for (const char *name : {"q_norm.weight", "k_norm.weight"})
                p.weights[name] = normal_tensor(VKATTN_TYPE_F32, {head_dim}, random);
            check_layer(p, output_of(p), VKATTN_KERNEL_AUTO);
        }
}

TEST_CASE_FIXTURE(DeviceTest, "positions that are the places in a sequence change no bit") {
    for (const bool interleaved : {false, true}) {
        LayerProblem p = self_attention({.head_dim = 16, .rope_theta = 10000.0f}, 2, 9);
        const auto run = [&] {
            const vkattn::Layer layer = make_layer(p.config, p.weights);
            LayerResults results = output_of(p);
            CHECK(run_layer(p, results, layer.plan(call_of(p, results, VKATTN_KERNEL_AUTO))).empty());
            return results.output.floats();
        };
        const auto places = run();
        set_sections(p.config, {3, 3, 2}, interleaved);
        CHECK(run() == places); // without positions
        p.positions = HostTensor(VKATTN_TYPE_I32, {3, 2, 9});
        for (std::uint64_t i = 0; i < p.positions.elements(); ++i) p.positions.set(i, static_cast<float>(i % 9));
        CHECK(run() == places);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "positions of packed tokens lie as the tokens do") {
    LayerProblem p = self_attention({.num_kv_heads = 2, .head_dim = 16, .rope_theta = 10000.0f}, 1, 9);
    set_sections(p.config, {2, 3, 3}, false);
    p.mask_flags = VKATTN_MASK_CAUSAL;
    std::mt19937 random(31);
    p.positions = random_positions(p, 3, random);
    const vkattn::Layer layer = make_layer(p.config, p.weights);
    constexpr std::array<std::uint64_t, 4> kBounds{0, 4, 4, 9};
    HostTensor cu_seqlens(VKATTN_TYPE_I32, {kBounds.size()}), packed(VKATTN_TYPE_F32, p.query.shape());
    for (std::uint64_t i = 0; i < kBounds.size(); ++i) cu_seqlens.set(i, static_cast<float>(kBounds[i]));
    LayerResults results;
    results.output = packed;
    vkattn_layer_call call = call_of(p, results, VKATTN_KERNEL_AUTO);
    call.cu_seqlens = cu_seqlens.view();
    test_device().run(layer.plan(call), std::array{Region{VKATTN_ROLE_QUERY, &p.query, Access::kRead},
                                                   Region{VKATTN_ROLE_POSITIONS, &p.positions, Access::kRead},
                                                   Region{VKATTN_ROLE_CU_SEQLENS_Q, &cu_seqlens, Access::kRead},
                                                   Region{VKATTN_ROLE_OUTPUT, &packed, Access::kWrite}});
    for (std::size_t s = 0; s + 1 < kBounds.size(); ++s) {
        const std::uint64_t begin = kBounds[s], len = kBounds[s + 1] - begin;
        if (len == 0) continue;
        LayerProblem alone = p;
        const std::uint64_t width = p.query.shape()[2];
        alone.query = HostTensor(VKATTN_TYPE_F32, {1, len, width});
        alone.positions = HostTensor(VKATTN_TYPE_I32, {3, 1, len});
        for (std::uint64_t i = 0; i < len * width; ++i) alone.query.set(i, p.query.get(begin * width + i));
        for (std::uint64_t i = 0; i < 3 * len; ++i)
            alone.positions.set(i, p.positions.get(i / len * 9 + begin + i % len));
        LayerResults part = output_of(alone);
        for (std::uint64_t i = 0; i < len * width; ++i) part.output.set(i, packed.get(begin * width + i));
        const std::string differences = compare_layer(alone, reference_layer(alone), part);
        CHECK_MESSAGE(differences.empty(), differences);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "sections and positions that cannot be are named") {
    LayerProblem p = self_attention({.head_dim = 16, .rope_theta = 10000.0f}, 2, 4);
    const auto check = [&](const char *expected) {
        const LayerResults results = output_of(p);
        CHECK_THROWS_WITH_AS(make_layer(p.config, p.weights).plan(call_of(p, results, VKATTN_KERNEL_AUTO)),
                             doctest::Contains(expected), vkattn::Error);
    };
    set_sections(p.config, {3, 3, 3}, false);
    check("rope_sections: 9 pairs in all, expected 8, half the elements that are rotated, or none");
    set_sections(p.config, {2, 2, 4}, true);
    check("rope_sections: 4 pairs of stream 2, expected at most 2 of 8 pairs that 3 streams interleave");
    p.config.rope_sections_interleaved = 2;
    check("rope_sections_interleaved: 2, expected 0 or 1");
    set_sections(p.config, {4, 2, 2}, false);
    p.positions = HostTensor(VKATTN_TYPE_I32, {1, 2, 4});
    check("positions: type I32, shape [1,2,4], expected contiguous I32 [3,2,4]");
    p.positions = HostTensor(VKATTN_TYPE_F32, {3, 2, 4});
    check("positions: type F32");
    p.positions = HostTensor(VKATTN_TYPE_I32, {3, 2, 4});
    p.key = p.value = p.query;
    check("key, value: given, expected none with positions");
    p.key = p.value = {};
    p.config.rope_theta = 0;
    set_sections(p.config, {0, 0, 0}, false);
    check("positions: given, expected none of a layer without a rotary embedding");
}

TEST_CASE_FIXTURE(DeviceTest, "parts of heads that cannot be rotated are named") {
    const auto check = [](const Config &config, const char *expected) {
        std::mt19937 random(28);
        const Weights weights = random_weights(config, random);
        CHECK_THROWS_WITH_AS(make_layer(layer_config(config), weights), doctest::Contains(expected), vkattn::Error);
    };
    check({.head_dim = 8, .rope_theta = 1e4f, .rotary_dim = 10},
          "rotary_dim: 10, expected an even number up to the head size 8");
    check({.head_dim = 8, .rope_theta = 1e4f, .rotary_dim = 3}, "rotary_dim: 3, expected an even number");
    check({.head_dim = 8, .rotary_dim = 4}, "rotary_dim: 4 without rope_theta, expected 0");
    check({.head_dim = 7, .rope_theta = 1e4f},
          "rotary_dim: 0, which means the whole head of 7 elements, expected an even number");
}

TEST_CASE_FIXTURE(DeviceTest, "the bias of a gate without its matrix is named") {
    const Config config{.head_dim = 8};
    std::mt19937 random(29);
    Weights weights = random_weights(config, random);
    weights["gate_proj.bias"] = weights.at("q_proj.bias");
    CHECK_THROWS_WITH_AS(make_layer(layer_config(config), weights),
                         doctest::Contains("gate_proj.bias is given, expected gate_proj.weight with it"),
                         vkattn::Error);
}

TEST_CASE_FIXTURE(DeviceTest, "a factor for every pair of the rotary embedding: LongRoPE") {
    const std::array<float, 4> values{1.0f, 1.25f, 7.5f, 40.0f};
    for (const float attention_factor : {0.0f, 0.8f}) {
        CAPTURE(attention_factor);
        LayerProblem p = with_past({.num_kv_heads = 2, .rope_theta = 10000.0f}, 2, 3, 900);
        vkattn_rope_scaling &scaling = p.config.rope_scaling;
        scaling.kind = VKATTN_ROPE_LONGROPE;
        scaling.factor = 32.0f;
        scaling.original_max_position = 4096;
        scaling.attention_factor = attention_factor;
        scaling.factors = values.data();
        scaling.factor_count = values.size();
        check_both(p);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "factors of LongRoPE that are missing, too few or no numbers are named") {
    LayerProblem p = self_attention({.rope_theta = 10000.0f}, 1, 4);
    std::array<float, 4> values{1.0f, 1.0f, 1.0f, 1.0f};
    vkattn_rope_scaling &scaling = p.config.rope_scaling;
    scaling.kind = VKATTN_ROPE_LONGROPE;
    scaling.factor = 4.0f;
    scaling.original_max_position = 32;
    const auto check = [&](const char *expected) {
        CHECK_THROWS_WITH_AS(make_layer(p.config, p.weights), doctest::Contains(expected), vkattn::Error);
    };
    check("rope_scaling: factors NULL, expected 4 numbers");
    scaling.factors = values.data();
    scaling.factor_count = 3;
    check("3 factors, expected 4");
    scaling.factor_count = 4;
    values[2] = 0.0f;
    check("a factor 0, expected finite numbers above 0");
    values[2] = 1.0f;
    scaling.original_max_position = 1;
    check("original_max_position 1");
    scaling.original_max_position = 32;
    scaling.kind = VKATTN_ROPE_LINEAR;
    check("rope_scaling: factors given, expected none");
}

TEST_CASE_FIXTURE(DeviceTest, "a past is copied in front of the new keys") {
    for (const vkattn_type cache : {VKATTN_TYPE_F32, VKATTN_TYPE_F16, VKATTN_TYPE_BF16}) {
        for (const std::uint64_t len : {1, 5}) {
            INFO("cache ", type_name(cache), ", new tokens ", len);
            const LayerProblem p = with_past(kGqa, 2, len, 23, cache);
            LayerResults results = output_of(p);
            results.present_key = cache_tensor(p, kGqa, 23 + len, cache);
            results.present_value = cache_tensor(p, kGqa, 23 + len, cache);
            check_layer(p, results, VKATTN_KERNEL_FLASH);
            check_layer(p, results, VKATTN_KERNEL_UNFUSED);
        }
    }
}

TEST_CASE_FIXTURE(DeviceTest, "a past without a present, a present without a past") {
    const LayerProblem p = with_past(kGqa, 2, 5, 23);
    check_both(p);
    const LayerProblem fresh = self_attention(kGqa, 2, 5);
    LayerResults results = output_of(fresh);
    results.present_key = cache_tensor(fresh, kGqa, 5, VKATTN_TYPE_F32);
    results.present_value = cache_tensor(fresh, kGqa, 5, VKATTN_TYPE_F16);
    check_layer(fresh, results, VKATTN_KERNEL_FLASH);
}

TEST_CASE_FIXTURE(DeviceTest, "a cache in place keeps its past and takes the new keys") {
    for (const vkattn_type cache : {VKATTN_TYPE_F32, VKATTN_TYPE_F16}) {
        CAPTURE(type_name(cache));
        const LayerProblem p = with_past({.num_kv_heads = 2, .rope_theta = 1e4f}, 2, 3, 23, cache);
        for (const std::uint64_t capacity : {26, 64}) {
            CAPTURE(capacity);
            LayerResults results = output_of(p);
            results.in_place = true;
            results.present_key = grown(p.past_key, 26, capacity);
            results.present_value = grown(p.past_value, 26, capacity);
            check_layer(p, results, VKATTN_KERNEL_FLASH);
        }
    }
}

TEST_CASE_FIXTURE(DeviceTest, "token by token equals one prefill, with one layer for all lengths") {
    constexpr std::uint64_t kLen = 9;
    const Config config{.num_kv_heads = 2, .rope_theta = 1e4f};
    LayerProblem whole = self_attention(config, 1, kLen);
    whole.mask_flags = VKATTN_MASK_CAUSAL;
    const vkattn::Layer layer = make_layer(whole.config, whole.weights);
    const LayerReference prefill = reference_layer(whole);
    HostTensor keys;
    HostTensor values;
    for (std::uint64_t step = 0; step < kLen; ++step) {
        CAPTURE(step);
        LayerProblem p = whole;
        p.query = HostTensor(VKATTN_TYPE_F32, {1, 1, 32});
        for (std::uint64_t c = 0; c < 32; ++c) p.query.set(c, whole.query.get(step * 32 + c));
        if (step > 0) p.past_key = keys;
        if (step > 0) p.past_value = values;
        LayerResults results = output_of(p);
        results.present_key = cache_tensor(p, config, step + 1, VKATTN_TYPE_F32);
        results.present_value = results.present_key;
        const std::string complaints = run_layer(p, results, layer.plan(call_of(p, results, VKATTN_KERNEL_AUTO)));
        CHECK_MESSAGE(complaints.empty(), complaints);
        const std::vector<double> expected(&prefill.output[step * 32], &prefill.output[step * 32] + 32);
        const Comparison comparison =
            compare("output", {1, 1, 32}, expected, results.output.floats(), nmse_bound({VKATTN_TYPE_F32}));
        CHECK_MESSAGE(comparison.passed, comparison.report);
        keys = results.present_key;
        values = results.present_value;
    }
}

TEST_CASE_FIXTURE(DeviceTest, "strided activations") {
    LayerProblem p = self_attention(kGqa, 2, 9);
    std::mt19937 random(24);
    p.query = HostTensor(VKATTN_TYPE_F16, {2, 9, 32}, {9 * 35 + 2, 35, 1}, 3);
    fill_normal(p.query, random);
    LayerResults results;
    results.output = HostTensor(VKATTN_TYPE_F16, {2, 9, 32}, {9 * 33 + 5, 33, 1}, 1);
    check_layer(p, results, VKATTN_KERNEL_FLASH);
}

TEST_CASE_FIXTURE(DeviceTest, "a layer whose matrices are quantised, beside biases in f32") {
    std::mt19937 random(77);
    for (const vkattn_type type : {VKATTN_TYPE_Q4_0, VKATTN_TYPE_Q5_1}) {
        INFO(type_name(type));
        LayerProblem p = self_attention({}, 1, 4);
        for (auto &[name, tensor] : p.weights)
            if (tensor.shape().size() == 2) tensor = normal_tensor(type, tensor.shape(), random, 0.2f);
        LayerResults results;
        results.output = HostTensor(VKATTN_TYPE_F32, {1, 4, 32});
        check_layer(p, results, VKATTN_KERNEL_FLASH);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "a weight that a layer reads by columns cannot be of blocks, and is named with why") {
    vkattn_layer_config mla{};
    mla.kind = VKATTN_LAYER_MLA;
    mla.embed_dim = 64;
    mla.num_heads = 2;
    mla.kv_lora_rank = mla.qk_nope_head_dim = mla.v_head_dim = 32;
    mla.qk_rope_head_dim = 16;
    mla.rope_theta = 10000.0f;
    const std::vector<std::uint8_t> bytes(128 * 34);
    const auto message_of = [&](const vkattn_layer_config &config, const char *name, std::uint64_t rows,
                                std::uint64_t columns) {
        const vkattn_weight weight =
            vkattn::weight(name, vkattn::tensor(VKATTN_TYPE_Q8_0, {rows, columns}), bytes.data(), bytes.size());
        vkattn_layer layer = nullptr;
        CHECK(vkattn_layer_create(test_device().context().get(), &config, &weight, 1, &layer) ==
              VKATTN_ERROR_INVALID_ARGUMENT);
        return std::string(vkattn_last_error());
    };
    const std::string by_columns = " has type Q8_0, expected F32, F16 or BF16, since this layer reads it by columns";
    const auto says = [](const std::string &message, const std::string &part) {
        return message.find(part) != std::string::npos;
    };
    mla.mla_form = VKATTN_MLA_ABSORB;
    CHECK(says(message_of(mla, "wkv_b.weight", 128, 32), "wkv_b.weight" + by_columns));
    mla.mla_form = VKATTN_MLA_NAIVE;
    CHECK(!says(message_of(mla, "wkv_b.weight", 128, 32), "wkv_b.weight"));
    vkattn_layer_config compressed{};
    compressed.kind = VKATTN_LAYER_COMPRESSED_KV;
    compressed.embed_dim = 64;
    compressed.num_heads = 2;
    compressed.latent_dim = 32;
    CHECK(says(message_of(compressed, "decompress_matrix", 32, 64), "decompress_matrix" + by_columns));
}

TEST_CASE_FIXTURE(DeviceTest, "a buffer of vkattn's own that is too small for a weight is refused") {
    const vkattn::Context &context = test_device().context();
    vkattn_layer_config config{};
    config.embed_dim = 32;
    config.num_heads = 2;
    constexpr std::uint64_t kBytes = 32 * 32 * sizeof(float);
    const vkattn::Buffer small = context.buffer(16), enough = context.buffer(kBytes + 16);
    const auto error_of = [&](const vkattn_region &region) {
        std::vector<vkattn_weight> weights;
        for (const char *name : {"q_proj.weight", "k_proj.weight", "v_proj.weight", "out_proj.weight"}) {
            const vkattn_tensor matrix = vkattn::tensor(VKATTN_TYPE_F32, {32, 32});
            weights.push_back(vkattn::weight(name, matrix, region));
        }
        vkattn_layer layer = nullptr;
        const vkattn_result result = vkattn_layer_create(context.get(), &config, weights.data(), 4, &layer);
        vkattn_layer_destroy(layer);
        return result == VKATTN_SUCCESS ? "" : std::string(vkattn_last_error());
    };
    CHECK(error_of(enough.region()).empty());
    CHECK(error_of(enough.region(16)).empty());
    CHECK(error_of(small.region())
              .starts_with("weights: q_proj.weight has a region of 16 bytes from 0 on, expected 4096 "
                           "bytes within its buffer; k_proj.weight"));
    CHECK(error_of(enough.region(32)).find("a region of 4080 bytes from 32 on, expected 4096") != std::string::npos);
    CHECK(error_of(enough.region(kBytes * 2)).find("a region of 0 bytes from 8192 on") != std::string::npos);
    CHECK(error_of({enough.vulkan(), 32, kBytes}).find("a region of 4096 bytes from 32 on") != std::string::npos);
}

TEST_CASE_FIXTURE(DeviceTest, "missing, unknown and misshapen weights are named in one message") {
    LayerProblem p = self_attention({}, 1, 4);
    p.weights.erase("k_proj.weight");
    p.weights["w_proj.weight"] = HostTensor(VKATTN_TYPE_F32, {32, 32});
    p.weights["v_proj.weight"] = HostTensor(VKATTN_TYPE_F32, {32, 31});
    p.weights["out_proj.bias"] = HostTensor(VKATTN_TYPE_F32, {33});
    std::string message;
    try {
        make_layer(p.config, p.weights);
    } catch (const vkattn::Error &error) {
        CHECK(error.result() == VKATTN_ERROR_INVALID_ARGUMENT);
        message = error.what();
    }
    CAPTURE(message);
    for (const char *name : {"k_proj.weight", "w_proj.weight", "v_proj.weight", "out_proj.bias"}) {
        CAPTURE(std::string(name));
        CHECK(message.find(name) != std::string::npos);
    }
    CHECK(message.find("q_proj") == std::string::npos);
}

TEST_SUITE_END();
