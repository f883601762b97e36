// SPIR-V that is not the library's own: what is read of it is there, and what would end a driver is refused.
#include "runtime/spirv/numbers.hpp"
#include "runtime/vulkan/shader.hpp"

#include "vkattn_shaders/table.hpp"

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

using namespace vkattn;
using namespace vkattn::spirv;

namespace {

using Words = std::vector<uint32_t>;

// A module of these instructions.
Words module_of(std::initializer_list<Words> instructions) {
    Words code{kMagic, 0x00010300, 0, 100, 0};
    for (const Words &words : instructions) {
        code.push_back(static_cast<uint32_t>(words.size()) << 16 | words[0]);
        code.insert(code.end(), words.begin() + 1, words.end());
    }
    return code;
}

// A variable of a function's own: so many vectors of four floats.
Words array_module(uint32_t length) {
    return module_of({{OpTypeInt, 1, 32, 0},
                      {OpTypeFloat, 2, 32},
                      {OpTypeVector, 3, 2, 4},
                      {OpConstant, 1, 4, length},
                      {OpTypeArray, 5, 3, 4},
                      {OpTypePointer, 6, kFunction, 5},
                      {OpVariable, 6, 7, 7}});
}

} // namespace

TEST_SUITE_BEGIN("modules");

TEST_CASE("the library's own modules have no fault") {
    size_t built = 0;
    for (const Shader *shader : shaders::table()) {
        if (!is_built(*shader)) continue;
        const std::string fault = module_fault(shader->code.words());
        CHECK_MESSAGE(fault.empty(), shader->name << ": " << fault);
        ++built;
    }
    CHECK(built >= 20);
}

TEST_CASE("a module that is not whole is refused") {
    CHECK(module_fault({}) == "no SPIR-V, expected a module");
    CHECK(module_fault(Words{kMagic, 0, 0, 0}) == "no SPIR-V, expected a module");
    CHECK(module_fault(Words{1, 0, 0, 0, 0}) == "no SPIR-V, expected a module");
    CHECK(module_fault(module_of({})).empty());
    // a decoration that ends a word early, once read beyond the module
    CHECK(module_fault(Words{kMagic, 0x00010300, 0, 10, 0, 4u << 16 | OpDecorate, 5, kBinding}) ==
          "an instruction of 4 words at word 5 of 8, expected at least 3, within the module");
    CHECK(module_fault(Words{kMagic, 0x00010300, 0, 10, 0, 0}).starts_with("an instruction of 0 words"));
    CHECK(module_fault(module_of({{OpVariable, 1, 2}})).starts_with("an instruction of 3 words"));
    const Words whole = array_module(4);
    CHECK(module_fault(whole).empty());
    for (size_t words = 6; words < whole.size(); ++words) {
        const std::string fault = module_fault(std::span(whole).first(words));
        if (!fault.empty()) CHECK(fault.starts_with("an instruction of "));
    }
}

TEST_CASE("resources that no call binds, and arrays that no compiler of a driver ends with, are refused") {
    CHECK(module_fault(module_of({{OpDecorate, 9, kBinding, 63}, {OpDecorate, 9, kDescriptorSet, 0}})).empty());
    CHECK(module_fault(module_of({{OpDecorate, 9, kBinding, 64}})) ==
          "a resource of binding 64, expected one below 64");
    CHECK(module_fault(module_of({{OpDecorate, 9, kDescriptorSet, 1}})) ==
          "a resource of descriptor set 1, expected those of set 0 alone");
    CHECK(module_fault(array_module(256)).empty());
    CHECK(module_fault(array_module(257)) ==
          "an array of 4112 bytes in functions, expected at most 4096: a captured tensor holds many numbers");
    CHECK(module_fault(array_module(0xffffffffu)).starts_with("an array of "));
}

TEST_CASE("what is read of a module without a fault is inside it") { // AddressSanitizer watches
    std::mt19937 random(9);
    std::vector<const Shader *> built;
    for (const Shader *shader : shaders::table())
        if (is_built(*shader) && shader->code.word_count() < 6000) built.push_back(shader);
    for (int round = 0; round < 300; ++round) {
        const Shader &shader = *built[random() % built.size()];
        Words code = shader.code.words();
        code.resize(5 + random() % (code.size() - 4));
        for (int change = 0; change < 3; ++change) code[random() % code.size()] = static_cast<uint32_t>(random());
        code.shrink_to_fit();
        if (!module_fault(code).empty()) continue;
        const ModuleFacts facts = module_facts(code);
        CHECK(renumber_bindings(code, facts.bindings).size() == code.size());
        CHECK((facts.written & ~facts.bindings) == 0);
    }
}

TEST_SUITE_END();
