// Sizes of 0: queries without keys get zeros, and what has no queries, heads, sequences or tokens is no work.
#include "device.hpp"
#include "layer_cases.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cmath>

using namespace vkattn_test;

namespace {

struct Sizes {
    std::uint64_t batch, query_heads, kv_heads, q_len, kv_len;
};

// A tensor that nothing is written to may have no region at all.
std::vector<Region> present_regions(std::vector<Region> regions, bool with_empty) {
    if (!with_empty) std::erase_if(regions, [](const Region &region) { return region.tensor->bytes().empty(); });
    return regions;
}

void check_attention_of(const Sizes &s, vkattn_type type, bool with_empty) {
    std::mt19937 random(5);
    AttentionProblem problem;
    problem.query = normal_tensor(type, {s.batch, s.query_heads, s.q_len, 32}, random);
    problem.key = normal_tensor(type, {s.batch, s.kv_heads, s.kv_len, 32}, random);
    problem.value = normal_tensor(type, {s.batch, s.kv_heads, s.kv_len, 48}, random);
    problem.key_padding_mask = HostTensor(VKATTN_TYPE_BOOL, {s.batch, s.kv_len});
    problem.attn_mask = HostTensor(VKATTN_TYPE_F32, {s.q_len, s.kv_len});
    problem.alibi_slopes = normal_tensor(VKATTN_TYPE_F32, {s.query_heads}, random);
    problem.sinks = normal_tensor(VKATTN_TYPE_F32, {s.query_heads}, random);
    problem.key_lengths = HostTensor(VKATTN_TYPE_I32, {s.batch});
    problem.mask_flags = VKATTN_MASK_CAUSAL | VKATTN_MASK_WINDOW;
    problem.causal_alignment = VKATTN_CAUSAL_BOTTOM_RIGHT;
    AttentionResults results = all_results(problem, VKATTN_KERNEL_UNFUSED, type);
    const vkattn_attention_desc desc = describe(problem, results, VKATTN_KERNEL_AUTO);
    const vkattn::Plan plan = test_device().context().attention_plan(desc);
    const bool writes = s.batch * s.query_heads * s.q_len != 0;
    CHECK((plan.report().dispatches != 0) == writes);
    test_device().run(plan, present_regions(regions_of(problem, results), with_empty));
    for (const float value : results.output.floats()) CHECK(value == 0.0f);
    for (const float sum : results.log_sum_exp.floats()) CHECK(sum == -HUGE_VALF);
    test_device().context().prewarm({&desc, 1});
    CHECK(test_device().context().explain(desc).empty() == !writes);
    CHECK(test_device().context().tune(desc).empty());
}

} // namespace

TEST_SUITE_BEGIN("operators");

TEST_CASE_FIXTURE(DeviceTest, "attention over no keys is zeros, and of no queries nothing") {
    for (const Sizes &s : {Sizes{2, 4, 2, 5, 0}, Sizes{2, 4, 2, 1, 0}, Sizes{2, 4, 2, 0, 7}, Sizes{2, 0, 2, 5, 7},
                           Sizes{2, 0, 0, 5, 7}, Sizes{0, 4, 2, 5, 7}, Sizes{0, 0, 0, 0, 0}})
        for (const vkattn_type type : {VKATTN_TYPE_F32, VKATTN_TYPE_F16})
            for (const bool with_empty : {true, false}) {
                INFO("B ", s.batch, ", Hq ", s.query_heads, ", Hkv ", s.kv_heads, ", Lq ", s.q_len, ", Lk ", s.kv_len);
                check_attention_of(s, type, with_empty);
            }
}

