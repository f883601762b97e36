// Tokens in fewer steps: several guesses of what comes next, as a tree, are verified in one call of a layer with a tree_mask, and of the
// path that was right the cache keeps keys and values. What guesses is a lookup of what followed the same token before.
#include <vkattn/vkattn.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <random>

namespace {

constexpr std::uint32_t kWidth = 64, kHeads = 4, kKvHeads = 2, kVocabulary = 12;
constexpr std::uint32_t kDraft = 8, kTokens = 64; // nodes of a tree, the last token among them

std::vector<float> random_values(std::size_t count, unsigned seed, float deviation) {
    std::mt19937 engine(seed);
    std::normal_distribution<float> normal(0.0f, deviation);
    std::vector<float> values(count);
    std::ranges::generate(values, [&] { return normal(engine); });
    return values;
}

// A made-up model of one layer without RoPE. A layer with it takes each draft's position, the tokens held and its depth, as `positions`.
class Model {
  public:
    explicit Model(const vkattn::Context &context) : context_(context) {
        vkattn_layer_config config{};
        config.kind = VKATTN_LAYER_MHA;
        config.embed_dim = kWidth;
        config.num_heads = kHeads;
        config.num_kv_heads = kKvHeads;
        const std::vector<float> weights = random_values(std::size_t{kWidth} * kWidth * 4, 7, 0.3f);
        const auto weight = [&](const char *name, std::uint64_t first, std::uint64_t rows) {
            return vkattn::weight(name, vkattn::tensor(VKATTN_TYPE_F32, {rows, kWidth}),
                                  weights.data() + first * kWidth, rows * kWidth * sizeof(float));
        };
        const std::uint64_t kv_rows = kKvHeads * (kWidth / kHeads);
        layer_ = context.layer(config,
                               std::vector{weight("q_proj.weight", 0, kWidth), weight("k_proj.weight", kWidth, kv_rows),
                                           weight("v_proj.weight", std::uint64_t{2} * kWidth, kv_rows),
                                           weight("out_proj.weight", std::uint64_t{3} * kWidth, kWidth)});
    }

    vkattn::Cache cache() const {
        vkattn_cache_info info{};
        info.layer = layer_.get();
        info.batch = 1;
        info.capacity = kTokens + kDraft;
        info.key_type = info.value_type = VKATTN_TYPE_F32;
        return context_.cache(info);
    }

    // What follows each of some tokens, which see what the cache holds and of each other what the rows of the tree say.
    std::vector<std::uint32_t> next(const vkattn::Cache &cache, std::span<const std::uint32_t> tokens,
                                    std::span<const std::uint32_t> tree) const {
        vkattn_layer_call call{};
        call.query = call.output = call.residual = vkattn::tensor(VKATTN_TYPE_F32, {1, tokens.size(), kWidth});
        call.tree_mask = vkattn::tensor(VKATTN_TYPE_I32, {1, tokens.size(), 1});
        call.cache = cache.get();
        std::vector<float> hidden;
        for (const std::uint32_t token : tokens)
            hidden.insert(hidden.end(), embedding_.begin() + token * kWidth, embedding_.begin() + (token + 1) * kWidth);
        vkattn::Buffer query = context_.buffer(call.query), mask = context_.buffer(call.tree_mask);
        query.write(hidden);
        mask.write(tree);
        const vkattn::Buffer output = context_.buffer(call.output);
        layer_.plan(call).run({vkattn::bind(VKATTN_ROLE_QUERY, query), vkattn::bind(VKATTN_ROLE_RESIDUAL, query),
                               vkattn::bind(VKATTN_ROLE_TREE_MASK, mask), vkattn::bind(VKATTN_ROLE_OUTPUT, output)});
        output.read(hidden);
        std::vector<std::uint32_t> best;
        for (std::size_t i = 0; i < tokens.size(); ++i)
            best.push_back(most_likely(std::span(hidden).subspan(i * kWidth, kWidth)));
        return best;
    }

  private:
    std::uint32_t most_likely(std::span<const float> hidden) const {
        std::array<float, kVocabulary> scores{};
        for (std::uint32_t token = 0; token < kVocabulary; ++token)
            scores[token] = std::inner_product(hidden.begin(), hidden.end(), head_.begin() + token * kWidth, 0.0f);
        return static_cast<std::uint32_t>(std::ranges::max_element(scores) - scores.begin());
    }

    const vkattn::Context &context_;
    vkattn::Layer layer_;
    const std::vector<float> embedding_ = random_values(std::size_t{kVocabulary} * kWidth, 8, 1.0f);
    const std::vector<float> head_ = random_values(std::size_t{kVocabulary} * kWidth, 9, 1.0f);
};

// Guesses of what follows a text, its last token first. Of each node the token, the node that it follows, and what it sees: that node's
// bits and its own.
struct Tree {
    std::vector<std::uint32_t> tokens, parents, rows;

    void add(std::uint32_t token, std::uint32_t parent) {
        const std::uint32_t own = 1u << tokens.size();
        rows.push_back(tokens.empty() ? own : rows[parent] | own);
        tokens.push_back(token);
        parents.push_back(parent);
    }
    bool has(std::uint32_t token, std::uint32_t parent) const { return child(parent, token) != 0; }
    std::uint32_t child(std::uint32_t parent, std::uint32_t token) const { // 0: none
        for (std::uint32_t node = 1; node < tokens.size(); ++node)
            if (parents[node] == parent && tokens[node] == token) return node;
        return 0;
    }
};

// What followed the last token where it stood before, the latest places first; branches share what is the same.
Tree draft(std::span<const std::uint32_t> text) {
    Tree tree;
    tree.add(text.back(), 0);
    for (std::size_t at = text.size() - 1; at-- > 0;) {
        if (text[at] != text.back()) continue;
        std::uint32_t node = 0;
        for (std::size_t i = at + 1; i < std::min(at + 5, text.size()) && tree.tokens.size() < kDraft; ++i) {
            if (!tree.has(text[i], node)) tree.add(text[i], node);
            node = tree.child(node, text[i]);
        }
    }
    return tree;
}

// A text of kTokens, and how many calls it took: one of each token, or one of each tree.
std::vector<std::uint32_t> generate(const Model &model, bool drafts, std::uint32_t &calls) {
    const vkattn::Cache cache = model.cache();
    std::vector<std::uint32_t> text{1};
    for (calls = 0; text.size() < kTokens; ++calls) {
        Tree tree;
        if (drafts)
            tree = draft(text);
        else
            tree.add(text.back(), 0);
        const auto held = static_cast<std::uint32_t>(text.size() - 1); // of the last token the cache holds nothing yet
        const std::vector<std::uint32_t> next = model.next(cache, tree.tokens, tree.rows);
        std::vector<std::uint32_t> accepted; // places in the cache
        std::uint32_t node = 0;
        do {
            accepted.push_back(held + node);
            text.push_back(next[node]);
            node = tree.child(node, next[node]);
        } while (node != 0);
        cache.keep(0, held, accepted);
    }
    text.resize(kTokens);
    return text;
}

} // namespace

int main() try {
    const vkattn::Context context;
    const Model model(context);
    std::uint32_t calls = 0, calls_of_trees = 0;
    const std::vector<std::uint32_t> expected = generate(model, false, calls);
    const std::vector<std::uint32_t> text = generate(model, true, calls_of_trees);
    std::printf("%u tokens in %u calls, with trees of drafts in %u: %s\n", kTokens - 1, calls, calls_of_trees,
                text == expected ? "the same tokens" : "other tokens");
    return text == expected && calls_of_trees < calls ? 0 : 1;
} catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
