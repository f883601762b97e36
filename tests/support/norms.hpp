// RMSNorm and LayerNorm in float64.
#pragma once

#include <vkattn/vkattn.h>

#include <cmath>
#include <cstddef>
#include <vector>

namespace vkattn_test {

// (x - mean) / sqrt(variance + epsilon) * weight + bias over rows of the weight's size; RMS takes the mean as 0. bias: empty: none.
inline std::vector<double> normalised(std::vector<double> rows, const std::vector<double> &weight,
                                      const std::vector<double> &bias, vkattn_norm_kind kind, double epsilon) {
    const auto width = static_cast<double>(weight.size());
    for (std::size_t first = 0; first < rows.size(); first += weight.size()) {
        double *x = &rows[first];
        double mean = 0.0, square = 0.0;
        for (std::size_t i = 0; kind == VKATTN_NORM_LAYER && i < weight.size(); ++i) mean += x[i] / width;
        for (std::size_t i = 0; i < weight.size(); ++i) square += (x[i] - mean) * (x[i] - mean) / width;
        for (std::size_t i = 0; i < weight.size(); ++i)
            x[i] = (x[i] - mean) / std::sqrt(square + epsilon) * weight[i] + (bias.empty() ? 0.0 : bias[i]);
    }
    return rows;
}

} // namespace vkattn_test
