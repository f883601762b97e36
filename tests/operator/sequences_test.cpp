// Sequences of unequal length: packed queries and keys (cu_seqlens), paged keys (block_table), their lengths on the
// device, and what must not happen when those lengths lie.
#include "compare.hpp"
#include "limited_device.hpp"
#include "sequence_cases.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace vkattn_test;

namespace {

void run(const vkattn::Plan &plan, SequencesBatch &batch) {
    const std::string complaints = try_batch(plan, batch);
    CHECK_MESSAGE(complaints.empty(), complaints);
}

void check_types(const SequencesCase &c, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<Sequence> sequences = make_sequences(c, random);
    SequencesBatch batch = make_batch(c, sequences, random);
    const ExpectedSequences expected = expect(c, sequences, batch);
    for (const vkattn_kernel kernel : kernels_for(c, batch)) {
        INFO("kernel ", kernel_text(kernel), ", keys ", type_name(c.key_type), ", layout ", static_cast<int>(c.keys));
        const std::string complaints = try_batch(c, batch, expected, kernel);
        CHECK_MESSAGE(complaints.empty(), complaints);
    }
}

// In f16 besides, for the matrix kernels.
void check(const SequencesCase &c, unsigned seed = 61) {
    check_types(c, seed);
    if (c.query_type != VKATTN_TYPE_F32 || !has_matrix_kernels()) return;
    SequencesCase half = c;
    half.query_type = VKATTN_TYPE_F16;
    for (vkattn_type *type : {&half.key_type, &half.value_type})
        if (*type == VKATTN_TYPE_F32 || *type == VKATTN_TYPE_BF16) *type = VKATTN_TYPE_F16;
    check_types(half, seed);
}

const std::vector<SequenceLengths> kMixed = {{5, 5}, {1, 70}, {0, 9}, {33, 40}, {7, 0}, {1, 1}, {64, 64}};

} // namespace

TEST_SUITE_BEGIN("sequences");

