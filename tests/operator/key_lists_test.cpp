// Lists of keys: every kernel against float64, the same bits whatever the order, hostile entries, packed and paged keys.
#include "attention_draws.hpp"
#include "compare.hpp"
#include "sequence_cases.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>

using namespace vkattn_test;

namespace {

struct ListCase {
    std::uint64_t heads, kv_heads, q_len, kv_len, list_heads, list_len;
    std::uint32_t key_block_len;
    vkattn_type query = VKATTN_TYPE_F32, key = VKATTN_TYPE_F32, value = VKATTN_TYPE_F32;
    std::uint64_t head_dim = 64, v_head_dim = 64;
};

AttentionProblem problem_of(const ListCase &c, unsigned seed) {
    std::mt19937 random(seed);
    AttentionProblem p;
    p.query = normal_tensor(c.query, {2, c.heads, c.q_len, c.head_dim}, random);
    p.key = normal_tensor(c.key, {2, c.kv_heads, c.kv_len, c.head_dim}, random);
    p.value = normal_tensor(c.value, {2, c.kv_heads, c.kv_len, c.v_head_dim}, random);
    p.key_block_len = c.key_block_len;
    p.key_indices = random_key_lists({2, c.list_heads, c.q_len, c.list_len},
                                     (c.kv_len + c.key_block_len - 1) / c.key_block_len, random);
    return p;
}

std::string message_of(const vkattn_attention_desc &desc) {
    try {
        (void)test_device().context().attention_plan(desc);
    } catch (const vkattn::Error &error) {
        return error.what();
    }
    return "";
}

void check(const AttentionProblem &problem, vkattn_type output = VKATTN_TYPE_F32) {
    const AttentionReference reference = reference_attention(problem);
    for (const vkattn_kernel kernel : {VKATTN_KERNEL_AUTO, VKATTN_KERNEL_FLASH, VKATTN_KERNEL_DECODE,
                                       VKATTN_KERNEL_UNFUSED, VKATTN_KERNEL_COOPMAT}) {
        if (kernel == VKATTN_KERNEL_COOPMAT && (problem.query.type() == VKATTN_TYPE_F32 || !has_matrix_kernels()))
            continue;
        if (refuses_lists(problem, kernel)) continue;
        AttentionResults results = all_results(problem, kernel, output);
        check_attention(problem, reference, results, kernel);
    }
}

std::vector<float> output_of(const AttentionProblem &problem, vkattn_kernel kernel) {
    AttentionResults results = all_results(problem, kernel, VKATTN_TYPE_F32);
    run_attention(problem, results, test_device().context().attention_plan(describe(problem, results, kernel)));
    return results.output.floats();
}

} // namespace

TEST_SUITE_BEGIN("key_lists");

TEST_CASE_FIXTURE(DeviceTest, "a query sees the keys that its list names, in every kernel") {
    check(problem_of(
        {.heads = 6, .kv_heads = 2, .q_len = 5, .kv_len = 77, .list_heads = 1, .list_len = 23, .key_block_len = 1}, 1));
    AttentionProblem blocks = problem_of(
        {.heads = 4, .kv_heads = 4, .q_len = 3, .kv_len = 205, .list_heads = 4, .list_len = 9, .key_block_len = 16}, 2);
    blocks.mask_flags = VKATTN_MASK_CAUSAL;
    blocks.causal_alignment = VKATTN_CAUSAL_BOTTOM_RIGHT;
    check(blocks);
}

