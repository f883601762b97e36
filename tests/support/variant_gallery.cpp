#include "variant_gallery.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>

namespace vkattn_test {
namespace {

int bucket(int distance) {
    if (distance < 8) return distance;
    return std::min(8 + static_cast<int>(std::log2(distance * 0.125 + 0.0001) * 2.0), 15);
}

HostTensor per_head(std::mt19937 &random) { return normal_tensor(VKATTN_TYPE_F32, {kHeads}, random); }

HostTensor documents(std::mt19937 &) {
    HostTensor tensor(VKATTN_TYPE_I32, {kBatch, kKeys});
    for (int i = 0; i < kBatch * kKeys; ++i) tensor.set(static_cast<std::uint64_t>(i), static_cast<float>(i / 37));
    return tensor;
}

} // namespace

double number(const HostTensor &tensor, int element) { return tensor.values()[static_cast<std::size_t>(element)]; }

std::string gallery_text(const std::string &name) {
    std::ifstream page(VKATTN_DOCUMENTATION "/variants.md");
    std::string text, line;
    for (bool inside = false, code = false; std::getline(page, line);) {
        if (line.starts_with("### ")) inside = line == "### " + name;
        if (!inside) continue;
        if (line == "```") code = false;
        if (code) text += line + "\n";
        if (line == "```glsl") code = true;
    }
    return text;
}

AttentionProblem plain_problem(std::mt19937 &random, vkattn_type type) {
    AttentionProblem problem;
    problem.query = normal_tensor(type, {kBatch, kHeads, kQueries, 24}, random);
    problem.key = normal_tensor(type, {kBatch, 2, kKeys, 24}, random);
    problem.value = normal_tensor(type, {kBatch, 2, kKeys, 24}, random);
    problem.past_len = kPast;
    problem.score_stage = VKATTN_SCORES_MASKED;
    return problem;
}

HostTensor integers(Shape shape, std::mt19937 &random, int most) {
    std::uniform_int_distribution<int> draw(0, most);
    HostTensor tensor(VKATTN_TYPE_I32, std::move(shape));
    for (std::uint64_t i = 0; i < tensor.elements(); ++i) tensor.set(i, static_cast<float>(draw(random)));
    return tensor;
}

const std::vector<Entry> &gallery() {
    static const std::vector<Entry> entries{
        {"causal", {}, {}, [](auto &, int, int, int q, int k) { return k <= q; }},
        {"sliding_window", {}, {}, [](auto &, int, int, int q, int k) { return k <= q && q - k < 16; }},
        {"prefix_lm",
         [](auto &random) { return integers({kBatch}, random, 90); },
         {},
         [](auto &c, int b, int, int q, int k) { return k <= q || k < number(c, b); }},
        {"documents",
         documents,
         {},
         [](auto &c, int b, int, int q, int k) {
             return k <= q && number(c, b * kKeys + q) == number(c, b * kKeys + k);
         }},
        {"alibi",
         per_head,
         [](auto &c, double s, int, int h, int q, int k) { return s - number(c, h) * std::abs(q - k); },
         {}},
        {"relative_bias",
         [](auto &random) {
             return normal_tensor(VKATTN_TYPE_F32, {kHeads, 17}, random);
         },
         [](auto &c, double s, int, int h, int q, int k) {
             return s + number(c, h * 17 + std::clamp(k - q, -8, 8) + 8);
         },
         {}},
        {"softcap", {}, [](auto &, double s, int, int, int, int) { return 5.0 * std::tanh(s / 5.0); }, {}},
        {"dilated", {}, {}, [](auto &, int, int, int q, int k) { return k <= q && (q - k) % 3 == 0; }},
        {"t5_buckets",
         [](auto &random) {
             return normal_tensor(VKATTN_TYPE_F32, {16, kHeads}, random);
         },
         [](auto &c, double s, int, int h, int q, int k) {
             return s + number(c, bucket(std::max(q - k, 0)) * kHeads + h);
         },
         {}},
        {"tree",
         [](auto &random) {
             return integers({kQueries, 2}, random, 0xffff);
         },
         {},
         [](auto &c, int, int, int q, int k) {
             if (k < kPast) return true;
             const int node = q - kPast, other = k - kPast;
             const int element = node * 2 + other / 32;
             const int bits = element < kQueries * 2 ? static_cast<int>(number(c, element)) : 0;
             return (bits >> (other % 32) & 1) != 0;
         }},
        {"natten_2d",
         {},
         {},
         [](auto &, int, int, int q, int k) {
             return std::abs(q % 12 - k % 12) <= 2 && std::abs(q / 12 - k / 12) <= 2;
         }},
        {"causal_alibi", per_head,
         [](auto &c, double s, int, int h, int q, int k) { return s - number(c, h) * (q - k); },
         [](auto &, int, int, int q, int k) { return k <= q; }},
        {.name = "sink",
         .captured = per_head,
         .lse = [](auto &c, double lse, int, int h, int) { return std::log(std::exp(lse) + std::exp(number(c, h))); }},
        {.name = "sigmoid",
         .score = [](auto &, double s, int, int, int, int) { return -std::log(1.0 + std::exp(-s)); },
         .lse = [](auto &, double, int, int, int) { return 0.0; }},
        {.name = "output_gate",
         .captured =
             [](auto &random) {
                 return normal_tensor(VKATTN_TYPE_F32, {kBatch, kHeads, kKeys, 24}, random);
             },
         .output =
             [](auto &c, double value, int b, int h, int q, int e) {
                 return value / (1.0 + std::exp(-number(c, ((b * kHeads + h) * kKeys + q) * 24 + e)));
             }}};
    return entries;
}

const Entry &entry_of(const std::string &name) {
    return *std::ranges::find_if(gallery(), [&](const Entry &each) { return each.name == name; });
}

void add_entry(AttentionProblem &problem, const Entry &entry, std::mt19937 &random) {
    if (entry.captured) problem.captured[0] = entry.captured(random);
    const HostTensor captured = problem.captured[0];
    if (entry.score)
        problem.score_mod = [=](double s, int b, int h, int q, int k) { return entry.score(captured, s, b, h, q, k); };
    if (entry.mask) problem.mask_mod = [=](int b, int h, int q, int k) { return entry.mask(captured, b, h, q, k); };
    if (entry.lse) problem.lse_mod = [=](double lse, int b, int h, int q) { return entry.lse(captured, lse, b, h, q); };
    if (entry.output)
        problem.output_mod = [=](double v, int b, int h, int q, int e) {
            return entry.output(captured, v, b, h, q, e);
        };
    set_variant(problem, gallery_text(entry.name));
}

} // namespace vkattn_test
