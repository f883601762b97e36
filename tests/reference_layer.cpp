#include "reference.hpp"

namespace vkattn_test {
namespace {

struct LayerSizes {
    std::size_t batch, q_len, new_len, past_len, embed_dim, query_heads, kv_heads, head_dim;
};

LayerSizes layer_sizes(const MhaProblem &p) {
    const vkattn_layer_config &c = p.config;
    const HostTensor &key = p.key.present() ? p.key : p.query;
    return {.batch = p.query.shape()[0],
            .q_len = p.query.shape()[1],
            .new_len = key.shape()[1],
            .past_len = p.past_key.present() ? p.past_key.shape()[2] : 0,
            .embed_dim = c.embed_dim,
            .query_heads = c.num_heads,
            .kv_heads = c.num_kv_heads != 0 ? c.num_kv_heads : c.num_heads,
            .head_dim = c.head_dim != 0 ? c.head_dim : c.embed_dim / c.num_heads};
}

// x W^T + b over the rows of x.
std::vector<double> linear(const MhaProblem &p, const std::string &name, const std::vector<double> &x) {
    const HostTensor &weight_tensor = p.weights.at(name + ".weight");
    const std::size_t out_features = weight_tensor.shape()[0];
    const std::size_t in_features = weight_tensor.shape()[1];
    const std::vector<double> weight = weight_tensor.values();
    const auto bias_tensor = p.weights.find(name + ".bias");
    const std::vector<double> bias =
        bias_tensor != p.weights.end() ? bias_tensor->second.values() : std::vector<double>(out_features, 0.0);
    std::vector<double> y;
    for (std::size_t row = 0; row < x.size() / in_features; ++row) {
        for (std::size_t o = 0; o < out_features; ++o) {
            double sum = bias[o];
            for (std::size_t i = 0; i < in_features; ++i) sum += x[row * in_features + i] * weight[o * in_features + i];
            y.push_back(sum);
        }
    }
    return y;
}

// [B,L,H*D] to [B,H,L,D].
std::vector<double> split_heads(const std::vector<double> &x, std::size_t batch, std::size_t len, std::size_t heads,
                                std::size_t head_dim) {
    std::vector<double> y;
    for (std::size_t b = 0; b < batch; ++b) {
        for (std::size_t h = 0; h < heads; ++h) {
            for (std::size_t i = 0; i < len; ++i) {
                const double *row = &x[((b * len + i) * heads + h) * head_dim];
                y.insert(y.end(), row, row + head_dim);
            }
        }
    }
    return y;
}

// [B,H,L,D] to [B,L,H*D].
std::vector<double> join_heads(const std::vector<double> &x, std::size_t batch, std::size_t len, std::size_t heads,
                               std::size_t head_dim) {
    std::vector<double> y;
    for (std::size_t b = 0; b < batch; ++b) {
        for (std::size_t i = 0; i < len; ++i) {
            for (std::size_t h = 0; h < heads; ++h) {
                const double *row = &x[((b * heads + h) * len + i) * head_dim];
                y.insert(y.end(), row, row + head_dim);
            }
        }
    }
    return y;
}

void rotate_pair(double &a, double &b, double angle) {
    const double rotated = a * std::cos(angle) - b * std::sin(angle);
    b = a * std::sin(angle) + b * std::cos(angle);
    a = rotated;
}

// Rotates every row of [B,H,L,D]; row i of a sequence stands at position start + i.
void rope(const vkattn_layer_config &config, std::vector<double> &x, std::size_t len, std::size_t head_dim,
          std::size_t start) {
    if (config.rope_theta == 0.0f) return;
    const std::size_t half = head_dim / 2;
    for (std::size_t row = 0; row < x.size() / head_dim; ++row) {
        double *values = &x[row * head_dim];
        const auto position = static_cast<double>(start + row % len);
        for (std::size_t i = 0; i < half; ++i) {
            const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(head_dim);
            const double angle = position * std::pow(static_cast<double>(config.rope_theta), exponent);
            if (config.rope_interleaved != 0) {
                rotate_pair(values[2 * i], values[2 * i + 1], angle);
            } else {
                rotate_pair(values[i], values[i + half], angle);
            }
        }
    }
}

// Puts [B,H,P,D] in front of [B,H,L,D] along the third dimension.
std::vector<double> concat(const HostTensor &past, const std::vector<double> &fresh, std::size_t groups) {
    if (!past.present()) return fresh;
    const std::vector<double> old = past.values();
    const std::size_t old_size = old.size() / groups;
    const std::size_t fresh_size = fresh.size() / groups;
    std::vector<double> joined;
    for (std::size_t g = 0; g < groups; ++g) {
        joined.insert(joined.end(), &old[g * old_size], &old[g * old_size] + old_size);
        joined.insert(joined.end(), &fresh[g * fresh_size], &fresh[g * fresh_size] + fresh_size);
    }
    return joined;
}

// f32 is exact enough between the stages: its rounding is worth 1e-15 of NMSE.
HostTensor rounded(const std::vector<double> &values, Shape shape) {
    HostTensor tensor(VKATTN_TYPE_F32, std::move(shape));
    for (std::size_t i = 0; i < values.size(); ++i) tensor.set(i, static_cast<float>(values[i]));
    return tensor;
}

AttentionProblem inner_attention(const MhaProblem &p, const LayerSizes &s, const std::vector<double> &query,
                                 const MhaReference &present) {
    const std::size_t kv_len = s.past_len + s.new_len;
    AttentionProblem inner;
    inner.query = rounded(query, {s.batch, s.query_heads, s.q_len, s.head_dim});
    inner.key = rounded(present.present_key, {s.batch, s.kv_heads, kv_len, s.head_dim});
    inner.value = rounded(present.present_value, {s.batch, s.kv_heads, kv_len, s.head_dim});
    inner.attn_mask = p.attn_mask;
    inner.key_padding_mask = p.key_padding_mask;
    inner.key_lengths = p.key_lengths;
    inner.mask_flags = p.mask_flags;
    inner.causal_alignment = p.causal_alignment;
    inner.window_left = p.window_left;
    inner.window_right = p.window_right;
    inner.past_len = static_cast<std::uint32_t>(s.past_len);
    inner.kv_head_mapping = p.config.kv_head_mapping;
    return inner;
}

} // namespace

MhaReference reference_mha(const MhaProblem &p) {
    const LayerSizes s = layer_sizes(p);
    const auto &key_input = p.key.present() ? p.key : p.query;
    const auto &value_input = p.value.present() ? p.value : key_input;
    auto query = split_heads(linear(p, "q_proj", p.query.values()), s.batch, s.q_len, s.query_heads, s.head_dim);
    auto key = split_heads(linear(p, "k_proj", key_input.values()), s.batch, s.new_len, s.kv_heads, s.head_dim);
    const auto value =
        split_heads(linear(p, "v_proj", value_input.values()), s.batch, s.new_len, s.kv_heads, s.head_dim);
    rope(p.config, query, s.q_len, s.head_dim, s.past_len);
    rope(p.config, key, s.new_len, s.head_dim, s.past_len);

    MhaReference result;
    result.present_key = concat(p.past_key, key, s.batch * s.kv_heads);
    result.present_value = concat(p.past_value, value, s.batch * s.kv_heads);
    AttentionReference heads = reference_attention(inner_attention(p, s, query, result));
    result.attn_weights = std::move(heads.attn_weights);
    result.output = linear(p, "out_proj", join_heads(heads.output, s.batch, s.q_len, s.query_heads, s.head_dim));
    return result;
}

} // namespace vkattn_test
