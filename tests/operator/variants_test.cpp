// Variants of attention: functions of the user's own, compiled by vkattn_jit. The gallery of docs/variants.md.
#include "attention_draws.hpp"
#include "compare.hpp"
#include "limited_device.hpp"
#include "messages.hpp"
#include "variant_gallery.hpp"

#include <vkattn/jit.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>

using namespace vkattn_test;

namespace {

std::string error_of_plan(const std::string &text) {
    std::mt19937 random(5);
    AttentionProblem problem = plain_problem(random);
    set_variant(problem, text);
    AttentionResults results = all_results(problem, VKATTN_KERNEL_FLASH, VKATTN_TYPE_F32);
    try {
        test_device().context().attention_plan(describe(problem, results, VKATTN_KERNEL_FLASH));
    } catch (const vkattn::Error &error) {
        return error.what();
    }
    return "";
}

} // namespace

TEST_SUITE_BEGIN("variants");

TEST_CASE_FIXTURE(DeviceTest, "every entry of the gallery gives what its functions say") {
    for (const Entry &entry : gallery()) {
        INFO(std::string(entry.name));
        std::mt19937 random(7);
        AttentionProblem problem = plain_problem(random);
        add_entry(problem, entry, random);
        check_every_kernel(problem);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "every kernel calls all functions, in f16 and beside other masks") {
    std::mt19937 random(11);
    for (const bool masked : {false, true}) {
        AttentionProblem problem = plain_problem(random, VKATTN_TYPE_F16);
        problem.query = normal_tensor(VKATTN_TYPE_F16, {kBatch, kHeads, masked ? 1u : kQueries, 24}, random);
        if (masked) {
            problem.softcap = 3.0f;
            problem.key_lengths = integers({kBatch}, random, kKeys);
            problem.sinks = normal_tensor(VKATTN_TYPE_F32, {kHeads}, random);
        }
        set_every_function(problem, random);
        const AttentionReference reference = reference_attention(problem);
        for (const vkattn_kernel kernel : {VKATTN_KERNEL_UNFUSED, VKATTN_KERNEL_FLASH, VKATTN_KERNEL_DECODE,
                                           VKATTN_KERNEL_COOPMAT, VKATTN_KERNEL_ADDRESSES}) {
            if (!can_run(test_device().facts(), kernel)) continue;
            AttentionResults results = all_results(problem, kernel, VKATTN_TYPE_F16);
            check_attention(problem, reference, results, kernel);
        }
    }
}

TEST_CASE_FIXTURE(DeviceTest,
                  "functions of a row are called once, wherever its keys and its batch entry are attended") {
    std::mt19937 random(29);
    AttentionProblem plain;
    plain.query = normal_tensor(VKATTN_TYPE_F32, {3, 4, 3, 32}, random);
    plain.key = normal_tensor(VKATTN_TYPE_F32, {3, 2, 300, 32}, random);
    plain.value = normal_tensor(VKATTN_TYPE_F32, {3, 2, 300, 28}, random);
    plain.past_lengths = tensor_of(VKATTN_TYPE_I32, {3}, std::vector<float>{200, 7, 90});
    plain.sinks = normal_tensor(VKATTN_TYPE_F32, {4}, random);
    // in parts; in stretches, which a block mask makes short; in parts of the batch
    for (const char *traits : {"", "max_loop_iterations=100", "max_storage_buffer_range=90000,self_test=0"}) {
        INFO(std::string(traits));
        const LimitedDevice limited(traits);
        AttentionProblem problem = plain; // it goes with its variant, before the context
        if (std::string(traits).starts_with("max_loop")) {
            problem.block_mask = tensor_of(VKATTN_TYPE_I32, {1, 1, 1, 3}, std::vector<float>{1, 2, 1});
            problem.block_q_len = 3, problem.block_kv_len = 100;
        }
        set_every_function(problem, random, limited.context());
        const AttentionReference reference = reference_attention(problem);
        for (const vkattn_kernel kernel : kernels_for(plain)) {
            INFO(kernel_text(kernel));
            AttentionResults results = all_results(problem, kernel, VKATTN_TYPE_F32);
            const vkattn::Plan plan = limited.context().attention_plan(describe(problem, results, kernel));
            limited.device().run(plan, regions_of(problem, results));
            const Comparison output = compare("output", results.output.shape(), reference.output,
                                              results.output.floats(), nmse_bound({VKATTN_TYPE_F32}));
            CHECK_MESSAGE(output.passed, output.report);
            const Comparison sums = compare("log_sum_exp", results.log_sum_exp.shape(), reference.log_sum_exp,
                                            results.log_sum_exp.floats(), nmse_bound({VKATTN_TYPE_F32}));
            CHECK_MESSAGE(sums.passed, sums.report);
        }
    }
}

TEST_CASE_FIXTURE(DeviceTest, "functions are given the numbers of keys that lists name") {
    std::mt19937 random(31);
    AttentionProblem problem = plain_problem(random);
    problem.key_block_len = 3;
    problem.key_indices = random_key_lists({kBatch, 2, kQueries, 17}, kKeys / 3, random);
    set_every_function(problem, random);
    check_every_kernel(problem);
}

TEST_CASE_FIXTURE(DeviceTest,
                  "what a mask_mod hides may hold anything, and an element outside a captured tensor is 0") {
    std::mt19937 random(13);
    AttentionProblem problem = plain_problem(random);
    for (int i = 0; i < 24; ++i)
        problem.value.set(static_cast<std::uint64_t>(i), std::numeric_limits<float>::quiet_NaN());
    problem.captured[1] = normal_tensor(VKATTN_TYPE_F32, {2, 3}, random);
    set_variant(problem,
                "float score_mod(float score, uint batch, uint head, uint query, uint key) {\n"
                "    return score + captured_f32(1, 6u + key) + captured_f32(1, 0xffffffffu) + captured_f32(3, 0);\n"
                "}\n"
                "bool mask_mod(uint batch, uint head, uint query, uint key) { return key > 0u; }\n");
    problem.score_mod = [](double score, int, int, int, int) { return score; };
    problem.mask_mod = [](int, int, int, int key) { return key > 0; };
    check_every_kernel(problem);
}

// Named by functions of the text.
constexpr const char *kNamed = R"(
float slope(uint head) { return captured_f32(0, head); }
float bias(uint head, uint key) { return captured_f32(1, head * 96u + key); }
float gate(uint batch) { return captured_f32(2, batch); }
float strength() { return captured_number(1); }
float score_mod(float score, uint batch, uint head, uint query, uint key) {
    float other = captured_f32(head % 3u, 5u) * captured_number(head % 3u + 1u); // of numbers that are no constants
    return score + strength() * slope(head) * bias(head, key) + gate(batch) * float(captured_i32(3, key)) + other;
}
)";

