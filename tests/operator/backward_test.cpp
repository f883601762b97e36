// attention_backward against float64: every mask, type and layout, packed sequences, sizes of 0, what is hidden not a number, the same bits
// every time; and the reference against differences.
#include "attention_draws.hpp"
#include "backward_calls.hpp"
#include "compare.hpp"
#include "device.hpp"
#include "limited_device.hpp"
#include "messages.hpp"
#include "random_draws.hpp"
#include "sequence_cases.hpp"

#ifdef VKATTN_HAS_JIT
#include "variants.hpp"
#endif

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <tuple>

using namespace vkattn_test;

namespace {

AttentionDraw dense(std::uint64_t q_len, std::uint64_t kv_len, std::uint64_t head_dim, std::uint64_t v_head_dim) {
    AttentionDraw d;
    d.seed = static_cast<unsigned>(q_len * 31 + kv_len);
    d.q_len = q_len;
    d.kv_len = kv_len;
    d.head_dim = head_dim;
    d.v_head_dim = v_head_dim;
    return d;
}

// Draws as attention's sweep does, without what has no gradients.
AttentionDraw draw_backward(unsigned seed) {
    AttentionDraw d = draw_attention(seed);
    const auto without_blocks = [](vkattn_type type) {
        return type == VKATTN_TYPE_F32 || type == VKATTN_TYPE_F16 || type == VKATTN_TYPE_BF16 ? type : VKATTN_TYPE_F16;
    };
    d.key = without_blocks(d.key);
    d.value = without_blocks(d.value);
    d.value_in_key = d.keys_rotated = d.values_rotated = false;
    d.key_scales = d.value_scales = 0;
    d.kv_len = std::min<std::uint64_t>(d.kv_len, 900);
    d.mask_short = std::min(d.mask_short, d.kv_len - 1);
    d.list_len = std::min<std::uint64_t>(d.list_len, 300);
    return d;
}

AttentionProblem problem_with_functions(const AttentionDraw &d,
                                        [[maybe_unused]] const vkattn::Context &context = test_device().context()) {
    AttentionProblem problem = problem_of(d);
#ifdef VKATTN_HAS_JIT
    std::mt19937 random(d.seed);
    if (d.functions) set_score_functions(problem, random, context);
#endif
    return problem;
}

BackwardOptions options_of(unsigned seed) {
    Random random(seed + 77);
    const auto type = [&] { return random.any({VKATTN_TYPE_F32, VKATTN_TYPE_F16, VKATTN_TYPE_BF16}); };
    BackwardOptions options;
    options.computes_output = random.one_in(2);
    options.gradients = type();
    options.d_output = type();
    options.output = type();
    options.has_gaps = random.one_in(2);
    return options;
}

// Packed queries, and keys packed or dense: each sequence's gradients, where its rows lie.
struct PackedGradients {
    PackedGradients(const SequencesBatch &batch)
        : query(batch.query.elements()), key(batch.key.elements()), value(batch.value.elements()) {}

    void add(const SequencesCase &c, const SequencesBatch &batch, const Sequence &sequence, std::uint64_t number,
             const SequenceLengths &first, const HostTensor &d_output) {
        const std::uint64_t rows = batch.query.shape()[2], keys = batch.key.shape()[2];
        const auto [queries, own_keys] = sequence.lengths;
        if (queries == 0) return;
        std::vector<double> of_sequence;
        for (std::uint64_t h = 0; h < c.query_heads; ++h)
            for (std::uint64_t i = 0; i < queries * c.v_head_dim; ++i)
                of_sequence.push_back(static_cast<double>(d_output.get((h * rows + first.queries) * c.v_head_dim + i)));
        const AttentionGradients gradients = reference_gradients(sequence.problem, of_sequence);
        for (std::uint64_t h = 0; h < c.query_heads; ++h)
            std::copy_n(&gradients.query.values[h * queries * c.head_dim], queries * c.head_dim,
                        &query[(h * rows + first.queries) * c.head_dim]);
        const std::uint64_t of_problem = sequence.problem.key.shape()[2];
        for (std::uint64_t h = 0; h < c.kv_heads; ++h) {
            const std::uint64_t to = c.keys == Keys::kPacked ? h * keys + first.keys : (number * c.kv_heads + h) * keys;
            std::copy_n(&gradients.key.values[h * of_problem * c.head_dim], own_keys * c.head_dim,
                        key.begin() + static_cast<std::ptrdiff_t>(to * c.head_dim));
            std::copy_n(&gradients.value.values[h * of_problem * c.v_head_dim], own_keys * c.v_head_dim,
                        value.begin() + static_cast<std::ptrdiff_t>(to * c.v_head_dim));
        }
    }

