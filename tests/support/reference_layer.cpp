#include "norms.hpp"
#include "reference.hpp"

#include <algorithm>
#include <tuple>

namespace vkattn_test {
namespace {

using Values = std::vector<double>;

// x M over the rows of x; M is [in, out].
Values product(const LayerProblem &p, const std::string &name, const Values &x) {
    const HostTensor &matrix = p.weights.at(name);
    const std::size_t in = matrix.shape()[0], out = matrix.shape()[1];
    const Values m = matrix.values();
    Values y(x.size() / in * out, 0.0);
    for (std::size_t row = 0; row < x.size() / in; ++row)
        for (std::size_t i = 0; i < in; ++i)
            for (std::size_t o = 0; o < out; ++o) y[row * out + o] += x[row * in + i] * m[i * out + o];
    return y;
}

// x W^T + b over the rows of x; W is [out, in].
Values linear(const LayerProblem &p, const std::string &name, const Values &x) {
    const HostTensor &matrix = p.weights.at(name + ".weight");
    const std::size_t out = matrix.shape()[0], in = matrix.shape()[1];
    const Values w = matrix.values();
    const auto bias = p.weights.find(name + ".bias");
    const Values b = bias != p.weights.end() ? bias->second.values() : Values(out, 0.0);
    Values y;
    for (std::size_t row = 0; row < x.size() / in; ++row) {
        for (std::size_t o = 0; o < out; ++o) {
            double sum = b[o];
            for (std::size_t i = 0; i < in; ++i) sum += x[row * in + i] * w[o * in + i];
            y.push_back(sum);
        }
    }
    return y;
}

Values sum(Values a, const Values &b) {
    for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
    return a;
}

Values norm(const LayerProblem &p, const std::string &name, Values x, vkattn_norm_kind kind, double epsilon) {
    const auto bias = p.weights.find(name + ".bias");
    return normalised(std::move(x), p.weights.at(name + ".weight").values(),
                      bias != p.weights.end() ? bias->second.values() : Values(), kind, epsilon);
}

double epsilon_or(const LayerProblem &p, double epsilon) {
    return p.config.norm_epsilon.present != 0 ? static_cast<double>(p.config.norm_epsilon.value) : epsilon;
}

Values rms_norm(const LayerProblem &p, const std::string &name, Values x) {
    return norm(p, name, std::move(x), VKATTN_NORM_RMS, epsilon_or(p, 1e-6));
}

Values layer_norm(const LayerProblem &p, const std::string &name, Values x) {
    return norm(p, name, std::move(x), VKATTN_NORM_LAYER, epsilon_or(p, 1e-5));
}

Values activated(vkattn_activation activation, Values x) {
    for (double &value : x) {
        if (activation == VKATTN_ACTIVATION_RELU) value = std::max(value, 0.0);
        if (activation == VKATTN_ACTIVATION_GELU) value *= 0.5 * std::erfc(-value / std::sqrt(2.0));
        if (activation == VKATTN_ACTIVATION_SILU) value /= 1.0 + std::exp(-value);
        if (activation == VKATTN_ACTIVATION_LEAKY_RELU && value < 0.0) value *= 0.01;
        if (activation == VKATTN_ACTIVATION_GELU_TANH)
            value *= 0.5 * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (value + 0.044715 * value * value * value)));
    }
    return x;
}

// Columns first .. first + count - 1 of rows of a width.
Values columns(const Values &x, std::size_t width, std::size_t first, std::size_t count) {
    Values y;
    for (std::size_t row = 0; row < x.size() / width; ++row)
        y.insert(y.end(), &x[row * width] + first, &x[row * width] + first + count);
    return y;
}

// Rows of a and of b, one after the other.
Values beside(const Values &a, std::size_t a_width, const Values &b, std::size_t b_width) {
    Values y;
    for (std::size_t row = 0; row < a.size() / a_width; ++row) {
        y.insert(y.end(), &a[row * a_width], &a[row * a_width] + a_width);
        y.insert(y.end(), &b[row * b_width], &b[row * b_width] + b_width);
    }
    return y;
}

