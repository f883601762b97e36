// MLA with an indexer: against float64, against dense MLA where the lists hold every key, and what it refuses.
#include "compare.hpp"
#include "layer_cases.hpp"
#include "messages.hpp"

#include <doctest/doctest.h>

using namespace vkattn_test;

namespace {

struct Options {
    std::uint32_t index_topk = 9;
    std::uint64_t len = 40, past_len = 0;
    std::uint32_t mask_flags = VKATTN_MASK_CAUSAL;
    bool key_lengths = false, block = false;
};

void check_against_reference(vkattn_mla_form form, bool wide, const Options &o) {
    LayerCase c = sparse_mla_case(form, wide);
    c.config.index_topk = o.index_topk;
    if (o.block) {
        c.config.kind = VKATTN_LAYER_MLA_BLOCK;
        c.config.mlp_ratio = 2;
    }
    c = layer_case(c.name, c.config);
    CAPTURE(c.name);
    CAPTURE(o.len);
    CAPTURE(o.index_topk);
    std::mt19937 random(71);
    LayerProblem p;
    p.config = c.config;
    p.weights = random_weights(c, random);
    const std::uint64_t keys = o.past_len + o.len, latent = c.config.kv_lora_rank + c.config.qk_rope_head_dim;
    p.query = normal_tensor(VKATTN_TYPE_F32, {2, o.len, c.config.embed_dim}, random);
    if (o.past_len != 0) {
        p.past_key = normal_tensor(VKATTN_TYPE_F16, {2, o.past_len, latent}, random);
        p.past_value = normal_tensor(VKATTN_TYPE_F16, {2, o.past_len, c.config.index_head_dim}, random);
    }
    p.mask_flags = o.mask_flags;
    p.window_left = 17;
    p.window_right = 3;
    if (o.key_lengths) {
        p.key_lengths = HostTensor(VKATTN_TYPE_I32, {2});
        p.key_lengths.set(0, static_cast<float>(keys) - 5.0f);
        p.key_lengths.set(1, 3.0f);
    }
    const LayerReference reference = reference_layer(p);
    REQUIRE(reference.nearest_choice > 1e-5); // else f32 may choose another key
    LayerResults results;
    results.output = HostTensor(VKATTN_TYPE_F32, p.query.shape());
    results.present_key = HostTensor(VKATTN_TYPE_F32, {2, keys, latent});
    results.present_value = HostTensor(VKATTN_TYPE_F32, {2, keys, c.config.index_head_dim});
    const vkattn::Layer layer = make_layer(p.config, p.weights);
    std::string complaints = run_layer(p, results, layer.plan(call_of(p, results, VKATTN_KERNEL_AUTO)));
    complaints += compare_layer(p, reference, results);
    CHECK_MESSAGE(complaints.empty(), complaints);
}

} // namespace

TEST_SUITE_BEGIN("layers");

TEST_CASE_FIXTURE(DeviceTest, "mla with an indexer attends the keys that score highest, as float64 chooses them") {
    for (const vkattn_mla_form form : {VKATTN_MLA_NAIVE, VKATTN_MLA_ABSORB}) {
        check_against_reference(form, false, {});
        check_against_reference(form, true, {.index_topk = 30, .len = 1, .past_len = 90});
    }
    check_against_reference(VKATTN_MLA_ABSORB, false, {.len = 21, .past_len = 50, .key_lengths = true, .block = true});
    check_against_reference(VKATTN_MLA_ABSORB, false, {.mask_flags = VKATTN_MASK_CAUSAL | VKATTN_MASK_WINDOW});
    check_against_reference(VKATTN_MLA_NAIVE, true, {.mask_flags = VKATTN_MASK_NONE, .key_lengths = true});
}

