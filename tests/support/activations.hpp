// Activations in float64.
#pragma once

#include <vkattn/vkattn.h>

#include <algorithm>
#include <cmath>

namespace vkattn_test {

inline constexpr vkattn_activation kActivations[] = {
    VKATTN_ACTIVATION_NONE,       VKATTN_ACTIVATION_RELU,      VKATTN_ACTIVATION_GELU,    VKATTN_ACTIVATION_SILU,
    VKATTN_ACTIVATION_LEAKY_RELU, VKATTN_ACTIVATION_GELU_TANH, VKATTN_ACTIVATION_SIGMOID, VKATTN_ACTIVATION_SOFTPLUS};

inline double activated(vkattn_activation activation, double x) {
    switch (activation) {
    case VKATTN_ACTIVATION_RELU:
        return std::max(x, 0.0);
    case VKATTN_ACTIVATION_GELU:
        return x * 0.5 * (1.0 + std::erf(x / std::sqrt(2.0)));
    case VKATTN_ACTIVATION_SILU:
        return x / (1.0 + std::exp(-x));
    case VKATTN_ACTIVATION_LEAKY_RELU:
        return x > 0 ? x : 0.01 * x;
    case VKATTN_ACTIVATION_GELU_TANH:
        return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
    case VKATTN_ACTIVATION_SIGMOID:
        return 1.0 / (1.0 + std::exp(-x));
    case VKATTN_ACTIVATION_SOFTPLUS:
        return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
    default:
        return x;
    }
}

} // namespace vkattn_test
