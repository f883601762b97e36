// Sequences of unequal length: packed queries and keys (cu_seqlens), paged keys (block_table), their lengths on the
// device, and what must not happen when those lengths lie.
#include "compare.hpp"
#include "device.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

using namespace vkattn_test;

namespace {

enum class Keys { kDense, kPacked, kPaged };

struct Lengths {
    std::uint64_t queries, keys;
};

struct Case {
    std::vector<Lengths> lengths;
    bool packs_queries = true;
    Keys keys = Keys::kPacked;
    std::uint64_t query_heads = 4, kv_heads = 2, head_dim = 32, v_head_dim = 32, page = 8;
    vkattn_type key_type = VKATTN_TYPE_F32, value_type = VKATTN_TYPE_F32, query_type = VKATTN_TYPE_F32;
    std::uint32_t mask_flags = VKATTN_MASK_NONE;
    std::int32_t window_left = -1, window_right = -1;
    vkattn_causal_alignment alignment = VKATTN_CAUSAL_TOP_LEFT;
    bool alibi = false;
};

std::uint64_t longest(const Case &c, std::uint64_t Lengths::*member) {
    std::uint64_t most = 1;
    for (const Lengths &lengths : c.lengths) most = std::max(most, lengths.*member);
    return most;
}

std::uint64_t total(const Case &c, std::uint64_t Lengths::*member) {
    std::uint64_t sum = 0;
    for (const Lengths &lengths : c.lengths) sum += lengths.*member;
    return std::max<std::uint64_t>(sum, 1);
}

HostTensor cu_seqlens(const Case &c, std::uint64_t Lengths::*member) {
    HostTensor tensor(VKATTN_TYPE_I32, {c.lengths.size() + 1});
    std::uint64_t sum = 0;
    tensor.set(0, 0.0f);
    for (std::size_t b = 0; b < c.lengths.size(); ++b)
        tensor.set(b + 1, static_cast<float>(sum += c.lengths[b].*member));
    return tensor;
}

// Bytes of row `row` of a contiguous tensor.
std::span<std::uint8_t> row_of(HostTensor &tensor, std::uint64_t row) {
    const std::uint64_t size = tensor.shape().back();
    const std::uint64_t bytes = is_quantised(tensor.type())
                                    ? size / kBlockElements * (tensor.type() == VKATTN_TYPE_Q8_0 ? kQ8Bytes : kQ4Bytes)
                                    : size * type_bytes(tensor.type());
    return tensor.bytes().subspan(row * bytes, bytes);
}

void copy_row(HostTensor &from, std::uint64_t row, HostTensor &to, std::uint64_t to_row) {
    std::ranges::copy(row_of(from, row), row_of(to, to_row).begin());
}

// Every sequence by itself, for the reference; keys [1,H,max(keys,1),D] with their number in key_lengths.
struct Sequence {
    AttentionProblem problem;
    Lengths lengths;
};

std::vector<Sequence> make_sequences(const Case &c, std::mt19937 &random) {
    const HostTensor slopes = normal_tensor(VKATTN_TYPE_F32, {c.query_heads}, random, 0.2f);
    std::vector<Sequence> sequences;
    for (const Lengths &lengths : c.lengths) {
        AttentionProblem p;
        const std::uint64_t keys = std::max<std::uint64_t>(lengths.keys, 1);
        p.query = normal_tensor(c.query_type,
                                {1, c.query_heads, std::max<std::uint64_t>(lengths.queries, 1), c.head_dim}, random);
        p.key = normal_tensor(c.key_type, {1, c.kv_heads, keys, c.head_dim}, random);
        p.value = normal_tensor(c.value_type, {1, c.kv_heads, keys, c.v_head_dim}, random);
        p.key_lengths = HostTensor(VKATTN_TYPE_I32, {1});
        p.key_lengths.set(0, static_cast<float>(lengths.keys));
        p.mask_flags = c.mask_flags;
        p.causal_alignment = c.alignment;
        p.window_left = c.window_left;
        p.window_right = c.window_right;
        if (c.alibi) p.alibi_slopes = slopes;
        sequences.push_back({p, lengths});
    }
    return sequences;
}

// A batch in memory, and what says where its sequences lie.
struct Batch {
    HostTensor query, key, value, cu_seqlens_q, cu_seqlens_k, block_table, key_lengths, slopes;
    HostTensor output, log_sum_exp;
};

// Where row (sequence, position) of packed or dense rows lies: [entry][head][row].
struct Place {
    std::uint64_t entry, row;
};

std::vector<std::uint64_t> shuffled_pages(std::uint64_t count, std::mt19937 &random) {
    std::vector<std::uint64_t> pages(count);
    std::iota(pages.begin(), pages.end(), 0);
    std::ranges::shuffle(pages, random);
    return pages;
}

void fill_keys(const Case &c, std::vector<Sequence> &sequences, std::mt19937 &random, Batch &batch) {
    const std::uint64_t table_pages = (longest(c, &Lengths::keys) + c.page - 1) / c.page;
    const std::uint64_t pool = table_pages * c.lengths.size() + 3;
    const std::vector<std::uint64_t> pages = shuffled_pages(pool, random);
    const std::uint64_t entries = c.keys == Keys::kPaged ? pool : c.keys == Keys::kPacked ? 1 : c.lengths.size();
    const std::uint64_t rows = c.keys == Keys::kPaged    ? c.page
                               : c.keys == Keys::kPacked ? total(c, &Lengths::keys)
                                                         : longest(c, &Lengths::keys);
    batch.key = HostTensor(c.key_type, {entries, c.kv_heads, rows, c.head_dim}); // NaN where no row is copied to
    batch.value = HostTensor(c.value_type, {entries, c.kv_heads, rows, c.v_head_dim});
    if (c.keys == Keys::kPacked) batch.cu_seqlens_k = cu_seqlens(c, &Lengths::keys);
    if (c.keys != Keys::kPacked) batch.key_lengths = HostTensor(VKATTN_TYPE_I32, {c.lengths.size()});
    if (c.keys == Keys::kPaged) batch.block_table = HostTensor(VKATTN_TYPE_I32, {c.lengths.size(), table_pages});
    std::uint64_t first = 0;
    for (std::size_t b = 0; b < sequences.size(); ++b) {
        const std::uint64_t keys = sequences[b].lengths.keys;
        if (batch.key_lengths.present()) batch.key_lengths.set(b, static_cast<float>(keys));
        for (std::uint64_t n = 0; batch.block_table.present() && n < table_pages; ++n) // pages behind the end: nowhere
            batch.block_table.set(b * table_pages + n,
                                  n * c.page < keys ? static_cast<float>(pages[b * table_pages + n]) : -7.0f);
        for (std::uint64_t key = 0; key < keys; ++key) {
            const Place place = c.keys == Keys::kPaged    ? Place{pages[b * table_pages + key / c.page], key % c.page}
                                : c.keys == Keys::kPacked ? Place{0, first + key}
                                                          : Place{b, key};
            for (std::uint64_t h = 0; h < c.kv_heads; ++h) {
                const std::uint64_t to = (place.entry * c.kv_heads + h) * rows + place.row;
                copy_row(sequences[b].problem.key, h * keys + key, batch.key, to);
                copy_row(sequences[b].problem.value, h * keys + key, batch.value, to);
            }
        }
        first += keys;
    }
}

Batch make_batch(const Case &c, std::vector<Sequence> &sequences, std::mt19937 &random) {
    Batch batch;
    const std::uint64_t entries = c.packs_queries ? 1 : c.lengths.size();
    const std::uint64_t rows = c.packs_queries ? total(c, &Lengths::queries) : c.lengths[0].queries;
    batch.query = HostTensor(c.query_type, {entries, c.query_heads, rows, c.head_dim});
    batch.output = HostTensor(c.query_type, {entries, c.query_heads, rows, c.v_head_dim});
    batch.log_sum_exp =
        HostTensor(VKATTN_TYPE_F32, c.packs_queries ? Shape{c.query_heads, rows} : Shape{entries, c.query_heads, rows});
    if (c.packs_queries) batch.cu_seqlens_q = cu_seqlens(c, &Lengths::queries);
    std::uint64_t first = 0;
    for (std::size_t b = 0; b < sequences.size(); ++b) {
        const std::uint64_t queries = sequences[b].lengths.queries;
        for (std::uint64_t h = 0; h < c.query_heads; ++h)
            for (std::uint64_t i = 0; i < queries; ++i)
                copy_row(sequences[b].problem.query, h * queries + i, batch.query,
                         c.packs_queries ? h * rows + first + i : (b * c.query_heads + h) * rows + i);
        first += queries;
    }
    batch.slopes = sequences[0].problem.alibi_slopes;
    fill_keys(c, sequences, random, batch);
    return batch;
}

vkattn_attention_desc describe(const Case &c, const Batch &batch, vkattn_kernel kernel) {
    vkattn_attention_desc desc{};
    desc.query = batch.query.view();
    desc.key = batch.key.view();
    desc.value = batch.value.view();
    desc.output = batch.output.view();
    desc.log_sum_exp = batch.log_sum_exp.view();
    desc.cu_seqlens_q = batch.cu_seqlens_q.view();
    desc.cu_seqlens_k = batch.cu_seqlens_k.view();
    desc.block_table = batch.block_table.view();
    desc.key_lengths = batch.key_lengths.view();
    desc.alibi_slopes = batch.slopes.view();
    if (c.packs_queries) desc.max_seqlen_q = static_cast<std::uint32_t>(longest(c, &Lengths::queries));
    if (c.keys == Keys::kPacked) desc.max_seqlen_k = static_cast<std::uint32_t>(longest(c, &Lengths::keys));
    desc.mask_flags = c.mask_flags;
    desc.window_left = c.window_left;
    desc.window_right = c.window_right;
    desc.causal_alignment = c.alignment;
    desc.kernel = kernel;
    return desc;
}

void run(const vkattn::Plan &plan, Batch &batch) {
    std::vector<Region> regions = {{VKATTN_ROLE_QUERY, &batch.query, Access::kRead},
                                   {VKATTN_ROLE_KEY, &batch.key, Access::kRead},
                                   {VKATTN_ROLE_VALUE, &batch.value, Access::kRead},
                                   {VKATTN_ROLE_OUTPUT, &batch.output, Access::kWrite},
                                   {VKATTN_ROLE_LOG_SUM_EXP, &batch.log_sum_exp, Access::kWrite}};
    const auto add = [&](vkattn_role role, HostTensor &tensor) {
        if (tensor.present()) regions.push_back({role, &tensor, Access::kRead});
    };
    add(VKATTN_ROLE_CU_SEQLENS_Q, batch.cu_seqlens_q);
    add(VKATTN_ROLE_CU_SEQLENS_K, batch.cu_seqlens_k);
    add(VKATTN_ROLE_BLOCK_TABLE, batch.block_table);
    add(VKATTN_ROLE_KEY_LENGTHS, batch.key_lengths);
    add(VKATTN_ROLE_ALIBI_SLOPES, batch.slopes);
    test_device().run(plan, regions);
}

// The reference of each sequence, laid out as the batch's output and log_sum_exp.
struct Expected {
    std::vector<double> output, log_sum_exp;
};

Expected expect(const Case &c, const std::vector<Sequence> &sequences, const Batch &batch) {
    Expected expected{std::vector<double>(batch.output.elements()), std::vector<double>(batch.log_sum_exp.elements())};
    const std::uint64_t rows = batch.query.shape()[2];
    std::uint64_t first = 0;
    for (std::size_t b = 0; b < sequences.size(); ++b) {
        const std::uint64_t queries = sequences[b].lengths.queries;
        const AttentionReference reference = reference_attention(sequences[b].problem);
        for (std::uint64_t h = 0; h < c.query_heads; ++h)
            for (std::uint64_t i = 0; i < queries; ++i) {
                const std::uint64_t to = c.packs_queries ? h * rows + first + i : (b * c.query_heads + h) * rows + i;
                expected.log_sum_exp[to] = reference.log_sum_exp[h * queries + i];
                for (std::uint64_t d = 0; d < c.v_head_dim; ++d)
                    expected.output[to * c.v_head_dim + d] = reference.output[(h * queries + i) * c.v_head_dim + d];
            }
        first += queries;
    }
    return expected;
}

// Those for unequal lengths, and the one that is chosen.
std::vector<vkattn_kernel> kernels_for(const Case &c, const Batch &batch) {
    std::vector<vkattn_kernel> kernels = vkattn_test::kernels_for(describe(c, batch, VKATTN_KERNEL_AUTO));
    std::erase(kernels, VKATTN_KERNEL_UNFUSED);
    kernels.push_back(VKATTN_KERNEL_AUTO);
    return kernels;
}

void check_types(const Case &c, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<Sequence> sequences = make_sequences(c, random);
    Batch batch = make_batch(c, sequences, random);
    const Expected expected = expect(c, sequences, batch);
    for (const vkattn_kernel kernel : kernels_for(c, batch)) {
        INFO("kernel ", kernel_text(kernel), ", keys ", type_name(c.key_type), ", layout ", static_cast<int>(c.keys));
        run(test_device().context().attention_plan(describe(c, batch, kernel)), batch);
        const Comparison output = compare("output", batch.output.shape(), expected.output, batch.output.floats(),
                                          nmse_bound({c.query_type, c.key_type, c.value_type}));
        CHECK_MESSAGE(output.passed, output.report);
        const Comparison sums =
            compare("log_sum_exp", batch.log_sum_exp.shape(), expected.log_sum_exp, batch.log_sum_exp.floats(),
                    // see check_attention
                    nmse_bound({VKATTN_TYPE_F32}) * (c.key_type == c.query_type ? 1 : 100));
        CHECK_MESSAGE(sums.passed, sums.report);
    }
}

// In f16 besides, for the matrix kernels.
void check(const Case &c, unsigned seed = 61) {
    check_types(c, seed);
    if (c.query_type != VKATTN_TYPE_F32 || !has_matrix_kernels()) return;
    Case half = c;
    half.query_type = VKATTN_TYPE_F16;
    for (vkattn_type *type : {&half.key_type, &half.value_type})
        if (*type == VKATTN_TYPE_F32 || *type == VKATTN_TYPE_BF16) *type = VKATTN_TYPE_F16;
    check_types(half, seed);
}

const std::vector<Lengths> kMixed = {{5, 5}, {1, 70}, {0, 9}, {33, 40}, {7, 0}, {1, 1}, {64, 64}};

} // namespace

