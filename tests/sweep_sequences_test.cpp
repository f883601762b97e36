// Batches of sequences drawn at random, packed, in pages and dense, on every kernel that takes them, against the
// reference.
#include "random_draws.hpp"
#include "sequence_cases.hpp"

#include <algorithm>
#include <sstream>

using namespace vkattn_test;

namespace {

struct Draw {
    unsigned seed = 0; // of the contents
    SequencesCase batch;
    bool loses_pages = false;
    bool operator==(const Draw &) const = default;
};

// Dense queries over dense keys have one offset, not each sequence's own.
void align(SequencesCase &c) {
    if (!c.packs_queries && c.keys == Keys::kDense) c.alignment = VKATTN_CAUSAL_TOP_LEFT;
}

void draw_compiled(SequencesCase &c, Random &random) {
    c.kv_heads = random.up_to(3);
    c.query_heads = c.kv_heads * random.any<std::uint64_t>({1, 1, 2, 4});
    c.packs_queries = !random.one_in(3);
    c.keys = random.any({Keys::kDense, Keys::kPacked, Keys::kPaged, Keys::kPaged});
    const auto size = [&] { return random.any<std::uint64_t>({random.up_to(130), 32, 64, 64, 128}); };
    c.head_dim = size();
    c.v_head_dim = random.one_in(2) ? c.head_dim : size();
    c.page = random.any<std::uint64_t>({8, 16, 64, 256});
    c.query_type = random.any({VKATTN_TYPE_F32, VKATTN_TYPE_F16, VKATTN_TYPE_BF16});
    const auto stored = [&](std::uint64_t dims) {
        if (dims % 32 == 0 && random.one_in(4)) return random.any({VKATTN_TYPE_Q8_0, VKATTN_TYPE_Q4_0});
        return random.one_in(2) ? c.query_type : random.any({VKATTN_TYPE_F32, VKATTN_TYPE_F16, VKATTN_TYPE_BF16});
    };
    c.key_type = stored(c.head_dim);
    c.value_type = stored(c.v_head_dim);
    if (random.one_in(2)) c.mask_flags |= VKATTN_MASK_CAUSAL;
    if (random.one_in(4)) c.mask_flags |= VKATTN_MASK_WINDOW;
    c.alibi = random.one_in(5);
    c.blocks = random.one_in(5);
}

Draw draw(unsigned seed) {
    Draws draws(seed);
    Random &random = draws.free;
    Draw d;
    d.seed = seed;
    SequencesCase &c = d.batch;
    draw_compiled(c, draws.compiled);
    const std::uint64_t queries = random.one_in(3) ? 1 : random.up_to(60);
    const std::uint64_t keys = random.up_to(random.one_in(3) ? 700 : 90);
    for (std::uint64_t n = random.up_to(6); n > 0; --n)
        c.lengths.push_back({c.packs_queries ? random.up_to(queries + 1) - 1 : queries, random.up_to(keys + 1) - 1});
    c.window_left = static_cast<int>(random.up_to(60)) - 2;
    c.window_right = static_cast<int>(random.up_to(60)) - 2;
    if (random.one_in(2)) c.alignment = VKATTN_CAUSAL_BOTTOM_RIGHT;
    align(c);
    d.loses_pages = c.keys == Keys::kPaged && random.one_in(3);
    return d;
}

std::string text(const Draw &d) {
    const SequencesCase &c = d.batch;
    std::ostringstream out;
    out << "queries " << (c.packs_queries ? "packed" : "dense") << ", keys "
        << (c.keys == Keys::kPaged    ? "in pages of " + std::to_string(c.page)
            : c.keys == Keys::kPacked ? "packed"
                                      : "dense")
        << ", lengths";
    for (const SequenceLengths &lengths : c.lengths) out << " " << lengths.queries << "/" << lengths.keys;
    out << ", heads " << c.query_heads << "/" << c.kv_heads << ", sizes " << c.head_dim << "/" << c.v_head_dim << ", "
        << type_name(c.query_type) << " " << type_name(c.key_type) << " " << type_name(c.value_type);
    if ((c.mask_flags & VKATTN_MASK_CAUSAL) != 0) out << ", causal";
    if ((c.mask_flags & VKATTN_MASK_WINDOW) != 0) out << ", window " << c.window_left << " " << c.window_right;
    if (c.alignment == VKATTN_CAUSAL_BOTTOM_RIGHT) out << ", bottom right";
    if (c.alibi) out << ", alibi";
    if (c.blocks) out << ", blocks";
    if (d.loses_pages) out << ", pages outside the pool";
    return out.str();
}

// kernel: AUTO for all of them
std::string complaints_of(const Draw &d, vkattn_kernel kernel, vkattn_kernel &failing) {
    const SequencesCase &c = d.batch;
    const auto has_queries = [](const SequenceLengths &lengths) { return lengths.queries > 0; };
    if (std::ranges::none_of(c.lengths, has_queries)) return ""; // a row that no sequence has is not written
    std::mt19937 random(d.seed);
    std::vector<Sequence> sequences = make_sequences(c, random);
    SequencesBatch batch = make_batch(c, sequences, random);
    if (d.loses_pages && c.keys == Keys::kPaged) lose_pages(c, sequences, batch);
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

using Reduction = std::function<void(Draw &)>;

const std::vector<Reduction> &reductions() {
    static const std::vector<Reduction> all = {
        [](Draw &d) { d.loses_pages = false; },
        [](Draw &d) { d.batch.alibi = false; },
        [](Draw &d) { d.batch.blocks = false; },
        [](Draw &d) { d.batch.mask_flags = VKATTN_MASK_NONE; },
        [](Draw &d) { d.batch.mask_flags &= ~std::uint32_t{VKATTN_MASK_WINDOW}; },
        [](Draw &d) { d.batch.alignment = VKATTN_CAUSAL_TOP_LEFT; },
        [](Draw &d) { d.batch.query_heads = d.batch.kv_heads; },
        [](Draw &d) { d.batch.query_heads /= d.batch.kv_heads, d.batch.kv_heads = 1; },
        [](Draw &d) { d.batch.query_type = VKATTN_TYPE_F32; },
        [](Draw &d) { d.batch.key_type = VKATTN_TYPE_F32; },
        [](Draw &d) { d.batch.value_type = VKATTN_TYPE_F32; },
        [](Draw &d) {
            d.batch.keys = Keys::kDense;
            align(d.batch);
        },
        [](Draw &d) { d.batch.page = std::max<std::uint64_t>(d.batch.page / 2, 8); },
        [](Draw &d) {
            if (d.batch.lengths.size() > 1) d.batch.lengths.pop_back();
        },
        [](Draw &d) {
            if (d.batch.lengths.size() > 1) d.batch.lengths.erase(d.batch.lengths.begin());
        },
        [](Draw &d) {
            for (SequenceLengths &l : d.batch.lengths) l.keys /= 2;
        },
        [](Draw &d) {
            for (SequenceLengths &l : d.batch.lengths) l.queries = (l.queries + 1) / 2;
        },
        [](Draw &d) {
            if (!is_quantised(d.batch.key_type)) d.batch.head_dim = (d.batch.head_dim + 1) / 2;
        },
        [](Draw &d) {
            if (!is_quantised(d.batch.value_type)) d.batch.v_head_dim = (d.batch.v_head_dim + 1) / 2;
        },
    };
    return all;
}

} // namespace

TEST_SUITE_BEGIN("sweep");

TEST_CASE_FIXTURE(DeviceTest, "random batches of sequences on every kernel") {
    sweep([](unsigned seed) {
        const Draw drawn = draw(seed);
        vkattn_kernel kernel = VKATTN_KERNEL_AUTO;
        const std::string complaints = complaints_of(drawn, VKATTN_KERNEL_AUTO, kernel);
        if (complaints.empty()) return std::string();
        const auto fails = [&](const Draw &d) {
            vkattn_kernel same = kernel;
            return !complaints_of(d, kernel, same).empty();
        };
        return "kernel " + kernel_text(kernel) + ": " + complaints +
               "as small as it fails: " + text(smallest(drawn, reductions(), fails));
    });
}

TEST_SUITE_END();
