// Problems drawn at random over what the operator attention takes, on every kernel that takes them, against the
// reference. A failing draw is made smaller as long as it fails, and saved as a case file where it can be.
#include "attention_draws.hpp"
#include "compare.hpp"
#include "device.hpp"
#include "random_draws.hpp"
#ifdef VKATTN_HAS_JIT
#include "variants.hpp"
#endif

#include "tools/cases/case_runner.hpp"
#include "tools/cases/comparison.hpp"
#include "tools/tensors/safetensors.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <functional>

using namespace vkattn_test;
namespace tools = vkattn::tools;

namespace {

AttentionProblem problem_with_functions(const AttentionDraw &d) {
    AttentionProblem problem = problem_of(d);
#ifdef VKATTN_HAS_JIT
    std::mt19937 random(d.seed);
    if (d.functions) set_every_function(problem, random);
#endif
    return problem;
}

struct Failure {
    vkattn_kernel kernel = VKATTN_KERNEL_AUTO;
    std::string complaints; // "": none
};

Failure failure_of(const AttentionDraw &d, vkattn_kernel kernel, const AttentionReference &reference) {
    const AttentionProblem problem = problem_with_functions(d);
    AttentionResults results = all_results(problem, kernel, d.output);
    try {
        return {kernel, try_attention(problem, reference, results, kernel)};
    } catch (const vkattn::Error &error) {
        return {kernel, error.result() == VKATTN_ERROR_UNSUPPORTED ? "" : error.what()};
    }
}

Failure failure_of(const AttentionDraw &d) {
    const AttentionProblem problem = problem_with_functions(d);
    const AttentionReference reference = reference_attention(problem);
    for (const vkattn_kernel kernel : kernels_for(problem))
        if (Failure failure = failure_of(d, kernel, reference); !failure.complaints.empty()) return failure;
    return {};
}

void shorten(AttentionDraw &d, std::uint64_t kv_len) {
    d.kv_len = kv_len;
    d.mask_short = std::min(d.mask_short, kv_len - 1);
}

const std::vector<std::function<void(AttentionDraw &)>> &reductions() {
    static const std::vector<std::function<void(AttentionDraw &)>> all = {
        [](AttentionDraw &d) { d.functions = false; },
        [](AttentionDraw &d) { d.mask = DrawnMask::kNone; },
        [](AttentionDraw &d) { d.block_q_len = d.block_kv_len = 0; },
        [](AttentionDraw &d) { d.trees = false; },
        [](AttentionDraw &d) { d.key_padding = false; },
        [](AttentionDraw &d) { d.key_lengths = false; },
        [](AttentionDraw &d) { d.alibi = false; },
        [](AttentionDraw &d) { d.sinks = false; },
        [](AttentionDraw &d) { d.window = false; },
        [](AttentionDraw &d) { d.softcap = 0.0f; },
        [](AttentionDraw &d) { d.dropout_p = 0.0f; },
        [](AttentionDraw &d) { d.scale = 0.0f; },
        [](AttentionDraw &d) { d.past_len = 0; },
        [](AttentionDraw &d) { d.past_lengths = false; },
        [](AttentionDraw &d) { d.causal = false; },
        [](AttentionDraw &d) { d.bottom_right = false; },
        [](AttentionDraw &d) { d.modulo_heads = false; },
        [](AttentionDraw &d) { d.value_in_key = false; },
        [](AttentionDraw &d) { d.positions_first = false; },
        [](AttentionDraw &d) { d.stage = VKATTN_SCORES_SCALED; },
        [](AttentionDraw &d) { d.mask_short = 0; },
        [](AttentionDraw &d) { d.mask_broadcast = 0; },
        [](AttentionDraw &d) { d.query = VKATTN_TYPE_F32; },
        [](AttentionDraw &d) {
            d.key = VKATTN_TYPE_F32;
            if (d.value_in_key) d.value = d.key;
        },
        [](AttentionDraw &d) {
            if (!d.value_in_key) d.value = VKATTN_TYPE_F32;
        },
        [](AttentionDraw &d) { d.output = VKATTN_TYPE_F32; },
        [](AttentionDraw &d) { d.batch = 1; },
        [](AttentionDraw &d) { d.kv_heads = 1; },
        [](AttentionDraw &d) { d.group = 1; },
        [](AttentionDraw &d) { d.q_len = (d.q_len + 1) / 2; },
        [](AttentionDraw &d) { shorten(d, (d.kv_len + 1) / 2); },
        [](AttentionDraw &d) {
            d.head_dim = is_quantised(d.key) ? 32 : (d.head_dim + 1) / 2;
            if (d.value_in_key) d.v_head_dim = std::min(d.v_head_dim, d.head_dim);
        },
        [](AttentionDraw &d) { d.v_head_dim = is_quantised(d.value) ? 32 : (d.v_head_dim + 1) / 2; },
        [](AttentionDraw &d) { d.q_len = std::max<std::uint64_t>(d.q_len, 2) - 1; },
        [](AttentionDraw &d) { shorten(d, std::max<std::uint64_t>(d.kv_len, 2) - 1); },
    };
    return all;
}

tools::HostTensor stored(const HostTensor &tensor) {
    if (tensor.type() == VKATTN_TYPE_BOOL || tensor.type() == VKATTN_TYPE_I32) {
        const auto bytes = std::as_bytes(tensor.bytes()).first(type_bytes(tensor.type(), tensor.elements()));
        return {tensor.type() == VKATTN_TYPE_BOOL ? tools::Dtype::kBool : tools::Dtype::kI32,
                tensor.shape(),
                {bytes.begin(), bytes.end()}};
    }
    tools::Dtype dtype = tools::Dtype::kF32;
    if (tensor.type() == VKATTN_TYPE_F16) dtype = tools::Dtype::kF16;
    if (tensor.type() == VKATTN_TYPE_BF16) dtype = tools::Dtype::kBf16;
    return tools::tensor_of(dtype, tensor.shape(), tensor.values());
}

// "" where a case file cannot say what the draw says.
std::string save_case(const AttentionDraw &d) {
    if (d.past_len != 0 || d.past_lengths || d.value_in_key || d.functions) return "";
    const AttentionProblem p = problem_of(d);
    const AttentionReference reference = reference_attention(p);
    nlohmann::json config{{"op", "attention"}, {"causal_alignment", d.bottom_right ? "bottom_right" : "top_left"}};
    if (d.causal) config["is_causal"] = true;
    if (d.window) config.update({{"window_left", d.window_left}, {"window_right", d.window_right}});
    if (d.modulo_heads) config["kv_head_mapping"] = "modulo";
    if (d.block_q_len != 0) config.update({{"block_q_len", d.block_q_len}, {"block_kv_len", d.block_kv_len}});
    if (d.scale != 0.0f) config["scale"] = d.scale;
    if (d.softcap != 0.0f) config["softcap"] = d.softcap;
    if (d.dropout_p != 0.0f) config.update({{"dropout_p", d.dropout_p}, {"dropout_seed", d.seed}});
    if (is_quantised(d.key)) config["k_dtype"] = type_name(d.key);
    if (is_quantised(d.value)) config["v_dtype"] = type_name(d.value);
    tools::Safetensors file;
    file.metadata["vkattn"] = config.dump();
    const auto add = [&](const char *name, const HostTensor &tensor) {
        if (tensor.present()) file.tensors[name] = stored(tensor);
    };
    add("q", p.query);
    add("k", p.key);
    add("v", p.value);
    add("attn_mask", p.attn_mask);
    add("block_mask", p.block_mask);
    add("tree_mask", p.tree_mask);
    add("key_padding_mask", p.key_padding_mask);
    add("nonpad_kv_seqlen", p.key_lengths);
    add("alibi_slopes", p.alibi_slopes);
    add("sinks", p.sinks);
    file.tensors["expected.output"] =
        tools::tensor_of(tools::Dtype::kF32, {d.batch, d.kv_heads * d.group, d.q_len, d.v_head_dim}, reference.output);
    const std::string name = "sweep_" + std::to_string(d.seed) + ".safetensors";
    tools::write_safetensors(name, file);
    return name;
}

} // namespace

