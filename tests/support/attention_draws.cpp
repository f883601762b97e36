#include "attention_draws.hpp"

#include "block_states.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>

namespace vkattn_test {
namespace {

bool quantised(const AttentionDraw &d) { return is_quantised(d.key) || is_quantised(d.value); }

void draw_compiled(AttentionDraw &d, Random &random) {
    d.kv_heads = random.up_to(3); // of which strides are made
    d.group = random.any<std::uint64_t>({1, 1, 2, 3, 4, 8});
    const auto size = [&] {
        return random.any<std::uint64_t>({random.up_to(20), random.up_to(130), 32, 64, 64, 128, 96, 192});
    };
    d.head_dim = random.one_in(20) ? 576 : size();
    d.v_head_dim = random.one_in(2) ? d.head_dim : size();
    const auto type = [&] { return random.any({VKATTN_TYPE_F32, VKATTN_TYPE_F32, VKATTN_TYPE_F16, VKATTN_TYPE_BF16}); };
    d.query = type();
    d.key = random.one_in(2) ? d.query : type();
    d.value = random.one_in(2) ? d.key : type();
    d.output = type();
    const auto quantise = [&](vkattn_type &stored, std::uint64_t dims) {
        if (dims % 32 == 0 && random.one_in(5)) stored = random.any(quantised_types());
    };
    quantise(d.key, d.head_dim);
    quantise(d.value, d.v_head_dim);
    d.positions_first = !quantised(d) && random.one_in(3);
    d.causal = random.one_in(2);
    d.window = random.one_in(4);
    d.key_lengths = random.one_in(4);
    d.key_padding = random.one_in(5);
    d.alibi = random.one_in(6);
    d.sinks = random.one_in(6);
    d.modulo_heads = random.one_in(5);
    if (random.one_in(3)) d.mask = random.any({DrawnMask::kBool, DrawnMask::kF32, DrawnMask::kF16});
    if (random.one_in(6)) {
        d.block_q_len = random.any<std::uint64_t>({random.up_to(9), 16, 64});
        d.block_kv_len = random.any<std::uint64_t>({random.up_to(9), 16, 32, 64});
    }
    d.past_lengths = random.one_in(6);
    if (random.one_in(6)) d.softcap = 2.0f;
    if (random.one_in(8)) d.dropout_p = 0.4f;
    d.stage = random.any({VKATTN_SCORES_SCALED, VKATTN_SCORES_CAPPED, VKATTN_SCORES_MASKED, VKATTN_SCORES_WEIGHTS});
    d.value_in_key = random.one_in(10);
    if (!d.value_in_key) return;
    d.value = d.key;
    const std::uint64_t dims = std::min(d.head_dim, d.v_head_dim);
    d.v_head_dim = is_quantised(d.key) ? std::max<std::uint64_t>(dims / 32, 1) * 32 : dims;
}

// Last, so that what is drawn before stays what it is.
void draw_lists(AttentionDraw &d, Draws &draws) {
    if (!draws.compiled.one_in(6)) return;
    d.key_block_len = draws.compiled.any<std::uint64_t>({1, 1, 16, draws.compiled.up_to(9)});
    d.list_heads = draws.free.one_in(2) ? 1 : d.kv_heads;
    d.list_len = draws.free.up_to(draws.free.one_in(10) ? 5000 : 70);
}

} // namespace

AttentionDraw draw_attention(unsigned seed) {
    Draws draws(seed);
    Random &random = draws.free;
    AttentionDraw d;
    d.seed = seed;
    draw_compiled(d, draws.compiled);
    d.batch = random.up_to(3);
    d.q_len = random.one_in(3) ? 1 : random.up_to(random.one_in(4) ? 80 : 20);
    d.kv_len = random.one_in(4) ? random.up_to(900) : random.up_to(90);
    d.bottom_right = random.one_in(3);
    d.window_left = static_cast<int>(random.up_to(60)) - 2;
    d.window_right = static_cast<int>(random.up_to(60)) - 2;
    d.mask_broadcast = static_cast<unsigned>(random.up_to(8) - 1);
    d.mask_short = random.one_in(4) ? random.up_to(d.kv_len) - 1 : 0;
    if (!d.past_lengths && random.one_in(5)) d.past_len = static_cast<std::uint32_t>(random.up_to(40));
    if (random.one_in(4)) d.scale = 0.3f;
    if (random.one_in(40)) { // more keys than some drivers let a shader's loops have iterations
        d.kv_len = random.up_to(40000);
        d.q_len = random.up_to(3);
        d.batch = 1;
    }
    draw_lists(d, draws);
    d.functions = seed % 8 == 3; // of what is compiled, and of every few problems: the text takes a while itself
    d.keys_rotated = !d.value_in_key && random.one_in(8);
    d.values_rotated = !d.value_in_key && !d.functions && random.one_in(8);
    const auto scales = [&](vkattn_type type) {
        const bool has_none = type != VKATTN_TYPE_F8_E4M3 && type != VKATTN_TYPE_F8_E5M2;
        return has_none ? 0 : static_cast<unsigned>(random.up_to(9) - 1);
    };
    d.key_scales = scales(d.key);
    d.value_scales = d.value_in_key ? 0 : scales(d.value);
    d.trees = draws.compiled.one_in(6);
    return d;
}

namespace {

HostTensor numbers(vkattn_type type, Shape shape, bool positions_first, std::mt19937 &random) {
    if (!positions_first) return normal_tensor(type, std::move(shape), random);
    const std::uint64_t row = shape[1] * shape[3];
    HostTensor tensor(type, shape, {shape[2] * row, shape[3], row, 1});
    std::normal_distribution<float> normal;
    for (std::uint64_t i = 0; i < tensor.elements(); ++i) tensor.set(i, normal(random));
    return tensor;
}

HostTensor integers(std::uint64_t count, int least, std::uint64_t most, std::mt19937 &random) {
    std::uniform_int_distribution<int> any(least, static_cast<int>(most));
    HostTensor tensor(VKATTN_TYPE_I32, {count});
    for (std::uint64_t i = 0; i < count; ++i) tensor.set(i, static_cast<float>(any(random)));
    return tensor;
}

HostTensor mask_of(const AttentionDraw &d, std::mt19937 &random) {
    const Shape shape = {(d.mask_broadcast & 1) != 0 ? 1 : d.batch,
                         (d.mask_broadcast & 2) != 0 ? 1 : d.kv_heads * d.group,
                         (d.mask_broadcast & 4) != 0 ? 1 : d.q_len, d.kv_len - d.mask_short};
    std::bernoulli_distribution hide(0.2);
    if (d.mask != DrawnMask::kBool) {
        HostTensor mask = normal_tensor(d.mask == DrawnMask::kF32 ? VKATTN_TYPE_F32 : VKATTN_TYPE_F16, shape, random);
        for (std::uint64_t i = 0; i < mask.elements(); ++i)
            if (hide(random)) mask.set(i, -HUGE_VALF);
        return mask;
    }
    HostTensor mask(VKATTN_TYPE_BOOL, shape);
    for (std::uint64_t i = 0; i < mask.elements(); ++i) mask.set(i, hide(random) ? 0.0f : 1.0f);
    return mask;
}

// As broadcast as the mask, but for its queries.
HostTensor block_mask_of(const AttentionDraw &d, std::mt19937 &random) {
    return random_block_states(
        {(d.mask_broadcast & 1) != 0 ? 1 : d.batch, (d.mask_broadcast & 2) != 0 ? 1 : d.kv_heads * d.group,
         (d.q_len + d.block_q_len - 1) / d.block_q_len, (d.kv_len + d.block_kv_len - 1) / d.block_kv_len},
        random);
}

} // namespace

HostTensor random_key_lists(Shape shape, std::uint64_t blocks, std::mt19937 &random) {
    static constexpr std::int32_t kHostile[] = {-1, INT32_MIN, INT32_MAX, INT32_MIN + 1, 1 << 30};
    HostTensor lists(VKATTN_TYPE_I32, std::move(shape));
    std::uniform_int_distribution<std::int32_t> any(-1, static_cast<std::int32_t>(blocks) + 1);
    for (std::uint64_t i = 0; i < lists.elements(); ++i) {
        const std::int32_t drawn = any(random), entry = i % 17 == 5 ? kHostile[i % std::size(kHostile)] : drawn;
        std::memcpy(&lists.bytes()[i * sizeof entry], &entry, sizeof entry);
    }
    return lists;
}

HostTensor random_scales(const Shape &rows, unsigned bits, std::mt19937 &random) {
    Shape shape = {1, 1, 1, 1};
    for (std::size_t dim = 0; dim < 3; ++dim)
        if ((bits >> dim & 1) != 0) shape[dim] = rows[dim];
    HostTensor scales(VKATTN_TYPE_F32, shape);
    std::lognormal_distribution<float> any(0.0f, 0.7f);
    for (std::uint64_t i = 0; i < scales.elements(); ++i) scales.set(i, any(random));
    return scales;
}

AttentionProblem problem_of(const AttentionDraw &d) {
    std::mt19937 random(d.seed);
    const std::uint64_t heads = d.kv_heads * d.group;
    AttentionProblem p;
    p.query = numbers(d.query, {d.batch, heads, d.q_len, d.head_dim}, d.positions_first, random);
    p.key = numbers(d.key, {d.batch, d.kv_heads, d.kv_len, d.head_dim}, d.positions_first, random);
    p.value_in_key = d.value_in_key;
    p.value = d.value_in_key
                  ? first_columns(p.key, d.v_head_dim)
                  : numbers(d.value, {d.batch, d.kv_heads, d.kv_len, d.v_head_dim}, d.positions_first, random);
    if (d.key_lengths) p.key_lengths = integers(d.batch, 0, d.kv_len + 2, random);
    if (d.past_lengths) p.past_lengths = integers(d.batch, -2, 40, random);
    if (d.key_padding) {
        p.key_padding_mask = HostTensor(VKATTN_TYPE_BOOL, {d.batch, d.kv_len});
        std::bernoulli_distribution hide(0.3);
        for (std::uint64_t i = 0; i < p.key_padding_mask.elements(); ++i)
            p.key_padding_mask.set(i, hide(random) ? 1.0f : 0.0f);
    }
    if (d.mask != DrawnMask::kNone) p.attn_mask = mask_of(d, random);
    if (d.block_q_len != 0) p.block_mask = block_mask_of(d, random);
    p.block_q_len = static_cast<std::uint32_t>(d.block_q_len);
    p.block_kv_len = static_cast<std::uint32_t>(d.block_kv_len);
    if (d.alibi) p.alibi_slopes = normal_tensor(VKATTN_TYPE_F32, {heads}, random, 0.2f);
    if (d.sinks) p.sinks = normal_tensor(VKATTN_TYPE_F32, {heads}, random);
    if (d.causal) p.mask_flags |= VKATTN_MASK_CAUSAL;
    if (d.window) p.mask_flags |= VKATTN_MASK_WINDOW;
    p.causal_alignment = d.bottom_right ? VKATTN_CAUSAL_BOTTOM_RIGHT : VKATTN_CAUSAL_TOP_LEFT;
    p.window_left = d.window_left;
    p.window_right = d.window_right;
    if (d.past_len != 0) p.past_len = static_cast<std::uint32_t>(d.past_len);
    p.softcap = d.softcap;
    if (d.scale != 0.0f) p.scale = d.scale;
    p.dropout_p = d.dropout_p;
    p.dropout_seed = d.seed;
    p.kv_head_mapping = d.modulo_heads ? VKATTN_KV_HEADS_MODULO : VKATTN_KV_HEADS_GROUPED;
    p.score_stage = d.stage;
    p.keys_rotated = d.keys_rotated;
    p.values_rotated = d.values_rotated;
    if (d.key_scales != 0) p.key_scales = random_scales(p.key.shape(), d.key_scales - 1, random);
    if (d.value_scales != 0) p.value_scales = random_scales(p.value.shape(), d.value_scales - 1, random);
    if (d.trees && (d.q_len <= d.kv_len || d.key_lengths || d.past_lengths))
        p.tree_mask = random_trees({d.batch, d.q_len, (d.q_len + 31) / 32}, d.q_len, random);
    if (d.list_len == 0) return p;
    p.key_block_len = static_cast<std::uint32_t>(d.key_block_len);
    p.key_indices = random_key_lists({d.batch, d.list_heads, d.q_len, d.list_len},
                                     (d.kv_len + d.key_block_len - 1) / d.key_block_len, random);
    return p;
}

std::string text(const AttentionDraw &d) {
    std::ostringstream out;
    out << "batch " << d.batch << ", heads " << d.kv_heads * d.group << "/" << d.kv_heads << ", q_len " << d.q_len
        << ", kv_len " << d.kv_len << ", sizes " << d.head_dim << "/" << d.v_head_dim << ", " << type_name(d.query)
        << " " << type_name(d.key) << " " << type_name(d.value) << " -> " << type_name(d.output);
    const auto add = [&](bool present, const std::string &name) { out << (present ? ", " + name : ""); };
    add(d.value_in_key, "V in K");
    add(d.functions, "functions");
    add(d.keys_rotated, "K rotated");
    add(d.values_rotated, "V rotated");
    add(d.key_scales != 0, "scales of K " + std::to_string(d.key_scales));
    add(d.value_scales != 0, "scales of V " + std::to_string(d.value_scales));
    add(d.positions_first, "[B,L,H,D]");
    add(d.causal, "causal");
    add(d.bottom_right, "bottom right");
    add(d.window, "window " + std::to_string(d.window_left) + " " + std::to_string(d.window_right));
    add(d.key_lengths, "key_lengths");
    add(d.key_padding, "key_padding_mask");
    add(d.mask != DrawnMask::kNone, "mask " + std::to_string(static_cast<int>(d.mask)) + " broadcast " +
                                        std::to_string(d.mask_broadcast) + " short by " + std::to_string(d.mask_short));
    add(d.block_q_len != 0, "blocks of " + std::to_string(d.block_q_len) + " x " + std::to_string(d.block_kv_len));
    add(d.alibi, "alibi");
    add(d.sinks, "sinks");
    add(d.list_len != 0, "lists of " + std::to_string(d.list_len) + " x " + std::to_string(d.key_block_len) +
                             " keys, heads " + std::to_string(d.list_heads));
    add(d.trees, "trees");
    add(d.modulo_heads, "heads modulo");
    add(d.past_len != 0, "past_len " + std::to_string(d.past_len));
    add(d.past_lengths, "past_lengths");
    add(d.softcap != 0.0f, "softcap");
    add(d.scale != 0.0f, "scale");
    add(d.dropout_p != 0.0f, "dropout");
    add(d.stage != VKATTN_SCORES_SCALED, "scores at stage " + std::to_string(d.stage));
    return out.str();
}

} // namespace vkattn_test
