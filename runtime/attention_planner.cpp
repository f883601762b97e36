#include "runtime/attention_planner.hpp"

#include "runtime/context/kernel_support.hpp"
#include "runtime/coopmat_planner.hpp"
#include "runtime/error.hpp"
#include "runtime/flash_planner.hpp"

#include <algorithm>

namespace vkattn {
namespace {

constexpr double kLog2E = 1.44269504088896340736;
constexpr double kTwoTo32 = 4294967296.0;
constexpr int32_t kUnboundedWindow = 0x3ffffffe; // see LARGEST_PAST in shaders/attention/positions.glsl

static_assert(SCORES_WEIGHTS == VKATTN_SCORES_WEIGHTS && KV_HEADS_MODULO == VKATTN_KV_HEADS_MODULO);

// See FEATURE_KEY_ALIGNED.
bool rows_are_aligned(const vkattn_tensor &tensor) {
    constexpr uint32_t kElements = 8;
    bool aligned = !is_quantised(tensor.type) && tensor.strides[3] == 1 && tensor.shape[3] % kElements == 0 &&
                   tensor.offset % kElements == 0;
    for (uint32_t dim = 0; dim < 3; ++dim)
        aligned = aligned && (tensor.shape[dim] == 1 || tensor.strides[dim] % kElements == 0);
    return aligned;
}

uint32_t features_of(const AttentionProblem &problem) {
    uint32_t features = 0;
    const auto set = [&](bool condition, uint32_t feature) { features |= condition ? feature : 0u; };
    set(problem.causal, FEATURE_CAUSAL);
    set(problem.windowed, FEATURE_WINDOW);
    set(problem.keys_to_last_query, FEATURE_KEYS_TO_LAST_QUERY);
    set(present(problem.key_lengths), FEATURE_KEY_LENGTHS);
    set(present(problem.past_lengths), FEATURE_PAST_LENGTHS);
    set(present(problem.key_padding_mask), FEATURE_KEY_PADDING);
    set(present(problem.alibi_slopes), FEATURE_ALIBI);
    set(problem.softcap > 0, FEATURE_SOFTCAP);
    set(problem.dropout_p > 0, FEATURE_DROPOUT);
    set(present(problem.sinks), FEATURE_SINKS);
    set(present(problem.log_sum_exp), FEATURE_LOG_SUM_EXP);
    set(present(problem.attn_weights), FEATURE_ATTN_WEIGHTS);
    set(present(problem.qk_matmul_output), FEATURE_QK_MATMUL_OUTPUT);
    set(rows_start_even(problem.query), FEATURE_QUERY_PAIRS);
    set(rows_start_even(problem.key), FEATURE_KEY_PAIRS);
    set(rows_start_even(problem.value), FEATURE_VALUE_PAIRS);
    set(rows_are_aligned(problem.query), FEATURE_QUERY_ALIGNED);
    set(rows_are_aligned(problem.key), FEATURE_KEY_ALIGNED);
    set(rows_are_aligned(problem.value), FEATURE_VALUE_ALIGNED);
    set(rows_start_even(problem.output), FEATURE_OUTPUT_PAIRS);
    set(present(problem.cu_seqlens_q), FEATURE_CU_SEQLENS_Q);
    set(present(problem.cu_seqlens_k), FEATURE_CU_SEQLENS_K);
    set(problem.offset_by_lengths, FEATURE_BOTTOM_RIGHT);
    set(present(problem.block_mask), FEATURE_BLOCK_MASK);
    set(present(problem.attn_mask) && problem.attn_mask.shape[3] < problem.kv_len, FEATURE_SHORT_MASK);
    return features;
}

uint32_t dim_stride(const vkattn_tensor &tensor) {
    return tensor.shape[3] == 1 ? 1 : static_cast<uint32_t>(tensor.strides[3]);
}

} // namespace

gpu::AttentionConstants constants_of(const AttentionProblem &problem, uint32_t workgroup_size) {
    gpu::AttentionConstants constants;
    constants.WORKGROUP_SIZE = workgroup_size;
    constants.HEAD_DIM = problem.head_dim;
    constants.V_HEAD_DIM = problem.v_head_dim;
    constants.GROUP = problem.query_heads / problem.kv_heads;
    constants.KV_HEAD_MAPPING = static_cast<uint32_t>(problem.kv_head_mapping);
    constants.FEATURES = features_of(problem);
    constants.QUERY_FORMAT = format_of(problem.query);
    constants.KEY_FORMAT = format_of(problem.key);
    constants.VALUE_FORMAT = format_of(problem.value);
    constants.OUTPUT_FORMAT = format_of(problem.output);
    constants.MASK_FORMAT = format_of(problem.attn_mask);
    constants.SCORE_STAGE = static_cast<uint32_t>(problem.score_stage);
    constants.QUERY_DIM_STRIDE = dim_stride(problem.query);
    constants.KEY_DIM_STRIDE = dim_stride(problem.key);
    constants.VALUE_DIM_STRIDE = dim_stride(problem.value);
    constants.OUTPUT_DIM_STRIDE = dim_stride(problem.output);
    if (present(problem.block_table)) constants.PAGE_SIZE = static_cast<uint32_t>(problem.key.shape[2]);
    if (present(problem.block_mask)) {
        constants.BLOCK_Q_LEN = problem.block_q_len;
        constants.BLOCK_KV_LEN = problem.block_kv_len;
    }
    return constants;
}

namespace {

void copy_strides(const vkattn_tensor &tensor, gpu::uvec4 &strides) {
    for (uint32_t dim = 0; dim < 3; ++dim)
        strides[dim] = tensor.shape[dim] == 1 ? 0 : static_cast<uint32_t>(tensor.strides[dim]);
}

int32_t window_of(int32_t width) { return width < 0 ? kUnboundedWindow : std::min(width, kUnboundedWindow); }

gpu::AttentionParameters parameters_of(const AttentionProblem &problem) {
    gpu::AttentionParameters parameters{};
    copy_strides(problem.query, parameters.query_strides);
    copy_strides(problem.key, parameters.key_strides);
    copy_strides(problem.value, parameters.value_strides);
    copy_strides(problem.output, parameters.output_strides);
    if (present(problem.attn_mask)) {
        copy_strides(problem.attn_mask, parameters.mask_strides);
        parameters.mask_len = static_cast<uint32_t>(problem.attn_mask.shape[3]);
    }
    if (present(problem.block_mask)) copy_strides(problem.block_mask, parameters.block_strides);
    if (present(problem.key_padding_mask) && problem.batch > 1)
        parameters.key_padding_stride = static_cast<uint32_t>(problem.key_padding_mask.strides[0]);
    parameters.q_len = problem.q_len;
    parameters.kv_len = problem.kv_len;
    parameters.kv_heads = problem.kv_heads;
    parameters.q_total = static_cast<uint32_t>(problem.query.shape[2]);
    parameters.kv_total = static_cast<uint32_t>(problem.key.shape[2]);
    if (present(problem.block_table)) {
        parameters.pool_pages = static_cast<uint32_t>(problem.key.shape[0]);
        parameters.table_pages = static_cast<uint32_t>(problem.block_table.shape[1]);
    }
    parameters.offset = problem.offset;
    parameters.window_left = window_of(problem.window_left);
    parameters.window_right = window_of(problem.window_right);
    parameters.scale_log2 = static_cast<float>(static_cast<double>(problem.scale) * kLog2E);
    parameters.first_batch = problem.first_batch;
    parameters.first_query_head = problem.first_query_head;
    parameters.dropout_seed_low = static_cast<uint32_t>(problem.dropout_seed);
    parameters.dropout_seed_high = static_cast<uint32_t>(problem.dropout_seed >> 32);
    parameters.dropout_threshold = static_cast<uint32_t>(static_cast<double>(problem.dropout_p) * kTwoTo32);
    parameters.dropout_scale = 1.0f / (1.0f - problem.dropout_p);
    parameters.fewest_queries = problem.fewest_queries;
    parameters.most_queries = problem.most_queries == 0 ? UINT32_MAX : problem.most_queries;
    parameters.softcap_log2 = static_cast<float>(static_cast<double>(problem.softcap) * kLog2E);
    return parameters;
}

} // namespace

vkattn_kernel decode_of(const AttentionProblem &problem) {
    return problem.value_in_key ? VKATTN_KERNEL_LATENT_DECODE : VKATTN_KERNEL_DECODE;
}

bool reads_addresses(FlashBody body) { return body == FlashBody::kAddresses; }

bool is_decode(vkattn_kernel kernel) { return kernel == VKATTN_KERNEL_DECODE || kernel == VKATTN_KERNEL_LATENT_DECODE; }

bool is_coopmat(vkattn_kernel kernel) { return kernel == VKATTN_KERNEL_COOPMAT || kernel == VKATTN_KERNEL_COOPMAT2; }

namespace {

void plan_unfused(const AttentionProblem &problem, const DeviceCaps &caps, AttentionChoice &choice) {
    const uint64_t heads = uint64_t{problem.batch} * problem.query_heads;
    const gpu::AttentionConstants constants = constants_of(problem, UNFUSED_WORKGROUP_SIZE);
    const uint64_t value_pairs = uint64_t{problem.q_len} * ((problem.v_head_dim + 1) / 2);
    choice.dispatches[0] = {constants, {tiles(problem.kv_len, UNFUSED_WORKGROUP_SIZE), problem.q_len, tiles(heads, 1)}};
    choice.dispatches[1] = {constants, {problem.q_len, problem.query_heads, problem.batch}};
    choice.dispatches[2] = {constants,
                            {tiles(value_pairs, UNFUSED_WORKGROUP_SIZE), problem.query_heads, problem.batch}};
    for (const AttentionChoice::Dispatch &dispatch : choice.dispatches) require_fit(dispatch.groups, caps, "unfused");
    const uint64_t most_keys = uint64_t{caps.max_loop_iterations} * KEYS_OF_UNFUSED_ITERATION;
    if (most_keys != 0 && problem.kv_len > most_keys)
        fail(VKATTN_ERROR_UNSUPPORTED, "unfused: ", problem.kv_len, " keys, expected at most ", most_keys, " ",
             on_bounded_loops(caps));
    choice.scores = contiguous(VKATTN_TYPE_F32, {problem.batch, problem.query_heads, problem.q_len, problem.kv_len});
}

void require_supported(const DeviceCaps &caps, vkattn_kernel kernel) {
    for (uint32_t i = 0; i < caps.kernel_count; ++i)
        if (caps.kernels[i].kernel == kernel && caps.kernels[i].supported == 0)
            fail(VKATTN_ERROR_UNSUPPORTED, vkattn_kernel_name(kernel), " on ", caps.name, ": ", caps.kernels[i].reason);
}

bool is_unequal(const AttentionProblem &problem) {
    return present(problem.cu_seqlens_q) || present(problem.cu_seqlens_k) || present(problem.block_table);
}

// Takes the better of the matrix kernels that serve the problem; else says why none does, where the device has any.
bool choose_coopmat(const AttentionProblem &problem, const DeviceCaps &caps, AttentionChoice &choice,
                    std::string &obstacles) {
    if (!coopmat_pays(problem, caps)) return false;
    for (vkattn_kernel kernel : {VKATTN_KERNEL_COOPMAT2, VKATTN_KERNEL_COOPMAT}) {
        if (!is_supported(caps, kernel)) continue;
        const std::string obstacle = coopmat_obstacle(problem, caps, kernel);
        if (!obstacle.empty()) {
            obstacles += text("; not ", vkattn_kernel_name(kernel), ": ", obstacle);
            continue;
        }
        choice.kernel = kernel;
        choice.reason = text(vkattn_kernel_name(kernel), ": the matrix units take ", type_name(problem.query.type));
        return true;
    }
    return false;
}

// Whether what tuning found can still be followed.
bool suits_tile(const AttentionProblem &problem, const DeviceCaps &caps) {
    if (problem.tile.kernel >= VKATTN_KERNEL_COUNT) return false;
    const auto kernel = static_cast<vkattn_kernel>(problem.tile.kernel);
    if (kernel == VKATTN_KERNEL_AUTO || kernel == VKATTN_KERNEL_UNFUSED || !is_supported(caps, kernel)) return false;
    if (kernel == VKATTN_KERNEL_LATENT_DECODE && !problem.value_in_key) return false;
    if (problem.batch_invariant || (problem.kernel != VKATTN_KERNEL_AUTO && problem.kernel != kernel)) return false;
    return !is_coopmat(kernel) || coopmat_obstacle(problem, caps, kernel).empty();
}

void choose_kernel(const AttentionProblem &problem, const DeviceCaps &caps, AttentionChoice &choice) {
    std::string obstacles;
    if (problem.kernel != VKATTN_KERNEL_AUTO) {
        choice.reason = text(vkattn_kernel_name(problem.kernel), " was asked for");
    } else if (present(problem.attn_weights) || present(problem.qk_matmul_output)) {
        choice.kernel = VKATTN_KERNEL_UNFUSED;
        choice.reason = "unfused: attention weights or scores are asked for, which flash does not keep";
    } else if (problem.batch_invariant) {
        choice.kernel = VKATTN_KERNEL_FLASH;
        choice.reason = "flash: a batch-invariant result is asked for, which keys split for decode do not give";
    } else if (problem.tile.kernel != VKATTN_KERNEL_AUTO) {
        choice.kernel = static_cast<vkattn_kernel>(problem.tile.kernel);
        choice.reason = text(vkattn_kernel_name(choice.kernel), ": the fastest that tuning found for such problems");
    } else if (choose_coopmat(problem, caps, choice, obstacles)) {
        return;
    } else if (decode_pays(problem, caps)) {
        choice.kernel = decode_of(problem);
        choice.reason = text(vkattn_kernel_name(choice.kernel),
                             ": few query rows over many keys, which are split to fill the device", obstacles);
    } else {
        choice.kernel = VKATTN_KERNEL_FLASH;
        choice.reason = "flash: nothing of size q_len x kv_len is asked for" + obstacles;
    }
}

// The next kernel that the device can run, where the best one is off. One that is insisted on stays.
void pass_over(const AttentionProblem &problem, const DeviceCaps &caps, AttentionChoice &choice) {
    if (problem.kernel != VKATTN_KERNEL_AUTO || is_supported(caps, choice.kernel)) return;
    const bool matrices = present(problem.attn_weights) || present(problem.qk_matmul_output);
    for (vkattn_kernel kernel : {VKATTN_KERNEL_FLASH, VKATTN_KERNEL_DECODE, VKATTN_KERNEL_UNFUSED}) {
        const bool serves = kernel == VKATTN_KERNEL_UNFUSED ? !is_unequal(problem) : !matrices;
        if (!serves || !is_supported(caps, kernel) || (problem.batch_invariant && kernel != VKATTN_KERNEL_FLASH))
            continue;
        choice.reason = text(vkattn_kernel_name(kernel), ": the next one, since ", vkattn_kernel_name(choice.kernel),
                             " is off on this device");
        choice.kernel = kernel;
        return;
    }
}

// The switches that try the self-test: see DeviceTraits.
bool is_corrupted(const DeviceCaps &caps, const AttentionChoice &choice) {
    if (caps.traits.corrupted_kernel == static_cast<uint32_t>(choice.kernel)) return true;
    if (caps.traits.corrupted_addresses != 0 && reads_addresses(choice.body)) return true;
    const uint32_t place = caps.traits.corrupted_matrix_shape - 1;
    if (choice.body != FlashBody::kMatrices || place >= caps.matrix_shape_count) return false;
    const vkattn_matrix_shape &shape = caps.matrix_shapes[place];
    const gpu::AttentionConstants &constants = choice.dispatches[0].constants;
    return constants.MATRIX_M == shape.m && constants.MATRIX_N == shape.n && constants.MATRIX_K == shape.k;
}

} // namespace

AttentionChoice plan_attention(const AttentionProblem &given, const DeviceCaps &caps) {
    AttentionProblem problem = given;
    const bool wants_matrices = present(problem.attn_weights) || present(problem.qk_matmul_output);
    AttentionChoice choice{};
    choice.kernel = problem.kernel;
    if (wants_matrices && problem.kernel != VKATTN_KERNEL_AUTO && problem.kernel != VKATTN_KERNEL_UNFUSED)
        fail(VKATTN_ERROR_UNSUPPORTED, "kernel: ", vkattn_kernel_name(problem.kernel), " keeps no ",
             present(problem.attn_weights) ? "attn_weights" : "qk_matmul_output", ", expected unfused or auto");
    if (is_unequal(problem) && (wants_matrices || problem.kernel == VKATTN_KERNEL_UNFUSED))
        fail(VKATTN_ERROR_UNSUPPORTED, "kernel: unfused, the only one with weights and scores, has no packed or paged ",
             "sequences, expected flash, decode or auto without attn_weights and qk_matmul_output");
    if (problem.batch_invariant &&
        (wants_matrices || (problem.kernel != VKATTN_KERNEL_AUTO && problem.kernel != VKATTN_KERNEL_FLASH)))
        fail(VKATTN_ERROR_UNSUPPORTED, "batch_invariant: 1, expected 0 with kernels other than flash and with ",
             "attn_weights or qk_matmul_output");
    if (problem.kernel == VKATTN_KERNEL_LATENT_DECODE && !problem.value_in_key)
        fail(VKATTN_ERROR_UNSUPPORTED, "kernel: latent_decode, and value has rows of its own, expected the first ",
             "elements of key's rows, or another kernel");
    if (!suits_tile(problem, caps)) problem.tile = {};
    choose_kernel(problem, caps, choice);
    pass_over(problem, caps, choice);
    require_supported(caps, choice.kernel);
    choice.parameters = parameters_of(problem);
    if (choice.kernel == VKATTN_KERNEL_FLASH)
        plan_flash(problem, caps, choice);
    else if (is_decode(choice.kernel))
        plan_decode(problem, caps, choice);
    else if (is_coopmat(choice.kernel))
        plan_coopmat(problem, caps, choice);
    else
        plan_unfused(problem, caps, choice);
    if (is_corrupted(caps, choice)) choice.parameters.scale_log2 *= 1.25f;
    return choice;
}

std::string tile_text(const AttentionChoice &choice) {
    const gpu::AttentionConstants &c = choice.dispatches[0].constants;
    if (choice.kernel == VKATTN_KERNEL_UNFUSED) return "";
    std::string tile;
    const auto add = [&](const auto &...parts) { tile += (tile.empty() ? "" : ", ") + text(parts...); };
    if (choice.body == FlashBody::kMatrices) {
        add(c.MATRIX_M, "x", c.MATRIX_N, "x", c.MATRIX_K, " matrices");
        add(c.WORKGROUP_SIZE / c.SUBGROUP_SIZE / c.DIM_SUBGROUPS, " x ", c.DIM_SUBGROUPS, " subgroups");
        add(c.KEYS_OF_TILE, " keys");
    } else {
        add(c.ROWS, c.ROWS == 1 ? " row" : " rows");
        if (choice.body != FlashBody::kTiles) add(c.STEP, " keys a step");
    }
    if (choice.parts > 1) add(choice.parts, " parts");
    return tile;
}

} // namespace vkattn

const char *vkattn_kernel_name(vkattn_kernel kernel) {
    switch (kernel) {
    case VKATTN_KERNEL_AUTO:
        return "auto";
    case VKATTN_KERNEL_UNFUSED:
        return "unfused";
    case VKATTN_KERNEL_FLASH:
        return "flash";
    case VKATTN_KERNEL_DECODE:
        return "decode";
    case VKATTN_KERNEL_LATENT_DECODE:
        return "latent_decode";
    case VKATTN_KERNEL_COOPMAT:
        return "coopmat";
    case VKATTN_KERNEL_COOPMAT2:
        return "coopmat2";
    default:
        return "unknown";
    }
}
