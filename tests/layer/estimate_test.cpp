// The estimator's arithmetic, against figures worked out by hand and published ones; no device is needed.
#include "runtime/layers/estimate.hpp"

#include <vkattn/estimate.h>

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <string>

namespace {

vkattn_layer_config named(const char *name, std::uint32_t d_model, std::uint32_t num_heads) {
    vkattn_layer_config config{};
    INFO(name, ": ", vkattn_last_error());
    REQUIRE(vkattn_layer_config_from_name(name, d_model, num_heads, &config) == VKATTN_SUCCESS);
    return config;
}

vkattn_estimate_result estimated(const vkattn_layer_config &config, const vkattn_estimate_info &info = {}) {
    vkattn_estimate_result result{};
    const vkattn_result status = vkattn_estimate(&config, &info, &result);
    INFO(vkattn_last_error());
    REQUIRE(status == VKATTN_SUCCESS);
    return result;
}

vkattn_layer_config deepseek_v3() {
    vkattn_layer_config config{};
    config.kind = VKATTN_LAYER_MLA;
    config.embed_dim = 7168;
    config.num_heads = 128;
    config.q_lora_rank = 1536;
    config.kv_lora_rank = 512;
    config.qk_nope_head_dim = 128;
    config.qk_rope_head_dim = 64;
    config.v_head_dim = 128;
    config.mla_form = VKATTN_MLA_ABSORB;
    config.rope_theta = 10000;
    return config;
}

vkattn_layer_config llama_3_8b() {
    vkattn_layer_config config = named("gqa-8", 4096, 32);
    config.head_dim = 128;
    return config;
}

bool says(const char *part) { return std::strstr(vkattn_last_error(), part) != nullptr; }

void check_refused(const vkattn_layer_config &config, const vkattn_estimate_info &info, const char *part) {
    vkattn_estimate_result result{};
    result.parameters = 77;
    CHECK(vkattn_estimate(&config, &info, &result) == VKATTN_ERROR_INVALID_ARGUMENT);
    INFO(vkattn_last_error());
    CHECK(says(part));
    CHECK(result.parameters == 77);
}

void check_name_refused(const char *name, std::uint32_t d_model, std::uint32_t num_heads, const char *part) {
    vkattn_layer_config config{};
    config.embed_dim = 77;
    CHECK(vkattn_layer_config_from_name(name, d_model, num_heads, &config) == VKATTN_ERROR_INVALID_ARGUMENT);
    INFO(name, ": ", vkattn_last_error());
    CHECK(says(part));
    CHECK(config.embed_dim == 77);
}

} // namespace

TEST_SUITE_BEGIN("estimate");

TEST_CASE("a variant's name gives its KV heads") {
    CHECK(named("mha", 4096, 32).num_kv_heads == 32);
    CHECK(named("mqa", 4096, 32).num_kv_heads == 1);
    CHECK(named("gqa-4", 4096, 32).num_kv_heads == 4);
    CHECK(named("gqa-16", 4096, 32).num_kv_heads == 16);
    CHECK(named("gqa-16", 4096, 32).kind == VKATTN_LAYER_MHA);
}

TEST_CASE("mla of DeepSeek's head size gets DeepSeek's sizes, and keeps the proportions of smaller ones") {
    const vkattn_layer_config large = named("mla", 4096, 32);
    CHECK(large.qk_nope_head_dim == 128);
    CHECK(large.v_head_dim == 128);
    CHECK(large.qk_rope_head_dim == 64);
    CHECK(large.kv_lora_rank == 512);
    CHECK(large.q_lora_rank == 0);
    const vkattn_layer_config small = named("mla", 60, 10);
    CHECK(small.qk_nope_head_dim == 6);
    CHECK(small.qk_rope_head_dim == 4); // 3 is odd
    CHECK(small.kv_lora_rank == 24);
    CHECK(named("mla", 4, 4).qk_rope_head_dim == 2);
}

TEST_CASE("every name gives a configuration that can be estimated") {
    for (const char *name : {"mha", "mqa", "gqa-4", "gqa-8", "mla", "latent_mha", "latent_query", "compressed_kv",
                             "encoder_layer", "mla_block"}) {
        INFO(name);
        CHECK(estimated(named(name, 512, 8)).parameters > 0);
    }
}