TEST_SUITE_BEGIN("sweep");

TEST_CASE_FIXTURE(DeviceTest, "random problems on every kernel") {
    sweep([](unsigned seed) {
        const AttentionDraw drawn = draw_attention(seed);
        const Failure failure = failure_of(drawn);
        if (failure.complaints.empty()) return std::string();
        const AttentionDraw small = smallest(drawn, reductions(), [&](const AttentionDraw &d) {
            return !failure_of(d, failure.kernel, reference_attention(problem_with_functions(d))).complaints.empty();
        });
        return "kernel " + kernel_text(failure.kernel) + ": " + failure.complaints +
               "as small as it fails: " + text(small) + "; saved: " + save_case(small);
    });
}

TEST_CASE("what fails is made smaller") {
    const auto fails = [](const AttentionDraw &d) { return d.kv_len >= 17 && d.causal; };
    unsigned seed = 1;
    while (!fails(draw_attention(seed))) ++seed;
    AttentionDraw expected;
    expected.seed = seed;
    expected.kv_len = 17;
    expected.causal = true;
    AttentionDraw small = smallest(draw_attention(seed), reductions(), fails);
    small.window_left = small.window_right = -1; // of no window
    CHECK(text(small) == text(expected));
}

TEST_CASE_FIXTURE(DeviceTest, "what is saved of a problem is a case with the same answer") {
    AttentionDraw d;
    d.batch = 2;
    d.kv_heads = d.group = 2;
    d.q_len = 5;
    d.kv_len = 9;
    d.head_dim = d.v_head_dim = 32;
    for (const vkattn_type type : {VKATTN_TYPE_F32, VKATTN_TYPE_F16, VKATTN_TYPE_Q8_0}) {
        d.key = d.value = type;
        d.causal = d.window = d.key_lengths = d.key_padding = d.alibi = d.sinks = d.modulo_heads = true;
        d.mask = type == VKATTN_TYPE_F32 ? DrawnMask::kBool : DrawnMask::kF16;
        d.block_q_len = d.block_kv_len = 3;
        d.window_left = 4;
        const std::string name = save_case(d);
        const tools::CaseFile saved = tools::read_case(name);
        const tools::CaseResult result =
            tools::run_case(test_device().context(), saved, tools::expected_outputs(saved), VKATTN_KERNEL_AUTO);
        CHECK(tools::compare_case(saved, result.outputs).difference.nmse < 1e-10);
        CHECK(std::filesystem::remove(name));
    }
}

TEST_SUITE_END();
