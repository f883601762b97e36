// Gradients of attention with functions of the user's own, and of what these capture.
#include "backward_calls.hpp"
#include "compare.hpp"
#include "limited_device.hpp"
#include "messages.hpp"
#include "variant_gallery.hpp"

#include <vkattn/jit.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace vkattn_test;

TEST_SUITE_BEGIN("variants");

TEST_CASE_FIXTURE(DeviceTest, "gradients of the gallery's variants" * doctest::test_suite("gradients")) {
    int tried = 0;
    for (const Entry &entry : gallery()) {
        INFO(std::string(entry.name));
        std::mt19937 random(7);
        AttentionProblem problem = plain_problem(random);
        add_entry(problem, entry, random);
        if (entry.lse || entry.output) continue;
        CHECK(try_backward(problem, {.computes_output = ++tried % 2 == 0}) == "");
    }
    CHECK(tried == 12);
}

namespace {

void read_captured(AttentionProblem &problem, const Entry &entry) {
    problem.score_mod = [&entry, captured = problem.captured[0]](double s, int b, int h, int q, int k) {
        return entry.score(captured, s, b, h, q, k);
    };
}

// The gradient of an entry's captured tensor, by differences of the float64 reference.
std::vector<double> captured_differences(AttentionProblem problem, const Entry &entry,
                                         const std::vector<double> &d_output) {
    constexpr float kStep = 0x1p-9f;
    const auto weighted_output = [&] {
        read_captured(problem, entry);
        const std::vector<double> output = reference_attention(problem).output;
        return std::inner_product(output.begin(), output.end(), d_output.begin(), 0.0);
    };
    HostTensor &captured = problem.captured[0];
    captured = tensor_of(VKATTN_TYPE_F32, captured.shape(), captured.floats());
    std::vector<double> gradient;
    for (std::uint64_t i = 0; i < captured.elements(); ++i) {
        const float at = captured.get(i), up = at + kStep, down = at - kStep;
        captured.set(i, up);
        const double above = weighted_output();
        captured.set(i, down);
        gradient.push_back((above - weighted_output()) / static_cast<double>(up - down));
        captured.set(i, at);
    }
    return gradient;
}

// Runs a call for the gradient of captured_0 beside its others, if it has any.
std::string try_captured(BackwardCall &call, HostTensor &made, TestDevice &device) {
    vkattn_attention_backward_desc desc = call.describe();
    desc.d_captured_0 = made.view();
    std::vector<Region> regions = call.regions();
    regions.push_back({VKATTN_ROLE_D_CAPTURED_0, &made, Access::kWrite});
    return device.try_run(device.context().attention_backward_plan(desc), regions);
}

} // namespace

TEST_CASE_FIXTURE(DeviceTest, "gradients of what variants capture" * doctest::test_suite("gradients")) {
    LimitedDevice limited("max_loop_iterations=4096,scalar_address_loads=0");
    for (const auto &each :
         {std::pair(std::string("alibi"), VKATTN_TYPE_F32), std::pair(std::string("relative_bias"), VKATTN_TYPE_F16),
          std::pair(std::string("t5_buckets"), VKATTN_TYPE_BF16),
          std::pair(std::string("causal_alibi"), VKATTN_TYPE_F32)}) {
        const std::string &name = each.first;
        const vkattn_type type = each.second;
        INFO(name);
        const Entry &entry = entry_of(name);
        std::mt19937 random(7);
        AttentionProblem problem = plain_problem(random);
        add_entry(problem, entry, random);
        problem.captured[0] = tensor_of(type, problem.captured[0].shape(), problem.captured[0].floats());
        read_captured(problem, entry);
        BackwardCall call(problem, {.computes_output = type == VKATTN_TYPE_F32});
        const std::vector<double> expected = captured_differences(problem, entry, call.d_output.values());
        const Shape &shape = problem.captured[0].shape();
        HostTensor made(VKATTN_TYPE_F32, shape), again(VKATTN_TYPE_F32, shape), in_turn(VKATTN_TYPE_F32, shape);
        CHECK(try_captured(call, made, test_device()) == "");
        CHECK_MESSAGE(compare("d_captured_0", shape, expected, made.floats(), 1e-7, 1e-3).passed,
                      compare("d_captured_0", shape, expected, made.floats(), 1e-7, 1e-3).report);
        call.made = {}; // alone
        CHECK(try_captured(call, again, test_device()) == "");
        CHECK(std::ranges::equal(made.bytes(), again.bytes()));
        if (name != "relative_bias") continue; // pipelines of another device take CPU drivers long to compile
        set_variant(call.problem, gallery_text(name), limited.context());
        CHECK(try_captured(call, in_turn, limited.device()) == "");
        CHECK(compare("d_captured_0", shape, made.values(), in_turn.floats(), 1e-12, 1e-3).passed);
    }
}

