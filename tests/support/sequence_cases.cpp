#include "sequence_cases.hpp"

#include "attention_draws.hpp"
#include "block_states.hpp"
#include "compare.hpp"

#include <algorithm>
#include <numeric>

namespace vkattn_test {
namespace {

std::uint64_t longest(const SequencesCase &c, std::uint64_t SequenceLengths::*member) {
    std::uint64_t most = 1;
    for (const SequenceLengths &lengths : c.lengths) most = std::max(most, lengths.*member);
    return most;
}

std::uint64_t total(const SequencesCase &c, std::uint64_t SequenceLengths::*member) {
    std::uint64_t sum = 0;
    for (const SequenceLengths &lengths : c.lengths) sum += lengths.*member;
    return std::max<std::uint64_t>(sum, 1);
}

HostTensor cu_seqlens(const SequencesCase &c, std::uint64_t SequenceLengths::*member) {
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
    const std::uint64_t bytes = type_bytes(tensor.type(), size);
    return tensor.bytes().subspan(row * bytes, bytes);
}

constexpr std::uint32_t kBlockQueries = 8, kBlockKeys = 16;

// Where row (sequence, position) of packed or dense rows lies: [entry][head][row].
struct Place {
    std::uint64_t entry, row;
};

} // namespace

void copy_row(HostTensor &from, std::uint64_t row, HostTensor &to, std::uint64_t to_row) {
    std::ranges::copy(row_of(from, row), row_of(to, to_row).begin());
}

std::vector<std::uint64_t> shuffled_pages(std::uint64_t count, std::mt19937 &random) {
    std::vector<std::uint64_t> pages(count);
    std::iota(pages.begin(), pages.end(), 0);
    std::ranges::shuffle(pages, random);
    return pages;
}

std::vector<Sequence> make_sequences(const SequencesCase &c, std::mt19937 &random) {
    const HostTensor slopes = normal_tensor(VKATTN_TYPE_F32, {c.query_heads}, random, 0.2f);
    std::vector<Sequence> sequences;
    for (const SequenceLengths &lengths : c.lengths) {
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
        if (c.scales) {
            p.key_scales = random_scales(p.key.shape(), 7, random);
            p.value_scales = random_scales(p.value.shape(), 7, random);
        }
        sequences.push_back({p, lengths});
    }
    return sequences;
}

namespace {

void fill_keys(const SequencesCase &c, std::vector<Sequence> &sequences, std::mt19937 &random, SequencesBatch &batch) {
    const std::uint64_t table_pages = (longest(c, &SequenceLengths::keys) + c.page - 1) / c.page;
    const std::uint64_t pool = table_pages * c.lengths.size() + 3;
    const std::vector<std::uint64_t> pages = shuffled_pages(pool, random);
    const std::uint64_t entries = c.keys == Keys::kPaged ? pool : c.keys == Keys::kPacked ? 1 : c.lengths.size();
    const std::uint64_t rows = c.keys == Keys::kPaged    ? c.page
                               : c.keys == Keys::kPacked ? total(c, &SequenceLengths::keys)
                                                         : longest(c, &SequenceLengths::keys);
    batch.key = HostTensor(c.key_type, {entries, c.kv_heads, rows, c.head_dim}); // NaN where no row is copied to
    batch.value = HostTensor(c.value_type, {entries, c.kv_heads, rows, c.v_head_dim});
    if (c.scales) {
        batch.key_scales = HostTensor(VKATTN_TYPE_F32, {entries, c.kv_heads, rows, 1});
        batch.value_scales = batch.key_scales;
    }
    if (c.keys == Keys::kPacked) batch.cu_seqlens_k = cu_seqlens(c, &SequenceLengths::keys);
    if (c.keys != Keys::kPacked) batch.key_lengths = HostTensor(VKATTN_TYPE_I32, {c.lengths.size()});
    if (c.keys == Keys::kPaged) batch.block_table = HostTensor(VKATTN_TYPE_I32, {c.lengths.size(), table_pages});
    std::uint64_t first = 0;
    for (std::size_t b = 0; b < sequences.size(); ++b) {
        const std::uint64_t keys = sequences[b].lengths.keys;
        if (batch.key_lengths.present()) batch.key_lengths.set(b, static_cast<float>(keys));
        for (std::uint64_t n = 0; batch.block_table.present() && n < table_pages; ++n) // pages after the end: nowhere
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
                if (!c.scales) continue;
                copy_row(sequences[b].problem.key_scales, h * keys + key, batch.key_scales, to);
                copy_row(sequences[b].problem.value_scales, h * keys + key, batch.value_scales, to);
            }
        }
        first += keys;
    }
}