TEST_CASE_FIXTURE(DeviceTest, "a mask without columns hides every key, from weights and scores too") {
    std::mt19937 random(6);
    AttentionProblem problem;
    problem.query = normal_tensor(VKATTN_TYPE_F32, {1, 2, 3, 8}, random);
    problem.key = normal_tensor(VKATTN_TYPE_F32, {1, 2, 5, 8}, random);
    problem.value = normal_tensor(VKATTN_TYPE_F32, {1, 2, 5, 8}, random);
    problem.attn_mask = HostTensor(VKATTN_TYPE_BOOL, {3, 0});
    problem.score_stage = VKATTN_SCORES_MASKED;
    const AttentionReference reference = reference_attention(problem);
    for (const vkattn_kernel kernel : kernels_for(problem)) {
        AttentionResults results = all_results(problem, kernel, VKATTN_TYPE_F32);
        check_attention(problem, reference, results, kernel);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "packed queries without keys get zeros, those of no sequence stay as they are") {
    for (const bool paged : {false, true})
        for (const std::uint64_t sequences : {2, 0}) {
            CAPTURE(paged);
            CAPTURE(sequences);
            std::mt19937 random(7);
            HostTensor query = normal_tensor(VKATTN_TYPE_F32, {1, 2, 6, 16}, random);
            HostTensor key(VKATTN_TYPE_F32, paged ? Shape{0, 1, 8, 16} : Shape{1, 1, 0, 16});
            HostTensor output(VKATTN_TYPE_F32, {1, 2, 6, 16}), log_sum_exp(VKATTN_TYPE_F32, {2, 6});
            HostTensor cu_seqlens(VKATTN_TYPE_I32, {sequences + 1}), table(VKATTN_TYPE_I32, {sequences, 3});
            for (std::uint64_t b = 0; b <= sequences; ++b) cu_seqlens.set(b, static_cast<float>(1 + 2 * b));
            for (std::uint64_t i = 0; i < 3 * sequences; ++i) table.set(i, 0.0f);
            HostTensor none = cu_seqlens;
            for (std::uint64_t b = 0; b <= sequences; ++b) none.set(b, 0.0f);
            for (HostTensor *tensor : {&output, &log_sum_exp})
                for (std::uint64_t i = 0; i < tensor->elements(); ++i) tensor->set(i, 7.0f);
            vkattn_attention_desc desc{};
            desc.query = query.view();
            desc.key = desc.value = key.view();
            desc.output = output.view();
            desc.log_sum_exp = log_sum_exp.view();
            desc.cu_seqlens_q = cu_seqlens.view();
            (paged ? desc.block_table : desc.cu_seqlens_k) = paged ? table.view() : none.view();
            std::vector<Region> regions = {{VKATTN_ROLE_QUERY, &query, Access::kRead},
                                           {VKATTN_ROLE_CU_SEQLENS_Q, &cu_seqlens, Access::kRead},
                                           {VKATTN_ROLE_OUTPUT, &output, Access::kReadWrite},
                                           {VKATTN_ROLE_LOG_SUM_EXP, &log_sum_exp, Access::kReadWrite}};
            test_device().run(test_device().context().attention_plan(desc), regions);
            for (std::uint64_t i = 0; i < 12; ++i) {
                const std::uint64_t row = i % 6;
                const bool written = row >= 1 && row < 1 + 2 * sequences;
                CHECK(log_sum_exp.get(i) == (written ? -HUGE_VALF : 7.0f));
                for (std::uint64_t dim = 0; dim < 16; ++dim) CHECK(output.get(i * 16 + dim) == (written ? 0.0f : 7.0f));
            }
        }
}

TEST_CASE_FIXTURE(DeviceTest, "the other operators of nothing have no dispatches, and need no bindings") {
    const vkattn::Context &context = test_device().context();
    const auto f32 = [](std::initializer_list<std::uint64_t> shape) { return vkattn::tensor(VKATTN_TYPE_F32, shape); };
    const auto check_nothing = [](const vkattn::Plan &plan) {
        CHECK(plan.report().dispatches == 0);
        CHECK(plan.requirements().workspace_bytes == 0);
        plan.run({});
    };
    for (const auto &[batch, len] : {std::pair{std::uint64_t{0}, std::uint64_t{3}}, {2, 0}, {0, 0}}) {
        vkattn_linear_desc linear{};
        linear.input = f32({batch, len, 8});
        linear.weight = f32({4, 8});
        linear.bias = f32({4});
        linear.output = f32({batch, len, 4});
        check_nothing(context.linear_plan(linear));
        CHECK(context.tune(linear).empty());
        vkattn_norm_desc norm{};
        norm.input = norm.output = f32({batch, len, 8});
        norm.weight = f32({8});
        check_nothing(context.norm_plan(norm));
        vkattn_embedding_desc embedding{};
        embedding.tokens = vkattn::tensor(VKATTN_TYPE_I32, {batch, len});
        embedding.weight = f32({5, 8});
        embedding.output = f32({batch, len, 8});
        check_nothing(context.embedding_plan(embedding));
        vkattn_merge_desc merge{};
        merge.part_count = 2;
        merge.partial_output = merge.output = f32({batch, 2, len, 8});
        merge.partial_log_sum_exp = merge.log_sum_exp = f32({batch, 2, len});
        check_nothing(context.merge_plan(merge));
        vkattn_kv_append_desc append{};
        append.source = f32({batch, 2, len, 8});
        append.cache = f32({batch, 2, 16, 8});
        check_nothing(context.kv_append_plan(append));
    }
    vkattn_kv_append_desc append{};
    append.source = f32({1, 2, 5, 8});
    append.cache = f32({0, 2, 16, 8});
    append.cu_seqlens = vkattn::tensor(VKATTN_TYPE_I32, {1});
    append.past_lengths = vkattn::tensor(VKATTN_TYPE_I32, {0});
    check_nothing(context.kv_append_plan(append));
}

TEST_CASE_FIXTURE(DeviceTest, "layers of no sequences or no tokens have no dispatches, and need no bindings") {
    vkattn_layer_config latent_query{};
    latent_query.kind = VKATTN_LAYER_LATENT_QUERY;
    latent_query.input_dim = latent_query.latent_dim = 48;
    latent_query.num_latents = latent_query.num_heads = 4;
    std::vector<LayerCase> layers = cached_layers();
    layers.push_back(layer_case("latent_query", latent_query));
    for (const LayerCase &c : layers)
        for (const auto &[batch, len] : {std::pair{std::uint64_t{0}, std::uint64_t{3}}, {2, 0}}) {
            CAPTURE(c.name);
            const bool latents = c.config.kind == VKATTN_LAYER_LATENT_QUERY;
            const std::uint64_t width = latents ? 48 : c.config.embed_dim;
            const vkattn::Layer layer = make_layer(c);
            HostTensor input(VKATTN_TYPE_F32, {batch, len, width});
            HostTensor output(VKATTN_TYPE_F32, {batch, latents ? 4 : len, width});
            vkattn_layer_call call{};
            call.query = input.view();
            call.output = output.view();
            call.mask_flags = latents ? VKATTN_MASK_NONE : VKATTN_MASK_CAUSAL;
            const vkattn::Plan plan = layer.plan(call);
            const bool writes = latents && batch != 0; // each latent query sees no key
            CHECK((plan.report().dispatches != 0) == writes);
            if (!writes) {
                CHECK(plan.requirements().workspace_bytes == 0);
                plan.run({});
                continue;
            }
            std::mt19937 random(31); // of make_layer
            const std::vector<float> bias = random_weights(c, random).at("out_proj.bias").floats();
            const std::vector<Region> regions = {{VKATTN_ROLE_OUTPUT, &output, Access::kWrite}};
            test_device().run(plan, regions);
            for (std::uint64_t i = 0; i < output.elements(); ++i) CHECK(output.get(i) == bias[i % 48]);
        }
}

TEST_CASE_FIXTURE(DeviceTest, "a cache of no sequences, no capacity or no pages can be made") {
    for (const LayerCase &c : cached_layers())
        for (const auto &[batch, capacity, pages] : {std::array{0u, 8u, 0u}, {2u, 0u, 0u}, {2u, 16u, 1u}}) {
            CAPTURE(c.name);
            const vkattn::Layer layer = make_layer(c);
            vkattn_cache_info info{};
            info.layer = layer.get();
            info.batch = batch;
            info.capacity = capacity;
            info.key_type = info.value_type = VKATTN_TYPE_F32;
            info.page_len = pages != 0 ? 8 : 0;
            const vkattn::Cache cache = test_device().context().cache(info);
            CHECK(cache.lengths() == std::vector<std::uint32_t>(batch, 0));
            HostTensor tokens(VKATTN_TYPE_F32, {batch, 0, c.config.embed_dim});
            vkattn_layer_call call{};
            call.query = call.output = tokens.view();
            call.cache = cache.get();
            CHECK_NOTHROW(layer.plan(call).run({}));
            CHECK(cache.lengths() == std::vector<std::uint32_t>(batch, 0));
        }
}

TEST_CASE_FIXTURE(DeviceTest, "a buffer of 0 bytes can be made, written, read and bound") {
    const vkattn::Buffer buffer = test_device().context().buffer(std::uint64_t{0});
    vkattn::Buffer written = test_device().context().buffer(std::uint64_t{0});
    written.write(std::vector<float>());
    written.read(std::vector<float>());
    vkattn_norm_desc norm{};
    norm.input = norm.output = vkattn::tensor(VKATTN_TYPE_F32, {1, 0, 8});
    norm.weight = vkattn::tensor(VKATTN_TYPE_F32, {8});
    const std::vector<vkattn_binding> bindings = {vkattn::bind(VKATTN_ROLE_INPUT, buffer),
                                                  vkattn::bind(VKATTN_ROLE_OUTPUT, written)};
    CHECK_NOTHROW(test_device().context().norm_plan(norm).run(bindings));
}

TEST_SUITE_END();