TEST_CASE_FIXTURE(DeviceTest,
                  "sums of captured gradients are exact, whatever their terms" * doctest::test_suite("gradients")) {
    // of heads of one query and one key, whose output and log-sum-exp are said to be 0: the score's gradient is the term
    const std::vector<std::pair<std::vector<float>, float>> sums = {
        {{1.0f, 2.0f}, 3.0f},
        {{1e30f, 2.0f, -1e30f}, 2.0f},
        {{1e-30f, 1e30f, -1e30f, 1e-30f}, 2e-30f},
        {{0x1p-126f, -0x1p-126f}, 0.0f},
        {{-1.0f, 0x1p-120f}, -1.0f},
        {{-0x1p24f, -1.0f, -1.0f}, -0x1.000002p24f},
        {{0x1p24f, 1.0f}, 0x1p24f}, // halfway between two floats: the even one
        {{0x1p24f, 3.0f}, 0x1.000004p24f},
        {{0x1p24f, 1.0f, 0x1p-90f}, 0x1.000002p24f}, // and a little more
        {{0x1p126f, 0x1p126f, 0x1p126f, 0x1p126f, 0x1p126f}, INFINITY},
        {{1.0f, INFINITY}, NAN},
    };
    for (const auto &[terms, sum] : sums) {
        const float expected = sum;
        AttentionProblem problem;
        problem.query = tensor_of(VKATTN_TYPE_F32, {1, terms.size(), 1, 8}, std::vector<float>(8 * terms.size()));
        problem.key = tensor_of(VKATTN_TYPE_F32, {1, 1, 1, 8}, std::vector<float>(8));
        problem.value = tensor_of(VKATTN_TYPE_F32, {1, 1, 1, 8}, std::vector<float>{1, 0, 0, 0, 0, 0, 0, 0});
        problem.captured[0] = tensor_of(VKATTN_TYPE_F32, {2}, std::vector<float>(2));
        const std::string parameters = "(float score, uint batch, uint head, uint query, uint key) ";
        set_variant(problem, "float score_mod" + parameters + "{ return score + captured_f32(0, 1); }\n" +
                                 "float score_mod_grad" + parameters + "{ return 1.0; }\n" +
                                 "void score_mod_grad_captured" + parameters +
                                 "{ add_captured_grad(0, 1, 1.0); add_captured_grad(0, 2, 1.0); }\n");
        problem.score_mod = [](double score, int, int, int, int) { return score; };
        BackwardCall call(problem, {.has_gaps = false});
        for (std::uint64_t i = 0; i < terms.size(); ++i)
            for (std::uint64_t c = 0; c < 8; ++c) {
                call.d_output.set(i * 8 + c, c == 0 ? terms[i] : 0.0f);
                call.forward.output.set(i * 8 + c, 0.0f);
                call.forward.log_sum_exp.set(i, 0.0f);
            }
        call.made = {};
        HostTensor made(VKATTN_TYPE_F32, {2});
        CHECK(try_captured(call, made, test_device()) == "");
        CAPTURE(expected);
        CAPTURE(made.get(1));
        CHECK(made.get(0) == 0.0f);
        CHECK((made.get(1) == expected || (std::isnan(made.get(1)) && std::isnan(expected))));
    }
}

TEST_CASE_FIXTURE(DeviceTest,
                  "gradients of what is captured are zeros without queries or keys, and refused where they cannot be" *
                      doctest::test_suite("gradients")) {
    std::mt19937 random(7);
    AttentionProblem problem = plain_problem(random);
    add_entry(problem, entry_of("alibi"), random);
    BackwardCall call(problem, {});
    call.made = {};
    for (const std::size_t missing : {0, 1}) {
        vkattn_attention_backward_desc desc = call.describe();
        vkattn_attention_desc attention = *desc.attention;
        desc.attention = &attention;
        HostTensor made = normal_tensor(VKATTN_TYPE_F32, {kHeads}, random);
        desc.d_captured_0 = made.view();
        for (vkattn_tensor *tensor : missing == 0 ? std::vector{&attention.query, &attention.output, &desc.d_output}
                                                  : std::vector{&attention.key, &attention.value})
            tensor->shape[2] = 0, std::fill_n(tensor->strides, 4, 0u);
        if (missing == 0) attention.log_sum_exp.shape[2] = 0, std::fill_n(attention.log_sum_exp.strides, 4, 0u);
        std::vector<Region> regions = call.regions();
        regions.push_back({VKATTN_ROLE_D_CAPTURED_0, &made, Access::kWrite});
        test_device().run(test_device().context().attention_backward_plan(desc), regions);
        CHECK(made.values() == std::vector<double>(kHeads, 0.0));
    }
    const auto refused = [&](const char *expected,
                             const std::function<void(vkattn_attention_backward_desc &)> &change) {
        vkattn_attention_backward_desc desc = call.describe();
        change(desc);
        check_refused([&] { (void)test_device().context().attention_backward_plan(desc); }, expected);
    };
    refused("d_captured_1: given, expected only beside captured_1 of type F32, F16 or BF16",
            [](auto &desc) { desc.d_captured_1 = vkattn::tensor(VKATTN_TYPE_F32, {kHeads}); });
    refused("d_captured_0: shape", [](auto &desc) { desc.d_captured_0 = vkattn::tensor(VKATTN_TYPE_F32, {3}); });
    refused("d_captured_0: type F16",
            [](auto &desc) { desc.d_captured_0 = vkattn::tensor(VKATTN_TYPE_F16, {kHeads}); });
    const std::string parameters = "(float s, uint b, uint h, uint q, uint k) { return ";
    set_variant(call.problem, "float score_mod" + parameters + "s; }\nfloat score_mod_grad" + parameters + "1.0; }\n");
    refused("d_captured_0: given without score_mod_grad_captured",
            [](auto &desc) { desc.d_captured_0 = vkattn::tensor(VKATTN_TYPE_F32, {kHeads}); });
    check_refused(
        [&] {
            (void)vkattn::jit_variant(test_device().context(),
                                      "float score_mod" + parameters +
                                          "s; }\nvoid score_mod_grad_captured(float s, uint b, "
                                          "uint h, uint q, uint k) {}\n",
                                      "test.glsl");
        },
        "score_mod_grad_captured without score_mod_grad");
}

