// Variants of attention: functions of the user's own, compiled by vkattn_jit. The gallery of docs/variants.md.
#include "attention_draws.hpp"
#include "backward_calls.hpp"
#include "compare.hpp"
#include "counted_vulkan.hpp"
#include "limited_device.hpp"
#include "messages.hpp"
#include "variants.hpp"

#include "runtime/vulkan/variant_file.hpp"

#include <vkattn/jit.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <fstream>
#include <functional>
#include <numeric>
#include <optional>
#include <sstream>

using namespace vkattn_test;

namespace {

constexpr int kPast = 60, kQueries = 33, kKeys = 96, kBatch = 2, kHeads = 4;

// The text of a heading of the gallery.
std::string gallery_text(const std::string &name) {
    std::ifstream page(VKATTN_DOCUMENTATION "/variants.md");
    std::string text, line;
    for (bool inside = false, code = false; std::getline(page, line);) {
        if (line.starts_with("### ")) inside = line == "### " + name;
        if (!inside) continue;
        if (line == "```") code = false;
        if (code) text += line + "\n";
        if (line == "```glsl") code = true;
    }
    return text;
}

AttentionProblem plain_problem(std::mt19937 &random, vkattn_type type = VKATTN_TYPE_F32) {
    AttentionProblem problem;
    problem.query = normal_tensor(type, {kBatch, kHeads, kQueries, 24}, random);
    problem.key = normal_tensor(type, {kBatch, 2, kKeys, 24}, random);
    problem.value = normal_tensor(type, {kBatch, 2, kKeys, 24}, random);
    problem.past_len = kPast;
    problem.score_stage = VKATTN_SCORES_MASKED;
    return problem;
}

HostTensor integers(Shape shape, std::mt19937 &random, int most) {
    std::uniform_int_distribution<int> draw(0, most);
    HostTensor tensor(VKATTN_TYPE_I32, std::move(shape));
    for (std::uint64_t i = 0; i < tensor.elements(); ++i) tensor.set(i, static_cast<float>(draw(random)));
    return tensor;
}

double number(const HostTensor &tensor, int element) { return tensor.values()[static_cast<std::size_t>(element)]; }

// What an entry of the gallery computes.
struct Entry {
    const char *name;
    std::function<HostTensor(std::mt19937 &)> captured{};
    std::function<double(const HostTensor &, double, int, int, int, int)> score{};
    std::function<bool(const HostTensor &, int, int, int, int)> mask{};
    std::function<double(const HostTensor &, double, int, int, int)> lse{};
    std::function<double(const HostTensor &, double, int, int, int, int)> output{};
};

int bucket(int distance) {
    if (distance < 8) return distance;
    return std::min(8 + static_cast<int>(std::log2(distance * 0.125 + 0.0001) * 2.0), 15);
}

HostTensor per_head(std::mt19937 &random) { return normal_tensor(VKATTN_TYPE_F32, {kHeads}, random); }

HostTensor documents(std::mt19937 &) {
    HostTensor tensor(VKATTN_TYPE_I32, {kBatch, kKeys});
    for (int i = 0; i < kBatch * kKeys; ++i) tensor.set(static_cast<std::uint64_t>(i), static_cast<float>(i / 37));
    return tensor;
}

const std::vector<Entry> &gallery() {
    static const std::vector<Entry> entries{
        {"causal", {}, {}, [](auto &, int, int, int q, int k) { return k <= q; }},
        {"sliding_window", {}, {}, [](auto &, int, int, int q, int k) { return k <= q && q - k < 16; }},
        {"prefix_lm",
         [](auto &random) { return integers({kBatch}, random, 90); },
         {},
         [](auto &c, int b, int, int q, int k) { return k <= q || k < number(c, b); }},
        {"documents",
         documents,
         {},
         [](auto &c, int b, int, int q, int k) {
             return k <= q && number(c, b * kKeys + q) == number(c, b * kKeys + k);
         }},
        {"alibi",
         per_head,
         [](auto &c, double s, int, int h, int q, int k) { return s - number(c, h) * std::abs(q - k); },
         {}},
        {"relative_bias",
         [](auto &random) {
             return normal_tensor(VKATTN_TYPE_F32, {kHeads, 17}, random);
         },
         [](auto &c, double s, int, int h, int q, int k) {
             return s + number(c, h * 17 + std::clamp(k - q, -8, 8) + 8);
         },
         {}},
        {"softcap", {}, [](auto &, double s, int, int, int, int) { return 5.0 * std::tanh(s / 5.0); }, {}},
        {"dilated", {}, {}, [](auto &, int, int, int q, int k) { return k <= q && (q - k) % 3 == 0; }},
        {"t5_buckets",
         [](auto &random) {
             return normal_tensor(VKATTN_TYPE_F32, {16, kHeads}, random);
         },
         [](auto &c, double s, int, int h, int q, int k) {
             return s + number(c, bucket(std::max(q - k, 0)) * kHeads + h);
         },
         {}},
        {"tree",
         [](auto &random) {
             return integers({kQueries, 2}, random, 0xffff);
         },
         {},
         [](auto &c, int, int, int q, int k) {
             if (k < kPast) return true;
             const int node = q - kPast, other = k - kPast;
             const int element = node * 2 + other / 32;
             const int bits = element < kQueries * 2 ? static_cast<int>(number(c, element)) : 0;
             return (bits >> (other % 32) & 1) != 0;
         }},
        {"natten_2d",
         {},
         {},
         [](auto &, int, int, int q, int k) {
             return std::abs(q % 12 - k % 12) <= 2 && std::abs(q / 12 - k / 12) <= 2;
         }},
        {"causal_alibi", per_head,
         [](auto &c, double s, int, int h, int q, int k) { return s - number(c, h) * (q - k); },
         [](auto &, int, int, int q, int k) { return k <= q; }},
        {.name = "sink",
         .captured = per_head,
         .lse = [](auto &c, double lse, int, int h, int) { return std::log(std::exp(lse) + std::exp(number(c, h))); }},
        {.name = "sigmoid",
         .score = [](auto &, double s, int, int, int, int) { return -std::log(1.0 + std::exp(-s)); },
         .lse = [](auto &, double, int, int, int) { return 0.0; }},
        {.name = "output_gate",
         .captured =
             [](auto &random) {
                 return normal_tensor(VKATTN_TYPE_F32, {kBatch, kHeads, kKeys, 24}, random);
             },
         .output =
             [](auto &c, double value, int b, int h, int q, int e) {
                 return value / (1.0 + std::exp(-number(c, ((b * kHeads + h) * kKeys + q) * 24 + e)));
             }}};
    return entries;
}

const Entry &entry_of(const std::string &name) {
    return *std::ranges::find_if(gallery(), [&](const Entry &each) { return each.name == name; });
}

void add_entry(AttentionProblem &problem, const Entry &entry, std::mt19937 &random) {
    if (entry.captured) problem.captured[0] = entry.captured(random);
    const HostTensor captured = problem.captured[0];
    if (entry.score)
        problem.score_mod = [=](double s, int b, int h, int q, int k) { return entry.score(captured, s, b, h, q, k); };
    if (entry.mask) problem.mask_mod = [=](int b, int h, int q, int k) { return entry.mask(captured, b, h, q, k); };
    if (entry.lse) problem.lse_mod = [=](double lse, int b, int h, int q) { return entry.lse(captured, lse, b, h, q); };
    if (entry.output)
        problem.output_mod = [=](double v, int b, int h, int q, int e) {
            return entry.output(captured, v, b, h, q, e);
        };
    set_variant(problem, gallery_text(entry.name));
}

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

namespace {

vkattn::Plan plan_of(const vkattn::Context &context, AttentionProblem problem, const vkattn::Variant &variant) {
    AttentionResults results = all_results(problem, VKATTN_KERNEL_FLASH, VKATTN_TYPE_F32);
    vkattn_attention_desc desc = describe(problem, results, VKATTN_KERNEL_FLASH);
    variant.set_in(desc);
    return context.attention_plan(desc);
}

// A variant, a plan of it, and the milliseconds of the processor that making both took.
struct Planned {
    Planned(const vkattn::Context &context, const AttentionProblem &problem,
            const std::function<vkattn::Variant()> &make) {
        const std::clock_t start = std::clock();
        variant = make();
        plan_of(context, problem, variant);
        milliseconds = 1e3 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    }
    vkattn::Variant variant;
    double milliseconds = 0.0;
};

// What a saved state must not need.
void refuse_all(void *, const vkattn_variant_request *request) {
    request->refuse(request->result, "asked of a saved one");
}

} // namespace

TEST_CASE_FIXTURE(DeviceTest, "a text that a context has compiled is kept in its saved state") {
    std::mt19937 random(19);
    const AttentionProblem problem = plain_problem(random);
    const std::string text = gallery_text("softcap"), named = "#line 1 \"test.glsl\"\n" + text + "\n";
    const vkattn::Context first(ContextRequest().info);
    std::optional<Planned> cold;
    cold.emplace(first, problem, [&] { return vkattn::jit_variant(first, text, "test.glsl"); });
    const double cold_ms = cold->milliseconds;
    const std::vector<std::uint8_t> saved = first.save();
    cold.reset();
    const std::string_view words(reinterpret_cast<const char *>(saved.data()), saved.size());
    CHECK(words.find(named) != std::string_view::npos);
    const std::vector<std::uint8_t> without = first.save(); // what nobody has any more is not kept
    CHECK(std::string_view(reinterpret_cast<const char *>(without.data()), without.size()).find(named) ==
          std::string_view::npos);
    ContextRequest request;
    request.info.saved_data = saved.data();
    request.info.saved_bytes = saved.size();
    const vkattn::Context second(request.info);
    const char *const modules[] = {"flash"};
    vkattn_variant_info info{};
    info.functions = named.c_str();
    info.defined = VKATTN_VARIANT_SCORE_MOD | VKATTN_VARIANT_SCORE_MOD_GRAD;
    info.modules = modules;
    info.module_count = 1;
    info.compile = refuse_all;
    info.shader_texts = vkattn::kShaderTexts;
    const Planned warm(second, problem, [&] { return second.variant(info); });
    MESSAGE("a variant's first plan, in time of the processor: ", cold_ms, " ms cold, ", warm.milliseconds,
            " ms from a saved state");
    const std::string other = "// another\n" + named;
    info.functions = other.c_str();
    CHECK_THROWS_WITH_AS(Planned(second, problem, [&] { return second.variant(info); }),
                         doctest::Contains("asked of a saved one"), vkattn::Error);
}

TEST_CASE_FIXTURE(DeviceTest, "a compiler of other shaders is refused, and so are other functions of a known text") {
    const vkattn::Context &context = test_device().context();
    const char *const modules[] = {"flash"};
    vkattn_variant_info info{};
    info.functions = "// of another compiler";
    info.defined = VKATTN_VARIANT_SCORE_MOD;
    info.modules = modules;
    info.module_count = 1;
    info.compile = refuse_all;
    const auto error_of = [&] {
        try {
            (void)context.variant(info);
        } catch (const vkattn::Error &error) {
            return std::string(vkattn_result_name(error.result())) + ", " + error.what();
        }
        return std::string();
    };
    for (const std::uint64_t other : {std::uint64_t{0}, vkattn::kShaderTexts ^ 1}) {
        info.shader_texts = other;
        CHECK(error_of().starts_with(
            "VKATTN_ERROR_UNSUPPORTED, shader_texts: a compiler of the shaders of another version"));
    }
    info.shader_texts = vkattn::kShaderTexts;
    CHECK(error_of().empty());
    const vkattn::Variant kept = context.variant(info);
    info.defined = VKATTN_VARIANT_MASK_MOD;
    CHECK(error_of() ==
          "VKATTN_ERROR_INVALID_ARGUMENT, defined: 2, expected 1, as another variant of the same text has it");
    info.defined = VKATTN_VARIANT_SCORE_MOD;
    CHECK(error_of().empty());
}

namespace {

// The modules of a file, as a compiler that has them already.
struct Compiled {
    std::map<std::string, std::vector<std::uint32_t>> modules;

