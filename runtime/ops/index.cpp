#include "runtime/ops/index.hpp"

#include "runtime/device/gpu_tiles.hpp"
#include "runtime/device/grid.hpp"
#include "runtime/emit/attention.hpp"
#include "runtime/emit/judged.hpp"
#include "runtime/kernels/matrix_shapes.hpp"
#include "runtime/kernels/parameters.hpp"
#include "runtime/kernels/shader_paths.hpp"
#include "runtime/ops/attention.hpp"
#include "runtime/ops/operators.hpp"
#include "runtime/ops/select.hpp"
#include "runtime/problem/attention_problem.hpp"
#include "runtime/problem/attention_tensors.hpp"
#include "runtime/problem/scales.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/problem/tensor_checks.hpp"
#include "runtime/support/error.hpp"
#include "runtime/support/rounding.hpp"
#include "shaders/interface/select.h"
#include "vkattn_shaders/table.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>

namespace vkattn {
namespace {

constexpr uint32_t kWorkgroup = 64;        // blocks
constexpr uint32_t kHeads = 8;             // that an invocation takes at a time
constexpr uint32_t kHeadsOfDots = 16;      // the same of index_scores_dots
constexpr uint32_t kHeadsOfAddresses = 4;  // of index_addresses, all at a time
constexpr uint32_t kStepsOfAddresses = 32; // of as many blocks as a subgroup has lanes
constexpr uint32_t kMostLanes = 16;        // that it writes out
constexpr uint32_t kMatrixDims = 128; // of the heads whose keys an invocation of index_scores_coopmat has registers for
constexpr uint32_t kKeyMatrices = 2;  // of its subgroups
constexpr uint32_t kMatrixSubgroups = 4;     // of its workgroups
constexpr uint32_t kMostQueries = 16;        // of its workgroups
constexpr uint64_t kBytesOfRanks = 32 << 20; // of the queries that are scored at a time

// A checked call.
struct IndexProblem {
    AttentionProblem attention; // of its queries and keys; V, the first elements of K, and the output are not there
    vkattn_tensor weights, indices;
    uint64_t rows; // queries
    uint32_t blocks;
    const vkattn_index_desc &desc;
    const IndexSources &sources;
};

// The masks, and where keys and queries lie, are those of attention.
AttentionProblem attention_of(const vkattn_index_desc &desc) {
    vkattn_attention_desc attention{};
    copy_tensors(desc, attention);
    copy_masks(desc, attention);
    attention.query = checked_rank(desc.query, "query", 4);
    attention.key = checked_rank(desc.key, "key", 4);
    require(attention.key.shape[1] == 1, "key: ", attention.key.shape[1], " heads, expected 1");
    const auto &q = attention.query.shape;
    const uint64_t v_head_dim = is_key_value(attention.key.type) ? storage_block(attention.key.type).elements : 1;
    attention.output = contiguous(VKATTN_TYPE_F32, {q[0], q[1], q[2], v_head_dim});
    attention.max_seqlen_q = desc.max_seqlen_q;
    attention.max_seqlen_k = desc.max_seqlen_k;
    attention.scale = desc.scale;
    attention.past_len = desc.past_len;
    AttentionProblem problem = check_attention(attention);
    problem.value_scales = {}; // V is not there
    return problem;
}

void check_choices(const vkattn_index_desc &desc) {
    require(desc.activation == VKATTN_INDEX_RELU || desc.activation == VKATTN_INDEX_IDENTITY,
            "activation: ", static_cast<int>(desc.activation), ", expected a vkattn_index_activation");
    require(desc.head_reduce == VKATTN_INDEX_SUM || desc.head_reduce == VKATTN_INDEX_MAX,
            "head_reduce: ", static_cast<int>(desc.head_reduce), ", expected VKATTN_INDEX_SUM or VKATTN_INDEX_MAX");
    require(desc.key_block_len <= 1 || desc.block_reduce == VKATTN_INDEX_MAX || desc.block_reduce == VKATTN_INDEX_MEAN,
            "block_reduce: ", static_cast<int>(desc.block_reduce), ", expected VKATTN_INDEX_MAX or VKATTN_INDEX_MEAN");
}

// Some drivers end a shader's loops.
void require_few_iterations(const IndexProblem &index, const DeviceCaps &caps) {
    const AttentionProblem &problem = index.attention;
    const uint64_t iterations = uint64_t{problem.key_block_len} *
                                (1 + uint64_t{tiles(problem.query_heads, kHeads)} * (1 + tiles(problem.head_dim, 8)));
    if (caps.max_loop_iterations != 0 && iterations > caps.max_loop_iterations)
        fail(VKATTN_ERROR_UNSUPPORTED, "index on ", caps.name, ": blocks of ", problem.key_block_len, " keys, ",
             problem.query_heads, " heads of ", problem.head_dim, ", which take ", iterations,
             " iterations, expected at most ", caps.max_loop_iterations);
}

IndexProblem check_index(const vkattn_index_desc &desc, const IndexSources &sources) {
    check_choices(desc);
    IndexProblem index{attention_of(desc), {}, {}, 0, 0, desc, sources};
    AttentionProblem &problem = index.attention;
    const bool packed = present(problem.cu_seqlens_q);
    const uint64_t entries = packed ? 1 : problem.batch, positions = packed ? problem.query.shape[2] : problem.q_len;
    index.weights = checked_contiguous(desc.weights, "weights",
                                       contiguous(VKATTN_TYPE_F32, {entries, positions, problem.query_heads}));
    const vkattn_tensor given = checked_rank(desc.indices, "indices", 4);
    require(given.shape[3] >= 1 && given.shape[3] <= SELECT_MOST, "indices: ", given.shape[3],
            " blocks of a query, expected 1 to ", SELECT_MOST);
    index.indices = checked_contiguous(desc.indices, "indices",
                                       contiguous(VKATTN_TYPE_I32, {entries, 1, positions, given.shape[3]}));
    index.rows = entries * positions;
    problem.key_block_len = std::clamp(desc.key_block_len, 1u, std::max(problem.kv_len, 1u));
    index.blocks = std::max(static_cast<uint32_t>(divide_up(problem.kv_len, problem.key_block_len)), 1u);
    return index;
}

gpu::AttentionConstants score_constants(const IndexProblem &index, uint32_t workgroup_size) {
    gpu::AttentionConstants constants = constants_of(index.attention, workgroup_size);
    const vkattn_index_desc &desc = index.desc;
    const auto set = [&](bool condition, uint32_t feature) { constants.MORE_FEATURES |= condition ? feature : 0; };
    constants.GROUP = std::max(index.attention.query_heads, 1u);
    constants.ROWS = std::min(constants.GROUP, kHeads);
    set(index.attention.query_heads == 0, MORE_FEATURE_INDEX_NO_HEADS);
    set(desc.activation == VKATTN_INDEX_RELU, MORE_FEATURE_INDEX_RELU);
    set(desc.head_reduce == VKATTN_INDEX_MAX, MORE_FEATURE_INDEX_MAX_OF_HEADS);
    set(desc.block_reduce == VKATTN_INDEX_MEAN, MORE_FEATURE_INDEX_MEAN_OF_KEYS);
    set(present(index.weights) && !is_empty(index.weights), MORE_FEATURE_INDEX_WEIGHTS);
    return constants;
}

// What computes the scores.
struct ScoreKernel {
    const Shader *shader;
    gpu::AttentionConstants constants;
    uint32_t blocks; // of a workgroup
    const char *reason;
    bool addressed = false;
    uint32_t queries = 1; // of a workgroup
};

// Of four neighbours a lane.
bool takes_addresses(const AttentionProblem &problem, const DeviceCaps &caps) {
    const vkattn_type_info &key = stored_type(problem.key.type).info;
    const bool of_bytes = !is_quantised(problem.key.type) || (key.number_bits == 8 && key.has_minimum == 0);
    return has_index_addresses(caps) && has_keys(problem) && problem.query_heads >= 1 &&
           problem.query_heads <= kHeadsOfAddresses && of_bytes && problem.head_dim % (4 * caps.subgroup_size) == 0 &&
           rows_are_in_blocks(problem, problem.key);
}

// Steps of an invocation of index_addresses, each of which goes through the keys of a block; 0: one is too much.
uint32_t steps_of_addresses(const AttentionProblem &problem, const DeviceCaps &caps) {
    if (caps.max_loop_iterations == 0) return kStepsOfAddresses;
    return static_cast<uint32_t>(
        std::min<uint64_t>(kStepsOfAddresses, caps.max_loop_iterations / (uint64_t{problem.key_block_len} + 1)));
}

// Of rows of f16 in whole eights that begin at multiples of sixteen bytes, where the self-test has left the shader.
bool takes_dots(const PlanBuilder &builder, const IndexProblem &index) {
    const AttentionProblem &problem = index.attention;
    constexpr uint32_t kAligned = FEATURE_QUERY_ALIGNED | FEATURE_KEY_ALIGNED;
    return problem.query.type == VKATTN_TYPE_F16 && problem.key.type == VKATTN_TYPE_F16 && problem.head_dim % 8 == 0 &&
           (score_constants(index, kWorkgroup).FEATURES & kAligned) == kAligned &&
           has_index_dots(builder.context().caps()) && is_right(builder, shaders::index_scores_dots);
}

const Shader &matrix_shader(vkattn_type type) {
    return type == VKATTN_TYPE_BF16 ? shaders::index_scores_coopmat_bf16 : shaders::index_scores_coopmat;
}

// Heads of the type in whole matrices, whose scores are summed; keys of the type, or of one that it holds; whole blocks of a tile.
bool suits_matrices(const IndexProblem &index, const gpu::AttentionConstants &constants, uint32_t keys_of_tile) {
    const AttentionProblem &problem = index.attention;
    const vkattn_type key = problem.key.type;
    const bool is_small = key == VKATTN_TYPE_F8_E4M3 || key == VKATTN_TYPE_F8_E5M2;
    const bool is_whole = (constants.FEATURES & FEATURE_QUERY_ALIGNED) != 0 &&
                          (is_small || (constants.FEATURES & FEATURE_KEY_ALIGNED) != 0);
    return (is_small || key == problem.query.type) && is_whole && has_keys(problem) &&
           index.desc.head_reduce == VKATTN_INDEX_SUM && problem.head_dim <= kMatrixDims &&
           problem.head_dim % constants.MATRIX_K == 0 && problem.query_heads != 0 &&
           problem.query_heads % constants.MATRIX_N == 0 && MOST_HEADS_OF_CHUNK % constants.MATRIX_N == 0 &&
           keys_of_tile % problem.key_block_len == 0;
}

// Shared memory that index_scores_coopmat.comp declares.
uint64_t shared_bytes(const gpu::AttentionConstants &constants) {
    const uint64_t subgroups = constants.WORKGROUP_SIZE / constants.SUBGROUP_SIZE;
    const uint64_t keys = subgroups * constants.ROW_MATRICES * constants.MATRIX_M;
    const uint64_t heads = std::min(constants.GROUP, MOST_HEADS_OF_CHUNK), pitch = constants.HEAD_DIM / 8 + 1;
    const uint64_t strips = keys * (constants.MATRIX_N / 4 + 1);
    return 16 * (std::max(std::max(heads, subgroups * constants.MATRIX_M) * pitch, strips) + heads / 4 + keys / 4) +
           8 * (constants.KEY_BLOCK_LEN > 1 ? keys : 1);
}

// As many as leave the last round of workgroups, two of a core, the least to wait for. 256 queries of 64 heads over 2,048 keys on navi31,
// modelled: of 11 queries 106.7 µs, of 10 128.7.
uint32_t queries_of_workgroup(uint64_t queries, uint64_t key_tiles, uint64_t cores) {
    constexpr uint64_t kQueriesOfLoad = 2; // that loading a tile's keys takes the time of
    uint32_t best = 1;
    uint64_t least = UINT64_MAX;
    for (uint32_t each = 1; each <= kMostQueries; ++each) {
        const uint64_t rounds = divide_up(divide_up(queries, each) * key_tiles, std::max<uint64_t>(2 * cores, 1));
        const uint64_t time = rounds * (each + kQueriesOfLoad);
        if (time > least) continue;
        best = each;
        least = time;
    }
    return best;
}

// nullopt: where it does not serve, or the self-test has found it wrong.
std::optional<ScoreKernel> kernel_of_matrices(const PlanBuilder &builder, const IndexProblem &index) {
    const AttentionProblem &problem = index.attention;
    const DeviceCaps &caps = builder.context().caps();
    const vkattn_type type = problem.query.type;
    const Shader &shader = matrix_shader(type);
    if (!has_index_matrices(caps, type)) return std::nullopt;
    const vkattn_matrix_shape &shape = *largest_matrix_shape(caps, {&shader, type, 0});
    const uint32_t subgroup_size = matrix_layout(caps, shape, problem.head_dim).subgroup_size;
    ScoreKernel kernel{.shader = &shader,
                       .constants = score_constants(index, kMatrixSubgroups * subgroup_size),
                       .blocks = 0,
                       .reason = "index_scores_coopmat: heads on matrix units"};
    gpu::AttentionConstants &constants = kernel.constants;
    constants.MATRIX_M = shape.m;
    constants.MATRIX_N = shape.n;
    constants.MATRIX_K = shape.k;
    constants.SUBGROUP_SIZE = subgroup_size;
    constants.ROW_MATRICES = kKeyMatrices;
    const uint32_t keys = kMatrixSubgroups * kKeyMatrices * shape.m;
    if (!suits_matrices(index, constants, keys) || shared_bytes(constants) > caps.max_shared_memory_bytes ||
        constants.WORKGROUP_SIZE > caps.max_workgroup_invocations ||
        (caps.max_workgroup_subgroups != 0 && kMatrixSubgroups > caps.max_workgroup_subgroups) ||
        !is_right(builder, shader))
        return std::nullopt;
    kernel.blocks = keys / problem.key_block_len;
    kernel.queries = queries_of_workgroup(index.rows, tiles(problem.kv_len, keys), cores_of(caps.traits));
    constants.ROWS = kernel.queries;
    return kernel;
}

ScoreKernel kernel_of(const PlanBuilder &builder, const IndexProblem &index) {
    const DeviceCaps &caps = builder.context().caps();
    const uint32_t lanes = caps.subgroup_size, steps = steps_of_addresses(index.attention, caps);
    if (steps != 0 && takes_addresses(index.attention, caps) && is_right(builder, shaders::index_addresses)) {
        ScoreKernel kernel{&shaders::index_addresses, score_constants(index, lanes), lanes * steps,
                           "index_addresses: keys are read through device addresses", true};
        kernel.constants.STEP = steps;
        return kernel;
    }
    require_few_iterations(index, caps);
    if (const std::optional<ScoreKernel> matrices = kernel_of_matrices(builder, index)) return *matrices;
    if (takes_dots(builder, index)) {
        ScoreKernel kernel{&shaders::index_scores_dots, score_constants(index, kWorkgroup), kWorkgroup,
                           "index_scores_dots: a key an invocation, products of f16 in pairs"};
        kernel.constants.ROWS = std::min(kernel.constants.GROUP, kHeadsOfDots);
        return kernel;
    }
    require_right(builder, shaders::index_scores);
    return {&shaders::index_scores, score_constants(index, kWorkgroup), kWorkgroup,
            "index_scores: a key an invocation"};
}

// Where it begins, in elements or quantised blocks.
uint32_t last_row_of(const vkattn_tensor &key) {
    uint64_t element = 0;
    for (uint32_t dim = 0; dim < 3; ++dim) element += (key.shape[dim] - 1) * key.strides[dim];
    return static_cast<uint32_t>(element / storage_block(key.type).elements);
}

View add_scores(PlanBuilder &builder, const IndexProblem &index, const ScoreKernel &kernel, UniformSlot parameters,
                uint64_t first, uint64_t rows) {
    const AttentionProblem &problem = index.attention;
    const vkattn_tensor ranks = contiguous(VKATTN_TYPE_I32, {rows, index.blocks});
    View view{ranks, builder.reserve_workspace(extent_bytes(ranks))};
    gpu::AttentionPush push{};
    push.first_row = static_cast<uint32_t>(first);
    push.end_row = static_cast<uint32_t>(first + rows);
    if (kernel.addressed) push.addressed_end = last_row_of(problem.key);
    Step &step = builder.add_step(*kernel.shader, kernel.constants, push);
    step.groups = {tiles(index.blocks, kernel.blocks), tiles(rows, kernel.queries), 1};
    step.flops = 2.0 * static_cast<double>(rows) * problem.query_heads * problem.kv_len * problem.head_dim;
    step.uniforms = parameters;
    for (const AttentionTensor &tensor : kAttentionTensors)
        if (tensor.binding != BINDING_VALUE && tensor.binding != BINDING_OUTPUT && !is_empty(problem.*tensor.member))
            bind(builder, step, tensor.binding, {problem.*tensor.member, index.sources.attention[tensor.binding]});
    if (!is_empty(index.weights)) bind(builder, step, BINDING_INDEX_WEIGHTS, {index.weights, index.sources.weights});
    bind(builder, step, BINDING_SCORES, view);
    if (!kernel.addressed) return view;
    constexpr uint32_t kKeyWord = offsetof(gpu::AttentionPush, key_address) / sizeof(uint32_t);
    pass_address(builder, step.addresses[0], kKeyWord, {problem.key, index.sources.attention[BINDING_KEY]});
    return view;
}

gpu::AttentionParameters parameters_of_index(const IndexProblem &index) {
    gpu::AttentionParameters parameters = parameters_of(index.attention);
    parameters.forced_first = index.desc.forced_first;
    parameters.forced_last = index.desc.forced_last;
    return parameters;
}

// The indices of rows first .. first + rows - 1.
View indices_of(const IndexProblem &index, uint64_t first, uint64_t rows) {
    const uint64_t most = index.indices.shape[3];
    vkattn_tensor some = contiguous(VKATTN_TYPE_I32, {rows, most});
    some.offset = index.indices.offset + first * most;
    return {some, index.sources.indices};
}

} // namespace

bool has_index_addresses(const DeviceCaps &caps) {
    constexpr uint32_t kNeeded = VK_SUBGROUP_FEATURE_BASIC_BIT | VK_SUBGROUP_FEATURE_BALLOT_BIT;
    return is_built(shaders::index_addresses) && caps.traits.scalar_address_loads != 0 &&
           caps.buffers_have_addresses != 0 && *obstacle_of_arrays(caps) == '\0' &&
           has_subgroup_operations(caps, kNeeded) && caps.min_subgroup_size == caps.max_subgroup_size &&
           caps.subgroup_size <= kMostLanes;
}

bool has_index_dots(const DeviceCaps &caps) { return *obstacle_of_dots(caps, shaders::index_scores_dots) == '\0'; }

bool has_index_matrices(const DeviceCaps &caps, vkattn_type type) {
    const Shader &shader = matrix_shader(type);
    return (type == VKATTN_TYPE_F16 || type == VKATTN_TYPE_BF16) && is_built(shader) &&
           *obstacle_of_matrices(caps) == '\0' && caps.traits.matrix_units == 1 && caps.max_loop_iterations == 0 &&
           matrices_beside_loads(caps) > 1 && // elsewhere registers do not hold a tile's keys
           matrix_obstacle(caps, {&shader, type, 0}).empty();
}

void plan_index(PlanBuilder &builder, const vkattn_index_desc &desc) {
    IndexSources roles{attention_roles(), {}, {}};
    roles.weights.role = VKATTN_ROLE_WEIGHT;
    roles.indices.role = VKATTN_ROLE_INDICES;
    add_index(builder, desc, roles);
}

void add_index(PlanBuilder &builder, const vkattn_index_desc &desc, const IndexSources &sources) {
    const IndexProblem index = check_index(desc, sources);
    const AttentionProblem &problem = index.attention;
    for (const AttentionTensor &tensor : kAttentionTensors)
        if (tensor.binding != BINDING_VALUE && tensor.binding != BINDING_OUTPUT)
            allow_role(builder, {problem.*tensor.member, sources.attention[tensor.binding]});
    allow_role(builder, {index.weights, sources.weights});
    allow_role(builder, {index.indices, sources.indices});
    if (index.rows == 0) return;
    const ScoreKernel kernel = kernel_of(builder, index);
    const uint64_t rows_at_once =
        std::clamp<uint64_t>(kBytesOfRanks / (index.blocks * sizeof(uint32_t)), 1, index.rows);
    const UniformSlot parameters = builder.keep_uniforms(parameters_of_index(index));
    const uint64_t workspace = builder.reserved_workspace();
    for (uint64_t first = 0; first < index.rows; first += rows_at_once) {
        if (first > 0) builder.reuse_workspace(workspace);
        const uint64_t rows = std::min(rows_at_once, index.rows - first);
        const View ranks = add_scores(builder, index, kernel, parameters, first, rows);
        builder.barrier();
        const auto most = static_cast<uint32_t>(index.indices.shape[3]);
        add_select(builder, {}, {ranks, {}}, most, indices_of(index, first, rows), false);
    }
    builder.set_choice(VKATTN_KERNEL_AUTO, kernel.reason);
}

} // namespace vkattn
