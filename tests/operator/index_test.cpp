// The choice of keys by their scores: against float64 over dense, packed and paged keys.
#include "attention_draws.hpp"
#include "limited_device.hpp"
#include "sequence_cases.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

using namespace vkattn_test;

namespace {

struct IndexOptions {
    std::uint64_t top_k = 4;
    std::uint32_t key_block_len = 1;
    vkattn_index_activation activation = VKATTN_INDEX_RELU;
    vkattn_index_reduce head_reduce = VKATTN_INDEX_SUM, block_reduce = VKATTN_INDEX_MAX;
    std::uint32_t forced_first = 0, forced_last = 0;
    bool causal = false; // the last query at the last key
};

constexpr IndexOptions kMeansOfBlocks{.top_k = 5,
                                      .key_block_len = 8,
                                      .activation = VKATTN_INDEX_IDENTITY,
                                      .block_reduce = VKATTN_INDEX_MEAN,
                                      .forced_first = 1,
                                      .forced_last = 2,
                                      .causal = true};

// One sequence's queries [Hi,Lq,D], keys [Lk,D] and weights [Lq,Hi].
struct OneSequence {
    std::uint64_t heads, q_len, kv_len, head_dim;
    std::vector<double> query, key, weights;
};

double score_of(const OneSequence &s, const IndexOptions &o, std::uint64_t i, std::uint64_t j) {
    double score = o.head_reduce == VKATTN_INDEX_MAX ? -HUGE_VAL : 0.0;
    for (std::uint64_t h = 0; h < s.heads; ++h) {
        double product = 0.0;
        for (std::uint64_t d = 0; d < s.head_dim; ++d)
            product += s.query[(h * s.q_len + i) * s.head_dim + d] * s.key[j * s.head_dim + d];
        product /= std::sqrt(static_cast<double>(s.head_dim));
        if (o.activation == VKATTN_INDEX_RELU) product = std::max(product, 0.0);
        const double each = (s.weights.empty() ? 1.0 : s.weights[i * s.heads + h]) * product;
        score = o.head_reduce == VKATTN_INDEX_MAX ? std::max(score, each) : score + each;
    }
    return score;
}

// The list of a query.
std::vector<std::int32_t> expected_list(const OneSequence &s, const IndexOptions &o, std::uint64_t i) {
    const std::uint64_t visible = o.causal ? (s.kv_len + i + 1 > s.q_len ? s.kv_len + i + 1 - s.q_len : 0) : s.kv_len;
    const std::uint64_t blocks = (visible + o.key_block_len - 1) / o.key_block_len;
    std::vector<double> scores(blocks);
    for (std::uint64_t b = 0; b < blocks; ++b) {
        const std::uint64_t begin = b * o.key_block_len, end = std::min(begin + o.key_block_len, visible);
        double sum = 0.0, most = -HUGE_VAL;
        for (std::uint64_t j = begin; j < end; ++j) {
            const double score = score_of(s, o, i, j);
            sum += score;
            most = std::max(most, score);
        }
        const bool mean = o.key_block_len > 1 && o.block_reduce == VKATTN_INDEX_MEAN;
        scores[b] = mean ? sum / static_cast<double>(end - begin) : most;
        if (b < o.forced_first || b + o.forced_last >= blocks) scores[b] = HUGE_VAL;
    }
    std::vector<std::int32_t> list(blocks);
    std::iota(list.begin(), list.end(), 0);
    std::ranges::stable_sort(list, [&](std::int32_t a, std::int32_t b) {
        return scores[static_cast<std::size_t>(a)] > scores[static_cast<std::size_t>(b)];
    });
    list.resize(std::min<std::uint64_t>(blocks, o.top_k));
    std::ranges::sort(list);
    list.resize(o.top_k, -1);
    return list;
}

vkattn_index_desc describe(const IndexOptions &o) {
    vkattn_index_desc desc{};
    desc.key_block_len = o.key_block_len;
    desc.activation = o.activation;
    desc.head_reduce = o.head_reduce;
    desc.block_reduce = o.block_reduce;
    desc.forced_first = o.forced_first;
    desc.forced_last = o.forced_last;
    desc.mask_flags = o.causal ? VKATTN_MASK_CAUSAL : VKATTN_MASK_NONE;
    desc.causal_alignment = VKATTN_CAUSAL_BOTTOM_RIGHT;
    return desc;
}

std::vector<std::int32_t> list_at(const HostTensor &indices, std::uint64_t row, std::uint64_t len) {
    std::vector<std::int32_t> list(len);
    std::memcpy(list.data(), indices.bytes().data() + row * len * 4, len * 4);
    return list;
}

std::vector<double> part(const std::vector<double> &all, std::uint64_t number, std::uint64_t size) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(number * size);
    return {begin, begin + static_cast<std::ptrdiff_t>(size)};
}

