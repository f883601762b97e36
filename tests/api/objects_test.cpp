// Objects of the C ABI: what they keep of each other, what plans tell of themselves, which plans a context shares.
#include "device.hpp"
#include "small_decoder.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

using namespace vkattn_test;

namespace {

vkattn_attention_desc unfused_desc() {
    vkattn_attention_desc desc{};
    desc.query = desc.output = vkattn::tensor(VKATTN_TYPE_F32, {1, 2, 3, 8});
    desc.key = desc.value = vkattn::tensor(VKATTN_TYPE_F32, {1, 2, 5, 8});
    desc.kernel = VKATTN_KERNEL_UNFUSED;
    return desc;
}

// Two replays of a program of one step of a cache; between them, all but the program goes, in the order of `destroy`'s numbers.
std::vector<std::uint32_t> second_token(std::span<const int> destroy) {
    const ContextRequest request("self_test=0");
    vkattn::Context context(request.info);
    vkattn::Layer layer = small_layer(context);
    vkattn_cache_info info{};
    info.layer = layer.get();
    info.batch = 1;
    info.capacity = 4;
    info.key_type = info.value_type = VKATTN_TYPE_F32;
    vkattn::Cache cache = context.cache(info);
    vkattn_layer_call call{};
    call.query = call.output = vkattn::tensor(VKATTN_TYPE_F32, {1, 1, kDecoderWidth});
    call.cache = cache.get();
    vkattn::Plan plan = layer.plan(call);
    vkattn::Buffer in = context.buffer(call.query);
    const vkattn::Buffer out = context.buffer(call.output);
    const std::array bindings{vkattn::bind(VKATTN_ROLE_QUERY, in), vkattn::bind(VKATTN_ROLE_OUTPUT, out)};
    const vkattn::Program program = context.program({vkattn::bind(plan, bindings)});
    std::vector<float> token(kDecoderWidth, 0.5f);
    in.write(token);
    program.run();
    for (const int number : destroy) {
        if (number == 0) context = vkattn::Context(nullptr);
        if (number == 1) layer = vkattn::Layer();
        if (number == 2) cache = vkattn::Cache();
        if (number == 3) plan = vkattn::Plan();
    }
    token.assign(kDecoderWidth, -0.25f);
    in.write(token);
    program.run();
    std::vector<std::uint32_t> bits(kDecoderWidth);
    out.read(bits);
    return bits;
}

} // namespace

TEST_SUITE_BEGIN("api");

TEST_CASE_FIXTURE(DeviceTest, "what was made with an object keeps what it needs of it, in whichever order they go") {
    const std::vector<std::uint32_t> expected = second_token({});
    for (const std::array<int, 4> &order : {std::array{0, 1, 2, 3}, {3, 2, 1, 0}, {2, 0, 3, 1}})
        CHECK(second_token(order) == expected);
}

TEST_CASE_FIXTURE(DeviceTest, "a plan lists what it binds, and takes exactly that") {
    const vkattn::Context &context = test_device().context();
    const vkattn_attention_desc desc = unfused_desc();
    const vkattn::Plan plan = context.attention_plan(desc);
    const vkattn::List<vkattn_plan_binding> all = plan.bindings();
    const std::pair<vkattn_role, std::uint64_t> expected[] = {
        {VKATTN_ROLE_WORKSPACE, plan.requirements().workspace_bytes},
        {VKATTN_ROLE_QUERY, vkattn_tensor_bytes(&desc.query)},
        {VKATTN_ROLE_KEY, vkattn_tensor_bytes(&desc.key)},
        {VKATTN_ROLE_VALUE, vkattn_tensor_bytes(&desc.value)},
        {VKATTN_ROLE_OUTPUT, vkattn_tensor_bytes(&desc.output)}};
    REQUIRE(all.size() == std::size(expected));
    std::vector<vkattn::Buffer> buffers;
    std::vector<vkattn_binding> bindings;
    for (std::size_t i = 0; i < all.size(); ++i) {
        CHECK(all[i].role == expected[i].first);
        CHECK(all[i].bytes == expected[i].second);
        CHECK(std::string(all[i].name) == vkattn_role_name(all[i].role));
        CHECK((all[i].is_written != 0) == (i == 0 || all[i].role == VKATTN_ROLE_OUTPUT));
        buffers.push_back(context.buffer(all[i].alignment + all[i].bytes));
        bindings.push_back(vkattn::bind(all[i].role, buffers.back().vulkan(), all[i].alignment, all[i].bytes));
    }
    CHECK(all[0].alignment == plan.requirements().workspace_alignment);
    CHECK_NOTHROW(plan.run(bindings));
    for (std::size_t i = 0; i < bindings.size(); ++i) {
        std::vector<vkattn_binding> smaller = bindings;
        smaller[i].region.bytes -= 1;
        CHECK_THROWS_WITH_AS(plan.run(smaller), doctest::Contains(all[i].name), vkattn::Error);
    }
    CHECK(std::string(vkattn_role_name(VKATTN_ROLE_COUNT)) == "unknown");
    vkattn_list none = nullptr;
    CHECK(vkattn_plan_bindings(nullptr, &none) == VKATTN_ERROR_INVALID_ARGUMENT);
    CHECK(none == nullptr);
}

