// Sequences of unequal length in layers and caches: packed calls, appends without a layer, pages and shared prefixes,
// against float64 references of each sequence alone.
#include "compare.hpp"
#include "layer_cases.hpp"
#include "messages.hpp"

#include <doctest/doctest.h>

#include <array>
#include <functional>

using namespace vkattn_test;

namespace {

using Counts = std::vector<std::uint32_t>; // of tokens, one a sequence

constexpr std::uint32_t kPage = 8;

HostTensor cu_seqlens_of(const Counts &counts) {
    HostTensor cu_seqlens(VKATTN_TYPE_I32, {counts.size() + 1});
    std::uint32_t begin = 0;
    cu_seqlens.set(0, 0.0f);
    for (std::size_t i = 0; i < counts.size(); ++i) cu_seqlens.set(i + 1, static_cast<float>(begin += counts[i]));
    return cu_seqlens;
}

// A layer, and the tokens of its sequences: [1,len,width] each.
struct Batch {
    explicit Batch(const LayerCase &layer_case, std::size_t sequences, std::uint64_t len, unsigned seed = 61)
        : c(layer_case) {
        std::mt19937 random(seed);
        weights = random_weights(c, random);
        layer = make_layer(c.config, weights);
        for (std::size_t i = 0; i < sequences; ++i)
            tokens.push_back(normal_tensor(VKATTN_TYPE_F32, {1, len, c.config.embed_dim}, random));
    }

    LayerCase c;
    Weights weights;
    vkattn::Layer layer;
    std::vector<HostTensor> tokens;

    // The output of the first `len` tokens of a sequence, as one causal prefill in float64 gives it.
    std::vector<double> expected(std::size_t sequence, std::uint64_t len) const {
        LayerProblem problem;
        problem.config = c.config;
        if (problem.config.num_kv_heads == 0) problem.config.num_kv_heads = problem.config.num_heads;
        problem.weights = weights;
        problem.query = tokens_of(tokens[sequence], 0, len);
        problem.mask_flags = VKATTN_MASK_CAUSAL;
        return reference_layer(problem).output;
    }

    // Tokens begin[i] .. begin[i] + count[i] - 1 of every sequence i, packed into `total` rows, the last ones of nobody.
    HostTensor packed(const Counts &begin, const Counts &count, std::uint64_t total) const {
        HostTensor all(VKATTN_TYPE_F32, {1, total, c.config.embed_dim});
        std::uint64_t element = 0;
        for (std::size_t i = 0; i < count.size(); ++i)
            for (std::uint64_t k = 0; k < count[i] * std::uint64_t{c.config.embed_dim}; ++k)
                all.set(element++, tokens[i].get(begin[i] * std::uint64_t{c.config.embed_dim} + k));
        return all;
    }

    // Rows of a packed output, which follow `begin` tokens of every sequence.
    void check(const HostTensor &output, const Counts &begin, const Counts &count, double bound) const {
        const std::uint64_t width = c.config.embed_dim;
        std::uint64_t row = 0;
        for (std::size_t i = 0; i < count.size(); ++i) {
            if (count[i] == 0) continue;
            CAPTURE(i);
            const std::vector<double> all = expected(i, begin[i] + count[i]);
            const std::vector<double> last(all.end() - static_cast<std::ptrdiff_t>(count[i] * width), all.end());
            std::vector<float> actual;
            for (std::uint64_t k = 0; k < count[i] * width; ++k) actual.push_back(output.get(row * width + k));
            row += count[i];
            const Comparison comparison = compare("packed", {count[i], width}, last, actual, bound);
            CHECK_MESSAGE(comparison.passed, comparison.report);
        }
    }
};

vkattn::Cache make_cache(const Batch &batch, std::uint32_t sequences, std::uint32_t capacity, std::uint32_t pages,
                         vkattn_type type = VKATTN_TYPE_F32) {
    vkattn_cache_info info{};
    info.layer = batch.layer.get();
    info.batch = sequences;
    info.capacity = capacity;
    info.key_type = info.value_type = type;
    info.page_len = pages != 0 ? kPage : 0;
    info.page_count = pages;
    return test_device().context().cache(info);
}

// One plan for every step of a cache: up to so many tokens, packed.
class Steps {
  public:
    Steps(const Batch &batch, const vkattn::Cache &cache, std::size_t sequences, std::uint64_t total,
          std::uint32_t max_seqlen = 0)
        : batch_(batch), cache_(cache), total_(total), held_(sequences) {
        vkattn_layer_call call{};
        call.query = call.output = vkattn::tensor(VKATTN_TYPE_F32, {1, total, batch.c.config.embed_dim});
        call.cu_seqlens = vkattn::tensor(VKATTN_TYPE_I32, {sequences + 1});
        call.max_seqlen = max_seqlen;
        call.mask_flags = VKATTN_MASK_CAUSAL;
        call.cache = cache.get();
        plan_ = batch.layer.plan(call);
    }

