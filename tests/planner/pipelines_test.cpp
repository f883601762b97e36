// When a pipeline is compiled, and when one that is there serves.
#include "runtime/ops/attention.hpp"
#include "runtime/ops/operators.hpp"
#include "runtime/problem/tensor.hpp"
#include "shaders/interface/attention.h"
#include "shaders/interface/linear_attention.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <optional>
#include <string>

using namespace vkattn;

namespace {

// The device of the other tests; a message of the validation layer fails the test.
vkattn_context_info test_context() {
    const char *validation = std::getenv("VKATTN_VALIDATION");
    vkattn_context_info info{};
    info.device_selector = std::getenv("VKATTN_TEST_DEVICE");
    info.message_callback = [](void *, vkattn_severity, const char *message) { FAIL_CHECK(std::string(message)); };
    info.enable_validation = validation != nullptr && *validation == '1' ? 1 : 0;
    return info;
}

// The SPIR-V specification's numbers.
enum : std::uint32_t { kOpCapability = 17, kFloat16 = 9, kBfloat16 = 5116, kDotProductFloat16AccFloat32 = 6912 };

bool declares(const Shader &shader, std::uint32_t capability) {
    const std::vector<std::uint32_t> code = shader.code.words();
    for (std::size_t at = 5; at < code.size() && (code[at] & 0xffffu) == kOpCapability; at += code[at] >> 16)
        if (code[at + 1] == capability) return true;
    return false;
}

// One query over grouped f16 keys: a step of decoding.
void plan_decode(Context &context, std::uint64_t kv_len) {
    vkattn_attention_desc desc{};
    desc.query = desc.output = contiguous(VKATTN_TYPE_F16, {1, 32, 1, 128});
    desc.key = desc.value = contiguous(VKATTN_TYPE_F16, {1, 8, kv_len, 128});
    const AttentionProblem problem = check_attention(desc);
    PlanBuilder builder(context);
    add_attention(builder, problem, roles_of(problem));
    builder.build();
}

constexpr BindingSet kBindingsOfMerge = 1u << BINDING_OUTPUT | 1u << BINDING_SCORES;

const Pipeline &merge_pipeline(Context &context, const gpu::AttentionConstants &constants) {
    return context.pipelines().get(shaders::merge_parts, kBindingsOfMerge,
                                   {reinterpret_cast<const std::uint32_t *>(&constants), sizeof constants / 4});
}

} // namespace

TEST_SUITE_BEGIN("pipelines");

// But once: a short context that would leave half of a device idle is attended in tiles of fewer rows.
TEST_CASE("a growing context compiles nothing new") {
    Context context(test_context());
    plan_decode(context, 512);
    const std::size_t compiled = context.pipelines().count();
    CHECK(compiled > 0);
    const bool fills_late = context.caps().traits.parallel_workgroups > 256;
    for (std::uint64_t kv_len = 1024; kv_len <= 131072; kv_len *= 2) {
        INFO("kv_len ", kv_len);
        plan_decode(context, kv_len - 249);
        plan_decode(context, kv_len);
        const std::size_t count = context.pipelines().count();
        CHECK((count == compiled || (fills_late && count == compiled + 1)));
    }
}

TEST_CASE("16-bit floats are declared by those modules alone that are chosen where they are enabled") {
    for (const Shader *shader : shaders::table()) {
        INFO("shader ", std::string(shader->name));
        const bool takes_halves =
            shader->matrices == VKATTN_TYPE_F16 || declares(*shader, kDotProductFloat16AccFloat32);
        CHECK((takes_halves || !declares(*shader, kFloat16)));
        CHECK((shader->matrices == VKATTN_TYPE_BF16 || !declares(*shader, kBfloat16)));
    }
}

TEST_CASE("a constant that a module does not read makes no new pipeline") {
    Context context(test_context());
    gpu::AttentionConstants constants;
    constants.FEATURES = FEATURE_PARTS;
    const Pipeline &merge = merge_pipeline(context, constants);
    constants.KEY_FORMAT = VKATTN_TYPE_Q4_0;
    constants.HEAD_DIM = 96;
    constants.KEY_ROW_BYTES = 36;
    CHECK(&merge_pipeline(context, constants) == &merge);
    constants.V_HEAD_DIM = 96;
    CHECK(&merge_pipeline(context, constants) != &merge);
    CHECK(context.pipelines().count() == 2);
}

