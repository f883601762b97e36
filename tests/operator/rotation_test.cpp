// K and V that are stored rotated by the Walsh-Hadamard matrix: attention, appends and caches against float64.
#include "compare.hpp"
#include "layer_cases.hpp"
#include "messages.hpp"
#include "sequence_cases.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

using namespace vkattn_test;

namespace {

const vkattn_cache_info kRotated = [] {
    vkattn_cache_info info{};
    info.key_rotation = info.value_rotation = VKATTN_ROTATION_HADAMARD;
    return info;
}();

void rotate_both(vkattn_attention_desc &desc) { desc.key_rotation = desc.value_rotation = VKATTN_ROTATION_HADAMARD; }

struct RotationCase {
    std::uint64_t heads, kv_heads, q_len, kv_len, head_dim, v_head_dim;
    vkattn_type query = VKATTN_TYPE_F32, key = VKATTN_TYPE_F32, value = VKATTN_TYPE_F32, output = VKATTN_TYPE_F32;
    bool keys = true, values = true, value_in_key = false;
};

void check(const RotationCase &c) {
    CAPTURE(c.head_dim);
    CAPTURE(c.v_head_dim);
    CAPTURE(type_name(c.query));
    CAPTURE(type_name(c.key));
    CAPTURE(type_name(c.value));
    std::mt19937 random(19);
    AttentionProblem p;
    p.query = normal_tensor(c.query, {2, c.heads, c.q_len, c.head_dim}, random);
    p.key = normal_tensor(c.key, {2, c.kv_heads, c.kv_len, c.head_dim}, random);
    p.value_in_key = c.value_in_key;
    p.value = c.value_in_key ? first_columns(p.key, c.v_head_dim)
                             : normal_tensor(c.value, {2, c.kv_heads, c.kv_len, c.v_head_dim}, random);
    p.keys_rotated = c.keys;
    p.values_rotated = c.values;
    p.mask_flags = VKATTN_MASK_CAUSAL;
    p.causal_alignment = VKATTN_CAUSAL_BOTTOM_RIGHT;
    const AttentionReference reference = reference_attention(p);
    AttentionResults results = all_results(p, VKATTN_KERNEL_AUTO, c.output); // what rotates is around any kernel
    check_attention(p, reference, results, VKATTN_KERNEL_AUTO);
}

// V is the first part of MLA's rows: whole blocks of theirs, of 32 elements.
LayerCase with_whole_blocks(const LayerCase &c) {
    if (c.config.kv_lora_rank == 0) return c;
    vkattn_layer_config config = c.config;
    config.kv_lora_rank = 64;
    config.qk_rope_head_dim = 32;
    return layer_case(c.name, config);
}

} // namespace

TEST_SUITE_BEGIN("rotation");

TEST_CASE_FIXTURE(DeviceTest, "attention of rotated keys and values is what it is without") {
    for (const auto &[keys, values] : {std::pair{true, true}, {true, false}, {false, true}})
        check({.heads = 4,
               .kv_heads = 2,
               .q_len = 5,
               .kv_len = 40,
               .head_dim = 64,
               .v_head_dim = 96,
               .keys = keys,
               .values = values});
    for (const std::uint64_t size : {7, 24, 256, 512}) // blocks of 1, 8, 256, 512
        check({.heads = 2, .kv_heads = 1, .q_len = 3, .kv_len = 20, .head_dim = size, .v_head_dim = size});
    for (const vkattn_type type : {VKATTN_TYPE_BF16, VKATTN_TYPE_Q4_0, VKATTN_TYPE_F8_E4M3})
        check({.heads = 8,
               .kv_heads = 2,
               .q_len = 1,
               .kv_len = 300,
               .head_dim = 128,
               .v_head_dim = 64,
               .query = VKATTN_TYPE_F16,
               .key = type,
               .value = type,
               .output = VKATTN_TYPE_BF16});
    check({.heads = 16,
           .kv_heads = 1,
           .q_len = 2,
           .kv_len = 70,
           .head_dim = 576,
           .v_head_dim = 512,
           .query = VKATTN_TYPE_F16,
           .key = VKATTN_TYPE_F16,
           .output = VKATTN_TYPE_F16,
           .value_in_key = true});
}

