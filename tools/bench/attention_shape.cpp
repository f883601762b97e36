#include "tools/bench/attention_shape.hpp"

#include "tools/cases/case_variant.hpp"
#include "tools/io/input_error.hpp"
#include "tools/io/text_file.hpp"
#include "tools/tensors/stored_types.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <numeric>
#include <random>
#include <utility>

namespace vkattn::tools {

namespace {

bool rotates(const std::string &rotation) {
    if (rotation != "none" && rotation != "hadamard")
        throw InputError("--kv-rotation " + rotation, "no such rotation, expected none or hadamard");
    return rotation == "hadamard";
}

} // namespace

std::vector<AttentionShape> shapes_of(const ShapeOptions &options) {
    std::vector<AttentionShape> shapes;
    const auto add = [&](std::uint32_t q_len, std::uint32_t kv_len) {
        shapes.push_back(options.shape);
        shapes.back().q_len = q_len;
        shapes.back().kv_len = kv_len;
        shapes.back().rotated = rotates(options.kv_rotation);
    };
    if (options.q_lens.size() == options.kv_lens.size())
        for (std::size_t i = 0; i < options.q_lens.size(); ++i) add(options.q_lens[i], options.kv_lens[i]);
    else if (options.q_lens.size() == 1 || options.kv_lens.size() == 1)
        for (const std::uint32_t kv_len : options.kv_lens)
            for (const std::uint32_t q_len : options.q_lens) add(q_len, kv_len);
    else
        throw InputError("--q-len, --kv-len", std::to_string(options.q_lens.size()) + " and " +
                                                  std::to_string(options.kv_lens.size()) +
                                                  " lengths, expected as many of both, or one of either");
    return shapes;
}

NamedType named_type(const char *option, const std::string &name, bool (*is_one)(vkattn_type)) {
    const vkattn_type type = type_named(option, name, is_one);
    return {dtype_of(type), type};
}

std::uint32_t blocks_of(const AttentionShape &shape, std::uint32_t len) {
    return (len + shape.block_size - 1) / shape.block_size;
}

std::uint64_t seen_keys(const AttentionShape &shape, std::uint32_t query) {
    if (!shape.causal) return shape.kv_len;
    const std::uint64_t hidden = shape.q_len - 1 - query;
    return hidden < shape.kv_len ? shape.kv_len - hidden : 0;
}

std::vector<std::int32_t> key_lists(const AttentionShape &shape) {
    std::vector<std::int32_t> keys(shape.kv_len), lists;
    std::iota(keys.begin(), keys.end(), 0);
    std::mt19937 random(2);
    for (std::uint32_t query = 0; query < shape.q_len; ++query) {
        const auto seen = static_cast<std::ptrdiff_t>(seen_keys(shape, query));
        std::sample(keys.begin(), keys.begin() + seen, std::back_inserter(lists), shape.key_list, random);
        lists.resize(std::size_t{query + 1} * shape.key_list, -1);
    }
    return lists;
}

std::vector<std::uint32_t> tree_rows(const AttentionShape &shape) {
    const std::size_t words = (shape.q_len + 31) / 32;
    std::vector<std::uint32_t> rows(shape.q_len * words);
    std::mt19937 random(3);
    for (std::size_t query = 0; query < shape.q_len; ++query) {
        const auto row = rows.begin() + static_cast<std::ptrdiff_t>(query * words);
        const std::size_t parent = query == 0 ? 0 : random() % query;
        if (query > 0) std::copy_n(rows.begin() + static_cast<std::ptrdiff_t>(parent * words), words, row);
        rows[query * words + query / 32] |= 1u << (query % 32);
    }
    return rows;
}

std::vector<std::int32_t> block_states(const AttentionShape &shape) {
    const std::size_t rows = blocks_of(shape, shape.q_len), columns = blocks_of(shape, shape.kv_len);
    const std::size_t visible = std::clamp<std::size_t>(columns * shape.visible_blocks / 100, 1, columns);
    std::vector<std::int32_t> states(rows * columns, VKATTN_BLOCK_HIDDEN);
    std::vector<std::size_t> order(columns);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::mt19937 random(1);
    for (std::size_t row = 0; row < rows; ++row) {
        std::ranges::shuffle(order, random);
        for (std::size_t i = 0; i < visible; ++i) states[row * columns + order[i]] = VKATTN_BLOCK_FULL;
    }
    return states;
}

namespace {

Variant variant_of(const Context &context, const std::string &file) {
    if (!std::filesystem::exists(file))
        throw InputError(file, "is not there, expected GLSL that defines functions of a variant, or .spv made of it");
    const std::string content = read_if_there(file);
    return file.ends_with(".spv") ? context.variant(std::as_bytes(std::span(content))) : make_variant(context, content);
}

// Scales of so many rows [entries,heads,rows,D], as many as the word says do not share one.
vkattn_tensor scales_of(const std::string &word, const vkattn_tensor &rows) {
    if (word == "tensor") return tensor(VKATTN_TYPE_F32, {1, 1, 1, 1});
    if (word == "head") return tensor(VKATTN_TYPE_F32, {1, rows.shape[1], 1, 1});
    if (word == "row") return tensor(VKATTN_TYPE_F32, {rows.shape[0], rows.shape[1], rows.shape[2], 1});
    throw InputError("--kv-scales " + word, "no such scales, expected none, tensor, head or row");
}

} // namespace

ShapedProblem problem_of(const Context &context, const AttentionShape &shape, vkattn_kernel kernel) {
    const std::uint32_t kv_heads = shape.kv_heads != 0 ? shape.kv_heads : shape.heads;
    const std::uint32_t v_head_dim = shape.v_head_dim != 0 ? shape.v_head_dim : shape.head_dim;
    ShapedProblem problem;
    problem.query_type = named_type("--dtype", shape.dtype, is_float);
    problem.kv_type =
        shape.kv_dtype.empty() ? problem.query_type : named_type("--kv-dtype", shape.kv_dtype, is_key_value);
    vkattn_attention_desc &desc = problem.desc;
    std::uint32_t entries = shape.batch, rows = shape.kv_len;
    if (shape.page_size != 0) {
        const std::uint32_t pages = (shape.kv_len + shape.page_size - 1) / shape.page_size;
        desc.block_table = tensor(VKATTN_TYPE_I32, {shape.batch, pages});
        entries = shape.batch * pages;
        rows = shape.page_size;
    }
    desc.query = tensor(problem.query_type.type, {shape.batch, shape.heads, shape.q_len, shape.head_dim});
    desc.key = tensor(problem.kv_type.type, {entries, kv_heads, rows, shape.head_dim});
    if (!shape.value_in_key) desc.value = tensor(problem.kv_type.type, {entries, kv_heads, rows, v_head_dim});
    desc.output = tensor(problem.query_type.type, {shape.batch, shape.heads, shape.q_len, v_head_dim});
    if (shape.causal) desc.mask_flags = VKATTN_MASK_CAUSAL;
    // With the last query at the last key, as in decoding and in prefill with a cache.
    desc.causal_alignment = VKATTN_CAUSAL_BOTTOM_RIGHT;
    if (shape.block_size != 0) {
        desc.block_mask =
            tensor(VKATTN_TYPE_I32, {1, 1, blocks_of(shape, shape.q_len), blocks_of(shape, shape.kv_len)});
        desc.block_q_len = desc.block_kv_len = shape.block_size;
    }
    if (shape.key_list != 0) desc.key_indices = tensor(VKATTN_TYPE_I32, {shape.batch, 1, shape.q_len, shape.key_list});
    if (shape.tree) desc.tree_mask = tensor(VKATTN_TYPE_I32, {shape.batch, shape.q_len, (shape.q_len + 31) / 32});
    if (shape.rotated) desc.key_rotation = desc.value_rotation = VKATTN_ROTATION_HADAMARD;
    if (shape.kv_scales != "none") {
        desc.key_scales = scales_of(shape.kv_scales, desc.key);
        if (!shape.value_in_key) desc.value_scales = scales_of(shape.kv_scales, desc.value);
    }
    if (!shape.variant.empty()) {
        problem.variant = std::make_shared<const Variant>(variant_of(context, shape.variant));
        desc.variant = problem.variant->get();
    }
    desc.softcap = shape.softcap;
    if (shape.alibi) desc.alibi_slopes = tensor(VKATTN_TYPE_F32, {shape.heads});
    desc.kernel = kernel;
    return problem;
}

ShapedIndex index_of(const Context &context, const AttentionShape &shape) {
    AttentionShape scored = shape;
    scored.kv_heads = 1;
    scored.value_in_key = true;
    ShapedIndex index{problem_of(context, scored, VKATTN_KERNEL_AUTO)};
    const vkattn_attention_desc &attention = index.attention.desc;
    index.desc.query = attention.query;
    index.desc.key = attention.key;
    index.desc.key_scales = attention.key_scales;
    index.desc.block_table = attention.block_table;
    index.desc.mask_flags = attention.mask_flags;
    index.desc.causal_alignment = attention.causal_alignment;
    index.desc.weights = tensor(VKATTN_TYPE_F32, {shape.batch, shape.q_len, shape.heads});
    index.desc.indices = tensor(VKATTN_TYPE_I32, {shape.batch, 1, shape.q_len, shape.index});
    return index;
}

std::vector<float> alibi_slopes(const AttentionShape &shape) {
    std::vector<float> slopes;
    for (std::uint32_t head = 1; head <= shape.heads; ++head)
        slopes.push_back(std::exp2(-8.0f * static_cast<float>(head) / static_cast<float>(shape.heads)));
    return slopes;
}

vkattn_attention_backward_desc gradients_of(ShapedProblem &problem, const AttentionShape &shape) {
    problem.desc.log_sum_exp = tensor(VKATTN_TYPE_F32, {shape.batch, shape.heads, shape.q_len});
    vkattn_attention_backward_desc desc{};
    desc.attention = &problem.desc;
    desc.d_output = problem.desc.output;
    desc.d_query = problem.desc.query;
    desc.d_key = problem.desc.key;
    desc.d_value = problem.desc.value;
    return desc;
}

Plan plan_of(const Context &context, const AttentionShape &shape, vkattn_kernel kernel) {
    if (shape.index != 0) return context.index_plan(index_of(context, shape).desc);
    ShapedProblem problem = problem_of(context, shape, kernel);
    if (shape.backward) return context.attention_backward_plan(gradients_of(problem, shape));
    return context.attention_plan(problem.desc);
}

std::string lengths_text(const AttentionShape &shape) {
    return "q_len " + std::to_string(shape.q_len) + ", kv_len " + std::to_string(shape.kv_len);
}

std::string shape_text(const AttentionShape &shape, const std::string &lengths) {
    std::string text = "batch " + std::to_string(shape.batch) + ", " + std::to_string(shape.heads) + " query heads";
    if (shape.kv_heads != 0) text += ", " + std::to_string(shape.kv_heads) + " KV heads";
    text += ", head size " + std::to_string(shape.head_dim);
    if (shape.v_head_dim != 0) text += " / " + std::to_string(shape.v_head_dim);
    text += ", " + shape.dtype + (shape.kv_dtype.empty() ? "" : ", K and V " + shape.kv_dtype) + ", " + lengths;
    if (shape.page_size != 0) text += ", pages of " + std::to_string(shape.page_size);
    if (shape.block_size != 0)
        text += ", " + std::to_string(shape.visible_blocks) + " % of blocks of " + std::to_string(shape.block_size);
    if (shape.key_list != 0) text += ", lists of " + std::to_string(shape.key_list) + " keys";
    if (shape.tree) text += ", a tree of drafts";
    if (shape.rotated) text += ", K and V rotated";
    if (shape.kv_scales != "none") text += ", scales of each " + shape.kv_scales;
    if (shape.index != 0) text += ", choice of " + std::to_string(shape.index) + " keys";
    if (shape.backward) text += ", gradients";
    if (shape.softcap != 0.0f) text += ", softcap";
    if (shape.alibi) text += ", ALiBi";
    if (!shape.variant.empty()) text += ", functions of " + shape.variant;
    return text + (shape.causal ? ", causal" : "");
}

} // namespace vkattn::tools