TEST_CASE_FIXTURE(DeviceTest, "what a plan would take is what it takes") {
    const vkattn::Context &context = test_device().context();
    const auto check = [](const vkattn_measure &measure, const vkattn::Plan &plan) {
        CHECK(measure.workspace_bytes == plan.requirements().workspace_bytes);
        CHECK(measure.dispatches == plan.report().dispatches);
        CHECK(measure.kernel == plan.report().kernel);
    };
    vkattn_attention_desc desc = unfused_desc();
    check(context.measure(desc), context.attention_plan(desc));
    desc.kernel = VKATTN_KERNEL_AUTO;
    check(context.measure(desc), context.attention_plan(desc));
    vkattn_linear_desc linear{};
    linear.input = vkattn::tensor(VKATTN_TYPE_F32, {1, 40, 24});
    linear.weight = vkattn::tensor(VKATTN_TYPE_F32, {16, 24});
    linear.output = vkattn::tensor(VKATTN_TYPE_F32, {1, 40, 16});
    check(context.measure(linear), context.linear_plan(linear));
    linear.norm_weight = vkattn::tensor(VKATTN_TYPE_F32, {24}); // of many rows, in the workspace
    check(context.measure(linear), context.linear_plan(linear));
    linear.output.shape[2] = 15;
    CHECK_THROWS_WITH_AS(context.measure(linear), doctest::Contains("output: "), vkattn::Error);
}

TEST_CASE_FIXTURE(DeviceTest, "plans of the same description are one, as many as the context was asked to keep") {
    const auto same = [](const vkattn::Plan &a, const vkattn::Plan &b) {
        return a.report().reason == b.report().reason;
    };
    ContextRequest request("self_test=0");
    for (const std::uint32_t kept : {0u, 2u}) {
        CAPTURE(kept);
        request.info.shared_plan_count = kept;
        const vkattn::Context context(request.info);
        vkattn_attention_desc desc = unfused_desc();
        const vkattn::Plan first = context.attention_plan(desc);
        CHECK(same(first, context.attention_plan(desc)) == (kept > 0));
        desc.query = vkattn::tensor(VKATTN_TYPE_F32, {1, 2, 3, 8}, {48, 24, 8, 1}); // as contiguous as without
        CHECK(same(first, context.attention_plan(desc)) == (kept > 0));
        std::vector<vkattn::Plan> others;
        for (const float scale : {0.0f, 0.5f}) {
            desc.scale = scale;
            others.push_back(context.attention_plan(desc));
            CHECK(!same(first, others.back()));
        }
        CHECK(same(others[1], context.attention_plan(desc)) == (kept > 0));
        CHECK(!same(first, context.attention_plan(unfused_desc()))); // the third last
    }
}

TEST_CASE_FIXTURE(DeviceTest, "plans that were shared before tuning or a self-test are not shared after it") {
    ContextRequest request("self_test=0");
    request.info.shared_plan_count = 2;
    const vkattn::Context context(request.info);
    vkattn_attention_desc desc = unfused_desc();
    desc.kernel = VKATTN_KERNEL_AUTO;
    std::vector<vkattn::Plan> plans;
    const auto is_new = [&] {
        plans.push_back(context.attention_plan(desc));
        return std::ranges::none_of(plans.begin(), plans.end() - 1, [&](const vkattn::Plan &each) {
            return each.report().reason == plans.back().report().reason;
        });
    };
    CHECK(is_new());
    CHECK(!is_new());
    (void)context.tune(desc);
    CHECK(is_new());
    CHECK(!is_new());
    (void)context.self_test();
    CHECK(is_new());
}

TEST_CASE_FIXTURE(DeviceTest, "of a failure the thread is told the argument, the entry and the message") {
    const vkattn::Context &context = test_device().context();
    std::vector<vkattn_attention_desc> descs(3, unfused_desc());
    descs[1].softcap = -1.0f;
    CHECK(vkattn_prewarm(context.get(), descs.data(), 3, 1) == VKATTN_ERROR_INVALID_ARGUMENT);
    const vkattn_failure &failure = *vkattn_last_failure();
    CHECK(failure.result == VKATTN_ERROR_INVALID_ARGUMENT);
    CHECK(std::string(failure.message) == vkattn_last_error());
    CHECK(std::string(failure.member).starts_with("descs[1]"));
    CHECK(failure.entry == 1);
    CHECK(failure.line == 0);
    CHECK_THROWS_AS(context.attention_plan(descs[1]), vkattn::Error);
    CHECK(std::string(vkattn_last_failure()->member) == "softcap");
    CHECK(vkattn_last_failure()->entry == UINT32_MAX);
    vkattn_failure elsewhere{VKATTN_ERROR_INTERNAL, nullptr, nullptr, 0, 0, 0};
    std::thread([&] { elsewhere = *vkattn_last_failure(); }).join();
    CHECK(elsewhere.result == VKATTN_SUCCESS);
}

TEST_SUITE_END();
