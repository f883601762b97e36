// What the self-test has ruled out: a path of one shader is off, and what takes its place is chosen, on devices as data.
#include "device_zoo.hpp"
#include "skips.hpp"

#include "runtime/device/verdicts.hpp"
#include "runtime/kernels/choose.hpp"
#include "runtime/kernels/linear.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/support/error.hpp"
#include "runtime/vulkan/vulkan_extensions.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

using namespace vkattn;
using vkattn_test::device_zoo;
using vkattn_test::skip;

namespace {

DeviceCaps zoo_device(const std::string &name) {
    const auto devices = device_zoo();
    const auto found = std::ranges::find(devices, name, &vkattn_test::ZooDevice::name);
    REQUIRE(found != devices.end());
    return found->caps;
}

struct Sizes {
    std::uint64_t q_len = 1, kv_len = 4096, head_dim = 128;
    bool paged = false;
};

AttentionProblem problem_of(vkattn_type query, vkattn_type stored, const Sizes &s) {
    constexpr std::uint64_t kPage = 16;
    vkattn_attention_desc desc{};
    desc.query = desc.output = contiguous(query, {1, 32, s.q_len, s.head_dim});
    desc.key = contiguous(stored, {s.paged ? s.kv_len / kPage : 1, 8, s.paged ? kPage : s.kv_len, s.head_dim});
    desc.value = desc.key;
    if (s.paged) {
        desc.block_table = contiguous(VKATTN_TYPE_I32, {1, s.kv_len / kPage});
        desc.key_lengths = contiguous(VKATTN_TYPE_I32, {1});
    }
    return check_attention(desc);
}

const Sizes kDecodeSizes{}, kPrefillSizes{.q_len = 512, .kv_len = 512};

std::string shader_of(const AttentionChoice &choice) {
    return shader_name(*choice.shape.dispatches[0].shader, choice.shape.dispatches[0].constants);
}

std::string shader_on(const DeviceCaps &caps, vkattn_type query, vkattn_type stored, const Sizes &sizes) {
    return shader_of(choose_attention(problem_of(query, stored, sizes), caps));
}

void rule_out(DeviceCaps &caps, const std::string &shader, CodePaths paths) {
    caps.verdicts[shader] = {0, paths, "self-test: " + shader + ": wrong numbers"};
}

constexpr vkattn_type f32 = VKATTN_TYPE_F32, f16 = VKATTN_TYPE_F16, bf16 = VKATTN_TYPE_BF16, q8 = VKATTN_TYPE_Q8_0;

} // namespace

TEST_SUITE_BEGIN("planner");

TEST_CASE("a path of decode that is off is taken by its next shader, and no other path is touched") {
    DeviceCaps caps = zoo_device("amd-navi21");
    REQUIRE(shader_on(caps, f16, f16, kDecodeSizes) == "decode_halves_subgroups");
    REQUIRE(shader_on(caps, f32, f32, kDecodeSizes) == "decode_subgroups");
    rule_out(caps, "decode_halves_subgroups", kPathF16);
    CHECK(shader_on(caps, f16, f16, kDecodeSizes) == "decode_halves");
    CHECK(shader_on(caps, bf16, bf16, kDecodeSizes) == "decode_halves_subgroups");
    CHECK(shader_on(caps, f32, f32, kDecodeSizes) == "decode_subgroups");
    rule_out(caps, "decode_halves", kPathF16);
    CHECK(shader_on(caps, f16, f16, kDecodeSizes) == "decode_subgroups");
    rule_out(caps, "decode_subgroups", kPathF32);
    CHECK(shader_on(caps, f32, f32, kDecodeSizes) == "decode");
    CHECK(shader_on(caps, f16, f16, kDecodeSizes) == "decode_subgroups");
    CHECK(shader_on(caps, f16, VKATTN_TYPE_Q4_0, kDecodeSizes) == "decode_subgroups");
    rule_out(caps, "decode", kPathF32);
    const AttentionChoice choice = choose_attention(problem_of(f32, f32, kDecodeSizes), caps);
    CHECK(choice.kernel == &kFlash);
    CHECK(choice.reason.find("not decode: self-test: decode_subgroups: wrong numbers") != std::string::npos);
}

