// Batches of sequences drawn at random, packed, in pages and dense, on every kernel that takes them, against the
// reference.
#include "sequence_draws.hpp"
#ifdef VKATTN_HAS_JIT
#include "variants.hpp"
#endif

#include <algorithm>

using namespace vkattn_test;

namespace {

#ifdef VKATTN_HAS_JIT
// Gives the batch a variant, and each sequence its functions, which count the batch entry.
void give_functions(std::vector<Sequence> &sequences, SequencesBatch &batch, std::mt19937 &random) {
    AttentionProblem all;
    set_every_function(all, random);
    batch.variant = all.variant;
    batch.captured = all.captured;
    for (int entry = 0; Sequence & each : sequences) {
        AttentionProblem &p = each.problem;
        p.score_mod = [f = all.score_mod, entry](double s, int, int h, int q, int k) { return f(s, entry, h, q, k); };
        p.mask_mod = [f = all.mask_mod, entry](int, int h, int q, int k) { return f(entry, h, q, k); };
        p.lse_mod = [f = all.lse_mod, entry](double lse, int, int h, int q) { return f(lse, entry, h, q); };
        p.output_mod = [f = all.output_mod, entry](double v, int, int h, int q, int e) { return f(v, entry, h, q, e); };
        ++entry;
    }
}
#endif

// kernel: AUTO for all of them
std::string complaints_of(const SequencesDraw &d, vkattn_kernel kernel, vkattn_kernel &failing) {
    const SequencesCase &c = d.batch;
    const auto has_queries = [](const SequenceLengths &lengths) { return lengths.queries > 0; };
    if (std::ranges::none_of(c.lengths, has_queries)) return ""; // a row that no sequence has is not written
    std::mt19937 random(d.seed);
    std::vector<Sequence> sequences = make_sequences(c, random);
    SequencesBatch batch = make_batch(c, sequences, random);
    if (d.loses_pages && c.keys == Keys::kPaged) lose_pages(c, sequences, batch);
#ifdef VKATTN_HAS_JIT
    if (c.functions) give_functions(sequences, batch, random);
#endif
    const ExpectedSequences expected = expect(c, sequences, batch);
    for (const vkattn_kernel tried : kernels_for(c, batch)) {
        if (kernel != VKATTN_KERNEL_AUTO && kernel != tried) continue;
        failing = tried;
        try {
            if (const std::string complaints = try_batch(c, batch, expected, tried); !complaints.empty())
                return complaints;
        } catch (const vkattn::Error &error) {
            if (error.result() != VKATTN_ERROR_UNSUPPORTED) return std::string(error.what()) + "\n";
        }
    }
    return "";
}

using Reduction = std::function<void(SequencesDraw &)>;

const std::vector<Reduction> &reductions() {
    static const std::vector<Reduction> all = {
        [](SequencesDraw &d) { d.loses_pages = false; },
        [](SequencesDraw &d) { d.batch.functions = false; },
        [](SequencesDraw &d) { d.batch.alibi = false; },
        [](SequencesDraw &d) { d.batch.blocks = false; },
        [](SequencesDraw &d) { d.batch.trees = false; },
        [](SequencesDraw &d) { d.batch.mask_flags = VKATTN_MASK_NONE; },
        [](SequencesDraw &d) { d.batch.mask_flags &= ~std::uint32_t{VKATTN_MASK_WINDOW}; },
        [](SequencesDraw &d) { d.batch.alignment = VKATTN_CAUSAL_TOP_LEFT; },
        [](SequencesDraw &d) { d.batch.query_heads = d.batch.kv_heads; },
        [](SequencesDraw &d) { d.batch.query_heads /= d.batch.kv_heads, d.batch.kv_heads = 1; },
        [](SequencesDraw &d) { d.batch.query_type = VKATTN_TYPE_F32; },
        [](SequencesDraw &d) { d.batch.key_type = VKATTN_TYPE_F32; },
        [](SequencesDraw &d) { d.batch.value_type = VKATTN_TYPE_F32; },
        [](SequencesDraw &d) {
            d.batch.keys = Keys::kDense;
            align(d.batch);
        },
        [](SequencesDraw &d) { d.batch.page = std::max<std::uint64_t>(d.batch.page / 2, 8); },
        [](SequencesDraw &d) {
            if (d.batch.lengths.size() > 1) d.batch.lengths.pop_back();
        },
        [](SequencesDraw &d) {
            if (d.batch.lengths.size() > 1) d.batch.lengths.erase(d.batch.lengths.begin());
        },
        [](SequencesDraw &d) {
            for (SequenceLengths &l : d.batch.lengths) l.keys /= 2;
        },
        [](SequencesDraw &d) {
            for (SequenceLengths &l : d.batch.lengths) l.queries = (l.queries + 1) / 2;
        },
        [](SequencesDraw &d) {
            if (!is_quantised(d.batch.key_type)) d.batch.head_dim = (d.batch.head_dim + 1) / 2;
        },
        [](SequencesDraw &d) {
            if (!is_quantised(d.batch.value_type)) d.batch.v_head_dim = (d.batch.v_head_dim + 1) / 2;
        },
    };
    return all;
}

} // namespace

TEST_SUITE_BEGIN("sweep");

TEST_CASE_FIXTURE(DeviceTest, "random batches of sequences on every kernel") {
    sweep([](unsigned seed) {
        const SequencesDraw drawn = draw_sequences(seed);
        vkattn_kernel kernel = VKATTN_KERNEL_AUTO;
        const std::string complaints = complaints_of(drawn, VKATTN_KERNEL_AUTO, kernel);
        if (complaints.empty()) return std::string();
        const auto fails = [&](const SequencesDraw &d) {
            vkattn_kernel same = kernel;
            return !complaints_of(d, kernel, same).empty();
        };
        return "kernel " + kernel_text(kernel) + ": " + complaints +
               "as small as it fails: " + text(smallest(drawn, reductions(), fails));
    });
}

TEST_SUITE_END();