TEST_CASE_FIXTURE(DeviceTest, "an entry that is listed twice counts twice, and blocks are hidden in both") {
    for (const std::uint32_t block_len : {3u, 5u, 24u}) {
        CAPTURE(block_len);
        AttentionProblem problem = problem_of({.heads = 16,
                                               .kv_heads = 1,
                                               .q_len = 2,
                                               .kv_len = 48,
                                               .list_heads = 1,
                                               .list_len = 9,
                                               .key_block_len = block_len,
                                               .query = VKATTN_TYPE_F16,
                                               .key = VKATTN_TYPE_F16,
                                               .value = VKATTN_TYPE_F16},
                                              8);
        auto *entries = reinterpret_cast<std::int32_t *>(problem.key_indices.bytes().data());
        for (std::uint64_t i = 0; i < problem.key_indices.elements(); ++i)
            entries[i] = static_cast<std::int32_t>(i % 9 / 8); // block 0 eight times, and block 1
        problem.block_q_len = 1, problem.block_kv_len = block_len == 24 ? 8 : 2;
        problem.block_mask = HostTensor(VKATTN_TYPE_I32, {1, 1, 2, 48 / problem.block_kv_len});
        for (std::uint64_t i = 0; i < problem.block_mask.elements(); ++i)
            problem.block_mask.set(i, i % problem.block_mask.shape()[3] == 0 ? VKATTN_BLOCK_HIDDEN : VKATTN_BLOCK_FULL);
        check(problem);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "lists of keys in f16 and q8_0, V in K, with other masks") {
    check(problem_of({.heads = 32,
                      .kv_heads = 1,
                      .q_len = 2,
                      .kv_len = 300,
                      .list_heads = 1,
                      .list_len = 130,
                      .key_block_len = 1,
                      .query = VKATTN_TYPE_F16,
                      .key = VKATTN_TYPE_Q8_0,
                      .value = VKATTN_TYPE_F16},
                     3),
          VKATTN_TYPE_F16);
    AttentionProblem latent = problem_of({.heads = 16,
                                          .kv_heads = 1,
                                          .q_len = 1,
                                          .kv_len = 500,
                                          .list_heads = 1,
                                          .list_len = 200,
                                          .key_block_len = 2,
                                          .query = VKATTN_TYPE_F16,
                                          .key = VKATTN_TYPE_F16,
                                          .value = VKATTN_TYPE_F16,
                                          .head_dim = 96},
                                         4);
    latent.value_in_key = true;
    latent.value = first_columns(latent.key, 64);
    latent.mask_flags = VKATTN_MASK_WINDOW;
    latent.causal_alignment = VKATTN_CAUSAL_BOTTOM_RIGHT;
    latent.window_left = 450;
    check(latent, VKATTN_TYPE_F16);
}

TEST_CASE_FIXTURE(DeviceTest, "the order of a list does not change a bit") {
    for (const std::uint64_t list_len : {std::uint64_t{70}, std::uint64_t{4500}}) { // in one chunk, and merged of three
        AttentionProblem problem = problem_of({.heads = 2,
                                               .kv_heads = 1,
                                               .q_len = 2,
                                               .kv_len = 6000,
                                               .list_heads = 1,
                                               .list_len = list_len,
                                               .key_block_len = 1},
                                              5);
        AttentionProblem shuffled = problem;
        auto *entries = reinterpret_cast<std::int32_t *>(shuffled.key_indices.bytes().data());
        std::mt19937 random(6);
        for (std::uint64_t list = 0; list < 4; ++list)
            std::shuffle(entries + list * list_len, entries + (list + 1) * list_len, random);
        for (const vkattn_kernel kernel : {VKATTN_KERNEL_FLASH, VKATTN_KERNEL_DECODE})
            if (!refuses_lists(problem, kernel)) CHECK(output_of(problem, kernel) == output_of(shuffled, kernel));
        check(shuffled);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "a list without entries, or of entries that name nothing, sees nothing") {
    AttentionProblem none = problem_of(
        {.heads = 2, .kv_heads = 1, .q_len = 3, .kv_len = 40, .list_heads = 1, .list_len = 8, .key_block_len = 1}, 7);
    none.key_indices = HostTensor(VKATTN_TYPE_I32, {2, 1, 3, 0});
    check(none);
    none.key_indices = HostTensor(VKATTN_TYPE_I32, {2, 1, 3, 4});
    for (std::uint64_t i = 0; i < none.key_indices.elements(); ++i) none.key_indices.set(i, i % 2 == 0 ? -1.0f : 40.0f);
    check(none);
}

TEST_CASE_FIXTURE(DeviceTest, "lists of packed queries over packed and paged keys") {
    for (const Keys keys : {Keys::kPacked, Keys::kPaged}) {
        std::mt19937 random(8);
        SequencesCase c;
        c.lengths = {{1, 50}, {7, 33}, {0, 5}, {3, 120}};
        c.keys = keys;
        c.mask_flags = VKATTN_MASK_CAUSAL;
        c.alignment = VKATTN_CAUSAL_BOTTOM_RIGHT;
        std::vector<Sequence> sequences = make_sequences(c, random);
        SequencesBatch batch = make_batch(c, sequences, random);
        constexpr std::uint64_t kLen = 12;
        HostTensor lists = random_key_lists({1, c.kv_heads, 11, kLen}, 30, random);
        const auto *all = reinterpret_cast<const std::int32_t *>(lists.bytes().data());
        std::uint64_t first = 0;
        for (Sequence &sequence : sequences) {
            const std::uint64_t queries = sequence.lengths.queries;
            AttentionProblem &p = sequence.problem;
            p.key_block_len = 4;
            p.key_indices = HostTensor(VKATTN_TYPE_I32, {1, c.kv_heads, std::max<std::uint64_t>(queries, 1), kLen});
            for (std::uint64_t h = 0; h < c.kv_heads; ++h)
                for (std::uint64_t i = 0; i < queries * kLen; ++i)
                    p.key_indices.set(h * queries * kLen + i, static_cast<float>(all[(h * 11 + first) * kLen + i]));
            first += queries;
        }
        const ExpectedSequences expected = expect(c, sequences, batch);
        for (const vkattn_kernel kernel : {VKATTN_KERNEL_AUTO, VKATTN_KERNEL_FLASH, VKATTN_KERNEL_DECODE}) {
            INFO(kernel_text(kernel));
            vkattn_attention_desc desc = describe(c, batch, kernel);
            desc.key_indices = lists.view();
            desc.key_block_len = 4;
            vkattn::Plan plan;
            try {
                plan = test_device().context().attention_plan(desc);
            } catch (const vkattn::Error &error) {
                const std::string reason = "llvmpipe crashes in tiles of lists of keys";
                CHECK_MESSAGE(std::string(error.what()).find(reason) != std::string::npos, error.what());
                CHECK(kernel == VKATTN_KERNEL_FLASH);
                continue;
            }
            std::vector<Region> regions = regions_of(batch);
            regions.push_back({VKATTN_ROLE_KEY_INDICES, &lists, Access::kRead});
            test_device().run(plan, regions);
            const Comparison output =
                compare("output", batch.output.shape(), expected.output, batch.output.floats(), 1e-10);
            CHECK_MESSAGE(output.passed, output.report);
        }
    }
}

TEST_CASE_FIXTURE(DeviceTest, "lists of the keys that a mask lets be seen, of every type, broadcast in every way") {
    struct MaskCase {
        vkattn_type type;
        Shape mask, lists;
        std::uint64_t offset, gap; // of rows of the mask
        double visible;
    };
    const MaskCase cases[] = {{VKATTN_TYPE_BOOL, {2, 3, 5, 2500}, {2, 3, 5, 300}, 3, 1, 0.1},
                              {VKATTN_TYPE_BOOL, {1, 1, 7, 40}, {2, 1, 7, 64}, 0, 0, 0.5},
                              {VKATTN_TYPE_F32, {2, 1, 4, 1030}, {2, 2, 4, 1030}, 1, 0, 1.0},
                              {VKATTN_TYPE_F32, {1, 1, 1, 9}, {1, 1, 3, 5}, 0, 0, 0.9},
                              {VKATTN_TYPE_F16, {1, 2, 3, 3000}, {3, 2, 3, 17}, 5, 3, 0.01},
                              {VKATTN_TYPE_F16, {2, 1, 1, 1}, {2, 1, 2, 2}, 1, 0, 0.5},
                              {VKATTN_TYPE_BOOL, {1, 1, 2, 129}, {1, 1, 2, 3}, 0, 0, 0.0}};
    std::mt19937 random(41);
    for (const MaskCase &c : cases) {
        INFO(type_name(c.type), ", Lm ", c.mask[3], ", N ", c.lists[3]);
        const std::uint64_t row = c.mask[3] + c.gap;
        HostTensor mask(c.type, c.mask, {c.mask[1] * c.mask[2] * row, c.mask[2] * row, row, 1}, c.offset);
        std::bernoulli_distribution is_visible(c.visible);
        std::normal_distribution<float> number;
        std::vector<std::vector<float>> seen(mask.elements() / c.mask[3]);
        for (std::uint64_t i = 0; i < mask.elements(); ++i) {
            const bool shown = is_visible(random);
            if (shown) seen[i / c.mask[3]].push_back(static_cast<float>(i % c.mask[3]));
            const float hidden = i % 2 == 0 || c.type == VKATTN_TYPE_F16 ? -HUGE_VALF : -1e38f;
            if (c.type == VKATTN_TYPE_BOOL)
                mask.set(i, shown ? 1.0f : 0.0f);
            else
                mask.set(i, shown ? number(random) : hidden);
        }
        const std::uint64_t width = c.lists[3];
        HostTensor lists(VKATTN_TYPE_I32, c.lists,
                         {c.lists[1] * c.lists[2] * (width + 2), c.lists[2] * (width + 2), width + 2, 1}, 1);
        vkattn_mask_indices_desc desc{};
        desc.attn_mask = mask.view();
        desc.key_indices = lists.view();
        const Region regions[] = {{VKATTN_ROLE_ATTN_MASK, &mask, Access::kRead},
                                  {VKATTN_ROLE_KEY_INDICES, &lists, Access::kWrite}};
        test_device().run(test_device().context().mask_indices_plan(desc), regions);
        std::size_t wrong = 0;
        for (std::uint64_t i = 0; i < lists.elements(); ++i) {
            const std::uint64_t q = i / width % c.lists[2], h = i / width / c.lists[2] % c.lists[1],
                                b = i / width / c.lists[2] / c.lists[1], place = i % width;
            const auto &keys = seen[(b % c.mask[0] * c.mask[1] + h % c.mask[1]) * c.mask[2] + q % c.mask[2]];
            wrong += lists.get(i) != (place < keys.size() ? keys[place] : -1.0f);
        }
        CHECK(wrong == 0);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "wrong masks of lists are named") {
    const auto message = [](const vkattn_tensor &mask, const vkattn_tensor &lists) -> std::string {
        vkattn_mask_indices_desc desc{};
        desc.attn_mask = mask;
        desc.key_indices = lists;
        try {
            (void)test_device().context().mask_indices_plan(desc);
        } catch (const vkattn::Error &error) {
            return error.what();
        }
        return "";
    };
    const vkattn_tensor lists = vkattn::tensor(VKATTN_TYPE_I32, {2, 1, 3, 4});
    const auto mask = [](std::initializer_list<std::uint64_t> shape, vkattn_type type = VKATTN_TYPE_F16) {
        return vkattn::tensor(type, shape);
    };
    CHECK(message(mask({2, 1, 3, 40}), lists).empty());
    CHECK(message(mask({2, 1, 3, 40}), vkattn::tensor(VKATTN_TYPE_I32, {2, 1, 0, 4})) ==
          "attn_mask: shape [2,1,3,40], expected [2|1,1|1,0|1,Lm]");
    CHECK(message(mask({2, 2, 3, 40}), lists) == "attn_mask: shape [2,2,3,40], expected [2|1,1|1,3|1,Lm]");
    CHECK(message(mask({2, 1, 3, 40}, VKATTN_TYPE_BF16), lists) == "attn_mask: type BF16, expected BOOL, F32 or F16");
    CHECK(message(mask({2, 1, 3, 0}), lists) == "attn_mask: shape [2,1,3,0], expected at least one key");
    CHECK(message(mask({2, 1, 3, 40}), vkattn::tensor(VKATTN_TYPE_F32, {2, 1, 3, 4})) ==
          "key_indices: type F32, expected I32");
}

TEST_CASE_FIXTURE(DeviceTest, "wrong lists are named") {
    const AttentionProblem problem = problem_of(
        {.heads = 2, .kv_heads = 2, .q_len = 3, .kv_len = 40, .list_heads = 1, .list_len = 8, .key_block_len = 1}, 9);
    AttentionResults results = all_results(problem, VKATTN_KERNEL_AUTO, VKATTN_TYPE_F32);
    const auto message = [&](const HostTensor &lists, const std::function<void(vkattn_attention_desc &)> &change) {
        AttentionProblem wrong = problem;
        wrong.key_indices = lists;
        vkattn_attention_desc desc = describe(wrong, results, VKATTN_KERNEL_AUTO);
        change(desc);
        return message_of(desc);
    };
    const auto nothing = [](vkattn_attention_desc &) {};
    CHECK(message(HostTensor(VKATTN_TYPE_I32, {2, 3, 3, 8}), nothing) ==
          "key_indices: shape [2,3,3,8], expected [2,2|1,3,N]");
    CHECK(message(HostTensor(VKATTN_TYPE_F32, {2, 1, 3, 8}), nothing) == "key_indices: type F32, expected I32");
    CHECK(message(problem.key_indices, [&](vkattn_attention_desc &desc) {
              desc.attn_weights = vkattn::tensor(VKATTN_TYPE_F32, {2, 2, 3, 40});
          }) == "key_indices: given beside attn_weights or qk_matmul_output, expected neither: lists keep no scores");
}

TEST_SUITE_END();
