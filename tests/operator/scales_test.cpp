// Scales of K and V whose types, floats of 8 bits, have none of their own: attention, appends and caches against float64.
#include "attention_draws.hpp"
#include "compare.hpp"
#include "layer_cases.hpp"
#include "messages.hpp"
#include "sequence_cases.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

using namespace vkattn_test;

namespace {

constexpr vkattn_type kTypes[] = {VKATTN_TYPE_F8_E4M3, VKATTN_TYPE_F8_E5M2};

// Of a cache: how it scales, and by which numbers where they are given.
vkattn_cache_info scaling(vkattn_scaling key, vkattn_scaling value, std::span<const float> key_scales = {},
                          std::span<const float> value_scales = {}) {
    vkattn_cache_info info{};
    info.key_scaling = key;
    info.value_scaling = value;
    info.key_scales = key_scales.data();
    info.key_scale_count = static_cast<std::uint32_t>(key_scales.size());
    info.value_scales = value_scales.data();
    info.value_scale_count = static_cast<std::uint32_t>(value_scales.size());
    return info;
}

const vkattn_cache_info kOfRows = scaling(VKATTN_SCALING_ROW, VKATTN_SCALING_ROW);
constexpr unsigned kEachRow = 7; // batch entry, head and position: bits of random_scales

struct ScalesCase {
    std::uint64_t heads, kv_heads, q_len, kv_len, head_dim, v_head_dim;
    vkattn_type query = VKATTN_TYPE_F16, key = VKATTN_TYPE_F8_E4M3, value = VKATTN_TYPE_F8_E5M2;
    unsigned key_scales = kEachRow, value_scales = kEachRow; // bits of random_scales
    bool value_in_key = false;
};

AttentionProblem problem_of(const ScalesCase &c, std::mt19937 &random) {
    AttentionProblem p;
    p.query = normal_tensor(c.query, {2, c.heads, c.q_len, c.head_dim}, random);
    p.key = normal_tensor(c.key, {2, c.kv_heads, c.kv_len, c.head_dim}, random);
    p.value_in_key = c.value_in_key;
    p.value = c.value_in_key ? first_columns(p.key, c.v_head_dim)
                             : normal_tensor(c.value, {2, c.kv_heads, c.kv_len, c.v_head_dim}, random);
    p.key_scales = random_scales(p.key.shape(), c.key_scales, random);
    if (!c.value_in_key && is_quantised(c.value) && c.value != VKATTN_TYPE_Q8_0)
        p.value_scales = random_scales(p.value.shape(), c.value_scales, random);
    p.mask_flags = VKATTN_MASK_CAUSAL;
    p.causal_alignment = VKATTN_CAUSAL_BOTTOM_RIGHT;
    return p;
}

// The scale of a row, and its bytes, as an append makes them.
void encode_row(std::span<const double> row, HostTensor &rows, HostTensor &scales, std::uint64_t index, bool makes) {
    const float most = rows.type() == VKATTN_TYPE_F8_E4M3 ? 448.0f : 57344.0f;
    if (makes) {
        double largest = 0.0;
        for (const double value : row)
            if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
        scales.set(index, static_cast<float>(largest) / most);
    }
    const float scale = scales.elements() == 1 ? scales.get(0) : scales.get(index);
    const float inverse = scale != 0.0f ? 1.0f / scale : 0.0f;
    for (std::uint64_t i = 0; i < row.size(); i += kBlockElements) {
        std::array<float, kBlockElements> block;
        for (std::size_t j = 0; j < kBlockElements; ++j) block[j] = static_cast<float>(row[i + j]) * inverse;
        rows.set_block(index * row.size() + i, block);
    }
}

struct AppendCase {
    vkattn_type to;
    bool makes; // scales of rows; else one of the tensor is read
    bool rotates;
    std::uint64_t size = 96; // elements of a row
};

// Rows of ordinary numbers, of zeros, with an infinity, and too small for a scale.
HostTensor rows_of_all_kinds(std::uint64_t size, std::mt19937 &random) {
    HostTensor source = normal_tensor(VKATTN_TYPE_F32, {1, 2, 5, size}, random, 30.0f);
    for (std::uint64_t i = 0; i < size; ++i) {
        source.set(size + i, 0.0f);
        source.set(3 * size + i, 1e-37f);
    }
    source.set(2 * size + 7, HUGE_VALF);
    return source;
}

void check_append(const AppendCase &c) {
    CAPTURE(type_name(c.to));
    CAPTURE(c.makes);
    CAPTURE(c.rotates);
    CAPTURE(c.size);
    const std::uint64_t size = c.size;
    std::mt19937 random(30);
    HostTensor source =
        c.rotates ? normal_tensor(VKATTN_TYPE_F32, {1, 2, 5, size}, random) : rows_of_all_kinds(size, random);
    HostTensor cache(c.to, {1, 2, 5, size}), expected(c.to, {1, 2, 5, size});
    const Shape shape = c.makes ? Shape{1, 2, 5, 1} : Shape{1, 1, 1, 1};
    HostTensor scales(VKATTN_TYPE_F32, shape), expected_scales(VKATTN_TYPE_F32, shape);
    if (!c.makes) scales.set(0, 0.37f);
    if (!c.makes) expected_scales.set(0, 0.37f);
    vkattn_kv_append_desc desc{};
    desc.source = source.view();
    desc.cache = cache.view();
    if (c.rotates) desc.rotation = VKATTN_ROTATION_HADAMARD;
    desc.scales = scales.view();
    desc.makes_scales = c.makes;
    const std::array regions{Region{VKATTN_ROLE_SOURCE, &source, Access::kRead},
                             Region{VKATTN_ROLE_CACHE, &cache, Access::kReadWrite},
                             Region{VKATTN_ROLE_KEY_SCALES, &scales, Access::kReadWrite}};
    test_device().run(test_device().context().kv_append_plan(desc), regions);
    const std::vector<double> rows =
        c.rotates ? hadamard_rotated(source.values(), hadamard_block(size)) : source.values();
    for (std::uint64_t row = 0; row < 10; ++row)
        encode_row(std::span(rows).subspan(row * size, size), expected, expected_scales, row, c.makes);
    for (std::uint64_t i = 0; i < scales.elements(); ++i) {
        const float made = scales.get(i), wanted = expected_scales.get(i);
        if (c.rotates) // a sum's last bits
            CHECK(made == doctest::Approx(wanted).epsilon(1e-6));
        else
            CHECK(made == (wanted < std::numeric_limits<float>::min() ? 0.0f : wanted));
    }
    std::uint64_t differing = 0;
    for (std::uint64_t i = 0; i < cache.elements(); ++i) {
        const bool vanishes = c.makes && !c.rotates && i / size == 3; // too small for a scale
        const float wanted = vanishes ? 0.0f : expected.get(i);
        const bool same = cache.get(i) == wanted || (std::isnan(cache.get(i)) && std::isnan(wanted));
        differing += same ? 0u : 1u;
    }
    CHECK(differing <= (c.rotates ? 9 * size / 96 : 0)); // a sum beside a tie
}

// Elements far above the largest number of F8_E4M3, and far below its least.
HostTensor rows_out_of_range(const LayerCase &c, std::mt19937 &random) {
    HostTensor rows = normal_tensor(VKATTN_TYPE_F32, {2, c.config.num_kv_heads, 5, c.config.head_dim}, random);
    for (std::uint64_t i = 0; i < rows.elements(); ++i)
        rows.set(i, rows.get(i) * (i / c.config.head_dim % 2 == 0 ? 3000.0f : 1e-4f));
    return rows;
}

// V becomes f16 there.
void check_on_matrix_units(const AttentionProblem &problem) {
    const vkattn_kernel kernel = has_matrix_kernels() ? VKATTN_KERNEL_COOPMAT : VKATTN_KERNEL_FLASH;
    AttentionResults results = all_results(problem, kernel, VKATTN_TYPE_F32);
    check_attention(problem, reference_attention(problem), results, kernel);
}

// info: its scales.
std::string scaling_message(vkattn_type type, vkattn_cache_info info, bool layer_of_mla = false) {
    info.kv_heads = 2;
    info.head_dim = 32;
    info.v_head_dim = layer_of_mla ? 0 : 32;
    info.batch = 1;
    info.capacity = 8;
    info.key_type = info.value_type = type;
    return message_of([&] { (void)test_device().context().cache(info); });
}

} // namespace