struct DenseCase {
    std::uint64_t heads, q_len, kv_len, head_dim;
    vkattn_type query = VKATTN_TYPE_F32, key = VKATTN_TYPE_F32;
    bool weighted = true;
    bool scaled = false; // keys, each by a number of its own
};

// Returns what computed the scores.
std::string check_dense(const DenseCase &c, const IndexOptions &o, unsigned seed, TestDevice &device = test_device()) {
    INFO("keys ", c.kv_len, ", top ", o.top_k, " x ", o.key_block_len);
    std::mt19937 random(seed);
    HostTensor query = normal_tensor(c.query, {2, c.heads, c.q_len, c.head_dim}, random);
    HostTensor key = normal_tensor(c.key, {2, 1, c.kv_len, c.head_dim}, random);
    HostTensor weights = normal_tensor(VKATTN_TYPE_F32, {2, c.q_len, c.heads}, random);
    HostTensor indices(VKATTN_TYPE_I32, {2, 1, c.q_len, o.top_k});
    HostTensor scales = random_scales(key.shape(), 7, random);
    std::vector<double> keys = key.values();
    vkattn_index_desc desc = describe(o);
    desc.query = query.view();
    desc.key = key.view();
    desc.indices = indices.view();
    std::vector<Region> regions = {{VKATTN_ROLE_QUERY, &query, Access::kRead},
                                   {VKATTN_ROLE_KEY, &key, Access::kRead},
                                   {VKATTN_ROLE_INDICES, &indices, Access::kWrite}};
    if (c.scaled) {
        desc.key_scales = scales.view();
        regions.push_back({VKATTN_ROLE_KEY_SCALES, &scales, Access::kRead});
        for (std::uint64_t i = 0; i < keys.size(); ++i) keys[i] *= static_cast<double>(scales.get(i / c.head_dim));
    }
    if (c.weighted) {
        desc.weights = weights.view();
        regions.push_back({VKATTN_ROLE_WEIGHT, &weights, Access::kRead});
    }
    const vkattn::Plan plan = device.context().index_plan(desc);
    device.run(plan, regions);
    for (std::uint64_t b = 0; b < 2; ++b) {
        OneSequence s{c.heads,
                      c.q_len,
                      c.kv_len,
                      c.head_dim,
                      part(query.values(), b, c.heads * c.q_len * c.head_dim),
                      part(keys, b, c.kv_len * c.head_dim),
                      {}};
        if (c.weighted) s.weights = part(weights.values(), b, c.q_len * c.heads);
        for (std::uint64_t i = 0; i < c.q_len; ++i)
            CHECK(list_at(indices, b * c.q_len + i, o.top_k) == expected_list(s, o, i));
    }
    return plan.report().reason;
}