// As many blocks for every sequence as the longest takes.
void add_blocks(const SequencesCase &c, std::vector<Sequence> &sequences, std::mt19937 &random, SequencesBatch &batch) {
    const std::uint64_t queries = c.packs_queries ? longest(c, &SequenceLengths::queries) : c.lengths[0].queries;
    const std::uint64_t keys =
        batch.block_table.present() ? batch.block_table.shape()[1] * c.page : longest(c, &SequenceLengths::keys);
    Shape shape = {1, c.query_heads, (queries + kBlockQueries - 1) / kBlockQueries,
                   (keys + kBlockKeys - 1) / kBlockKeys};
    for (Sequence &sequence : sequences) {
        sequence.problem.block_q_len = kBlockQueries;
        sequence.problem.block_kv_len = kBlockKeys;
        sequence.problem.block_mask = random_block_states(shape, random);
    }
    shape[0] = sequences.size();
    batch.block_mask = HostTensor(VKATTN_TYPE_I32, shape);
    const std::uint64_t of_one = batch.block_mask.elements() / sequences.size();
    for (std::uint64_t i = 0; i < batch.block_mask.elements(); ++i)
        batch.block_mask.set(i, sequences[i / of_one].problem.block_mask.get(i % of_one));
}

// Rows of the longest sequence's width, the words behind a sequence's own all ones.
void add_trees(const SequencesCase &c, std::vector<Sequence> &sequences, std::mt19937 &random, SequencesBatch &batch) {
    const std::uint64_t rows = batch.query.shape()[2];
    const std::uint64_t most = c.packs_queries && c.tells_longest ? longest(c, &SequenceLengths::queries) : rows;
    const std::uint64_t words = (most + 31) / 32;
    batch.tree_mask =
        HostTensor(VKATTN_TYPE_I32, c.packs_queries ? Shape{rows, words} : Shape{sequences.size(), rows, words});
    std::ranges::fill(batch.tree_mask.bytes(), 0xff);
    std::uint64_t first = 0;
    for (Sequence &sequence : sequences) {
        const std::uint64_t queries = sequence.lengths.queries, own = (queries + 31) / 32;
        if (queries == 0) continue;
        sequence.problem.tree_mask = random_trees({1, queries, own}, queries, random);
        for (std::uint64_t i = 0; i < queries; ++i)
            std::memcpy(&batch.tree_mask.bytes()[4 * (first + i) * words],
                        &sequence.problem.tree_mask.bytes()[4 * i * own], 4 * own);
        first += queries;
    }
}

} // namespace

SequencesBatch make_batch(const SequencesCase &c, std::vector<Sequence> &sequences, std::mt19937 &random) {
    SequencesBatch batch;
    const std::uint64_t entries = c.packs_queries ? 1 : c.lengths.size();
    const std::uint64_t rows = c.packs_queries ? total(c, &SequenceLengths::queries) : c.lengths[0].queries;
    batch.query = HostTensor(c.query_type, {entries, c.query_heads, rows, c.head_dim});
    batch.output = HostTensor(c.query_type, {entries, c.query_heads, rows, c.v_head_dim});
    batch.log_sum_exp =
        HostTensor(VKATTN_TYPE_F32, c.packs_queries ? Shape{c.query_heads, rows} : Shape{entries, c.query_heads, rows});
    if (c.packs_queries) batch.cu_seqlens_q = cu_seqlens(c, &SequenceLengths::queries);
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
    if (c.blocks) add_blocks(c, sequences, random, batch);
    if (c.trees) add_trees(c, sequences, random, batch);
    return batch;
}

vkattn_attention_desc describe(const SequencesCase &c, const SequencesBatch &batch, vkattn_kernel kernel) {
    vkattn_attention_desc desc{};
    desc.query = batch.query.view();
    desc.key = batch.key.view();
    desc.value = batch.value.view();
    desc.output = batch.output.view();
    desc.log_sum_exp = batch.log_sum_exp.view();
    desc.cu_seqlens_q = batch.cu_seqlens_q.view();
    desc.cu_seqlens_k = batch.cu_seqlens_k.view();
    desc.block_table = batch.block_table.view();
    desc.block_mask = batch.block_mask.view();
    desc.block_q_len = kBlockQueries;
    desc.block_kv_len = kBlockKeys;
    desc.tree_mask = batch.tree_mask.view();
    desc.key_lengths = batch.key_lengths.view();
    desc.alibi_slopes = batch.slopes.view();
    if (c.packs_queries && c.tells_longest)
        desc.max_seqlen_q = static_cast<std::uint32_t>(longest(c, &SequenceLengths::queries));
    if (c.keys == Keys::kPacked && c.tells_longest)
        desc.max_seqlen_k = static_cast<std::uint32_t>(longest(c, &SequenceLengths::keys));
    desc.mask_flags = c.mask_flags;
    desc.window_left = c.window_left;
    desc.window_right = c.window_right;
    desc.causal_alignment = c.alignment;
    desc.kernel = kernel;
    desc.key_scales = batch.key_scales.view();
    desc.value_scales = batch.value_scales.view();
    set_variant(desc, batch.variant.get(), batch.captured);
    return desc;
}

