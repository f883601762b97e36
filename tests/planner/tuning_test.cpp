// Tuning: every candidate gives the same numbers, plans take the one that is kept, and a saved choice serves later
// contexts.
#include "backward_calls.hpp"
#include "compare.hpp"
#include "corrupted_device.hpp"
#include "limited_device.hpp"
#include "skips.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

using namespace vkattn_test;

namespace {

struct Case {
    const char *name;
    vkattn_type type, kv_type;
    std::uint64_t q_len, kv_len, head_dim, v_head_dim;
    std::uint32_t mask_flags;
    vkattn_kernel kernel;
};

constexpr Case kCases[] = {
    {"prefill", VKATTN_TYPE_F32, VKATTN_TYPE_F32, 37, 70, 32, 32, VKATTN_MASK_CAUSAL, VKATTN_KERNEL_AUTO},
    {"decode", VKATTN_TYPE_F32, VKATTN_TYPE_F32, 1, 700, 32, 32, VKATTN_MASK_NONE, VKATTN_KERNEL_AUTO},
    {"quantised", VKATTN_TYPE_F32, VKATTN_TYPE_Q8_0, 3, 600, 32, 64, VKATTN_MASK_NONE, VKATTN_KERNEL_DECODE},
    {"matrices", VKATTN_TYPE_F16, VKATTN_TYPE_F16, 19, 300, 40, 24, VKATTN_MASK_CAUSAL, VKATTN_KERNEL_COOPMAT},
};

AttentionProblem problem_of(const Case &c, std::uint64_t kv_len) {
    std::mt19937 random(131);
    AttentionProblem problem;
    problem.query = normal_tensor(c.type, {1, 4, c.q_len, c.head_dim}, random);
    problem.key = normal_tensor(c.kv_type, {1, 2, kv_len, c.head_dim}, random);
    problem.value = normal_tensor(c.kv_type, {1, 2, kv_len, c.v_head_dim}, random);
    problem.mask_flags = c.mask_flags;
    return problem;
}

AttentionResults results_of(const Case &c) {
    AttentionResults results;
    results.output = HostTensor(VKATTN_TYPE_F32, {1, 4, c.q_len, c.v_head_dim});
    return results;
}

const vkattn_candidate &kept(const vkattn::List<vkattn_candidate> &candidates) {
    const auto is_kept = [](const vkattn_candidate &candidate) { return candidate.kept != 0; };
    REQUIRE(std::ranges::count_if(candidates, is_kept) == 1);
    return *std::ranges::find_if(candidates, is_kept);
}

bool by_tuning(const vkattn::Plan &plan) {
    return std::string(plan.report().reason).find("tuning") != std::string::npos;
}

void check_tuned(const LimitedDevice &device, const Case &c) {
    INFO(c.name);
    if (c.kernel != VKATTN_KERNEL_AUTO && !can_run(device.context().facts(), c.kernel)) {
        skip("no " + kernel_text(c.kernel));
        return;
    }
    const AttentionProblem problem = problem_of(c, c.kv_len);
    AttentionResults results = results_of(c);
    const vkattn_attention_desc desc = describe(problem, results, c.kernel);
    const vkattn_kernel untuned = device.context().attention_plan(desc).report().kernel;
    const vkattn::List<vkattn_candidate> candidates = device.context().tune(desc);
    CHECK(candidates.front().kernel == untuned);
    CHECK(candidates.size() > 1);
    std::set<std::string> told; // no two candidates in the same words
    for (const vkattn_candidate &candidate : candidates) {
        const std::string way = kernel_text(candidate.kernel) + " " + candidate.tile;
        CHECK_MESSAGE(std::string(candidate.reason) == "", way);
        CHECK_MESSAGE(told.insert(way).second, way);
    }
    const vkattn_kernel best = kept(candidates).kernel;
    const vkattn::Plan plan = device.context().attention_plan(desc);
    CHECK(plan.report().kernel == best);
    if (c.kernel == VKATTN_KERNEL_AUTO) CHECK(by_tuning(plan));
    const AttentionReference reference = reference_attention(problem);
    const Comparison comparison = compare("output", results.output.shape(), reference.output,
                                          device.run(problem, desc, results.output), nmse_bound({c.type, c.kv_type}));
    CHECK_MESSAGE(comparison.passed, comparison.report);
}

AttentionProblem gradient_problem(vkattn_type type, std::uint64_t kv_len = 70) {
    return problem_of({"gradients", type, type, 37, kv_len, 40, 24, VKATTN_MASK_CAUSAL, VKATTN_KERNEL_AUTO}, kv_len);
}

// Candidates' gradients are those of the untuned plan, and the tuned plan's those of the reference.
void check_tuned_gradients(const char *traits, vkattn_type type, const std::string &of_queries,
                           const std::string &of_keys) {
    INFO(std::string(traits), ", ", type_name(type));
    const LimitedDevice device(traits);
    BackwardCall call(gradient_problem(type), {.d_output = type, .output = type});
    const vkattn::List<vkattn_candidate> candidates = device.context().tune(call.describe());
    std::set<std::string> told; // no two candidates of the same words
    for (const vkattn_candidate &candidate : candidates) {
        CHECK_MESSAGE(std::string(candidate.reason) == "", candidate.tile);
        CHECK_MESSAGE(told.insert(candidate.tile).second, candidate.tile);
    }
    CHECK(std::ranges::count(candidates, 1u, &vkattn_candidate::kept) == 2);
    const auto is_of = [&](const std::string &shader) {
        return std::ranges::count_if(candidates, [&](const vkattn_candidate &candidate) {
            return std::string(candidate.tile).starts_with(shader);
        });
    };
    CHECK(is_of(of_queries) > 2);
    CHECK(is_of(of_keys) > 2);
    CHECK(is_of("backward_queries,") > 0); // tiles, which serve all
    CHECK(is_of("backward_keys,") > 0);
    const std::string reason = device.context().attention_backward_plan(call.describe()).report().reason;
    const std::size_t found = reason.find("by tuning: ");
    REQUIRE(found != std::string::npos);
    CHECK(reason.find("backward_queries", found) != std::string::npos);
    CHECK(reason.find("backward_keys", found) != std::string::npos);
    CHECK(try_backward(call, device.device()) == "");
}

} // namespace

