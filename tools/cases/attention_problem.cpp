// Ops "attention" and "attention_backward": tensors of ONNX Attention's names and shapes to vkattn_attention_desc, and the gradients of it.
#include "tools/cases/case_problem.hpp"
#include "tools/io/input_error.hpp"
#include "tools/tensors/stored_types.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <tuple>

namespace vkattn::tools {
namespace {

constexpr std::string_view kAttentionInputs[] = {"q",
                                                 "k",
                                                 "v",
                                                 "attn_mask",
                                                 "block_mask",
                                                 "key_padding_mask",
                                                 "nonpad_kv_seqlen",
                                                 "past_key",
                                                 "past_value",
                                                 "alibi_slopes",
                                                 "sinks",
                                                 "cu_seqlens_q",
                                                 "cu_seqlens_k",
                                                 "block_table",
                                                 "key_indices",
                                                 "tree_mask",
                                                 "captured.0",
                                                 "captured.1",
                                                 "captured.2",
                                                 "captured.3"};
constexpr std::array<std::string_view, 6> kAttentionOutputs{"output",      "lse",           "attn_weights",
                                                            "present_key", "present_value", "qk_matmul_output"};

// A tensor as [B,H,L,D], whatever its storage: 3-D ones are [B,L,H*D], and packed ones [total,H,D].
struct HeadsView {
    const HostTensor *tensor = nullptr;
    vkattn_tensor layout{};
    bool is_3d = false;
    bool is_packed = false;
};

HeadsView view_packed(const HostTensor &tensor) {
    const std::uint64_t total = tensor.shape[0], heads = tensor.shape[1], size = tensor.shape[2];
    vkattn_tensor layout{type_of(tensor.dtype), 4, {1, heads, total, size}, {}, 0};
    const std::array<std::uint64_t, 4> strides{total * heads * size, size, heads * size, 1};
    std::ranges::copy(strides, layout.strides);
    return {&tensor, layout, false, true};
}

HeadsView view_heads(const ProblemBuilder &builder, const std::string &name, std::uint32_t heads, const char *key,
                     const char *cu_seqlens) {
    const HostTensor &tensor = builder.required_float(name, 4, 3);
    const std::vector<std::uint64_t> &shape = tensor.shape;
    if (shape.size() == 3 && builder.input().find(cu_seqlens) != nullptr) return view_packed(tensor);
    if (shape.size() == 4) {
        if (heads != 0 && shape[1] != heads)
            builder.fail("tensor '" + name + "' is " + shape_text(shape) + ", expected " + std::to_string(heads) +
                         " heads by config key '" + key + "'");
        return {&tensor, builder.contiguous(name, type_of(tensor.dtype), shape), false};
    }
    if (heads == 0)
        builder.fail("tensor '" + name + "' is 3-D, expected config key '" + key + "' to say its number of heads");
    if (shape[2] % heads != 0)
        builder.fail("tensor '" + name + "' is " + shape_text(shape) + ", expected a last dimension that " +
                     std::to_string(heads) + " heads divide");
    const std::uint64_t width = shape[2];
    const std::uint64_t head_dim = width / heads;
    vkattn_tensor layout{type_of(tensor.dtype), 4, {shape[0], heads, shape[1], head_dim}, {}, 0};
    const std::array<std::uint64_t, 4> strides{shape[1] * width, head_dim, width, 1};
    std::ranges::copy(strides, layout.strides);
    return {&tensor, layout, true};
}

void check_past(const ProblemBuilder &builder, const std::string &name, const HostTensor &past,
                const HeadsView &fresh) {
    builder.check_float(name, past, 4, 4);
    if (past.dtype != fresh.tensor->dtype)
        builder.fail("tensor '" + name + "' is " + std::string(dtype_name(past.dtype)) + ", expected " +
                     std::string(dtype_name(fresh.tensor->dtype)) + " as the new tokens are");
    const std::uint64_t *shape = fresh.layout.shape;
    if (past.shape[0] != shape[0] || past.shape[1] != shape[1] || past.shape[3] != shape[3])
        builder.fail("tensor '" + name + "' is " + shape_text(past.shape) + ", expected [" + std::to_string(shape[0]) +
                     "," + std::to_string(shape[1]) + ",past length," + std::to_string(shape[3]) + "]");
}

// Joins past (or nothing) and the new tokens as one contiguous [B,H,P+L,D].
HostTensor join_tokens(const HostTensor *past, const HeadsView &fresh) {
    const auto [batch, heads, len, dim] = std::to_array(fresh.layout.shape);
    const std::size_t row = dim * dtype_bytes(fresh.tensor->dtype);
    const std::uint64_t past_len = past == nullptr ? 0 : past->shape[2];
    HostTensor joined{fresh.tensor->dtype, {batch, heads, past_len + len, dim}, {}};
    joined.bytes.reserve(fresh.tensor->bytes.size() + (past == nullptr ? 0 : past->bytes.size()));
    const auto append = [&joined](const HostTensor &from, std::size_t begin, std::size_t count) {
        const auto first = from.bytes.begin() + static_cast<std::ptrdiff_t>(begin);
        joined.bytes.insert(joined.bytes.end(), first, first + static_cast<std::ptrdiff_t>(count));
    };
    for (std::uint64_t b = 0; b < batch; ++b)
        for (std::uint64_t h = 0; h < heads; ++h) {
            if (past != nullptr) append(*past, (b * heads + h) * past_len * row, past_len * row);
            for (std::uint64_t i = 0; i < len; ++i) {
                const std::uint64_t source = fresh.is_3d ? (b * len + i) * heads + h : (b * heads + h) * len + i;
                append(*fresh.tensor, source * row, row);
            }
        }
    return joined;
}

struct SideNames {
    std::string fresh;
    std::string past;
    std::string present;
};

// Converts the side to its storage type.
void store_as(ProblemBuilder &builder, const SideNames &names, vkattn_type type, HeadsView &side) {
    side.layout.type = type;
    side.tensor = &builder.keep(tensor_of(dtype_of(type), side.tensor->shape, values_of(*side.tensor)));
    if (!is_quantised(type)) return;
    if (builder.wants(names.present))
        builder.fail("output '" + names.present + "' of a quantised type, expected k_dtype and v_dtype " +
                     type_names(is_float, " or "));
    if (side.layout.shape[3] % 32 != 0)
        builder.fail("tensor '" + names.fresh + "' has head size " + std::to_string(side.layout.shape[3]) +
                     ", expected a multiple of 32 for a quantised type");
}

// Makes K or V of the problem: past in front, in the storage type asked for.
HeadsView make_side(ProblemBuilder &builder, const SideNames &names, std::optional<vkattn_type> storage) {
    HeadsView side =
        view_heads(builder, names.fresh, builder.input().attention.kv_num_heads, "kv_num_heads", "cu_seqlens_k");
    const HostTensor *past = builder.input().find(names.past);
    if (past != nullptr) check_past(builder, names.past, *past, side);
    if (past != nullptr || builder.wants(names.present)) {
        side.tensor = &builder.keep(join_tokens(past, side));
        side.layout = builder.contiguous(names.fresh, type_of(side.tensor->dtype), side.tensor->shape);
        side.is_3d = false;
    }
    if (storage.has_value() && *storage != side.layout.type) store_as(builder, names, *storage, side);
    return side;
}

// present_* of this op is what was attended to: it is read back from the buffer of K or V.
void add_present(ProblemBuilder &builder, const std::string &name, vkattn_role role, const HeadsView &side) {
    if (builder.wants(name)) builder.add_output({name, role, side.layout, side.tensor->dtype, side.tensor->shape});
}

vkattn_tensor add_attention_output(ProblemBuilder &builder, const HeadsView &query, std::uint64_t v_head_dim) {
    const auto [batch, heads, len, unused] = std::to_array(query.layout.shape);
    const Dtype dtype = query.tensor->dtype;
    if (query.is_packed) {
        const vkattn_tensor layout = view_packed({dtype, {len, heads, v_head_dim}, {}}).layout;
        builder.add_output({"output", VKATTN_ROLE_OUTPUT, layout, dtype, {len, heads, v_head_dim}});
        return layout;
    }
    if (!query.is_3d) return builder.add_output("output", VKATTN_ROLE_OUTPUT, dtype, {batch, heads, len, v_head_dim});
    const std::uint64_t width = heads * v_head_dim;
    vkattn_tensor layout{type_of(dtype), 4, {batch, heads, len, v_head_dim}, {}, 0};
    const std::array<std::uint64_t, 4> strides{len * width, v_head_dim, width, 1};
    std::ranges::copy(strides, layout.strides);
    builder.add_output({"output", VKATTN_ROLE_OUTPUT, layout, dtype, {batch, len, width}});
    return layout;
}

// No kernel writes them there.
void check_scores(const ProblemBuilder &builder) {
    for (const char *output : {"attn_weights", "qk_matmul_output"})
        for (const char *tensor : {"cu_seqlens_q", "cu_seqlens_k", "block_table"})
            if (builder.wants(output) && builder.input().find(tensor) != nullptr)
                builder.fail(std::string("output '") + output + "' beside tensor '" + tensor +
                             "', expected a case of dense q, k and v: packed and paged ones have none");
}

void add_score_outputs(ProblemBuilder &builder, vkattn_attention_desc &desc) {
    check_scores(builder);
    const auto [batch, heads, q_len, unused] = std::to_array(desc.query.shape);
    const std::uint64_t kv_len = desc.key.shape[2];
    const bool packed = builder.input().find("cu_seqlens_q") != nullptr;
    std::vector<std::uint64_t> rows{batch, heads, q_len};
    if (packed) rows.erase(rows.begin());
    if (builder.wants("lse")) desc.log_sum_exp = builder.add_output("lse", VKATTN_ROLE_LOG_SUM_EXP, Dtype::kF32, rows);
    if (builder.wants("attn_weights"))
        desc.attn_weights =
            builder.add_output("attn_weights", VKATTN_ROLE_ATTN_WEIGHTS, Dtype::kF32, {batch, heads, q_len, kv_len});
    if (builder.wants("qk_matmul_output"))
        desc.qk_matmul_output = builder.add_output("qk_matmul_output", VKATTN_ROLE_QK_MATMUL_OUTPUT, Dtype::kF32,
                                                   {batch, heads, q_len, kv_len});
}

void fill_config(const CaseFile &input, vkattn_attention_desc &desc) {
    desc.score_stage = input.attention.score_stage;
    if (input.attention.scale) desc.scale = *input.attention.scale;
    desc.softcap = input.attention.softcap;
    desc.dropout_p = input.attention.dropout_p;
    desc.dropout_seed = input.attention.dropout_seed;
    desc.kv_head_mapping = input.attention.kv_head_mapping;
    desc.mask_flags = input.mask.flags;
    desc.causal_alignment = input.causal_alignment();
    desc.window_left = input.mask.window_left;
    desc.window_right = input.mask.window_right;
    desc.block_q_len = input.mask.block_q_len;
    desc.block_kv_len = input.mask.block_kv_len;
    desc.query_rounding = input.attention.query_rounding;
    std::ranges::copy(input.attention.captured_numbers, desc.captured_numbers);
}

// What is joined in front of K and V, or returned with it, is dense.
void check_sequences(const ProblemBuilder &builder) {
    for (const char *name : {"cu_seqlens_k", "block_table"}) {
        if (builder.input().find(name) == nullptr) continue;
        if (builder.input().find("past_key") != nullptr || builder.wants("present_key") ||
            builder.wants("present_value"))
            builder.fail(std::string("tensor '") + name + "' beside past_key, present_key or present_value, expected " +
                         "the past to be among the keys");
    }
}

// Q, K and V of a problem.
struct Sides {
    HeadsView query, key, value;
};

Sides fill_inputs(ProblemBuilder &builder, vkattn_attention_desc &desc) {
    const AttentionConfig &config = builder.input().attention;
    const Sides sides{view_heads(builder, "q", config.q_num_heads, "q_num_heads", "cu_seqlens_q"),
                      make_side(builder, {"k", "past_key", "present_key"}, config.k_dtype),
                      make_side(builder, {"v", "past_value", "present_value"}, config.v_dtype)};
    desc.query = builder.add(VKATTN_ROLE_QUERY, sides.query.layout, *sides.query.tensor);
    desc.key = builder.add(VKATTN_ROLE_KEY, sides.key.layout, *sides.key.tensor);
    desc.value = builder.add(VKATTN_ROLE_VALUE, sides.value.layout, *sides.value.tensor);
    check_sequences(builder);
    desc.cu_seqlens_q = builder.add_integers(VKATTN_ROLE_CU_SEQLENS_Q, "cu_seqlens_q");
    desc.cu_seqlens_k = builder.add_integers(VKATTN_ROLE_CU_SEQLENS_K, "cu_seqlens_k");
    desc.block_table = builder.add_integers(VKATTN_ROLE_BLOCK_TABLE, "block_table");
    return sides;
}

// Left out without a past: then causal_alignment counts.
vkattn_optional_uint find_past_len(const ProblemBuilder &builder) {
    const HostTensor *past_key = builder.input().find("past_key");
    const HostTensor *past_value = builder.input().find("past_value");
    if ((past_key == nullptr) != (past_value == nullptr))
        builder.fail("has one of past_key and past_value, expected both or neither");
    if (past_key == nullptr) return {};
    if (past_key->shape[2] != past_value->shape[2])
        builder.fail("tensor 'past_value' is " + shape_text(past_value->shape) + ", expected the past length of " +
                     "past_key, " + std::to_string(past_key->shape[2]));
    return static_cast<std::uint32_t>(past_key->shape[2]);
}

// All of a problem but its outputs.
Sides fill_problem(ProblemBuilder &builder, vkattn_kernel kernel, vkattn_attention_desc &desc) {
    desc.kernel = kernel;
    fill_config(builder.input(), desc);
    const Sides sides = fill_inputs(builder, desc);
    desc.past_len = find_past_len(builder);
    desc.attn_mask = builder.add_attn_mask();
    desc.block_mask = builder.add_block_mask();
    desc.key_padding_mask = builder.add_key_padding_mask();
    desc.key_lengths = builder.add_integers(VKATTN_ROLE_KEY_LENGTHS, "nonpad_kv_seqlen");
    desc.alibi_slopes = builder.add_f32_vector(VKATTN_ROLE_ALIBI_SLOPES, "alibi_slopes");
    desc.sinks = builder.add_f32_vector(VKATTN_ROLE_SINKS, "sinks");
    builder.add_rotation(desc);
    builder.add_key_list(desc);
    desc.tree_mask = builder.add_integers(VKATTN_ROLE_TREE_MASK, "tree_mask");
    builder.add_functions(desc);
    return sides;
}

// As a tensor lies in the file, in its type; absent unless it is wanted.
vkattn_tensor add_gradient(ProblemBuilder &builder, const std::string &name, vkattn_role role, const HeadsView &like) {
    if (builder.wants(name)) builder.add_output({name, role, like.layout, like.tensor->dtype, like.tensor->shape});
    return builder.wants(name) ? like.layout : vkattn_tensor{};
}

// Without a past, which would be part of the keys, and what has no gradients.
constexpr std::string_view kBackwardInputs[] = {"q",
                                                "k",
                                                "v",
                                                "d_output",
                                                "attn_mask",
                                                "block_mask",
                                                "key_padding_mask",
                                                "nonpad_kv_seqlen",
                                                "alibi_slopes",
                                                "sinks",
                                                "cu_seqlens_q",
                                                "cu_seqlens_k",
                                                "key_indices",
                                                "tree_mask",
                                                "captured.0",
                                                "captured.1",
                                                "captured.2",
                                                "captured.3"};
constexpr std::array<std::string_view, 5> kBackwardOutputs{"d_query", "d_key", "d_value", "d_attn_mask", "d_sinks"};

void add_gradients(ProblemBuilder &builder, const Sides &sides, vkattn_attention_backward_desc &gradients) {
    gradients.d_query = add_gradient(builder, "d_query", VKATTN_ROLE_D_QUERY, sides.query);
    gradients.d_key = add_gradient(builder, "d_key", VKATTN_ROLE_D_KEY, sides.key);
    gradients.d_value = add_gradient(builder, "d_value", VKATTN_ROLE_D_VALUE, sides.value);
    const CaseFile &input = builder.input();
    for (const auto &[of, name, role, gradient] :
         {std::tuple("attn_mask", "d_attn_mask", VKATTN_ROLE_D_ATTN_MASK, &gradients.d_attn_mask),
          std::tuple("sinks", "d_sinks", VKATTN_ROLE_D_SINKS, &gradients.d_sinks)}) {
        if (!builder.wants(name)) continue;
        const HostTensor *tensor = input.find(of);
        if (tensor == nullptr)
            builder.fail(std::string("output '") + name + "' without tensor '" + of + "', expected both");
        *gradient = builder.add_output(name, role, Dtype::kF32, tensor->shape);
    }
}

} // namespace

Problem make_attention_problem(const CaseFile &input, std::span<const std::string> wanted, vkattn_kernel kernel) {
    ProblemBuilder builder(input, wanted);
    builder.check_inputs(kAttentionInputs);
    builder.check_wanted(kAttentionOutputs);
    vkattn_attention_desc desc{};
    const Sides sides = fill_problem(builder, kernel, desc);
    desc.output = add_attention_output(builder, sides.query, sides.value.layout.shape[3]);
    add_present(builder, "present_key", VKATTN_ROLE_KEY, sides.key);
    add_present(builder, "present_value", VKATTN_ROLE_VALUE, sides.value);
    add_score_outputs(builder, desc);
    return builder.finish(desc);
}

Problem make_attention_backward_problem(const CaseFile &input, std::span<const std::string> wanted,
                                        vkattn_kernel kernel) {
    ProblemBuilder builder(input, wanted);
    builder.check_inputs(kBackwardInputs);
    builder.check_wanted(kBackwardOutputs);
    BackwardProblem problem;
    const Sides sides = fill_problem(builder, kernel, problem.attention);
    const HeadsView d_output =
        view_heads(builder, "d_output", input.attention.q_num_heads, "q_num_heads", "cu_seqlens_q");
    problem.gradients.d_output = builder.add(VKATTN_ROLE_D_OUTPUT, d_output.layout, *d_output.tensor);
    add_gradients(builder, sides, problem.gradients);
    return builder.finish(problem);
}

} // namespace vkattn::tools
