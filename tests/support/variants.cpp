#include "variants.hpp"

#include <vkattn/jit.hpp>

#include <algorithm>
#include <cmath>

namespace vkattn_test {
namespace {

constexpr unsigned kNumbers = 64; // of a captured tensor

constexpr const char *kEveryFunction = R"(
float score_mod(float score, uint batch, uint head, uint query, uint key) {
    return 0.75 * score + captured_f32(0, (5u * batch + 3u * head + query + 2u * key) % 64u);
}
bool mask_mod(uint batch, uint head, uint query, uint key) { return (3u * key + query + head + batch) % 7u != 2u; }
float lse_mod(float lse, uint batch, uint head, uint query) {
    float other = captured_f32(1, (5u * batch + 3u * head + query) % 64u), most = max(lse, other);
    return most + log(exp(lse - most) + exp(other - most));
}
float output_mod(float value, uint batch, uint head, uint query, uint element) {
    return 1.5 * value + captured_f32(2, (7u * batch + 5u * head + 3u * query + element) % 64u);
}
)";

constexpr const char *kScoreFunctions = R"(
float factor(uint batch, uint head, uint query, uint key) {
    return captured_f32(0, (5u * batch + 3u * head + query + 2u * key) % 64u);
}
float score_mod(float score, uint batch, uint head, uint query, uint key) {
    return 0.75 * score + factor(batch, head, query, key) / (1.0 + score * score);
}
float score_mod_grad(float score, uint batch, uint head, uint query, uint key) {
    float size = 1.0 + score * score;
    return 0.75 - 2.0 * score * factor(batch, head, query, key) / (size * size);
}
bool mask_mod(uint batch, uint head, uint query, uint key) { return (3u * key + query + head + batch) % 7u != 2u; }
)";

unsigned sum(std::initializer_list<std::pair<unsigned, int>> terms) {
    unsigned total = 0; // as GLSL's uint, beyond its end from 0 on
    for (const auto &[factor, number] : terms) total += factor * static_cast<unsigned>(number);
    return total;
}

} // namespace

void set_variant(AttentionProblem &problem, const std::string &text, const vkattn::Context &context) {
    problem.variant = std::make_shared<vkattn::Variant>(vkattn::jit_variant(context, text, "test.glsl"));
}

void set_score_functions(AttentionProblem &problem, std::mt19937 &random, const vkattn::Context &context) {
    problem.captured[0] = normal_tensor(VKATTN_TYPE_F32, {kNumbers}, random);
    problem.score_mod = [captured = problem.captured[0].values()](double score, int b, int h, int q, int k) {
        return 0.75 * score + captured[sum({{5, b}, {3, h}, {1, q}, {2, k}}) % kNumbers] / (1.0 + score * score);
    };
    problem.mask_mod = [](int b, int h, int q, int k) { return sum({{3, k}, {1, q}, {1, h}, {1, b}}) % 7 != 2; };
    set_variant(problem, kScoreFunctions, context);
}

void set_every_function(AttentionProblem &problem, std::mt19937 &random, const vkattn::Context &context) {
    std::array<std::vector<double>, 3> captured;
    for (std::size_t i = 0; i < captured.size(); ++i) {
        problem.captured[i] = normal_tensor(VKATTN_TYPE_F32, {kNumbers}, random);
        captured[i] = problem.captured[i].values();
    }
    problem.score_mod = [=](double score, int b, int h, int q, int k) {
        return 0.75 * score + captured[0][sum({{5, b}, {3, h}, {1, q}, {2, k}}) % kNumbers];
    };
    problem.mask_mod = [](int b, int h, int q, int k) { return sum({{3, k}, {1, q}, {1, h}, {1, b}}) % 7 != 2; };
    problem.lse_mod = [=](double lse, int b, int h, int q) {
        const double other = captured[1][sum({{5, b}, {3, h}, {1, q}}) % kNumbers], most = std::max(lse, other);
        return most + std::log(std::exp(lse - most) + std::exp(other - most));
    };
    problem.output_mod = [=](double value, int b, int h, int q, int e) {
        return 1.5 * value + captured[2][sum({{7, b}, {5, h}, {3, q}, {1, e}}) % kNumbers];
    };
    set_variant(problem, kEveryFunction, context);
}

} // namespace vkattn_test