TEST_SUITE_BEGIN("tuning");

TEST_CASE_FIXTURE(DeviceTest, "gradients of queries and of keys are tuned, each by themselves") {
    const bool has_addresses = can_run(test_device().facts(), VKATTN_KERNEL_ADDRESSES);
    const std::string addresses = has_addresses ? "_addresses" : "";
    check_tuned_gradients("", VKATTN_TYPE_F32, "backward_queries" + addresses, "backward_keys" + addresses);
    check_tuned_gradients("scalar_address_loads=0,matrix_units=0", VKATTN_TYPE_F16, "backward_queries",
                          "backward_keys");
    if (has_matrix_kernels())
        check_tuned_gradients("scalar_address_loads=0,matrix_units=2,max_loop_iterations=0", VKATTN_TYPE_F16,
                              "backward_queries_coopmat", "backward_keys_coopmat");
}

TEST_CASE_FIXTURE(DeviceTest, "a choice of gradients serves those of the same types, about as large, and is saved") {
    ContextRequest request;
    vkattn_context_info &info = request.info;
    std::vector<std::uint8_t> saved;
    const auto reason_of = [&](const vkattn::Context &context, BackwardCall &call, bool batch_invariant = false) {
        vkattn_attention_backward_desc desc = call.describe();
        call.attention.batch_invariant = batch_invariant ? 1 : 0;
        return by_tuning(context.attention_backward_plan(desc));
    };
    BackwardCall call(gradient_problem(VKATTN_TYPE_F32), {}), larger(gradient_problem(VKATTN_TYPE_F32, 130), {});
    BackwardCall other(gradient_problem(VKATTN_TYPE_F32), {.gradients = VKATTN_TYPE_F16});
    {
        const vkattn::Context context(info);
        vkattn_attention_backward_desc desc = call.describe();
        desc.d_key = desc.d_value = {};
        context.tune(desc);
        CHECK(by_tuning(context.attention_backward_plan(desc)));
        desc = call.describe();
        desc.d_query = {};
        CHECK(!by_tuning(context.attention_backward_plan(desc)));
        context.tune(desc);
        CHECK(reason_of(context, call));
        CHECK(!reason_of(context, call, true));
        CHECK(!reason_of(context, larger));
        CHECK(!reason_of(context, other));
        saved = context.save();
    }
    info.saved_data = saved.data();
    info.saved_bytes = saved.size();
    CHECK(reason_of(vkattn::Context(info), call));
}

