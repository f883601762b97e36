// Made by `bench/kv_perplexity.py show` from bench/results/kv-perplexity.csv.
#pragma once

#include "tools/estimate/cache_choice.hpp"

#include <array>

namespace vkattn::tools {

inline constexpr const char *kMeasuredOn = "SmolLM2-135M-Instruct.Q4_1.gguf, 2026-11-26";

inline constexpr std::array<MeasuredCost, 16> kMeasuredCosts{
    MeasuredCost{VKATTN_TYPE_F16, VKATTN_TYPE_F16, false, 0.00, 0.00},
    MeasuredCost{VKATTN_TYPE_Q8_0, VKATTN_TYPE_Q8_0, false, 0.04, 0.04},
    MeasuredCost{VKATTN_TYPE_F8_E4M3, VKATTN_TYPE_F8_E4M3, false, 0.98, 0.16},
    MeasuredCost{VKATTN_TYPE_F8_E5M2, VKATTN_TYPE_F8_E5M2, false, 3.49, 0.40},
    MeasuredCost{VKATTN_TYPE_Q8_0, VKATTN_TYPE_Q5_1, false, 0.20, 0.07},
    MeasuredCost{VKATTN_TYPE_Q8_0, VKATTN_TYPE_IQ4_NL, false, 0.76, 0.16},
    MeasuredCost{VKATTN_TYPE_Q5_1, VKATTN_TYPE_Q5_1, false, 2.77, 0.25},
    MeasuredCost{VKATTN_TYPE_Q5_0, VKATTN_TYPE_Q5_0, false, 5.36, 0.35},
    MeasuredCost{VKATTN_TYPE_Q4_1, VKATTN_TYPE_Q4_1, false, 9.89, 0.70},
    MeasuredCost{VKATTN_TYPE_Q4_0, VKATTN_TYPE_Q4_0, false, 20.74, 1.10},
    MeasuredCost{VKATTN_TYPE_IQ4_NL, VKATTN_TYPE_IQ4_NL, false, 12.90, 0.74},
    MeasuredCost{VKATTN_TYPE_Q8_0, VKATTN_TYPE_Q8_0, true, 0.05, 0.04},
    MeasuredCost{VKATTN_TYPE_F8_E4M3, VKATTN_TYPE_F8_E4M3, true, 0.70, 0.19},
    MeasuredCost{VKATTN_TYPE_Q5_1, VKATTN_TYPE_Q5_1, true, 1.09, 0.28},
    MeasuredCost{VKATTN_TYPE_Q4_0, VKATTN_TYPE_Q4_0, true, 5.99, 0.59},
    MeasuredCost{VKATTN_TYPE_IQ4_NL, VKATTN_TYPE_IQ4_NL, true, 4.11, 0.63},
};

} // namespace vkattn::tools