TEST_SUITE_BEGIN("scales");

TEST_CASE_FIXTURE(DeviceTest, "attention multiplies K and V with their scales, in every kernel") {
    std::mt19937 random(29);
    for (const unsigned bits : {0u, 2u, 5u, 7u}) // of the tensor, each head, each entry's rows, each row
        check_every_kernel(problem_of({.heads = 4,
                                       .kv_heads = 2,
                                       .q_len = bits == 5 ? 70u : 3u,
                                       .kv_len = 90,
                                       .head_dim = 64,
                                       .v_head_dim = 96,
                                       .query = bits % 2 == 0 ? VKATTN_TYPE_F16 : VKATTN_TYPE_F32,
                                       .key = kTypes[bits % 2],
                                       .value = kTypes[bits / 2 % 2],
                                       .key_scales = bits,
                                       .value_scales = kEachRow - bits},
                                      random),
                           VKATTN_TYPE_F32);
    for (const std::uint64_t q_len : {1, 33}) // one of the two scaled, decodes and prefills
        check_every_kernel(problem_of({.heads = 8,
                                       .kv_heads = 1,
                                       .q_len = q_len,
                                       .kv_len = 600,
                                       .head_dim = 128,
                                       .v_head_dim = 128,
                                       .value = VKATTN_TYPE_Q8_0},
                                      random),
                           VKATTN_TYPE_F16);
    for (const std::uint64_t q_len : {1, 5}) // of MLA
        check_every_kernel(problem_of({.heads = 16,
                                       .kv_heads = 1,
                                       .q_len = q_len,
                                       .kv_len = 300,
                                       .head_dim = 576,
                                       .v_head_dim = 512,
                                       .value_in_key = true},
                                      random),
                           VKATTN_TYPE_F16);
}

