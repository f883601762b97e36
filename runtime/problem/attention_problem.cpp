#include "runtime/problem/attention_problem.hpp"

#include "runtime/problem/attention_tensors.hpp"
#include "runtime/problem/rotation.hpp"
#include "runtime/problem/scales.hpp"
#include "runtime/problem/sequences.hpp"
#include "runtime/problem/tensor_checks.hpp"
#include "runtime/support/error.hpp"
#include "runtime/support/rounding.hpp"
#include "runtime/support/structures.hpp"

#include <algorithm>
#include <cmath>

namespace vkattn {
namespace {

constexpr uint64_t kLargestHeadDim = 576;
constexpr uint32_t kVectorBytes = 16; // that kernels read at a time

static_assert(CAPTURED_TENSORS == VKATTN_CAPTURED_TENSORS);

uint32_t size(const vkattn_tensor &tensor, uint32_t dim) { return static_cast<uint32_t>(tensor.shape[dim]); }

vkattn_tensor checked_rows(const vkattn_tensor &given, const char *name,
                           void (&require_type)(const vkattn_tensor &tensor, const char *name)) {
    const vkattn_tensor tensor = checked_rank(given, name, 4);
    require_type(tensor, name);
    return tensor;
}

// Where sequences of unequal length lie; how many there are, and how long they can be.
void check_sequences(const vkattn_attention_desc &desc, uint32_t most_positions, AttentionProblem &problem) {
    const vkattn_tensor &q = problem.query, &k = problem.key;
    problem.cu_seqlens_q = checked_cu_seqlens(desc.cu_seqlens_q, "cu_seqlens_q", q, "query");
    problem.cu_seqlens_k = checked_cu_seqlens(desc.cu_seqlens_k, "cu_seqlens_k", k, "key");
    const bool packed_queries = present(problem.cu_seqlens_q), packed_keys = present(problem.cu_seqlens_k);
    problem.batch = packed_queries ? sequences_of(problem.cu_seqlens_q) : size(q, 0);
    problem.block_table = checked_block_table(desc.block_table, problem.batch, k, "key");
    const bool paged = present(problem.block_table);
    require(!paged || !packed_keys, "cu_seqlens_k: present beside block_table, expected one of them");
    require(!packed_keys || sequences_of(problem.cu_seqlens_k) == problem.batch, "cu_seqlens_k: shape ",
            shape_text(problem.cu_seqlens_k), ", expected [", problem.batch + 1, "]");
    problem.q_len = size(q, 2);
    problem.kv_len = size(k, 2);
    if (packed_queries) problem.q_len = longest_sequence(desc.max_seqlen_q, "max_seqlen_q", q);
    if (packed_keys) problem.kv_len = longest_sequence(desc.max_seqlen_k, "max_seqlen_k", k);
    if (paged) problem.kv_len = std::min(positions_of(problem.block_table, k), most_positions);
}

void check_head_dim(const vkattn_tensor &tensor, const char *name) {
    const uint64_t head_dim = tensor.shape[3];
    require(head_dim >= 1 && head_dim <= kLargestHeadDim, name, ": head size ", head_dim, ", expected 1 to ",
            kLargestHeadDim);
}

void check_sizes(AttentionProblem &problem) {
    const vkattn_tensor &q = problem.query, &k = problem.key, &v = problem.value, &o = problem.output;
    problem.query_heads = size(q, 1);
    problem.head_dim = size(q, 3);
    problem.kv_heads = size(k, 1);
    problem.v_head_dim = size(v, 3);
    check_head_dim(q, "query");
    check_head_dim(v, "value");
    const bool dense_keys = !present(problem.cu_seqlens_k) && !present(problem.block_table);
    const uint64_t key_entries = dense_keys ? problem.batch : k.shape[0]; // batch entries, or pages
    require_shape(k, "key", contiguous(k.type, {key_entries, problem.kv_heads, k.shape[2], problem.head_dim}));
    require_shape(v, "value", contiguous(v.type, {key_entries, problem.kv_heads, k.shape[2], problem.v_head_dim}));
    require_shape(o, "output", contiguous(o.type, {q.shape[0], problem.query_heads, q.shape[2], problem.v_head_dim}));
    const bool shares = problem.kv_heads == 0 ? problem.query_heads == 0 : problem.query_heads % problem.kv_heads == 0;
    require(shares, "query: ", problem.query_heads, " heads, expected a multiple of the ", problem.kv_heads,
            " heads of key");
    require_no_overlap(o, "output");
}

bool broadcasts_to(uint64_t size, uint64_t full) { return size == 1 || size == full; }

// Brings [Lq|1,Lm], [B|1,Lq|1,Lm] and the full form to 4-D with stride 0 where the mask is broadcast.
// others: further shapes that are expected, for the message.
vkattn_tensor four_dimensional(const vkattn_tensor &mask, const char *name, const uint64_t (&limits)[4],
                               const char *others = "") {
    require(mask.rank >= 2, name, ": rank ", mask.rank, ", expected 2, 3 or 4");
    vkattn_tensor full{};
    full.type = mask.type;
    full.rank = 4;
    full.offset = mask.offset;
    const uint32_t from[3][4] = {{4, 4, 0, 1}, {0, 4, 1, 2}, {0, 1, 2, 3}}; // 4: absent
    for (uint32_t dim = 0; dim < 4; ++dim) {
        const uint32_t source = from[mask.rank - 2][dim];
        full.shape[dim] = source == 4 ? 1 : mask.shape[source];
        full.strides[dim] = full.shape[dim] == 1 ? 0 : mask.strides[source];
        const bool fits = dim == 3 ? full.shape[dim] <= limits[dim] : broadcasts_to(full.shape[dim], limits[dim]);
        require(fits, name, ": shape ", shape_text(mask), " does not broadcast, expected [", limits[0], "|1,",
                limits[1], "|1,", limits[2], "|1, at most ", limits[3], "]", others);
    }
    require(full.shape[3] == 1 || full.strides[3] == 1, name, ": last stride ", full.strides[3], ", expected 1");
    full.strides[3] = 1;
    return full;
}

vkattn_tensor checked_mask(const vkattn_tensor &given, const AttentionTensor &tensor, AttentionProblem &problem) {
    const vkattn_tensor mask = normalised(given, tensor.name);
    require_mask(mask, tensor.name);
    uint64_t limits[4] = {problem.batch, problem.query_heads, problem.q_len, problem.kv_len};
    for (uint32_t dim = 0; dim + 2 < mask.rank; ++dim) { // batch, and heads of rank 4
        const uint64_t size = mask.shape[dim];
        if (size <= 1 || size >= limits[dim] || limits[dim] % size != 0) continue;
        limits[dim] = size;
        problem.mask_in_turn = true;
    }
    return four_dimensional(mask, tensor.name, limits, ", or divisors of the first two");
}

vkattn_tensor checked_blocks(const vkattn_tensor &given, const AttentionTensor &tensor,
                             const vkattn_attention_desc &desc, AttentionProblem &problem) {
    const vkattn_tensor blocks = normalised(given, tensor.name);
    require(blocks.type == tensor.type, tensor.name, ": type ", type_name(blocks.type), ", expected ",
            type_name(tensor.type));
    require(desc.block_q_len >= 1, "block_q_len: 0, expected at least 1 with ", tensor.name);
    require(desc.block_kv_len >= 1, "block_kv_len: 0, expected at least 1 with ", tensor.name);
    problem.block_q_len = std::clamp(problem.q_len, 1u, desc.block_q_len);
    problem.block_kv_len = std::clamp(problem.kv_len, 1u, desc.block_kv_len);
    const uint64_t key_blocks = divide_up(problem.kv_len, problem.block_kv_len);
    const vkattn_tensor full = four_dimensional(
        blocks, tensor.name,
        {problem.batch, problem.query_heads, divide_up(problem.q_len, problem.block_q_len), key_blocks});
    require(full.shape[3] == key_blocks, tensor.name, ": ", full.shape[3], " blocks of keys, expected ", key_blocks,
            ", for ", problem.kv_len, " keys");
    return full;
}

vkattn_tensor checked_captured(const vkattn_tensor &given, const AttentionTensor &tensor) {
    const vkattn_tensor captured = normalised(given, tensor.name);
    require(is_float(captured.type) || captured.type == VKATTN_TYPE_I32, tensor.name, ": type ",
            type_name(captured.type), ", expected F32, F16, BF16 or I32");
    vkattn_tensor without_gaps = given;
    std::fill(std::begin(without_gaps.strides), std::end(without_gaps.strides), 0);
    return checked_contiguous(given, tensor.name, without_gaps);
}

vkattn_tensor checked_lists(const vkattn_tensor &given, const AttentionTensor &tensor,
                            const vkattn_attention_desc &desc, AttentionProblem &problem) {
    const vkattn_tensor lists = checked_rank(given, tensor.name, 4);
    require(lists.type == tensor.type, tensor.name, ": type ", type_name(lists.type), ", expected ",
            type_name(tensor.type));
    const bool packed = present(problem.cu_seqlens_q);
    const uint64_t entries = packed ? 1 : problem.batch, positions = packed ? problem.query.shape[2] : problem.q_len;
    const bool fits = lists.shape[0] == entries && (lists.shape[1] == 1 || lists.shape[1] == problem.kv_heads) &&
                      lists.shape[2] == positions;
    require(fits, tensor.name, ": shape ", shape_text(lists), ", expected [", entries, ",", problem.kv_heads, "|1,",
            positions, ",N]");
    require(lists.shape[3] <= 1 || lists.strides[3] == 1, tensor.name, ": last stride ", lists.strides[3],
            ", expected 1");
    problem.key_block_len = std::clamp(desc.key_block_len, 1u, std::max(problem.kv_len, 1u));
    require(lists.shape[3] * problem.key_block_len <= kLargestSize, tensor.name, ": ", lists.shape[3], " blocks of ",
            problem.key_block_len, " keys, expected at most 2^29 keys");
    require(!present(desc.attn_weights) && !present(desc.qk_matmul_output), tensor.name,
            ": given beside attn_weights or qk_matmul_output, expected neither: lists keep no scores");
    return lists;
}

vkattn_tensor checked_trees(const vkattn_tensor &given, const AttentionTensor &tensor,
                            const vkattn_attention_desc &desc, const AttentionProblem &problem) {
    const uint64_t words = divide_up(problem.q_len, 32u);
    const vkattn_tensor expected = present(problem.cu_seqlens_q)
                                       ? contiguous(tensor.type, {problem.query.shape[2], words})
                                       : contiguous(tensor.type, {problem.batch, problem.q_len, words});
    const vkattn_tensor trees = checked_contiguous(given, tensor.name, expected);
    const bool lengths_follow = !is_dense(problem) || present(desc.key_lengths) || present(desc.past_lengths);
    require(lengths_follow || problem.kv_len == 0 || problem.q_len <= problem.kv_len, tensor.name, ": given beside ",
            problem.q_len, " queries and ", problem.kv_len, " keys, expected at least as many keys as queries");
    return trees;
}

// A tensor whose shape follows from its layout; those that say the sizes are checked before.
vkattn_tensor checked_tensor(const vkattn_tensor &given, const AttentionTensor &tensor,
                             const vkattn_attention_desc &desc, AttentionProblem &problem) {
    const uint64_t batch = problem.batch, heads = problem.query_heads, q_len = problem.q_len, kv_len = problem.kv_len;
    const auto without_gaps = [&](std::initializer_list<uint64_t> shape) {
        return checked_contiguous(given, tensor.name, contiguous(tensor.type, shape));
    };
    switch (tensor.layout) {
    case TensorLayout::kQueries:
        return present(problem.cu_seqlens_q) ? without_gaps({heads, problem.query.shape[2]})
                                             : without_gaps({batch, heads, q_len});
    case TensorLayout::kScores:
        return without_gaps({batch, heads, q_len, kv_len});
    case TensorLayout::kSequences:
        return without_gaps({batch});
    case TensorLayout::kHeads:
        return without_gaps({heads});
    case TensorLayout::kMask:
        return checked_mask(given, tensor, problem);
    case TensorLayout::kBlocks:
        return checked_blocks(given, tensor, desc, problem);
    case TensorLayout::kLists:
        return checked_lists(given, tensor, desc, problem);
    case TensorLayout::kTrees:
        return checked_trees(given, tensor, desc, problem);
    case TensorLayout::kScales:
        return checked_scales(given, tensor.name, tensor.binding == BINDING_KEY_SCALES ? problem.key : problem.value);
    case TensorLayout::kCaptured:
        return checked_captured(given, tensor);
    case TensorLayout::kKeys: {
        const vkattn_tensor keys = checked_optional(given, tensor.name, contiguous(tensor.type, {batch, kv_len}));
        require(kv_len <= 1 || keys.strides[1] == 1, tensor.name, ": last stride ", keys.strides[1], ", expected 1");
        return keys;
    }
    default:
        return problem.*tensor.member;
    }
}

void check_tensors(const vkattn_attention_desc &desc, AttentionProblem &problem) {
    for (const AttentionTensor &tensor : kAttentionTensors)
        if (present(desc.*tensor.given))
            problem.*tensor.member = checked_tensor(desc.*tensor.given, tensor, desc, problem);
}

// What may be given of a number: at least so much, and below that.
struct Range {
    double least, beyond;
    const char *expected;
};
constexpr Range kOwn{};
constexpr Range kFromZero{0, HUGE_VAL, "a finite number >= 0, 0 for none"};
constexpr Range kProbability{0, 1, "at least 0 and below 1"};
constexpr Range kBound{-1, 0x1p31, "-1 (unbounded) or more"};
constexpr Range kLength{0, kLargestSize + 1.0, "at most 2^29"};

template <class Number>
void take_number(Number given, const char *name, const Range &range, Number &number) {
    const auto value = static_cast<double>(given);
    if (&range == &kOwn) return;
    require(value >= range.least && value < range.beyond, name, ": ", given, ", expected ", range.expected);
    number = given;
}

void check_numbers(const vkattn_attention_desc &desc, AttentionProblem &problem) {
#define VKATTN_TAKE(name, NAME, feature, Range, place) take_number(desc.name, #name, k##Range, problem.name);
    ATTENTION_NUMBERS(VKATTN_TAKE)
#undef VKATTN_TAKE
    problem.scale = finite_or(desc.scale, 1.0f / std::sqrt(static_cast<float>(problem.head_dim)), "scale");
    problem.dropout_seed = desc.dropout_seed;
    problem.batch_invariant = desc.batch_invariant != 0;
    require(desc.score_stage >= VKATTN_SCORES_SCALED && desc.score_stage <= VKATTN_SCORES_WEIGHTS,
            "score_stage: ", static_cast<int>(desc.score_stage), ", expected a vkattn_score_stage");
    problem.score_stage = desc.score_stage;
    require(desc.kv_head_mapping == VKATTN_KV_HEADS_GROUPED || desc.kv_head_mapping == VKATTN_KV_HEADS_MODULO,
            "kv_head_mapping: ", static_cast<int>(desc.kv_head_mapping), ", expected a vkattn_kv_head_mapping");
    problem.kv_head_mapping = desc.kv_head_mapping;
    require(desc.kernel >= VKATTN_KERNEL_AUTO && desc.kernel < VKATTN_KERNEL_COUNT,
            "kernel: ", static_cast<int>(desc.kernel), ", expected a vkattn_kernel");
    problem.kernel = desc.kernel;
    require(desc.query_rounding == VKATTN_TYPE_NONE || desc.query_rounding == VKATTN_TYPE_F16 ||
                desc.query_rounding == VKATTN_TYPE_BF16,
            "query_rounding: ", type_name(desc.query_rounding), ", expected NONE, F16 or BF16");
    if (problem.query.type == VKATTN_TYPE_F32) problem.query_rounding = desc.query_rounding;
}

int32_t resolve_offset(const vkattn_attention_desc &desc, const AttentionProblem &problem) {
    uint32_t past_len = 0;
    take_number(desc.past_len.value, "past_len", kLength, past_len);
    if (desc.past_len.present != 0) return static_cast<int32_t>(past_len);
    if (desc.causal_alignment == VKATTN_CAUSAL_TOP_LEFT) return 0;
    return static_cast<int32_t>(problem.kv_len) - static_cast<int32_t>(problem.q_len);
}

void check_geometry(const vkattn_attention_desc &desc, AttentionProblem &problem) {
    uint32_t known = 0;
#define VKATTN_TAKE(name, NAME, feature)                                                                               \
    known |= VKATTN_MASK_##NAME;                                                                                       \
    problem.name = (desc.mask_flags & VKATTN_MASK_##NAME) != 0;
    ATTENTION_FLAGS(VKATTN_TAKE)
#undef VKATTN_TAKE
    require((desc.mask_flags & ~known) == 0, "mask_flags: ", desc.mask_flags,
            " has unknown bits, expected vkattn_mask_flags");
    require(!problem.mask_times_slopes || (present(problem.alibi_slopes) && present(problem.attn_mask) &&
                                           problem.attn_mask.type != VKATTN_TYPE_BOOL),
            "mask_flags: VKATTN_MASK_TIMES_SLOPES, expected with alibi_slopes and an attn_mask of type F32 or F16");
    require(desc.causal_alignment == VKATTN_CAUSAL_TOP_LEFT || desc.causal_alignment == VKATTN_CAUSAL_BOTTOM_RIGHT,
            "causal_alignment: ", static_cast<int>(desc.causal_alignment), ", expected a vkattn_causal_alignment");
    problem.offset = resolve_offset(desc, problem);
    const bool unequal = present(problem.cu_seqlens_q) || present(problem.cu_seqlens_k) ||
                         present(problem.block_table) || present(problem.key_lengths);
    problem.offset_by_lengths =
        unequal && desc.past_len.present == 0 && desc.causal_alignment == VKATTN_CAUSAL_BOTTOM_RIGHT;
    problem.own_keys_last = desc.past_len.present == 0 && !present(problem.past_lengths) && !problem.offset_by_lengths;
    problem.window_left = problem.window_right = -1;
    if (!problem.windowed) return;
    take_number(desc.window_left, "window_left", kBound, problem.window_left);
    take_number(desc.window_right, "window_right", kBound, problem.window_right);
}

} // namespace

namespace {

// V as the first elements of K's rows.
vkattn_tensor value_of_key(const AttentionProblem &problem) {
    vkattn_tensor value = problem.key;
    value.shape[3] = problem.output.shape[3];
    require(value.shape[3] <= problem.key.shape[3], "value: absent, and output has head size ", value.shape[3],
            ", expected at most that of key, ", problem.key.shape[3], ", whose first elements V is then");
    require(!is_quantised(value.type) || value.shape[3] % storage_block(value.type).elements == 0, "output: head size ",
            value.shape[3], ", expected a multiple of ", storage_block(value.type).elements,
            ", the block of key's type");
    return value;
}

// A causal line far before the keys.
void hide_all_keys(AttentionProblem &problem) {
    problem.attn_mask = problem.past_lengths = {};
    problem.mask_in_turn = problem.mask_times_slopes = false;
    problem.causal = true;
    problem.offset = -static_cast<int32_t>(kLargestSize);
    problem.offset_by_lengths = false;
}

// One row of each head, every element of it the first of query.
vkattn_tensor element_of_query(const AttentionProblem &problem, uint32_t heads, uint32_t size) {
    vkattn_tensor row = problem.query;
    const uint64_t shape[4] = {problem.batch, heads, 1, size};
    std::copy(std::begin(shape), std::end(shape), row.shape);
    std::fill(std::begin(row.strides), std::end(row.strides), 0);
    return row;
}

AttentionProblem without_keys(const AttentionProblem &problem) {
    AttentionProblem result = problem;
    for (const AttentionTensor &tensor : kAttentionTensors) {
        vkattn_tensor &made = result.*tensor.member;
        require(tensor.layout != TensorLayout::kScores || !present(made) || is_empty(made),
                "attn_weights, qk_matmul_output: given, expected none of pages");
        if (is_of(tensor, {TensorLayout::kScores, TensorLayout::kBlocks, TensorLayout::kKeys, TensorLayout::kLists,
                           TensorLayout::kTrees, TensorLayout::kScales}))
            made = {};
    }
    result.key_lengths = result.cu_seqlens_k = result.block_table = {};
    result.block_q_len = result.block_kv_len = result.key_block_len = 0;
    result.kernel = VKATTN_KERNEL_AUTO;
    result.kv_len = 1;
    result.key = element_of_query(problem, problem.kv_heads, problem.head_dim);
    result.value = element_of_query(problem, problem.kv_heads, problem.v_head_dim);
    result.value_in_key = false;
    hide_all_keys(result);
    return result;
}

} // namespace

bool has_queries(const AttentionProblem &problem) {
    return problem.batch != 0 && problem.q_len != 0 && !is_empty(problem.output);
}

bool has_keys(const AttentionProblem &problem) { return problem.kv_len != 0 && !is_empty(problem.key); }

AttentionProblem with_memory(const AttentionProblem &problem) {
    AttentionProblem result = has_keys(problem) ? problem : without_keys(problem);
    if (present(result.attn_mask) && is_empty(result.attn_mask)) hide_all_keys(result);
    if (present(result.key_indices) && is_empty(result.key_indices)) {
        result.key_indices = {};
        result.key_block_len = 0;
        hide_all_keys(result);
    }
    return result;
}

namespace {

// In blocks of one element nothing is rotated.
void check_rotation(const vkattn_attention_desc &desc, AttentionProblem &problem) {
    const KvRotation rotation = rotation_of(desc);
    const auto block_of = [](bool rotated, uint32_t size) {
        const uint32_t block = hadamard_block(size);
        return rotated && block > 1 ? block : 0;
    };
    problem.key_hadamard = block_of(rotation.key, problem.head_dim);
    problem.value_hadamard = block_of(rotation.value, problem.v_head_dim);
    if (problem.value_in_key) problem.value_hadamard = problem.key_hadamard;
    require(problem.value_hadamard == 0 || problem.v_head_dim % problem.value_hadamard == 0, "output: head size ",
            problem.v_head_dim, ", expected a multiple of ", problem.value_hadamard,
            ", the block in which the rows that hold V are rotated");
}

void check_region_alignment(const vkattn_attention_desc &desc, AttentionProblem &problem) {
    const uint32_t given = desc.region_alignment;
    problem.region_alignment = given == 0 ? kVectorBytes : given;
    require(given == 0 || given == 4 || given == 8 || given == kVectorBytes, "region_alignment: ", given,
            ", expected 4, 8 or 16, or 0 for 16");
    require(problem.region_alignment == kVectorBytes || (problem.key_hadamard == 0 && problem.value_hadamard == 0),
            "region_alignment: ", given, ", expected 16 where K or V is rotated");
}

} // namespace

AttentionProblem check_attention(const vkattn_attention_desc &desc, uint32_t most_positions) {
    AttentionProblem problem{};
    problem.variant = desc.variant;
    for (const vkattn_tensor *captured : {&desc.captured_0, &desc.captured_1, &desc.captured_2, &desc.captured_3})
        require(desc.variant != nullptr || !present(*captured), "captured: given without variant, expected both");
    std::ranges::copy(desc.captured_numbers, problem.captured_numbers.begin());
    require(desc.variant != nullptr || problem.captured_numbers == decltype(problem.captured_numbers){},
            "captured_numbers: given without variant, expected both");
    problem.query = checked_rows(desc.query, "query", require_float);
    problem.key = checked_rows(desc.key, "key", require_key_value);
    problem.value_in_key = !present(desc.value);
    if (!problem.value_in_key) problem.value = checked_rows(desc.value, "value", require_key_value);
    problem.output = checked_rows(desc.output, "output", require_float);
    if (problem.value_in_key) problem.value = value_of_key(problem);
    check_sequences(desc, most_positions, problem);
    check_sizes(problem);
    check_tensors(desc, problem);
    if (problem.value_in_key) {
        require(!present(problem.value_scales), "value_scales: given, expected none where V is in K's rows");
        problem.value_scales = problem.key_scales;
    }
    check_numbers(desc, problem);
    check_geometry(desc, problem);
    check_rotation(desc, problem);
    check_region_alignment(desc, problem);
    return problem;
}

AttentionClass class_of(const AttentionProblem &problem) {
    AttentionClass problems{};
    problems.kernel = static_cast<uint32_t>(problem.kernel);
    problems.head_dim = problem.head_dim;
    problems.v_head_dim = problem.v_head_dim;
    problems.group = problem.query_heads / problem.kv_heads;
    problems.query_type = format_of(problem.query);
    problems.key_type = format_of(problem.key);
    problems.value_type = format_of(problem.value);
    uint32_t bit = 0;
    for (const bool flag :
         {problem.causal, problem.windowed, problem.value_in_key, problem.batch_invariant, problem.variant != nullptr})
        problems.flags |= uint32_t{flag} << bit++;
#define VKATTN_FLAG(name, NAME, feature, Range, place)                                                                 \
    if ((feature) != NO_FEATURE) problems.flags |= uint32_t{problem.name > 0} << bit++;
    ATTENTION_NUMBERS(VKATTN_FLAG)
#undef VKATTN_FLAG
    for (const AttentionTensor &tensor : kAttentionTensors)
        if (is_of(tensor, {TensorLayout::kMask, TensorLayout::kBlocks, TensorLayout::kScores, TensorLayout::kBounds,
                           TensorLayout::kPages, TensorLayout::kLists, TensorLayout::kTrees, TensorLayout::kScales}))
            problems.flags |= uint32_t{present(problem.*tensor.member)} << bit++;
    problems.flags |= uint32_t{problem.query_rounding != VKATTN_TYPE_NONE} << bit++;
    problems.log2_rows = log2_up(rows_that_share_keys(problem));
    problems.log2_keys = log2_up(slots_of(problem));
    const uint64_t lists = present(problem.key_indices) ? problem.q_len : 1; // each as if it were a head
    problems.log2_heads = log2_up(uint64_t{problem.batch} * problem.kv_heads * lists);
    return problems;
}

} // namespace vkattn
