// Linear layers as they are divided: whatever a saved choice says, within what the device has.
#include "device_zoo.hpp"
#include "random_draws.hpp"
#include "runtime/kernels/linear.hpp"
#include "runtime/kernels/matrix_shapes.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <set>

using namespace vkattn_test;

namespace {

vkattn::DeviceCaps any_device(Random &random) {
    vkattn::DeviceCaps caps{};
    caps.features.shader_float16 = true;
    caps.features.mixed_float_dot_product = random.one_in(2);
    caps.shader_float16 = 1;
    caps.min_subgroup_size = caps.max_subgroup_size = caps.subgroup_size = random.any({4u, 8u, 16u, 32u, 64u});
    caps.max_workgroup_invocations = random.any({128u, 256u, 1024u});
    caps.max_shared_memory_bytes = random.any({16384u, 32768u, 65536u});
    for (std::uint32_t &count : caps.max_workgroup_count) count = random.any({128u, 65535u});
    caps.buffers_have_addresses = random.any({0u, 1u});
    caps.storage_16bit = random.any({0u, 1u, 1u});
    caps.features.storage_16bit = caps.storage_16bit != 0;
    caps.traits.specialised_arrays = 1;
    caps.traits.matrix_units = random.any({0u, 1u});
    caps.traits.unroll_matrices = random.any({0u, 1u});
    caps.traits.most_addressed_linear_rows = random.any({0u, 64u});
    caps.traits.scalar_address_loads = random.any({0u, 1u});
    caps.max_storage_buffers_per_stage = 64;
    caps.cooperative_matrix = 1;
    caps.features.cooperative_matrix = caps.features.vulkan_memory_model = true;
    caps.features.full_subgroups = true;
    caps.rounded_shapes = 0b111;
    caps.subgroup_features = 0xff;
    caps.matrix_shape_count = random.any({0u, 1u, 2u, 3u});
    for (std::uint32_t i = 0; i < caps.matrix_shape_count; ++i)
        caps.matrix_shapes[i] = {random.any({8u, 16u, 32u}), random.any({8u, 16u, 32u}),
                                 random.any({8u, 16u, 32u, 64u}), VKATTN_TYPE_F16};
    return caps;
}

vkattn::LinearProblem any_problem(Random &random) {
    const auto rows = static_cast<std::uint32_t>(random.up_to(random.any({6u, 600u}))),
               out = static_cast<std::uint32_t>(random.up_to(300));
    const bool blocks = random.one_in(3);
    const auto in = static_cast<std::uint32_t>(blocks ? 32 * random.up_to(9) : random.up_to(300));
    vkattn::LinearProblem problem;
    problem.push.rows = problem.push.positions = rows;
    problem.push.in_features = in;
    problem.push.out_features = problem.push.head_dim = out;
    problem.push.input_strides[1] = problem.push.weight_strides[0] = random.one_in(2) ? in : (in + 7) / 8 * 8;
    problem.push.weight_strides[1] = 1;
    problem.push.output_strides[1] = out;
    problem.push.output_strides[3] = 1;
    problem.input.type = problem.weight.type = random.any({VKATTN_TYPE_F32, VKATTN_TYPE_F16});
    if (blocks) problem.weight.type = VKATTN_TYPE_Q8_0;
    if (rows <= 16 && random.one_in(3)) problem.norm_weight = vkattn::tensor(VKATTN_TYPE_F32, {in});
    problem.output.type = VKATTN_TYPE_F32;
    problem.tile.kernel = random.any({0u, 1u, 2u, 3u, 4u, 5u, 6u, 7u, 0xffffffffu});
    problem.tile.matrix_shape = random.any({0u, 1u, 2u, 3u, 5u, 8u, 64u, 0xffffffffu});
    for (std::uint32_t &knob : problem.tile.knobs) knob = random.any({0u, 1u, 2u, 3u, 5u, 8u, 64u, 0xffffffffu});
    return problem;
}

// Rows and outputs that the workgroups of a choice compute.
std::pair<std::uint64_t, std::uint64_t> covered(const vkattn::LinearProblem &problem,
                                                const vkattn::LinearChoice &choice) {
    const vkattn::gpu::LinearConstants &c = choice.constants;
    const std::uint64_t x = choice.groups[0], y = choice.groups[1];
    const std::uint64_t row_tiles = (problem.push.rows + c.ROWS - 1) / c.ROWS; // side by side in linear_vector's grid
    if (choice.kernel == &vkattn::kLinearVector)
        return {y * c.ROWS * row_tiles, x / row_tiles * (LINEAR_WORKGROUP_SIZE / c.OUTPUT_LANES * c.TILES)};
    if (choice.kernel == &vkattn::kLinearAddresses)
        return {x * c.ROWS, y * c.WORKGROUP_SIZE * LINEAR_ADDRESSES_OUTPUTS};
    if (choice.kernel == &vkattn::kLinearUniform) return {x * c.ROWS, y * LINEAR_UNIFORM_OUTPUTS};
    if (choice.kernel == &vkattn::kLinearTiles || choice.kernel == &vkattn::kLinearTransposed ||
        choice.kernel == &vkattn::kLinearDots)
        return {y * c.ROW_TILES * LINEAR_SIDE, x * c.TILES * LINEAR_SIDE};
    return {y * c.ROW_SUBGROUPS * c.ROW_TILES * c.MATRIX_N,
            x * (c.WORKGROUP_SIZE / c.SUBGROUP_SIZE / c.FEATURE_SUBGROUPS / c.ROW_SUBGROUPS) * c.TILES * c.MATRIX_M};
}

// As linear_coopmat.comp declares its shared memory.
std::uint64_t shared_bytes(const vkattn::gpu::LinearConstants &c) {
    const std::uint64_t subgroups = c.WORKGROUP_SIZE / c.SUBGROUP_SIZE,
                        outputs = subgroups / c.FEATURE_SUBGROUPS / c.ROW_SUBGROUPS;
    const std::uint64_t lines = outputs * c.TILES * c.MATRIX_M + c.ROW_SUBGROUPS * c.ROW_TILES * c.MATRIX_N;
    return 16 * std::max<std::uint64_t>(lines * (c.MATRIX_STEP / 8 + 1), subgroups * c.MATRIX_N * (c.MATRIX_M / 4 + 1));
}

// Of f16, from 4096 features.
vkattn::LinearProblem halves_problem(std::uint32_t rows, std::uint32_t outputs) {
    vkattn::LinearProblem problem;
    problem.push.rows = problem.push.positions = rows;
    problem.push.in_features = problem.push.input_strides[1] = problem.push.weight_strides[0] = 4096;
    problem.push.out_features = problem.push.head_dim = problem.push.output_strides[1] = outputs;
    problem.push.weight_strides[1] = problem.push.output_strides[3] = 1;
    problem.input.type = problem.weight.type = problem.output.type = VKATTN_TYPE_F16;
    return problem;
}

void check_matrices(const vkattn::LinearProblem &problem, const vkattn::DeviceCaps &caps,
                    const vkattn::gpu::LinearConstants &c) {
    CHECK(shared_bytes(c) <= caps.max_shared_memory_bytes);
    CHECK(c.WORKGROUP_SIZE <= caps.max_workgroup_invocations);
    CHECK(c.WORKGROUP_SIZE % (c.SUBGROUP_SIZE * c.ROW_SUBGROUPS * c.FEATURE_SUBGROUPS) == 0);
    CHECK(c.MATRIX_STEP % (c.MATRIX_K * c.FEATURE_SUBGROUPS) == 0);
    CHECK(problem.input.type == VKATTN_TYPE_F16);
    bool listed = false;
    for (const vkattn_matrix_shape &shape : caps.matrix_shapes)
        listed = listed || (shape.m == c.MATRIX_M && shape.n == c.MATRIX_N && shape.k == c.MATRIX_K);
    CHECK(listed);
}

} // namespace