TEST_CASE_FIXTURE(DeviceTest, "packed, paged and dense keys under packed queries, prefill and decode in one batch") {
    for (const Keys keys : {Keys::kPacked, Keys::kPaged, Keys::kDense}) {
        SequencesCase c{.lengths = kMixed, .keys = keys};
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

// Whose tiles lie between each other's in one grid, in every order of long, short and empty sequences.
TEST_CASE_FIXTURE(DeviceTest, "many sequences, whose longest is told or not") {
    std::mt19937 random(63);
    std::vector<SequenceLengths> lengths;
    for (std::uint64_t i = 0; i < 40; ++i) {
        const std::uint64_t queries = i == 15 ? 90 : i % 9 == 4 ? 17 : random() % 3;
        lengths.push_back({queries, queries + random() % 7});
    }
    for (const bool told : {true, false}) {
        SequencesCase c{.lengths = lengths, .head_dim = 16, .v_head_dim = 8, .tells_longest = told};
        c.query_heads = told ? 6 : 4;
        c.mask_flags = told ? VKATTN_MASK_CAUSAL : VKATTN_MASK_NONE;
        c.alignment = VKATTN_CAUSAL_BOTTOM_RIGHT;
        check(c);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "batch-invariant: the same bits as the sequence alone, in whichever place") {
    SequencesCase c{.lengths = {{1, 90}, {40, 300}, {0, 5}, {3, 3}}};
    c.mask_flags = VKATTN_MASK_CAUSAL;
    c.alignment = VKATTN_CAUSAL_BOTTOM_RIGHT;
    std::mt19937 random(64);
    std::vector<Sequence> sequences = make_sequences(c, random);
    SequencesBatch batch = make_batch(c, sequences, random);
    const auto attended = [](const SequencesCase &each, SequencesBatch &of) {
        vkattn_attention_desc desc = describe(each, of, VKATTN_KERNEL_AUTO);
        desc.batch_invariant = 1;
        run(test_device().context().attention_plan(desc), of);
        return of.output.floats();
    };
    const std::vector<float> all = attended(c, batch);
    std::uint64_t first = 0;
    for (std::size_t b = 0; b < sequences.size(); ++b) {
        const std::uint64_t queries = c.lengths[b].queries, total = batch.query.shape()[2];
        if (queries == 0) continue;
        SequencesCase alone = c;
        alone.lengths = {c.lengths[b]};
        std::vector<Sequence> one = {sequences[b]};
        SequencesBatch own = make_batch(alone, one, random);
        const std::vector<float> expected = attended(alone, own);
        for (std::uint64_t h = 0; h < c.query_heads; ++h)
            for (std::uint64_t i = 0; i < queries * c.v_head_dim; ++i)
                REQUIRE(all[(h * total + first) * c.v_head_dim + i] == expected[h * queries * c.v_head_dim + i]);
        first += queries;
    }
}

// As many as rows there are, not as sequences times the longest.
TEST_CASE_FIXTURE(DeviceTest, "a prompt among single tokens takes states for the rows that there are") {
    constexpr std::uint64_t kRows = 512 + 32;
    vkattn_attention_desc desc{};
    desc.query = desc.output = vkattn::tensor(VKATTN_TYPE_F16, {1, 32, kRows, 64});
    desc.cu_seqlens_q = desc.cu_seqlens_k = vkattn::tensor(VKATTN_TYPE_I32, {34});
    desc.key = desc.value = vkattn::tensor(VKATTN_TYPE_F16, {1, 8, 512 + 32 * 256, 64});
    desc.max_seqlen_q = desc.max_seqlen_k = 512;
    desc.mask_flags = VKATTN_MASK_CAUSAL;
    desc.causal_alignment = VKATTN_CAUSAL_BOTTOM_RIGHT;
    desc.kernel = VKATTN_KERNEL_FLASH;
    const LimitedDevice bounded("max_loop_iterations=65535,self_test=0"); // whose keys come in several dispatches
    CHECK(bounded.context().attention_plan(desc).requirements().workspace_bytes == kRows * 32 * (4 + 64) * 4);
    desc.max_seqlen_q = 0;
    CHECK(bounded.context().attention_plan(desc).requirements().workspace_bytes == kRows * 32 * (4 + 64) * 4);
}

// Sequences of one query and of a few apart from the rest, on a device that wants more workgroups than the batch has tiles, and on one
// that wants fewer, where they have their keys in parts, too.
TEST_CASE_FIXTURE(DeviceTest, "prefills and decodes are attended side by side") {
    const LimitedDevice wide("parallel_workgroups=256,scalar_address_loads=0");
    const LimitedDevice narrow("parallel_workgroups=2,scalar_address_loads=0");
    std::mt19937 random(62);
    std::size_t turn = 0;
    for (const Keys keys : {Keys::kPacked, Keys::kPaged, Keys::kDense})
        for (const std::uint32_t flags : {VKATTN_MASK_NONE, VKATTN_MASK_CAUSAL, VKATTN_MASK_WINDOW}) {
            static constexpr vkattn_type kTypes[] = {VKATTN_TYPE_F32, VKATTN_TYPE_F16, VKATTN_TYPE_BF16,
                                                     VKATTN_TYPE_Q8_0};
            const LimitedDevice &device = turn % 2 == 0 ? wide : narrow;
            SequencesCase c{
                .lengths = {
                    {1, 1900}, {40, 700}, {2, 77}, {8, 600}, {0, 90}, {9, 1030}, {1, 0}, {3, 3}, {1, 1}, {7, 5}}};
            c.keys = keys;
            c.query_heads = turn % 3 == 0 ? 6 : 4;
            c.key_type = kTypes[turn++ % std::size(kTypes)];
            c.value_type = c.key_type == VKATTN_TYPE_Q8_0 ? VKATTN_TYPE_Q4_0 : c.key_type;
            c.query_type = is_quantised(c.key_type) ? VKATTN_TYPE_F16 : c.key_type;
            c.mask_flags = flags;
            c.window_left = 90;
            c.window_right = 3;
            c.alignment = VKATTN_CAUSAL_BOTTOM_RIGHT;
            std::vector<Sequence> sequences = make_sequences(c, random);
            SequencesBatch batch = make_batch(c, sequences, random);
            CAPTURE(static_cast<int>(keys));
            const vkattn::Plan plan = device.context().attention_plan(describe(c, batch, VKATTN_KERNEL_AUTO));
            const std::string reason = plan.report().reason;
            INFO(reason);
            CHECK(reason.find("; sequences of 1 query by ") != std::string::npos);
            CHECK(reason.find("; sequences of 2 to 8 queries by ") != std::string::npos);
            const ExpectedSequences expected = expect(c, sequences, batch);
            const std::string complaints = try_batch(c, batch, expected, VKATTN_KERNEL_AUTO, device.device());
            CHECK_MESSAGE(complaints.empty(), complaints);
        }
}

TEST_CASE_FIXTURE(DeviceTest, "a block mask for each sequence") {
    for (const Keys keys : {Keys::kPacked, Keys::kPaged, Keys::kDense}) {
        SequencesCase c{.lengths = kMixed, .keys = keys};
        c.blocks = true;
        check(c);
        c.mask_flags = VKATTN_MASK_CAUSAL;
        c.alignment = VKATTN_CAUSAL_BOTTOM_RIGHT;
        check(c);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "a tree of drafts for each sequence") {
    for (const Keys keys : {Keys::kPacked, Keys::kPaged, Keys::kDense}) {
        SequencesCase c{.lengths = kMixed, .keys = keys, .trees = true};
        check(c);
        c.blocks = true;
        check(c);
        c.blocks = c.tells_longest = false;
        check(c);
        c.mask_flags = VKATTN_MASK_CAUSAL | VKATTN_MASK_WINDOW;
        c.window_left = 40;
        c.alignment = VKATTN_CAUSAL_BOTTOM_RIGHT;
        check(c);
        c = {.lengths = {{9, 300}, {9, 9}, {9, 4}}, .packs_queries = false, .keys = keys, .trees = true};
        c.query_type = VKATTN_TYPE_F16;
        c.key_type = keys == Keys::kDense ? VKATTN_TYPE_Q8_0 : VKATTN_TYPE_F16;
        c.value_type = keys == Keys::kDense ? VKATTN_TYPE_Q4_0 : VKATTN_TYPE_F16;
        check(c);
    }
}

// Two parts of a batch of few queries have trees as wide as the whole batch's.
TEST_CASE_FIXTURE(DeviceTest, "trees of prefills and decodes that are attended side by side") {
    const LimitedDevice narrow("parallel_workgroups=2,scalar_address_loads=0");
    std::mt19937 random(66);
    const SequencesCase c{.lengths = {{1, 1900}, {40, 700}, {8, 600}, {0, 90}, {9, 1030}, {3, 3}, {7, 5}},
                          .keys = Keys::kPaged,
                          .trees = true};
    std::vector<Sequence> sequences = make_sequences(c, random);
    SequencesBatch batch = make_batch(c, sequences, random);
    const std::string complaints =
        try_batch(c, batch, expect(c, sequences, batch), VKATTN_KERNEL_AUTO, narrow.device());
    CHECK_MESSAGE(complaints.empty(), complaints);
}

TEST_CASE_FIXTURE(DeviceTest, "dense queries over packed and paged keys of every type") {
    const std::vector<SequenceLengths> lengths = {{2, 300}, {2, 1}, {2, 17}};
    for (const Keys keys : {Keys::kPacked, Keys::kPaged}) {
        std::size_t turn = keys == Keys::kPaged ? 1 : 0; // floats in both, blocks in one of them
        for (const vkattn_type type : cached_types()) {
            if (is_quantised(type) && turn++ % 2 != 0) continue;
            SequencesCase c{.lengths = lengths, .packs_queries = false, .keys = keys, .head_dim = 64, .v_head_dim = 32};
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
        SequencesCase c{
            .lengths = {{3, 130}, {9, 9}}, .keys = Keys::kPaged, .head_dim = 40, .v_head_dim = 24, .page = page};
        c.query_type = c.key_type = c.value_type = VKATTN_TYPE_F16;
        check(c);
        c.head_dim = 13;
        c.v_head_dim = 7;
        check(c);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "small pages, over more keys than loops may have iterations") {
    const std::uint64_t keys = test_device().facts().max_loop_iterations != 0 ? 30000 : 2000;
    for (const std::uint64_t head_dim : {3, 32})
        check({.lengths = {{2, keys}, {70, 40}},
               .keys = Keys::kPaged,
               .query_heads = 2,
               .kv_heads = 1,
               .head_dim = head_dim,
               .v_head_dim = head_dim,
               .page = 8});
}

TEST_CASE_FIXTURE(DeviceTest, "one plan serves any lengths up to its maxima") {
    SequencesCase c{.lengths = kMixed, .keys = Keys::kPaged};
    c.mask_flags = VKATTN_MASK_CAUSAL;
    c.alignment = VKATTN_CAUSAL_BOTTOM_RIGHT;
    std::mt19937 random(67);
    std::vector<Sequence> sequences = make_sequences(c, random);
    const SequencesBatch first = make_batch(c, sequences, random);
    const vkattn::Plan plan = test_device().context().attention_plan(describe(c, first, VKATTN_KERNEL_AUTO));
    for (int turn = 0; turn < 3; ++turn) {
        std::rotate(c.lengths.begin(), c.lengths.begin() + 2, c.lengths.end());
        sequences = make_sequences(c, random);
        SequencesBatch batch = make_batch(c, sequences, random);
        run(plan, batch);
        const Comparison output = compare("output", batch.output.shape(), expect(c, sequences, batch).output,
                                          batch.output.floats(), nmse_bound({VKATTN_TYPE_F32}));
        CHECK_MESSAGE(output.passed, output.report);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "lengths and pages that lie touch nothing outside the tensors") {
    for (const Keys keys : {Keys::kPacked, Keys::kPaged}) {
        SequencesCase c{.lengths = kMixed, .keys = keys};
        c.query_type = c.key_type = c.value_type = VKATTN_TYPE_F16; // which every kernel takes
        std::mt19937 random(71);
        std::vector<Sequence> sequences = make_sequences(c, random);
        SequencesBatch batch = make_batch(c, sequences, random);
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

TEST_CASE_FIXTURE(DeviceTest, "keys on pages outside the pool are hidden") {
    for (const std::uint64_t queries : {1, 40}) { // as decode and as prefill
        for (const vkattn_type type : {VKATTN_TYPE_F32, VKATTN_TYPE_F16}) {
            SequencesCase c{.lengths = {{queries, 300}, {queries, 40}, {queries, 129}},
                            .packs_queries = false,
                            .keys = Keys::kPaged};
            c.page = 16;
            c.query_type = c.key_type = c.value_type = type;
            if (type == VKATTN_TYPE_F16) c.mask_flags = VKATTN_MASK_CAUSAL;
            c.alignment = VKATTN_CAUSAL_BOTTOM_RIGHT;
            std::mt19937 random(83);
            std::vector<Sequence> sequences = make_sequences(c, random);
            SequencesBatch batch = make_batch(c, sequences, random);
            lose_pages(c, sequences, batch);
            const ExpectedSequences expected = expect(c, sequences, batch);
            for (const vkattn_kernel kernel : kernels_for(c, batch)) {
                INFO("kernel ", kernel_text(kernel), ", ", queries, " queries, ", type_name(type));
                const std::string complaints = try_batch(c, batch, expected, kernel);
                CHECK_MESSAGE(complaints.empty(), complaints);
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
        const std::vector<Region> regions = {{VKATTN_ROLE_SOURCE, &source, Access::kRead},
                                             {VKATTN_ROLE_CACHE, &cache, Access::kReadWrite},
                                             {VKATTN_ROLE_PAST_LENGTHS, &past_lengths, Access::kRead},
                                             {VKATTN_ROLE_CU_SEQLENS_Q, &cu, Access::kRead},
                                             {VKATTN_ROLE_BLOCK_TABLE, &table, Access::kRead}};
        test_device().run(test_device().context().kv_append_plan(desc), regions);
        CHECK(std::ranges::equal(cache.bytes(), expected.bytes()));
    }
}

TEST_CASE_FIXTURE(DeviceTest, "what contradicts itself is named") {
    const SequencesCase c{.lengths = kMixed, .keys = Keys::kPaged};
    std::mt19937 random(79);
    std::vector<Sequence> sequences = make_sequences(c, random);
    const SequencesBatch batch = make_batch(c, sequences, random);
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
    desc.cu_seqlens_q.shape[0] = 0;
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