TEST_CASE("a name that cannot be served is refused with the reason") {
    check_name_refused("mqq", 64, 4, "mqq");
    check_name_refused("", 64, 4, "expected mha");
    check_name_refused("gqa-", 64, 4, "gqa-N");
    check_name_refused("gqa-0", 64, 4, "gqa-N");
    check_name_refused("gqa--1", 64, 4, "gqa-N");
    check_name_refused("gqa-2x", 64, 4, "gqa-N");
    check_name_refused("gqa-99999999999", 64, 4, "gqa-N");
    check_name_refused("gqa-3", 64, 4, "multiple of 3");
    check_name_refused("mha", 65, 4, "multiple of num_heads = 4");
    check_name_refused("mha", 64, 0, "num_heads is 0");
    check_name_refused("mha", 0, 4, "d_model is 0");
    check_name_refused("compressed_kv", 12, 4, "multiple of 8");
    check_name_refused("mla", 4294967295U, 1, "d_model");
    CHECK(vkattn_layer_config_from_name(nullptr, 64, 4, nullptr) == VKATTN_ERROR_INVALID_ARGUMENT);
    CHECK(vkattn_layer_config_from_name("mha", 64, 4, nullptr) == VKATTN_ERROR_INVALID_ARGUMENT);
}

TEST_CASE("published models keep their published caches") {
    vkattn_estimate_info info{};
    info.weight_type = VKATTN_TYPE_BF16;
    info.num_layers = 32;
    // Llama 3 8B: 128 KiB a token in bf16.
    CHECK(estimated(llama_3_8b(), info).cache_bytes_per_token == 131072);
    // DeepSeek-V3: 70.272 KB a token in bf16 (arXiv 2505.09343, table 1), and 187 M parameters of attention a layer.
    info.num_layers = 61;
    CHECK(estimated(deepseek_v3(), info).cache_bytes_per_token == 70272);
    CHECK(estimated(deepseek_v3()).parameters == 187107328);
}

TEST_CASE("biases are counted only when asked for") {
    const vkattn_layer_config config = named("gqa-2", 64, 8);
    vkattn_estimate_info info{};
    CHECK(estimated(config, info).parameters == 64 * 64 + 2 * 16 * 64 + 64 * 64);
    info.with_biases = 1;
    CHECK(estimated(config, info).parameters == 64 * 64 + 2 * 16 * 64 + 64 * 64 + 64 + 2 * 16 + 64);
}

TEST_CASE("types set the bytes of weights and cache") {
    const vkattn_layer_config config = named("mha", 256, 4); // rows of 64 values, 8 of them a token
    vkattn_estimate_info info{};
    CHECK(estimated(config, info).weight_bytes == 2 * 4 * 256 * 256);
    info.weight_type = VKATTN_TYPE_F32;
    CHECK(estimated(config, info).weight_bytes == 4 * 4 * 256 * 256);
    CHECK(estimated(config, info).cache_bytes_per_token == 512 * 4);
    info.cache_type = VKATTN_TYPE_Q8_0;
    CHECK(estimated(config, info).cache_bytes_per_token == 512 * 34 / 32);
    info.cache_type = VKATTN_TYPE_Q4_0;
    CHECK(estimated(config, info).cache_bytes_per_token == 512 * 18 / 32);
    // A row of 40 values takes two blocks.
    CHECK(estimated(named("mha", 160, 4), info).cache_bytes_per_token == 8 * 2 * 18);
}

TEST_CASE("FLOPs of a small layer, worked out by hand") {
    // 4 query heads and 2 KV heads of 8; 10 tokens, 3 sequences.
    const vkattn_layer_config config = named("gqa-2", 32, 4);
    vkattn_estimate_info info{};
    info.batch = 3;
    info.context_len = 10;
    const vkattn_estimate_result result = estimated(config, info);
    const double weights = 32 * 32 + 2 * 16 * 32 + 32 * 32;
    CHECK(result.prefill_projection_flops == 3 * 10 * 2 * weights);
    CHECK(result.prefill_attention_flops == 3.0 * 2 * 4 * 10 * 10 * (8 + 8));
    CHECK(result.decode_projection_flops == 3 * 2 * weights);
    CHECK(result.decode_attention_flops == 3.0 * 2 * 4 * 10 * (8 + 8));
    // f16: the weights, 10 tokens of cache read and one written, each 2 * 2 * 8 values.
    const double moved = 2 * weights + 3 * 11 * 32 * 2;
    CHECK(static_cast<double>(result.decode_bytes) == moved);
    CHECK(result.decode_intensity == doctest::Approx((3 * 2 * weights + 3 * 2 * 4 * 10 * 16) / moved));
}

TEST_CASE("a causal prefill costs what its decode steps do, but for the diagonal") {
    constexpr std::uint64_t kTokens = 64;
    for (const char *name : {"mha", "mqa", "mla", "latent_mha", "compressed_kv"}) {
        INFO(name);
        const vkattn_layer_config config = named(name, 128, 4);
        double steps = 0;
        vkattn_estimate_info info{};
        for (info.context_len = 1; info.context_len <= kTokens; ++info.context_len)
            steps += estimated(config, info).decode_attention_flops;
        info.context_len = kTokens;
        const double diagonal = estimated(config, info).decode_attention_flops / 2;
        info.causal = 1;
        CHECK(estimated(config, info).prefill_attention_flops == doctest::Approx(steps - diagonal));
    }
}

