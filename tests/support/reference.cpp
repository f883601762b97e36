#include "reference.hpp"

#include "philox.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <span>

namespace vkattn_test {
namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();
// The documented threshold below which an additive mask hides a key.
constexpr double kAdditiveHides = -6e37;

// Dense float64 copies of a problem's tensors: the loops below index them row-major.
struct DenseProblem {
    AttentionSizes sizes;
    std::vector<double> query, key, value, attn_mask, block_mask, key_indices, key_padding_mask, key_lengths,
        past_lengths, alibi_slopes, sinks;
};

// One query of one head of one sequence, and its scores over all keys.
struct Row {
    std::size_t batch, head, query;
    std::vector<double> scores;
};

// Elements of rows [B,H,L,D] times their scales, [B|1,H|1,L|1,1] or none.
std::vector<double> scaled(const HostTensor &rows, const HostTensor &scales) {
    std::vector<double> values = rows.values();
    if (!scales.present()) return values;
    const Shape &shape = rows.shape(), &of = scales.shape();
    for (std::size_t i = 0; i < values.size(); ++i) {
        const std::size_t row = i / shape[3] % shape[2], head = i / shape[3] / shape[2] % shape[1];
        const std::size_t batch = i / shape[3] / shape[2] / shape[1];
        const std::size_t at = (batch % of[0] * of[1] + head % of[1]) * of[2] + row % of[2];
        values[i] *= static_cast<double>(scales.get(at));
    }
    return values;
}

DenseProblem dense(const AttentionProblem &p) {
    const AttentionSizes sizes = sizes_of(p);
    const std::size_t key_block = hadamard_block(sizes.head_dim);
    const std::size_t value_block = p.value_in_key ? key_block : hadamard_block(sizes.v_head_dim);
    const bool values_rotated = p.value_in_key ? p.keys_rotated : p.values_rotated;
    const std::vector<double> key = scaled(p.key, p.key_scales);
    const std::vector<double> value = scaled(p.value, p.value_in_key ? p.key_scales : p.value_scales);
    return {.sizes = sizes,
            .query = p.query.values(),
            .key = p.keys_rotated ? hadamard_rotated(key, key_block) : key,
            .value = values_rotated ? hadamard_rotated(value, value_block) : value,
            .attn_mask = p.attn_mask.values(),
            .block_mask = p.block_mask.values(),
            .key_indices = p.key_indices.values(),
            .key_padding_mask = p.key_padding_mask.values(),
            .key_lengths = p.key_lengths.values(),
            .past_lengths = p.past_lengths.values(),
            .alibi_slopes = p.alibi_slopes.values(),
            .sinks = p.sinks.values()};
}

std::size_t kv_head_of(const AttentionProblem &p, const AttentionSizes &s, std::size_t head) {
    if (p.kv_head_mapping == VKATTN_KV_HEADS_MODULO) return head % s.kv_heads;
    return head / (s.query_heads / s.kv_heads);
}

long long keys_less_queries(const AttentionProblem &p, const DenseProblem &d, std::size_t batch) {
    const double kv_len = static_cast<double>(d.sizes.kv_len);
    const double keys = p.key_lengths.present() ? std::clamp(d.key_lengths[batch], 0.0, kv_len) : kv_len;
    return static_cast<long long>(keys) - static_cast<long long>(d.sizes.q_len);
}

// The key position that query 0 stands at.
long long mask_offset(const AttentionProblem &p, const DenseProblem &d, std::size_t batch) {
    if (p.past_lengths.present()) {
        return static_cast<long long>(std::clamp(d.past_lengths[batch], 0.0, static_cast<double>(1 << 30)));
    }
    if (p.past_len.present != 0) return p.past_len.value;
    return p.causal_alignment == VKATTN_CAUSAL_TOP_LEFT ? 0 : keys_less_queries(p, d, batch);
}

// The first of the queries' own keys.
long long first_own_key(const AttentionProblem &p, const DenseProblem &d, std::size_t batch) {
    const bool has_past = p.past_lengths.present() || p.past_len.present != 0;
    return has_past ? mask_offset(p, d, batch) : keys_less_queries(p, d, batch);
}

void scaled_scores(const AttentionProblem &p, const DenseProblem &d, Row &row) {
    const AttentionSizes &s = d.sizes;
    const double scale =
        p.scale.present != 0 ? static_cast<double>(p.scale.value) : 1.0 / std::sqrt(static_cast<double>(s.head_dim));
    const double *query = &d.query[((row.batch * s.query_heads + row.head) * s.q_len + row.query) * s.head_dim];
    const double *key = &d.key[(row.batch * s.kv_heads + kv_head_of(p, s, row.head)) * s.kv_len * s.head_dim];
    for (std::size_t j = 0; j < s.kv_len; ++j) {
        double sum = 0.0;
        for (std::size_t c = 0; c < s.head_dim; ++c) sum += query[c] * key[j * s.head_dim + c];
        row.scores[j] = scale * sum;
    }
}

void apply_softcap(const AttentionProblem &p, Row &row) {
    if (p.softcap <= 0.0f) return;
    const double cap = static_cast<double>(p.softcap);
    for (double &score : row.scores) score = cap * std::tanh(score / cap);
}

// Where a row's query stands, as functions of a variant count positions.
int position_of(const AttentionProblem &p, const DenseProblem &d, const Row &row) {
    return static_cast<int>(static_cast<long long>(row.query) + mask_offset(p, d, row.batch));
}

// Calls visit(score, batch, head, query, key) for each score of the row, as functions of a variant count positions.
template <class Visit>
void for_each_key(const AttentionProblem &p, const DenseProblem &d, Row &row, Visit visit) {
    const int query = position_of(p, d, row);
    for (std::size_t j = 0; j < row.scores.size(); ++j)
        visit(row.scores[j], static_cast<int>(row.batch), static_cast<int>(row.head), query, static_cast<int>(j));
}

void modify_scores(const AttentionProblem &p, const DenseProblem &d, Row &row) {
    if (!p.score_mod) return;
    for_each_key(p, d, row, [&](double &score, int b, int h, int q, int k) { score = p.score_mod(score, b, h, q, k); });
}

void add_alibi(const AttentionProblem &p, const DenseProblem &d, Row &row) {
    if (!p.alibi_slopes.present() || (p.mask_flags & VKATTN_MASK_TIMES_SLOPES) != 0) return;
    const long long position = static_cast<long long>(row.query) + mask_offset(p, d, row.batch);
    for (std::size_t j = 0; j < row.scores.size(); ++j) {
        const auto distance = static_cast<double>(std::abs(position - static_cast<long long>(j)));
        row.scores[j] -= d.alibi_slopes[row.head] * distance;
    }
}

// The row of a mask that a query, or a block of them, reads: every dimension but the last repeats.
std::size_t mask_row(const Shape &shape, const Row &row, std::size_t query) {
    const auto pick = [](std::uint64_t size, std::size_t index) { return index % size; };
    if (shape.size() == 2) return pick(shape[0], query);
    if (shape.size() == 3) return pick(shape[0], row.batch) * shape[1] + pick(shape[1], query);
    assert(shape.size() == 4);
    const std::size_t plane = pick(shape[0], row.batch) * shape[1] + pick(shape[1], row.head);
    return plane * shape[2] + pick(shape[2], query);
}

// What block_mask says of a key; PARTIAL without one.
int block_state(const AttentionProblem &p, const DenseProblem &d, const Row &row, std::size_t key) {
    if (!p.block_mask.present()) return VKATTN_BLOCK_PARTIAL;
    const Shape &shape = p.block_mask.shape();
    const std::size_t first = mask_row(shape, row, row.query / p.block_q_len) * shape.back();
    return static_cast<int>(d.block_mask[first + key / p.block_kv_len]);
}

void apply_block_mask(const AttentionProblem &p, const DenseProblem &d, Row &row) {
    for (std::size_t j = 0; j < row.scores.size(); ++j)
        if (block_state(p, d, row, j) == VKATTN_BLOCK_HIDDEN) row.scores[j] = kHidden;
}

void apply_attn_mask(const AttentionProblem &p, const DenseProblem &d, Row &row) {
    if (!p.attn_mask.present()) return;
    const std::size_t mask_len = p.attn_mask.shape().back();
    const double *mask = d.attn_mask.data() + mask_row(p.attn_mask.shape(), row, row.query) * mask_len;
    for (std::size_t j = 0; j < row.scores.size(); ++j) {
        if (j >= mask_len) {
            row.scores[j] = kHidden;
        } else if (block_state(p, d, row, j) == VKATTN_BLOCK_FULL) {
            continue;
        } else if (p.attn_mask.type() == VKATTN_TYPE_BOOL) {
            if (mask[j] == 0.0) row.scores[j] = kHidden;
        } else {
            const bool sloped = (p.mask_flags & VKATTN_MASK_TIMES_SLOPES) != 0;
            const double added = sloped ? mask[j] * d.alibi_slopes[row.head] : mask[j];
            row.scores[j] = mask[j] < kAdditiveHides ? kHidden : row.scores[j] + added;
        }
    }
}

void apply_mask_mod(const AttentionProblem &p, const DenseProblem &d, Row &row) {
    if (!p.mask_mod) return;
    for_each_key(p, d, row, [&](double &score, int b, int h, int q, int k) {
        const bool asked = block_state(p, d, row, static_cast<std::size_t>(k)) != VKATTN_BLOCK_FULL;
        if (asked && !p.mask_mod(b, h, q, k)) score = kHidden;
    });
}

void hide_behind_last_query(const AttentionProblem &p, const DenseProblem &d, Row &row) {
    if ((p.mask_flags & VKATTN_MASK_KEYS_TO_LAST_QUERY) == 0) return;
    const long long end = mask_offset(p, d, row.batch) + static_cast<long long>(d.sizes.q_len);
    for (std::size_t j = 0; j < row.scores.size(); ++j)
        if (static_cast<long long>(j) >= end) row.scores[j] = kHidden;
}

void hide_by_causal(const AttentionProblem &p, const DenseProblem &d, Row &row) {
    if ((p.mask_flags & VKATTN_MASK_CAUSAL) == 0) return;
    const long long position = static_cast<long long>(row.query) + mask_offset(p, d, row.batch);
    for (std::size_t j = 0; j < row.scores.size(); ++j) {
        if (static_cast<long long>(j) > position) row.scores[j] = kHidden;
    }
}

void hide_by_window(const AttentionProblem &p, const DenseProblem &d, Row &row) {
    if ((p.mask_flags & VKATTN_MASK_WINDOW) == 0) return;
    const long long position = static_cast<long long>(row.query) + mask_offset(p, d, row.batch);
    for (std::size_t j = 0; j < row.scores.size(); ++j) {
        const long long key = static_cast<long long>(j);
        if (p.window_left >= 0 && key < position - p.window_left) row.scores[j] = kHidden;
        if (p.window_right >= 0 && key > position + p.window_right) row.scores[j] = kHidden;
    }
}

void hide_by_tree(const AttentionProblem &p, const DenseProblem &d, Row &row) {
    if (!p.tree_mask.present()) return;
    const std::size_t words = p.tree_mask.shape().back();
    const auto *tree = reinterpret_cast<const std::uint32_t *>(p.tree_mask.bytes().data()) +
                       (row.batch * d.sizes.q_len + row.query) * words;
    const long long first = first_own_key(p, d, row.batch);
    for (std::size_t j = 0; j < row.scores.size(); ++j) {
        const long long own = static_cast<long long>(j) - first;
        if (own < 0) continue;
        const bool is_own = own < static_cast<long long>(d.sizes.q_len);
        if (!is_own || (tree[own / 32] >> (own % 32) & 1) == 0) row.scores[j] = kHidden;
    }
}

void hide_by_key_lengths(const AttentionProblem &p, const DenseProblem &d, Row &row) {
    if (!p.key_lengths.present()) return;
    for (std::size_t j = 0; j < row.scores.size(); ++j) {
        if (static_cast<double>(j) >= d.key_lengths[row.batch]) row.scores[j] = kHidden;
    }
}

void hide_by_key_padding(const AttentionProblem &p, const DenseProblem &d, Row &row) {
    if (!p.key_padding_mask.present()) return;
    for (std::size_t j = 0; j < row.scores.size(); ++j) {
        if (d.key_padding_mask[row.batch * d.sizes.kv_len + j] != 0.0) row.scores[j] = kHidden;
    }
}

// A key that is listed n times counts n times: its weight is n times as large.
void apply_key_list(const AttentionProblem &p, const DenseProblem &d, Row &row) {
    if (!p.key_indices.present()) return;
    const Shape &shape = p.key_indices.shape();
    const std::size_t head = shape[1] == 1 ? 0 : kv_head_of(p, d.sizes, row.head);
    const double *list = d.key_indices.data() + ((row.batch * shape[1] + head) * shape[2] + row.query) * shape[3];
    std::vector<double> times(row.scores.size(), 0.0);
    for (std::size_t n = 0; n < shape[3]; ++n)
        for (double key = list[n] * p.key_block_len; list[n] >= 0 && key < (list[n] + 1) * p.key_block_len; ++key)
            if (key < static_cast<double>(times.size()))
                times[static_cast<std::size_t>(key)] += 1.0;
            else
                break;
    for (std::size_t j = 0; j < times.size(); ++j) row.scores[j] += std::log(times[j]);
}

// Turns scores into weights and returns log(sum(exp(scores))), the sink included.
double softmax(const AttentionProblem &p, const DenseProblem &d, const Row &row, std::vector<double> &weights) {
    weights.assign(row.scores.size(), 0.0);
    if (row.scores.empty()) return kHidden;
    double largest = *std::max_element(row.scores.begin(), row.scores.end());
    if (largest == kHidden) return kHidden;
    if (p.sinks.present()) largest = std::max(largest, d.sinks[row.head]);
    double sum = p.sinks.present() ? std::exp(d.sinks[row.head] - largest) : 0.0;
    for (const double score : row.scores) sum += std::exp(score - largest);
    for (std::size_t j = 0; j < weights.size(); ++j) weights[j] = std::exp(row.scores[j] - largest) / sum;
    return largest + std::log(sum);
}

// What lse_mod makes of log(sum(exp(scores))); weights follow it.
double modify_lse(const AttentionProblem &p, const DenseProblem &d, const Row &row, double lse,
                  std::vector<double> &weights) {
    if (!p.lse_mod || lse == kHidden) return lse;
    const double modified =
        p.lse_mod(lse, static_cast<int>(row.batch), static_cast<int>(row.head), position_of(p, d, row));
    for (double &weight : weights) weight *= std::exp(lse - modified);
    return modified;
}

void modify_output(const AttentionProblem &p, const DenseProblem &d, const Row &row, std::span<double> values) {
    if (!p.output_mod) return;
    for (std::size_t c = 0; c < values.size(); ++c)
        values[c] = p.output_mod(values[c], static_cast<int>(row.batch), static_cast<int>(row.head),
                                 position_of(p, d, row), static_cast<int>(c));
}

void weighted_values(const AttentionProblem &p, const DenseProblem &d, const Row &row,
                     const std::vector<double> &weights, std::vector<double> &output) {
    const AttentionSizes &s = d.sizes;
    const double *value = &d.value[(row.batch * s.kv_heads + kv_head_of(p, s, row.head)) * s.kv_len * s.v_head_dim];
    std::vector<double> sum(s.v_head_dim, 0.0);
    for (std::size_t j = 0; j < s.kv_len; ++j) {
        // A key of weight 0 is not seen: whatever its value holds must not reach the output.
        if (weights[j] == 0.0) continue;
        for (std::size_t c = 0; c < s.v_head_dim; ++c) sum[c] += weights[j] * value[j * s.v_head_dim + c];
    }
    output.insert(output.end(), sum.begin(), sum.end());
}

// See vkattn_attention_desc at dropout_p.
void drop(const AttentionProblem &p, const Row &row, std::vector<double> &weights) {
    if (p.dropout_p <= 0) return;
    const double threshold = std::floor(static_cast<double>(p.dropout_p) * 4294967296.0);
    for (std::size_t j = 0; j < weights.size(); ++j) {
        const auto words = philox({static_cast<std::uint32_t>(j / 4), static_cast<std::uint32_t>(row.query),
                                   static_cast<std::uint32_t>(row.head), static_cast<std::uint32_t>(row.batch)},
                                  p.dropout_seed);
        weights[j] = words[j % 4] < threshold ? 0.0 : weights[j] / (1.0 - static_cast<double>(p.dropout_p));
    }
}

void append(std::vector<double> &to, const std::vector<double> &from) { to.insert(to.end(), from.begin(), from.end()); }

void reference_row(const AttentionProblem &p, const DenseProblem &d, Row &row, AttentionReference &result) {
    scaled_scores(p, d, row);
    if (p.score_stage == VKATTN_SCORES_SCALED) append(result.scores, row.scores);
    apply_softcap(p, row);
    if (p.score_stage == VKATTN_SCORES_CAPPED) append(result.scores, row.scores);
    modify_scores(p, d, row);
    add_alibi(p, d, row);
    apply_mask_mod(p, d, row);
    apply_attn_mask(p, d, row);
    apply_block_mask(p, d, row);
    hide_behind_last_query(p, d, row);
    hide_by_causal(p, d, row);
    hide_by_window(p, d, row);
    hide_by_tree(p, d, row);
    hide_by_key_lengths(p, d, row);
    hide_by_key_padding(p, d, row);
    apply_key_list(p, d, row);
    if (p.score_stage == VKATTN_SCORES_MASKED) append(result.scores, row.scores);
    for (const double score : row.scores) {
        if (std::isfinite(score)) result.largest_score = std::max(result.largest_score, std::fabs(score));
    }
    std::vector<double> weights;
    const double lse = softmax(p, d, row, weights);
    result.log_sum_exp.push_back(modify_lse(p, d, row, lse, weights));
    drop(p, row, weights);
    if (p.score_stage == VKATTN_SCORES_WEIGHTS) append(result.scores, weights);
    append(result.attn_weights, weights);
    weighted_values(p, d, row, weights, result.output);
    modify_output(p, d, row, std::span(result.output).last(d.sizes.v_head_dim));
}

// Sums of terms, and of their magnitudes.
struct GradientSums {
    explicit GradientSums(std::size_t size) : sums(size), magnitudes(size) {}
    void add(std::size_t at, double term, double magnitude) {
        sums[at] += term;
        magnitudes[at] += magnitude;
    }
    Gradient gradient() const {
        double squares = 0.0;
        for (const double magnitude : magnitudes) squares += magnitude * magnitude;
        const auto count = static_cast<double>(std::max<std::size_t>(magnitudes.size(), 1));
        return {sums, std::sqrt(squares / count)};
    }
    std::vector<double> sums, magnitudes;
};

struct AllGradientSums {
    GradientSums query, key, value, attn_mask, sinks;
};

// Of a row what its gradients are made of, a number a key.
struct RowGradients {
    std::vector<double> kept;        // weights as dropout leaves them
    std::vector<double> scores;      // the gradients of scores, as softcap left them
    std::vector<double> score_terms; // how large their terms are
    std::vector<double> slopes;      // the derivatives of softcap and score_mod
    double delta = 0.0, delta_terms = 0.0, log_sum_exp = 0.0;
};

// Multiplies slopes with the derivatives of score_mod, by differences, of scores as softcap left them.
void differentiate_score_mod(const AttentionProblem &p, const DenseProblem &d, const Row &row,
                             std::vector<double> &slopes) {
    constexpr double kStep = 1e-5;
    if (!p.score_mod) return;
    Row above = row, below = row;
    for (double &score : above.scores) score += kStep;
    for (double &score : below.scores) score -= kStep;
    modify_scores(p, d, above);
    modify_scores(p, d, below);
    for (std::size_t j = 0; j < slopes.size(); ++j) slopes[j] *= (above.scores[j] - below.scores[j]) / (2 * kStep);
}

RowGradients gradients_of_row(const AttentionProblem &p, const DenseProblem &d, Row &row, const double *d_output) {
    const AttentionSizes &s = d.sizes;
    const double *value = &d.value[(row.batch * s.kv_heads + kv_head_of(p, s, row.head)) * s.kv_len * s.v_head_dim];
    RowGradients made;
    scaled_scores(p, d, row);
    made.slopes.assign(s.kv_len, 1.0);
    if (p.softcap > 0.0f)
        for (std::size_t j = 0; j < s.kv_len; ++j)
            made.slopes[j] = 1.0 - std::pow(std::tanh(row.scores[j] / static_cast<double>(p.softcap)), 2);
    apply_softcap(p, row);
    differentiate_score_mod(p, d, row, made.slopes);
    AttentionReference forward;
    reference_row(p, d, row, forward);
    made.kept = forward.attn_weights;
    made.log_sum_exp = forward.log_sum_exp[0];
    std::vector<double> weights;
    softmax(p, d, row, weights);
    std::vector<double> of_weights(s.kv_len, 0.0), terms(s.kv_len, 0.0);
    for (std::size_t j = 0; j < s.kv_len; ++j) {
        if (made.kept[j] == 0.0) continue;
        for (std::size_t c = 0; c < s.v_head_dim; ++c) of_weights[j] += d_output[c] * value[j * s.v_head_dim + c];
        for (std::size_t c = 0; c < s.v_head_dim; ++c) terms[j] += std::fabs(d_output[c] * value[j * s.v_head_dim + c]);
        made.delta += made.kept[j] * of_weights[j];
        made.delta_terms += made.kept[j] * terms[j];
    }
    for (std::size_t j = 0; j < s.kv_len; ++j) {
        made.scores.push_back(made.kept[j] * of_weights[j] - weights[j] * made.delta);
        made.score_terms.push_back(made.kept[j] * terms[j] + weights[j] * made.delta_terms);
    }
    return made;
}

void add_row(const AttentionProblem &p, const DenseProblem &d, const Row &row, const RowGradients &made,
             const double *d_output, AllGradientSums &sums) {
    const AttentionSizes &s = d.sizes;
    const double scale =
        p.scale.present != 0 ? static_cast<double>(p.scale.value) : 1.0 / std::sqrt(static_cast<double>(s.head_dim));
    const std::size_t query = ((row.batch * s.query_heads + row.head) * s.q_len + row.query) * s.head_dim;
    const std::size_t first = (row.batch * s.kv_heads + kv_head_of(p, s, row.head)) * s.kv_len;
    for (std::size_t j = 0; j < s.kv_len; ++j) {
        if (made.score_terms[j] == 0.0 && made.kept[j] == 0.0) continue;
        const double score = made.scores[j] * made.slopes[j] * scale;
        const double terms = std::fabs(made.score_terms[j] * made.slopes[j] * scale);
        for (std::size_t c = 0; c < s.head_dim; ++c) {
            const std::size_t key = (first + j) * s.head_dim + c;
            sums.query.add(query + c, score * d.key[key], terms * std::fabs(d.key[key]));
            sums.key.add(key, score * d.query[query + c], terms * std::fabs(d.query[query + c]));
        }
        for (std::size_t c = 0; c < s.v_head_dim; ++c)
            sums.value.add((first + j) * s.v_head_dim + c, made.kept[j] * d_output[c],
                           std::fabs(made.kept[j] * d_output[c]));
        const std::size_t mask_len = p.attn_mask.present() ? p.attn_mask.shape().back() : 0;
        if (j >= mask_len || sums.attn_mask.sums.empty() || block_state(p, d, row, j) == VKATTN_BLOCK_FULL) continue;
        const double slope = (p.mask_flags & VKATTN_MASK_TIMES_SLOPES) != 0 ? d.alibi_slopes[row.head] : 1.0;
        sums.attn_mask.add(mask_row(p.attn_mask.shape(), row, row.query) * mask_len + j, made.scores[j] * slope,
                           std::fabs(made.score_terms[j] * slope));
    }
    if (!p.sinks.present() || made.log_sum_exp == kHidden) return;
    const double weight = std::exp(d.sinks[row.head] - made.log_sum_exp);
    sums.sinks.add(row.head, -weight * made.delta, weight * made.delta_terms);
}

} // namespace