    std::vector<double> query, key, value;
};

std::string try_packed(const SequencesCase &c) {
    std::mt19937 random(11);
    std::vector<Sequence> sequences = make_sequences(c, random);
    SequencesBatch batch = make_batch(c, sequences, random);
    const ExpectedSequences forward = expect(c, sequences, batch);
    HostTensor d_output = normal_tensor(c.query_type, batch.output.shape(), random);
    PackedGradients expected(batch);
    SequenceLengths first{0, 0};
    for (std::size_t b = 0; b < sequences.size(); ++b) {
        expected.add(c, batch, sequences[b], b, first, d_output);
        first = {first.queries + sequences[b].lengths.queries, first.keys + sequences[b].lengths.keys};
    }
    batch.output = filled(VKATTN_TYPE_F32, batch.output.shape(), forward.output);
    batch.log_sum_exp = filled(VKATTN_TYPE_F32, batch.log_sum_exp.shape(), forward.log_sum_exp);
    HostTensor d_query(VKATTN_TYPE_F32, batch.query.shape()), d_key(VKATTN_TYPE_F32, batch.key.shape()),
        d_value(VKATTN_TYPE_F32, batch.value.shape());
    const vkattn_attention_desc attention = vkattn_test::describe(c, batch, VKATTN_KERNEL_AUTO);
    vkattn_attention_backward_desc desc{};
    desc.attention = &attention;
    desc.d_output = d_output.view();
    desc.d_query = d_query.view();
    desc.d_key = d_key.view();
    desc.d_value = d_value.view();
    std::vector<Region> regions = regions_of(batch);
    for (Region &region : regions) region.access = Access::kRead;
    regions.push_back({VKATTN_ROLE_D_OUTPUT, &d_output, Access::kRead});
    regions.push_back({VKATTN_ROLE_D_QUERY, &d_query, Access::kWrite});
    regions.push_back({VKATTN_ROLE_D_KEY, &d_key, Access::kWrite});
    regions.push_back({VKATTN_ROLE_D_VALUE, &d_value, Access::kWrite});
    std::string complaints = test_device().try_run(test_device().context().attention_backward_plan(desc), regions);
    const double bound = 10 * nmse_bound({c.query_type, c.key_type, c.value_type});
    for (const auto &[name, made, values] :
         {std::tuple("d_query", &d_query, &expected.query), std::tuple("d_key", &d_key, &expected.key),
          std::tuple("d_value", &d_value, &expected.value)}) {
        const Comparison comparison = compare(name, made->shape(), *values, made->floats(), bound, 1e-2);
        if (!comparison.passed) complaints += comparison.report + "\n";
    }
    return complaints;
}

// The sum that the gradients are of.
double weighted_output(const AttentionProblem &problem, const std::vector<double> &d_output) {
    const std::vector<double> output = reference_attention(problem).output;
    return std::inner_product(output.begin(), output.end(), d_output.begin(), 0.0);
}

void check_differences(AttentionProblem problem, HostTensor AttentionProblem::*member, const Gradient &gradient,
                       const std::vector<double> &d_output) {
    constexpr float kStep = 0x1p-6f; // which f32 tensors hold exactly, about their numbers
    HostTensor &tensor = problem.*member;
    for (std::uint64_t i = 0; i < tensor.elements(); ++i) {
        const float at = tensor.get(i);
        if (!std::isfinite(at)) continue;
        tensor.set(i, at + kStep);
        const double above = weighted_output(problem, d_output), step_up = static_cast<double>(tensor.get(i) - at);
        tensor.set(i, at - kStep);
        const double below = weighted_output(problem, d_output), step_down = static_cast<double>(at - tensor.get(i));
        tensor.set(i, at);
        const double difference = (above - below) / (step_up + step_down);
        CAPTURE(i);
        CHECK(std::fabs(difference - gradient.values[i]) < 2e-3 * (1.0 + std::fabs(difference)));
    }
}

} // namespace