TEST_CASE_FIXTURE(DeviceTest,
                  "gradients of functions beside what else changes a score" * doctest::test_suite("gradients")) {
    for (const vkattn_type type : {VKATTN_TYPE_F32, VKATTN_TYPE_F16}) {
        std::mt19937 random(43);
        AttentionProblem problem = plain_problem(random, type);
        problem.softcap = 3.0f;
        problem.mask_flags = VKATTN_MASK_CAUSAL;
        problem.attn_mask = normal_tensor(VKATTN_TYPE_F32, {1, kHeads, 1, kKeys}, random);
        problem.alibi_slopes = normal_tensor(VKATTN_TYPE_F32, {kHeads}, random);
        problem.sinks = normal_tensor(VKATTN_TYPE_F32, {kHeads}, random);
        problem.dropout_p = 0.2f;
        problem.block_mask =
            tensor_of(VKATTN_TYPE_I32, {1, kHeads, 2, 3}, std::vector<float>{1, 2, 0, 1, 1, 1, 2, 2, 2, 0, 1, 2, //
                                                                             1, 0, 1, 2, 1, 1, 0, 0, 1, 2, 1, 2});
        problem.block_q_len = 20, problem.block_kv_len = 40;
        set_score_functions(problem, random);
        CHECK(try_backward(problem, {.gradients = type, .d_output = type, .output = type}) == "");
    }
}

TEST_CASE_FIXTURE(DeviceTest, "keys that mask_mod hides from every query may be no numbers, and have gradient 0" *
                                  doctest::test_suite("gradients")) {
    std::mt19937 random(47);
    AttentionProblem problem = plain_problem(random);
    problem.mask_mod = [](int, int, int, int k) { return k % 3 != 1; };
    set_variant(problem, "bool mask_mod(uint batch, uint head, uint query, uint key) { return key % 3u != 1u; }");
    BackwardCall call(problem, {});
    const AttentionGradients expected = reference_gradients(problem, call.d_output.values());
    for (HostTensor *tensor : {&call.problem.key, &call.problem.value})
        for (std::uint64_t i = 0; i < tensor->elements(); ++i)
            if (i / 24 % kKeys % 3 == 1) tensor->set(i, NAN);
    test_device().run(test_device().context().attention_backward_plan(call.describe()), call.regions());
    CHECK(compare_gradient("d_query", call, call.made.query, expected.query) == "");
    CHECK(compare_gradient("d_key", call, call.made.key, expected.key) == "");
    CHECK(compare_gradient("d_value", call, call.made.value, expected.value) == "");
}

TEST_CASE_FIXTURE(DeviceTest, "functions without gradients are refused by name" * doctest::test_suite("gradients")) {
    const std::string parameters = "(float x, uint b, uint h, uint q, uint k) { return x; }\n";
    const auto refused = [&](const std::string &text, const char *expected, const vkattn::Context &context) {
        std::mt19937 random(53);
        AttentionProblem problem = plain_problem(random);
        set_variant(problem, text, context);
        BackwardCall call(problem, {});
        check_refused([&] { (void)test_device().context().attention_backward_plan(call.describe()); }, expected);
    };
    const vkattn::Context &context = test_device().context();
    refused("float score_mod" + parameters, "score_mod without score_mod_grad, expected both", context);
    refused("float lse_mod(float lse, uint b, uint h, uint q) { return lse; }\n", "lse_mod: given, expected none",
            context);
    refused("float output_mod" + parameters, "output_mod: given, expected none", context);
    const vkattn::Context other(ContextRequest().info);
    refused("bool mask_mod(uint b, uint h, uint q, uint k) { return true; }\n", "variant: of another context", other);
    for (const char *text : {"float score_mod_grad", "bool mask_mod(uint b, uint h, uint q, uint k) { return true; }\n"
                                                     "float score_mod_grad"})
        check_refused([&] { (void)vkattn::jit_variant(context, text + parameters, "test.glsl"); }, "score_mod");
}

TEST_SUITE_END();