TEST_CASE_FIXTURE(DeviceTest, "rotated numbers that f16 does not hold do not overflow on the way") {
    std::mt19937 random(25);
    for (const vkattn_type query : {VKATTN_TYPE_F32, VKATTN_TYPE_F16})
        for (const std::uint64_t size :
             {std::uint64_t{64}, std::uint64_t{128}}) { // of an even and of an odd power of two
            AttentionProblem p;
            p.query = HostTensor(query, {1, 2, 4, size});
            p.key = normal_tensor(VKATTN_TYPE_Q8_0, {1, 1, 20, size}, random, 1e-4f);
            p.value = HostTensor(VKATTN_TYPE_Q8_0, {1, 1, 20, size});
            for (std::uint64_t i = 0; i < p.query.elements(); ++i) p.query.set(i, 6000.0f);
            std::array<float, kBlockElements> block{}; // what 6000 in each element becomes
            for (std::uint64_t i = 0; i < p.value.elements(); i += kBlockElements) {
                block[0] = i % size == 0 ? 6000.0f * std::sqrt(static_cast<float>(size)) : 0.0f;
                p.value.set_block(i, block);
            }
            p.keys_rotated = p.values_rotated = true;
            const AttentionReference reference = reference_attention(p);
            AttentionResults results = all_results(p, VKATTN_KERNEL_FLASH, VKATTN_TYPE_F16);
            check_attention(p, reference, results, VKATTN_KERNEL_FLASH);
            CHECK(results.output.get(0) == doctest::Approx(6000.0).epsilon(0.01));
        }
}