TEST_CASE("K of q8_0 is multiplied as bytes where that is accelerated, but not with queries of f32") {
    const bool built = is_built(shaders::decode_bytes);
    const std::string bytes = built ? "decode_bytes" : "decode", in_subgroups = bytes + "_subgroups";
    for (const char *name : {"amd-navi21", "amd-navi31", "amd-gfx1201"}) {
        INFO(name);
        DeviceCaps caps = zoo_device(name);
        CHECK(shader_on(caps, f16, q8, kDecodeSizes) == in_subgroups);
        CHECK(shader_on(caps, bf16, q8, kDecodeSizes) == in_subgroups);
        CHECK(shader_on(caps, f32, q8, kDecodeSizes) == "decode_subgroups");
        CHECK(shader_on(caps, f16, VKATTN_TYPE_Q5_0, kDecodeSizes) == "decode_subgroups");
        rule_out(caps, in_subgroups, path_of(q8));
        CHECK(shader_on(caps, f16, q8, kDecodeSizes) == bytes);
        rule_out(caps, bytes, path_of(q8));
        if (built) CHECK(shader_on(caps, f16, q8, kDecodeSizes) == "decode_subgroups");
        caps.verdicts.clear();
        caps.features.integer_dot_product = false;
        CHECK(shader_on(caps, f16, q8, kDecodeSizes) == "decode_subgroups");
    }
    CHECK(shader_on(zoo_device("amd-vega10"), f16, q8, kDecodeSizes) == "decode_subgroups");
    const Sizes few_keys{.kv_len = 512}; // in short parts
    DeviceCaps caps = zoo_device("amd-navi31");
    CHECK(shader_on(caps, f16, q8, few_keys) == "decode_subgroups");
    rule_out(caps, "decode_subgroups", path_of(q8));
    rule_out(caps, "decode", path_of(q8));
    if (built) CHECK(shader_on(caps, f16, q8, few_keys) == in_subgroups);
}

TEST_CASE("pages that are off leave dense keys alone") {
    DeviceCaps caps = zoo_device("nvidia-turing");
    const Sizes paged{.paged = true};
    const std::string dense = shader_on(caps, f16, f16, kDecodeSizes);
    REQUIRE(shader_on(caps, f16, f16, paged) == dense);
    rule_out(caps, dense, kPathPages);
    CHECK(shader_on(caps, f16, f16, kDecodeSizes) == dense);
    CHECK(shader_on(caps, f16, f16, paged) != dense);
    CHECK(choose_attention(problem_of(f16, f16, paged), caps).kernel == &kDecode);
}

TEST_CASE("flash stages in f32 where its halves are off, and unfused serves where nothing of it is left") {
    DeviceCaps caps = zoo_device("amd-navi21");
    REQUIRE(shader_on(caps, f16, f16, kPrefillSizes) == "flash_halves");
    rule_out(caps, "flash_halves", kPathF16);
    CHECK(shader_on(caps, f16, f16, kPrefillSizes) == "flash");
    CHECK(shader_on(caps, bf16, bf16, kPrefillSizes) == "flash_halves");
    rule_out(caps, "flash", kPathF16);
    CHECK(shader_on(caps, f16, f16, kPrefillSizes) == "flash_wide_halves");
    CHECK(shader_on(caps, f16, q8, kPrefillSizes) == "flash_split");
    rule_out(caps, "flash_split", kPathF16);
    CHECK(shader_on(caps, f16, q8, kPrefillSizes) == "qk_scores"); // those two alone take q8_0, and f16 is off there
    rule_out(caps, "qk_scores", path_of(q8));
    try {
        choose_attention(problem_of(f16, q8, kPrefillSizes), caps);
        FAIL("accepted");
    } catch (const Error &error) {
        CHECK(error.result() == VKATTN_ERROR_UNSUPPORTED);
        const std::string message = error.what();
        for (const char *shader : {"flash_split", "qk_scores"})
            CHECK_MESSAGE(message.find("self-test: " + std::string(shader) + ": wrong numbers") != std::string::npos,
                          message);
    }
}

