// The size of a module's workgroups, read from its SPIR-V.
#include "runtime/plan/shader_reports.hpp"
#include "shaders/interface/attention.h"
#include "shaders/interface/linear.h"
#include "shaders/interface/norm.h"
#include "vkattn_shaders/table.hpp"

#include <doctest/doctest.h>

using namespace vkattn;

namespace {

template <class Constants>
std::span<const std::uint32_t> words(const Constants &constants) {
    return {reinterpret_cast<const std::uint32_t *>(&constants), sizeof(Constants) / sizeof(std::uint32_t)};
}

} // namespace

TEST_CASE("a workgroup's size is what its specialisation constants make it, or what the shader fixes") {
    gpu::AttentionConstants attention{};
    attention.WORKGROUP_SIZE = 48;
    CHECK(workgroup_size(shaders::flash.code, words(attention)) == 48);
    CHECK(workgroup_size(shaders::masked_softmax.code, words(attention)) == UNFUSED_WORKGROUP_SIZE);
    CHECK(workgroup_size(shaders::norm.code, words(gpu::NormConstants{})) == NORM_WORKGROUP_SIZE);
    if (is_built(shaders::coopmat)) {
        attention.WORKGROUP_SIZE = 256;
        CHECK(workgroup_size(shaders::coopmat.code, words(attention)) == 256);
    }
}

TEST_CASE("a module that is cut short is read no further than its end") {
    const std::span<const std::uint32_t> code = shaders::flash.code;
    for (std::size_t length : {std::size_t{0}, std::size_t{5}, std::size_t{6}, code.size() / 2, code.size() - 1})
        CHECK(workgroup_size(code.first(length), {}) >= 1);
}