TEST_SUITE_BEGIN("sequences");

TEST_CASE_FIXTURE(DeviceTest, "packed, paged and dense keys under packed queries, prefill and decode in one batch") {
    for (const Keys keys : {Keys::kPacked, Keys::kPaged, Keys::kDense}) {
        Case c{.lengths = kMixed, .keys = keys};
        check(c);
        c.mask_flags = VKATTN_MASK_CAUSAL;
        c.alignment = VKATTN_CAUSAL_BOTTOM_RIGHT;
        check(c);
        c.alignment = VKATTN_CAUSAL_TOP_LEFT;
        c.mask_flags = VKATTN_MASK_WINDOW;
        c.window_left = 9;
        c.window_right = 3;
        c.alibi = true;
        check(c);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "dense queries over packed and paged keys of every type") {
    const std::vector<Lengths> lengths = {{2, 300}, {2, 1}, {2, 17}};
    for (const Keys keys : {Keys::kPacked, Keys::kPaged}) {
        for (const vkattn_type type :
             {VKATTN_TYPE_F32, VKATTN_TYPE_F16, VKATTN_TYPE_BF16, VKATTN_TYPE_Q8_0, VKATTN_TYPE_Q4_0}) {
            Case c{.lengths = lengths, .packs_queries = false, .keys = keys, .head_dim = 64, .v_head_dim = 32};
            c.key_type = type;
            c.value_type = type == VKATTN_TYPE_Q4_0 ? VKATTN_TYPE_F16 : type;
            c.mask_flags = VKATTN_MASK_CAUSAL;
            c.alignment = VKATTN_CAUSAL_BOTTOM_RIGHT;
            check(c);
        }
    }
}

TEST_CASE_FIXTURE(DeviceTest, "pages of every size, odd head sizes, half precision") {
    for (const std::uint64_t page : {8, 16, 64, 512}) {
        Case c{.lengths = {{3, 130}, {9, 9}}, .keys = Keys::kPaged, .head_dim = 40, .v_head_dim = 24, .page = page};
        c.query_type = c.key_type = c.value_type = VKATTN_TYPE_F16;
        check(c);
        c.head_dim = 13;
        c.v_head_dim = 7;
        check(c);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "one plan serves any lengths up to its maxima") {
    Case c{.lengths = kMixed, .keys = Keys::kPaged};
    c.mask_flags = VKATTN_MASK_CAUSAL;
    c.alignment = VKATTN_CAUSAL_BOTTOM_RIGHT;
    std::mt19937 random(67);
    std::vector<Sequence> sequences = make_sequences(c, random);
    const Batch first = make_batch(c, sequences, random);
    const vkattn::Plan plan = test_device().context().attention_plan(describe(c, first, VKATTN_KERNEL_AUTO));
    for (int turn = 0; turn < 3; ++turn) {
        std::rotate(c.lengths.begin(), c.lengths.begin() + 2, c.lengths.end());
        sequences = make_sequences(c, random);
        Batch batch = make_batch(c, sequences, random);
        run(plan, batch);
        const Comparison output = compare("output", batch.output.shape(), expect(c, sequences, batch).output,
                                          batch.output.floats(), nmse_bound({VKATTN_TYPE_F32}));
        CHECK_MESSAGE(output.passed, output.report);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "lengths and pages that lie touch nothing outside the tensors") {
    for (const Keys keys : {Keys::kPacked, Keys::kPaged}) {
        Case c{.lengths = kMixed, .keys = keys};
        c.query_type = c.key_type = c.value_type = VKATTN_TYPE_F16; // which every kernel takes
        std::mt19937 random(71);
        std::vector<Sequence> sequences = make_sequences(c, random);
        Batch batch = make_batch(c, sequences, random);
        fill_normal(batch.key, random);
        fill_normal(batch.value, random);
        std::uniform_int_distribution<std::int32_t> any(INT32_MIN, INT32_MAX);
        for (HostTensor *tensor : {&batch.cu_seqlens_q, &batch.cu_seqlens_k, &batch.block_table, &batch.key_lengths}) {
            for (std::uint64_t i = 0; i < tensor->elements(); ++i) {
                const std::int32_t lie = any(random);
                std::memcpy(tensor->bytes().data() + 4 * i, &lie, sizeof lie);
            }
        }
        for (const vkattn_kernel kernel : kernels_for(c, batch))
            run(test_device().context().attention_plan(describe(c, batch, kernel)), batch); // guards are checked
    }
}

// The reference is told by a padding mask what the table hides.
void lose_pages(const Case &c, std::vector<Sequence> &sequences, Batch &batch) {
    const std::uint64_t table_pages = batch.block_table.shape()[1];
    const auto pool = static_cast<std::int32_t>(batch.key.shape()[0]);
    const std::int32_t outside[] = {-1, pool, INT32_MAX, INT32_MIN, pool + 1};
    for (std::size_t b = 0; b < sequences.size(); ++b) {
        AttentionProblem &p = sequences[b].problem;
        p.key_padding_mask = HostTensor(VKATTN_TYPE_BOOL, {1, p.key.shape()[2]});
        for (std::uint64_t key = 0; key < p.key.shape()[2]; ++key) {
            const std::uint64_t page = key / c.page;
            const bool missing = b == 1 || page % 5 == 2; // of the second sequence, all
            p.key_padding_mask.set(key, missing ? 1.0f : 0.0f);
            if (missing)
                std::memcpy(batch.block_table.bytes().data() + 4 * (b * table_pages + page),
                            &outside[page % std::size(outside)], 4);
        }
    }
}

TEST_CASE_FIXTURE(DeviceTest, "keys on pages outside the pool are hidden") {
    for (const std::uint64_t queries : {1, 40}) { // as decode and as prefill
        for (const vkattn_type type : {VKATTN_TYPE_F32, VKATTN_TYPE_F16}) {
            Case c{.lengths = {{queries, 300}, {queries, 40}, {queries, 129}},
                   .packs_queries = false,
                   .keys = Keys::kPaged};
            c.page = 16;
            c.query_type = c.key_type = c.value_type = type;
            if (type == VKATTN_TYPE_F16) c.mask_flags = VKATTN_MASK_CAUSAL;
            c.alignment = VKATTN_CAUSAL_BOTTOM_RIGHT;
            std::mt19937 random(83);
            std::vector<Sequence> sequences = make_sequences(c, random);
            Batch batch = make_batch(c, sequences, random);
            lose_pages(c, sequences, batch);
            const Expected expected = expect(c, sequences, batch);
            for (const vkattn_kernel kernel : kernels_for(c, batch)) {
                INFO("kernel ", kernel_text(kernel), ", ", queries, " queries, ", type_name(type));
                run(test_device().context().attention_plan(describe(c, batch, kernel)), batch);
                const Comparison output =
                    compare("output", batch.output.shape(), expected.output, batch.output.floats(), nmse_bound({type}));
                CHECK_MESSAGE(output.passed, output.report);
                CHECK(std::isinf(batch.log_sum_exp.get(c.query_heads * queries))); // of the second sequence
            }
        }
    }
}

TEST_CASE_FIXTURE(DeviceTest, "packed rows are appended to the pages that there are, to the bit") {
    const std::vector<std::uint64_t> tokens = {3, 0, 11}, past = {6, 2, 9};
    constexpr std::uint64_t kHeads = 2, kSize = 32, kPage = 8, kPages = 4;
    for (const vkattn_type type : {VKATTN_TYPE_F32, VKATTN_TYPE_BF16, VKATTN_TYPE_Q8_0}) {
        std::mt19937 random(73);
        HostTensor source = normal_tensor(VKATTN_TYPE_F32, {1, kHeads, 14, kSize}, random);
        HostTensor cache(type, {tokens.size() * kPages, kHeads, kPage, kSize});
        std::ranges::fill(cache.bytes(), kGapByte);
        HostTensor expected = cache;
        HostTensor cu(VKATTN_TYPE_I32, {4}), past_lengths(VKATTN_TYPE_I32, {3}), table(VKATTN_TYPE_I32, {3, kPages});
        const std::vector<std::uint64_t> pages = shuffled_pages(3 * kPages, random);
        std::uint64_t first = 0;
        cu.set(0, 0.0f);
        for (std::uint64_t b = 0; b < 3; ++b) {
            past_lengths.set(b, static_cast<float>(past[b]));
            // the last pages are nowhere: what would lie there is dropped
            for (std::uint64_t n = 0; n < kPages; ++n)
                table.set(b * kPages + n, n == kPages - 2   ? static_cast<float>(3 * kPages)
                                          : n == kPages - 1 ? -1.0f
                                                            : static_cast<float>(pages[b * kPages + n]));
            HostTensor rounded(type, {tokens[b] + 1, kSize});
            for (std::uint64_t h = 0; h < kHeads; ++h)
                for (std::uint64_t i = 0; i < tokens[b]; ++i) {
                    std::array<float, kSize> row;
                    for (std::uint64_t d = 0; d < kSize; ++d) row[d] = source.get((h * 14 + first + i) * kSize + d);
                    if (is_quantised(type))
                        rounded.set_block(i * kSize, row);
                    else
                        for (std::uint64_t d = 0; d < kSize; ++d) rounded.set(i * kSize + d, row[d]);
                    const std::uint64_t position = past[b] + i;
                    if (position / kPage >= kPages - 2) continue;
                    copy_row(rounded, i, expected,
                             (pages[b * kPages + position / kPage] * kHeads + h) * kPage + position % kPage);
                }
            cu.set(b + 1, static_cast<float>(first += tokens[b]));
        }
        vkattn_kv_append_desc desc{};
        desc.source = source.view();
        desc.cache = cache.view();
        desc.past_lengths = past_lengths.view();
        desc.cu_seqlens = cu.view();
        desc.block_table = table.view();
        desc.max_seqlen = 11;
        const std::vector<Region> regions = {{VKATTN_ROLE_KEY, &source, Access::kRead},
                                             {VKATTN_ROLE_PRESENT_KEY, &cache, Access::kReadWrite},
                                             {VKATTN_ROLE_PAST_LENGTHS, &past_lengths, Access::kRead},
                                             {VKATTN_ROLE_CU_SEQLENS_Q, &cu, Access::kRead},
                                             {VKATTN_ROLE_BLOCK_TABLE, &table, Access::kRead}};
        test_device().run(test_device().context().kv_append_plan(desc), regions);
        CHECK(std::ranges::equal(cache.bytes(), expected.bytes()));
    }
}

TEST_CASE_FIXTURE(DeviceTest, "what contradicts itself is named") {
    const Case c{.lengths = kMixed, .keys = Keys::kPaged};
    std::mt19937 random(79);
    std::vector<Sequence> sequences = make_sequences(c, random);
    const Batch batch = make_batch(c, sequences, random);
    const vkattn_attention_desc good = describe(c, batch, VKATTN_KERNEL_AUTO);
    const auto refused = [&](const vkattn_attention_desc &desc, const char *message) {
        INFO(message);
        try {
            test_device().context().attention_plan(desc);
            FAIL("accepted");
        } catch (const vkattn::Error &error) {
            CHECK(std::string(error.what()).find(message) != std::string::npos);
        }
    };
    vkattn_attention_desc desc = good;
    desc.cu_seqlens_k = desc.cu_seqlens_q;
    refused(desc, "cu_seqlens_k");
    desc = good;
    desc.cu_seqlens_q.type = VKATTN_TYPE_F32;
    refused(desc, "cu_seqlens_q: type F32");
    desc = good;
    desc.cu_seqlens_q.shape[0] = 1;
    refused(desc, "expected contiguous I32 [B+1]");
    desc = good;
    desc.max_seqlen_q = 10000;
    refused(desc, "max_seqlen_q: 10000");
    desc = good;
    desc.block_table.shape[0] = 3;
    refused(desc, "block_table: type I32, shape [3,");
    desc = good;
    desc.key.shape[2] = desc.value.shape[2] = 7;
    refused(desc, "expected a power of two");
    desc = good;
    desc.kernel = VKATTN_KERNEL_UNFUSED;
    refused(desc, "no packed or paged sequences");
    desc = good;
    desc.log_sum_exp = vkattn::tensor(VKATTN_TYPE_F32, {7, 4, 1});
    refused(desc, "log_sum_exp: shape");
}

TEST_SUITE_END();