// Packed queries of sequences, one of which has none, over packed or paged keys. Returns what computed the scores.
std::string check_packed(SequencesCase c, const IndexOptions &o, TestDevice &device = test_device()) {
    std::mt19937 random(5);
    c.lengths = {{1, 50}, {7, 33}, {0, 5}, {3, 120}};
    c.kv_heads = 1;
    std::vector<Sequence> sequences = make_sequences(c, random);
    SequencesBatch batch = make_batch(c, sequences, random);
    HostTensor indices(VKATTN_TYPE_I32, {1, 1, 11, o.top_k});
    const vkattn_attention_desc attention = describe(c, batch, VKATTN_KERNEL_AUTO);
    vkattn_index_desc desc = describe(o);
    desc.query = attention.query;
    desc.key = attention.key;
    desc.indices = indices.view();
    desc.key_lengths = attention.key_lengths;
    desc.cu_seqlens_q = attention.cu_seqlens_q;
    desc.cu_seqlens_k = attention.cu_seqlens_k;
    desc.block_table = attention.block_table;
    desc.max_seqlen_q = attention.max_seqlen_q;
    desc.max_seqlen_k = attention.max_seqlen_k;
    std::vector<Region> regions = regions_of(batch);
    std::erase_if(regions, [](const Region &region) {
        return region.role == VKATTN_ROLE_VALUE || region.access == Access::kWrite;
    });
    regions.push_back({VKATTN_ROLE_INDICES, &indices, Access::kWrite});
    const vkattn::Plan plan = device.context().index_plan(desc);
    device.run(plan, regions);
    std::uint64_t row = 0;
    for (const Sequence &sequence : sequences) {
        const OneSequence s{c.query_heads,
                            sequence.lengths.queries,
                            sequence.lengths.keys,
                            c.head_dim,
                            sequence.problem.query.values(),
                            sequence.problem.key.values(),
                            {}};
        for (std::uint64_t i = 0; i < sequence.lengths.queries; ++i)
            CHECK(list_at(indices, row++, o.top_k) == expected_list(s, o, i));
    }
    return plan.report().reason;
}

std::string message_of(const vkattn_index_desc &desc) {
    try {
        (void)test_device().context().index_plan(desc);
    } catch (const vkattn::Error &error) {
        return error.what();
    }
    return "";
}

} // namespace

TEST_SUITE_BEGIN("index");

TEST_CASE_FIXTURE(DeviceTest, "the best keys of each query, and the best blocks of keys") {
    check_dense({.heads = 11, .q_len = 7, .kv_len = 130, .head_dim = 40}, {.top_k = 9, .causal = true}, 1);
    check_dense(
        {.heads = 4, .q_len = 3, .kv_len = 130, .head_dim = 64, .query = VKATTN_TYPE_F16, .key = VKATTN_TYPE_Q8_0},
        kMeansOfBlocks, 2);
    check_dense({.heads = 3,
                 .q_len = 2,
                 .kv_len = 90,
                 .head_dim = 32,
                 .query = VKATTN_TYPE_BF16,
                 .key = VKATTN_TYPE_BF16,
                 .weighted = false},
                {.top_k = 120, .head_reduce = VKATTN_INDEX_MAX}, 3); // more than there are
}

// Few heads over rows of whole words: CPU drivers read them through device addresses.
TEST_CASE_FIXTURE(DeviceTest, "the best keys by the scores of few heads, of every type of keys") {
    unsigned seed = 10;
    for (const vkattn_type key : {VKATTN_TYPE_F32, VKATTN_TYPE_F16, VKATTN_TYPE_BF16, VKATTN_TYPE_Q8_0,
                                  VKATTN_TYPE_F8_E4M3, VKATTN_TYPE_F8_E5M2, VKATTN_TYPE_Q4_0}) {
        check_dense({.heads = 1 + seed % 4, .q_len = 2, .kv_len = 341, .head_dim = 64, .key = key},
                    {.top_k = 20, .causal = true}, seed);
        ++seed;
    }
    for (const std::uint64_t heads : {2, 7}) // by addresses, and not
        check_dense(
            {.heads = heads, .q_len = 2, .kv_len = 341, .head_dim = 64, .key = VKATTN_TYPE_F8_E4M3, .scaled = true},
            {.top_k = 20, .causal = true}, seed++);
    check_dense({.heads = 3, .q_len = 2, .kv_len = 531, .head_dim = 128, .key = VKATTN_TYPE_Q8_0},
                {.top_k = 5,
                 .key_block_len = 8,
                 .activation = VKATTN_INDEX_IDENTITY,
                 .head_reduce = VKATTN_INDEX_MAX,
                 .block_reduce = VKATTN_INDEX_MEAN,
                 .forced_last = 1,
                 .causal = true},
                seed);
    vkattn_index_desc desc{};
    desc.query = vkattn::tensor(VKATTN_TYPE_F16, {1, 1, 1, 128});
    desc.key = vkattn::tensor(VKATTN_TYPE_Q8_0, {1, 1, 512, 128});
    desc.indices = vkattn::tensor(VKATTN_TYPE_I32, {1, 1, 1, 8});
    const std::string reason = test_device().context().index_plan(desc).report().reason;
    CHECK(reason.starts_with("index_addresses") == can_run(test_device().facts(), VKATTN_KERNEL_ADDRESSES));
}

