// Tuning that nobody asks for: plans of unknown classes are measured within a budget, by a clock that goes on by a millisecond
// whenever it is read, so that what is allowed is a matter of counting.
#include "corrupted_device.hpp"
#include "skips.hpp"

#include "runtime/ops/attention.hpp"
#include "runtime/ops/explain.hpp"
#include "runtime/ops/linear.hpp"
#include "runtime/ops/operators.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/support/error.hpp"
#include "runtime/trials/budgeted_tuning.hpp"
#include "runtime/trials/ready_context.hpp"
#include "runtime/trials/saved_state.hpp"
#include "runtime/trials/tuning.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

using namespace vkattn_test;
using vkattn::contiguous;
using vkattn::PlanBuilder;
using vkattn::TuningBudget;

namespace {

constexpr double kAny = 1e9; // milliseconds

vkattn::Clock counting_clock() {
    const auto readings = std::make_shared<double>(0.0);
    return [readings] { return ++*readings; };
}

constexpr vkattn_trait kNoMatrices = {VKATTN_TRAIT_MATRIX_UNITS, 0};

std::unique_ptr<vkattn::Context> context_of(double milliseconds, const std::vector<std::byte> &saved = {},
                                            const std::vector<vkattn_trait> &traits = {kNoMatrices},
                                            PFN_vkGetInstanceProcAddr get_instance_proc_addr = nullptr) {
    vkattn_context_info info{};
    info.device_selector = std::getenv("VKATTN_TEST_DEVICE"); // NULL: the default
    info.get_instance_proc_addr = get_instance_proc_addr;
    info.traits = traits.data();
    info.trait_count = static_cast<std::uint32_t>(traits.size());
    info.saved_data = saved.data();
    info.saved_bytes = saved.size();
    std::unique_ptr<vkattn::Context> context = vkattn::ready_context(info);
    if (milliseconds > 0) vkattn::allow_tuning(*context, milliseconds, counting_clock());
    return context;
}

// A token over some keys.
vkattn_attention_desc token(std::uint64_t head_dim = 16) {
    vkattn_attention_desc desc{};
    desc.query = desc.output = contiguous(VKATTN_TYPE_F32, {1, 4, 1, head_dim});
    desc.key = desc.value = contiguous(VKATTN_TYPE_F32, {1, 2, 40, head_dim});
    return desc;
}

std::string reason_of(vkattn::Context &context, const vkattn_attention_desc &desc,
                      PlanBuilder::Purpose purpose = PlanBuilder::Purpose::kRun) {
    PlanBuilder builder(context, purpose);
    const vkattn::AttentionProblem problem = vkattn::check_attention(desc);
    add_attention(builder, problem, vkattn::roles_of(problem));
    return builder.build()->reason();
}

bool by_tuning(const std::string &reason) { return reason.find("tuning") != std::string::npos; }

TuningBudget::Report report(vkattn::Context &context) { return context.tunings().budget.report(); }

// A product of few rows.
vkattn_linear_desc small_linear() {
    vkattn_linear_desc desc{};
    desc.input = contiguous(VKATTN_TYPE_F32, {1, 2, 64});
    desc.weight = contiguous(VKATTN_TYPE_F32, {24, 64});
    desc.output = contiguous(VKATTN_TYPE_F32, {1, 2, 24});
    return desc;
}

std::string reason_of(vkattn::Context &context, const vkattn_linear_desc &desc) {
    PlanBuilder builder(context);
    plan_linear(builder, desc);
    return builder.build()->reason();
}

// Of a few rows the gradients of all three.
std::string reason_of_gradients(vkattn::Context &context, bool batch_invariant = false) {
    vkattn_attention_desc attention{};
    attention.query = contiguous(VKATTN_TYPE_F32, {1, 2, 20, 16});
    attention.key = attention.value = contiguous(VKATTN_TYPE_F32, {1, 2, 30, 16});
    attention.batch_invariant = batch_invariant ? 1 : 0;
    vkattn_attention_backward_desc desc{};
    desc.attention = &attention;
    desc.d_output = desc.d_query = attention.query;
    desc.d_key = desc.d_value = attention.key;
    PlanBuilder builder(context);
    plan_attention_backward(builder, desc);
    return builder.build()->reason();
}

} // namespace