TEST_CASE("a pipeline binds what the call binds of what its module uses") {
    Context context(test_context());
    const Pipeline &merge = context.pipelines().get(shaders::merge_parts, kBindingsOfMerge | 1u << BINDING_QUERY, {});
    CHECK(merge.bindings == kBindingsOfMerge);
}

TEST_CASE("used bindings are numbered in their order, the others share one of their own kind") {
    const std::vector<std::uint32_t> code = shaders::merge_parts.code.words();
    const BindingSet declared = module_facts(code).bindings;
    for (const std::uint32_t binding : {BINDING_OUTPUT, BINDING_SCORES, BINDING_SINKS, ATTENTION_BINDINGS})
        CHECK((declared >> binding & 1) == 1);
    CHECK((declared >> BINDING_QUERY & 1) == 0);
    const std::vector<std::uint32_t> renumbered = renumber_bindings(code, kBindingsOfMerge);
    CHECK(module_facts(renumbered).bindings == 0b111); // the two, and the uniform block
    CHECK(renumbered.size() == code.size());
    CHECK(module_facts(renumber_bindings(code, declared & ~(BindingSet{1} << ATTENTION_BINDINGS))).bindings ==
          (1u << std::popcount(declared)) - 1);
}

TEST_CASE("the specialisation constants of a module are those that its functions need") {
    const std::vector<std::uint32_t> ids = module_facts(shaders::merge_parts.code.words()).constant_ids;
    using Index = gpu::AttentionConstants::Index;
    const auto reads = [&](Index index) { return std::ranges::binary_search(ids, static_cast<std::uint32_t>(index)); };
    CHECK(std::ranges::adjacent_find(ids) == ids.end());
    CHECK(reads(Index::V_HEAD_DIM));
    CHECK(reads(Index::WORKGROUP_SIZE));
    CHECK(module_facts(shaders::advance_lengths.code.words()).constant_ids == std::vector<std::uint32_t>{0});
}

TEST_CASE("each constant that a shader reads has a name in its interface, but for the device's own") {
    REQUIRE(std::ranges::find(shaders::table(), &shaders::merge_parts) != shaders::table().end());
    for (const Shader *shader : shaders::table()) {
        INFO("shader ", std::string(shader->name));
        const ModuleFacts facts = module_facts(shader->code.words());
        for (const std::uint32_t id : facts.constant_ids)
            CHECK((id < shader->constants.size() || id == CONSTANT_UNPACKS_HALVES));
        if (!is_built(*shader)) continue;
        std::optional<std::uint32_t> uniforms; // the block's number, of the interfaces that have one
        if (shader->constants.data() == shaders::flash.constants.data()) uniforms = ATTENTION_BINDINGS;
        if (shader->constants.data() == shaders::linear_attention_states.constants.data())
            uniforms = LINEAR_ATTENTION_BINDINGS;
        CHECK(facts.uniforms == uniforms);
    }
}

TEST_CASE("a packed append has invocations for its rows, whatever the number of sequences") {
    Context context(test_context());
    const auto invocations = [&](std::uint64_t sequences) {
        vkattn_kv_append_desc desc{};
        desc.source = contiguous(VKATTN_TYPE_F32, {1, 2, 4096, 64});
        desc.cache = contiguous(VKATTN_TYPE_F16, {sequences, 2, 16, 64});
        desc.cu_seqlens = contiguous(VKATTN_TYPE_I32, {sequences + 1});
        desc.past_lengths = contiguous(VKATTN_TYPE_I32, {sequences});
        PlanBuilder builder(context, PlanBuilder::Purpose::kMeasure);
        plan_kv_append(builder, desc);
        const Grid groups = builder.build()->steps().at(0).groups;
        return std::uint64_t{groups[0]} * groups[1] * groups[2] * 64;
    };
    CHECK(invocations(1024) == 2 * 4096 * 16); // four elements each
    CHECK(invocations(1) == invocations(1024));
}

TEST_SUITE_END();
