// Every mask and bias of the operator attention, alone and in pairs.
#include "block_states.hpp"
#include "device.hpp"
#include "messages.hpp"

#include <doctest/doctest.h>

#include <array>
#include <functional>

using namespace vkattn_test;

namespace {

// Two features that use the same slot exclude each other.
enum class Slot { kOffset, kMask, kNone };

struct Feature {
    const char *name;
    Slot slot;
    std::function<void(AttentionProblem &, std::mt19937 &)> add;
};

HostTensor random_bool(Shape shape, std::mt19937 &random, double share) {
    std::bernoulli_distribution flip(share);
    HostTensor tensor(VKATTN_TYPE_BOOL, std::move(shape));
    for (std::uint64_t i = 0; i < tensor.elements(); ++i) tensor.set(i, flip(random) ? 1.0f : 0.0f);
    return tensor;
}

HostTensor additive(vkattn_type type, Shape shape, std::mt19937 &random) {
    std::bernoulli_distribution hide(0.2);
    HostTensor tensor = normal_tensor(type, std::move(shape), random);
    for (std::uint64_t i = 0; i < tensor.elements(); ++i) {
        if (hide(random)) tensor.set(i, i % 2 == 0 || type == VKATTN_TYPE_F16 ? -HUGE_VALF : -3e38f);
    }
    return tensor;
}

// One value a sequence, the given ones in turn.
HostTensor lengths(const AttentionProblem &p, std::initializer_list<float> values) {
    HostTensor tensor(VKATTN_TYPE_I32, {sizes_of(p).batch});
    for (std::uint64_t b = 0; b < tensor.elements(); ++b) tensor.set(b, values.begin()[b % values.size()]);
    return tensor;
}

void add_causal(AttentionProblem &p, std::mt19937 &) { p.mask_flags |= VKATTN_MASK_CAUSAL; }

void add_causal_bottom_right(AttentionProblem &p, std::mt19937 &) {
    p.mask_flags |= VKATTN_MASK_CAUSAL;
    p.causal_alignment = VKATTN_CAUSAL_BOTTOM_RIGHT;
}

void add_past_len(AttentionProblem &p, std::mt19937 &) {
    p.mask_flags |= VKATTN_MASK_CAUSAL;
    p.past_len = 20;
}

void add_past_lengths(AttentionProblem &p, std::mt19937 &) {
    p.mask_flags |= VKATTN_MASK_CAUSAL;
    p.past_lengths = lengths(p, {3, 40, -5});
}

void add_window(AttentionProblem &p, std::mt19937 &) {
    p.mask_flags |= VKATTN_MASK_WINDOW;
    p.window_left = 6;
    p.window_right = 3;
}

void add_key_lengths(AttentionProblem &p, std::mt19937 &) { p.key_lengths = lengths(p, {17, 1000, 0}); }

void add_key_padding(AttentionProblem &p, std::mt19937 &random) {
    p.key_padding_mask = random_bool({sizes_of(p).batch, sizes_of(p).kv_len}, random, 0.3);
}

void add_bool_mask(AttentionProblem &p, std::mt19937 &random) {
    const AttentionSizes s = sizes_of(p);
    p.attn_mask = random_bool({s.batch, s.query_heads, s.q_len, s.kv_len}, random, 0.6);
    // One query in three sees nothing at all.
    for (std::uint64_t i = 0; i < p.attn_mask.elements(); ++i) {
        if (i / s.kv_len % 3 == 0) p.attn_mask.set(i, 0.0f);
    }
}

void add_additive_f32(AttentionProblem &p, std::mt19937 &random) {
    p.attn_mask = additive(VKATTN_TYPE_F32, {sizes_of(p).q_len, sizes_of(p).kv_len}, random);
}

void add_additive_f16(AttentionProblem &p, std::mt19937 &random) {
    p.attn_mask = additive(VKATTN_TYPE_F16, {sizes_of(p).batch, 1, sizes_of(p).q_len, sizes_of(p).kv_len}, random);
}

void add_short_mask(AttentionProblem &p, std::mt19937 &random) {
    p.attn_mask = random_bool({1, sizes_of(p).q_len, (sizes_of(p).kv_len * 2 + 2) / 3}, random, 0.7);
}

void set_blocks(AttentionProblem &p, std::uint32_t q_len, std::uint32_t kv_len, bool per_batch, bool per_head,
                std::mt19937 &random) {
    const AttentionSizes s = sizes_of(p);
    p.block_q_len = q_len;
    p.block_kv_len = kv_len;
    p.block_mask = random_block_states({per_batch ? s.batch : 1, per_head ? s.query_heads : 1,
                                        (s.q_len + q_len - 1) / q_len, (s.kv_len + kv_len - 1) / kv_len},
                                       random);
}

void add_block_mask(AttentionProblem &p, std::mt19937 &random) { set_blocks(p, 8, 16, true, true, random); }

HostTensor per_head(const AttentionProblem &p, float first, float step) {
    HostTensor tensor(VKATTN_TYPE_F32, {sizes_of(p).query_heads});
    for (std::uint64_t h = 0; h < tensor.elements(); ++h) tensor.set(h, first + step * static_cast<float>(h));
    return tensor;
}

void add_alibi(AttentionProblem &p, std::mt19937 &) { p.alibi_slopes = per_head(p, 0.02f, 0.11f); }

// In place of distances the mask's numbers are multiplied, -inf among them; a slope may be 0 or below.
void add_mask_times_slopes(AttentionProblem &p, std::mt19937 &random) {
    add_additive_f16(p, random);
    p.alibi_slopes = per_head(p, -0.5f, 0.5f);
    p.mask_flags |= VKATTN_MASK_TIMES_SLOPES;
}

void add_tree(AttentionProblem &p, std::mt19937 &random) {
    const AttentionSizes s = sizes_of(p);
    p.tree_mask = random_trees({s.batch, s.q_len, (s.q_len + 31) / 32}, s.q_len, random);
}

void add_softcap(AttentionProblem &p, std::mt19937 &) { p.softcap = 1.25f; }
void add_sinks(AttentionProblem &p, std::mt19937 &) { p.sinks = per_head(p, -2.0f, 1.5f); }

const std::array<Feature, 17> &features() {
    static const std::array<Feature, 17> list = {{{"causal top-left", Slot::kOffset, add_causal},
                                                  {"causal bottom-right", Slot::kOffset, add_causal_bottom_right},
                                                  {"causal with past_len", Slot::kOffset, add_past_len},
                                                  {"causal with past_lengths", Slot::kOffset, add_past_lengths},
                                                  {"boolean mask", Slot::kMask, add_bool_mask},
                                                  {"additive f32 mask", Slot::kMask, add_additive_f32},
                                                  {"additive f16 mask", Slot::kMask, add_additive_f16},
                                                  {"short boolean mask", Slot::kMask, add_short_mask},
                                                  {"block_mask", Slot::kNone, add_block_mask},
                                                  {"window", Slot::kNone, add_window},
                                                  {"key_lengths", Slot::kNone, add_key_lengths},
                                                  {"tree_mask", Slot::kNone, add_tree},
                                                  {"key_padding_mask", Slot::kNone, add_key_padding},
                                                  {"alibi_slopes", Slot::kNone, add_alibi},
                                                  {"mask times slopes", Slot::kMask, add_mask_times_slopes},
                                                  {"softcap", Slot::kNone, add_softcap},
                                                  {"sinks", Slot::kNone, add_sinks}}};
    return list;
}

AttentionProblem plain_problem(std::size_t batch, std::size_t q_len, std::size_t kv_len, std::mt19937 &random) {
    AttentionProblem problem;
    problem.query = normal_tensor(VKATTN_TYPE_F32, {batch, 4, q_len, 8}, random);
    problem.key = normal_tensor(VKATTN_TYPE_F32, {batch, 2, kv_len, 8}, random);
    problem.value = normal_tensor(VKATTN_TYPE_F32, {batch, 2, kv_len, 8}, random);
    problem.score_stage = VKATTN_SCORES_MASKED;
    return problem;
}

struct Lengths {
    std::size_t q_len, kv_len;
};

void check_features(std::initializer_list<const Feature *> chosen, std::span<const Lengths> all_lengths) {
    for (const Lengths &sizes : all_lengths) {
        const std::size_t q_len = sizes.q_len, kv_len = sizes.kv_len;
        std::mt19937 random(static_cast<unsigned>(q_len * 1000 + kv_len));
        AttentionProblem problem = plain_problem(3, q_len, kv_len, random);
        std::string names;
        for (const Feature *feature : chosen) {
            feature->add(problem, random);
            names += std::string(names.empty() ? "" : " + ") + feature->name;
        }
        INFO(names, ", Lq ", q_len, ", Lk ", kv_len);
        check_every_kernel(problem);
    }
}

// Many queries and one in turn: what is compiled for them is most of the time that a pair takes.
void check_pairs(const char *name) {
    constexpr std::array<Lengths, 2> kLengths = {{{37, 70}, {1, 45}}};
    bool reached = false;
    std::size_t pairs = 0;
    for (const Feature &partner : features()) {
        const auto *feature = std::ranges::find(features(), std::string(name), [](const Feature &f) { return f.name; });
        if (&partner == feature) reached = true;
        const bool excluded = partner.slot != Slot::kNone && partner.slot == feature->slot;
        // A pair is checked once, by the feature that comes first in the list.
        if (!reached || excluded || &partner == feature) continue;
        check_features({feature, &partner}, std::span(kLengths).subspan(pairs++ % 2, 1));
    }
}

AttentionProblem masked_problem(HostTensor (*make)(Shape, std::mt19937 &), Shape mask_shape) {
    std::mt19937 random(3);
    AttentionProblem problem = plain_problem(2, 6, 35, random);
    problem.attn_mask = make(std::move(mask_shape), random);
    return problem;
}

HostTensor make_bool(Shape shape, std::mt19937 &random) { return random_bool(std::move(shape), random, 0.6); }
HostTensor make_f32(Shape shape, std::mt19937 &random) { return additive(VKATTN_TYPE_F32, std::move(shape), random); }
HostTensor make_f16(Shape shape, std::mt19937 &random) { return additive(VKATTN_TYPE_F16, std::move(shape), random); }

void check_hidden_from_all_in(const AttentionProblem &problem) {
    for (const vkattn_kernel kernel : kernels_for(problem)) {
        INFO("kernel ", kernel_text(kernel));
        AttentionResults results = all_results(problem, kernel, VKATTN_TYPE_F32);
        run_attention(problem, results, test_device().context().attention_plan(describe(problem, results, kernel)));
        CHECK(std::ranges::all_of(results.output.floats(), [](float value) { return value == 0.0f; }));
        CHECK(std::ranges::all_of(results.attn_weights.floats(), [](float value) { return value == 0.0f; }));
        CHECK(std::ranges::all_of(results.log_sum_exp.floats(), [](float value) { return value == -HUGE_VALF; }));
    }
}

void check_hidden_from_all(const AttentionProblem &problem) {
    check_hidden_from_all_in(problem);
    check_hidden_from_all_in(in_f16(problem));
}

} // namespace