TEST_CASE("flash multiplies f16 in pairs where the device does and the self-test agrees") {
    DeviceCaps caps = zoo_device("amd-navi21");
    caps.features.mixed_float_dot_product = true;
    const bool built = is_built(shaders::flash_dots);
    CHECK(shader_on(caps, f16, f16, kPrefillSizes) == (built ? "flash_dots" : "flash_halves"));
    CHECK(shader_on(caps, bf16, bf16, kPrefillSizes) == "flash_halves");
    CHECK(shader_on(caps, f16, q8, kPrefillSizes) == "flash_split");
    rule_out(caps, "flash_dots", kPathF16);
    CHECK(shader_on(caps, f16, f16, kPrefillSizes) == (built ? "flash" : "flash_halves"));
}

TEST_CASE("where merge_parts is off, keys are not split") {
    DeviceCaps caps = zoo_device("amd-navi31");
    if (!is_built(shaders::coopmat)) {
        skip("no coopmat in this build");
        return;
    }
    const Sizes chunk{.q_len = 16, .kv_len = 16384};
    const AttentionChoice split = choose_attention(problem_of(f16, f16, chunk), caps);
    REQUIRE(split.kernel == &kCoopmat);
    REQUIRE(split.shape.parts > 1);
    rule_out(caps, "merge_parts", kPathParts);
    const AttentionChoice whole = choose_attention(problem_of(f16, f16, chunk), caps);
    CHECK(whole.kernel == &kCoopmat);
    CHECK(whole.shape.parts == 1);
    CHECK(choose_attention(problem_of(f32, f32, kDecodeSizes), caps).kernel == &kFlash);
}

TEST_CASE("a matrix shape that is off in attention serves linear layers, and the other way round") {
    DeviceCaps caps = zoo_device("amd-navi31");
    if (!is_built(shaders::coopmat)) {
        skip("no coopmat in this build");
        return;
    }
    LinearProblem linear;
    linear.input = contiguous(f16, {1, 64, 256});
    linear.weight = contiguous(f16, {256, 256});
    linear.output = contiguous(f16, {1, 64, 256});
    linear.push = {};
    linear.push.rows = linear.push.positions = 64;
    linear.push.in_features = linear.push.out_features = linear.push.head_dim = 256;
    linear.push.input_strides[1] = linear.push.weight_strides[0] = 256;
    linear.push.weight_strides[1] = linear.push.output_strides[3] = 1;
    const std::string attention = shader_on(caps, f16, f16, kPrefillSizes);
    REQUIRE(attention.starts_with("coopmat, 16x16x16"));
    REQUIRE(choose_linear(linear, caps).shader == &shaders::linear_coopmat);
    DeviceCaps other = caps;
    rule_out(caps, attention, kPathF16);
    CHECK(choose_attention(problem_of(f16, f16, kPrefillSizes), caps).kernel == &kFlash);
    CHECK(choose_linear(linear, caps).shader == &shaders::linear_coopmat);
    rule_out(other, "linear_coopmat, 16x16x16", kPathF16);
    CHECK(shader_on(other, f16, f16, kPrefillSizes) == attention);
    CHECK(choose_linear(linear, other).shader == &shaders::linear);
    rule_out(other, "linear", kPathF16);
    CHECK_THROWS_AS(choose_linear(linear, other), Error);
}

