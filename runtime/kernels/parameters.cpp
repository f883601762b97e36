#include "runtime/kernels/parameters.hpp"

#include "runtime/problem/attention_tensors.hpp"

#include <algorithm>

namespace vkattn {
namespace {

constexpr double kLog2E = 1.44269504088896340736;
constexpr double kTwoTo32 = 4294967296.0;
constexpr int32_t kUnboundedWindow = 0x3ffffffe; // see LARGEST_PAST in shaders/attention/positions.glsl

static_assert(SCORES_WEIGHTS == VKATTN_SCORES_WEIGHTS && KV_HEADS_MODULO == VKATTN_KV_HEADS_MODULO);

constexpr uint64_t in_more_features(uint32_t feature) { return uint64_t{feature} << 32; }

uint64_t features_of(const AttentionProblem &problem) {
    uint64_t features = 0;
    const auto set = [&](bool condition, uint64_t feature) { features |= condition ? feature : 0; };
    for (const AttentionTensor &tensor : kAttentionTensors) set(present(problem.*tensor.member), tensor.feature);
#define VKATTN_SET(name, NAME, feature, ...) set(problem.name > 0, feature_bit(feature));
    ATTENTION_FLAGS(VKATTN_SET)
    ATTENTION_NUMBERS(VKATTN_SET)
#undef VKATTN_SET
    if (problem.mask_times_slopes) features ^= FEATURE_ALIBI_SLOPES;
    set(problem.mask_in_turn, in_more_features(MORE_FEATURE_MASK_IN_TURN));
    set(present(problem.tree_mask) && problem.own_keys_last, in_more_features(MORE_FEATURE_OWN_KEYS_LAST));
    set(scales_values_by_key(problem), in_more_features(MORE_FEATURE_VALUE_SCALES_OF_KEYS));
    set(rows_start_even(problem.query), FEATURE_QUERY_PAIRS);
    set(rows_start_even(problem.key), FEATURE_KEY_PAIRS);
    set(rows_start_even(problem.value), FEATURE_VALUE_PAIRS);
    set(rows_are_aligned(problem, problem.query), FEATURE_QUERY_ALIGNED);
    set(rows_are_aligned(problem, problem.key), FEATURE_KEY_ALIGNED);
    set(rows_are_aligned(problem, problem.value), FEATURE_VALUE_ALIGNED);
    set(rows_start_even(problem.output), FEATURE_OUTPUT_PAIRS);
    set(problem.offset_by_lengths, FEATURE_BOTTOM_RIGHT);
    set(present(problem.attn_mask) && problem.attn_mask.shape[3] < problem.kv_len, FEATURE_SHORT_MASK);
    return features;
}

uint32_t dim_stride(const vkattn_tensor &tensor) {
    return tensor.shape[3] == 1 ? 1 : static_cast<uint32_t>(tensor.strides[3]);
}

} // namespace

bool rows_are_aligned(const AttentionProblem &problem, const vkattn_tensor &tensor, bool whatever_sizes) {
    constexpr uint32_t kElements = 8, kBytes = 16;
    bool aligned = problem.region_alignment % kBytes == 0 && !is_quantised(tensor.type) && tensor.strides[3] == 1 &&
                   tensor.shape[3] % kElements == 0 && tensor.offset % kElements == 0;
    for (uint32_t dim = 0; dim < 3; ++dim)
        aligned = aligned && ((tensor.shape[dim] == 1 && !whatever_sizes) || tensor.strides[dim] % kElements == 0);
    return aligned;
}

bool rows_are_in_blocks(const AttentionProblem &problem, const vkattn_tensor &tensor) {
    const auto [block, bytes] = storage_block(tensor.type);
    const uint32_t elements = is_quantised(tensor.type) ? block * (bytes % 4 == 0 ? 1 : 2) : 4;
    const uint64_t needed = is_quantised(tensor.type) ? 16 : bytes_of(tensor.type, elements);
    bool fits = problem.region_alignment % needed == 0 && tensor.strides[3] == 1 && tensor.offset % elements == 0;
    for (uint32_t dim = 0; dim < 3; ++dim)
        fits = fits && (tensor.shape[dim] == 1 || tensor.strides[dim] % elements == 0) &&
               tensor.strides[dim] <= UINT32_MAX / sizeof(float);
    return fits;
}

uint32_t stride_bytes(const vkattn_tensor &tensor, uint32_t dim) {
    return tensor.shape[dim] == 1 ? 0 : static_cast<uint32_t>(bytes_of(tensor.type, tensor.strides[dim]));
}

gpu::uvec4 addressed_strides(const vkattn_tensor &first, const vkattn_tensor &second) {
    return {stride_bytes(first, 0), stride_bytes(first, 1), stride_bytes(second, 0), stride_bytes(second, 1)};
}

bool scales_values_by_key(const AttentionProblem &problem) {
    const vkattn_tensor &scales = problem.value_scales;
    return present(scales) && (scales.shape[2] > 1 || (present(problem.block_table) && scales.shape[0] > 1));
}

bool is_in_halves(const AttentionProblem &problem) {
    const auto is_suited = [&](const vkattn_tensor &tensor) {
        const bool half = tensor.type == VKATTN_TYPE_F16 || tensor.type == VKATTN_TYPE_BF16;
        return half && rows_are_aligned(problem, tensor, problem.batch_invariant);
    };
    return is_suited(problem.query) && is_suited(problem.key) && is_suited(problem.value);
}

gpu::AttentionConstants constants_of(const AttentionProblem &problem, uint32_t workgroup_size) {
    gpu::AttentionConstants constants;
    constants.WORKGROUP_SIZE = workgroup_size;
    constants.HEAD_DIM = problem.head_dim;
    constants.V_HEAD_DIM = problem.v_head_dim;
    constants.GROUP = problem.query_heads / problem.kv_heads;
    constants.KV_HEAD_MAPPING = static_cast<uint32_t>(problem.kv_head_mapping);
    const uint64_t features = features_of(problem);
    constants.FEATURES = static_cast<uint32_t>(features);
    constants.MORE_FEATURES = static_cast<uint32_t>(features >> 32);
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
    for (const AttentionTensor &tensor : kAttentionTensors)
        if (tensor.layout == TensorLayout::kCaptured)
            constants.CAPTURED_FORMATS |= format_of(problem.*tensor.member)
                                          << (8 * (tensor.binding - BINDING_CAPTURED_0));
    if (present(problem.block_table)) constants.PAGE_SIZE = static_cast<uint32_t>(problem.key.shape[2]);
    if (problem.key_block_len != 0) constants.KEY_BLOCK_LEN = problem.key_block_len;
    if (problem.block_q_len != 0) {
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

uint32_t elements_of(const vkattn_tensor &tensor) {
    return present(tensor) ? static_cast<uint32_t>(span_elements(tensor)) : 0;
}

int32_t window_of(int32_t width) { return width < 0 ? kUnboundedWindow : std::min(width, kUnboundedWindow); }

} // namespace

vkattn_tensor sorted_lists_of(const vkattn_tensor &key_indices) {
    const uint64_t *shape = key_indices.shape;
    return contiguous(VKATTN_TYPE_I32, {shape[0], shape[1], shape[2], shape[3]});
}

const char *obstacle_of_lists(const AttentionProblem &problem, const DeviceCaps &caps) {
    const bool crashes = present(problem.key_indices) && caps.traits.scalar_address_loads != 0;
    return crashes ? "llvmpipe crashes in tiles of lists of keys" : "";
}

gpu::AttentionParameters parameters_of(const AttentionProblem &problem) {
    gpu::AttentionParameters parameters{};
#define VKATTN_COPY_STRIDES(binding, name, NAME, feature, Layout, type, Trial)                                         \
    copy_strides(problem.name, parameters.name##_strides);
    STRIDED_ATTENTION_TENSORS(VKATTN_COPY_STRIDES)
#undef VKATTN_COPY_STRIDES
#define VKATTN_COPY_OWN(name)
#define VKATTN_COPY_UINT(name) parameters.name = problem.name;
#define VKATTN_COPY(name, NAME, feature, Range, place) VKATTN_COPY_##place(name)
    ATTENTION_NUMBERS(VKATTN_COPY)
#undef VKATTN_COPY
    if (present(problem.key_indices)) { // kernels read the sorted copy
        copy_strides(sorted_lists_of(problem.key_indices), parameters.key_indices_strides);
        parameters.key_indices_len = static_cast<uint32_t>(problem.key_indices.shape[3]);
    }
    parameters.mask_len = static_cast<uint32_t>(problem.attn_mask.shape[3]);
    parameters.mask_entries = static_cast<uint32_t>(problem.attn_mask.shape[0]);
    parameters.mask_heads = static_cast<uint32_t>(problem.attn_mask.shape[1]);
    parameters.tree_words = static_cast<uint32_t>(problem.tree_mask.shape[std::max(problem.tree_mask.rank, 1u) - 1]);
    if (present(problem.key_padding_mask) && problem.batch > 1)
        parameters.key_padding_stride = static_cast<uint32_t>(problem.key_padding_mask.strides[0]);
    parameters.q_len = problem.q_len;
    parameters.kv_len = problem.kv_len;
    parameters.kv_heads = problem.kv_heads;
    parameters.sequences = problem.batch;
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
    parameters.captured_elements = {elements_of(problem.captured_0), elements_of(problem.captured_1),
                                    elements_of(problem.captured_2), elements_of(problem.captured_3)};
    parameters.captured_numbers = {problem.captured_numbers};
    return parameters;
}

} // namespace vkattn
