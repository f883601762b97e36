// Problems drawn at random over what the operator attention takes, on every kernel that takes them, against the
// reference. A failing draw is made smaller as long as it fails, and saved as a case file where it can be.
#include "block_states.hpp"
#include "compare.hpp"
#include "device.hpp"
#include "random_draws.hpp"

#include "case_runner.hpp"
#include "comparison.hpp"
#include "safetensors.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <functional>
#include <sstream>

using namespace vkattn_test;
namespace tools = vkattn::tools;

namespace {

enum class Mask { kNone, kBool, kF32, kF16 };

// A problem in numbers, from which its tensors are made; small ones make small problems.
struct Draw {
    unsigned seed = 0; // of the contents
    std::uint64_t batch = 1, kv_heads = 1, group = 1, q_len = 1, kv_len = 1, head_dim = 1, v_head_dim = 1;
    vkattn_type query = VKATTN_TYPE_F32, key = VKATTN_TYPE_F32, value = VKATTN_TYPE_F32, output = VKATTN_TYPE_F32;
    bool value_in_key = false;
    bool positions_first = false; // [B,L,H,D] in memory
    bool causal = false, bottom_right = false, key_lengths = false, key_padding = false, alibi = false, sinks = false;
    bool modulo_heads = false, past_lengths = false;
    bool window = false;
    int window_left = -1, window_right = -1;
    Mask mask = Mask::kNone;
    std::uint64_t block_q_len = 0, block_kv_len = 0; // of a block mask; 0: none
    unsigned mask_broadcast = 0;                     // bits: batch, heads, queries
    std::uint64_t mask_short = 0;                    // keys that the mask leaves out
    std::uint32_t past_len = 0;
    float softcap = 0.0f, scale = 0.0f, dropout_p = 0.0f;
    vkattn_score_stage stage = VKATTN_SCORES_SCALED;
    bool operator==(const Draw &) const = default;
};

bool quantised(const Draw &d) { return is_quantised(d.key) || is_quantised(d.value); }

void draw_compiled(Draw &d, Random &random) {
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
        if (dims % 32 == 0 && random.one_in(5)) stored = random.any({VKATTN_TYPE_Q8_0, VKATTN_TYPE_Q4_0});
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
    if (random.one_in(3)) d.mask = random.any({Mask::kBool, Mask::kF32, Mask::kF16});
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

Draw draw(unsigned seed) {
    Draws draws(seed);
    Random &random = draws.free;
    Draw d;
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
    if (random.one_in(40)) { // more keys than some drivers let a shader's loops have trips
        d.kv_len = random.up_to(40000);
        d.q_len = random.up_to(3);
        d.batch = 1;
    }
    return d;
}

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

HostTensor mask_of(const Draw &d, std::mt19937 &random) {
    const Shape shape = {(d.mask_broadcast & 1) != 0 ? 1 : d.batch,
                         (d.mask_broadcast & 2) != 0 ? 1 : d.kv_heads * d.group,
                         (d.mask_broadcast & 4) != 0 ? 1 : d.q_len, d.kv_len - d.mask_short};
    std::bernoulli_distribution hide(0.2);
    if (d.mask != Mask::kBool) {
        HostTensor mask = normal_tensor(d.mask == Mask::kF32 ? VKATTN_TYPE_F32 : VKATTN_TYPE_F16, shape, random);
        for (std::uint64_t i = 0; i < mask.elements(); ++i)
            if (hide(random)) mask.set(i, -HUGE_VALF);
        return mask;
    }
    HostTensor mask(VKATTN_TYPE_BOOL, shape);
    for (std::uint64_t i = 0; i < mask.elements(); ++i) mask.set(i, hide(random) ? 0.0f : 1.0f);
    return mask;
}

// As broadcast as the mask, but for its queries.
HostTensor block_mask_of(const Draw &d, std::mt19937 &random) {
    return random_block_states(
        {(d.mask_broadcast & 1) != 0 ? 1 : d.batch, (d.mask_broadcast & 2) != 0 ? 1 : d.kv_heads * d.group,
         (d.q_len + d.block_q_len - 1) / d.block_q_len, (d.kv_len + d.block_kv_len - 1) / d.block_kv_len},
        random);
}

AttentionProblem problem_of(const Draw &d) {
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
    if (d.mask != Mask::kNone) p.attn_mask = mask_of(d, random);
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
    p.past_len = d.past_len;
    p.softcap = d.softcap;
    p.scale = d.scale;
    p.dropout_p = d.dropout_p;
    p.dropout_seed = d.seed;
    p.kv_head_mapping = d.modulo_heads ? VKATTN_KV_HEADS_MODULO : VKATTN_KV_HEADS_GROUPED;
    p.score_stage = d.stage;
    return p;
}

std::string text(const Draw &d) {
    std::ostringstream out;
    out << "batch " << d.batch << ", heads " << d.kv_heads * d.group << "/" << d.kv_heads << ", q_len " << d.q_len
        << ", kv_len " << d.kv_len << ", sizes " << d.head_dim << "/" << d.v_head_dim << ", " << type_name(d.query)
        << " " << type_name(d.key) << " " << type_name(d.value) << " -> " << type_name(d.output);
    const auto add = [&](bool present, const std::string &name) { out << (present ? ", " + name : ""); };
    add(d.value_in_key, "V in K");
    add(d.positions_first, "[B,L,H,D]");
    add(d.causal, "causal");
    add(d.bottom_right, "bottom right");
    add(d.window, "window " + std::to_string(d.window_left) + " " + std::to_string(d.window_right));
    add(d.key_lengths, "key_lengths");
    add(d.key_padding, "key_padding_mask");
    add(d.mask != Mask::kNone, "mask " + std::to_string(static_cast<int>(d.mask)) + " broadcast " +
                                   std::to_string(d.mask_broadcast) + " short by " + std::to_string(d.mask_short));
    add(d.block_q_len != 0, "blocks of " + std::to_string(d.block_q_len) + " x " + std::to_string(d.block_kv_len));
    add(d.alibi, "alibi");
    add(d.sinks, "sinks");
    add(d.modulo_heads, "heads modulo");
    add(d.past_len != 0, "past_len " + std::to_string(d.past_len));
    add(d.past_lengths, "past_lengths");
    add(d.softcap != 0.0f, "softcap");
    add(d.scale != 0.0f, "scale");
    add(d.dropout_p != 0.0f, "dropout");
    add(d.stage != VKATTN_SCORES_SCALED, "scores at stage " + std::to_string(d.stage));
    return out.str();
}

struct Failure {
    vkattn_kernel kernel = VKATTN_KERNEL_AUTO;
    std::string complaints; // "": none
};

Failure failure_of(const Draw &d, vkattn_kernel kernel, const AttentionReference &reference) {
    const AttentionProblem problem = problem_of(d);
    AttentionResults results = all_results(problem, kernel, d.output);
    try {
        return {kernel, try_attention(problem, reference, results, kernel)};
    } catch (const vkattn::Error &error) {
        return {kernel, error.result() == VKATTN_ERROR_UNSUPPORTED ? "" : error.what()};
    }
}

Failure failure_of(const Draw &d) {
    const AttentionProblem problem = problem_of(d);
    const AttentionReference reference = reference_attention(problem);
    for (const vkattn_kernel kernel : kernels_for(problem))
        if (Failure failure = failure_of(d, kernel, reference); !failure.complaints.empty()) return failure;
    return {};
}

void shorten(Draw &d, std::uint64_t kv_len) {
    d.kv_len = kv_len;
    d.mask_short = std::min(d.mask_short, kv_len - 1);
}

const std::vector<std::function<void(Draw &)>> &reductions() {
    static const std::vector<std::function<void(Draw &)>> all = {
        [](Draw &d) { d.mask = Mask::kNone; },
        [](Draw &d) { d.block_q_len = d.block_kv_len = 0; },
        [](Draw &d) { d.key_padding = false; },
        [](Draw &d) { d.key_lengths = false; },
        [](Draw &d) { d.alibi = false; },
        [](Draw &d) { d.sinks = false; },
        [](Draw &d) { d.window = false; },
        [](Draw &d) { d.softcap = 0.0f; },
        [](Draw &d) { d.dropout_p = 0.0f; },
        [](Draw &d) { d.scale = 0.0f; },
        [](Draw &d) { d.past_len = 0; },
        [](Draw &d) { d.past_lengths = false; },
        [](Draw &d) { d.causal = false; },
        [](Draw &d) { d.bottom_right = false; },
        [](Draw &d) { d.modulo_heads = false; },
        [](Draw &d) { d.value_in_key = false; },
        [](Draw &d) { d.positions_first = false; },
        [](Draw &d) { d.stage = VKATTN_SCORES_SCALED; },
        [](Draw &d) { d.mask_short = 0; },
        [](Draw &d) { d.mask_broadcast = 0; },
        [](Draw &d) { d.query = VKATTN_TYPE_F32; },
        [](Draw &d) {
            d.key = VKATTN_TYPE_F32;
            if (d.value_in_key) d.value = d.key;
        },
        [](Draw &d) {
            if (!d.value_in_key) d.value = VKATTN_TYPE_F32;
        },
        [](Draw &d) { d.output = VKATTN_TYPE_F32; },
        [](Draw &d) { d.batch = 1; },
        [](Draw &d) { d.kv_heads = 1; },
        [](Draw &d) { d.group = 1; },
        [](Draw &d) { d.q_len = (d.q_len + 1) / 2; },
        [](Draw &d) { shorten(d, (d.kv_len + 1) / 2); },
        [](Draw &d) {
            d.head_dim = is_quantised(d.key) ? 32 : (d.head_dim + 1) / 2;
            if (d.value_in_key) d.v_head_dim = std::min(d.v_head_dim, d.head_dim);
        },
        [](Draw &d) { d.v_head_dim = is_quantised(d.value) ? 32 : (d.v_head_dim + 1) / 2; },
        [](Draw &d) { d.q_len = std::max<std::uint64_t>(d.q_len, 2) - 1; },
        [](Draw &d) { shorten(d, std::max<std::uint64_t>(d.kv_len, 2) - 1); },
    };
    return all;
}

tools::HostTensor stored(const HostTensor &tensor) {
    if (tensor.type() == VKATTN_TYPE_BOOL || tensor.type() == VKATTN_TYPE_I32) {
        const auto bytes = std::as_bytes(tensor.bytes()).first(tensor.elements() * type_bytes(tensor.type()));
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
std::string save_case(const Draw &d) {
    if (d.past_len != 0 || d.past_lengths || d.value_in_key) return "";
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
        const Draw drawn = draw(seed);
        const Failure failure = failure_of(drawn);
        if (failure.complaints.empty()) return std::string();
        const Draw small = smallest(drawn, reductions(), [&](const Draw &d) {
            return !failure_of(d, failure.kernel, reference_attention(problem_of(d))).complaints.empty();
        });
        return "kernel " + kernel_text(failure.kernel) + ": " + failure.complaints +
               "as small as it fails: " + text(small) + "; saved: " + save_case(small);
    });
}

TEST_CASE("what fails is made smaller") {
    const auto fails = [](const Draw &d) { return d.kv_len >= 17 && d.causal; };
    unsigned seed = 1;
    while (!fails(draw(seed))) ++seed;
    Draw expected;
    expected.seed = seed;
    expected.kv_len = 17;
    expected.causal = true;
    Draw small = smallest(draw(seed), reductions(), fails);
    small.window_left = small.window_right = -1; // of no window
    CHECK(text(small) == text(expected));
}

TEST_CASE_FIXTURE(DeviceTest, "what is saved of a problem is a case with the same answer") {
    Draw d;
    d.batch = 2;
    d.kv_heads = d.group = 2;
    d.q_len = 5;
    d.kv_len = 9;
    d.head_dim = d.v_head_dim = 32;
    for (const vkattn_type type : {VKATTN_TYPE_F32, VKATTN_TYPE_F16, VKATTN_TYPE_Q8_0}) {
        d.key = d.value = type;
        d.causal = d.window = d.key_lengths = d.key_padding = d.alibi = d.sinks = d.modulo_heads = true;
        d.mask = type == VKATTN_TYPE_F32 ? Mask::kBool : Mask::kF16;
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