TEST_SUITE_BEGIN("tuning");

TEST_CASE("the first plan of an unknown class is measured, and no later one, nor by a later context") {
    const auto first = context_of(kAny);
    CHECK(by_tuning(reason_of(*first, token())));
    const TuningBudget::Report spent = report(*first);
    CHECK(spent.measured == 1);
    CHECK(spent.left_out == 0);
    CHECK(spent.candidates > 1);
    CHECK(spent.spent > 0);
    CHECK(by_tuning(reason_of(*first, token())));
    CHECK(by_tuning(reason_of(*first, small_linear())));
    CHECK(report(*first).measured == 2);

    const auto second = context_of(kAny, save_state(*first));
    CHECK(by_tuning(reason_of(*second, token())));
    CHECK(by_tuning(reason_of(*second, small_linear())));
    CHECK(report(*second).spent == 0);
    CHECK(report(*second).measured == 0);
}

TEST_CASE("gradients are measured within the budget: attention itself, queries', keys', each once") {
    const auto first = context_of(kAny);
    CHECK(!by_tuning(reason_of_gradients(*first, true)));
    CHECK(report(*first).measured == 0);
    CHECK(by_tuning(reason_of_gradients(*first)));
    CHECK(report(*first).measured == 3);
    CHECK(by_tuning(reason_of_gradients(*first)));
    CHECK(report(*first).measured == 3);
    const auto second = context_of(kAny, save_state(*first));
    CHECK(by_tuning(reason_of_gradients(*second)));
    CHECK(report(*second).spent == 0);
    CHECK(!by_tuning(reason_of_gradients(*context_of(0))));
}

TEST_CASE("without a budget nothing is measured, nor for what only asks or follows no tuning") {
    const auto none = context_of(0);
    CHECK(!by_tuning(reason_of(*none, token())));
    CHECK(report(*none).allowed == 0);
    CHECK(none->tunings().attention.save().empty());

    const auto some = context_of(kAny);
    CHECK(!by_tuning(reason_of(*some, token(), PlanBuilder::Purpose::kMeasure)));
    CHECK(!explain_attention(*some, token()).empty());
    vkattn_attention_desc desc = token();
    desc.batch_invariant = 1;
    CHECK(!by_tuning(reason_of(*some, desc)));
    desc = token();
    desc.attn_weights = contiguous(VKATTN_TYPE_F32, {1, 4, 1, 40});
    CHECK(!by_tuning(reason_of(*some, desc)));
    CHECK(report(*some).spent == 0);
}

TEST_CASE("a budget too small for a candidate keeps nothing, and the next context asks again") {
    const auto context = context_of(10);
    CHECK(!by_tuning(reason_of(*context, token())));
    CHECK(!by_tuning(reason_of(*context, small_linear())));
    CHECK(report(*context).left_out == 2);
    CHECK(report(*context).measured == 0);
    CHECK(report(*context).candidates == 0);
    CHECK(report(*context).spent > 0);
    CHECK(!by_tuning(reason_of(*context, token())));
    CHECK(report(*context).left_out == 2); // asked once
    CHECK(context->tunings().attention.save().empty());
    CHECK(context->tunings().linear.save().empty());
    CHECK(by_tuning(reason_of(*context_of(kAny, save_state(*context)), token())));
}

TEST_CASE("a budget that ends between candidates keeps the fastest of those before") {
    const auto context = context_of(0);
    const vkattn::AttentionProblem problem = vkattn::check_attention(token());
    std::vector<vkattn::Candidate> candidates;
    double allowed = 0;
    for (; candidates.empty() && allowed < 1000; allowed += 2) {
        CHECK(context->tunings().attention.save().empty());
        vkattn::TrialTime time(counting_clock(), allowed);
        candidates = tune(*context, problem, time);
        CHECK(time.spent() <= allowed + 8); // readings of the clock that come before it is known what a run takes
    }
    REQUIRE(candidates.size() > 1); // the untuned way, and what the least budget allowed beside it
    CHECK(std::ranges::count(candidates, true, &vkattn::Candidate::kept) == 1);
    REQUIRE(context->tunings().attention.save().size() == 1);
    CHECK(by_tuning(reason_of(*context, token())));
}