AttentionGradients reference_gradients(const AttentionProblem &problem, std::span<const double> d_output) {
    const DenseProblem d = dense(problem);
    const AttentionSizes &s = d.sizes;
    const bool has_mask = problem.attn_mask.present() && problem.attn_mask.type() != VKATTN_TYPE_BOOL;
    AllGradientSums sums{GradientSums(d.query.size()), GradientSums(d.key.size()), GradientSums(d.value.size()),
                         GradientSums(has_mask ? d.attn_mask.size() : 0), GradientSums(d.sinks.size())};
    Row row{.batch = 0, .head = 0, .query = 0, .scores = std::vector<double>(s.kv_len)};
    for (row.batch = 0; row.batch < s.batch; ++row.batch)
        for (row.head = 0; row.head < s.query_heads; ++row.head)
            for (row.query = 0; row.query < s.q_len; ++row.query) {
                const double *of_row =
                    &d_output[((row.batch * s.query_heads + row.head) * s.q_len + row.query) * s.v_head_dim];
                add_row(problem, d, row, gradients_of_row(problem, d, row, of_row), of_row, sums);
            }
    return {sums.query.gradient(), sums.key.gradient(), sums.value.gradient(), sums.attn_mask.gradient(),
            sums.sinks.gradient()};
}

AttentionSizes sizes_of(const AttentionProblem &problem) {
    const Shape &q = problem.query.shape();
    const Shape &k = problem.key.shape();
    return {.batch = q[0],
            .query_heads = q[1],
            .kv_heads = k[1],
            .q_len = q[2],
            .kv_len = k[2],
            .head_dim = q[3],
            .v_head_dim = problem.value.shape()[3]};
}

std::size_t hadamard_block(std::size_t row_len) { return row_len & (~row_len + 1); }

std::vector<double> hadamard_rotated(const std::vector<double> &rows, std::size_t block) {
    std::vector<double> rotated(rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const double *of_block = &rows[i / block * block];
        for (std::size_t j = 0; j < block; ++j)
            rotated[i] += std::popcount(i % block & j) % 2 == 0 ? of_block[j] : -of_block[j];
        rotated[i] /= std::sqrt(static_cast<double>(block));
    }
    return rotated;
}

AttentionReference reference_attention(const AttentionProblem &problem) {
    const DenseProblem d = dense(problem);
    AttentionReference result;
    Row row{.batch = 0, .head = 0, .query = 0, .scores = std::vector<double>(d.sizes.kv_len)};
    for (row.batch = 0; row.batch < d.sizes.batch; ++row.batch) {
        for (row.head = 0; row.head < d.sizes.query_heads; ++row.head) {
            for (row.query = 0; row.query < d.sizes.q_len; ++row.query) reference_row(problem, d, row, result);
        }
    }
    return result;
}

} // namespace vkattn_test