TEST_CASE_FIXTURE(DeviceTest, "a value that no query sees may have any scale") {
    std::mt19937 random(31);
    AttentionProblem p =
        problem_of({.heads = 4, .kv_heads = 2, .q_len = 3, .kv_len = 90, .head_dim = 64, .v_head_dim = 64}, random);
    p.key_padding_mask = HostTensor(VKATTN_TYPE_BOOL, {2, 90});
    for (std::uint64_t i = 0; i < 180; ++i) p.key_padding_mask.set(i, i % 3 == 1 ? 1.0f : 0.0f);
    const AttentionReference reference = reference_attention(p);
    for (std::uint64_t b = 0; b < 2; ++b)
        for (std::uint64_t h = 0; h < 2; ++h)
            for (std::uint64_t j = 0; j < 90; ++j)
                if (p.key_padding_mask.get(b * 90 + j) != 0.0f) {
                    p.key_scales.set((b * 2 + h) * 90 + j, j % 2 == 0 ? NAN : HUGE_VALF);
                    p.value_scales.set((b * 2 + h) * 90 + j, j % 2 == 0 ? HUGE_VALF : NAN);
                }
    for (const vkattn_kernel kernel : kernels_for(p)) {
        AttentionResults results = all_results(p, kernel, VKATTN_TYPE_F32);
        results.qk_matmul_output = {}; // shows hidden keys' scores, too
        check_attention(p, reference, results, kernel);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "attention whose scales of values are far from 1, and far apart") {
    for (const unsigned bits : {0u, 7u}) // of the tensor, each row
        for (const float scale : {1e-10f, 1e-7f, 200.0f, 1e4f}) {
            CAPTURE(bits);
            CAPTURE(scale);
            std::mt19937 random(37);
            AttentionProblem p = problem_of({.heads = 16,
                                             .kv_heads = 1,
                                             .q_len = 3,
                                             .kv_len = 90,
                                             .head_dim = 64,
                                             .v_head_dim = 64,
                                             .value = kTypes[bits % 2],
                                             .value_scales = bits},
                                            random);
            p.value = normal_tensor(p.value.type(), p.value.shape(), random, 100.0f);
            for (std::uint64_t i = 0; i < p.value_scales.elements(); ++i)
                p.value_scales.set(i, p.value_scales.get(i) * (bits == 7 && i % 5 == 0 ? 1e4f * scale : scale));
            check_on_matrix_units(p);
        }
}

TEST_CASE_FIXTURE(DeviceTest, "attention beside a huge scale of a value that no query sees") {
    std::mt19937 random(38);
    AttentionProblem p =
        problem_of({.heads = 16, .kv_heads = 1, .q_len = 3, .kv_len = 90, .head_dim = 64, .v_head_dim = 64}, random);
    p.key_padding_mask = HostTensor(VKATTN_TYPE_BOOL, {2, 90});
    for (std::uint64_t i = 0; i < 180; i += 3) {
        p.key_padding_mask.set(i, 1.0f);
        p.value_scales.set(i, 1e30f);
    }
    check_on_matrix_units(p);
}

TEST_CASE_FIXTURE(DeviceTest, "attention over values of quantised blocks that are larger than f16 holds") {
    for (const vkattn_type type : {VKATTN_TYPE_Q8_0, VKATTN_TYPE_Q4_1, VKATTN_TYPE_Q5_0, VKATTN_TYPE_IQ4_NL}) {
        const std::uint64_t q_len = type == VKATTN_TYPE_Q8_0 || type == VKATTN_TYPE_Q4_1 ? 3 : 16; // masked, and not
        CAPTURE(type_name(type));
        std::mt19937 random(39);
        AttentionProblem p;
        p.query = normal_tensor(VKATTN_TYPE_F16, {1, 16, q_len, 64}, random);
        p.key = normal_tensor(VKATTN_TYPE_F16, {1, 1, 90, 64}, random);
        HostTensor values = normal_tensor(VKATTN_TYPE_F32, {1, 1, 90, 64}, random);
        p.value = HostTensor(type, values.shape());
        for (std::uint64_t i = 0; i < values.elements(); i += kBlockElements) {
            std::array<float, kBlockElements> block;
            for (std::uint64_t j = 0; j < kBlockElements; ++j) {
                const float number = std::clamp(values.get(i + j), -2.5f, 2.5f); // scales and minimums are f16
                const bool large = i / 64 % 7 == 0;
                block[j] = large ? 3e5f * (type == VKATTN_TYPE_Q4_1 ? std::fabs(number) : number) : number;
            }
            p.value.set_block(i, block);
        }
        if (q_len == 3) p.mask_flags = VKATTN_MASK_CAUSAL;
        p.past_len = 87;
        check_on_matrix_units(p);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "scales of packed and paged rows") {
    for (const Keys keys : {Keys::kPacked, Keys::kPaged})
        for (const bool queries_packed : {true, false}) {
            if (queries_packed != (keys == Keys::kPacked)) continue;
            std::mt19937 random(32);
            SequencesCase c;
            c.lengths = {{3, 50}, {3, 33}, {3, 5}, {3, 120}};
            if (queries_packed) c.lengths[2] = {0, 40};
            c.packs_queries = queries_packed;
            c.keys = keys;
            c.mask_flags = VKATTN_MASK_CAUSAL;
            c.alignment = VKATTN_CAUSAL_BOTTOM_RIGHT;
            c.head_dim = c.v_head_dim = 64;
            c.query_type = VKATTN_TYPE_F16;
            c.key_type = VKATTN_TYPE_F8_E4M3;
            c.value_type = VKATTN_TYPE_F8_E5M2;
            c.scales = true;
            std::vector<Sequence> sequences = make_sequences(c, random);
            SequencesBatch batch = make_batch(c, sequences, random);
            const ExpectedSequences expected = expect(c, sequences, batch);
            for (const vkattn_kernel kernel : kernels_for(c, batch)) {
                CAPTURE(kernel_text(kernel));
                const std::string wrong = try_batch(c, batch, expected, kernel, test_device());
                CHECK_MESSAGE(wrong.empty(), wrong);
            }
        }
}

TEST_CASE_FIXTURE(DeviceTest, "appends divide rows by their scales, and make them where they are asked to") {
    for (const vkattn_type to : kTypes)
        for (const bool makes : {true, false})
            for (const bool rotates : {false, true}) check_append({to, makes, rotates});
    for (const bool rotates : {false, true}) check_append({VKATTN_TYPE_F8_E4M3, true, rotates, 2560});
}

TEST_CASE_FIXTURE(DeviceTest, "layers over caches with scales, and what cannot have any") {
    std::size_t served = 0;
    for (const LayerCase &c : cached_layers(true)) {
        if (c.config.kind == VKATTN_LAYER_ENCODER || c.config.kind == VKATTN_LAYER_MLA_BLOCK) continue; // of others
        CAPTURE(c.name);
        const bool of_mla = c.config.kv_lora_rank != 0;
        if (of_mla && (c.config.kv_lora_rank + c.config.qk_rope_head_dim) % 32 != 0) continue; // no whole blocks
        if (!of_mla && c.config.head_dim % 32 != 0 && c.config.latent_dim % 32 != 0) continue;
        const vkattn::Layer layer = make_layer(c);
        std::mt19937 random(33);
        const HostTensor input = normal_tensor(VKATTN_TYPE_F32, {2, 13, c.config.embed_dim}, random);
        vkattn_cache_info info = kOfRows;
        if (of_mla) info.value_scaling = VKATTN_SCALING_NONE;
        const vkattn::Cache cache =
            make_cache(layer, 2, 16, VKATTN_TYPE_F8_E4M3, VKATTN_TYPE_F8_E4M3, served == 0 ? 6 : 0, info);
        const bool lifts =
            c.config.kind == VKATTN_LAYER_COMPRESSED_KV || (of_mla && c.config.mla_form == VKATTN_MLA_NAIVE);
        if (lifts) {
            check_refused([&] { (void)append(layer, cache, input); }, "cache: with scales beside");
            continue;
        }
        ++served;
        const HostTensor expected = prefill(layer, input);
        const bool chooses = c.name.starts_with("sparse"); // other keys, where their scores are near
        for (const auto &[first, len] : {std::pair{0, 9}, {9, 1}, {10, 3}})
            check_equal("chunk", append(layer, cache, tokens_of(input, first, len)), tokens_of(expected, first, len),
                        chooses ? 5e-2 : 5e-3);
    }
    CHECK(served >= 2);
}

TEST_CASE_FIXTURE(DeviceTest, "caches keep, read and copy their scales") {
    const LayerCase c = cached_layers(true).front();
    const vkattn::Layer layer = make_layer(c);
    std::mt19937 random(34);
    const HostTensor keys = rows_out_of_range(c, random), values = rows_out_of_range(c, random);
    const std::uint64_t count = keys.elements() / 2;
    const auto of_sequence = [&](const HostTensor &rows, std::uint64_t sequence) {
        const std::vector<float> all = rows.floats();
        const auto begin = all.begin() + static_cast<std::ptrdiff_t>(sequence * count);
        return std::vector<float>(begin, begin + static_cast<std::ptrdiff_t>(count));
    };
    const auto filled = [&](std::uint32_t pages, const vkattn_cache_info &info) {
        vkattn::Cache cache = make_cache(layer, 2, 9, VKATTN_TYPE_F8_E4M3, VKATTN_TYPE_F8_E4M3, pages, info);
        fill(cache, keys, values);
        return cache;
    };
    // without scales, what is out of range is lost
    const vkattn::Cache plain = filled(0, {});
    CHECK(nmse(read(plain, VKATTN_CACHE_KEYS, 1, count), of_sequence(keys, 1)) > 0.1);
    for (const std::uint32_t pages : {0u, 8u}) {
        CAPTURE(pages);
        const vkattn::Cache cache = filled(pages, kOfRows);
        for (const std::uint32_t sequence : {0u, 1u}) {
            const std::vector<float> held = read(cache, VKATTN_CACHE_KEYS, sequence, count);
            const std::vector<float> given = of_sequence(keys, sequence);
            for (std::uint64_t row = 0; row < count; row += c.config.head_dim) { // each by itself, whatever its size
                const std::span<const float> of_row(&held[row], c.config.head_dim);
                CHECK(nmse(of_row, std::span(given).subspan(row, c.config.head_dim)) < 2e-3);
            }
            CHECK(nmse(read(cache, VKATTN_CACHE_VALUES, sequence, count), of_sequence(values, sequence)) < 2e-3);
        }
        cache.copy_sequence_to(0, cache, 1);
        CHECK(read(cache, VKATTN_CACHE_KEYS, 1, count) == read(cache, VKATTN_CACHE_KEYS, 0, count));
        CHECK(nmse(read(cache, VKATTN_CACHE_VALUES, 1, count), of_sequence(values, 0)) < 2e-3);
        if (pages == 0) {
            check_refused([&] { cache.copy_sequence_to(0, plain, 1); },
                          "from: a cache of other heads, sizes, types or rotation, or with other scales");
            continue;
        }
        cache.rewind(1, 0);
        cache.share_prefix(0, 1, 5);
        CHECK(read(cache, VKATTN_CACHE_KEYS, 1, count) == read(cache, VKATTN_CACHE_KEYS, 0, count));
        cache.reserve(std::vector<std::uint32_t>{0, 1}); // sequence 1 gets a page of its own, scales with it
        const vkattn_tensor of_rows = cache.tensor(VKATTN_CACHE_KEY_SCALES).layout;
        CHECK(of_rows.shape[3] == 1);
    }
    const std::vector<float> numbers = {30.0f, 7.0f, 11.0f, 2.0f, 5.0f, 1.0f, 9.0f, 3.0f};
    const std::span all(numbers);
    const vkattn::Cache fixed =
        filled(0, scaling(VKATTN_SCALING_TENSOR, VKATTN_SCALING_HEAD, all.first(1), all.first(c.config.num_kv_heads)));
    const std::vector<float> held = read(fixed, VKATTN_CACHE_KEYS, 1, count), from = of_sequence(keys, 1);
    for (std::uint64_t i = 0; i < count; ++i)
        if (std::fabs(from[i]) > 1.0f && std::fabs(from[i]) < 30.0f * 448.0f)
            CHECK(held[i] == doctest::Approx(from[i]).epsilon(0.07));
    const std::vector<float> of_values = read(fixed, VKATTN_CACHE_VALUES, 1, count),
                             given_values = of_sequence(values, 1);
    for (std::uint64_t i = 0; i < count; ++i) {
        const float scale = numbers[i / (5 * c.config.head_dim)];
        const float most = 448.0f * scale;
        if (std::fabs(given_values[i]) > most)
            CHECK(std::fabs(of_values[i]) == most);
        else if (std::fabs(given_values[i]) > scale)
            CHECK(of_values[i] == doctest::Approx(given_values[i]).epsilon(0.07));
    }
}

TEST_CASE_FIXTURE(DeviceTest, "scales that cannot be are named") {
    vkattn_attention_desc desc{};
    desc.query = desc.output = vkattn::tensor(VKATTN_TYPE_F32, {2, 4, 4, 64});
    desc.key = desc.value = vkattn::tensor(VKATTN_TYPE_F8_E4M3, {2, 2, 4, 64});
    const auto refused = [&](const char *expected) {
        check_refused([&] { (void)test_device().context().attention_plan(desc); }, expected);
    };
    desc.key_scales = vkattn::tensor(VKATTN_TYPE_F32, {2, 2, 3, 1});
    refused("key_scales: shape [2,2,3,1], expected [2|1,2|1,4|1,1]");
    desc.key_scales = vkattn::tensor(VKATTN_TYPE_F16, {2, 2, 4, 1});
    refused("key_scales: type F16, expected F32");
    desc.key_scales = vkattn::tensor(VKATTN_TYPE_F32, {1});
    refused("key_scales: rank 1, expected 4");
    desc.key_scales = {};
    desc.value_scales = vkattn::tensor(VKATTN_TYPE_F32, {1, 1, 1, 1});
    desc.value = vkattn::tensor(VKATTN_TYPE_F16, {2, 2, 4, 64});
    refused("value_scales: given beside F16, expected F8_E4M3 or F8_E5M2, which have no scales of their own");
    desc.value = {};
    refused("value_scales: given, expected none where V is in K's rows");

    vkattn_kv_append_desc append{};
    append.source = vkattn::tensor(VKATTN_TYPE_F32, {1, 2, 4, 64});
    append.cache = vkattn::tensor(VKATTN_TYPE_F8_E4M3, {1, 2, 9, 64});
    append.makes_scales = 1;
    const auto append_refused = [&](const char *expected) {
        check_refused([&] { (void)test_device().context().kv_append_plan(append); }, expected);
    };
    append_refused("scales: absent, expected [1,2,9,1] with makes_scales");
    append.scales = vkattn::tensor(VKATTN_TYPE_F32, {1, 2, 1, 1});
    append_refused("scales: shape [1,2,1,1], expected [1,2,9,1]");

    const float wrong[] = {-1.0f, 1.0f};
    CHECK(scaling_message(VKATTN_TYPE_Q8_0, kOfRows).find("key_scaling: given beside Q8_0") != std::string::npos);
    const auto scaling_refused = [](const vkattn_cache_info &info, const char *expected) {
        CHECK(scaling_message(VKATTN_TYPE_F8_E4M3, info).find(expected) != std::string::npos);
    };
    constexpr vkattn_scaling kNone = VKATTN_SCALING_NONE, kHead = VKATTN_SCALING_HEAD;
    scaling_refused(scaling(VKATTN_SCALING_TENSOR, kNone), "key_scales: 0 numbers, expected 1");
    scaling_refused(scaling(kNone, kHead, {}, wrong), "value_scales: -1, expected finite numbers above 0");
    scaling_refused(scaling(kNone, kHead, {}, std::span(wrong).first(1)), "value_scales: 1 numbers, expected 2");
    vkattn_cache_info without = scaling(VKATTN_SCALING_TENSOR, kNone);
    without.key_scale_count = 1;
    scaling_refused(without, "key_scales: 0 numbers, expected 1");
    scaling_refused(scaling(static_cast<vkattn_scaling>(4), kNone), "key_scaling: 4, expected a vkattn_scaling");
    CHECK(scaling_message(VKATTN_TYPE_F8_E4M3, kOfRows, true).find("value_scaling: given, expected none") !=
          std::string::npos);
}

TEST_SUITE_END();