TEST_CASE_FIXTURE(DeviceTest, "gradients without queries or keys have nothing to tune") {
    for (const bool queries : {true, false}) {
        vkattn_attention_desc attention{};
        attention.query = vkattn::tensor(VKATTN_TYPE_F32, {1, 2, queries ? 3u : 0u, 16});
        attention.key = attention.value = vkattn::tensor(VKATTN_TYPE_F32, {1, 2, queries ? 0u : 3u, 16});
        vkattn_attention_backward_desc desc{};
        desc.attention = &attention;
        desc.d_output = desc.d_query = attention.query;
        desc.d_key = desc.d_value = attention.key;
        CHECK(test_device().context().tune(desc).empty());
    }
}

TEST_CASE_FIXTURE(DeviceTest, "candidates agree, and plans take the one that is kept") {
    const LimitedDevice device("matrix_units=2");
    for (const Case &c : kCases) check_tuned(device, c);
}

TEST_CASE_FIXTURE(DeviceTest, "a choice serves problems of about the size, and no others") {
    const LimitedDevice device("matrix_units=2");
    const Case &decode = kCases[1];
    AttentionResults results = results_of(decode);
    const auto plan_of = [&](std::uint64_t kv_len, bool batch_invariant) {
        vkattn_attention_desc desc = describe(problem_of(decode, kv_len), results, decode.kernel);
        desc.batch_invariant = batch_invariant ? 1 : 0;
        return device.context().attention_plan(desc);
    };
    device.context().tune(describe(problem_of(decode, 700), results, decode.kernel));
    CHECK(by_tuning(plan_of(700, false)));
    CHECK(by_tuning(plan_of(1024, false)));
    CHECK(!by_tuning(plan_of(1025, false)));
    CHECK(!by_tuning(plan_of(512, false)));
    CHECK(!by_tuning(plan_of(700, true)));

    vkattn_attention_desc invariant = describe(problem_of(decode, 300), results, decode.kernel);
    invariant.batch_invariant = 1;
    device.context().tune(invariant); // of a single kernel: no choice for others
    CHECK(!by_tuning(plan_of(300, false)));
}

TEST_CASE_FIXTURE(DeviceTest, "a kernel with other numbers is not kept") {
    if (!can_corrupt()) {
        skip("shaders are hidden in a shared library");
        return;
    }
    const CorruptedDevice corrupted({.kernel = VKATTN_KERNEL_DECODE});
    const LimitedDevice device("matrix_units=2,self_test=0,scalar_address_loads=0", corrupted.get_instance_proc_addr());
    AttentionResults results = results_of(kCases[0]);
    const AttentionProblem problem = problem_of(kCases[0], kCases[0].kv_len);
    const vkattn::List<vkattn_candidate> candidates =
        device.context().tune(describe(problem, results, VKATTN_KERNEL_AUTO));
    CHECK(kept(candidates).kernel == VKATTN_KERNEL_FLASH);
    for (const vkattn_candidate &candidate : candidates) {
        // merge_parts, which joins decode's parts, joins flash's too
        const std::string tile = candidate.tile;
        const bool merges = candidate.kernel == VKATTN_KERNEL_DECODE || tile.find(" parts") != std::string::npos;
        CHECK_MESSAGE(std::string(candidate.reason).starts_with("other numbers than untuned") == merges, tile);
    }
}