TEST_CASE("mla: the absorbed form widens attention, the naive form expands its cache at every step") {
    vkattn_layer_config config = named("mla", 256, 4); // nope 64, rope 32, v 64, rank 256
    vkattn_estimate_info info{};
    info.context_len = 1000;
    info.prefill_len = 100;
    const vkattn_estimate_result absorb = estimated(config, info);
    config.mla_form = VKATTN_MLA_NAIVE;
    const vkattn_estimate_result naive = estimated(config, info);
    CHECK(absorb.decode_attention_flops == 2.0 * 4 * 1000 * (256 + 32 + 256));
    CHECK(naive.decode_attention_flops == 2.0 * 4 * 1000 * (64 + 32 + 64));
    const double wkv_b = 2.0 * 4 * (64 + 64) * 256;
    CHECK(naive.decode_projection_flops - absorb.decode_projection_flops == doctest::Approx(999 * wkv_b));
    CHECK(naive.prefill_projection_flops == absorb.prefill_projection_flops);
    CHECK(naive.cache_bytes == absorb.cache_bytes);
    CHECK(naive.parameters == absorb.parameters);
}

TEST_CASE("latent queries read the sequence in linear time and keep nothing") {
    vkattn_layer_config config = named("latent_query", 64, 4);
    config.num_latents = 16;
    vkattn_estimate_info info{};
    info.context_len = 100;
    info.causal = 1;
    info.memory_bytes = 1U << 30U;
    const vkattn_estimate_result result = estimated(config, info);
    CHECK(result.prefill_attention_flops == 2.0 * 4 * 16 * 100 * (16 + 16));
    CHECK(result.prefill_projection_flops == 2.0 * 64 * 64 * (16 + 100 + 100 + 16));
    CHECK(result.cache_bytes_per_token == 0);
    CHECK(result.decode_bytes == 0);
    CHECK(result.decode_projection_flops == 0);
    CHECK(result.max_sequences == std::numeric_limits<std::uint64_t>::max());
}

TEST_CASE("the longest context fits the memory, and one token more does not") {
    vkattn_estimate_info info{};
    info.batch = 3;
    info.num_layers = 5;
    info.context_len = 100;
    info.memory_bytes = 123456789;
    for (const char *name : {"mha", "mqa", "mla", "compressed_kv"}) {
        INFO(name);
        const vkattn_layer_config config = named(name, 512, 8);
        vkattn_estimate_info longest = info;
        longest.context_len = estimated(config, info).max_context_len;
        const vkattn_estimate_result at_most = estimated(config, longest);
        CHECK(at_most.weight_bytes + at_most.cache_bytes <= info.memory_bytes);
        ++longest.context_len;
        const vkattn_estimate_result too_long = estimated(config, longest);
        CHECK(too_long.weight_bytes + too_long.cache_bytes > info.memory_bytes);
    }
}

TEST_CASE("as many sequences as are said fit the memory, and one more does not") {
    const vkattn_layer_config config = named("gqa-2", 512, 8);
    vkattn_estimate_info info{};
    info.context_len = 1000;
    info.memory_bytes = 123456789;
    info.batch = static_cast<std::uint32_t>(estimated(config, info).max_sequences);
    REQUIRE(info.batch > 0);
    CHECK(estimated(config, info).weight_bytes + estimated(config, info).cache_bytes <= info.memory_bytes);
    ++info.batch;
    CHECK(estimated(config, info).weight_bytes + estimated(config, info).cache_bytes > info.memory_bytes);
}

TEST_CASE("nothing fits where the weights do not") {
    const vkattn_layer_config config = named("mha", 512, 8);
    vkattn_estimate_info info{};
    info.memory_bytes = 2 * 4 * 512 * 512 - 1;
    CHECK(estimated(config, info).max_context_len == 0);
    CHECK(estimated(config, info).max_sequences == 0);
    info.memory_bytes += 1; // the weights, and no room for a token
    CHECK(estimated(config, info).max_context_len == 0);
}

TEST_CASE("an absent description of the use is one of defaults") {
    const vkattn_layer_config config = named("mha", 64, 4);
    vkattn_estimate_result result{};
    REQUIRE(vkattn_estimate(&config, nullptr, &result) == VKATTN_SUCCESS);
    CHECK(result.weight_bytes == 2 * result.parameters);
    CHECK(result.cache_bytes == result.cache_bytes_per_token);
    CHECK(vkattn_estimate(nullptr, nullptr, &result) == VKATTN_ERROR_INVALID_ARGUMENT);
    CHECK(vkattn_estimate(&config, nullptr, nullptr) == VKATTN_ERROR_INVALID_ARGUMENT);
}