    // Appends the next tokens of every sequence and checks what comes out.
    void step(const Counts &count, double bound) {
        cache_.reserve(count);
        HostTensor input = batch_.packed(held_, count, total_), cu_seqlens = cu_seqlens_of(count);
        HostTensor output(VKATTN_TYPE_F32, input.shape());
        const std::array regions{Region{VKATTN_ROLE_QUERY, &input, Access::kRead},
                                 Region{VKATTN_ROLE_CU_SEQLENS_Q, &cu_seqlens, Access::kRead},
                                 Region{VKATTN_ROLE_OUTPUT, &output, Access::kWrite}};
        test_device().run(plan_, regions);
        batch_.check(output, held_, count, bound);
        for (std::size_t i = 0; i < count.size(); ++i) held_[i] += count[i];
        CHECK(cache_.lengths() == held_);
    }

    void rewind(std::uint32_t sequence, std::uint32_t length) {
        cache_.rewind(sequence, length);
        held_[sequence] = length;
    }
    void share(std::uint32_t from, std::uint32_t to, std::uint32_t length) {
        cache_.share_prefix(from, to, length);
        held_[to] = length;
    }

  private:
    const Batch &batch_;
    const vkattn::Cache &cache_;
    std::uint64_t total_;
    Counts held_;
    vkattn::Plan plan_;
};

LayerCase latent_mha_case() {
    vkattn_layer_config config{};
    config.kind = VKATTN_LAYER_LATENT_MHA;
    config.embed_dim = 48;
    config.num_heads = 4;
    config.latent_dim = 9;
    return layer_case("latent_mha", config);
}

// K and V that no layer makes: [1,heads,len,size] of every sequence, and queries.
constexpr std::uint64_t kQueryHeads = 4, kKvHeads = 2, kSize = 32;

struct Sequence {
    HostTensor query, key, value;
};

HostTensor rows_of(const std::vector<const HostTensor *> &sequences, const Counts &begin, const Counts &count,
                   std::uint64_t total) {
    const std::uint64_t heads = sequences[0]->shape()[1], size = sequences[0]->shape()[3];
    HostTensor packed(VKATTN_TYPE_F32, {1, heads, total, size});
    std::uint64_t row = 0;
    for (std::size_t i = 0; i < sequences.size(); ++i)
        for (std::uint64_t token = begin[i]; token < begin[i] + count[i]; ++token, ++row)
            for (std::uint64_t head = 0; head < heads; ++head)
                for (std::uint64_t d = 0; d < size; ++d)
                    packed.set((head * total + row) * size + d,
                               sequences[i]->get((head * sequences[i]->shape()[2] + token) * size + d));
    return packed;
}

// The operators around a cache object: an append that counts, and attention that reads what is counted.
class Operators {
  public:
    Operators(const vkattn_cache_info &info, std::uint64_t total) : info_(info) {
        const vkattn::Context &context = test_device().context();
        cache_ = context.cache(info);
        vkattn_cache_append_desc append{};
        append.cache = cache_.get();
        append.key = vkattn::tensor(VKATTN_TYPE_F32, {1, kKvHeads, total, kSize});
        if (info.v_head_dim != 0) append.value = append.key;
        append.cu_seqlens = vkattn::tensor(VKATTN_TYPE_I32, {info.batch + std::uint64_t{1}});
        append_ = context.cache_append_plan(append);

        keys_ = cache_.tensor(VKATTN_CACHE_KEYS);
        lengths_ = cache_.tensor(VKATTN_CACHE_LENGTHS);
        vkattn_attention_desc attend{};
        attend.query = attend.output = vkattn::tensor(VKATTN_TYPE_F32, {1, kQueryHeads, total, kSize});
        attend.key = keys_.layout;
        if (info.v_head_dim != 0) attend.value = (values_ = cache_.tensor(VKATTN_CACHE_VALUES)).layout;
        if (info.page_len != 0) attend.block_table = (block_table_ = cache_.tensor(VKATTN_CACHE_BLOCK_TABLE)).layout;
        attend.key_lengths = lengths_.layout;
        attend.cu_seqlens_q = append.cu_seqlens;
        attend.mask_flags = VKATTN_MASK_CAUSAL;
        attend.causal_alignment = VKATTN_CAUSAL_BOTTOM_RIGHT;
        attend_ = context.attention_plan(attend);
    }

    const vkattn::Cache &cache() const { return cache_; }

    // Appends, whether it was reserved or not.
    void append(const HostTensor &key, const HostTensor &value, const Counts &count) {
        const vkattn::Buffer keys = uploaded(key), values = uploaded(value), sequences = uploaded(cu_seqlens_of(count));
        std::vector<vkattn_binding> bindings{vkattn::bind(VKATTN_ROLE_KEY, keys),
                                             vkattn::bind(VKATTN_ROLE_CU_SEQLENS_Q, sequences)};
        if (info_.v_head_dim != 0) bindings.push_back(vkattn::bind(VKATTN_ROLE_VALUE, values));
        append_.run(bindings);
    }

