// Four answers to one long prompt: the prompt's keys and values are kept and read once for all of them (cascade
// attention).
//
// 1. attention of all queries over the prefix, as if they were positions of one sequence
// 2. attention of each query over its own keys, with merge adding what 1 found
#include <vkattn/vkattn.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>

namespace {

constexpr std::uint64_t kSequences = 4, kHeads = 8, kKvHeads = 2, kHeadDim = 64, kPrefix = 1000, kOwn = 24;

std::vector<float> random_values(std::size_t count, unsigned seed) {
    std::mt19937 engine(seed);
    std::normal_distribution<float> normal;
    std::vector<float> values(count);
    std::ranges::generate(values, [&] { return normal(engine); });
    return values;
}

float largest_difference(const std::vector<float> &a, const std::vector<float> &b) {
    float largest = 0.0f;
    for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::fabs(a[i] - b[i]));
    return largest;
}

vkattn::Buffer filled(const vkattn::Context &context, const std::vector<float> &values) {
    vkattn::Buffer buffer = context.buffer(values.size() * sizeof(float));
    buffer.write(values);
    return buffer;
}

std::vector<float> read(const vkattn::Buffer &buffer, std::size_t count) {
    std::vector<float> values(count);
    buffer.read(values);
    return values;
}

// Keys or values of all sequences with the prefix in front of each, as they would lie without sharing.
std::vector<float> repeated(const std::vector<float> &prefix, const std::vector<float> &own) {
    std::vector<float> all;
    for (std::size_t row = 0; row < kSequences * kKvHeads; ++row) {
        const auto first = prefix.begin() + static_cast<std::ptrdiff_t>(row % kKvHeads * kPrefix * kHeadDim);
        all.insert(all.end(), first, first + kPrefix * kHeadDim);
        const auto second = own.begin() + static_cast<std::ptrdiff_t>(row * kOwn * kHeadDim);
        all.insert(all.end(), second, second + kOwn * kHeadDim);
    }
    return all;
}

} // namespace

int main() try {
    const vkattn::Context context;
    const auto query_values = random_values(kSequences * kHeads * kHeadDim, 1);
    const auto prefix_keys = random_values(kKvHeads * kPrefix * kHeadDim, 2),
               prefix_values = random_values(prefix_keys.size(), 3);
    const auto own_keys = random_values(kSequences * kKvHeads * kOwn * kHeadDim, 4),
               own_values = random_values(own_keys.size(), 5);
    vkattn::Buffer query = filled(context, query_values);
    const auto key = [&](const std::vector<float> &values) { return filled(context, values); };

    // 1: [sequences, heads, 1, D] read as [1, heads, sequences, D]
    vkattn_attention_desc prefix{};
    prefix.query = vkattn::tensor(VKATTN_TYPE_F32, {1, kHeads, kSequences, kHeadDim},
                                  {kSequences * kHeads * kHeadDim, kHeadDim, kHeads * kHeadDim, 1});
    prefix.output = prefix.query;
    prefix.key = prefix.value = vkattn::tensor(VKATTN_TYPE_F32, {1, kKvHeads, kPrefix, kHeadDim});
    prefix.log_sum_exp = vkattn::tensor(VKATTN_TYPE_F32, {1, kHeads, kSequences});
    const vkattn::Buffer prefix_output = context.buffer(prefix.output), prefix_lse = context.buffer(prefix.log_sum_exp);
    const vkattn::Buffer k = key(prefix_keys), v = key(prefix_values);
    context.attention_plan(prefix).run(
        {vkattn::bind(VKATTN_ROLE_QUERY, query), vkattn::bind(VKATTN_ROLE_KEY, k), vkattn::bind(VKATTN_ROLE_VALUE, v),
         vkattn::bind(VKATTN_ROLE_OUTPUT, prefix_output), vkattn::bind(VKATTN_ROLE_LOG_SUM_EXP, prefix_lse)});

    // 2: each sequence's own keys
    vkattn_attention_desc own{};
    own.query = own.output = vkattn::tensor(VKATTN_TYPE_F32, {kSequences, kHeads, 1, kHeadDim});
    own.key = own.value = vkattn::tensor(VKATTN_TYPE_F32, {kSequences, kKvHeads, kOwn, kHeadDim});
    own.log_sum_exp = vkattn::tensor(VKATTN_TYPE_F32, {kSequences, kHeads, 1});
    const vkattn::Buffer output = context.buffer(own.output), lse = context.buffer(own.log_sum_exp);
    const vkattn::Buffer own_k = key(own_keys), own_v = key(own_values);
    context.attention_plan(own).run({vkattn::bind(VKATTN_ROLE_QUERY, query), vkattn::bind(VKATTN_ROLE_KEY, own_k),
                                     vkattn::bind(VKATTN_ROLE_VALUE, own_v), vkattn::bind(VKATTN_ROLE_OUTPUT, output),
                                     vkattn::bind(VKATTN_ROLE_LOG_SUM_EXP, lse)});

    // and the prefix's part added
    vkattn_merge_desc merge{};
    merge.part_count = 1;
    merge.accumulate = 1;
    merge.partial_output = merge.output = own.output;
    merge.partial_log_sum_exp = vkattn::tensor(VKATTN_TYPE_F32, {kSequences, kHeads, 1}, {1, kSequences, 1});
    merge.log_sum_exp = own.log_sum_exp;
    context.merge_plan(merge).run({vkattn::bind(VKATTN_ROLE_PARTIAL_OUTPUT, prefix_output),
                                   vkattn::bind(VKATTN_ROLE_PARTIAL_LOG_SUM_EXP, prefix_lse),
                                   vkattn::bind(VKATTN_ROLE_OUTPUT, output),
                                   vkattn::bind(VKATTN_ROLE_LOG_SUM_EXP, lse)});

    // the same without sharing
    vkattn_attention_desc whole = own;
    whole.key = whole.value = vkattn::tensor(VKATTN_TYPE_F32, {kSequences, kKvHeads, kPrefix + kOwn, kHeadDim});
    whole.log_sum_exp = {};
    const vkattn::Buffer expected = context.buffer(whole.output);
    const vkattn::Buffer all_k = key(repeated(prefix_keys, own_keys)), all_v = key(repeated(prefix_values, own_values));
    context.attention_plan(whole).run({vkattn::bind(VKATTN_ROLE_QUERY, query), vkattn::bind(VKATTN_ROLE_KEY, all_k),
                                       vkattn::bind(VKATTN_ROLE_VALUE, all_v),
                                       vkattn::bind(VKATTN_ROLE_OUTPUT, expected)});
    const float difference = largest_difference(read(output, query_values.size()), read(expected, query_values.size()));
    std::printf("%d sequences share %d keys: %d KiB of K and V in place of %d KiB; largest difference %.1e\n",
                static_cast<int>(kSequences), static_cast<int>(kPrefix),
                static_cast<int>(2 * (prefix_keys.size() + own_keys.size()) * sizeof(float) >> 10),
                static_cast<int>(2 * vkattn_tensor_bytes(&whole.key) >> 10), static_cast<double>(difference));
    return difference < 1e-5f ? 0 : 1;
} catch (const vkattn::Error &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
