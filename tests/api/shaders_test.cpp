// What the driver's compiler says of a plan's pipelines, on drivers that say anything: those of GPUs.
#include "device.hpp"
#include "skips.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

using namespace vkattn_test;

namespace {

vkattn_context_info capturing(vkattn_shader_capture capture) {
    static const ContextRequest request;
    vkattn_context_info info = request.info;
    info.message_callback = ValidationMessages::callback;
    info.message_user = &validation_messages();
    info.enable_validation = validation_wanted() ? 1 : 0;
    info.capture_shaders = capture;
    return info;
}

vkattn::Plan long_decode(const vkattn::Context &context) {
    vkattn_attention_desc desc{};
    desc.query = vkattn::tensor(VKATTN_TYPE_F16, {1, 8, 1, 64});
    desc.key = desc.value = vkattn::tensor(VKATTN_TYPE_F16, {1, 2, 4096, 64});
    desc.output = desc.query;
    return context.attention_plan(desc);
}

// 0 for one that the module does not read.
std::uint32_t constant_of(const vkattn_shader &shader, const std::string &name) {
    const std::span constants(shader.constants, shader.constant_count);
    const auto found = std::ranges::find_if(constants, [&](const auto &constant) { return constant.name == name; });
    return found == constants.end() ? 0 : found->value;
}

bool tells_of_shaders() { return test_device().facts().pipeline_executable_properties != 0; }

bool skips_shaders() {
    if (!tells_of_shaders()) skip("no VK_KHR_pipeline_executable_properties");
    return !tells_of_shaders();
}

} // namespace

TEST_SUITE("shaders") {

    TEST_CASE_FIXTURE(DeviceTest, "a plan of a context that captures nothing has no shaders to tell of") {
        const vkattn::Plan plan = long_decode(test_device().context());
        vkattn_list shaders = nullptr;
        CHECK(vkattn_plan_shaders(plan.get(), &shaders) == VKATTN_ERROR_UNSUPPORTED);
        CHECK(std::string(vkattn_last_error()).find("capture_shaders") != std::string::npos);
        CHECK(vkattn_plan_shaders(nullptr, &shaders) == VKATTN_ERROR_INVALID_ARGUMENT);
        CHECK(vkattn_plan_shaders(plan.get(), nullptr) == VKATTN_ERROR_INVALID_ARGUMENT);
    }

    TEST_CASE_FIXTURE(DeviceTest,
                      "capture_shaders is refused by name where the driver tells nothing, or the value is unknown") {
        vkattn_context context = nullptr;
        vkattn_context_info info = capturing(static_cast<vkattn_shader_capture>(7));
        CHECK(vkattn_context_create(&info, &context) == VKATTN_ERROR_INVALID_ARGUMENT);
        CHECK(std::string(vkattn_last_error()).starts_with("capture_shaders: 7"));
        if (tells_of_shaders()) return;
        info = capturing(VKATTN_SHADER_CAPTURE_STATISTICS);
        CHECK(vkattn_context_create(&info, &context) == VKATTN_ERROR_UNSUPPORTED);
        CHECK(std::string(vkattn_last_error()).find("VK_KHR_pipeline_executable_properties") != std::string::npos);
    }

    TEST_CASE_FIXTURE(DeviceTest, "each pipeline of a plan stands once, with its constants, figures and texts") {
        if (skips_shaders()) return;
        const vkattn::Context context(capturing(VKATTN_SHADER_CAPTURE_TEXTS));
        const vkattn::Plan plan = long_decode(context);
        const vkattn::List<vkattn_shader> shaders = plan.shaders();
        REQUIRE(!shaders.empty());
        std::uint32_t dispatches = 0;
        for (const vkattn_shader &shader : shaders) {
            dispatches += shader.dispatches;
            CHECK(shader.compile_ms > 0.0);
            CHECK(shader.spirv_bytes > 1000);
            CHECK(shader.spirv_bytes <= 64 << 10);
            CHECK(shader.workgroup_size >= 1);
            CHECK(shader.workgroup_size <= context.facts().max_workgroup_invocations);
            CHECK(constant_of(shader, "V_HEAD_DIM") == 64);
            CHECK(constant_of(shader, "SCORE_STAGE") == 0); // which neither flash nor merge_parts reads
            CHECK(shader.statistic_count > 0);
            for (std::uint32_t i = 0; i < shader.text_count; ++i) CHECK(std::strlen(shader.texts[i].text) > 0);
        }
        CHECK(dispatches == plan.report().dispatches);
        CHECK(&plan.shaders().front() == &shaders.front()); // asked once
    }

    TEST_CASE_FIXTURE(DeviceTest, "statistics alone come without texts") {
        if (skips_shaders()) return;
        const vkattn::Context context(capturing(VKATTN_SHADER_CAPTURE_STATISTICS));
        const vkattn::Plan plan = long_decode(context);
        for (const vkattn_shader &shader : plan.shaders()) {
            CHECK(shader.statistic_count > 0);
            CHECK(shader.text_count == 0);
        }
    }

} // TEST_SUITE