std::vector<Region> regions_of(SequencesBatch &batch) {
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
    add(VKATTN_ROLE_BLOCK_MASK, batch.block_mask);
    add(VKATTN_ROLE_TREE_MASK, batch.tree_mask);
    add(VKATTN_ROLE_KEY_LENGTHS, batch.key_lengths);
    add(VKATTN_ROLE_KEY_SCALES, batch.key_scales);
    add(VKATTN_ROLE_VALUE_SCALES, batch.value_scales);
    add(VKATTN_ROLE_ALIBI_SLOPES, batch.slopes);
    for (std::size_t i = 0; i < batch.captured.size(); ++i)
        add(static_cast<vkattn_role>(VKATTN_ROLE_CAPTURED_0 + i), batch.captured[i]);
    return regions;
}

std::string try_batch(const vkattn::Plan &plan, SequencesBatch &batch, TestDevice &device) {
    return device.try_run(plan, regions_of(batch));
}

void lose_pages(const SequencesCase &c, std::vector<Sequence> &sequences, SequencesBatch &batch) {
    const std::uint64_t table_pages = batch.block_table.shape()[1];
    const auto pool = static_cast<std::int32_t>(batch.key.shape()[0]);
    const std::int32_t outside[] = {-1, pool, INT32_MAX, INT32_MIN, pool + 1};
    for (std::size_t b = 0; b < sequences.size(); ++b) {
        AttentionProblem &p = sequences[b].problem;
        p.key_padding_mask = HostTensor(VKATTN_TYPE_BOOL, {1, p.key.shape()[2]});
        for (std::uint64_t key = 0; key < p.key.shape()[2]; ++key) {
            const std::uint64_t page = key / c.page;
            const bool missing = b % 3 == 1 || page % 5 == 2; // of the second sequence, all
            p.key_padding_mask.set(key, missing ? 1.0f : 0.0f);
            if (missing)
                std::memcpy(batch.block_table.bytes().data() + 4 * (b * table_pages + page),
                            &outside[page % std::size(outside)], 4);
        }
    }
}

ExpectedSequences expect(const SequencesCase &c, const std::vector<Sequence> &sequences, const SequencesBatch &batch) {
    ExpectedSequences expected{std::vector<double>(batch.output.elements()),
                               std::vector<double>(batch.log_sum_exp.elements())};
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

std::vector<vkattn_kernel> kernels_for(const SequencesCase &c, const SequencesBatch &batch) {
    std::vector<vkattn_kernel> kernels = vkattn_test::kernels_for(describe(c, batch, VKATTN_KERNEL_AUTO));
    std::erase(kernels, VKATTN_KERNEL_UNFUSED);
    kernels.push_back(VKATTN_KERNEL_AUTO);
    return kernels;
}

std::string try_batch(const SequencesCase &c, SequencesBatch &batch, const ExpectedSequences &expected,
                      vkattn_kernel kernel, TestDevice &device) {
    const vkattn::Plan plan = device.context().attention_plan(describe(c, batch, kernel));
    std::string complaints = try_batch(plan, batch, device);
    const Comparison output = compare("output", batch.output.shape(), expected.output, batch.output.floats(),
                                      nmse_bound({c.query_type, c.key_type, c.value_type}));
    if (!output.passed) complaints += output.report + "\n";
    // One near 0 is what large products leave of each other, which no f32 sum gets to a share of itself: under f32's
    // bound of 1e-10 it may be off by 2^-22, four units of rounding of a sum near 1.
    const Comparison sums = compare("log_sum_exp", batch.log_sum_exp.shape(), expected.log_sum_exp,
                                    batch.log_sum_exp.floats(), nmse_bound({VKATTN_TYPE_F32}), 0x1p-22 / 1e-5);
    if (!sums.passed) complaints += sums.report + "\n";
    return complaints;
}

} // namespace vkattn_test