// With every feature of VK_NV_cooperative_matrix2.
DeviceCaps caps_of_matrices2() {
    DeviceCaps caps = zoo_device("nvidia-ada");
    caps.cooperative_matrix_reductions = 1;
    caps.features.cooperative_matrix_reductions = caps.features.flexible_matrices = caps.features.maintenance4 = true;
    caps.features.workgroup_matrices = true;
    caps.max_matrix_workgroup = 256;
    caps.matrix_workgroup_bytes = 4096;
    caps.flexible_matrices = {FlexibleMatrices{f16, 0, 16, 16, 16}, FlexibleMatrices{f16, 128, 32, 64, 16}};
    return caps;
}

gpu::AttentionConstants constants_of_coopmat2(AttentionProblem problem, const DeviceCaps &caps) {
    problem.kernel = VKATTN_KERNEL_COOPMAT2;
    return choose_attention(problem, caps).shape.dispatches[0].constants;
}

TEST_CASE("coopmat2 is taken by its name and by tuning alone; workgroups hold its matrices where they can") {
    if (!is_built(shaders::coopmat2)) {
        skip("no coopmat2 in this build");
        return;
    }
    DeviceCaps caps = caps_of_matrices2();
    AttentionProblem problem = problem_of(f16, f16, kPrefillSizes);
    CHECK(choose_attention(problem, caps).kernel == &kCoopmat);
    gpu::AttentionConstants of_workgroup = constants_of_coopmat2(problem, caps);
    CHECK(of_workgroup.MATRIX_SCOPE == vkattn::VK_SCOPE_WORKGROUP_KHR);
    CHECK(of_workgroup.WORKGROUP_SIZE == 128);
    CHECK(of_workgroup.MATRIX_N * of_workgroup.DIM_SUBGROUPS % 64 == 0); // its granularity
    CHECK(of_workgroup.KEYS_OF_TILE % 64 == 0);
    caps.max_matrix_workgroup = 64;
    CHECK(constants_of_coopmat2(problem, caps).MATRIX_SCOPE == vkattn::VK_SCOPE_SUBGROUP_KHR);
    caps.cooperative_matrix_reductions = 0;
    CHECK_THROWS_WITH_AS(constants_of_coopmat2(problem, caps), doctest::Contains("no VK_NV_cooperative_matrix2"),
                         Error);
}

TEST_CASE("verdicts are kept by shader and path, and what has failed stays off") {
    Verdicts verdicts;
    verdicts.pass("decode", kPathF32 | kPathParts);
    verdicts.fail("decode", path_of(q8), "self-test: decode, q8_0: wrong numbers");
    verdicts.pass("decode", path_of(q8));
    verdicts.fail("flash", kPathF32, "self-test: flash, f32: the device was lost");
    Verdicts later;
    later.load(verdicts.save());
    for (const Verdicts *each : {&verdicts, &later}) {
        const ShaderVerdict decode = each->find("decode");
        CHECK(decode.passed == (kPathF32 | kPathParts));
        CHECK(decode.failed == path_of(q8));
        CHECK(decode.reason == "self-test: decode, q8_0: wrong numbers");
        CHECK(each->find("flash").reason == "self-test: flash, f32: the device was lost");
        CHECK(each->find("merge_parts").passed == 0);
    }
    int tests = 0;
    later.set_test([&](std::string_view shader, CodePaths paths) {
        ++tests;
        CHECK(shader == "decode");
        CHECK(paths == (kPathF32 | kPathPages));
        later.test_before_use("merge_parts", kPathParts); // what a test plans is not tested
        later.pass("decode", paths);
    });
    later.test_before_use("decode", kPathF32);
    later.test_before_use("decode", kPathF32 | path_of(q8) | kPathPages); // it is off anyway
    CHECK(tests == 0);
    for (int time = 0; time < 2; ++time) later.test_before_use("decode", kPathF32 | kPathPages);
    CHECK(tests == 1);
}

TEST_SUITE_END();
