// Modules with constants, specialised by the library: valid, without what constants rule out, and never a crash.
#include "runtime/spirv/instruction.hpp"
#include "runtime/vulkan/shader.hpp"
#include "skips.hpp"
#include "vkattn_shaders/table.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <string>

#ifdef VKATTN_HAS_SPIRV_TOOLS
#include <spirv-tools/libspirv.hpp>
#endif

using namespace vkattn;
using spirv::ConstantValue;
using vkattn_test::skip;

namespace {

using Words = std::vector<std::uint32_t>;

std::size_t count(const Words &code, std::uint32_t opcode) {
    std::size_t found = 0;
    for (std::size_t at = spirv::kHeaderWords; at < code.size(); at += code[at] >> 16)
        found += (code[at] & 0xffffu) == opcode ? 1 : 0;
    return found;
}

// As often as the environment says; once more for each shader is quick enough for every run.
int drawn_modules() {
    const char *given = std::getenv("VKATTN_DRAWN_MODULES");
    return given == nullptr ? 2 : std::atoi(given);
}

// Of any constants; of those that plans give, scripts/gpu-lab check has half of it.
constexpr std::size_t kMostGivenBytes = 128 << 10;

// The defaults at first, then numbers as tiles, types, flags and strides have them.
std::vector<ConstantValue> draw(const Shader &shader, int round, std::mt19937 &random) {
    std::vector<ConstantValue> values;
    const auto draw_below = [&](std::uint32_t end) { return static_cast<std::uint32_t>(random() % end); };
    for (const std::uint32_t id : module_facts(shader.code.words()).constant_ids) {
        if (round == 0 || draw_below(5) < 2) continue;
        const bool is_matrix_size =
            id < shader.constants.size() && std::string(shader.constants[id]).starts_with("MATRIX_");
        if (is_matrix_size) continue; // which fit each other
        constexpr std::uint32_t kSizes[] = {1, 2, 3, 4, 5, 7, 8, 12, 16, 32, 64, 80, 128, 256, 576};
        const std::uint32_t sparse = static_cast<std::uint32_t>(random() & random());
        values.push_back({id, draw_below(4) == 0 ? sparse : kSizes[draw_below(std::size(kSizes))]});
    }
    return values;
}

#ifdef VKATTN_HAS_SPIRV_TOOLS
// What SPIRV-Tools say of it; nothing where it is valid.
std::string why_invalid(const Words &code) {
    std::string message;
    const bool is_new = code[1] >= 0x10600; // of SPIR-V 1.6
    spvtools::SpirvTools tools(is_new ? SPV_ENV_VULKAN_1_3 : SPV_ENV_VULKAN_1_1);
    tools.SetMessageConsumer([&](spv_message_level_t, const char *, const spv_position_t &, const char *text) {
        if (message.empty()) message = text;
    });
    return tools.Validate(code) ? "" : message.empty() ? "invalid" : message;
}

// A module that stores numbers: constants 10 (bool), 11 and 12 (uint) can be specialised, pointer %out leads to a number of
// a buffer. `functions` follow main's body.
Words assembled(const std::string &body, const std::string &functions = "") {
    const std::string text = R"(
        OpCapability Shader
        OpMemoryModel Logical GLSL450
        OpEntryPoint GLCompute %main "main"
        OpExecutionMode %main LocalSize 1 1 1
        OpDecorate %flag SpecId 10
        OpDecorate %left SpecId 11
        OpDecorate %right SpecId 12
        OpDecorate %numbers ArrayStride 4
        OpDecorate %block Block
        OpMemberDecorate %block 0 Offset 0
        OpDecorate %buffer DescriptorSet 0
        OpDecorate %buffer Binding 0
        %void = OpTypeVoid
        %bool = OpTypeBool
        %uint = OpTypeInt 32 0
        %flag = OpSpecConstantTrue %bool
        %left = OpSpecConstant %uint 6
        %right = OpSpecConstant %uint 2
        %sum = OpSpecConstantOp %uint IAdd %left %right
        %quotient = OpSpecConstantOp %uint UDiv %left %right
        %zero = OpConstant %uint 0
        %one = OpConstant %uint 1
        %two = OpConstant %uint 2
        %eight = OpConstant %uint 8
        %numbers = OpTypeRuntimeArray %uint
        %block = OpTypeStruct %numbers
        %buffers = OpTypePointer StorageBuffer %block
        %buffer = OpVariable %buffers StorageBuffer
        %number = OpTypePointer StorageBuffer %uint
        %local = OpTypePointer Function %uint
        %nothing = OpTypeFunction %void
        %of_uint = OpTypeFunction %uint %uint
        %main = OpFunction %void None %nothing
        %begin = OpLabel
        %variable = OpVariable %local Function
        %out = OpAccessChain %number %buffer %zero %zero
        )" + body + "\nOpFunctionEnd\n" +
                             functions;
    Words code;
    std::string message;
    spvtools::SpirvTools tools(SPV_ENV_VULKAN_1_1);
    tools.SetMessageConsumer([&](spv_message_level_t, const char *, const spv_position_t &where, const char *what) {
        message = std::to_string(where.line) + ": " + what;
    });
    REQUIRE_MESSAGE(tools.Assemble(text, &code), message);
    REQUIRE_MESSAGE(tools.Validate(code), message);
    return code;
}