TEST_SUITE_BEGIN("gradients");

TEST_CASE("the reference's gradients are differences of its outputs") {
    for (const float dropout : {0.0f, 0.3f}) {
        AttentionDraw d = dense(3, 5, 4, 3);
        d.group = 2;
        d.causal = d.bottom_right = d.sinks = d.alibi = true;
        d.softcap = 2.0f;
        d.mask = DrawnMask::kF32;
        d.mask_broadcast = 2;
        d.dropout_p = dropout;
        AttentionProblem problem = problem_of(d);
        problem.score_mod = [](double score, int, int h, int, int k) { return score + (h + k) * std::sin(score); };
        problem.mask_mod = [](int, int h, int q, int k) { return (h + q + k) % 5 != 0; };
        std::mt19937 random(3);
        const std::vector<double> d_output = normal_tensor(VKATTN_TYPE_F32, {1, 2, 3, 3}, random).values();
        const AttentionGradients gradients = reference_gradients(problem, d_output);
        check_differences(problem, &AttentionProblem::query, gradients.query, d_output);
        check_differences(problem, &AttentionProblem::key, gradients.key, d_output);
        check_differences(problem, &AttentionProblem::value, gradients.value, d_output);
        check_differences(problem, &AttentionProblem::attn_mask, gradients.attn_mask, d_output);
        check_differences(problem, &AttentionProblem::sinks, gradients.sinks, d_output);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "gradients of dense problems, odd and even") {
    for (const auto &[q_len, kv_len, head_dim, v_head_dim] :
         {std::array{1, 1, 8, 8}, std::array{1, 130, 8, 24}, std::array{40, 16, 40, 40}, std::array{65, 129, 64, 64},
          std::array{33, 70, 128, 128}, std::array{17, 35, 192, 128}, std::array{5, 9, 576, 512},
          std::array{64, 64, 1, 3}}) {
        AttentionDraw d = dense(static_cast<std::uint64_t>(q_len), static_cast<std::uint64_t>(kv_len),
                                static_cast<std::uint64_t>(head_dim), static_cast<std::uint64_t>(v_head_dim));
        d.batch = 2;
        d.kv_heads = 2;
        d.group = 3;
        for (const bool causal : {false, true})
            for (const bool computes_output : {false, true}) {
                d.causal = d.bottom_right = causal;
                INFO(text(d), ", output computed: ", computes_output);
                CHECK(try_backward(problem_of(d), {.computes_output = computes_output}) == "");
            }
    }
}

TEST_CASE_FIXTURE(DeviceTest, "gradients of every type") {
    for (const vkattn_type type : {VKATTN_TYPE_F16, VKATTN_TYPE_BF16}) {
        AttentionDraw d = dense(37, 75, 64, 64);
        d.group = 2;
        d.causal = true;
        d.query = d.key = d.value = type;
        INFO(text(d));
        CHECK(try_backward(problem_of(d), {.gradients = type, .d_output = type, .output = type}) == "");
        CHECK(try_backward(problem_of(d), {.computes_output = true, .gradients = type, .has_gaps = false}) == "");
    }
}

TEST_CASE_FIXTURE(DeviceTest, "gradients of masks, in pairs") {
    const std::vector<std::function<void(AttentionDraw &)>> masks = {
        [](AttentionDraw &d) { d.causal = true; },
        [](AttentionDraw &d) { d.causal = d.bottom_right = true; },
        [](AttentionDraw &d) { d.window = true, d.window_left = 9, d.window_right = 4; },
        [](AttentionDraw &d) { d.key_lengths = true; },
        [](AttentionDraw &d) { d.key_padding = true; },
        [](AttentionDraw &d) { d.alibi = true; },
        [](AttentionDraw &d) { d.sinks = true; },
        [](AttentionDraw &d) { d.softcap = 2.0f; },
        [](AttentionDraw &d) { d.dropout_p = 0.4f; },
        [](AttentionDraw &d) { d.mask = DrawnMask::kBool; },
        [](AttentionDraw &d) { d.mask = DrawnMask::kF32; },
        [](AttentionDraw &d) { d.mask = DrawnMask::kF32, d.mask_broadcast = 7; },
        [](AttentionDraw &d) { d.mask = DrawnMask::kF16, d.mask_broadcast = 2, d.mask_short = 5; },
        [](AttentionDraw &d) { d.block_q_len = 7, d.block_kv_len = 16; },
        [](AttentionDraw &d) { d.list_len = 30, d.key_block_len = 3; },
        [](AttentionDraw &d) { d.trees = true; },
        [](AttentionDraw &d) { d.past_len = 11; },
    };
    // A part of them, which drivers compile in a minute; all in long tests.
    const std::size_t step = std::getenv("VKATTN_SWEEP_PROBLEMS") != nullptr ? 1 : 5;
    for (std::size_t first = 0; first < masks.size(); ++first)
        for (std::size_t second = first; second < masks.size(); ++second) {
            if ((first + 3 * second) % step != 0) continue;
            AttentionDraw d = dense(23, 71, 24, 40);
            d.batch = 2;
            d.group = 2;
            masks[first](d);
            masks[second](d);
            INFO(text(d));
            CHECK(try_backward(problem_of(d), {.computes_output = second % 2 == 0}) == "");
        }
}

TEST_CASE_FIXTURE(DeviceTest, "gradients of problems drawn at random") {
    sweep([](unsigned seed) {
        const AttentionDraw d = draw_backward(seed);
        const std::string complaints = try_backward(problem_with_functions(d), options_of(seed));
        return complaints.empty() ? complaints : text(d) + ": " + complaints;
    });
}

TEST_CASE_FIXTURE(DeviceTest, "hidden keys and queries that are no numbers have gradient 0") {
    AttentionDraw d = dense(20, 70, 40, 24);
    d.batch = 2;
    d.group = 2;
    d.causal = true;
    AttentionProblem problem = problem_of(d);
    problem.key_lengths = HostTensor(VKATTN_TYPE_I32, {2});
    problem.key_lengths.set(0, 15.0f);
    problem.key_lengths.set(1, 0.0f);
    BackwardCall call(problem, {});
    const AttentionGradients expected = reference_gradients(problem, call.d_output.values());
    for (std::uint64_t key = 0; key < 140; ++key) {
        if (key < 15) continue;
        for (std::uint64_t c = 0; c < 40; ++c) call.problem.key.set(key * 40 + c, NAN);
        for (std::uint64_t c = 0; c < 24; ++c) call.problem.value.set(key * 24 + c, NAN);
    }
    for (std::uint64_t row = 40; row < 80; ++row)
        for (std::uint64_t c = 0; c < 24; ++c) call.d_output.set(row * 24 + c, NAN);
    const vkattn::Plan plan = test_device().context().attention_backward_plan(call.describe());
    test_device().run(plan, call.regions());
    CHECK(compare_gradient("d_query", call, call.made.query, expected.query) == "");
    CHECK(compare_gradient("d_key", call, call.made.key, expected.key) == "");
    CHECK(compare_gradient("d_value", call, call.made.value, expected.value) == "");
}

TEST_CASE_FIXTURE(DeviceTest, "a sequence's gradients do not depend on its neighbours") {
    AttentionDraw d = dense(45, 61, 40, 64);
    d.batch = 3;
    d.group = 2;
    d.causal = true;
    const AttentionProblem whole = problem_of(d);
    BackwardCall all(whole, {.has_gaps = false});
    REQUIRE(try_backward(all) == "");
    d.batch = 1;
    AttentionProblem first = problem_of(d);
    const auto take = [](const HostTensor &from, HostTensor &to) {
        for (std::uint64_t i = 0; i < to.elements(); ++i) to.set(i, from.get(i));
    };
    take(whole.query, first.query);
    take(whole.key, first.key);
    take(whole.value, first.value);
    BackwardCall one(first, {.has_gaps = false});
    take(all.d_output, one.d_output);
    take(all.forward.output, one.forward.output);
    take(all.forward.log_sum_exp, one.forward.log_sum_exp);
    REQUIRE(try_backward(one) == "");
    for (std::uint64_t i = 0; i < one.made.query.elements(); ++i)
        REQUIRE(one.made.query.get(i) == all.made.query.get(i));
    for (std::uint64_t i = 0; i < one.made.key.elements(); ++i) REQUIRE(one.made.key.get(i) == all.made.key.get(i));
    for (std::uint64_t i = 0; i < one.made.value.elements(); ++i)
        REQUIRE(one.made.value.get(i) == all.made.value.get(i));
}

TEST_CASE_FIXTURE(DeviceTest, "gradients of packed sequences") {
    for (const Keys keys : {Keys::kPacked, Keys::kDense})
        for (const vkattn_causal_alignment alignment : {VKATTN_CAUSAL_TOP_LEFT, VKATTN_CAUSAL_BOTTOM_RIGHT})
            for (const bool more : {false, true}) {
                SequencesCase c;
                c.lengths = {{37, 45}, {1, 90}, {0, 5}, {64, 64}, {7, 0}, {20, 3}};
                c.keys = keys;
                c.mask_flags = VKATTN_MASK_CAUSAL;
                if (more) c.mask_flags |= VKATTN_MASK_WINDOW;
                c.window_left = 20;
                c.window_right = 5;
                c.alignment = alignment;
                c.alibi = c.trees = c.blocks = more;
                c.head_dim = 40;
                c.v_head_dim = 24;
                INFO(static_cast<int>(keys), " ", static_cast<int>(alignment), " ", more);
                CHECK(try_packed(c) == "");
            }
}

TEST_CASE_FIXTURE(DeviceTest, "gradients without queries or without keys are 0") {
    for (const auto &[q_len, kv_len] : {std::array<std::uint64_t, 2>{0, 7}, std::array<std::uint64_t, 2>{5, 0}}) {
        std::mt19937 random(5);
        AttentionProblem problem;
        problem.query = normal_tensor(VKATTN_TYPE_F32, {2, 4, q_len, 32}, random);
        problem.key = normal_tensor(VKATTN_TYPE_F32, {2, 2, kv_len, 32}, random);
        problem.value = normal_tensor(VKATTN_TYPE_F32, {2, 2, kv_len, 48}, random);
        problem.attn_mask = normal_tensor(VKATTN_TYPE_F32, {1, 1, 1, kv_len}, random);
        problem.sinks = normal_tensor(VKATTN_TYPE_F32, {4}, random);
        BackwardCall call(problem, {.has_gaps = false});
        test_device().run(test_device().context().attention_backward_plan(call.describe()), call.regions());
        for (const auto &[role, tensor] : call.made.all())
            for (const float value : tensor->floats()) CHECK(value == 0.0f);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "gradients on matrix units") {
    if (!has_matrix_kernels()) return;
    LimitedDevice device("matrix_units=1,fewest_matrix_rows=1,max_loop_iterations=0,scalar_address_loads=0");
    for (unsigned seed = 1; seed <= 12; ++seed) {
        AttentionDraw d = draw_backward(seed);
        d.query = d.key = d.value = VKATTN_TYPE_F16;
        // Of every fourth one larger heads, own rows in registers, then in shared memory: where there is as much of it, and time.
        const bool is_cpu = test_device().facts().device_type == VK_PHYSICAL_DEVICE_TYPE_CPU;
        const std::uint64_t most = is_cpu ? 64 : seed % 8 == 0 ? 192 : seed % 4 == 0 ? 128 : 64;
        const auto dims = [&](std::uint64_t drawn) { return most - (std::min<std::uint64_t>(drawn, 64) - 1) / 8 * 8; };
        d.head_dim = dims(d.head_dim);
        d.v_head_dim = dims(d.v_head_dim);
        d.positions_first = false;
        d.kv_len = std::min<std::uint64_t>(d.kv_len, 300);
        d.mask_short = std::min(d.mask_short, d.kv_len - 1);
        const float scales[] = {1.0f, 1e-4f, 30.0f};
        BackwardCall call(problem_with_functions(d, device.context()), {.computes_output = seed % 2 == 0,
                                                                        .d_output = VKATTN_TYPE_F16,
                                                                        .output = VKATTN_TYPE_F16,
                                                                        .has_gaps = seed % 3 == 0,
                                                                        .d_output_scale = scales[seed % 3]});
        INFO("seed ", seed, ": ", text(d));
        const std::string reason = device.context().attention_backward_plan(call.describe()).report().reason;
        CHECK_MESSAGE(reason.find("backward_queries_coopmat") != std::string::npos, reason);
        CHECK_MESSAGE(reason.find("backward_keys_coopmat") != std::string::npos, reason);
        CHECK(try_backward(call, device.device()) == "");
    }
}

TEST_CASE_FIXTURE(DeviceTest, "sums of gradients wait between dispatches where drivers end long loops") {
    LimitedDevice device("max_loop_iterations=4096,scalar_address_loads=0");
    AttentionDraw d = dense(300, 600, 40, 24);
    d.batch = 2;
    d.group = 2;
    d.causal = d.bottom_right = d.sinks = true;
    for (const unsigned broadcast : {0u, 7u}) {
        d.mask = DrawnMask::kF32;
        d.mask_broadcast = broadcast;
        BackwardCall call(problem_of(d), {.computes_output = true});
        INFO(text(d));
        CHECK(device.context().attention_backward_plan(call.describe()).report().dispatches > 8);
        CHECK(try_backward(call, device.device()) == "");
    }
}

TEST_CASE_FIXTURE(DeviceTest, "what has no gradients is refused by name") {
    const vkattn::Context &context = test_device().context();
    BackwardCall call(problem_of(dense(3, 5, 32, 32)), {});
    const auto refused =
        [&](const char *expected,
            const std::function<void(vkattn_attention_desc &, vkattn_attention_backward_desc &)> &change) {
            vkattn_attention_backward_desc desc = call.describe();
            vkattn_attention_desc attention = *desc.attention;
            desc.attention = &attention;
            change(attention, desc);
            check_refused([&] { (void)context.attention_backward_plan(desc); }, expected);
        };
    refused("attention: NULL", [](auto &, auto &desc) { desc.attention = nullptr; });
    refused("value: absent", [](auto &attention, auto &) { attention.value = {}; });
    refused("key_rotation: given", [](auto &attention, auto &) { attention.key_rotation = VKATTN_ROTATION_HADAMARD; });
    refused("key: type Q8_0, expected F32, F16 or BF16",
            [](auto &attention, auto &) { attention.key.type = VKATTN_TYPE_Q8_0; });
    refused("output, log_sum_exp: one of them absent", [](auto &attention, auto &) { attention.log_sum_exp = {}; });
    refused("d_output: absent", [](auto &, auto &desc) { desc.d_output = {}; });
    refused("d_output: shape", [](auto &, auto &desc) { desc.d_output.shape[3] = 31; });
    refused("d_sinks: given", [](auto &, auto &desc) { desc.d_sinks = vkattn::tensor(VKATTN_TYPE_F32, {1}); });
    refused("d_attn_mask: given", [](auto &, auto &desc) {
        desc.d_attn_mask = vkattn::tensor(VKATTN_TYPE_F32, {3, 5});
    });
    refused("expected one gradient at least",
            [](auto &, auto &desc) { desc.d_query = desc.d_key = desc.d_value = {}; });
    vkattn_measure measure{};
    const vkattn_attention_backward_desc desc = call.describe();
    CHECK(vkattn_attention_backward_measure(context.get(), &desc, &measure) == VKATTN_SUCCESS);
    CHECK(measure.workspace_bytes == context.attention_backward_plan(desc).requirements().workspace_bytes);
}

TEST_SUITE_END();