    // Appends and attends; the output [1,heads,total,size].
    HostTensor run(const HostTensor &query, const HostTensor &key, const HostTensor &value, const Counts &count) {
        cache_.reserve(count);
        append(key, value, count);
        const vkattn::Buffer queries = uploaded(query), sequences = uploaded(cu_seqlens_of(count));
        HostTensor output(VKATTN_TYPE_F32, query.shape());
        const vkattn::Buffer result = test_device().context().buffer(output.bytes().size());
        std::vector<vkattn_binding> bindings = {
            vkattn::bind(VKATTN_ROLE_QUERY, queries), vkattn::bind(VKATTN_ROLE_OUTPUT, result),
            vkattn::bind(VKATTN_ROLE_KEY, keys_), vkattn::bind(VKATTN_ROLE_KEY_LENGTHS, lengths_),
            vkattn::bind(VKATTN_ROLE_CU_SEQLENS_Q, sequences)};
        if (info_.v_head_dim != 0) bindings.push_back(vkattn::bind(VKATTN_ROLE_VALUE, values_));
        if (info_.page_len != 0) bindings.push_back(vkattn::bind(VKATTN_ROLE_BLOCK_TABLE, block_table_));
        attend_.run(bindings);
        result.read(output.bytes());
        return output;
    }

    // What the cache holds of a sequence: [1,heads,len,size].
    HostTensor held(vkattn_cache_part part, std::uint32_t sequence, std::uint64_t len) const {
        std::vector<float> values(kKvHeads * len * kSize);
        cache_.read(part, sequence, values);
        return tensor_of(VKATTN_TYPE_F32, {1, kKvHeads, len, kSize}, values);
    }

  private:
    static vkattn::Buffer uploaded(const HostTensor &tensor) {
        vkattn::Buffer buffer = test_device().context().buffer(tensor.bytes().size());
        buffer.write(tensor.bytes());
        return buffer;
    }

    vkattn_cache_info info_;
    vkattn::Cache cache_;
    vkattn::Plan append_, attend_;
    vkattn::CacheTensor keys_{}, values_{}, lengths_{}, block_table_{};
};

vkattn_cache_info operator_info(vkattn_type type, std::uint32_t sequences, std::uint32_t pages) {
    vkattn_cache_info info{};
    info.kv_heads = kKvHeads;
    info.head_dim = info.v_head_dim = kSize;
    info.batch = sequences;
    info.capacity = 20;
    info.key_type = info.value_type = type;
    info.page_len = pages != 0 ? kPage : 0;
    info.page_count = pages;
    return info;
}

} // namespace

TEST_SUITE_BEGIN("caches");

TEST_CASE_FIXTURE(DeviceTest, "packed sequences without a cache are each computed as if they were alone") {
    std::vector<LayerCase> layers = cached_layers();
    layers.push_back(latent_mha_case());
    const Counts begin(5), count{5, 0, 3, 1, 4};
    for (const LayerCase &c : layers)
        for (const std::uint32_t max_seqlen : {0u, 5u}) {
            CAPTURE(c.name);
            const Batch batch(c, count.size(), 5);
            HostTensor input = batch.packed(begin, count, 15), cu_seqlens = cu_seqlens_of(count);
            HostTensor output(VKATTN_TYPE_F32, input.shape());
            vkattn_layer_call call{};
            call.query = input.view();
            call.output = output.view();
            call.cu_seqlens = cu_seqlens.view();
            call.max_seqlen = max_seqlen;
            call.mask_flags = VKATTN_MASK_CAUSAL;
            const std::array regions{Region{VKATTN_ROLE_QUERY, &input, Access::kRead},
                                     Region{VKATTN_ROLE_CU_SEQLENS_Q, &cu_seqlens, Access::kRead},
                                     Region{VKATTN_ROLE_OUTPUT, &output, Access::kWrite}};
            const vkattn::Plan plan = batch.layer.plan(call);
            CHECK(test_device().context().measure(c.config, call).workspace_bytes ==
                  plan.requirements().workspace_bytes);
            test_device().run(plan, regions);
            batch.check(output, begin, count, 1e-10);
        }
}

TEST_CASE_FIXTURE(DeviceTest, "sequences append different numbers of tokens, with pages and without") {
    for (const LayerCase &c : cached_layers())
        for (const std::uint32_t pages : {0u, 5u}) {
            CAPTURE(c.name);
            CAPTURE(pages);
            const Batch batch(c, 3, 12);
            const vkattn::Cache cache = make_cache(batch, 3, 20, pages);
            Steps steps(batch, cache, 3, 9);
            for (const Counts &count : {Counts{8, 0, 0}, {1, 5, 3}, {0, 7, 1}, {3, 0, 0}, {0, 0, 2}})
                steps.step(count, 1e-10);
            CHECK(cache.free_pages() == 0); // of 12, 12 and 6 tokens
        }
}

TEST_CASE_FIXTURE(DeviceTest, "caches of every type keep the bits of their pages apart") {
    const LayerCase c = cached_layers(true).front();
    for (const vkattn_type type : {VKATTN_TYPE_F16, VKATTN_TYPE_BF16, VKATTN_TYPE_Q8_0, VKATTN_TYPE_Q4_0}) {
        CAPTURE(type_name(type));
        const Batch batch(c, 3, 12);
        const vkattn::Cache dense = make_cache(batch, 3, 16, 0, type), paged = make_cache(batch, 3, 16, 6, type);
        const std::uint64_t numbers = c.config.num_kv_heads * std::uint64_t{12} * c.config.head_dim;
        for (const vkattn::Cache *cache : {&dense, &paged}) {
            Steps steps(batch, *cache, 3, 12);
            for (const Counts &count : {Counts{4, 3, 5}, {7, 1, 2}, {1, 8, 3}, {0, 0, 2}}) steps.step(count, 1e-1);
        }
        for (const std::uint32_t sequence : {0u, 1u, 2u})
            for (const vkattn_cache_part part : {VKATTN_CACHE_KEYS, VKATTN_CACHE_VALUES}) {
                std::vector<float> expected(numbers), actual(numbers);
                dense.read(part, sequence, expected);
                paged.read(part, sequence, actual);
                CHECK(actual == expected);
            }
    }
}