TEST_CASE_FIXTURE(DeviceTest, "captured tensors of 16 bits, which begin anywhere, and captured numbers") {
    std::mt19937 random(17);
    AttentionProblem problem = plain_problem(random);
    const auto within = [&](vkattn_type type, Shape shape, std::uint64_t offset) {
        HostTensor tensor(type, shape, HostTensor::contiguous_strides(shape), offset);
        const HostTensor numbers = normal_tensor(type, shape, random);
        for (std::uint64_t i = 0; i < numbers.elements(); ++i) tensor.set(i, numbers.get(i));
        return tensor;
    };
    problem.captured = {within(VKATTN_TYPE_F16, {kHeads}, 3), within(VKATTN_TYPE_BF16, {kHeads, kKeys}, 1),
                        within(VKATTN_TYPE_F16, {kBatch, 3}, 0), integers({kKeys}, random, 3)};
    problem.captured_numbers = {0.5f, -1.25f, 0.0f, 2.0f};
    set_variant(problem, kNamed);
    problem.score_mod = [c = problem.captured](double s, int b, int h, int, int k) {
        constexpr double kNumbers[] = {-1.25, 0.0, 2.0}; // but the first
        const HostTensor &any = c[static_cast<std::size_t>(h % 3)];
        const double other = any.elements() > 5 ? number(any, 5) * kNumbers[h % 3] : 0.0;
        return s - 1.25 * number(c[0], h) * number(c[1], h * kKeys + k) + number(c[2], b) * number(c[3], k) + other;
    };
    check_every_kernel(problem);
}