struct Heads {
    Values values; // [B,H,L,width]
    std::size_t heads = 1, len = 0, width = 0;
};

// [B,L,H*width] to heads.
Heads split_heads(const Values &x, std::size_t batch, std::size_t len, std::size_t heads) {
    Heads split{{}, heads, len, x.size() / batch / len / heads};
    for (std::size_t b = 0; b < batch; ++b) {
        for (std::size_t h = 0; h < heads; ++h) {
            for (std::size_t i = 0; i < len; ++i) {
                const double *row = &x[((b * len + i) * heads + h) * split.width];
                split.values.insert(split.values.end(), row, row + split.width);
            }
        }
    }
    return split;
}

// Heads to [B,L,H*width].
Values join_heads(const Heads &x, std::size_t batch) {
    Values y;
    for (std::size_t b = 0; b < batch; ++b) {
        for (std::size_t i = 0; i < x.len; ++i) {
            for (std::size_t h = 0; h < x.heads; ++h) {
                const double *row = &x.values[((b * x.heads + h) * x.len + i) * x.width];
                y.insert(y.end(), row, row + x.width);
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

// LongRoPE divides each pair's frequency by a factor of its own, and lengthens the rotated vectors.
struct Longrope {
    const float *factors = nullptr;
    double length = 1.0;
};

Longrope longrope(const vkattn_rope_scaling &scaling) {
    if (scaling.kind != VKATTN_ROPE_LONGROPE) return {};
    Longrope result{scaling.factors};
    const double times = static_cast<double>(scaling.factor);
    if (scaling.attention_factor != 0.0f)
        result.length = static_cast<double>(scaling.attention_factor);
    else if (times > 1.0)
        result.length = std::sqrt(1.0 + std::log(times) / std::log(static_cast<double>(scaling.original_max_position)));
    return result;
}

// Elements of a head that are rotated.
std::size_t rotary_dim(const vkattn_layer_config &config, std::size_t head_dim) {
    return config.rotary_dim != 0 ? config.rotary_dim : head_dim;
}

// The stream of positions that a pair turns by: of Qwen2-VL's order, whose sections lie one behind the other, or of Qwen3-VL's, where
// every so-manieth pair is of a stream, up to so many times its section.
std::size_t stream_of(const vkattn_layer_config &config, std::size_t pair) {
    std::size_t streams = 0;
    for (std::size_t s = 0; s < VKATTN_ROPE_SECTIONS; ++s)
        if (config.rope_sections[s] != 0) streams = s + 1;
    if (config.rope_sections_interleaved != 0) {
        for (std::size_t s = 1; s < streams; ++s)
            if (pair % streams == s && pair < streams * config.rope_sections[s]) return s;
        return 0;
    }
    std::size_t behind = 0;
    for (std::size_t s = 0; s < streams; ++s)
        if (pair < (behind += config.rope_sections[s])) return s;
    return 0;
}

// Rows of a width, of heads of each sequence, each of len rows, of which row i stands at position start + i.
struct Turned {
    std::size_t width, first, dims; // elements first .. first + dims - 1 are rotated
    std::size_t heads, len, start;
};

// Rotates them, by the positions of the problem where it gives some.
void rope(const LayerProblem &p, const vkattn_layer_config &config, Values &x, const Turned &turned) {
    const auto &[width, first, dims, heads, len, start] = turned;
    if (config.rope_theta == 0.0f) return;
    const Longrope scaling = longrope(config.rope_scaling);
    const Values given = p.positions.present() ? p.positions.values() : Values();
    const std::size_t tokens = x.size() / width / heads;
    for (std::size_t row = 0; row < x.size() / width; ++row) {
        double *values = &x[row * width] + first;
        const std::size_t token = row / (heads * len) * len + row % len;
        for (std::size_t i = 0; i < dims / 2; ++i) {
            const double position = given.empty() ? static_cast<double>(start + row % len)
                                                  : std::max(given[stream_of(config, i) * tokens + token], 0.0);
            const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(dims);
            double angle = position * std::pow(static_cast<double>(config.rope_theta), exponent);
            if (scaling.factors != nullptr) angle /= static_cast<double>(scaling.factors[i]);
            if (config.rope_interleaved != 0)
                rotate_pair(values[2 * i], values[2 * i + 1], angle);
            else
                rotate_pair(values[i], values[i + dims / 2], angle);
        }
        for (std::size_t i = 0; i < dims; ++i) values[i] *= scaling.length;
    }
}

// The past in front of what is new, in each of so many groups of rows.
Values concat(const HostTensor &past, const Values &fresh, std::size_t groups) {
    if (!past.present()) return fresh;
    const Values old = past.values();
    const std::size_t old_size = old.size() / groups, fresh_size = fresh.size() / groups;
    Values joined;
    for (std::size_t g = 0; g < groups; ++g) {
        joined.insert(joined.end(), &old[g * old_size], &old[g * old_size] + old_size);
        joined.insert(joined.end(), &fresh[g * fresh_size], &fresh[g * fresh_size] + fresh_size);
    }
    return joined;
}

// f32 is exact enough between the stages: its rounding is worth 1e-15 of NMSE.
HostTensor rounded(const Heads &x, std::size_t batch) {
    HostTensor tensor(VKATTN_TYPE_F32, {batch, x.heads, x.len, x.width});
    for (std::size_t i = 0; i < x.values.size(); ++i) tensor.set(i, static_cast<float>(x.values[i]));
    return tensor;
}

// A layer on its way to its results.
struct Run {
    const LayerProblem &p;
    LayerReference &result;
    std::size_t batch = p.query.shape()[0];
    std::size_t len = p.query.shape()[1];
    std::size_t past_len = vkattn_test::past_len(p);

    // The attention inside, with the call's masks.
    AttentionProblem inner_problem(const Heads &query, const Heads &key, const Heads &value) const {
        AttentionProblem inner;
        inner.query = rounded(query, batch);
        inner.key = rounded(key, batch);
        inner.value = rounded(value, batch);
        inner.attn_mask = p.attn_mask;
        inner.block_mask = p.block_mask;
        inner.block_q_len = p.block_q_len;
        inner.block_kv_len = p.block_kv_len;
        inner.tree_mask = p.tree_mask;
        inner.key_padding_mask = p.key_padding_mask;
        inner.key_lengths = p.key_lengths;
        inner.mask_flags = p.mask_flags;
        inner.causal_alignment = p.causal_alignment;
        inner.window_left = p.window_left;
        inner.window_right = p.window_right;
        if (past_len != 0) inner.past_len = static_cast<std::uint32_t>(past_len);
        return inner;
    }

    // Weights go to the result; what they make of V is returned as [B,L,H*width].
    Heads attend(const Heads &query, const Heads &key, const Heads &value, const HostTensor &key_indices = {}) const {
        AttentionProblem inner = inner_problem(query, key, value);
        inner.scale = p.config.scale;
        inner.softcap = p.config.softcap;
        inner.kv_head_mapping = p.config.kv_head_mapping;
        inner.key_indices = key_indices;
        AttentionReference attended = reference_attention(inner);
        result.attn_weights = std::move(attended.attn_weights);
        return {std::move(attended.output), query.heads, query.len, value.width};
    }

    // tokens, key_tokens, value_tokens: [B,L,embed_dim]
    Values mha(const std::string &prefix, const Values &tokens, const Values &key_tokens, const Values &value_tokens,
               std::size_t new_len) const {
        const vkattn_layer_config &c = p.config;
        const std::size_t kv_heads = c.num_kv_heads != 0 ? c.num_kv_heads : c.num_heads;
        Heads query = split_heads(linear(p, prefix + "q_proj", tokens), batch, len, c.num_heads);
        Heads key = split_heads(linear(p, prefix + "k_proj", key_tokens), batch, new_len, kv_heads);
        Heads value = split_heads(linear(p, prefix + "v_proj", value_tokens), batch, new_len, kv_heads);
        const auto finish = [&](Heads &heads, const std::string &name) {
            if (p.weights.contains(name + ".weight")) heads.values = rms_norm(p, name, heads.values);
            rope(p, c, heads.values, {heads.width, 0, rotary_dim(c, heads.width), heads.heads, heads.len, past_len});
        };
        finish(query, prefix + "q_norm");
        finish(key, prefix + "k_norm");
        for (const auto &[heads, past, present] : {std::tuple{&key, &p.past_key, &result.present_key},
                                                   std::tuple{&value, &p.past_value, &result.present_value}}) {
            heads->values = *present = concat(*past, heads->values, batch * kv_heads);
            heads->len = past_len + new_len;
        }
        Values attended = join_heads(attend(query, key, value), batch);
        if (p.weights.contains(prefix + "gate_proj.weight")) {
            const Values gate = linear(p, prefix + "gate_proj", tokens);
            for (std::size_t i = 0; i < attended.size(); ++i) attended[i] /= 1.0 + std::exp(-gate[i]);
        }
        return linear(p, prefix + "out_proj", attended);
    }

    // The query, normalised where the call does.
    Values query_tokens() const {
        if (!p.norm_weight.present()) return p.query.values();
        return normalised(p.query.values(), p.norm_weight.values(), {}, VKATTN_NORM_RMS, 1e-6);
    }

    Values mha() const {
        const Values query = query_tokens(), key = p.key.present() ? p.key.values() : query;
        return mha("", query, key, p.value.present() ? p.value.values() : key,
                   (p.key.present() ? p.key : p.query).shape()[1]);
    }

    Values latent_mha() const {
        const std::size_t heads = p.config.num_heads, latent = p.config.latent_dim,
                          width = p.config.embed_dim / p.config.num_heads;
        const HostTensor &source = p.key.present() ? p.key : p.query;
        const std::size_t kv_len = source.shape()[1];
        const Values latents = linear(p, "kv_proj", source.values());
        const Heads query = split_heads(linear(p, "q_proj", p.query.values()), batch, len, heads);
        const Heads attended = attend(query, {columns(latents, 2 * latent, 0, latent), 1, kv_len, latent},
                                      {columns(latents, 2 * latent, latent, latent), 1, kv_len, latent});
        const Values up = p.weights.at("up_proj.weight").values();
        const auto bias = p.weights.find("up_proj.bias");
        const Values shift = bias != p.weights.end() ? bias->second.values() : Values(heads * width, 0.0);
        Heads lifted{{}, heads, len, width};
        for (std::size_t row = 0; row < batch * heads * len; ++row) {
            const std::size_t head = row / len % heads;
            for (std::size_t o = head * width; o < (head + 1) * width; ++o) {
                double value = shift[o];
                for (std::size_t i = 0; i < latent; ++i)
                    value += up[o * latent + i] * attended.values[row * latent + i];
                lifted.values.push_back(value);
            }
        }
        return join_heads(lifted, batch);
    }

    Values latent_query() const {
        const std::size_t count = p.config.num_latents, heads = p.config.num_heads;
        const Values one = linear(p, "q_proj", p.weights.at("latents").values());
        Values latents;
        for (std::size_t b = 0; b < batch; ++b) latents.insert(latents.end(), one.begin(), one.end());
        const Heads key = split_heads(linear(p, "k_proj", p.query.values()), batch, len, heads);
        const Heads value = split_heads(linear(p, "v_proj", p.query.values()), batch, len, heads);
        return linear(p, "out_proj", join_heads(attend(split_heads(latents, batch, count, heads), key, value), batch));
    }

    // The keys that the layer's indexer chooses, [B,1,L,index_topk]; absent: it has none. Its own keys go to the result.
    HostTensor indexed_keys(const std::string &prefix, const Values &tokens, const Values &low_rank) const {
        if (p.config.index_topk == 0) return {};
        vkattn_layer_config turned = p.config;
        turned.rope_interleaved = turned.index_rope_interleaved;
        const std::size_t heads = turned.index_n_heads, size = turned.index_head_dim, kv_len = past_len + len;
        Heads query = split_heads(linear(p, prefix + "wq_b", low_rank), batch, len, heads);
        rope(p, turned, query.values, {size, 0, turned.qk_rope_head_dim, heads, len, past_len});
        Values fresh = norm(p, prefix + "k_norm", linear(p, prefix + "wk", tokens), VKATTN_NORM_LAYER, 1e-6);
        rope(p, turned, fresh, {size, 0, turned.qk_rope_head_dim, 1, len, past_len});
        result.present_value = concat(p.past_value, fresh, batch);
        const Heads key{result.present_value, 1, kv_len, size};
        AttentionProblem inner = inner_problem(query, key, key);
        inner.score_stage = VKATTN_SCORES_MASKED;
        const Values scores = reference_attention(inner).scores; // [B,heads,L,kv_len]
        const Values weights = linear(p, prefix + "weights_proj", tokens);
        HostTensor lists(VKATTN_TYPE_I32, {batch, 1, len, turned.index_topk});
        for (std::size_t row = 0; row < batch * len; ++row) {
            Values sums(kv_len, 0.0);
            for (std::size_t h = 0; h < heads; ++h)
                for (std::size_t j = 0; j < kv_len; ++j) {
                    const double score = scores[((row / len * heads + h) * len + row % len) * kv_len + j];
                    sums[j] = std::isinf(score) ? score : sums[j] + weights[row * heads + h] * std::max(score, 0.0);
                }
            const std::vector<int> list = highest(sums, turned.index_topk);
            for (std::size_t n = 0; n < list.size(); ++n) lists.set(row * list.size() + n, static_cast<float>(list[n]));
        }
        return lists;
    }

    // The `most` highest of the scores, of equal ones the first, in ascending order, then -1. How near the last of them
    // comes to what is left out goes to the result.
    std::vector<int> highest(const Values &scores, std::size_t most) const {
        std::vector<int> list;
        for (std::size_t j = 0; j < scores.size(); ++j)
            if (!std::isinf(scores[j])) list.push_back(static_cast<int>(j));
        const auto score = [&](int j) { return scores[static_cast<std::size_t>(j)]; };
        std::ranges::stable_sort(list, [&](int a, int b) { return score(a) > score(b); });
        if (list.size() > most) {
            const double distance = score(list[most - 1]) - score(list[most]);
            if (distance != 0.0) result.nearest_choice = std::min(result.nearest_choice, distance);
        }
        list.resize(std::min(list.size(), most));
        std::ranges::sort(list);
        list.resize(most, -1);
        return list;
    }

    Values mla(const std::string &prefix, const Values &tokens) const {
        const vkattn_layer_config &c = p.config;
        const std::size_t rank = c.kv_lora_rank, turned = c.qk_rope_head_dim, kv_len = past_len + len;
        const Values low_rank =
            c.q_lora_rank == 0 ? Values() : rms_norm(p, prefix + "q_norm", linear(p, prefix + "wq_a", tokens));
        const Values projected =
            c.q_lora_rank == 0 ? linear(p, prefix + "wq", tokens) : linear(p, prefix + "wq_b", low_rank);
        Heads query = split_heads(projected, batch, len, c.num_heads);
        rope(p, c, query.values, {query.width, query.width - turned, turned, c.num_heads, len, past_len});
        const Values joint = linear(p, prefix + "wkv_a", tokens);
        Values fresh = beside(rms_norm(p, prefix + "kv_norm", columns(joint, rank + turned, 0, rank)), rank,
                              columns(joint, rank + turned, rank, turned), turned);
        rope(p, c, fresh, {rank + turned, rank, turned, 1, len, past_len});
        const Values &cached = result.present_key = concat(p.past_key, fresh, batch);

        const Heads expanded = split_heads(linear(p, prefix + "wkv_b", columns(cached, rank + turned, 0, rank)), batch,
                                           kv_len, c.num_heads);
        Values every_head; // what was turned, the same for each
        for (std::size_t b = 0; b < batch; ++b)
            for (std::size_t h = 0; h < c.num_heads; ++h)
                every_head.insert(every_head.end(),
                                  cached.begin() + static_cast<std::ptrdiff_t>(b * kv_len * (rank + turned)),
                                  cached.begin() + static_cast<std::ptrdiff_t>((b + 1) * kv_len * (rank + turned)));
        const std::size_t nope = c.qk_nope_head_dim;
        const Heads key{beside(columns(expanded.values, expanded.width, 0, nope), nope,
                               columns(every_head, rank + turned, rank, turned), turned),
                        c.num_heads, kv_len, nope + turned};
        const Heads value{columns(expanded.values, expanded.width, nope, c.v_head_dim), c.num_heads, kv_len,
                          c.v_head_dim};
        const HostTensor lists = indexed_keys(prefix + "indexer.", tokens, low_rank);
        return linear(p, prefix + "wo", join_heads(attend(query, key, value, lists), batch));
    }

    Values compressed_kv() const {
        const vkattn_layer_config &c = p.config;
        const std::size_t width = c.embed_dim, latent = c.latent_dim, joint_width = width + 2 * latent;
        const Values joint = linear(p, "uqkv_proj", p.query.values());
        Heads query = split_heads(columns(joint, joint_width, 0, width), batch, len, c.num_heads);
        rope(p, c, query.values, {query.width, 0, rotary_dim(c, query.width), c.num_heads, len, past_len});
        const auto cached = [&](std::size_t first, const HostTensor &past) {
            return concat(past, linear(p, "latent_proj", columns(joint, joint_width, first, latent)), batch);
        };
        result.present_key = cached(width, p.past_key);
        result.present_value = cached(width + latent, p.past_value);
        const auto lifted = [&](const Values &latents) {
            Values tokens = product(p, "decompress_matrix", latents);
            if (c.decompress_lora_rank > 0)
                tokens = sum(tokens, product(p, "decompress_lora_b", product(p, "decompress_lora_a", latents)));
            return split_heads(tokens, batch, past_len + len, c.num_heads);
        };
        return linear(p, "out_proj",
                      join_heads(attend(query, lifted(result.present_key), lifted(result.present_value)), batch));
    }

    Values encoder() const {
        const Values x = p.query.values();
        const auto attention = [&](const Values &tokens) { return mha("self_attn.", tokens, tokens, tokens, len); };
        const auto feed_forward = [&](const Values &tokens) {
            return linear(p, "ffn.fc2", activated(p.config.activation, linear(p, "ffn.fc1", tokens)));
        };
        if (p.config.norm_first != 0) {
            const Values attended = sum(x, attention(layer_norm(p, "norm1", x)));
            return sum(attended, feed_forward(layer_norm(p, "norm2", attended)));
        }
        const Values attended = layer_norm(p, "norm1", sum(x, attention(x)));
        return layer_norm(p, "norm2", sum(attended, feed_forward(attended)));
    }

    Values mla_block() const {
        const Values x = p.query.values();
        const Values attended = sum(x, mla("attention.", rms_norm(p, "norm1", x)));
        const Values hidden = linear(p, "mlp.fc1", rms_norm(p, "norm2", attended));
        return sum(attended, linear(p, "mlp.fc2", activated(VKATTN_ACTIVATION_GELU, hidden)));
    }

    Values output() const {
        switch (p.config.kind) {
        case VKATTN_LAYER_LATENT_MHA:
            return latent_mha();
        case VKATTN_LAYER_LATENT_QUERY:
            return latent_query();
        case VKATTN_LAYER_MLA:
            return mla("", query_tokens());
        case VKATTN_LAYER_COMPRESSED_KV:
            return compressed_kv();
        case VKATTN_LAYER_ENCODER:
            return encoder();
        case VKATTN_LAYER_MLA_BLOCK:
            return mla_block();
        default:
            return mha();
        }
    }
};

} // namespace

std::uint64_t past_len(const LayerProblem &problem) {
    const Shape &shape = problem.past_key.shape(); // [B,H,P,D] or [B,P,D]
    return problem.past_key.present() ? shape[shape.size() - 2] : 0;
}

LayerReference reference_layer(const LayerProblem &problem) {
    LayerReference result;
    result.output = Run{problem, result}.output();
    return result;
}

} // namespace vkattn_test
