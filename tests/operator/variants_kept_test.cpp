// What is compiled for a variant's text: how long it is kept, saved states, and files that are compiled ahead.
#include "attention_draws.hpp"
#include "backward_calls.hpp"
#include "counted_vulkan.hpp"
#include "limited_device.hpp"
#include "variant_gallery.hpp"

#include "runtime/vulkan/variant_file.hpp"

#include <vkattn/jit.hpp>

#include <doctest/doctest.h>

#include <ctime>
#include <functional>
#include <map>
#include <optional>

using namespace vkattn_test;

TEST_SUITE_BEGIN("variants");

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