TEST_SUITE_BEGIN("linear_planner");

TEST_CASE("device addresses are read of weights in blocks by a shader of their own") {
    std::size_t addressed = 0, addressed_blocks = 0;
    for (unsigned seed = 0; seed < 2000; ++seed) {
        INFO("seed ", seed);
        Random random(seed);
        const vkattn::DeviceCaps caps = any_device(random);
        vkattn::LinearProblem problem = any_problem(random);
        const auto count = [&](std::size_t &chosen, const vkattn::Shader &shader) {
            const vkattn::LinearChoice choice = vkattn::choose_linear(problem, caps);
            if (choice.kernel != &vkattn::kLinearAddresses) return;
            CHECK(choice.shader == &shader);
            ++chosen;
        };
        problem.weight.type = problem.input.type;
        count(addressed, vkattn::shaders::linear_addresses);
        problem.weight.type = VKATTN_TYPE_Q8_0;
        count(addressed_blocks, vkattn::shaders::linear_addresses_quantised);
    }
    CHECK(addressed > 10);
    CHECK(addressed_blocks > 10);
}

TEST_CASE("every choice covers the layer within the device's limits, whatever the tile says") {
    std::map<const vkattn::LinearKernel *, std::size_t> chosen;
    std::size_t tuned = 0;
    for (unsigned seed = 0; seed < 20000; ++seed) {
        INFO("seed " << seed);
        Random random(seed);
        const vkattn::DeviceCaps caps = any_device(random);
        vkattn::LinearProblem problem = any_problem(random);
        if (seed % 4 == 0 && !vkattn::present(problem.norm_weight) && problem.groups == 1)
            problem.transposed = TRANSPOSED_WEIGHT;
        const vkattn::LinearChoice choice = vkattn::choose_linear(problem, caps);
        if (choice.kernel == &vkattn::kLinearTransposedCoopmat) {
            const auto &c = choice.constants;
            const std::uint32_t subgroups = c.WORKGROUP_SIZE / c.SUBGROUP_SIZE;
            CHECK(c.ROW_SUBGROUPS * c.ROW_TILES * c.MATRIX_N % 16 == 0);
            CHECK(subgroups / c.ROW_SUBGROUPS * c.TILES * c.MATRIX_M % 16 == 0);
        }
        ++chosen[choice.kernel];
        tuned += choice.reason.find("tuning") != std::string::npos ? 1 : 0;
        const auto [rows, outputs] = covered(problem, choice);
        CHECK(rows >= problem.push.rows);
        CHECK(outputs >= problem.push.out_features);
        const vkattn::Grid part = vkattn::grid_of_dispatch(choice.groups, 0, caps);
        for (int axis = 0; axis < 3; ++axis) CHECK(part[axis] <= caps.max_workgroup_count[axis]);
        if (choice.kernel == &vkattn::kLinearCoopmat) check_matrices(problem, caps, choice.constants);
        CHECK((!vkattn::present(problem.norm_weight) || choice.normalises));
        if (choice.kernel == &vkattn::kLinearUniform) {
            CHECK(caps.storage_16bit == 1);
            const std::uint32_t step = vkattn::kLinearBlock * choice.constants.SUBGROUP_SIZE * choice.constants.BLOCKS;
            CHECK(caps.subgroup_size == choice.constants.WORKGROUP_SIZE);
            CHECK(choice.constants.SUBGROUP_SIZE == choice.constants.WORKGROUP_SIZE);
            CHECK(step % vkattn::storage_block(problem.weight.type).elements == 0);
            CHECK(problem.push.in_features % step == 0);
        }
        if (choice.kernel != &vkattn::kLinearAddresses) continue;
        CHECK(caps.buffers_have_addresses == 1);
        CHECK(choice.constants.BLOCKS > 0);
        CHECK(problem.push.in_features % (vkattn::kLinearBlock * choice.constants.BLOCKS) == 0);
        CHECK(std::has_single_bit(choice.constants.ROWS));
    }
    for (const vkattn::LinearKernel *kernel : vkattn::linear_kernels())
        CHECK_MESSAGE((chosen[kernel] > (kernel->transposes ? 20 : 100)) == vkattn::is_built(*kernel->shaders.front()),
                      kernel->name << ": " << chosen[kernel]);
    CHECK(tuned > 1000);
}