TEST_CASE_FIXTURE(DeviceTest, "a text that does not compile is refused with its own line and column") {
    const std::string wrong = "float score_mod(float score, uint batch, uint head, uint query, uint key) {\n"
                              "    return score + nothing;\n}\n";
    CHECK(error_of_plan(wrong).find("undeclared identifier") != std::string::npos);
    const auto is_at = [](const vkattn_failure &failure, std::uint32_t line, std::uint32_t column) {
        return failure.result == VKATTN_ERROR_COMPILE && failure.line == line && failure.column == column;
    };
    CHECK(is_at(*vkattn_last_failure(), 2, 20));
    CHECK_THROWS_AS(vkattn::compile_variant(wrong), vkattn::Error);
    CHECK(is_at(*vkattn_jit_last_failure(), 2, 20));
    CHECK_THROWS_AS(vkattn::compile_variant("\n  shared float counter;" + wrong), vkattn::Error);
    CHECK(is_at(*vkattn_jit_last_failure(), 2, 3));
    CHECK_THROWS_AS(vkattn::compile_variant(wrong, "C:/mods/model.py"), vkattn::Error);
    CHECK(is_at(*vkattn_jit_last_failure(), 2, 20));
    CHECK_THROWS_AS(vkattn::compile_variant("", "a\nname"), vkattn::Error);
    CHECK(vkattn_jit_last_failure()->result == VKATTN_ERROR_INVALID_ARGUMENT);
    CHECK(std::string(vkattn_jit_last_failure()->member) == "name");
    CHECK(error_of_plan("// one\nfloat score_mod(float score, uint batch, uint head, uint query, uint key) {\n"
                        "    return score + nothing;\n}\n")
              .find("test.glsl:3:20: 'nothing' : undeclared identifier") != std::string::npos);
    CHECK(error_of_plan("#line 7 \"mine\"\nbool mask_mod(uint batch, uint head, uint query, uint key) { return key }\n")
              .find("mine:7:") != std::string::npos);
    CHECK(error_of_plan("float score_mod(int wrong) { return 1.0; }\n")
              .find("expected functions with the parameters of") != std::string::npos);
    CHECK_THROWS_WITH_AS(
        vkattn::jit_variant(test_device().context(), "// float score_mod(\nfloat other() { return 1.0; }"),
        doctest::Contains("functions: none of"), vkattn::Error);
}

TEST_CASE_FIXTURE(DeviceTest, "a text that declares resources, shared memory or a barrier is refused with its line") {
    const std::string mask = "bool mask_mod(uint batch, uint head, uint query, uint key)";
    const auto refused = [&](const std::string &text) {
        try {
            (void)vkattn::jit_variant(test_device().context(), text, "test.glsl");
        } catch (const vkattn::Error &error) {
            return std::string(error.what());
        }
        return std::string();
    };
    CHECK(refused("shared float counter[1000000];\n" + mask + "{ counter[key] = 1.0; return key <= query; }")
              .find("test.glsl:1:1: 'shared' : shared memory") != std::string::npos);
    for (const char *set : {"set = 0, binding = 30", "set = 0, binding = 0", "set = 1, binding = 0"})
        CHECK(refused(mask + ";\nlayout(" + set + ") buffer X { uint x[]; };\n" + mask + "{ return x[key] == 0u; }")
                  .find("test.glsl:2:1: 'layout' : a resource") != std::string::npos);
    CHECK(refused(mask + " { barrier(); return true; }").find("'barrier' : a barrier") != std::string::npos);
    CHECK(refused("#include \"variant_functions.glsl\"\n" + mask + " { return true; }")
              .find("test.glsl:1:2: 'include'") != std::string::npos);
}

TEST_CASE_FIXTURE(DeviceTest, "an array that compilers of drivers do not end with is refused before they are asked") {
    std::string text = "const float table[1100] = float[](0.0";
    for (int i = 1; i < 1100; ++i) text += ",0.";
    text +=
        ");\nfloat score_mod(float score, uint batch, uint head, uint query, uint key) { return score + table[key]; }";
    CHECK(error_of_plan(text).find("an array of 4400 bytes in functions, expected at most 4096") != std::string::npos);
}