TEST_CASE_FIXTURE(DeviceTest, "packed queries over packed and paged keys, beside rows that are of no sequence") {
    for (const Keys keys : {Keys::kPacked, Keys::kPaged}) {
        std::mt19937 random(24);
        SequencesCase c;
        c.lengths = {{1, 50}, {7, 33}, {0, 5}, {3, 120}};
        c.keys = keys;
        c.mask_flags = VKATTN_MASK_CAUSAL;
        c.alignment = VKATTN_CAUSAL_BOTTOM_RIGHT;
        c.head_dim = c.v_head_dim = 64;
        std::vector<Sequence> sequences = make_sequences(c, random);
        SequencesBatch batch = make_batch(c, sequences, random);
        for (Sequence &sequence : sequences) sequence.problem.keys_rotated = sequence.problem.values_rotated = true;
        const ExpectedSequences expected = expect(c, sequences, batch);
        for (const vkattn_kernel kernel : {VKATTN_KERNEL_AUTO, VKATTN_KERNEL_FLASH, VKATTN_KERNEL_DECODE}) {
            CAPTURE(kernel_text(kernel));
            vkattn_attention_desc desc = describe(c, batch, kernel);
            rotate_both(desc);
            test_device().run(test_device().context().attention_plan(desc), regions_of(batch));
            const Comparison output =
                compare("output", batch.output.shape(), expected.output, batch.output.floats(), 1e-10);
            CHECK_MESSAGE(output.passed, output.report);
        }
        batch.cu_seqlens_q.set(4, 10.0f); // and the last row, number 10, is of no sequence
        for (std::uint64_t i = 0; i < batch.output.elements(); ++i) batch.output.set(i, 7.0f);
        vkattn_attention_desc desc = describe(c, batch, VKATTN_KERNEL_AUTO);
        rotate_both(desc);
        std::vector<Region> regions = regions_of(batch);
        for (Region &region : regions)
            if (region.role == VKATTN_ROLE_OUTPUT) region.access = Access::kReadWrite;
        test_device().run(test_device().context().attention_plan(desc), regions);
        for (std::uint64_t h = 0; h < c.query_heads; ++h)
            for (std::uint64_t i = 0; i < c.v_head_dim; ++i)
                CHECK(batch.output.get((h * 11 + 10) * c.v_head_dim + i) == 7.0f);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "appended rows are rotated, and then rounded") {
    std::mt19937 random(20);
    for (const vkattn_type to : cached_types())
        for (const std::uint64_t size : {96, 512, 1536, 2560}) { // the last: a block of 512 after the other
            if (size != 96 && to != VKATTN_TYPE_F16 && to != VKATTN_TYPE_Q4_0) continue; // of blocks and of floats
            const vkattn_type from = size == 96 ? VKATTN_TYPE_F32 : VKATTN_TYPE_F16;
            CAPTURE(type_name(from));
            CAPTURE(type_name(to));
            CAPTURE(size);
            HostTensor source = normal_tensor(from, {1, 2, 3, size}, random), cache(to, {1, 2, 3, size});
            vkattn_kv_append_desc desc{};
            desc.source = source.view();
            desc.cache = cache.view();
            desc.rotation = VKATTN_ROTATION_HADAMARD;
            const std::array regions{Region{VKATTN_ROLE_SOURCE, &source, Access::kRead},
                                     Region{VKATTN_ROLE_CACHE, &cache, Access::kReadWrite}};
            test_device().run(test_device().context().kv_append_plan(desc), regions);
            const std::vector<double> rotated = hadamard_rotated(source.values(), hadamard_block(size));
            HostTensor expected(to, {1, 2, 3, size});
            const std::vector<float> floats(rotated.begin(), rotated.end());
            for (std::uint64_t i = 0; i < floats.size(); i += kBlockElements)
                if (is_quantised(to))
                    expected.set_block(i, std::span<const float, kBlockElements>(&floats[i], kBlockElements));
                else
                    for (std::uint64_t j = i; j < i + kBlockElements; ++j) expected.set(j, floats[j]);
            // a sum at a tie may be rounded to either side of it
            CHECK(nmse(cache.floats(), expected.floats()) < (to == VKATTN_TYPE_F32 ? 1e-12 : 1e-3));
        }
}

TEST_CASE_FIXTURE(DeviceTest, "layers over rotated caches, and what cannot have one") {
    std::size_t served = 0;
    for (const LayerCase &given : cached_layers(true)) {
        if (given.config.kind == VKATTN_LAYER_ENCODER || given.config.kind == VKATTN_LAYER_MLA_BLOCK)
            continue; // of others
        CAPTURE(given.name);
        const LayerCase c = with_whole_blocks(given);
        const vkattn::Layer layer = make_layer(c);
        std::mt19937 random(21);
        const HostTensor input = normal_tensor(VKATTN_TYPE_F32, {2, 13, c.config.embed_dim}, random);
        const bool lifts = c.config.kind == VKATTN_LAYER_COMPRESSED_KV || c.config.mla_form == VKATTN_MLA_NAIVE;
        if (lifts && (c.config.kind == VKATTN_LAYER_COMPRESSED_KV || c.config.kv_lora_rank != 0)) {
            const vkattn::Cache cache = make_cache(layer, 2, 16, VKATTN_TYPE_F32, VKATTN_TYPE_F32, 0, kRotated);
            check_refused([&] { (void)append(layer, cache, input); }, "cache: of rotated");
            continue;
        }
        ++served;
        const HostTensor expected = prefill(layer, input);
        const bool paged = served == 1;
        for (const vkattn_type type : {VKATTN_TYPE_F32, VKATTN_TYPE_Q8_0}) {
            CAPTURE(type_name(type));
            const std::uint32_t pages = paged && type == VKATTN_TYPE_F32 ? 6 : 0;
            const vkattn::Cache cache = make_cache(layer, 2, 16, type, type, pages, kRotated);
            for (const auto &[first, len] : {std::pair{0, 9}, {9, 1}, {10, 3}})
                check_equal("chunk", append(layer, cache, tokens_of(input, first, len)),
                            tokens_of(expected, first, len), type == VKATTN_TYPE_F32 ? 1e-10 : 1e-2);
        }
    }
    CHECK(served >= 3);
}

TEST_CASE_FIXTURE(DeviceTest, "what is read of a rotated cache is what was appended, and outliers cost less") {
    const LayerCase c = cached_layers(true).front();
    const vkattn::Layer layer = make_layer(c);
    std::mt19937 random(23);
    HostTensor keys = normal_tensor(VKATTN_TYPE_F32, {2, c.config.num_kv_heads, 5, c.config.head_dim}, random);
    for (std::uint64_t i = 0; i < keys.elements(); i += c.config.head_dim) keys.set(i + 3, 40.0f);
    const HostTensor values = keys;
    const std::uint64_t count = keys.elements() / 2;
    const std::vector<float> all = keys.floats(), expected(all.begin() + static_cast<std::ptrdiff_t>(count), all.end());
    const auto error = [&](vkattn_type type, const vkattn_cache_info &info, vkattn_cache_part part) {
        const vkattn::Cache cache = make_cache(layer, 2, 9, type, type, 0, info);
        fill(cache, keys, values);
        return nmse(read(cache, part, 1, count), expected);
    };
    for (const vkattn_cache_part part : {VKATTN_CACHE_KEYS, VKATTN_CACHE_VALUES}) {
        CHECK(error(VKATTN_TYPE_F32, kRotated, part) < 1e-12);
        CHECK(error(VKATTN_TYPE_Q4_0, kRotated, part) < 0.5 * error(VKATTN_TYPE_Q4_0, {}, part));
    }
    const vkattn::Cache rotated = make_cache(layer, 2, 9, VKATTN_TYPE_F32, VKATTN_TYPE_F32, 0, kRotated);
    const vkattn::Cache plain = make_cache(layer, 2, 9, VKATTN_TYPE_F32, VKATTN_TYPE_F32);
    check_refused([&] { rotated.copy_sequence_to(0, plain, 1); },
                  "from: a cache of other heads, sizes, types or rotation");
}

TEST_CASE_FIXTURE(DeviceTest, "rotations that cannot be are named") {
    vkattn_attention_desc desc{};
    desc.query = desc.key = desc.output = vkattn::tensor(VKATTN_TYPE_F32, {1, 1, 4, 64});
    rotate_both(desc);
    const auto refused = [&](const char *expected) {
        check_refused([&] { (void)test_device().context().attention_plan(desc); }, expected);
    };
    desc.key_rotation = static_cast<vkattn_rotation>(2);
    refused("key_rotation: 2, expected a vkattn_rotation");
    desc.key_rotation = VKATTN_ROTATION_HADAMARD;
    desc.value_rotation = static_cast<vkattn_rotation>(3);
    refused("value_rotation: 3");
    rotate_both(desc);
    desc.output = vkattn::tensor(VKATTN_TYPE_F32, {1, 1, 4, 40});
    refused("output: head size 40, expected a multiple of 64");
}

TEST_SUITE_END();