TEST_CASE_FIXTURE(DeviceTest, "appends without a layer count their tokens, and attention sees them") {
    std::mt19937 random(63);
    std::vector<Sequence> sequences;
    for (int i = 0; i < 3; ++i)
        sequences.push_back({normal_tensor(VKATTN_TYPE_F32, {1, kQueryHeads, 18, kSize}, random),
                             normal_tensor(VKATTN_TYPE_F32, {1, kKvHeads, 18, kSize}, random),
                             normal_tensor(VKATTN_TYPE_F32, {1, kKvHeads, 18, kSize}, random)});
    const auto packed = [&](HostTensor Sequence::*member, const Counts &begin, const Counts &count) {
        std::vector<const HostTensor *> tensors;
        for (const Sequence &sequence : sequences) tensors.push_back(&(sequence.*member));
        return rows_of(tensors, begin, count, 12);
    };
    for (const vkattn_type type : {VKATTN_TYPE_F32, VKATTN_TYPE_Q8_0})
        for (const std::uint32_t pages : {0u, 8u})
            for (const bool has_values : {true, false}) {
                CAPTURE(type_name(type));
                CAPTURE(pages);
                CAPTURE(has_values);
                vkattn_cache_info info = operator_info(type, 3, pages);
                if (!has_values) info.v_head_dim = 0;
                Operators operators(info, 12);
                Counts held(3);
                for (const Counts &count : {Counts{7, 0, 5}, {1, 9, 1}, {8, 1, 2}, {0, 0, 10}}) {
                    const HostTensor output =
                        operators.run(packed(&Sequence::query, held, count), packed(&Sequence::key, held, count),
                                      packed(&Sequence::value, held, count), count);
                    std::uint64_t row = 0;
                    for (std::uint32_t i = 0; i < 3; ++i) {
                        held[i] += count[i];
                        if (count[i] == 0) continue;
                        CAPTURE(i);
                        AttentionProblem problem; // of what is stored
                        Counts begin(3), one(3);
                        begin[i] = held[i] - count[i];
                        one[i] = count[i];
                        std::vector<const HostTensor *> queries;
                        for (const Sequence &sequence : sequences) queries.push_back(&sequence.query);
                        problem.query = rows_of(queries, begin, one, count[i]);
                        problem.key = operators.held(VKATTN_CACHE_KEYS, i, held[i]);
                        problem.value = has_values ? operators.held(VKATTN_CACHE_VALUES, i, held[i]) : problem.key;
                        problem.mask_flags = VKATTN_MASK_CAUSAL;
                        problem.causal_alignment = VKATTN_CAUSAL_BOTTOM_RIGHT;
                        std::vector<float> actual;
                        for (std::uint64_t head = 0; head < kQueryHeads; ++head)
                            for (std::uint64_t k = 0; k < count[i] * kSize; ++k)
                                actual.push_back(output.get((head * 12 + row) * kSize + k));
                        row += count[i];
                        const Comparison comparison = compare("attended", {kQueryHeads, count[i], kSize},
                                                              reference_attention(problem).output, actual, 1e-10);
                        CHECK_MESSAGE(comparison.passed, comparison.report);
                        if (type == VKATTN_TYPE_F32)
                            CHECK(problem.key.floats() ==
                                  rows_of({&sequences[i].key}, {0}, {held[i]}, held[i]).floats());
                    }
                    CHECK(operators.cache().lengths() == held);
                }
            }
}

TEST_CASE_FIXTURE(DeviceTest, "an append of as many tokens to every sequence is counted by the run") {
    const vkattn::Cache cache = test_device().context().cache(operator_info(VKATTN_TYPE_F16, 2, 4));
    std::mt19937 random(64);
    HostTensor key = normal_tensor(VKATTN_TYPE_F16, {2, kKvHeads, 3, kSize}, random),
               value = normal_tensor(VKATTN_TYPE_F16, {2, kKvHeads, 3, kSize}, random);
    vkattn_cache_append_desc append{};
    append.cache = cache.get();
    append.key = key.view();
    append.value = value.view();
    const vkattn::Plan plan = test_device().context().cache_append_plan(append);
    const std::array regions{Region{VKATTN_ROLE_KEY, &key, Access::kRead},
                             Region{VKATTN_ROLE_VALUE, &value, Access::kRead}};
    for (const std::uint32_t len : {3u, 6u, 9u}) {
        test_device().run(plan, regions);
        CHECK(cache.lengths() == Counts{len, len});
        for (const std::uint32_t sequence : {0u, 1u}) {
            std::vector<float> held(kKvHeads * len * kSize);
            cache.read(VKATTN_CACHE_VALUES, sequence, held);
            for (std::uint64_t i = 0; i < held.size(); ++i) {
                const std::uint64_t head = i / (len * kSize), token = i / kSize % len % 3;
                CHECK(held[i] == value.get(((sequence * kKvHeads + head) * 3 + token) * kSize + i % kSize));
            }
        }
    }
}

