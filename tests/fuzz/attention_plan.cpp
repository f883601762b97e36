// Any description on any device: whatever plan comes of it stays inside its buffers, its workspace and the device's
// limits, by a calculation of its own.
#include "runtime/device/bindable.hpp"
#include "runtime/kernels/choose.hpp"
#include "runtime/ops/attention_split.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/support/error.hpp"
#include "tests/fuzz/expect.hpp"
#include "tests/fuzz/some_attention.hpp"

#include <algorithm>
#include <cstdint>

namespace {

using namespace vkattn;

DeviceCaps some_device(FuzzedDataProvider &data) {
    DeviceCaps caps{};
    caps.max_storage_buffer_range = (std::uint64_t{1} << data.ConsumeIntegralInRange(27, 32)) - 1;
    caps.min_storage_buffer_offset_alignment = 16u << data.ConsumeIntegralInRange(0, 4);
    caps.max_storage_buffers_per_stage = 64;
    caps.max_push_constants_bytes = 128u << data.ConsumeIntegralInRange(0, 1);
    caps.max_shared_memory_bytes = 16384u << data.ConsumeIntegralInRange(0, 3);
    caps.max_workgroup_invocations = 128u << data.ConsumeIntegralInRange(0, 3);
    for (std::uint32_t &count : caps.max_workgroup_count) count = data.ConsumeBool() ? 65535 : 0x7fffffff;
    caps.subgroup_size = 1u << data.ConsumeIntegralInRange(0, 7);
    caps.subgroup_features = data.ConsumeBool() ? 0xff : 0;
    caps.buffers_have_addresses = data.ConsumeBool();
    caps.features = {.buffer_device_address = true,
                     .vulkan_memory_model = true,
                     .shader_float16 = data.ConsumeBool(),
                     .shader_int8 = true,
                     .storage_16bit = true,
                     .storage_8bit = true,
                     .integer_dot_product = true,
                     .maintenance4 = true,
                     .subgroup_size_control = data.ConsumeBool(),
                     .full_subgroups = data.ConsumeBool(),
                     .cooperative_matrix = true,
                     .cooperative_matrix_reductions = data.ConsumeBool(),
                     .flexible_matrices = true,
                     .workgroup_matrices = data.ConsumeBool(),
                     .bfloat16_cooperative_matrix = true};
    caps.subgroup_size_control = caps.features.subgroup_size_control && caps.features.full_subgroups;
    caps.rounded_shapes = data.ConsumeIntegralInRange(0u, 7u);
    caps.cooperative_matrix = data.ConsumeBool();
    caps.cooperative_matrix_reductions = caps.cooperative_matrix != 0 && data.ConsumeBool();
    caps.shader_float16 = caps.features.shader_float16;
    caps.vulkan_memory_model = 1;
    caps.matrix_shape_count = data.ConsumeIntegralInRange(0u, 3u);
    for (std::uint32_t i = 0; i < caps.matrix_shape_count; ++i)
        caps.matrix_shapes[i] = {8u << data.ConsumeIntegralInRange(0, 2), 8u << data.ConsumeIntegralInRange(0, 2),
                                 8u << data.ConsumeIntegralInRange(0, 2),
                                 data.ConsumeBool() ? VKATTN_TYPE_F16 : VKATTN_TYPE_BF16};
    caps.traits.max_loop_iterations = data.ConsumeBool() ? 65536 : 0;
    caps.traits.scalar_address_loads = data.ConsumeBool();
    caps.traits.widest_divergent_addresses = data.ConsumeBool() ? 8 : 0;
    caps.traits.parallel_workgroups = data.ConsumeIntegralInRange(1u, 4096u);
    caps.traits.max_dispatch_megaflops = data.ConsumeBool() ? data.ConsumeIntegral<std::uint32_t>() : 0;
    caps.traits.unroll_matrices = data.ConsumeBool();
    caps.traits.byte_products = data.ConsumeBool();
    caps.traits.gpu_class = data.ConsumeIntegralInRange(0u, static_cast<std::uint32_t>(GpuClass::kCount));
    return caps;
}

KernelTile some_tile(FuzzedDataProvider &data) { // as a saved file may hold it
    KernelTile tile;
    if (data.ConsumeBool()) return tile;
    const auto fill = [&](std::uint32_t &member) {
        member = data.ConsumeBool() ? data.ConsumeIntegralInRange(0u, 64u) : data.ConsumeIntegral<std::uint32_t>();
    };
    for (std::uint32_t *member : {&tile.kernel, &tile.parts, &tile.matrix_shape}) fill(*member);
    for (std::uint32_t &knob : tile.knobs) fill(knob);
    return tile;
}

// ---------------------------------------------------------------- what a plan may do, calculated from the shaders'
// text

std::uint64_t up(std::uint64_t value, std::uint64_t step) { return (value + step - 1) / step * step; }

std::uint64_t shared_bytes_of_tiles(const Shader &shader, const gpu::AttentionConstants &c) {
    const std::uint64_t rows = c.WORKGROUP_SIZE / c.COLUMNS * c.ROWS, keys = c.COLUMNS * c.KEYS_OF_INVOCATION;
    const bool dots = &shader == &shaders::flash_dots;
    const std::uint64_t dims = dots || &shader == &shaders::flash_wide_halves ? 8 : 4;
    const std::uint64_t bytes = &shader == &shaders::flash_halves ? 8 : 16;
    const std::uint64_t query_dims = c.QUERY_STAGED != 0 ? up(c.HEAD_DIM, c.DIMS_OF_CHUNK) : c.DIMS_OF_CHUNK;
    const std::uint64_t query = rows * (query_dims / dims + 1), key = keys * (c.DIMS_OF_CHUNK / dims + 1);
    const std::uint64_t value_dims = dots ? 4 : dims, value_rows = dots ? c.KEYS_OF_CHUNK / 2 : c.KEYS_OF_CHUNK;
    const std::uint64_t value = value_rows * (up(c.V_HEAD_DIM, value_dims * c.COLUMNS) / value_dims + 1);
    return bytes * (query + std::max({key, value, rows * c.COLUMNS * 4 / bytes})) + 4 * rows * keys + 4;
}

std::uint64_t shared_bytes_of_matrices(const gpu::AttentionConstants &c) {
    const auto pitch = [](std::uint64_t elements) { return elements / 8 + 1; };
    const std::uint64_t subgroups = c.WORKGROUP_SIZE / c.SUBGROUP_SIZE, rows_of_subgroup = c.MATRIX_M * c.ROW_MATRICES;
    const std::uint64_t rows = subgroups / c.DIM_SUBGROUPS * rows_of_subgroup;
    const std::uint64_t keys = c.KEYS_OF_TILE * pitch(c.DIMS_OF_CHUNK);
    const std::uint64_t values = up(c.V_HEAD_DIM, c.MATRIX_N * c.DIM_SUBGROUPS) * pitch(c.KEYS_OF_CHUNK);
    const std::uint64_t both = c.TAKES_TURNS != 0 ? std::max(keys, values) : keys + values;
    const std::uint64_t query = c.QUERY_IN_REGISTERS != 0 ? 0 : rows * pitch(up(c.HEAD_DIM, c.DIMS_OF_CHUNK));
    const std::uint64_t strip = rows_of_subgroup * (c.MATRIX_N / 4 + 1);
    std::uint64_t weights = rows_of_subgroup * pitch(c.KEYS_OF_TILE), strips = 0;
    if (c.DIM_SUBGROUPS == 1)
        weights = std::max(weights, strip);
    else if (subgroups * strip > (c.TAKES_TURNS != 0 ? both : keys))
        strips = subgroups * strip;
    const auto key_type = static_cast<vkattn_type>(c.KEY_FORMAT);
    const std::uint64_t affine = has_minimum(key_type) ? 2 : 1;
    const std::uint64_t scales =
        is_quantised(key_type) ? std::max(c.DIMS_OF_CHUNK / 32, 1u) * c.KEYS_OF_TILE * affine : 1;
    const std::uint64_t floats = scales + 3 * rows + (c.DIM_SUBGROUPS > 1 ? rows * c.DIM_SUBGROUPS : 1);
    return 16 * (both + query + subgroups / c.DIM_SUBGROUPS * weights + strips) + 4 * (floats + 2);
}

std::uint64_t shared_bytes_of_decode(const Shader &shader, const gpu::AttentionConstants &c) {
    const bool halves = &shader == &shaders::decode_halves || &shader == &shaders::decode_halves_subgroups;
    const bool bytes = &shader == &shaders::decode_bytes || &shader == &shaders::decode_bytes_subgroups;
    const std::uint64_t groups = c.WORKGROUP_SIZE / c.COLUMNS, scores = groups * c.ROWS * c.KEYS_OF_INVOCATION;
    const std::uint64_t dims = (bytes ? 16 : 8) * c.COLUMNS; // that a group reads at a time
    const std::uint64_t key_dims = up(c.HEAD_DIM, dims), value_dims = up(c.V_HEAD_DIM, dims);
    const std::uint64_t query = bytes                 ? c.ROWS * key_dims / 16 * 36 // 32 bytes and a scale
                                : c.QUERY_STAGED != 0 ? c.ROWS * key_dims * (halves ? 2 : 4)
                                                      : 16;
    return 4 * std::max(scores * (c.COLUMNS + 1), groups * value_dims) + 4 * scores + 8 * groups * c.ROWS + query;
}

void expect_within_limits(const AttentionChoice &choice, const DeviceCaps &caps) {
    const vkattn_kernel kernel = choice.kernel->kernel;
    const AttentionShape &shape = choice.shape;
    for (const AttentionShape::Dispatch &dispatch : shape.dispatches) {
        if (dispatch.groups[0] == 0) continue;
        expect(dispatch.constants.WORKGROUP_SIZE <= caps.max_workgroup_invocations, "the workgroup fits the device");
    }
    if (kernel == VKATTN_KERNEL_UNFUSED) return;
    const gpu::AttentionConstants &c = shape.dispatches[0].constants;
    const Shader &shader = *shape.dispatches[0].shader;
    const bool tiles = are_variants(shader, shaders::flash);
    const bool matrices = kernel == VKATTN_KERNEL_COOPMAT;
    expect(c.WORKGROUP_SIZE > 0, "a workgroup has invocations");
    if (tiles) expect(shared_bytes_of_tiles(shader, c) <= caps.max_shared_memory_bytes, "tiles fit into shared memory");
    if (matrices)
        expect(shared_bytes_of_matrices(c) <= caps.max_shared_memory_bytes, "matrices fit into shared memory");
    const bool few_rows = are_variants(shader, shaders::decode);
    if (few_rows)
        expect(shared_bytes_of_decode(shader, c) <= caps.max_shared_memory_bytes, "rows fit into shared memory");
    if (tiles) expect(c.WORKGROUP_SIZE % c.COLUMNS == 0 && c.ROWS > 0, "a tile has whole rows");
    if (tiles) expect(c.COLUMNS * c.KEYS_OF_INVOCATION % c.KEYS_OF_CHUNK == 0, "a tile has whole chunks of keys");
}

// Rows that are loaded sixteen bytes at a time begin and end at such.
void expect_vectors(const vkattn_tensor &tensor, bool promised) {
    if (!promised) return;
    const auto whole = [&](std::uint64_t elements) { return bytes_of(tensor.type, elements) % 16 == 0; };
    expect(tensor.type == VKATTN_TYPE_F32 || tensor.type == VKATTN_TYPE_F16 || tensor.type == VKATTN_TYPE_BF16,
           "vectors are of floats");
    expect(tensor.strides[3] == 1 && whole(tensor.shape[3]) && whole(tensor.offset), "vectors hold neighbours");
    for (int dim = 0; dim < 3; ++dim)
        expect(tensor.shape[dim] == 1 || whole(tensor.strides[dim]), "every row begins with a vector");
}

bool can_be_bound(const AttentionProblem &problem, const AttentionChoice &choice, const DeviceCaps &caps) {
    for (const vkattn_tensor *tensor :
         {&problem.query, &problem.key, &problem.value, &problem.output, &problem.log_sum_exp, &problem.attn_mask,
          &problem.block_mask, &problem.key_padding_mask, &problem.attn_weights, &choice.shape.scores,
          &choice.shape.staged_key, &choice.shape.staged_value})
        if (!is_bindable(caps, *tensor)) return false;
    return true;
}

void expect_room(const AttentionProblem &problem, const AttentionChoice &choice) {
    if (choice.kernel->kernel == VKATTN_KERNEL_UNFUSED) {
        const std::uint64_t scores =
            std::uint64_t{problem.batch} * problem.query_heads * problem.q_len * problem.kv_len;
        expect(present(problem.attn_weights) || extent_elements(choice.shape.scores) >= scores,
               "there is room for the scores");
        return;
    }
    expect(choice.shape.keys_per_dispatch > 0 && choice.shape.parts > 0, "a dispatch does something");
    const bool several = choice.shape.keys_per_dispatch < problem.kv_len;
    if (choice.shape.parts > 1 || several) {
        const std::uint64_t all = std::uint64_t{problem.batch} * problem.q_len; // of sequences as long as the longest
        const std::uint64_t positions = present(problem.cu_seqlens_q) ? std::min(problem.query.shape[2], all) : all;
        const std::uint64_t rows = positions * problem.query_heads;
        const std::uint64_t state = 4 + up(problem.v_head_dim, 4);
        expect(present(choice.shape.scores) &&
                   extent_elements(choice.shape.scores) >= rows * choice.shape.parts * state,
               "there is room for the parts' states");
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *bytes, std::size_t size) {
    FuzzedDataProvider data(bytes, size);
    const DeviceCaps caps = some_device(data);
    try {
        const AttentionProblem given = check_attention(some_attention(data));
        if (!has_queries(given)) return 0; // nothing is planned
        AttentionProblem problem = with_memory(given);
        problem.tile = some_tile(data);
        std::vector<AttentionProblem> parts = split_to_bind(problem, caps);
        for (const AttentionProblem &decodes : decodes_of(problem)) parts.push_back(decodes);
        for (const AttentionProblem &part : parts) {
            const AttentionChoice choice = choose_attention(part, caps);
            if (!can_be_bound(part, choice, caps)) return 0; // which binding says
            expect_within_limits(choice, caps);
            const std::uint32_t features = choice.shape.dispatches[0].constants.FEATURES;
            expect_vectors(part.query, (features & FEATURE_QUERY_ALIGNED) != 0);
            expect_vectors(part.key, (features & FEATURE_KEY_ALIGNED) != 0);
            expect_vectors(part.value, (features & FEATURE_VALUE_ALIGNED) != 0);
            expect_room(part, choice);
        }
    } catch (const Error &error) {
        expect(error.result() == VKATTN_ERROR_INVALID_ARGUMENT || error.result() == VKATTN_ERROR_UNSUPPORTED,
               "what is refused is refused as a wrong or an unserved request");
    }
    return 0;
}