Words specialised(const Words &code, std::vector<ConstantValue> values) {
    Words result = spirv::specialise(code, values, "tried");
    CHECK(why_invalid(result) == "");
    CHECK(count(result, spirv::OpFunctionCall) == 0);
    CHECK(count(result, spirv::OpFunction) == 1);
    return result;
}

// The constants that the module stores to its buffer, in their order; nothing where a value is not known.
std::vector<std::uint32_t> stored(const Words &code) {
    std::map<std::uint32_t, std::uint32_t> constants;
    std::vector<std::uint32_t> values;
    for (std::size_t at = spirv::kHeaderWords; at < code.size(); at += code[at] >> 16) {
        if ((code[at] & 0xffffu) == spirv::OpConstant) constants[code[at + 2]] = code[at + 3];
        if ((code[at] & 0xffffu) != spirv::OpStore) continue;
        const auto found = constants.find(code[at + 2]);
        if (found == constants.end()) return {};
        values.push_back(found->second);
    }
    return values;
}
#endif

} // namespace

TEST_SUITE_BEGIN("spirv");

TEST_CASE("every shader becomes a valid function without constants to set, whatever they are") {
    std::mt19937 random(7);
    for (const Shader *shader : shaders::table()) {
        if (!is_built(*shader)) continue;
        INFO("shader ", std::string(shader->name));
        const Words whole = shader->code.words();
        for (int round = 0; round < drawn_modules(); ++round) {
            const Words code = spirv::specialise(whole, draw(*shader, round, random), shader->name);
            CHECK(module_facts(code).constant_ids.empty());
            CHECK(count(code, spirv::OpFunctionCall) == 0);
            CHECK(count(code, spirv::OpSpecConstantOp) == 0);
            CHECK(code.size() * sizeof code[0] <= kMostGivenBytes);
#ifdef VKATTN_HAS_SPIRV_TOOLS
            const std::string why = why_invalid(code);
            const bool is_empty_array = why.find("OpTypeArray Length") != why.npos; // of sizes that no plan has
            CHECK_MESSAGE((why.empty() || is_empty_array), why);
#endif
        }
    }
#ifndef VKATTN_HAS_SPIRV_TOOLS
    skip("no SPIRV-Tools");
#endif
}

TEST_CASE("functions that matrices call for their elements stay, specialised, behind the entry point") {
    if (!is_built(shaders::coopmat2)) return skip("no coopmat2 in this build");
    const Words whole = shaders::coopmat2.code.words(), code = spirv::specialise(whole, {}, "tried");
    CHECK(count(code, spirv::OpCooperativeMatrixPerElementOpNV) > 0);
    CHECK(count(code, spirv::OpFunction) == 6); // the entry point, and what masks, maxima, sums and weights take
    CHECK(count(whole, spirv::OpFunction) > 100);
    std::size_t at = spirv::kHeaderWords;
    while ((code[at] & 0xffffu) != spirv::OpFunction) at += code[at] >> 16;
    std::size_t entry = spirv::kHeaderWords;
    while ((code[entry] & 0xffffu) != spirv::OpEntryPoint) entry += code[entry] >> 16;
    CHECK(code[at + 2] == code[entry + 2]); // drivers take it for the first one
}