// GPUs that multiply pairs of f16 take them where rows are whole eights.
TEST_CASE_FIXTURE(DeviceTest,
                  "the best keys by the scores of heads of halves, as many as are taken at a time and others") {
    unsigned seed = 50;
    for (const std::uint64_t heads : {5, 16, 37})
        for (const std::uint64_t head_dim : {8, 20, 72})
            check_dense({.heads = heads,
                         .q_len = 3,
                         .kv_len = 205,
                         .head_dim = head_dim,
                         .query = VKATTN_TYPE_F16,
                         .key = VKATTN_TYPE_F16},
                        {.top_k = 30, .key_block_len = heads == 5 ? 3u : 1u, .causal = true}, seed++);
}

TEST_CASE_FIXTURE(DeviceTest, "the keys of a long context are chosen in several steps") {
    check_dense({.heads = 2, .q_len = 1, .kv_len = 20000, .head_dim = 16, .key = VKATTN_TYPE_F16}, {.top_k = 300}, 4);
}

TEST_CASE_FIXTURE(DeviceTest, "the workspace is bounded, however many queries there are") {
    const auto bytes = [](std::uint64_t q_len) {
        vkattn_index_desc desc{};
        desc.query = vkattn::tensor(VKATTN_TYPE_F16, {1, 2, q_len, 32});
        desc.key = vkattn::tensor(VKATTN_TYPE_F16, {1, 1, 65536, 32});
        desc.indices = vkattn::tensor(VKATTN_TYPE_I32, {1, 1, q_len, 16});
        return test_device().context().index_plan(desc).requirements().workspace_bytes;
    };
    CHECK(bytes(1024) == bytes(2048));
    CHECK(bytes(1024) < std::uint64_t{64} << 20);
}

TEST_CASE_FIXTURE(DeviceTest, "packed queries over packed and paged keys") {
    for (const Keys keys : {Keys::kPacked, Keys::kPaged}) {
        SequencesCase c;
        c.keys = keys;
        check_packed(c, {.top_k = 6, .key_block_len = 4, .forced_last = 1, .causal = true});
    }
}