TEST_CASE_FIXTURE(DeviceTest, "sequences that share a prefix go on as if each had its own") {
    const std::vector<LayerCase> layers = cached_layers();
    for (const LayerCase &c : {layers[0], layers[1], layers[2], layers[4]}) {
        CAPTURE(c.name);
        Batch batch(c, 3, 20);
        const std::uint64_t width = c.config.embed_dim;
        for (std::uint64_t i = 0; i < 12 * width; ++i) batch.tokens[1].set(i, batch.tokens[0].get(i));
        for (std::uint64_t i = 0; i < 16 * width; ++i) batch.tokens[2].set(i, batch.tokens[0].get(i));
        const vkattn::Cache cache = make_cache(batch, 3, 24, 8);
        Steps steps(batch, cache, 3, 18);
        steps.step({18, 0, 0}, 1e-10);
        CHECK(cache.free_pages() == 5);
        steps.share(0, 1, 12);
        steps.share(0, 2, 16);
        CHECK(cache.free_pages() == 5);
        steps.step({2, 0, 0}, 1e-10); // on a page of its own
        CHECK(cache.free_pages() == 5);
        steps.step({0, 4, 3}, 1e-10); // a copied page, and a new one
        CHECK(cache.free_pages() == 3);
        steps.rewind(0, 10);
        CHECK(cache.free_pages() == 4);
        steps.step({6, 2, 0}, 1e-10); // the other way round
        CHECK(cache.free_pages() == 2);
        steps.step({0, 0, 1}, 1e-10);
        steps.rewind(1, 0);
        CHECK(cache.free_pages() == 4);
        steps.rewind(0, 0);
        steps.step({0, 0, 0}, 1e-10);
        steps.rewind(2, 0);
        CHECK(cache.free_pages() == 8);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "two sequences that write to a shared page at once copy it once") {
    Batch batch(cached_layers().front(), 2, 8);
    for (std::uint64_t i = 0; i < 4 * std::uint64_t{batch.c.config.embed_dim}; ++i)
        batch.tokens[1].set(i, batch.tokens[0].get(i));
    const vkattn::Cache cache = make_cache(batch, 2, 8, 2);
    Steps steps(batch, cache, 2, 8);
    steps.step({4, 0}, 1e-10);
    steps.share(0, 1, 4);
    CHECK(cache.free_pages() == 1);
    steps.step({4, 4}, 1e-10);
    CHECK(cache.free_pages() == 0);
}

TEST_CASE_FIXTURE(DeviceTest, "a pool that is too small refuses before anything is changed") {
    const Batch batch(cached_layers().front(), 2, 24);
    const vkattn::Cache cache = make_cache(batch, 2, 24, 3);
    Steps steps(batch, cache, 2, 16);
    steps.step({8, 8}, 1e-10);
    const Counts wanted{8, 1};
    check_refused([&] { cache.reserve(wanted); },
                  "cache: sequence 1 needs one more page, and none of its 3 is free, expected fewer tokens");
    CHECK(cache.lengths() == Counts{8, 8});
    CHECK(cache.free_pages() == 1);
    steps.step({8, 0}, 1e-10);
    // a call that counts by itself
    std::mt19937 random(65);
    HostTensor input = normal_tensor(VKATTN_TYPE_F32, {2, 1, batch.c.config.embed_dim}, random);
    HostTensor output(VKATTN_TYPE_F32, input.shape());
    vkattn_layer_call call{};
    call.query = input.view();
    call.output = output.view();
    call.cache = cache.get();
    const vkattn::Plan plan = batch.layer.plan(call);
    const std::array regions{Region{VKATTN_ROLE_QUERY, &input, Access::kRead},
                             Region{VKATTN_ROLE_OUTPUT, &output, Access::kWrite}};
    check_refused([&] { test_device().run(plan, regions); }, "cache: sequence 0 needs one more page");
    CHECK(cache.lengths() == Counts{16, 8});
    steps.rewind(0, 7);
    CHECK(cache.free_pages() == 1);
    steps.step({1, 4}, 1e-10);
    steps.rewind(1, 5);
    steps.step({0, 3}, 1e-10);
}

TEST_CASE_FIXTURE(DeviceTest, "steps that are submitted without a wait find the pages that they are given meanwhile") {
    const Batch batch(cached_layers().front(), 2, 20);
    const vkattn::Context &context = test_device().context();
    const vkattn::Cache cache = make_cache(batch, 2, 24, 6);
    const std::uint64_t width = batch.c.config.embed_dim;
    vkattn_layer_call call{};
    call.query = call.output = vkattn::tensor(VKATTN_TYPE_F32, {2, 1, width});
    call.mask_flags = VKATTN_MASK_CAUSAL;
    call.cache = cache.get();
    const vkattn::Plan plan = batch.layer.plan(call);
    std::vector<vkattn::Buffer> outputs;
    for (std::uint32_t step = 0; step < 20; ++step) {
        vkattn::Buffer query = context.buffer(call.query);
        query.write(batch.packed({step, step}, {1, 1}, 2).bytes());
        outputs.push_back(context.buffer(call.output));
        plan.submit({vkattn::bind(VKATTN_ROLE_QUERY, query), vkattn::bind(VKATTN_ROLE_OUTPUT, outputs.back())});
        outputs.push_back(std::move(query)); // it must outlive the submission
    }
    context.wait();
    CHECK(cache.lengths() == Counts{20, 20});
    CHECK(cache.free_pages() == 0);
    for (std::uint32_t step = 0; step < 20; ++step) {
        HostTensor output(VKATTN_TYPE_F32, {1, 2, width});
        outputs[std::size_t{2} * step].read(output.bytes());
        batch.check(output, {step, step}, {1, 1}, 1e-10);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "what was not reserved is not written to the pages of others") {
    const vkattn_cache_info info = operator_info(VKATTN_TYPE_F32, 2, 2);
    std::mt19937 random(66);
    const HostTensor query = normal_tensor(VKATTN_TYPE_F32, {1, kQueryHeads, 8, kSize}, random);
    const HostTensor key = normal_tensor(VKATTN_TYPE_F32, {1, kKvHeads, 8, kSize}, random);
    Operators operators(info, 8);
    operators.run(query, key, key, {8, 0});
    const std::vector<float> held = operators.held(VKATTN_CACHE_KEYS, 0, 8).floats();
    CHECK(held == key.floats());
    operators.append(key, query, {0, 8});
    CHECK(operators.held(VKATTN_CACHE_KEYS, 0, 8).floats() == held);
    CHECK(operators.cache().lengths() == Counts{8, 0});
    operators.cache().rewind(1, 0); // what the device has counted
    operators.run(query, key, key, {0, 8});
    CHECK(operators.held(VKATTN_CACHE_KEYS, 1, 8).floats() == held);
}

TEST_CASE_FIXTURE(DeviceTest, "sequences are copied between pages of other lengths, and memory without pages") {
    const Batch batch(cached_layers(true).front(), 2, 21);
    vkattn_cache_info info{};
    info.layer = batch.layer.get();
    info.batch = 2;
    info.capacity = 24;
    info.key_type = VKATTN_TYPE_Q8_0;
    info.value_type = VKATTN_TYPE_F16;
    std::vector<vkattn::Cache> caches;
    for (const std::uint32_t page_len : {8u, 0u, 16u}) {
        info.page_len = page_len;
        info.page_count = page_len != 0 ? 64 / page_len : 0;
        caches.push_back(test_device().context().cache(info));
    }
    Steps(batch, caches[0], 2, 24).step({3, 21}, 1e-3);
    const std::uint64_t numbers = batch.c.config.num_kv_heads * std::uint64_t{21} * batch.c.config.head_dim;
    const auto stored = [&](const vkattn::Cache &cache, std::uint32_t sequence) {
        std::vector<float> keys(numbers), values(numbers);
        cache.read(VKATTN_CACHE_KEYS, sequence, keys);
        cache.read(VKATTN_CACHE_VALUES, sequence, values);
        keys.insert(keys.end(), values.begin(), values.end());
        return keys;
    };
    const std::vector<float> expected = stored(caches[0], 1);
    caches[0].copy_sequence_to(1, caches[2], 0);
    CHECK(stored(caches[2], 0) == expected);
    CHECK(caches[2].free_pages() == 2);
    caches[2].copy_sequence_to(0, caches[1], 1);
    CHECK(stored(caches[1], 1) == expected);
    caches[1].copy_sequence_to(1, caches[0], 0);
    CHECK(stored(caches[0], 0) == expected);
    CHECK(caches[0].free_pages() == 2);
    caches[0].copy_sequence_to(0, caches[0], 1);
    CHECK(stored(caches[0], 1) == expected);
    CHECK(caches[0].free_pages() == 2);

    info.page_len = 8;
    info.page_count = 2;
    const vkattn::Cache small = test_device().context().cache(info);
    check_refused([&] { caches[0].copy_sequence_to(0, small, 1); }, "cache: sequence 1 needs one more page");
    CHECK(small.lengths() == Counts{0, 0});
    CHECK(small.free_pages() == 2);
}

TEST_CASE_FIXTURE(DeviceTest, "masks follow the capacity, also where its last page is not all in use") {
    std::vector<LayerCase> layers = cached_layers();
    std::mt19937 random(71);
    for (const LayerCase &c : layers) {
        if (c.config.index_topk != 0) continue; // an indexer takes no masks but key_lengths
        CAPTURE(c.name);
        const vkattn::Layer layer = make_layer(c);
        HostTensor input = normal_tensor(VKATTN_TYPE_F32, {2, 5, c.config.embed_dim}, random);
        HostTensor padding(VKATTN_TYPE_BOOL, {2, 20}), blocks(VKATTN_TYPE_I32, {1, 1, 1, 1});
        for (std::uint64_t i = 0; i < 40; ++i) padding.set(i, i % 20 == 1 || i % 20 > 10 ? 1.0f : 0.0f);
        blocks.set(0, VKATTN_BLOCK_PARTIAL);
        HostTensor outputs[2];
        for (const bool paged : {false, true}) {
            vkattn_cache_info info{};
            info.layer = layer.get();
            info.batch = 2;
            info.capacity = 20;
            info.key_type = info.value_type = VKATTN_TYPE_F32;
            info.page_len = paged ? kPage : 0;
            info.page_count = paged ? 6 : 0;
            const vkattn::Cache cache = test_device().context().cache(info);
            HostTensor &output = outputs[paged] = HostTensor(VKATTN_TYPE_F32, input.shape());
            vkattn_layer_call call{};
            call.query = input.view();
            call.output = output.view();
            call.cache = cache.get();
            call.key_padding_mask = padding.view();
            call.block_mask = blocks.view();
            call.block_q_len = call.block_kv_len = 20; // one block of the capacity, two of its pages
            call.mask_flags = VKATTN_MASK_CAUSAL;
            const std::array regions{Region{VKATTN_ROLE_QUERY, &input, Access::kRead},
                                     Region{VKATTN_ROLE_KEY_PADDING_MASK, &padding, Access::kRead},
                                     Region{VKATTN_ROLE_BLOCK_MASK, &blocks, Access::kRead},
                                     Region{VKATTN_ROLE_OUTPUT, &output, Access::kWrite}};
            test_device().run(layer.plan(call), regions);
        }
        check_equal("output", outputs[1], outputs[0], 1e-10);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "the workspace of a layer is told where biases keep MLA from absorbing") {
    const LayerCase c = mla_case(VKATTN_MLA_ABSORB, 0, false);
    vkattn_layer_config config = c.config;
    std::mt19937 random(72);
    Weights biased = random_weights(c, random), plain = biased;
    std::erase_if(plain, [](const auto &weight) { return weight.first.ends_with(".bias"); });
    for (const std::uint64_t len : {1, 512})
        for (const float softcap : {0.0f, 5.0f}) {
            CAPTURE(len);
            CAPTURE(softcap);
            config.softcap = softcap;
            vkattn_layer_call call{};
            call.query = call.output = vkattn::tensor(VKATTN_TYPE_F32, {1, len, config.embed_dim});
            call.mask_flags = VKATTN_MASK_CAUSAL;
            std::uint64_t most = 0;
            for (const Weights *weights : {&biased, &plain})
                most = std::max(most, make_layer(config, *weights).plan(call).requirements().workspace_bytes);
            CHECK(test_device().context().measure(config, call).workspace_bytes == most);
        }
}

TEST_CASE_FIXTURE(DeviceTest, "what packed calls and caches with pages cannot take is named") {
    const std::vector<LayerCase> layers = cached_layers();
    const Batch batch(layers.front(), 2, 4);
    const vkattn::Context &context = test_device().context();
    const auto cache_with = [&](std::uint32_t page_len, std::uint32_t page_count) {
        vkattn_cache_info info{};
        info.layer = batch.layer.get();
        info.batch = 2;
        info.capacity = 16;
        info.key_type = info.value_type = VKATTN_TYPE_F32;
        info.page_len = page_len;
        info.page_count = page_count;
        return context.cache(info);
    };
    check_refused([&] { cache_with(12, 4); }, "page_len: 12, expected 0, or a power of two from 8 to 2^29");
    check_refused([&] { cache_with(4, 4); }, "page_len: 4, expected 0");
    check_refused([&] { cache_with(1u << 30, 4); }, "page_len: 1073741824, expected 0");
    check_refused([&] { cache_with(8, (1u << 29) + 1); }, "page_count: 536870913, expected at most 2^29");
    check_refused([&] { cache_with(0, 4); }, "page_count: 4, expected 0 without page_len");

    const vkattn::Cache dense = cache_with(0, 0), paged = cache_with(8, 4);
    const auto refused = [&](const char *expected, const std::function<void(vkattn_layer_call &)> &change) {
        vkattn_layer_call call{};
        call.query = call.output = vkattn::tensor(VKATTN_TYPE_F32, {1, 6, 48});
        call.cu_seqlens = vkattn::tensor(VKATTN_TYPE_I32, {3});
        change(call);
        check_refused([&] { batch.layer.plan(call); }, expected);
    };
    refused("no error", [&](vkattn_layer_call &call) { call.cache = paged.get(); });
    refused("query: shape [2,6,48], expected [1,total,48] with cu_seqlens", [](vkattn_layer_call &call) {
        call.query = call.output = vkattn::tensor(VKATTN_TYPE_F32, {2, 6, 48});
    });
    refused("cu_seqlens: type F32", [](vkattn_layer_call &call) { call.cu_seqlens.type = VKATTN_TYPE_F32; });
    refused("max_seqlen: 7, expected at most the packed rows, 6", [](vkattn_layer_call &call) { call.max_seqlen = 7; });
    refused("key, value: given, expected none with cu_seqlens",
            [](vkattn_layer_call &call) { call.key = call.value = call.query; });
    refused("past_key, past_value, present_key, present_value: given, expected none with cu_seqlens",
            [](vkattn_layer_call &call) {
                call.present_key = call.present_value = vkattn::tensor(VKATTN_TYPE_F32, {1, 2, 6, 12});
            });
    refused("past_len: 3 without past_key", [](vkattn_layer_call &call) { call.past_len = 3; });
    refused("cache: batch 2, expected 4", [&](vkattn_layer_call &call) {
        call.cache = dense.get();
        call.cu_seqlens = vkattn::tensor(VKATTN_TYPE_I32, {5});
    });
    vkattn_layer_config latent_query{};
    latent_query.kind = VKATTN_LAYER_LATENT_QUERY;
    latent_query.input_dim = latent_query.latent_dim = 48;
    latent_query.num_latents = latent_query.num_heads = 4;
    const vkattn::Layer queries = make_layer(layer_case("latent_query", latent_query));
    vkattn_layer_call call{};
    call.query = vkattn::tensor(VKATTN_TYPE_F32, {1, 6, 48});
    call.output = vkattn::tensor(VKATTN_TYPE_F32, {2, 4, 48});
    call.cu_seqlens = vkattn::tensor(VKATTN_TYPE_I32, {3});
    check_refused([&] { queries.plan(call); }, "cu_seqlens: given, expected none for layer latent_query");

    const Counts three{1, 1, 1}, none;
    check_refused([&] { paged.reserve(three); }, "count: 3, expected 1, or the cache's batch of 2");
    check_refused([&] { paged.reserve(none); }, "count: 0, expected 1, or the cache's batch of 2");
    check_refused([&] { paged.reserve(17); }, "cache: sequence 0 holds 0 tokens, and 17 more exceed its capacity");
    CHECK(vkattn_cache_reserve(paged.get(), 2, nullptr) == VKATTN_ERROR_INVALID_ARGUMENT);
    CHECK(std::string(vkattn_last_error()) == "tokens: NULL, expected 2 numbers");
    check_refused([&] { dense.share_prefix(0, 1, 0); }, "cache: without pages, expected one with page_len");
    check_refused([&] { paged.share_prefix(2, 1, 0); }, "from_sequence: 2, expected less than");
    check_refused([&] { paged.share_prefix(0, 2, 0); }, "to_sequence: 2, expected less than");
    check_refused([&] { paged.share_prefix(1, 1, 0); }, "to_sequence: 1, expected another than from_sequence");
    check_refused([&] { paged.share_prefix(0, 1, 1); }, "length: 1, expected at most the 0 tokens of sequence 0");
    paged.reserve(Counts{0, 1});
    check_refused([&] { paged.share_prefix(0, 1, 0); }, "to_sequence: 1 holds 1 tokens, expected an empty one");
    check_refused([&] { dense.tensor(VKATTN_CACHE_BLOCK_TABLE); }, "this cache has no pages");
    CHECK(dense.free_pages() == 0);
    CHECK(vkattn_cache_free_pages(nullptr) == 0);
    CHECK(paged.tensor(VKATTN_CACHE_BLOCK_TABLE).layout.shape[1] == 2);

    const auto append_refused = [&](const char *expected,
                                    const std::function<void(vkattn_cache_append_desc &)> &change) {
        vkattn_cache_append_desc append{};
        append.cache = dense.get();
        append.key = append.value = vkattn::tensor(VKATTN_TYPE_F32, {2, 2, 3, 12});
        change(append);
        check_refused([&] { context.cache_append_plan(append); }, expected);
    };
    append_refused("no error", [](vkattn_cache_append_desc &) {});
    append_refused("cache: NULL", [](vkattn_cache_append_desc &append) { append.cache = nullptr; });
    append_refused("key: absent", [](vkattn_cache_append_desc &append) { append.key = {}; });
    append_refused("value: absent", [](vkattn_cache_append_desc &append) { append.value = {}; });
    append_refused("key: type Q8_0, expected F32, F16 or BF16", [](vkattn_cache_append_desc &append) {
        append.key = vkattn::tensor(VKATTN_TYPE_Q8_0, {2, 2, 3, 32});
    });
    append_refused("key: shape [1,2,3,12], expected [2,2,3,12]",
                   [](vkattn_cache_append_desc &append) { append.key.shape[0] = 1; });
    append_refused("value: shape [2,2,3,11], expected [2,2,3,12]",
                   [](vkattn_cache_append_desc &append) { append.value.shape[3] = 11; });
    append_refused("value: 4 tokens, expected the 3 of key",
                   [](vkattn_cache_append_desc &append) { append.value.shape[2] = 4; });
    append_refused("key: 17 tokens, expected at most the capacity of cache, 16", [](vkattn_cache_append_desc &append) {
        append.key = append.value = vkattn::tensor(VKATTN_TYPE_F32, {2, 2, 17, 12});
    });
    append_refused("cu_seqlens: shape [4], expected [3], for the cache's batch of 2",
                   [](vkattn_cache_append_desc &append) {
                       append.key = append.value = vkattn::tensor(VKATTN_TYPE_F32, {1, 2, 3, 12});
                       append.cu_seqlens = vkattn::tensor(VKATTN_TYPE_I32, {4});
                   });
    vkattn_cache_info info = operator_info(VKATTN_TYPE_F32, 2, 0);
    info.v_head_dim = 0;
    const vkattn::Cache keys_alone = context.cache(info);
    append_refused("value: given, expected none: this cache keeps the values as a part of the keys",
                   [&](vkattn_cache_append_desc &append) {
                       append.cache = keys_alone.get();
                       append.key = append.value = vkattn::tensor(VKATTN_TYPE_F32, {2, 2, 3, kSize});
                   });
}

TEST_SUITE_END();