TEST_CASE("a damaged module is refused or specialised, and reads nothing beyond itself") {
    std::mt19937 random(11);
    const auto damage = [&](Words code, const std::vector<ConstantValue> &values) {
        for (int i = 0; i < 3; ++i)
            code[random() % code.size()] = static_cast<std::uint32_t>(random()) >> random() % 32;
        if (random() % 4 == 0) code.resize(random() % code.size());
        try {
            return !spirv::specialise(code, values, "damaged").empty();
        } catch (const spirv::CannotSpecialise &error) {
            return *error.what() != '\0';
        }
    };
    for (const Shader *shader :
         {&shaders::merge_parts, &shaders::select, &shaders::sort_lists, &shaders::linear_vector, &shaders::coopmat2})
        for (int round = 0; round < 32 * drawn_modules() && is_built(*shader); ++round)
            CHECK(damage(shader->code.words(), draw(*shader, round, random)));
    for (const Words &code :
         {Words{}, Words{1, 2, 3}, Words{0x07230203, 0x10300, 0, 5, 0}, Words{0x07230203, 0x10300, 0, 4, 0, 0}})
        CHECK_THROWS_AS(spirv::specialise(code, {}, "short"), spirv::CannotSpecialise);
}

#ifdef VKATTN_HAS_SPIRV_TOOLS
TEST_CASE("constants and what is computed of them become numbers; a quotient by zero that nothing uses does no harm") {
    const Words code = assembled("OpStore %out %sum\nOpReturn");
    CHECK(stored(specialised(code, {})) == Words{8});
    CHECK(stored(specialised(code, {{11, 40}, {12, 0}})) == Words{40});
}

TEST_CASE("a branch on a constant is taken, and leaves no construct") {
    const Words code = assembled(R"(OpStore %variable %zero
        OpSelectionMerge %end None
        OpBranchConditional %flag %then %else
        %then = OpLabel
        OpStore %variable %left
        OpBranch %end
        %else = OpLabel
        OpStore %variable %right
        OpBranch %end
        %end = OpLabel
        %value = OpLoad %uint %variable
        OpStore %out %value
        OpReturn)");
    for (const std::uint32_t flag : {0u, 1u}) {
        const Words result = specialised(code, {{10, flag}});
        CHECK(stored(result) == Words{flag != 0 ? 6u : 2u}); // the variable is gone, too
        CHECK(count(result, spirv::OpLabel) == 1);
        CHECK(count(result, spirv::OpVariable) == 1);
    }
}

TEST_CASE("a decided selection that is left from within stays a construct") {
    const Words code = assembled(R"(%some = OpLoad %uint %out
        %is_one = OpIEqual %bool %some %one
        OpSelectionMerge %end None
        OpSwitch %left %default 6 %six 7 %seven
        %default = OpLabel
        OpBranch %end
        %seven = OpLabel
        OpStore %out %two
        OpBranch %end
        %six = OpLabel
        OpSelectionMerge %after None
        OpBranchConditional %is_one %leave %after
        %leave = OpLabel
        OpBranch %end
        %after = OpLabel
        OpStore %out %one
        OpBranch %end
        %end = OpLabel
        OpReturn)");
    const Words six = specialised(code, {});
    CHECK(stored(six) == Words{1});
    CHECK(count(six, spirv::OpSelectionMerge) == 2);
    CHECK(stored(specialised(code, {{11, 7}})) == Words{2});
    CHECK(stored(specialised(code, {{11, 8}})).empty());
}