TEST_CASE_FIXTURE(DeviceTest, "mla with an indexer is dense mla where its lists hold every key") {
    const LayerCase sparse_case = sparse_mla_case(VKATTN_MLA_ABSORB, true);
    const LayerCase dense_case = mla_case(VKATTN_MLA_ABSORB, 11, true, true);
    std::mt19937 random(72);
    Weights weights = random_weights(sparse_case, random);
    const HostTensor input = normal_tensor(VKATTN_TYPE_F32, {2, 30, 48}, random);
    vkattn_layer_config config = sparse_case.config;
    config.index_topk = 30;
    const vkattn::Layer sparse = make_layer(config, weights);
    std::erase_if(weights, [](const auto &weight) { return weight.first.starts_with("indexer."); });
    const HostTensor expected = prefill(make_layer(dense_case.config, weights), input);
    CHECK(std::ranges::equal(prefill(sparse, input).bytes(), expected.bytes()));
    for (const std::uint32_t pages : {0u, 8u}) { // of a capacity above index_topk: by lists
        CAPTURE(pages);
        const vkattn::Cache cache = make_cache(sparse, 2, 40, VKATTN_TYPE_F32, VKATTN_TYPE_Q8_0, pages);
        for (const auto &[first, len] : {std::pair{0, 19}, {19, 1}, {20, 10}})
            check_equal("chunk", append(sparse, cache, tokens_of(input, first, len)), tokens_of(expected, first, len),
                        1e-10);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "configurations and calls that an indexer cannot serve are named") {
    const LayerCase c = sparse_mla_case(VKATTN_MLA_ABSORB);
    const auto refuses = [&](const char *expected, const auto &change) {
        vkattn_layer_config config = c.config;
        change(config);
        check_refused([&] { (void)make_layer(config, {}); }, expected);
    };
    refuses("q_lora_rank: 0", [](auto &config) { config.q_lora_rank = 0; });
    refuses("index_n_heads: 0", [](auto &config) { config.index_n_heads = 0; });
    refuses("index_head_dim: 5, expected 6", [](auto &config) { config.index_head_dim = 5; });
    refuses("index_head_dim: 577", [](auto &config) { config.index_head_dim = 577; });
    refuses("index_topk: 0", [](auto &config) { config.index_topk = 0; });
    refuses("index_topk: 2049", [](auto &config) { config.index_topk = 2049; });
    refuses("config: with an indexer", [](auto &config) { config.kind = VKATTN_LAYER_ENCODER; });
    refuses("indexer.k_norm.weight is missing", [](auto &) {});

    const vkattn::Layer layer = make_layer(c), dense = make_layer(mla_case(VKATTN_MLA_ABSORB, 11, true));
    vkattn_layer_call call{};
    call.query = call.output = vkattn::tensor(VKATTN_TYPE_F32, {2, 5, 48});
    const auto refuses_call = [&](const char *expected, const auto &change) {
        vkattn_layer_call changed = call;
        change(changed);
        check_refused([&] { (void)layer.plan(changed); }, expected);
    };
    const vkattn_tensor mask = vkattn::tensor(VKATTN_TYPE_BOOL, {5, 5});
    refuses_call("attn_mask: given", [&](auto &changed) { changed.attn_mask = mask; });
    refuses_call("block_mask: given", [&](auto &changed) { changed.block_mask = mask; });
    refuses_call("tree_mask: given", [&](auto &changed) { changed.tree_mask = mask; });
    refuses_call("key_padding_mask: given", [](auto &changed) {
        changed.key_padding_mask = vkattn::tensor(VKATTN_TYPE_BOOL, {2, 5});
    });
    refuses_call("attn_weights: given", [](auto &changed) {
        changed.attn_weights = vkattn::tensor(VKATTN_TYPE_F32, {2, 3, 5, 5});
    });
    refuses_call("past_key, past_value: one is absent", [](auto &changed) {
        changed.past_key = vkattn::tensor(VKATTN_TYPE_F32, {2, 4, 27});
    });
    vkattn_cache_info info{};
    info.layer = dense.get();
    info.batch = 2;
    info.capacity = 9;
    info.key_type = VKATTN_TYPE_F32;
    const vkattn::Cache without_index_keys = test_device().context().cache(info);
    refuses_call("cache: size of a head 0, expected 11",
                 [&](auto &changed) { changed.cache = without_index_keys.get(); });
    const vkattn::Cache with_index_keys = make_cache(layer, 2, 9, VKATTN_TYPE_F32, VKATTN_TYPE_F32, 0);
    call.cache = with_index_keys.get();
    check_refused([&] { (void)dense.plan(call); }, "cache: of a layer with an indexer");
}

TEST_SUITE_END();