// Intel's matrix units take 16 lanes, its compiler 32 where nothing is asked for.
TEST_CASE("Intel's matrices have subgroups as wide as they are") {
    constexpr std::uint32_t kIntel = 0x8086;
    const vkattn::LinearProblem problem = halves_problem(16, 4096);
    std::set<std::string> with_matrices;
    for (const ZooDevice &device : device_zoo()) {
        if (device.caps.vendor_id != kIntel) continue;
        INFO("device ", device.name);
        const vkattn::LinearChoice choice = vkattn::choose_linear(problem, device.caps);
        if (choice.kernel != &vkattn::kLinearCoopmat) continue;
        with_matrices.insert(device.name);
        CHECK(choice.constants.MATRIX_N == 16);
        CHECK(choice.constants.SUBGROUP_SIZE == 16);
    }
    if (vkattn::is_built(vkattn::shaders::linear_coopmat))
        CHECK(with_matrices ==
              std::set<std::string>{"intel-bmg-mesa-26.3"}); // older drivers' are off: see device_table.cpp
}

TEST_CASE("subgroups divide features where workgroups are few, or the weight is read once") {
    if (!vkattn::is_built(vkattn::shaders::linear_coopmat)) return;
    const auto &zoo = device_zoo();
    const vkattn::DeviceCaps &caps = std::ranges::find(zoo, "amd-navi31", &ZooDevice::name)->caps;
    const auto divide = [&](std::uint32_t rows, std::uint32_t outputs, std::uint32_t knob) {
        vkattn::LinearProblem problem = halves_problem(rows, outputs);
        problem.tile.kernel = vkattn::number_of(vkattn::kLinearCoopmat);
        problem.tile.knobs[2] = knob;
        return vkattn::choose_linear(problem, caps).constants.FEATURE_SUBGROUPS;
    };
    for (const auto &[rows, outputs] : {std::pair{16u, 1024u}, {64u, 1024u}, {256u, 1024u}, {64u, 14336u}}) {
        CHECK(divide(rows, outputs, 0) == 8);
        CHECK(divide(rows, outputs, 1) == 1);
        CHECK(divide(rows, outputs, 4) == 4);
    }
    CHECK(divide(512, 4096, 0) == 1);
    CHECK(divide(512, 4096, 4) == 4);
}

TEST_CASE("tiles of 128 x 128 where they fill the cores") {
    if (!vkattn::is_built(vkattn::shaders::linear_coopmat)) return;
    for (const ZooDevice &device : device_zoo()) {
        if (device.name != "amd-navi31" && device.name != "amd-gfx1201") continue;
        const std::uint32_t few = device.name == "amd-navi31" ? 512 : 256;
        for (const std::uint32_t rows : {few, 2 * few}) {
            const vkattn::LinearChoice choice = vkattn::choose_linear(halves_problem(rows, 4096), device.caps);
            CHECK(choice.constants.ROW_TILES == 4);
            CHECK(choice.constants.TILES == (rows == few ? 2 : 4));
            CHECK(choice.groups[0] * choice.groups[1] == (rows == few ? rows / 2 : rows / 4));
        }
    }
}

TEST_SUITE_END();
