#include "tools/bench/attention.hpp"

#include "tools/tensors/stored_types.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace vkattn::tools {
namespace {

// Query-key pairs of one head that the masks leave.
double visible_pairs(const AttentionShape &shape) {
    std::uint64_t pairs = 0;
    const std::vector<std::int32_t> states = shape.block_size == 0 ? std::vector<std::int32_t>() : block_states(shape);
    const std::size_t columns = shape.block_size == 0 ? 0 : blocks_of(shape, shape.kv_len);
    for (std::uint32_t query = 0; query < shape.q_len; ++query) {
        std::uint64_t seen = seen_keys(shape, query);
        if (shape.key_list != 0) seen = std::min<std::uint64_t>(seen, shape.key_list);
        if (columns == 0) pairs += seen;
        for (std::size_t column = 0; column < columns; ++column) {
            const std::uint64_t begin = column * shape.block_size, end = std::min(begin + shape.block_size, seen);
            if (begin < end && states[query / shape.block_size * columns + column] != VKATTN_BLOCK_HIDDEN)
                pairs += end - begin;
        }
    }
    return static_cast<double>(pairs);
}

double flops(const AttentionShape &shape, const vkattn_attention_desc &desc) {
    return 2.0 * shape.batch * shape.heads * visible_pairs(shape) *
           static_cast<double>(desc.key.shape[3] + desc.output.shape[3]);
}

// Of K and V no more than the lists can name.
double bytes_once(const AttentionShape &shape, const vkattn_attention_desc &desc) {
    double keys = 0.0;
    for (const vkattn_tensor *each : {&desc.key, &desc.value}) keys += static_cast<double>(vkattn_tensor_bytes(each));
    if (shape.key_list != 0)
        keys *= std::min(1.0, static_cast<double>(shape.key_list) * shape.q_len / static_cast<double>(shape.kv_len));
    return keys + static_cast<double>(vkattn_tensor_bytes(&desc.query) + vkattn_tensor_bytes(&desc.output));
}

void fill_quantised(const Context &context, const RandomValues &random, const vkattn_tensor &layout, Buffer &buffer) {
    vkattn_tensor unquantised = layout;
    unquantised.type = VKATTN_TYPE_F32;
    Buffer values = context.buffer(unquantised);
    random.fill(values, Dtype::kF32, vkattn_tensor_bytes(&unquantised));
    store(context, layout, values, buffer);
}

// Every page once, in an order that no memory likes.
void fill_block_table(InputSet &set, const Context &context, const ShapedProblem &problem, unsigned seed) {
    std::vector<std::int32_t> pages(problem.desc.key.shape[0]);
    std::iota(pages.begin(), pages.end(), 0);
    std::ranges::shuffle(pages, std::mt19937(seed));
    set.add(context, VKATTN_ROLE_BLOCK_TABLE, vkattn_tensor_bytes(&problem.desc.block_table))
        .write(std::as_bytes(std::span(pages)));
}

// Random numbers, in the tensor's type.
void add_random(InputSet &set, const Context &context, const RandomValues &random, vkattn_role role,
                const vkattn_tensor &layout, Dtype dtype) {
    Buffer &buffer = set.add(context, role, vkattn_tensor_bytes(&layout));
    if (is_quantised(layout.type))
        fill_quantised(context, random, layout, buffer);
    else
        random.fill(buffer, dtype, vkattn_tensor_bytes(&layout));
}

void add_ones(InputSet &set, const Context &context, vkattn_role role, const vkattn_tensor &layout) {
    const std::uint64_t bytes = vkattn_tensor_bytes(&layout);
    if (bytes == 0) return;
    const std::vector<float> ones(bytes / sizeof(float), 1.0f);
    set.add(context, role, bytes).write(std::as_bytes(std::span(ones)));
}

// Q, K and V, and where they lie.
InputSet make_operands(const Context &context, const ShapedProblem &problem, const RandomValues &random,
                       unsigned seed) {
    InputSet set;
    add_random(set, context, random, VKATTN_ROLE_QUERY, problem.desc.query, problem.query_type.dtype);
    add_random(set, context, random, VKATTN_ROLE_KEY, problem.desc.key, problem.kv_type.dtype);
    if (problem.desc.value.type != VKATTN_TYPE_NONE)
        add_random(set, context, random, VKATTN_ROLE_VALUE, problem.desc.value, problem.kv_type.dtype);
    if (problem.desc.block_table.type != VKATTN_TYPE_NONE) fill_block_table(set, context, problem, seed);
    add_ones(set, context, VKATTN_ROLE_KEY_SCALES, problem.desc.key_scales);
    add_ones(set, context, VKATTN_ROLE_VALUE_SCALES, problem.desc.value_scales);
    return set;
}

InputSet make_input_set(const Context &context, const AttentionShape &shape, const ShapedProblem &problem,
                        unsigned seed) {
    InputSet set = make_operands(context, problem, RandomValues(seed), seed);
    if (problem.desc.block_mask.type != VKATTN_TYPE_NONE) {
        const std::vector<std::int32_t> states = block_states(shape);
        set.add(context, VKATTN_ROLE_BLOCK_MASK, vkattn_tensor_bytes(&problem.desc.block_mask))
            .write(std::as_bytes(std::span(states)));
    }
    if (shape.alibi) {
        const std::vector<float> slopes = alibi_slopes(shape);
        set.add(context, VKATTN_ROLE_ALIBI_SLOPES, vkattn_tensor_bytes(&problem.desc.alibi_slopes))
            .write(std::as_bytes(std::span(slopes)));
    }
    if (problem.desc.key_indices.type != VKATTN_TYPE_NONE) {
        std::vector<std::int32_t> lists;
        const std::vector<std::int32_t> of_entry = key_lists(shape);
        for (std::uint32_t b = 0; b < shape.batch; ++b) lists.insert(lists.end(), of_entry.begin(), of_entry.end());
        set.add(context, VKATTN_ROLE_KEY_INDICES, vkattn_tensor_bytes(&problem.desc.key_indices))
            .write(std::as_bytes(std::span(lists)));
    }
    if (shape.tree) {
        std::vector<std::uint32_t> trees;
        const std::vector<std::uint32_t> of_entry = tree_rows(shape);
        for (std::uint32_t b = 0; b < shape.batch; ++b) trees.insert(trees.end(), of_entry.begin(), of_entry.end());
        set.add(context, VKATTN_ROLE_TREE_MASK, vkattn_tensor_bytes(&problem.desc.tree_mask))
            .write(std::as_bytes(std::span(trees)));
    }
    set.add(context, VKATTN_ROLE_OUTPUT, vkattn_tensor_bytes(&problem.desc.output));
    return set;
}

} // namespace

