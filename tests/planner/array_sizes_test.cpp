// No driver computes the size of an array in shared memory: the host does, and gives it as a constant.
#include "spirv_shared_memory.hpp"

#include "runtime/vulkan/array_sizes.hpp"
#include "runtime/vulkan/shader.hpp"
#include "vkattn_shaders/table.hpp"

#include <doctest/doctest.h>

#include <map>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

// Arrays of workgroup variables whose length is computed: OpTypeArray (28), OpTypePointer (32), OpSpecConstantOp (52) and
// OpVariable (59) of the SPIR-V specification.
std::size_t computed_arrays(const std::vector<std::uint32_t> &code) {
    constexpr std::uint32_t kWorkgroup = 4;
    std::map<std::uint32_t, std::uint32_t> lengths, pointees;
    std::set<std::uint32_t> computed;
    std::size_t count = 0;
    for (std::size_t at = 5; at < code.size(); at += code[at] >> 16U) {
        REQUIRE((code[at] >> 16U) != 0);
        const std::uint32_t opcode = code[at] & 0xffffU;
        if (opcode == 28) lengths[code[at + 1]] = code[at + 3];
        if (opcode == 32) pointees[code[at + 1]] = code[at + 3];
        if (opcode == 52) computed.insert(code[at + 2]);
        if (opcode != 59 || code[at + 3] != kWorkgroup) continue;
        const auto length = lengths.find(pointees[code[at + 1]]);
        if (length != lengths.end() && computed.contains(length->second)) ++count;
    }
    return count;
}

std::uint64_t bytes_or_none(const std::vector<std::uint32_t> &code, const std::vector<std::uint32_t> &constants) {
    try {
        return vkattn_test::shared_memory_bytes(code, constants);
    } catch (const std::runtime_error &) { // no array has such a size
        return 0;
    }
}

} // namespace

TEST_SUITE_BEGIN("shaders");

TEST_CASE("arrays in shared memory have sizes that the host computes, and as many bytes as before") {
    std::mt19937 random(3);
    std::set<std::string> rewritten;
    for (const vkattn::Shader *shader : vkattn::shaders::table()) {
        if (!vkattn::is_built(*shader)) continue;
        INFO("shader ", std::string(shader->name));
        const std::vector<std::uint32_t> before(shader->code.begin(), shader->code.end());
        std::vector<std::uint32_t> after = before;
        const vkattn::ArraySizes sizes(after);
        CHECK(computed_arrays(after) == 0);
        CHECK((after == before) == (computed_arrays(before) == 0));
        if (after != before) rewritten.insert(shader->name);
        std::vector<std::uint32_t> twice = after;
        CHECK(vkattn::ArraySizes(twice).values({}).empty()); // nothing is left
        for (int draw = 0; draw < 8; ++draw) {
            std::vector<std::uint32_t> constants(shader->constants.size());
            for (std::uint32_t &constant : constants)
                constant = 1U << std::uniform_int_distribution<std::uint32_t>(0, 7)(random);
            if (draw == 0) constants.clear(); // the module's own
            std::vector<vkattn::SpecialisationConstant> given;
            for (std::uint32_t id = 0; id < constants.size(); ++id) given.push_back({id, constants[id]});
            const std::uint64_t expected = bytes_or_none(before, constants);
            for (const auto &[id, value] : sizes.values(given)) {
                if (constants.size() <= id) constants.resize(id + 1);
                constants[id] = value;
            }
            if (draw > 0 && expected != 0) CHECK(bytes_or_none(after, constants) == expected);
        }
    }
    for (const char *name : {"flash", "flash_split", "flash_halves", "flash_wide_halves", "decode", "decode_subgroups",
                             "decode_halves", "merge_parts", "linear_vector"})
        CHECK_MESSAGE(rewritten.contains(name), std::string(name));
}

TEST_SUITE_END();
