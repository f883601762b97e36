// The size of a module's workgroups, read from its SPIR-V.
#include "runtime/spirv/workgroup_size.hpp"
#include "shaders/interface/attention.h"
#include "shaders/interface/linear.h"
#include "vkattn_shaders/table.hpp"

#include <doctest/doctest.h>

using namespace vkattn;

namespace {

std::optional<std::uint32_t> workgroup_size(std::span<const std::uint32_t> code,
                                            std::vector<spirv::ConstantValue> constants = {}) {
    return spirv::WorkgroupSize(code).invocations(constants);
}

constexpr auto kWorkgroupSize = static_cast<std::uint32_t>(gpu::AttentionConstants::Index::WORKGROUP_SIZE);

} // namespace

TEST_CASE("a workgroup's size is what its specialisation constants make it, or what the shader fixes") {
    CHECK(workgroup_size(shaders::flash.code.words(), {{kWorkgroupSize, 48}}) == 48);
    CHECK(workgroup_size(shaders::masked_softmax.code.words(), {{kWorkgroupSize, 48}}) == UNFUSED_WORKGROUP_SIZE);
    CHECK(workgroup_size(shaders::linear_vector.code.words()) == LINEAR_WORKGROUP_SIZE);
    if (is_built(shaders::coopmat))
        CHECK(workgroup_size(shaders::coopmat.code.words(), {{kWorkgroupSize, 256}}) == 256);
}

TEST_CASE("a module that the library has specialised says the size as numbers") {
    const std::vector<std::uint32_t> code = shaders::flash.code.words();
    CHECK(workgroup_size(spirv::specialise(code, std::vector<spirv::ConstantValue>{{kWorkgroupSize, 96}}, "flash")) ==
          96);
}

TEST_CASE("a module that is cut short is read no further than its end") {
    const std::vector<std::uint32_t> code = shaders::flash.code.words();
    for (std::size_t length : {std::size_t{0}, std::size_t{5}, std::size_t{6}, code.size() / 2, code.size() - 1})
        CHECK(workgroup_size(std::span(code).first(length)).value_or(1) >= 1);
}