OperationTimes time_attention(const Context &context, const AttentionShape &shape, const RepeatOptions &options,
                              vkattn_kernel kernel) {
    const ShapedProblem problem = problem_of(context, shape, kernel);
    OperationTimes times = time_operation(
        context, options, bytes_once(shape, problem.desc), [&] { return context.attention_plan(problem.desc); },
        [&](unsigned seed) { return make_input_set(context, shape, problem, seed); });
    times.flops = flops(shape, problem.desc);
    times.of_16_bits = problem.query_type.type != VKATTN_TYPE_F32;
    return times;
}

OperationTimes time_backward(const Context &context, const AttentionShape &shape, const RepeatOptions &options,
                             vkattn_kernel kernel) {
    ShapedProblem problem = problem_of(context, shape, kernel);
    const vkattn_attention_backward_desc desc = gradients_of(problem, shape);
    const vkattn_attention_desc &attention = problem.desc;
    const auto bytes_of = [](const vkattn_tensor &each) { return static_cast<double>(vkattn_tensor_bytes(&each)); };
    const double bytes = 2 * (bytes_of(desc.d_query) + bytes_of(desc.d_key) + bytes_of(desc.d_value)) +
                         2 * bytes_of(desc.d_output) + bytes_of(attention.log_sum_exp);
    OperationTimes times = time_operation(
        context, options, bytes, [&] { return context.attention_backward_plan(desc); },
        [&](unsigned seed) {
            InputSet set = make_input_set(context, shape, problem, seed);
            const std::vector<float> sums(vkattn_tensor_bytes(&attention.log_sum_exp) / sizeof(float),
                                          std::log(static_cast<float>(shape.kv_len))); // as of keys that are alike
            set.add(context, VKATTN_ROLE_LOG_SUM_EXP, vkattn_tensor_bytes(&attention.log_sum_exp))
                .write(std::as_bytes(std::span(sums)));
            add_random(set, context, RandomValues(seed + 1), VKATTN_ROLE_D_OUTPUT, desc.d_output,
                       problem.query_type.dtype);
            set.add(context, VKATTN_ROLE_D_QUERY, vkattn_tensor_bytes(&desc.d_query));
            set.add(context, VKATTN_ROLE_D_KEY, vkattn_tensor_bytes(&desc.d_key));
            set.add(context, VKATTN_ROLE_D_VALUE, vkattn_tensor_bytes(&desc.d_value));
            return set;
        });
    constexpr double kOfForward = 2.5;
    times.flops = kOfForward * flops(shape, attention);
    times.of_16_bits = problem.query_type.type != VKATTN_TYPE_F32;
    return times;
}

OperationTimes time_index(const Context &context, const AttentionShape &shape, const RepeatOptions &options) {
    const ShapedIndex index = index_of(context, shape);
    const vkattn_index_desc &desc = index.desc;
    double bytes = 0.0;
    for (const vkattn_tensor *each : {&desc.query, &desc.key, &desc.weights, &desc.indices})
        bytes += static_cast<double>(vkattn_tensor_bytes(each));
    OperationTimes times = time_operation(
        context, options, bytes, [&] { return context.index_plan(desc); },
        [&](unsigned seed) {
            const RandomValues random(seed);
            InputSet set = make_operands(context, index.attention, random, seed);
            add_random(set, context, random, VKATTN_ROLE_WEIGHT, desc.weights, Dtype::kF32);
            set.add(context, VKATTN_ROLE_INDICES, vkattn_tensor_bytes(&desc.indices));
            return set;
        });
    times.kernel = times.reason.substr(0, times.reason.find(':')); // plans name kernels of attention alone
    times.flops = 2.0 * shape.batch * shape.heads * visible_pairs(shape) * shape.head_dim;
    times.of_16_bits = index.attention.query_type.type != VKATTN_TYPE_F32;
    return times;
}

} // namespace vkattn::tools
