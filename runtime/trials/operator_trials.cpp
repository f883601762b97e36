#include "runtime/trials/operator_trials.hpp"

#include "runtime/device/gpu_tiles.hpp"
#include "runtime/emit/sorted_lists.hpp"
#include "runtime/kernels/backward.hpp"
#include "runtime/kernels/matrix_shapes.hpp"
#include "runtime/ops/index.hpp"
#include "runtime/ops/linear_attention.hpp"
#include "runtime/ops/norm.hpp"
#include "runtime/ops/operators.hpp"
#include "runtime/ops/select.hpp"
#include "runtime/problem/tensor.hpp"
#include "runtime/support/error.hpp"
#include "runtime/support/rounding.hpp"
#include "runtime/trials/role_buffer.hpp"
#include "runtime/trials/training_trials.hpp"
#include "runtime/vulkan/memory.hpp"
#include "shaders/interface/argmax.h"
#include "shaders/interface/mask_indices.h"
#include "shaders/interface/sort_lists.h"
#include "vkattn_shaders/table.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

namespace vkattn {
namespace {

// Lists of two queries, with entries that name nothing and such as are there twice.
std::string check_sorting(Context &context, uint32_t len) {
    constexpr uint32_t kBlocks = 3000;
    RoleBuffer lists(context, VKATTN_ROLE_KEY_INDICES, contiguous(VKATTN_TYPE_I32, {1, 1, 2, len}));
    std::vector<int32_t> entries(2 * size_t{len});
    for (size_t i = 0; i < entries.size(); ++i)
        entries[i] = static_cast<int32_t>(i * 2654435761u % (kBlocks + 500)) - 250;
    lists.write(entries);
    PlanBuilder builder(context);
    allow_role(builder, lists.view());
    const View sorted = sort_lists(builder, lists.view(), kBlocks);
    const std::unique_ptr<const Plan> plan = builder.build();
    RoleBuffer workspace(context, VKATTN_ROLE_WORKSPACE,
                         contiguous(VKATTN_TYPE_I32, {divide_up(plan->workspace_bytes(), sizeof(int32_t))}));
    const vkattn_binding bindings[] = {lists.binding(), workspace.binding()};
    plan->run(bindings);
    for (int32_t &entry : entries)
        if (static_cast<uint32_t>(entry) >= kBlocks) entry = 0x7fffffff; // as shaders/operators/sort_lists.comp has it
    std::sort(entries.begin(), entries.begin() + len);
    std::sort(entries.begin() + len, entries.end());
    return compare_entries("entry", workspace.read(sorted.source.offset, entries.size()), entries);
}

// The first of the numbers in their order, of equal ones the lower indices.
std::vector<int32_t> greatest(const std::vector<float> &numbers, size_t count) {
    std::vector<int32_t> order(numbers.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(
        order, [&](int32_t a, int32_t b) { return numbers[static_cast<size_t>(a)] > numbers[static_cast<size_t>(b)]; });
    order.resize(count);
    return order;
}

constexpr uint64_t kWidth = 300, kMost = 50; // of a row, and those that are selected

// Those that are selected, in the order of the row.
std::string check_select(Context &context) {
    TrialNumbers numbers;
    RoleBuffer input(context, VKATTN_ROLE_INPUT, contiguous(VKATTN_TYPE_F32, {1, 1, kWidth}));
    RoleBuffer indices(context, VKATTN_ROLE_INDICES, contiguous(VKATTN_TYPE_I32, {1, kMost}));
    std::vector<int32_t> expected = greatest(input.randomise(numbers), kMost);
    std::ranges::sort(expected);
    PlanBuilder builder(context);
    for (const View &view : {input.view(), indices.view()}) allow_role(builder, view);
    add_select(builder, input.view(), {}, kMost, indices.view(), false);
    const vkattn_binding bindings[] = {input.binding(), indices.binding()};
    builder.build()->run(bindings);
    return compare_entries("index", indices.read(0, kMost), expected);
}

// By sort_selected in the order of their ranks.
std::string check_top_k(Context &context) {
    TrialNumbers numbers;
    RoleBuffer input(context, VKATTN_ROLE_INPUT, contiguous(VKATTN_TYPE_F32, {1, 1, kWidth}));
    RoleBuffer indices(context, VKATTN_ROLE_INDICES, contiguous(VKATTN_TYPE_I32, {1, 1, kMost}));
    const std::vector<int32_t> expected = greatest(input.randomise(numbers), kMost);
    vkattn_top_k_desc desc{};
    desc.input = input.tensor();
    desc.indices = indices.tensor();
    run_plan(context, plan_top_k, desc, {&input, &indices});
    return compare_entries("index", indices.read(0, kMost), expected);
}

// One query, and where it has several heads their weights and the ReLU; heads of 20 elements are no whole vectors of lanes, which
// index_addresses needs.
std::string check_index(Context &context, uint64_t head_dim, vkattn_type type = VKATTN_TYPE_F32, uint64_t heads = 1) {
    constexpr uint64_t kKeys = 75, kChosen = 20;
    TrialNumbers numbers;
    RoleBuffer query(context, VKATTN_ROLE_QUERY, contiguous(type, {1, heads, 1, head_dim}));
    RoleBuffer key(context, VKATTN_ROLE_KEY, contiguous(type, {1, 1, kKeys, head_dim}));
    RoleBuffer weights(context, VKATTN_ROLE_WEIGHT, contiguous(VKATTN_TYPE_F32, {1, 1, heads}));
    RoleBuffer indices(context, VKATTN_ROLE_INDICES, contiguous(VKATTN_TYPE_I32, {1, 1, 1, kChosen}));
    const std::vector<float> q = query.randomise(numbers), k = key.randomise(numbers), w = weights.randomise(numbers);
    std::vector<float> scores(kKeys); // sums of multiples of 1/4096 are exact
    for (size_t i = 0; i < kKeys * heads; ++i) {
        const size_t of_head = i % heads * head_dim, of_key = i / heads * head_dim;
        float product = 0.0f;
        for (size_t dim = 0; dim < head_dim; ++dim) product += q[of_head + dim] * k[of_key + dim];
        scores[i / heads] += heads == 1 ? product : w[i % heads] * std::max(product, 0.0f);
    }
    std::vector<int32_t> expected = greatest(scores, kChosen);
    std::ranges::sort(expected);
    vkattn_index_desc desc{};
    desc.query = query.tensor();
    desc.key = key.tensor();
    desc.indices = indices.tensor();
    desc.scale = 1.0f;
    desc.activation = heads == 1 ? VKATTN_INDEX_IDENTITY : VKATTN_INDEX_RELU;
    std::vector<const RoleBuffer *> buffers = {&query, &key, &indices};
    if (heads > 1) {
        desc.weights = weights.tensor();
        buffers.push_back(&weights);
    }
    run_plan(context, plan_index, desc, buffers);
    return compare_entries("index", indices.read(0, kChosen), expected);
}

// Three tokens, whose features are no whole fours, and are.
std::string check_norm(Context &context, vkattn_norm_kind kind, uint64_t features) {
    constexpr uint64_t kTokens = 3;
    const bool is_layer = kind == VKATTN_NORM_LAYER;
    TrialNumbers numbers;
    RoleBuffer input(context, VKATTN_ROLE_INPUT, contiguous(VKATTN_TYPE_F32, {1, kTokens, features}));
    RoleBuffer weight(context, VKATTN_ROLE_WEIGHT, contiguous(VKATTN_TYPE_F32, {features}));
    RoleBuffer output(context, VKATTN_ROLE_OUTPUT, input.tensor());
    const std::vector<float> x = input.randomise(numbers), w = weight.randomise(numbers);
    vkattn_norm_desc desc{};
    desc.input = input.tensor();
    desc.weight = weight.tensor();
    desc.output = output.tensor();
    desc.kind = kind;
    run_plan(context, plan_norm, desc, {&input, &weight, &output});
    std::vector<double> expected(x.size());
    for (uint64_t token = 0; token < kTokens; ++token) {
        const auto own = std::span(x).subspan(token * features, features);
        double mean = 0.0, squares = 0.0;
        for (const float value : own) mean += static_cast<double>(value) / static_cast<double>(features);
        if (!is_layer) mean = 0.0;
        for (const float value : own) squares += std::pow(static_cast<double>(value) - mean, 2.0);
        const double scale = 1.0 / std::sqrt(squares / static_cast<double>(features) + (is_layer ? 1e-5 : 1e-6));
        for (uint64_t i = 0; i < features; ++i)
            expected[token * features + i] = (static_cast<double>(own[i]) - mean) * scale * static_cast<double>(w[i]);
    }
    return compare_numbers(output.numbers(), expected);
}

// Gradients of tokens so many that token_sums sums them in parts. Returns what is wrong with those of the weights, or of the input.
std::string check_norm_gradient(Context &context, vkattn_norm_kind kind, uint64_t features, bool of_weights) {
    constexpr uint64_t kTokens = 19;
    const bool is_layer = kind == VKATTN_NORM_LAYER;
    TrialNumbers numbers;
    RoleBuffer input(context, VKATTN_ROLE_INPUT, contiguous(VKATTN_TYPE_F32, {1, kTokens, features}));
    RoleBuffer d_output(context, VKATTN_ROLE_D_OUTPUT, input.tensor()),
        d_input(context, VKATTN_ROLE_D_INPUT, input.tensor());
    RoleBuffer weight(context, VKATTN_ROLE_WEIGHT, contiguous(VKATTN_TYPE_F32, {features}));
    RoleBuffer d_weight(context, VKATTN_ROLE_D_WEIGHT, weight.tensor()),
        d_bias(context, VKATTN_ROLE_D_BIAS, weight.tensor());
    const std::vector<float> x = input.randomise(numbers), w = weight.randomise(numbers),
                             g = d_output.randomise(numbers);
    vkattn_norm_backward_desc desc{};
    desc.input = input.tensor();
    desc.weight = weight.tensor();
    desc.d_output = d_output.tensor();
    desc.kind = kind;
    if (of_weights) {
        desc.d_weight = desc.d_bias = weight.tensor();
        run_plan(context, plan_norm_backward, desc, {&input, &weight, &d_output, &d_weight, &d_bias});
    } else {
        desc.d_input = d_input.tensor();
        run_plan(context, plan_norm_backward, desc, {&input, &weight, &d_output, &d_input});
    }
    std::vector<double> of_input(x.size()), of_weight(features), of_bias(features);
    for (uint64_t token = 0; token < kTokens; ++token) {
        const auto at = [&](const std::vector<float> &tokens, uint64_t i) {
            return static_cast<double>(tokens[token * features + i]);
        };
        const auto n = static_cast<double>(features);
        double mean = 0.0, squares = 0.0, gradients = 0.0, products = 0.0;
        for (uint64_t i = 0; is_layer && i < features; ++i) mean += at(x, i) / n;
        for (uint64_t i = 0; i < features; ++i) squares += std::pow(at(x, i) - mean, 2.0) / n;
        const double scale = 1.0 / std::sqrt(squares + (is_layer ? 1e-5 : 1e-6));
        for (uint64_t i = 0; i < features; ++i) {
            const double gradient = at(g, i) * static_cast<double>(w[i]), normal = (at(x, i) - mean) * scale;
            if (is_layer) gradients += gradient / n;
            products += gradient * normal / n;
            of_weight[i] += at(g, i) * normal;
            of_bias[i] += at(g, i);
        }
        for (uint64_t i = 0; i < features; ++i)
            of_input[token * features + i] =
                scale * (at(g, i) * static_cast<double>(w[i]) - gradients - (at(x, i) - mean) * scale * products);
    }
    if (!of_weights) return compare_numbers(d_input.numbers(), of_input);
    const std::string reason = compare_numbers(d_weight.numbers(), of_weight);
    return reason.empty() ? compare_numbers(d_bias.numbers(), of_bias) : reason;
}

template <bool of_weights>
std::string check_norm_gradients(Context &context) {
    for (const vkattn_norm_kind kind : {VKATTN_NORM_RMS, VKATTN_NORM_LAYER})
        for (const uint64_t features : {301, 1000})
            if (std::string reason = check_norm_gradient(context, kind, features, of_weights); !reason.empty())
                return reason;
    return "";
}

std::string check_norms(Context &context) {
    for (const vkattn_norm_kind kind : {VKATTN_NORM_RMS, VKATTN_NORM_LAYER})
        for (const uint64_t features : {301, 1000})
            if (std::string reason = check_norm(context, kind, features); !reason.empty()) return reason;
    return "";
}

// Of tokens, one of which the table has no row for.
std::string check_lookup(Context &context, vkattn_type type) {
    constexpr uint64_t kRows = 37, kFeatures = 96, kTokens = 5;
    constexpr int32_t kWanted[kTokens] = {36, 0, 37, 11, 11};
    TrialNumbers numbers;
    RoleBuffer tokens(context, VKATTN_ROLE_TOKENS, contiguous(VKATTN_TYPE_I32, {1, kTokens}));
    RoleBuffer weight(context, VKATTN_ROLE_WEIGHT, contiguous(type, {kRows, kFeatures}));
    RoleBuffer output(context, VKATTN_ROLE_OUTPUT, contiguous(VKATTN_TYPE_F32, {1, kTokens, kFeatures}));
    tokens.write(std::span<const int32_t>(kWanted));
    const std::vector<float> table = weight.randomise(numbers);
    vkattn_embedding_desc desc{};
    desc.tokens = tokens.tensor();
    desc.weight = weight.tensor();
    desc.output = output.tensor();
    run_plan(context, plan_embedding, desc, {&tokens, &weight, &output});
    std::vector<double> expected(kTokens * kFeatures);
    for (uint64_t i = 0; i < expected.size(); ++i)
        if (const auto row = static_cast<uint64_t>(kWanted[i / kFeatures]); row < kRows)
            expected[i] = static_cast<double>(table[row * kFeatures + i % kFeatures]);
    return compare_numbers(output.numbers(), expected);
}

std::string check_embedding(Context &context) { return check_lookup(context, VKATTN_TYPE_F32); }
std::string check_embedding_quantised(Context &context) { return check_lookup(context, VKATTN_TYPE_Q8_0); }

// Rows in parts; of equal numbers the first is taken.
std::string check_argmax(Context &context) {
    constexpr uint64_t kRows = 2, kLen = ARGMAX_PART_ELEMENTS + 100;
    TrialNumbers numbers;
    RoleBuffer input(context, VKATTN_ROLE_INPUT, contiguous(VKATTN_TYPE_F32, {1, kRows, kLen}));
    RoleBuffer tokens(context, VKATTN_ROLE_TOKENS, contiguous(VKATTN_TYPE_I32, {1, kRows}));
    std::vector<float> values = input.randomise(numbers);
    values[ARGMAX_PART_ELEMENTS + 7] = values[ARGMAX_PART_ELEMENTS + 9] = values[kLen + 123] = 2.0f;
    input.write(std::span<const float>(values));
    vkattn_argmax_desc desc{};
    desc.input = input.tensor();
    desc.tokens = tokens.tensor();
    run_plan(context, plan_argmax, desc, {&input, &tokens});
    return compare_entries("token", tokens.read(0, kRows), {ARGMAX_PART_ELEMENTS + 7, 123});
}

// Of a mask with fewer visible keys in a row than its list has room for, and with more.
std::string check_mask_indices(Context &context) {
    constexpr uint64_t kRows = 2, kKeys = MASK_INDICES_WORKGROUP_SIZE * MASK_INDICES_KEYS + 100, kEntries = 600;
    TrialNumbers numbers;
    RoleBuffer mask(context, VKATTN_ROLE_ATTN_MASK, contiguous(VKATTN_TYPE_F32, {1, 1, kRows, kKeys}));
    RoleBuffer lists(context, VKATTN_ROLE_KEY_INDICES, contiguous(VKATTN_TYPE_I32, {1, 1, kRows, kEntries}));
    std::vector<float> added = mask.randomise(numbers);
    std::vector<int32_t> expected;
    for (uint64_t row = 0; row < kRows; ++row) {
        const uint64_t end = (row + 1) * kEntries;
        for (uint64_t key = 0; key < kKeys; ++key)
            if (float &each = added[row * kKeys + key]; each < (row == 0 ? 0.0f : -0.5f))
                each = -std::numeric_limits<float>::infinity();
            else if (expected.size() < end)
                expected.push_back(static_cast<int32_t>(key));
        expected.resize(end, -1);
    }
    mask.write(std::span<const float>(added));
    vkattn_mask_indices_desc desc{};
    desc.attn_mask = mask.tensor();
    desc.key_indices = lists.tensor();
    run_plan(context, plan_mask_indices, desc, {&mask, &lists});
    return compare_entries("entry", lists.read(0, expected.size()), expected);
}

std::string check_merge_of_calls(Context &context) {
    constexpr uint64_t kParts = 3, kHeads = 2, kQueries = 5, kDims = 40, kRows = kHeads * kQueries;
    TrialNumbers numbers;
    RoleBuffer partial(context, VKATTN_ROLE_PARTIAL_OUTPUT,
                       contiguous(VKATTN_TYPE_F32, {kParts, kHeads, kQueries, kDims}));
    RoleBuffer sums(context, VKATTN_ROLE_PARTIAL_LOG_SUM_EXP, contiguous(VKATTN_TYPE_F32, {kParts, kHeads, kQueries}));
    RoleBuffer output(context, VKATTN_ROLE_OUTPUT, contiguous(VKATTN_TYPE_F32, {1, kHeads, kQueries, kDims}));
    const std::vector<float> x = partial.randomise(numbers), s = sums.randomise(numbers);
    vkattn_merge_desc desc{};
    desc.part_count = kParts;
    desc.partial_output = output.tensor();
    desc.partial_log_sum_exp = contiguous(VKATTN_TYPE_F32, {1, kHeads, kQueries});
    desc.output = output.tensor();
    desc.partial_output_stride = kRows * kDims;
    desc.partial_log_sum_exp_stride = kRows;
    run_plan(context, plan_merge, desc, {&partial, &sums, &output});
    std::vector<double> expected(kRows * kDims);
    for (uint64_t row = 0; row < kRows; ++row) {
        double sum = 0.0;
        for (uint64_t part = 0; part < kParts; ++part) {
            const double weight = std::exp(static_cast<double>(s[part * kRows + row]));
            sum += weight;
            for (uint64_t d = 0; d < kDims; ++d)
                expected[row * kDims + d] += weight * static_cast<double>(x[(part * kRows + row) * kDims + d]);
        }
        for (uint64_t d = 0; d < kDims; ++d) expected[row * kDims + d] /= sum;
    }
    return compare_numbers(output.numbers(), expected);
}

std::string check_convolution(Context &context) {
    constexpr uint64_t kTokens = 19, kChannels = 70, kTaps = 4;
    TrialNumbers numbers;
    RoleBuffer input(context, VKATTN_ROLE_INPUT, contiguous(VKATTN_TYPE_F32, {1, kTokens, kChannels}));
    RoleBuffer weight(context, VKATTN_ROLE_WEIGHT, contiguous(VKATTN_TYPE_F32, {kChannels, kTaps}));
    RoleBuffer output(context, VKATTN_ROLE_OUTPUT, input.tensor());
    const std::vector<float> x = input.randomise(numbers), w = weight.randomise(numbers);
    vkattn_causal_conv1d_desc desc{};
    desc.input = input.tensor();
    desc.weight = weight.tensor();
    desc.output = output.tensor();
    run_plan(context, plan_causal_conv1d, desc, {&input, &weight, &output});
    std::vector<double> expected(x.size());
    for (uint64_t i = 0; i < expected.size(); ++i)
        for (uint64_t tap = 0; tap < kTaps; ++tap)
            if (const uint64_t before = kTaps - 1 - tap; before <= i / kChannels)
                expected[i] += static_cast<double>(w[i % kChannels * kTaps + tap]) *
                               static_cast<double>(x[i - before * kChannels]);
    return compare_numbers(output.numbers(), expected);
}

// The delta rule of two heads, with decays of heads; tokens fill no whole chunk.
template <uint64_t kDims = 24>
std::string check_recurrence(Context &context, vkattn_linear_attention_form form, uint64_t tokens) {
    constexpr uint64_t kHeads = 2;
    TrialNumbers numbers;
    const vkattn_tensor rows = contiguous(VKATTN_TYPE_F32, {1, kHeads, tokens, kDims});
    RoleBuffer query(context, VKATTN_ROLE_QUERY, rows), key(context, VKATTN_ROLE_KEY, rows);
    RoleBuffer value(context, VKATTN_ROLE_VALUE, rows), output(context, VKATTN_ROLE_OUTPUT, rows);
    RoleBuffer decay(context, VKATTN_ROLE_DECAY, contiguous(VKATTN_TYPE_F32, {1, kHeads, tokens}));
    const std::vector<float> q = query.randomise(numbers), k = key.randomise(numbers), v = value.randomise(numbers);
    std::vector<float> decays(kHeads * tokens);
    for (float &each : decays) each = -0.1f - std::abs(numbers.next());
    decay.write(std::span<const float>(decays));
    vkattn_linear_attention_desc desc{};
    desc.query = desc.key = desc.value = desc.output = rows;
    desc.decay = decay.tensor();
    desc.form = form;
    desc.qk_l2norm = 1;
    run_plan(context, plan_linear_attention, desc, {&query, &key, &value, &decay, &output});

    const auto normalised_row = [&](const std::vector<float> &all, uint64_t at) {
        std::vector<double> row(all.begin() + static_cast<std::ptrdiff_t>(at),
                                all.begin() + static_cast<std::ptrdiff_t>(at + kDims));
        const double squares = std::inner_product(row.begin(), row.end(), row.begin(), 1e-6);
        for (double &each : row) each /= std::sqrt(squares);
        return row;
    };
    std::vector<double> expected(q.size());
    for (uint64_t head = 0; head < kHeads; ++head) {
        std::vector<double> state(kDims * kDims);
        for (uint64_t token = 0; token < tokens; ++token) {
            const uint64_t at = (head * tokens + token) * kDims;
            const std::vector<double> qs = normalised_row(q, at), ks = normalised_row(k, at);
            const double kept = std::exp(static_cast<double>(decays[head * tokens + token]));
            for (uint64_t d = 0; d < kDims; ++d) {
                double update = static_cast<double>(v[at + d]);
                for (uint64_t e = 0; e < kDims; ++e) update -= ks[e] * kept * state[e * kDims + d];
                for (uint64_t e = 0; e < kDims; ++e) {
                    double &element = state[e * kDims + d];
                    element = kept * element + ks[e] * update;
                    expected[at + d] += qs[e] * element / std::sqrt(static_cast<double>(kDims));
                }
            }
        }
    }
    return compare_numbers(output.numbers(), expected);
}

std::string check_recurrent(Context &context) { return check_recurrence(context, VKATTN_FORM_RECURRENT, 9); }
// Heads that CPU drivers' own kernel does not take.
std::string check_large_recurrent(Context &context) { return check_recurrence<264>(context, VKATTN_FORM_RECURRENT, 3); }
std::string check_chunked(Context &context) { return check_recurrence(context, VKATTN_FORM_CHUNKED, 75); }

std::string check_lists(Context &context) { return check_sorting(context, 100); }
std::string check_long_lists(Context &context) { return check_sorting(context, SORT_LISTS_CHUNK + 100); }
std::string check_odd_index(Context &context) { return check_index(context, 20); }
std::string check_index_by_pairs(Context &context) { return check_index(context, 24, VKATTN_TYPE_F16); }
template <vkattn_type type>
std::string check_index_by_matrices(Context &context) {
    return check_index(context, 64, type, 64);
}
template <vkattn_type type>
bool has_matrices_of_index(const DeviceCaps &caps) {
    return has_index_matrices(caps, type);
}
std::string check_index_by_addresses(Context &context) { return check_index(context, 64); }

// Two query heads over one of keys, causal, with sinks and, or not, a mask for both: their gradients in float64.
struct BackwardTrial {
    static constexpr uint32_t kHeads = 2, kQueries = 67, kKeys = 133, kDims = 24,
                              kValueDims = 40; // some tiles are seen whole

    explicit BackwardTrial(Context &context, vkattn_type type = VKATTN_TYPE_F32, uint32_t head_dim = kDims,
                           uint32_t v_head_dim = kValueDims, bool has_mask = true)
        : dims(head_dim), value_dims(v_head_dim), is_masked(has_mask),
          query(context, VKATTN_ROLE_QUERY, contiguous(type, {1, kHeads, kQueries, dims})),
          key(context, VKATTN_ROLE_KEY, contiguous(type, {1, 1, kKeys, dims})),
          value(context, VKATTN_ROLE_VALUE, contiguous(type, {1, 1, kKeys, value_dims})),
          mask(context, VKATTN_ROLE_ATTN_MASK, contiguous(VKATTN_TYPE_F32, {1, 1, kQueries, kKeys})),
          sinks(context, VKATTN_ROLE_SINKS, contiguous(VKATTN_TYPE_F32, {kHeads})),
          output(context, VKATTN_ROLE_OUTPUT, contiguous(VKATTN_TYPE_F32, {1, kHeads, kQueries, value_dims})),
          log_sum_exp(context, VKATTN_ROLE_LOG_SUM_EXP, contiguous(VKATTN_TYPE_F32, {1, kHeads, kQueries})),
          d_output(context, VKATTN_ROLE_D_OUTPUT, contiguous(type, {1, kHeads, kQueries, value_dims})),
          q(query.randomise(numbers)), k(key.randomise(numbers)), v(value.randomise(numbers)),
          added(mask.randomise(numbers)), sink(sinks.randomise(numbers)), g(d_output.randomise(numbers)),
          d_query(q.size()), d_key(k.size()), d_value(v.size()), d_mask(added.size()), d_sinks(kHeads) {
        std::vector<float> outputs, sums;
        for (uint32_t row = 0; row < kHeads * kQueries; ++row) add_row(row, outputs, sums);
        output.write(outputs);
        log_sum_exp.write(sums);
    }

    void add_row(uint32_t row, std::vector<float> &outputs, std::vector<float> &sums) {
        const double scale = 1.0 / std::sqrt(static_cast<double>(dims));
        const uint32_t head = row / kQueries, position = row % kQueries, keys = position + kKeys - kQueries + 1;
        std::vector<double> weights(keys), of_weights(keys);
        double sum = std::exp(static_cast<double>(sink[head])), delta = 0;
        for (uint32_t j = 0; j < keys; ++j) {
            double product = 0;
            for (uint32_t d = 0; d < dims; ++d) product += static_cast<double>(q[row * dims + d]) * k[j * dims + d];
            const double bias = is_masked ? added[position * kKeys + j] : 0.0;
            weights[j] = std::exp(scale * product + bias);
            sum += weights[j];
        }
        std::vector<double> of_row(value_dims);
        for (uint32_t j = 0; j < keys; ++j) {
            weights[j] /= sum;
            for (uint32_t d = 0; d < value_dims; ++d) {
                const double gradient = g[row * value_dims + d], element = v[j * value_dims + d];
                of_weights[j] += gradient * element;
                of_row[d] += weights[j] * element;
                d_value[j * value_dims + d] += weights[j] * gradient;
            }
            delta += weights[j] * of_weights[j];
        }
        for (uint32_t j = 0; j < keys; ++j) {
            const double score = weights[j] * (of_weights[j] - delta);
            d_mask[position * kKeys + j] += score;
            for (uint32_t d = 0; d < dims; ++d) {
                d_query[row * dims + d] += scale * score * static_cast<double>(k[j * dims + d]);
                d_key[j * dims + d] += scale * score * static_cast<double>(q[row * dims + d]);
            }
        }
        d_sinks[head] -= std::exp(static_cast<double>(sink[head])) / sum * delta;
        outputs.insert(outputs.end(), of_row.begin(), of_row.end());
        sums.push_back(static_cast<float>(std::log(sum)));
    }

    // Of one gradient. like: what it is the gradient of.
    std::string check(Context &context, vkattn_role role, vkattn_tensor vkattn_attention_backward_desc::*member,
                      const RoleBuffer &like, const std::vector<double> &expected) {
        vkattn_attention_desc attention{};
        attention.query = query.tensor();
        attention.key = key.tensor();
        attention.value = value.tensor();
        if (is_masked) attention.attn_mask = mask.tensor();
        attention.sinks = sinks.tensor();
        attention.output = output.tensor();
        attention.log_sum_exp = log_sum_exp.tensor();
        attention.mask_flags = VKATTN_MASK_CAUSAL;
        attention.causal_alignment = VKATTN_CAUSAL_BOTTOM_RIGHT;
        vkattn_attention_backward_desc desc{};
        desc.attention = &attention;
        desc.d_output = d_output.tensor();
        vkattn_tensor tensor = like.tensor();
        tensor.type = VKATTN_TYPE_F32;
        desc.*member = tensor;
        RoleBuffer gradient(context, role, tensor);
        std::vector<const RoleBuffer *> bound = {&query,  &key,         &value,    &sinks,
                                                 &output, &log_sum_exp, &d_output, &gradient};
        if (is_masked) bound.push_back(&mask);
        run_plan(context, plan_attention_backward, desc, bound);
        constexpr double kMostOfBf16 = 1e-4;
        return compare_numbers(gradient.numbers(), expected,
                               query.tensor().type == VKATTN_TYPE_BF16 ? kMostOfBf16 : kMostError);
    }

    uint32_t dims, value_dims; // of Q and K, of V
    bool is_masked;
    TrialNumbers numbers;
    RoleBuffer query, key, value, mask, sinks, output, log_sum_exp, d_output;
    std::vector<float> q, k, v, added, sink, g;
    std::vector<double> d_query, d_key, d_value, d_mask, d_sinks;
};

template <vkattn_type type>
std::string check_query_gradient(Context &context, uint32_t dims, uint32_t value_dims, bool is_masked) {
    BackwardTrial trial(context, type, dims, value_dims, is_masked);
    return trial.check(context, VKATTN_ROLE_D_QUERY, &vkattn_attention_backward_desc::d_query, trial.query,
                       trial.d_query);
}

template <vkattn_type type>
std::string check_key_gradients(Context &context, uint32_t dims, uint32_t value_dims, bool is_masked) {
    BackwardTrial trial(context, type, dims, value_dims, is_masked);
    std::string of_keys =
        trial.check(context, VKATTN_ROLE_D_KEY, &vkattn_attention_backward_desc::d_key, trial.key, trial.d_key);
    if (!of_keys.empty()) return of_keys;
    return trial.check(context, VKATTN_ROLE_D_VALUE, &vkattn_attention_backward_desc::d_value, trial.value,
                       trial.d_value);
}

// With a mask, without one, and of matrices heads that leave their own rows in shared memory.
std::string check_each(Context &context, vkattn_type type, std::string (*check)(Context &, uint32_t, uint32_t, bool)) {
    constexpr uint32_t kLarge = 128;
    for (const bool is_masked : {true, false})
        if (std::string wrong = check(context, BackwardTrial::kDims, BackwardTrial::kValueDims, is_masked);
            !wrong.empty())
            return wrong;
    return type == VKATTN_TYPE_F32 ? std::string() : check(context, kLarge, kLarge, false);
}

template <vkattn_type type>
std::string check_query_gradient(Context &context) {
    return check_each(context, type, check_query_gradient<type>);
}
template <vkattn_type type>
std::string check_key_gradients(Context &context) {
    return check_each(context, type, check_key_gradients<type>);
}

// Of heads that CPU drivers' own kernels do not take.
uint32_t dims_of_tiles(const Context &context) {
    return has_backward_addresses(context.caps()) ? BackwardTrial::kDims - 2 : BackwardTrial::kDims;
}
std::string check_tiles_of_queries(Context &context) {
    return check_query_gradient<VKATTN_TYPE_F32>(context, dims_of_tiles(context), BackwardTrial::kValueDims, true);
}
std::string check_tiles_of_keys(Context &context) {
    return check_key_gradients<VKATTN_TYPE_F32>(context, dims_of_tiles(context), BackwardTrial::kValueDims, true);
}

std::string check_mask_gradient(Context &context) {
    BackwardTrial trial(context);
    return trial.check(context, VKATTN_ROLE_D_ATTN_MASK, &vkattn_attention_backward_desc::d_attn_mask, trial.mask,
                       trial.d_mask);
}

std::string check_sink_gradients(Context &context) {
    BackwardTrial trial(context);
    return trial.check(context, VKATTN_ROLE_D_SINKS, &vkattn_attention_backward_desc::d_sinks, trial.sinks,
                       trial.d_sinks);
}

// Whether gradients of the type are left to matrix units, by the shaders whose loops over matrices are unrolled or not.
template <vkattn_type type, uint32_t unrolled>
bool has_matrices(const DeviceCaps &caps) {
    const Shader &shader =
        type == VKATTN_TYPE_BF16 ? shaders::backward_keys_coopmat_bf16 : shaders::backward_keys_coopmat;
    return *obstacle_of_matrices(caps) == '\0' && caps.traits.matrix_units != 0 && caps.max_loop_iterations == 0 &&
           matrices_beside_loads(caps) > 1 &&
           (type == VKATTN_TYPE_BF16 || (caps.traits.unroll_matrices != 0) == (unrolled != 0)) &&
           matrix_obstacle(caps, {&shader, type, 0}).empty();
}

// CPU drivers may compile the chunks for long, and are trusted with what few of their plans take.
bool is_no_cpu(const DeviceCaps &caps) { return caps.device_type != VK_PHYSICAL_DEVICE_TYPE_CPU; }

std::string check_staged(Context &context) {
    return has_linear_attention_uniform(context.caps()) ? check_large_recurrent(context) : check_recurrent(context);
}

constexpr OperatorTrial kTrials[] = {
    {&shaders::gated_activation, check_gated_activation},
    {&shaders::embedding_backward, check_embedding_backward},
    {&shaders::cross_entropy_mean, check_mean_loss},
    {&shaders::cross_entropy, check_cross_entropy, &shaders::cross_entropy_mean},
    {&shaders::squared_norm, check_squared_norm},
    {&shaders::optimizer_step, check_optimizer_step},
    {&shaders::adamw, check_adamw},
    {&shaders::norm, check_norms},
    {&shaders::norm_backward, check_norm_gradients<false>},
    {&shaders::token_sums, check_norm_gradients<true>, &shaders::norm_backward},
    {&shaders::embedding, check_embedding},
    {&shaders::embedding_quantised, check_embedding_quantised},
    {&shaders::argmax, check_argmax},
    {&shaders::mask_indices, check_mask_indices},
    {&shaders::merge, check_merge_of_calls},
    {&shaders::backward_deltas, check_sink_gradients},
    {&shaders::backward_sinks, check_sink_gradients, &shaders::backward_deltas},
    {&shaders::backward_queries, check_tiles_of_queries, &shaders::backward_deltas},
    {&shaders::backward_keys, check_tiles_of_keys, &shaders::backward_deltas},
    {&shaders::backward_queries_addresses, check_query_gradient<VKATTN_TYPE_F32>, &shaders::backward_deltas,
     has_backward_addresses},
    {&shaders::backward_keys_addresses, check_key_gradients<VKATTN_TYPE_F32>, &shaders::backward_deltas,
     has_backward_addresses},
    {&shaders::backward_queries_coopmat, check_query_gradient<VKATTN_TYPE_F16>, &shaders::backward_deltas,
     has_matrices<VKATTN_TYPE_F16, 1>},
    {&shaders::backward_queries_coopmat_rolled, check_query_gradient<VKATTN_TYPE_F16>, &shaders::backward_deltas,
     has_matrices<VKATTN_TYPE_F16, 0>},
    {&shaders::backward_queries_coopmat_bf16, check_query_gradient<VKATTN_TYPE_BF16>, &shaders::backward_deltas,
     has_matrices<VKATTN_TYPE_BF16, 1>},
    {&shaders::backward_keys_coopmat, check_key_gradients<VKATTN_TYPE_F16>, &shaders::backward_deltas,
     has_matrices<VKATTN_TYPE_F16, 1>},
    {&shaders::backward_keys_coopmat_rolled, check_key_gradients<VKATTN_TYPE_F16>, &shaders::backward_deltas,
     has_matrices<VKATTN_TYPE_F16, 0>},
    {&shaders::backward_keys_coopmat_bf16, check_key_gradients<VKATTN_TYPE_BF16>, &shaders::backward_deltas,
     has_matrices<VKATTN_TYPE_BF16, 1>},
    {&shaders::backward_mask, check_mask_gradient, &shaders::backward_deltas},
    {&shaders::causal_conv1d, check_convolution},
    {&shaders::linear_attention_recurrent, check_staged},
    {&shaders::linear_attention_uniform, check_recurrent, nullptr, has_linear_attention_uniform},
    {&shaders::linear_attention_states, check_chunked, nullptr, is_no_cpu},
    {&shaders::linear_attention_chunks, check_chunked, &shaders::linear_attention_states, is_no_cpu},
    {&shaders::sort_lists, check_lists},
    {&shaders::merge_lists, check_long_lists, &shaders::sort_lists},
    {&shaders::select, check_select},
    {&shaders::sort_selected, check_top_k, &shaders::select},
    {&shaders::index_scores, check_odd_index, &shaders::select},
    {&shaders::index_scores_dots, check_index_by_pairs, &shaders::select, has_index_dots},
    {&shaders::index_scores_coopmat, check_index_by_matrices<VKATTN_TYPE_F16>, &shaders::select,
     has_matrices_of_index<VKATTN_TYPE_F16>},
    {&shaders::index_scores_coopmat_bf16, check_index_by_matrices<VKATTN_TYPE_BF16>, &shaders::select,
     has_matrices_of_index<VKATTN_TYPE_BF16>},
    {&shaders::index_addresses, check_index_by_addresses, &shaders::select, has_index_addresses},
};

} // namespace

std::span<const OperatorTrial> operator_trials() { return kTrials; }

const OperatorTrial *operator_trial(const Shader &shader) {
    const auto *found = std::ranges::find(kTrials, &shader, &OperatorTrial::shader);
    return found == std::end(kTrials) ? nullptr : found;
}

} // namespace vkattn