TEST_CASE_FIXTURE(DeviceTest,
                  "block_mask from a mask_mod says what is hidden, partial and full, and changes no answer") {
    for (const char *name : {"causal", "sliding_window", "documents", "natten_2d"}) {
        INFO(std::string(name));
        std::mt19937 random(17);
        AttentionProblem problem = plain_problem(random);
        add_entry(problem, entry_of(name), random);
        const int q_len = 7, kv_len = 9; // of a block
        problem.block_q_len = q_len, problem.block_kv_len = kv_len;
        problem.block_mask =
            HostTensor(VKATTN_TYPE_I32, {kBatch, 1, (kQueries + q_len - 1) / q_len, (kKeys + kv_len - 1) / kv_len});
        AttentionResults results = all_results(problem, VKATTN_KERNEL_FLASH, VKATTN_TYPE_F32);
        const vkattn_attention_desc desc = describe(problem, results, VKATTN_KERNEL_FLASH);
        const vkattn::Plan plan = test_device().context().block_mask_plan(desc);
        std::vector<Region> regions{{VKATTN_ROLE_BLOCK_MASK, &problem.block_mask, Access::kWrite}};
        if (problem.captured[0].present())
            regions.push_back({VKATTN_ROLE_CAPTURED_0, &problem.captured[0], Access::kRead});
        test_device().run(plan, regions);
        const std::vector<double> states = problem.block_mask.values();
        int wrong = 0;
        for (size_t i = 0; i < states.size(); ++i) {
            const int columns = (kKeys + kv_len - 1) / kv_len, rows = (kQueries + q_len - 1) / q_len,
                      at = static_cast<int>(i);
            const int batch = at / columns / rows, row = at / columns % rows, column = at % columns;
            bool seen = false, hidden = false;
            for (int q = row * q_len; q < std::min((row + 1) * q_len, kQueries); ++q)
                for (int k = column * kv_len; k < std::min((column + 1) * kv_len, kKeys); ++k)
                    (problem.mask_mod(batch, 0, q + kPast, k) ? seen : hidden) = true;
            const int expected = !seen ? VKATTN_BLOCK_HIDDEN : hidden ? VKATTN_BLOCK_PARTIAL : VKATTN_BLOCK_FULL;
            wrong += static_cast<int>(states[i]) != expected;
        }
        CHECK(wrong == 0);
        check_every_kernel(problem);
    }
}

namespace {

// The states that a plan writes into the problem's block_mask.
std::vector<int> block_states(AttentionProblem &problem, vkattn_attention_desc desc, std::vector<Region> regions,
                              const LimitedDevice *device = nullptr) {
    regions.push_back({VKATTN_ROLE_BLOCK_MASK, &problem.block_mask, Access::kWrite});
    TestDevice &runs = device == nullptr ? test_device() : device->device();
    runs.run(runs.context().block_mask_plan(desc), regions);
    const std::vector<double> states = problem.block_mask.values();
    return {states.begin(), states.end()};
}

constexpr int kHidden = VKATTN_BLOCK_HIDDEN, kPartial = VKATTN_BLOCK_PARTIAL, kFull = VKATTN_BLOCK_FULL;

} // namespace