TEST_CASE("an indexer's keys are cached too, and a step attends what it lists") {
    vkattn_layer_config config = deepseek_v3();
    vkattn_estimate_info info{};
    info.context_len = 10000;
    info.causal = 1;
    const vkattn_estimate_result dense = estimated(config, info);
    config.index_n_heads = 64;
    config.index_head_dim = 128;
    config.index_topk = 2048;
    const vkattn_estimate_result sparse = estimated(config, info);
    CHECK(sparse.cache_bytes_per_token == (512 + 64 + 128) * 2);
    CHECK(sparse.parameters - dense.parameters == 64 * 128 * 1536 + (128 + 64) * 7168 + 128);
    const double choice = 2.0 * 64 * 128, pair = 2.0 * 128 * (512 + 64 + 512);
    CHECK(sparse.decode_attention_flops == 10000 * choice + 2048 * pair);
    CHECK(static_cast<double>(sparse.decode_bytes) ==
          2.0 * static_cast<double>(sparse.parameters) + 2.0 * (128 * 10001 + 576 * 2049));
    double seen = 0, attended = 0; // the diagonal counts half
    for (int i = 0; i < 10000; ++i) {
        seen += i + 0.5;
        attended += i < 2048 ? i + 0.5 : 2048;
    }
    CHECK(sparse.prefill_attention_flops == doctest::Approx(seen * choice + attended * pair));
    info.context_len = 2048;
    CHECK(estimated(config, info).decode_attention_flops == 2048 * (choice + pair));
}

TEST_CASE("a configuration that no layer could have is refused with the reason") {
    vkattn_layer_config config = named("mha", 64, 4);
    config.num_kv_heads = 3;
    check_refused(config, {}, "multiple of num_kv_heads 3");
    config = named("mha", 64, 4);
    config.embed_dim = 66;
    check_refused(config, {}, "embed_dim: 66");
    config.num_heads = 0;
    check_refused(config, {}, "num_heads: 0");
    config = named("mla", 64, 4);
    config.qk_rope_head_dim = 3;
    check_refused(config, {}, "qk_rope_head_dim: 3");
    config = named("mla", 64, 4);
    config.mla_form = static_cast<vkattn_mla_form>(9);
    check_refused(config, {}, "mla_form: 9");
    config = named("encoder_layer", 64, 4);
    config.ffn_dim = 0;
    check_refused(config, {}, "ffn_dim: 0");
    config.kind = static_cast<vkattn_layer_kind>(40);
    check_refused(config, {}, "kind: 40");
}

TEST_CASE("quantised weights are counted by the blocks of their rows, vectors beside them in f32") {
    const vkattn_layer_config mha = named("mha", 64, 4); // four matrices of 64 x 64
    CHECK(vkattn::weight_bytes(mha, false, VKATTN_TYPE_F16) == 4 * 64 * 64 * 2);
    CHECK(vkattn::weight_bytes(mha, false, VKATTN_TYPE_Q8_0) == 4 * 64 * 2 * 34);
    CHECK(vkattn::weight_bytes(mha, true, VKATTN_TYPE_Q4_0) == 4 * 64 * 2 * 18 + 4 * 64 * 4);
    vkattn_layer_config mla = deepseek_v3();
    const std::uint64_t wkv_b = 128 * (128 + 128) * 512; // which the absorbed form reads by columns
    const std::uint64_t absorbed = vkattn::weight_bytes(mla, false, VKATTN_TYPE_Q8_0);
    mla.mla_form = VKATTN_MLA_NAIVE;
    CHECK(absorbed - vkattn::weight_bytes(mla, false, VKATTN_TYPE_Q8_0) == wkv_b * 4 - wkv_b / 32 * 34);
}

TEST_CASE("types and sizes that cannot be are refused with the reason") {
    const vkattn_layer_config config = named("mha", 64, 4);
    vkattn_estimate_info info{};
    info.weight_type = VKATTN_TYPE_BOOL;
    check_refused(config, info, "weight_type");
    info.weight_type = VKATTN_TYPE_F16;
    info.cache_type = VKATTN_TYPE_BOOL;
    check_refused(config, info, "cache_type");
    info.cache_type = VKATTN_TYPE_F16;
    info.context_len = std::numeric_limits<std::uint64_t>::max();
    check_refused(config, info, "64 bits");
    vkattn_layer_config huge = named("mha", 1U << 29U, 1);
    huge.num_heads = huge.num_kv_heads = huge.head_dim = 1U << 29U;
    check_refused(huge, {}, "64 bits");
    huge.head_dim = std::numeric_limits<std::uint32_t>::max();
    check_refused(huge, {}, "head_dim: 4294967295, expected at most 2^29");
}

TEST_SUITE_END();
