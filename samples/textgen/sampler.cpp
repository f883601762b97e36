#include "sampler.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

std::int32_t Sampler::choose(std::span<const float> logits) {
    std::vector<std::int32_t> order(logits.size());
    std::iota(order.begin(), order.end(), 0);
    const std::size_t wanted = sampling_.temperature == 0.0 ? 1 : sampling_.top_k == 0 ? order.size() : sampling_.top_k;
    const auto kept = static_cast<std::ptrdiff_t>(std::min(wanted, order.size()));
    std::partial_sort(order.begin(), order.begin() + kept, order.end(), [&](std::int32_t a, std::int32_t b) {
        return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
    });
    order.resize(static_cast<std::size_t>(kept));
    if (order.size() == 1) return order[0];

    std::vector<double> sums;
    double sum = 0;
    for (const std::int32_t token : order)
        sums.push_back(sum += std::exp(static_cast<double>(logits[token] - logits[order[0]]) / sampling_.temperature));
    const double place = static_cast<double>(random_() >> 11) * 0x1p-53 * sum;
    const auto found = std::ranges::upper_bound(sums, place);
    return order[std::min<std::size_t>(static_cast<std::size_t>(found - sums.begin()), order.size() - 1)];
}