TEST_CASE_FIXTURE(DeviceTest, "a block_mask of all sequences knows the lengths and the positions of each") {
    std::mt19937 random(37);
    AttentionProblem problem = plain_problem(random);
    problem.key_lengths = tensor_of(VKATTN_TYPE_I32, {kBatch}, std::vector<float>{30, 96});
    problem.past_lengths = tensor_of(VKATTN_TYPE_I32, {kBatch}, std::vector<float>{0, 60});
    add_entry(problem, entry_of("causal"), random);
    problem.block_q_len = problem.block_kv_len = 32;
    problem.block_mask = HostTensor(VKATTN_TYPE_I32, {1, 1, 2, 3});
    const AttentionResults results = all_results(problem, VKATTN_KERNEL_FLASH, VKATTN_TYPE_F32);
    const std::vector<int> states = block_states(problem, describe(problem, results, VKATTN_KERNEL_FLASH),
                                                 {{VKATTN_ROLE_KEY_LENGTHS, &problem.key_lengths, Access::kRead},
                                                  {VKATTN_ROLE_PAST_LENGTHS, &problem.past_lengths, Access::kRead}});
    // the first sequence's queries begin at key 0 and have 30 keys, the second one's at key 60 and have 96
    CHECK(states == std::vector<int>{kPartial, kPartial, kPartial, kFull, kFull, kPartial});
    check_every_kernel(problem);

    AttentionProblem packed; // sequences of 64 and 128 rows
    for (HostTensor *tensor : {&packed.query, &packed.key, &packed.value})
        *tensor = normal_tensor(VKATTN_TYPE_F32, {1, 1, 192, 32}, random);
    set_variant(packed, "bool mask_mod(uint batch, uint head, uint query, uint key) { return true; }\n");
    packed.block_q_len = packed.block_kv_len = 64;
    packed.block_mask = HostTensor(VKATTN_TYPE_I32, {1, 1, 2, 2});
    HostTensor bounds = tensor_of(VKATTN_TYPE_I32, {3}, std::vector<float>{0, 64, 192});
    AttentionResults rows = all_results(packed, VKATTN_KERNEL_FLASH, VKATTN_TYPE_F32);
    rows.log_sum_exp = {};
    vkattn_attention_desc desc = describe(packed, rows, VKATTN_KERNEL_FLASH);
    desc.cu_seqlens_q = desc.cu_seqlens_k = bounds.view();
    desc.max_seqlen_q = desc.max_seqlen_k = 128;
    CHECK(block_states(packed, desc,
                       {{VKATTN_ROLE_CU_SEQLENS_Q, &bounds, Access::kRead},
                        {VKATTN_ROLE_CU_SEQLENS_K, &bounds, Access::kRead}}) == std::vector<int>(4, kFull));
}

TEST_CASE_FIXTURE(DeviceTest, "a block of a block_mask may have more pairs than a shader's loops have iterations") {
    std::mt19937 random(41);
    AttentionProblem problem;
    const auto states_of = [&](std::uint64_t q_len, std::uint64_t kv_len, const std::string &seen,
                               const LimitedDevice *device = nullptr) {
        problem.query = normal_tensor(VKATTN_TYPE_F32, {1, 1, q_len, 8}, random);
        for (HostTensor *tensor : {&problem.key, &problem.value})
            *tensor = normal_tensor(VKATTN_TYPE_F32, {1, 1, kv_len, 8}, random);
        set_variant(problem, "bool mask_mod(uint batch, uint head, uint query, uint key) { return " + seen + "; }\n",
                    (device == nullptr ? test_device() : device->device()).context());
        problem.block_q_len = 4096, problem.block_kv_len = 65536; // more than there are
        problem.block_mask = HostTensor(VKATTN_TYPE_I32, {1, 1, 1, 1});
        const AttentionResults results = all_results(problem, VKATTN_KERNEL_FLASH, VKATTN_TYPE_F32);
        return block_states(problem, describe(problem, results, VKATTN_KERNEL_FLASH), {}, device).front();
    };
    CHECK(states_of(4096, 2560, "query < 4000u") == kPartial); // llvmpipe ends a loop after 65535 iterations
    const LimitedDevice limited("max_loop_iterations=40,self_test=0");
    CHECK(states_of(70, 300, "query < 69u", &limited) == kPartial);
    CHECK(states_of(70, 300, "query > 0u", &limited) == kPartial);
    CHECK(states_of(70, 300, "query < 70u", &limited) == kFull);
    CHECK(states_of(70, 300, "query > 70u", &limited) == kHidden);
    CHECK_THROWS_WITH_AS(states_of(3, 5000, "true", &limited), doctest::Contains("blocks of 5000 keys in 1 sequences"),
                         vkattn::Error);
    problem = {}; // it goes with its variant, before the context
}

TEST_SUITE_END();