// Several chunks of heads, several tiles of keys, the last ones of either not whole; blocks of keys; keys of eight bits with scales.
TEST_CASE_FIXTURE(DeviceTest, "the best keys by scores on matrix units") {
    if (!has_matrix_kernels()) return;
    const LimitedDevice limited("matrix_units=1,max_loop_iterations=0,scalar_address_loads=0");
    TestDevice &device = limited.device();
    unsigned seed = 90;
    const auto takes_matrices = [](const std::string &reason) {
        CHECK_MESSAGE(reason.starts_with("index_scores_coopmat"), reason);
    };
    for (const std::uint64_t heads : {16, 32, 80})
        for (const std::uint64_t head_dim : {32, 128}) {
            const DenseCase c{.heads = heads,
                              .q_len = heads == 32 ? 21u : 3u,
                              .kv_len = 171 + seed,
                              .head_dim = head_dim,
                              .query = VKATTN_TYPE_F16,
                              .key = head_dim == 32 ? VKATTN_TYPE_F8_E4M3 : VKATTN_TYPE_F16,
                              .weighted = heads != 80,
                              .scaled = head_dim == 32 && heads != 16};
            takes_matrices(check_dense(c, {.top_k = 30, .causal = true}, seed++, device));
        }
    const DenseCase blocks{
        .heads = 16, .q_len = 5, .kv_len = 333, .head_dim = 64, .query = VKATTN_TYPE_F16, .key = VKATTN_TYPE_F16};
    takes_matrices(check_dense(blocks, kMeansOfBlocks, seed++, device));
    takes_matrices(check_dense(blocks, {.top_k = 9, .key_block_len = 2, .causal = true}, seed++, device));
    for (const Keys keys : {Keys::kPacked, Keys::kPaged}) {
        SequencesCase c;
        c.query_type = c.key_type = VKATTN_TYPE_F16;
        c.query_heads = 16;
        c.head_dim = 64;
        c.keys = keys;
        takes_matrices(check_packed(c, {.top_k = 6, .key_block_len = 4, .forced_last = 1, .causal = true}, device));
        takes_matrices(check_packed(c, {.top_k = 20, .causal = true}, device));
    }
    // neither heads that are no whole matrices nor their maximum
    for (const IndexOptions &o : {IndexOptions{}, IndexOptions{.head_reduce = VKATTN_INDEX_MAX}}) {
        const DenseCase other{.heads = o.head_reduce == VKATTN_INDEX_MAX ? 16u : 18u,
                              .q_len = 2,
                              .kv_len = 40,
                              .head_dim = 64,
                              .query = VKATTN_TYPE_F16,
                              .key = VKATTN_TYPE_F16};
        CHECK(!check_dense(other, o, seed++, device).starts_with("index_scores_coopmat"));
    }
}

// The last query of a workgroup may be of no sequence.
TEST_CASE_FIXTURE(DeviceTest, "queries behind the last sequence have no keys, and leave others theirs") {
    constexpr std::uint64_t kHeads = 16, kLen = 150, kTokens = 153, kHeadDim = 32;
    const LimitedDevice few("matrix_units=1,max_loop_iterations=0,scalar_address_loads=0,parallel_workgroups=8");
    for (TestDevice *device : {&test_device(), &few.device()}) {
        std::mt19937 random(8);
        const IndexOptions o{.top_k = 20, .causal = true};
        HostTensor query = normal_tensor(VKATTN_TYPE_F16, {1, kHeads, kTokens, kHeadDim}, random);
        HostTensor key = normal_tensor(VKATTN_TYPE_F16, {1, 1, kLen, kHeadDim}, random);
        HostTensor indices(VKATTN_TYPE_I32, {1, 1, kTokens, o.top_k}), cu_seqlens(VKATTN_TYPE_I32, {2});
        cu_seqlens.set(1, kLen);
        vkattn_index_desc desc = describe(o);
        desc.query = query.view();
        desc.key = key.view();
        desc.indices = indices.view();
        desc.cu_seqlens_q = desc.cu_seqlens_k = cu_seqlens.view();
        desc.max_seqlen_q = desc.max_seqlen_k = kLen;
        device->run(device->context().index_plan(desc),
                    std::array{Region{VKATTN_ROLE_QUERY, &query, Access::kRead},
                               Region{VKATTN_ROLE_KEY, &key, Access::kRead},
                               Region{VKATTN_ROLE_CU_SEQLENS_Q, &cu_seqlens, Access::kRead},
                               Region{VKATTN_ROLE_CU_SEQLENS_K, &cu_seqlens, Access::kRead},
                               Region{VKATTN_ROLE_INDICES, &indices, Access::kWrite}});
        OneSequence s{kHeads, kLen, kLen, kHeadDim, {}, key.values(), {}};
        const std::vector<double> queries = query.values();
        for (std::uint64_t head = 0; head < kHeads; ++head) {
            const auto begin = queries.begin() + static_cast<std::ptrdiff_t>(head * kTokens * kHeadDim);
            s.query.insert(s.query.end(), begin, begin + kLen * kHeadDim);
        }
        for (std::uint64_t i = 0; i < kTokens; ++i)
            CHECK(list_at(indices, i, o.top_k) ==
                  (i < kLen ? expected_list(s, o, i) : std::vector<std::int32_t>(o.top_k, -1)));
    }
}

