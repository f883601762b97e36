// Activations, in f32.
#ifndef ACTIVATION_GLSL
#define ACTIVATION_GLSL

#include "common/relu.glsl"
#include "interface/linear.h"

// Abramowitz and Stegun 7.1.26: absolute error below 1.5e-7.
float error_function(float x) {
    float t = 1.0 / (1.0 + 0.3275911 * abs(x));
    float series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
    return sign(x) * (1.0 - series * exp(-x * x));
}

float times_sigmoid(float x, float y) { return x / (1.0 + exp(-max(y, -80.0))); }

// log(1 + x), x from 0 to 1, without what 1 + x rounds away.
float log_of_one_and(float x) {
    float sum = 1.0 + x;
    return sum == 1.0 ? x : log(sum) * x / (sum - 1.0);
}

float activate(const uint activation, float x) {
    switch (activation) {
    case ACTIVATION_RELU:
        return relu(x);
    case ACTIVATION_GELU:
        return 0.5 * x * (1.0 + error_function(x * 0.70710678118654752440));
    case ACTIVATION_SILU:
        return times_sigmoid(x, x);
    case ACTIVATION_LEAKY_RELU:
        return x >= 0.0 ? x : 0.01 * x;
    case ACTIVATION_GELU_TANH:
        return times_sigmoid(x,
                             1.59576912160573071176 * (x + 0.044715 * x * x * x)); // (1 + tanh(y)) / 2 = sigmoid(2 y)
    case ACTIVATION_SIGMOID:
        return x < -80.0 ? 0.0 : 1.0 / (1.0 + exp(-x)); // NaN stays
    case ACTIVATION_SOFTPLUS:
        return max(x, 0.0) + log_of_one_and(exp(-abs(x)));
    default:
        return x;
    }
}

float sigmoid_slope(float sigmoid) { return sigmoid * (1.0 - sigmoid); }

// x times what is 0 far from 0, where x may be infinite.
float times_slope(float x, float slope) { return slope == 0.0 ? 0.0 : x * slope; }

// The derivative of activate.
float activation_slope(const uint activation, float x) {
    switch (activation) {
    case ACTIVATION_RELU:
        return x <= 0.0 ? 0.0 : 1.0;
    case ACTIVATION_GELU:
        return 0.5 + 0.5 * error_function(x * 0.70710678118654752440) +
               times_slope(x, 0.39894228040143267794 * exp(-0.5 * x * x));
    case ACTIVATION_SILU: {
        float s = activate(ACTIVATION_SIGMOID, x);
        return s + times_slope(x, sigmoid_slope(s));
    }
    case ACTIVATION_LEAKY_RELU:
        return x <= 0.0 ? 0.01 : 1.0;
    case ACTIVATION_GELU_TANH: { // of x sigmoid(y)
        float s = activate(ACTIVATION_SIGMOID, 1.59576912160573071176 * (x + 0.044715 * x * x * x));
        return s + times_slope(x * (1.59576912160573071176 + 0.21406444881780073 * x * x), sigmoid_slope(s));
    }
    case ACTIVATION_SIGMOID:
        return sigmoid_slope(activate(ACTIVATION_SIGMOID, x));
    case ACTIVATION_SOFTPLUS:
        return activate(ACTIVATION_SIGMOID, x);
    default:
        return 1.0;
    }
}

#endif