TEST_CASE("a loop that never goes back is none, one that may keeps what it changes in a variable") {
    const std::string loop = R"(OpStore %variable %zero
        OpBranch %header
        %header = OpLabel
        OpLoopMerge %end %next None
        OpBranch %condition
        %condition = OpLabel
        %i = OpLoad %uint %variable
        %goes_on = OpULessThan %bool COUNTER %left
        OpBranchConditional %goes_on %loop %end
        %loop = OpLabel
        OpStore %out %right
        BRANCH
        %next = OpLabel
        %before = OpLoad %uint %variable
        %after = OpIAdd %uint %before %one
        OpStore %variable %after
        OpBranch %header
        %end = OpLabel
        OpReturn)";
    const auto with = [&](const std::string &counter, const std::string &branch) {
        std::string text = loop;
        text.replace(text.find("COUNTER"), 7, counter);
        text.replace(text.find("BRANCH"), 6, branch);
        return assembled(text);
    };
    const Words once = specialised(with("%zero", "OpBranch %end"), {});
    CHECK(count(once, spirv::OpLoopMerge) == 0);
    CHECK(stored(once) == Words{2});
    const Words left_early = specialised(with("%i", "OpBranch %end"), {}); // from two places
    CHECK(count(left_early, spirv::OpLoopMerge) == 1);
    const Words often = specialised(with("%i", "OpBranch %next"), {});
    CHECK(count(often, spirv::OpLoopMerge) == 1);
    CHECK(count(often, spirv::OpVariable) == 2);
    // nothing is less than zero
    CHECK(stored(specialised(with("%i", "OpBranch %next"), {{11, 0}})).empty());
}

TEST_CASE("a function that returns from several places is inlined where it is called, each time by its arguments") {
    const std::string callee = R"(%callee = OpFunction %uint None %of_uint
        %given = OpFunctionParameter %uint
        %first = OpLabel
        %is_two = OpIEqual %bool %given %two
        OpSelectionMerge %rest None
        OpBranchConditional %is_two %early %rest
        %early = OpLabel
        OpReturnValue %eight
        %rest = OpLabel
        %more = OpIAdd %uint %given %one
        OpReturnValue %more
        OpFunctionEnd)";
    const Words known = specialised(assembled(R"(%a = OpFunctionCall %uint %callee %left
        OpStore %out %a
        %b = OpFunctionCall %uint %callee %right
        OpStore %out %b
        OpReturn)",
                                              callee),
                                    {});
    CHECK(stored(known) == Words{7, 8});
    CHECK(count(known, spirv::OpLabel) == 1);
    const Words unknown = specialised(assembled(R"(%some = OpLoad %uint %out
        %a = OpFunctionCall %uint %callee %some
        OpStore %out %a
        OpReturn)",
                                                callee),
                                      {});
    CHECK(count(unknown, spirv::OpPhi) == 1);
}

TEST_CASE("a phi of one way is its value, of several ways a phi") {
    const std::string body = R"(%some = OpLoad %uint %out
        %is_one = OpIEqual %bool %some CONDITION
        OpSelectionMerge %end None
        OpBranchConditional %is_one %then %end
        %then = OpLabel
        OpBranch %end
        %end = OpLabel
        %phi = OpPhi %uint %left %begin %right %then
        OpStore %out %phi
        OpReturn)";
    std::string decided = body, open = body;
    decided.replace(decided.find("%is_one %then"), 7, "%flag");
    decided.replace(decided.find("CONDITION"), 9, "%one");
    open.replace(open.find("CONDITION"), 9, "%one");
    CHECK(stored(specialised(assembled(decided), {{10, 0}})) == Words{6});
    CHECK(count(specialised(assembled(open), {}), spirv::OpPhi) == 1);
    CHECK(count(specialised(assembled(open), {{12, 6}}), spirv::OpPhi) == 0); // both are 6
}

TEST_CASE("what a function calls itself for, or is not there, is refused") {
    Words code = assembled("%a = OpFunctionCall %uint %callee %left\nOpStore %out %a\nOpReturn", R"(
        %callee = OpFunction %uint None %of_uint
        %given = OpFunctionParameter %uint
        %first = OpLabel
        OpReturnValue %given
        OpFunctionEnd)");
    CHECK(stored(specialised(code, {})) == Words{6});
    for (std::size_t at = spirv::kHeaderWords; at < code.size(); at += code[at] >> 16)
        if ((code[at] & 0xffffu) == spirv::OpFunctionCall) code[at + 3] = code[at + 2];
    CHECK_THROWS_AS(spirv::specialise(code, {}, "tried"), spirv::CannotSpecialise);
}
#endif

TEST_SUITE_END();