    vkattn_variant_info with(const char *functions, const char *const *names) {
        vkattn_variant_info info{};
        info.functions = functions;
        info.defined = VKATTN_VARIANT_SCORE_MOD;
        info.modules = names;
        info.module_count = 1;
        info.shader_texts = vkattn::kShaderTexts;
        info.user = this;
        info.compile = [](void *user, const vkattn_variant_request *request) {
            const std::vector<std::uint32_t> &code = static_cast<Compiled *>(user)->modules.at(request->module);
            request->accept(request->result, code.data(), code.size());
        };
        return info;
    }
};

} // namespace

TEST_CASE_FIXTURE(DeviceTest, "what is compiled for a text goes with its last variant and plan, and comes back") {
    const std::vector<std::uint8_t> file = vkattn::compile_variant(gallery_text("softcap"));
    std::size_t taken = 0;
    Compiled compiled{vkattn::read_variant_file(std::as_bytes(std::span(file)), taken).first.value().modules};
    load_vulkan();
    const LimitedDevice device("self_test=0", counted_instance_function);
    const vkattn::Context &context = device.context();
    std::mt19937 random(37);
    const AttentionProblem problem = plain_problem(random);
    const char *const names[] = {"flash"};
    const std::size_t bytes = context.save().size();
    vulkan_calls().clear();
    for (int i = 0; i < 20; ++i) { // as scales do that change from step to step
        const std::string text = "// scale " + std::to_string(i);
        vkattn::Variant variant = context.variant(compiled.with(text.c_str(), names));
        vkattn::Plan plan = plan_of(context, problem, variant);
        CHECK(vulkan_calls().modules == 0); // it goes as soon as the pipeline is made
        CHECK(vulkan_calls().pipelines == 1);
        if (i % 2 == 0)
            variant = vkattn::Variant(); // the plan keeps it
        else
            plan = vkattn::Plan();
        CHECK(vulkan_calls().pipelines == 1);
    }
    CHECK(vulkan_calls().modules == 0);
    CHECK(vulkan_calls().pipelines == 0);
    CHECK(context.save().size() < bytes + 20 * compiled.modules.at("flash").size()); // of four bytes each
    const vkattn::Variant one = context.variant(compiled.with("// scale 0", names)),
                          other = context.variant(compiled.with("// scale 0", names));
    const vkattn::Plan first = plan_of(context, problem, one), second = plan_of(context, problem, other);
    CHECK(vulkan_calls().pipelines == 1); // they share it
}

TEST_CASE_FIXTURE(DeviceTest, "a variant compiled ahead needs no compiler, and one that is not whole is refused") {
    std::vector<std::uint8_t> file = vkattn::compile_variant(gallery_text("causal_alibi"));
    const vkattn::Context &context = test_device().context();
    const auto compiled = std::make_shared<const vkattn::Variant>(context.variant(file));
    std::mt19937 random(23);
    AttentionProblem problem = plain_problem(random);
    add_entry(problem, entry_of("causal_alibi"), random);
    problem.variant = compiled;
    check_every_kernel(problem);
    CHECK(try_backward(problem) == "");

    const auto result_of = [&](std::uint64_t bytes) {
        try {
            (void)context.variant(std::span(file).first(bytes));
        } catch (const vkattn::Error &error) {
            return error.result();
        }
        return VKATTN_SUCCESS;
    };
    for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{39}, std::uint64_t{200}, file.size() - 4})
        CHECK(result_of(bytes) == VKATTN_ERROR_INVALID_ARGUMENT);
    // whole, but with modules that are not
    std::size_t taken = 0;
    const vkattn::CompiledVariant whole = *vkattn::read_variant_file(std::as_bytes(std::span(file)), taken).first;
    const std::vector<std::uint8_t> without_gradients = vkattn::compile_variant(gallery_text("sigmoid"));
    CHECK(whole.modules.contains("backward_queries"));
    CHECK(!vkattn::read_variant_file(std::as_bytes(std::span(without_gradients)), taken)
               .first->modules.contains("backward_queries"));
    for (const std::size_t words : {std::size_t{0}, std::size_t{4}, std::size_t{8}}) {
        vkattn::CompiledVariant cut = whole;
        cut.modules.begin()->second.resize(words);
        if (words == 8) cut.modules.begin()->second[5] = 4u << 16 | 71u; // a decoration that ends after the module
        const std::vector<std::uint32_t> written = vkattn::write_variant_file(cut);
        const std::span<const std::byte> bytes = std::as_bytes(std::span(written));
        vkattn_variant_info info{};
        info.compiled = bytes.data();
        info.compiled_bytes = bytes.size();
        vkattn_variant none = nullptr;
        CHECK(vkattn_variant_create(context.get(), &info, &none) == VKATTN_ERROR_INVALID_ARGUMENT);
        CHECK(std::string(vkattn_last_error()).starts_with("compiled: module "));
    }
    file[file.size() / 2] ^= 1;
    CHECK(result_of(file.size()) == VKATTN_ERROR_INVALID_ARGUMENT);
    file[8] ^= 1; // the shaders that it was made of
    CHECK(result_of(file.size()) == VKATTN_ERROR_UNSUPPORTED);
}

TEST_SUITE_END();