TEST_SUITE_BEGIN("masks.alone");

// Many queries for each; of one query and the lengths at the edges one in turn, since kernels are compiled for most of them.
TEST_CASE_FIXTURE(DeviceTest, "every mask alone") {
    constexpr std::array<Lengths, 1> kLengths = {{{37, 70}}};
    constexpr std::array<Lengths, 4> kEdges = {{{1, 45}, {70, 37}, {5, 1}, {64, 128}}};
    std::size_t number = 0;
    for (const Feature &feature : features()) {
        check_features({&feature}, kLengths);
        check_features({&feature}, std::span(kEdges).subspan(number++ % kEdges.size(), 1));
    }
}

TEST_CASE_FIXTURE(DeviceTest, "a mask broadcasts in every way it may") {
    const std::array<Shape, 13> shapes = {{{6, 35},
                                           {1, 35},
                                           {2, 6, 35},
                                           {1, 6, 35},
                                           {2, 1, 35},
                                           {1, 1, 35},
                                           {2, 4, 6, 35},
                                           {1, 4, 6, 35},
                                           {2, 1, 6, 35},
                                           {2, 4, 1, 35},
                                           {1, 1, 1, 35},
                                           {2, 4, 6, 1},
                                           {6, 34}}};
    constexpr std::array kMakers = {make_bool, make_f32, make_f16};
    std::size_t number = 0;
    for (const Shape &shape : shapes) { // the types in turn: a shape is strides, whatever it holds
        std::string text;
        for (const std::uint64_t size : shape) text += std::to_string(size) + " ";
        const AttentionProblem problem = masked_problem(kMakers[number++ % kMakers.size()], shape);
        INFO("mask ", type_name(problem.attn_mask.type()), " ", text);
        check_every_kernel(problem);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "a mask of some entries or heads is read in turn") {
    std::mt19937 random(5);
    constexpr std::array kMakers = {make_bool, make_f32, make_f16};
    std::size_t number = 0;
    for (const Shape &shape : {Shape{2, 6, 35}, {4, 2, 6, 35}, {2, 4, 1, 35}, {2, 2, 6, 20}, {1, 2, 6, 35}}) {
        AttentionProblem problem = plain_problem(4, 6, 35, random);
        problem.attn_mask = kMakers[number++ % kMakers.size()](shape, random);
        INFO("mask ", type_name(problem.attn_mask.type()), " of rank ", shape.size(), ", ", number);
        check_every_kernel(problem);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "a mask may have strides and begin anywhere") {
    std::mt19937 random(4);
    AttentionProblem problem = plain_problem(2, 6, 35, random);
    for (const vkattn_type type : {VKATTN_TYPE_BOOL, VKATTN_TYPE_F32, VKATTN_TYPE_F16}) {
        CAPTURE(type_name(type));
        problem.attn_mask = HostTensor(type, {2, 4, 6, 35}, {0, 6 * 37, 37, 1}, 5);
        const HostTensor contents =
            type == VKATTN_TYPE_BOOL ? make_bool({4, 6, 35}, random) : additive(type, {4, 6, 35}, random);
        for (std::uint64_t i = 0; i < problem.attn_mask.elements(); ++i) {
            problem.attn_mask.set(i, contents.get(i % contents.elements()));
        }
        check_every_kernel(problem);
    }
}

TEST_CASE_FIXTURE(DeviceTest,
                  "a block mask of any sizes, broadcast in every way, with masks inside its blocks and without") {
    struct Blocks {
        std::uint32_t q_len, kv_len;
        bool per_batch, per_head;
    };
    constexpr std::array<Blocks, 6> kBlocks = {{{1, 1, false, false},
                                                {7, 5, true, false},
                                                {16, 32, false, true},
                                                {64, 64, true, true},
                                                {3, 128, false, false},
                                                {1000, 1000, true, true}}};
    bool masked = false; // in turn
    for (const Blocks &blocks : kBlocks) {
        INFO("blocks of ", blocks.q_len, " x ", blocks.kv_len, ", masked ", masked);
        std::mt19937 random(6);
        AttentionProblem problem = plain_problem(2, 70, 300, random);
        if (masked) add_additive_f32(problem, random);
        set_blocks(problem, blocks.q_len, blocks.kv_len, blocks.per_batch, blocks.per_head, random);
        check_every_kernel(problem);
        masked = !masked;
    }
}

TEST_CASE_FIXTURE(DeviceTest, "blocks of single keys, for every head, over more keys than loops may have iterations") {
    std::mt19937 random(95);
    const std::uint64_t keys = test_device().facts().max_loop_iterations != 0 ? 20000 : 2000;
    for (const std::uint64_t q_len : {1, 5}) {
        AttentionProblem problem;
        problem.query = normal_tensor(VKATTN_TYPE_F32, {1, 16, q_len, 8}, random);
        problem.key = normal_tensor(VKATTN_TYPE_F32, {1, 1, keys, 8}, random);
        problem.value = normal_tensor(VKATTN_TYPE_F32, {1, 1, keys, 8}, random);
        set_blocks(problem, 1, 1, false, true, random);
        check_every_kernel(problem);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "everything that a tile's loops do, over more keys than loops may have iterations") {
    std::mt19937 random(96);
    const std::uint64_t keys = test_device().facts().max_loop_iterations != 0 ? 40000 : 2000;
    for (const std::uint64_t head_dim : {3, 64}) {
        INFO("D ", head_dim);
        AttentionProblem problem;
        problem.query = normal_tensor(VKATTN_TYPE_F32, {1, 8, 9, head_dim}, random);
        problem.key = normal_tensor(VKATTN_TYPE_F32, {1, 1, keys, head_dim}, random);
        problem.value = normal_tensor(VKATTN_TYPE_F32, {1, 1, keys, head_dim}, random);
        add_key_padding(problem, random);
        problem.attn_mask = normal_tensor(VKATTN_TYPE_F32, {1, 1, 1, keys}, random);
        problem.softcap = 2.0f;
        problem.dropout_p = 0.4f;
        problem.dropout_seed = 7;
        check_every_kernel(problem);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "what lies in hidden blocks, and masks of full ones, may be anything") {
    constexpr std::uint64_t kQueries = 40, kKeys = 300;
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    for (const std::uint32_t block : {32u, 8u}) { // 8: hidden and visible keys in one tile
        for (const bool masked : {false, true}) {
            INFO("blocks of ", block, " keys, masked ", masked);
            std::mt19937 random(6);
            AttentionProblem problem = plain_problem(1, kQueries, kKeys, random);
            set_blocks(problem, 16, block, false, false, random);
            const std::uint64_t blocks = problem.block_mask.shape()[3];
            for (std::uint64_t i = 0; i < problem.block_mask.elements(); ++i) {
                if (i % blocks == 2) problem.block_mask.set(i, VKATTN_BLOCK_HIDDEN);
                if (i % blocks == 5) problem.block_mask.set(i, VKATTN_BLOCK_FULL);
            }
            for (HostTensor *tensor : {&problem.key, &problem.value})
                for (std::uint64_t i = 0; i < tensor->elements(); ++i)
                    if (i / 8 % kKeys / block == 2) tensor->set(i, kNan);
            if (masked) problem.attn_mask = make_f32({kQueries, kKeys}, random);
            for (std::uint64_t i = 0; i < problem.attn_mask.elements(); ++i)
                if (i % kKeys / block == 5) problem.attn_mask.set(i, kNan);
            check_every_kernel(problem);
        }
    }
}

TEST_CASE_FIXTURE(DeviceTest, "any byte but 0 is true") {
    std::mt19937 random(5);
    AttentionProblem problem = plain_problem(2, 6, 35, random);
    problem.attn_mask = make_bool({6, 35}, random);
    problem.key_padding_mask = random_bool({2, 35}, random, 0.3);
    for (HostTensor *tensor : {&problem.attn_mask, &problem.key_padding_mask}) {
        for (std::size_t i = 0; i < tensor->elements(); ++i) {
            if (tensor->bytes()[i] != 0) tensor->bytes()[i] = static_cast<std::uint8_t>(1u << (i % 8));
        }
    }
    check_every_kernel(problem);
}

TEST_CASE_FIXTURE(DeviceTest, "windows open to one side, of one key, and far from the first tile") {
    struct Window {
        std::int32_t left, right;
        std::uint32_t past_len;
    };
    constexpr std::array<Window, 7> kWindows = {
        {{-1, -1, 0}, {5, -1, 0}, {-1, 2, 0}, {0, 0, 0}, {4, 0, 250}, {300, 300, 7}, {3, 0, 5000}}};
    for (const Window &window : kWindows) {
        const auto left = window.left, right = window.right;
        const std::uint32_t past_len = window.past_len;
        INFO("window ", left, " ", right, ", past ", past_len);
        std::mt19937 random(6);
        AttentionProblem problem = plain_problem(1, 40, 300, random);
        problem.mask_flags = VKATTN_MASK_WINDOW;
        problem.window_left = left;
        problem.window_right = right;
        problem.past_len = past_len;
        check_every_kernel(problem);
        problem.mask_flags |= VKATTN_MASK_CAUSAL;
        check_every_kernel(problem);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "past_lengths take the place of past_len, even where they are 0") {
    std::mt19937 random(8);
    AttentionProblem problem = plain_problem(3, 9, 70, random);
    add_past_lengths(problem, random);
    problem.past_len = 50;
    problem.causal_alignment = VKATTN_CAUSAL_BOTTOM_RIGHT;
    check_every_kernel(problem);
}

TEST_CASE_FIXTURE(DeviceTest, "bottom right is each sequence's own where dense keys have lengths") {
    std::size_t number = 0;
    for (const auto &lens : {std::pair{1, 300}, {7, 45}, {40, 33}}) {
        const auto [q_len, kv_len] = lens;
        INFO("Lq ", lens.first, ", Lk ", lens.second);
        std::mt19937 random(11);
        AttentionProblem problem =
            plain_problem(4, static_cast<std::size_t>(q_len), static_cast<std::size_t>(kv_len), random);
        problem.key_lengths = lengths(problem, {21, 5, 1000, 0});
        problem.causal_alignment = VKATTN_CAUSAL_BOTTOM_RIGHT;
        for (const std::uint32_t flags : {1u * VKATTN_MASK_CAUSAL, 1u * VKATTN_MASK_WINDOW}) {
            problem.mask_flags = flags;
            problem.window_left = 3;
            problem.window_right = 1;
            // alone, with slopes and with both slopes and blocks in turn: of all lengths, each flag meets each
            AttentionProblem one = problem;
            const std::size_t with = number++ % 3;
            if (with > 0) add_alibi(one, random);
            if (with > 1) add_block_mask(one, random);
            check_every_kernel(one);
        }
    }
}

TEST_CASE_FIXTURE(DeviceTest, "a scale of 0 is 0") {
    std::mt19937 random(12);
    AttentionProblem problem = plain_problem(2, 5, 45, random);
    problem.mask_flags = VKATTN_MASK_CAUSAL;
    problem.scale = 0.0f;
    problem.past_len = 20;
    check_every_kernel(problem);
}

TEST_CASE_FIXTURE(DeviceTest, "keys after the last query are hidden where that is asked for") {
    std::size_t number = 0;
    for (const auto &sizes : {std::pair{1, 300}, std::pair{5, 45}, std::pair{33, 40}}) {
        const int q_len = sizes.first, kv_len = sizes.second;
        for (const std::uint32_t flags : {0u, 1u * VKATTN_MASK_CAUSAL, 1u * VKATTN_MASK_WINDOW}) {
            INFO("flags ", flags, ", Lq ", q_len, ", Lk ", kv_len);
            std::mt19937 random(10);
            AttentionProblem problem =
                plain_problem(2, static_cast<std::size_t>(q_len), static_cast<std::size_t>(kv_len), random);
            problem.mask_flags = flags | VKATTN_MASK_KEYS_TO_LAST_QUERY;
            problem.window_left = 9;
            problem.window_right = 2;
            problem.past_len = 4;
            if (number++ % 2 != 0) problem.past_lengths = lengths(problem, {3, 31}); // each flag, with both
            check_every_kernel(problem);
        }
    }
}

// The tree begins inside a tile, at its end and behind many; words of some rows have none of their bits.
TEST_CASE_FIXTURE(DeviceTest, "a tree of any size after a past of any length") {
    std::size_t number = 0;
    for (const auto &lengths_of_tree :
         {std::pair{1u, 0u}, {8u, 1024u}, {31u, 33u}, {33u, 31u}, {64u, 64u}, {65u, 0u}, {96u, 700u}}) {
        const std::uint32_t q_len = lengths_of_tree.first, past = lengths_of_tree.second;
        INFO("Lq ", q_len, ", past ", past);
        std::mt19937 random(q_len);
        AttentionProblem problem = plain_problem(2, q_len, past + q_len, random);
        add_tree(problem, random);
        const std::size_t with = number++ % 4;
        if (with == 1) problem.past_len = past;
        if (with == 2) problem.past_len = past / 2; // keys after the queries' own are hidden
        if (with == 3)
            problem.past_lengths = lengths(problem, {static_cast<float>(past / 3), static_cast<float>(past)});
        check_every_kernel(problem);
        check_every_kernel(in_f16(problem));
    }
}

TEST_CASE_FIXTURE(DeviceTest, "what is no tree of drafts is named") {
    std::mt19937 random(16);
    const AttentionProblem problem = plain_problem(2, 33, 40, random);
    const auto check = [&](const AttentionProblem &of, const HostTensor &trees, const char *expected) {
        AttentionProblem wrong = of;
        wrong.tree_mask = trees;
        const AttentionResults results = all_results(wrong, VKATTN_KERNEL_AUTO, VKATTN_TYPE_F32);
        const std::string message = message_of(
            [&] { (void)test_device().context().attention_plan(describe(wrong, results, VKATTN_KERNEL_AUTO)); });
        CHECK_MESSAGE(message.find(expected) != std::string::npos, message);
    };
    check(problem, HostTensor(VKATTN_TYPE_I32, {2, 33, 1}), "tree_mask: shape [2,33,1], expected [2,33,2]");
    check(problem, HostTensor(VKATTN_TYPE_I32, {33, 2}), "tree_mask: ");
    check(problem, HostTensor(VKATTN_TYPE_BOOL, {2, 33, 2}), "tree_mask: type BOOL, expected I32");
    check(plain_problem(2, 33, 32, random), HostTensor(VKATTN_TYPE_I32, {2, 33, 2}),
          "tree_mask: given beside 33 queries and 32 keys, expected at least as many keys as queries");
}

TEST_CASE_FIXTURE(DeviceTest, "lengths beyond every bound are clamped") {
    std::mt19937 random(9);
    AttentionProblem problem = plain_problem(3, 9, 70, random);
    add_causal(problem, random);
    add_alibi(problem, random);
    problem.past_lengths = lengths(problem, {0, -2e9f, 64});
    problem.key_lengths = lengths(problem, {2e9f, 30, -2e9f});
    check_every_kernel(problem);
}

TEST_SUITE_END();
TEST_SUITE_BEGIN("masks.hidden");

TEST_CASE_FIXTURE(DeviceTest, "a query that sees no key gets zeros, with sinks too") {
    std::mt19937 random(10);
    AttentionProblem problem = plain_problem(2, 5, 70, random);
    problem.score_stage = VKATTN_SCORES_WEIGHTS;
    problem.key_lengths = lengths(problem, {0, 0});
    check_hidden_from_all(problem);
    add_sinks(problem, random);
    check_hidden_from_all(problem);
    problem.key_lengths = {};
    problem.attn_mask = HostTensor(VKATTN_TYPE_F32, {5, 70});
    for (std::uint64_t i = 0; i < problem.attn_mask.elements(); ++i) problem.attn_mask.set(i, -HUGE_VALF);
    check_hidden_from_all(problem);
}

TEST_CASE_FIXTURE(DeviceTest, "a bias down to -6e37 is a bias, and what is below hides the key") {
    std::mt19937 random(13);
    AttentionProblem problem = plain_problem(2, 4, 70, random);
    problem.attn_mask = HostTensor(VKATTN_TYPE_F32, {4, 70});
    for (std::uint64_t i = 0; i < problem.attn_mask.elements(); ++i) {
        const float row[] = {-5.9e37f, -6.1e37f, i % 70 == 33 ? -5.9e37f : -HUGE_VALF, i % 2 == 0 ? 0.0f : -5.9e37f};
        problem.attn_mask.set(i, row[i / 70]);
    }
    check_every_kernel(problem);
}

TEST_CASE_FIXTURE(DeviceTest, "more queries than keys, bottom-right: the first queries see nothing") {
    std::mt19937 random(11);
    AttentionProblem problem = plain_problem(2, 70, 33, random);
    add_causal_bottom_right(problem, random);
    check_every_kernel(problem);
}

namespace {

// Row by row: NaN where the query sees a key that is not a number, and what the reference says of the others.
void check_rows_with_nan(const AttentionProblem &problem, std::uint64_t key, vkattn_kernel kernel) {
    INFO(kernel_text(kernel), ", V in K ", problem.value_in_key);
    AttentionProblem finite = problem; // the rows that do not see the key do not notice
    const AttentionSizes s = sizes_of(problem);
    for (HostTensor *tensor : {&finite.key, &finite.value})
        for (std::uint64_t i = 0; i < tensor->elements(); ++i)
            if (std::isnan(tensor->get(i))) tensor->set(i, 0.0f);
    const AttentionReference reference = reference_attention(finite);
    AttentionResults results = all_results(problem, kernel, VKATTN_TYPE_F32);
    results.attn_weights = results.qk_matmul_output = {};
    run_attention(problem, results, test_device().context().attention_plan(describe(problem, results, kernel)));
    std::uint64_t wrong = 0;
    for (std::uint64_t i = 0; i < results.output.elements(); ++i) {
        const std::uint64_t query = i / s.v_head_dim % s.q_len;
        const bool sees = query + problem.past_len.value >= key;
        const float value = results.output.get(i), sum = results.log_sum_exp.get(i / s.v_head_dim);
        const double expected = reference.output[i];
        wrong += std::isnan(value) != sees || std::isnan(sum) != sees ||
                 (!sees && std::fabs(value - expected) > 0.02 * (0.1 + std::fabs(expected)));
    }
    CHECK(wrong == 0);
}

} // namespace

TEST_CASE_FIXTURE(DeviceTest, "a key that is not a number makes the rows that see it so, and no others") {
    for (const bool value_in_key : {false, true})
        for (const std::uint64_t q_len : {std::uint64_t{1}, std::uint64_t{20}}) {
            const std::uint64_t kv_len = q_len == 1 ? 20 : 200;
            std::mt19937 random(15);
            AttentionProblem problem;
            problem.query = normal_tensor(VKATTN_TYPE_F16, {1, 16, q_len, 64}, random);
            problem.key = normal_tensor(VKATTN_TYPE_F16, {1, 1, kv_len, 64}, random);
            const std::uint64_t key = q_len == 1 ? 3 : kv_len - 8; // that some of several queries see
            problem.key.set(key * 64 + 5, std::numeric_limits<float>::quiet_NaN());
            problem.value_in_key = value_in_key;
            problem.value = value_in_key ? first_columns(problem.key, 32)
                                         : normal_tensor(VKATTN_TYPE_F16, {1, 1, kv_len, 32}, random);
            problem.mask_flags = VKATTN_MASK_CAUSAL;
            problem.past_len = static_cast<std::uint32_t>(kv_len - q_len);
            problem.softcap = q_len == 1 ? 0.0f : 5.0f;
            for (const vkattn_kernel kernel :
                 {VKATTN_KERNEL_AUTO, VKATTN_KERNEL_UNFUSED, VKATTN_KERNEL_FLASH, VKATTN_KERNEL_DECODE,
                  VKATTN_KERNEL_LATENT_DECODE, VKATTN_KERNEL_COOPMAT, VKATTN_KERNEL_COOPMAT2, VKATTN_KERNEL_ADDRESSES})
                if (can_run(test_device().facts(), kernel) && (kernel != VKATTN_KERNEL_LATENT_DECODE || value_in_key))
                    check_rows_with_nan(problem, key, kernel);
        }
}

TEST_CASE_FIXTURE(DeviceTest, "what lies beyond key_lengths may be anything, NaN as well") {
    std::mt19937 random(12);
    AttentionProblem problem = plain_problem(3, 9, 70, random);
    add_key_lengths(problem, random);
    problem.score_stage = VKATTN_SCORES_WEIGHTS;
    const HostTensor &key_lengths = problem.key_lengths;
    for (HostTensor *tensor : {&problem.key, &problem.value}) {
        for (std::uint64_t i = 0; i < tensor->elements(); ++i) {
            const std::uint64_t token = i / 8 % 70;
            const std::uint64_t sequence = i / (8 * 70 * 2);
            if (static_cast<float>(token) >= key_lengths.get(sequence)) tensor->set(i, NAN);
        }
    }
    check_every_kernel(problem);
}

// What is hidden has a weight of 0, and 0 times NaN is NaN: the row is then attended again with care, however long.
TEST_CASE_FIXTURE(DeviceTest, "a hidden value that is not a number, in a long row") {
    std::mt19937 random(14);
    // more than llvmpipe's loops have iterations; elsewhere, some tiles
    const std::uint64_t keys = test_device().facts().max_loop_iterations != 0 ? 40000 : 4000;
    AttentionProblem problem = plain_problem(1, 3, keys, random);
    add_key_padding(problem, random);
    for (std::uint64_t head = 0; head < 2; ++head)
        for (std::uint64_t key = 0; key < keys; ++key)
            if (problem.key_padding_mask.get(key) != 0) problem.value.set((head * keys + key) * 8 + key % 8, NAN);
    check_every_kernel(problem);
}

// Bodies that copy K and V do so a stretch at a time, and here all stretches but the first have no key to attend.
TEST_CASE_FIXTURE(DeviceTest, "a short sequence in a large cache") {
    std::mt19937 random(15);
    AttentionProblem problem;
    problem.query = normal_tensor(VKATTN_TYPE_F32, {1, 8, 3, 128}, random);
    problem.key = HostTensor(VKATTN_TYPE_F16, {1, 8, 32768, 128}); // NaN beyond the sequence
    for (std::uint64_t head = 0; head < 8; ++head)
        for (std::uint64_t i = 0; i < 40 * 128; ++i)
            problem.key.set(head * 32768 * 128 + i, std::normal_distribution<float>()(random));
    problem.value = problem.key;
    problem.key_lengths = tensor_of(VKATTN_TYPE_I32, {1}, std::array{40.0f});
    problem.score_stage = VKATTN_SCORES_WEIGHTS;
    check_every_kernel(problem);
}

TEST_CASE_FIXTURE(DeviceTest, "sinks of every size, minus infinity as well") {
    std::mt19937 random(13);
    AttentionProblem problem = plain_problem(1, 5, 35, random);
    problem.sinks = tensor_of(VKATTN_TYPE_F32, {4}, std::array{-HUGE_VALF, 80.0f, -80.0f, 0.0f});
    check_every_kernel(problem);
}

TEST_SUITE_END();
TEST_SUITE_BEGIN("masks.pairs.offsets");

TEST_CASE_FIXTURE(DeviceTest, "causal top-left with every other mask") { check_pairs("causal top-left"); }
TEST_CASE_FIXTURE(DeviceTest, "causal bottom-right with every other mask") { check_pairs("causal bottom-right"); }
TEST_CASE_FIXTURE(DeviceTest, "past_len with every other mask") { check_pairs("causal with past_len"); }
TEST_CASE_FIXTURE(DeviceTest, "past_lengths with every other mask") { check_pairs("causal with past_lengths"); }

TEST_SUITE_END();
TEST_SUITE_BEGIN("masks.pairs.rest");

TEST_CASE_FIXTURE(DeviceTest, "a boolean mask with every other mask") { check_pairs("boolean mask"); }
TEST_CASE_FIXTURE(DeviceTest, "an additive f32 mask with every other mask") { check_pairs("additive f32 mask"); }
TEST_CASE_FIXTURE(DeviceTest, "an additive f16 mask with every other mask") { check_pairs("additive f16 mask"); }
TEST_CASE_FIXTURE(DeviceTest, "a short mask with every other mask") { check_pairs("short boolean mask"); }
TEST_CASE_FIXTURE(DeviceTest, "a block mask with every other mask") { check_pairs("block_mask"); }
TEST_CASE_FIXTURE(DeviceTest, "a tree mask with every other mask") { check_pairs("tree_mask"); }
TEST_CASE_FIXTURE(DeviceTest, "a window with every other mask") { check_pairs("window"); }
TEST_CASE_FIXTURE(DeviceTest, "key_lengths with every other mask") { check_pairs("key_lengths"); }
TEST_CASE_FIXTURE(DeviceTest, "key_padding_mask with every other mask") { check_pairs("key_padding_mask"); }
TEST_CASE_FIXTURE(DeviceTest, "alibi_slopes with every other mask") { check_pairs("alibi_slopes"); }
TEST_CASE_FIXTURE(DeviceTest, "a softcap with sinks") { check_pairs("softcap"); }

TEST_SUITE_END();
