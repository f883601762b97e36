// What packed sequences take: grids, states and dispatches for the rows that there are, on devices as data.
#include "runtime/kernels/choose.hpp"
#include "runtime/kernels/split_keys.hpp"
#include "runtime/problem/tensor.hpp"

#include <doctest/doctest.h>

using namespace vkattn;

namespace {

constexpr std::uint64_t kHeads = 32, kKvHeads = 8, kSize = 64;

struct Batch {
    std::uint64_t sequences, rows;
    std::uint32_t longest, longest_keys; // 0: not told
};

AttentionProblem problem_of(const Batch &batch, vkattn_kernel kernel) {
    vkattn_attention_desc desc{};
    desc.query = desc.output = contiguous(VKATTN_TYPE_F16, {1, kHeads, batch.rows, kSize});
    desc.key = desc.value = contiguous(VKATTN_TYPE_F16, {1, kKvHeads, 8 * batch.rows, kSize});
    desc.cu_seqlens_q = desc.cu_seqlens_k = contiguous(VKATTN_TYPE_I32, {batch.sequences + 1});
    desc.max_seqlen_q = batch.longest;
    desc.max_seqlen_k = batch.longest_keys;
    desc.mask_flags = VKATTN_MASK_CAUSAL;
    desc.kernel = kernel;
    return check_attention(desc);
}

DeviceCaps some_gpu() {
    DeviceCaps caps{};
    caps.max_shared_memory_bytes = 32 << 10;
    caps.max_workgroup_invocations = 1024;
    caps.max_workgroup_count[0] = caps.max_workgroup_count[1] = caps.max_workgroup_count[2] = 65535;
    caps.max_storage_buffer_range = UINT32_MAX;
    caps.max_storage_buffers_per_stage = 32;
    caps.subgroup_size = 32;
    caps.traits.parallel_workgroups = 512;
    caps.traits.max_dispatch_megaflops = 10000;
    caps.traits.specialised_arrays = 1;
    return caps;
}

double dispatches_of(const AttentionShape::Dispatch &dispatch, const DeviceCaps &caps) {
    return volume(dispatches_along(dispatch.groups, grid_of_dispatch(dispatch.groups, dispatch.flops, caps)));
}

} // namespace

TEST_SUITE_BEGIN("planner");

TEST_CASE("a prompt among single tokens takes about as many dispatches as the prompt alone") {
    const DeviceCaps caps = some_gpu();
    const auto count = [&](const Batch &batch) {
        return dispatches_of(choose_attention(problem_of(batch, VKATTN_KERNEL_FLASH), caps).shape.dispatches[0], caps);
    };
    CHECK(count({1, 2048, 2048, 2048}) == 4);         // 34 thousand million operations
    CHECK(count({256, 2048 + 255, 2048, 2048}) <= 8); // 39, in pieces of whole KV heads
    CHECK(count({256, 2048 + 255, 0, 2048}) <= 8);
}

TEST_CASE("a grid of packed sequences has tiles for the rows that there are, and one more a sequence") {
    const DeviceCaps caps = some_gpu();
    const auto groups = [&](const Batch &batch, vkattn_kernel kernel) {
        const AttentionShape shape = choose_attention(problem_of(batch, kernel), caps).shape;
        const Grid &grid = shape.dispatches[0].groups;
        CHECK(grid[1] == kKvHeads);
        CHECK(grid[2] == 1);
        CHECK(shape.parameters.row_tiles * shape.parts == grid[0]);
        return grid[0] / shape.parts;
    };
    const std::uint32_t single = groups({65536, 65536, 1, 4096}, VKATTN_KERNEL_FLASH); // all are as long as each other
    CHECK((single >= 65536 && single < 65536 + 256)); // dispatches share it, each as many tiles
    CHECK(groups({65536, 65536, 0, 4096}, VKATTN_KERNEL_FLASH) < 2 * 65536);
    CHECK(groups({4096, 16384, 0, 4096}, VKATTN_KERNEL_FLASH) < 4096 + 4 * 16384 / 16);
    CHECK(groups({256, 2048 + 255, 2048, 2048}, VKATTN_KERNEL_DECODE) < 256 + 4 * (2048 + 255));
}

TEST_CASE("states of packed sequences are as many as there are rows, or as the longest sequences have") {
    const DeviceCaps caps = some_gpu();
    const auto bytes = [&](const Batch &batch) {
        const AttentionShape shape = choose_attention(problem_of(batch, VKATTN_KERNEL_DECODE), caps).shape;
        CHECK(shape.parts > 1);
        CHECK(shape.dispatches[1].groups[1] == kHeads);
        return extent_bytes(shape.scores) / shape.parts;
    };
    constexpr std::uint64_t kState = kHeads * (4 + kSize) * 4;
    CHECK(bytes({65536, 65536, 0, 1024}) == 65536 * kState);
    CHECK(bytes({65536, 65536, 1, 1024}) == 65536 * kState);
    CHECK(bytes({9, 100000, 8, 1024}) == 9 * 8 * kState); // of the short sequences beside a long prompt
}

TEST_SUITE_END();
