#pragma once

#include "runtime/kernels/kv_append.hpp"

#include <vector>

namespace vkattn {

// What the shader needs of one pair: turns per position as 64-bit fixed point, and a factor for the rotated vector.
struct RopeFrequency {
    uint32_t turns_low;
    uint32_t turns_high;
    float factor;
};

// Frequencies of a rotary embedding of `dims` (even) elements: pair i turns by theta^(-2i / dims) radians a position,
// changed as `scaling` says.
std::vector<RopeFrequency> rope_frequencies(uint32_t dims, double theta, const vkattn_rope_scaling &scaling);

// Fails, naming the member, if a scaling's numbers are impossible.
void check_rope_scaling(const vkattn_rope_scaling &scaling);

// Rotates token l of input [B,H,L,D] by position offset + l (past_lengths[b] + l, if that view is present) into output,
// which may be the same view. F32, element stride 1.
void add_rope(PlanBuilder &builder, const View &input, const View &output, const Rotation &rotation, uint32_t offset,
              const View &past_lengths);

} // namespace vkattn