TEST_CASE_FIXTURE(DeviceTest, "no keys are listed where there are none, and the first ones of no heads") {
    check_dense({.heads = 2, .q_len = 3, .kv_len = 0, .head_dim = 32}, {.top_k = 3}, 4);
    check_dense({.heads = 0, .q_len = 3, .kv_len = 0, .head_dim = 32}, {.top_k = 3}, 5);
    for (const vkattn_index_reduce reduce : {VKATTN_INDEX_SUM, VKATTN_INDEX_MAX})
        check_dense({.heads = 0, .q_len = 3, .kv_len = 9, .head_dim = 32},
                    {.top_k = 3, .key_block_len = 2, .head_reduce = reduce, .causal = true}, 6);
}

TEST_CASE_FIXTURE(DeviceTest, "a score that is not a number is above every number") {
    // of two heads, the first one's products with key 2 are -infinity or a number, the second one's are NaN
    for (const std::uint64_t size : {std::uint64_t{7}, std::uint64_t{64}}) // by addresses the latter, where they serve
        for (const vkattn_index_reduce reduce : {VKATTN_INDEX_SUM, VKATTN_INDEX_MAX})
            for (const vkattn_index_activation activation : {VKATTN_INDEX_RELU, VKATTN_INDEX_IDENTITY}) {
                CAPTURE(size);
                CAPTURE(reduce);
                CAPTURE(activation);
                std::mt19937 random(7);
                HostTensor query(VKATTN_TYPE_F32, {1, 2, 1, size}), key(VKATTN_TYPE_F32, {1, 1, 6, size});
                for (std::uint64_t i = 0; i < query.elements(); ++i) query.set(i, i == size ? 0.0f : 1.0f);
                for (std::uint64_t i = 0; i < key.elements(); ++i) key.set(i, 1.0f + static_cast<float>(i / size));
                key.set(2 * size, -HUGE_VALF);
                HostTensor indices(VKATTN_TYPE_I32, {1, 1, 1, 1});
                vkattn_index_desc desc = describe({.activation = activation, .head_reduce = reduce});
                desc.query = query.view();
                desc.key = key.view();
                desc.indices = indices.view();
                test_device().run(test_device().context().index_plan(desc),
                                  std::array{Region{VKATTN_ROLE_QUERY, &query, Access::kRead},
                                             Region{VKATTN_ROLE_KEY, &key, Access::kRead},
                                             Region{VKATTN_ROLE_INDICES, &indices, Access::kWrite}});
                CHECK(list_at(indices, 0, 1) == std::vector<std::int32_t>{2});
            }
}

TEST_CASE_FIXTURE(DeviceTest, "wrong choices of keys are named") {
    vkattn_index_desc desc{};
    desc.query = vkattn::tensor(VKATTN_TYPE_F32, {1, 4, 3, 32});
    desc.key = vkattn::tensor(VKATTN_TYPE_F32, {1, 2, 40, 32});
    desc.indices = vkattn::tensor(VKATTN_TYPE_I32, {1, 1, 3, 8});
    CHECK(message_of(desc) == "key: 2 heads, expected 1");
    desc.key = vkattn::tensor(VKATTN_TYPE_F32, {1, 1, 40, 32});
    desc.head_reduce = VKATTN_INDEX_MEAN;
    CHECK(message_of(desc) == "head_reduce: 2, expected VKATTN_INDEX_SUM or VKATTN_INDEX_MAX");
    desc.head_reduce = VKATTN_INDEX_SUM;
    desc.indices = vkattn::tensor(VKATTN_TYPE_I32, {1, 1, 3, 2049});
    CHECK(message_of(desc) == "indices: 2049 blocks of a query, expected 1 to 2048");
    desc.indices = vkattn::tensor(VKATTN_TYPE_I32, {1, 1, 2, 8});
    CHECK(message_of(desc) == "indices: shape [1,1,2,8], expected [1,1,3,8]");
}

TEST_SUITE_END();