TEST_CASE("a class has half of what is left of a budget") {
    const auto context = context_of(200);
    for (const std::uint64_t head_dim : {16, 24, 32}) reason_of(*context, token(head_dim));
    const TuningBudget::Report spent = report(*context);
    CHECK(spent.measured + spent.left_out == 3);
    CHECK(spent.measured > 0);
    CHECK(spent.spent <= spent.allowed);
}

TEST_CASE("products that normalise, and those of heads, are measured as such") {
    const auto context = context_of(kAny);
    const auto view = [](const vkattn_tensor &tensor, vkattn_role role) { return vkattn::role_view(tensor, role); };
    const vkattn_linear_desc desc = small_linear();
    const vkattn::RmsNorm norm{view(contiguous(VKATTN_TYPE_F32, {64}), VKATTN_ROLE_NORM_WEIGHT), 1e-6f};
    PlanBuilder normed(*context);
    add_linear(normed, {view(desc.input, VKATTN_ROLE_INPUT), norm}, view(desc.weight, VKATTN_ROLE_WEIGHT),
               view(desc.output, VKATTN_ROLE_OUTPUT));
    normed.build();
    CHECK(report(*context).measured == 1);
    reason_of(*context, desc);
    CHECK(report(*context).measured == 2); // which other kernels serve, too

    PlanBuilder builder(*context);
    add_latent_up_projection(builder, view(contiguous(VKATTN_TYPE_F32, {1, 3, 5, 32}), VKATTN_ROLE_QUERY),
                             view(contiguous(VKATTN_TYPE_F32, {3, 16, 32}), VKATTN_ROLE_KEY), {},
                             view(contiguous(VKATTN_TYPE_F32, {1, 3, 5, 16}), VKATTN_ROLE_VALUE));
    builder.build();
    CHECK(report(*context).measured == 3);
    CHECK(report(*context).left_out == 0);
}

TEST_CASE("a candidate with other numbers is passed over, and one that loses the device is not tried again") {
    if (!can_corrupt()) {
        skip("shaders are hidden in a shared library");
        return;
    }
    const std::vector<vkattn_trait> traits = {
        kNoMatrices, // and whole modules, for a CorruptedDevice changes their constants
        {VKATTN_TRAIT_SPECIALISED_MODULES, 0},
        {VKATTN_TRAIT_SELF_TEST, 0},
        {VKATTN_TRAIT_SCALAR_ADDRESS_LOADS, 0}};
    vkattn_attention_desc prompt = token();
    prompt.query = prompt.output = contiguous(VKATTN_TYPE_F32, {1, 4, 37, 16}); // which flash attends by the rule
    {
        const CorruptedDevice wrong({.kernel = VKATTN_KERNEL_DECODE});
        const auto context = context_of(kAny, {}, traits, wrong.get_instance_proc_addr());
        CHECK(reason_of(*context, prompt).starts_with("flash"));
        CHECK(report(*context).measured == 1);
    }
    const CorruptedDevice loses({.kernel = VKATTN_KERNEL_DECODE, .effect = Corruption::Effect::kLosesDevice});
    const auto lost = context_of(kAny, {}, traits, loses.get_instance_proc_addr());
    try {
        reason_of(*lost, prompt);
        FAIL("the device was not lost");
    } catch (const vkattn::Error &error) {
        CHECK(error.result() == VKATTN_ERROR_DEVICE_LOST);
    }
    const auto next = context_of(kAny, save_state(*lost), traits, loses.get_instance_proc_addr());
    CHECK(!by_tuning(reason_of(*next, prompt)));
    CHECK(report(*next).spent == 0);
}

TEST_SUITE_END();
