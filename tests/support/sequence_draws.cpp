#include "sequence_draws.hpp"

#include <sstream>

namespace vkattn_test {

void align(SequencesCase &c) {
    if (!c.packs_queries && c.keys == Keys::kDense) c.alignment = VKATTN_CAUSAL_TOP_LEFT;
}

namespace {

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
        if (dims % 32 == 0 && random.one_in(4)) return random.any(quantised_types());
        return random.one_in(2) ? c.query_type : random.any({VKATTN_TYPE_F32, VKATTN_TYPE_F16, VKATTN_TYPE_BF16});
    };
    c.key_type = stored(c.head_dim);
    c.value_type = stored(c.v_head_dim);
    if (random.one_in(2)) c.mask_flags |= VKATTN_MASK_CAUSAL;
    if (random.one_in(4)) c.mask_flags |= VKATTN_MASK_WINDOW;
    c.alibi = random.one_in(5);
    c.blocks = random.one_in(5);
    c.functions = random.one_in(5);
}

} // namespace

SequencesDraw draw_sequences(unsigned seed) {
    Draws draws(seed);
    Random &random = draws.free;
    SequencesDraw d;
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
    c.trees = draws.compiled.one_in(5);
    return d;
}

std::string text(const SequencesDraw &d) {
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
    if (c.trees) out << ", trees";
    if (c.functions) out << ", functions";
    if (d.loses_pages) out << ", pages outside the pool";
    return out.str();
}

} // namespace vkattn_test