TEST_CASE_FIXTURE(DeviceTest, "paged, packed and masked problems are tuned with lengths that fill them") {
    const LimitedDevice device("matrix_units=2");
    vkattn_attention_desc desc{};
    desc.query = vkattn::tensor(VKATTN_TYPE_F32, {1, 4, 12, 16});
    desc.key = desc.value = vkattn::tensor(VKATTN_TYPE_F32, {6, 2, 16, 16});
    desc.output = desc.query;
    desc.cu_seqlens_q = vkattn::tensor(VKATTN_TYPE_I32, {4});
    desc.max_seqlen_q = 4;
    desc.block_table = vkattn::tensor(VKATTN_TYPE_I32, {3, 2});
    desc.key_lengths = vkattn::tensor(VKATTN_TYPE_I32, {3});
    desc.mask_flags = VKATTN_MASK_CAUSAL;
    desc.causal_alignment = VKATTN_CAUSAL_BOTTOM_RIGHT;
    for (const vkattn_candidate &candidate : device.context().tune(desc)) CHECK(std::string(candidate.reason) == "");
    desc.max_seqlen_q = 3; // then some rows are of no sequence
    for (const vkattn_candidate &candidate : device.context().tune(desc)) CHECK(std::string(candidate.reason) == "");

    vkattn_attention_desc masked{};
    masked.query = masked.output = vkattn::tensor(VKATTN_TYPE_F32, {2, 2, 5, 32});
    masked.key = vkattn::tensor(VKATTN_TYPE_F32, {2, 1, 33, 32}); // and V its first 16
    masked.output.shape[3] = 16;
    masked.attn_mask = vkattn::tensor(VKATTN_TYPE_BOOL, {5, 33});
    masked.key_padding_mask = vkattn::tensor(VKATTN_TYPE_BOOL, {2, 33});
    for (const vkattn_candidate &candidate : device.context().tune(masked)) CHECK(std::string(candidate.reason) == "");
}

TEST_CASE_FIXTURE(DeviceTest, "a saved choice serves a later context") {
    ContextRequest request;
    vkattn_context_info &info = request.info;
    const vkattn::Context first(info);
    AttentionResults results = results_of(kCases[1]);
    const vkattn_attention_desc desc = describe(problem_of(kCases[1], kCases[1].kv_len), results, VKATTN_KERNEL_AUTO);
    const vkattn_kernel best = kept(first.tune(desc)).kernel;
    const std::vector<std::uint8_t> saved = first.save();
    info.saved_data = saved.data();
    info.saved_bytes = saved.size();
    const vkattn::Context second(info);
    const vkattn::Plan plan = second.attention_plan(desc);
    CHECK(by_tuning(plan));
    CHECK(plan.report().kernel == best);
}

TEST_CASE_FIXTURE(DeviceTest, "prewarming builds what it can and names the first problem that it cannot") {
    const LimitedDevice device("");
    AttentionResults results = results_of(kCases[0]);
    std::vector<vkattn_attention_desc> descs(
        3, describe(problem_of(kCases[0], kCases[0].kv_len), results, VKATTN_KERNEL_AUTO));
    descs[2].query.shape[3] = descs[2].key.shape[3] = 48;
    device.context().prewarm(descs, 3);
    descs[1].scale = NAN;
    CHECK(vkattn_prewarm(device.context().get(), descs.data(), 3, 2) == VKATTN_ERROR_INVALID_ARGUMENT);
    CHECK_MESSAGE(std::string(vkattn_last_error()).find("descs[1]: scale") == 0, vkattn_last_error());
    CHECK(vkattn_prewarm(device.context().get(), nullptr, 0, 0) == VKATTN_SUCCESS);
    CHECK(vkattn_prewarm(device.context().get(), nullptr, 1, 0) == VKATTN_ERROR_INVALID_ARGUMENT);
}

TEST_SUITE_END();
