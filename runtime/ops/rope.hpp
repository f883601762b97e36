#pragma once

#include "runtime/emit/rows.hpp"

#include <span>
#include <vector>

namespace vkattn {

// What the shader needs of one pair: turns per position as 64-bit fixed point, and a factor for the rotated vector.
struct RopeFrequency {
    uint32_t turns_low;
    uint32_t turns_high;
    float factor;
    uint32_t stream; // of the positions that it turns by
};

// Frequencies of a rotary embedding of `dims` (even) elements: pair i turns by theta^(-2i / dims) radians a position,
// changed as `scaling`, which is checked, says, and by the stream that the sections of the config, which are checked, give it.
std::vector<RopeFrequency> rope_frequencies(uint32_t dims, const vkattn_layer_config &config);

// Makes a table turn by as much the other way.
void turn_back(std::vector<RopeFrequency> &frequencies);

// A table in a buffer that lives as long as the plan; in one that only measures, without it.
View frequencies_view(PlanBuilder &builder, std::span<const RopeFrequency> frequencies);

// Fails, naming the member, if a scaling's numbers are impossible for vectors of so many pairs.
void check_rope_scaling(const vkattn_rope_scaling &scaling, uint32_t pairs);

// The same of the sections of an embedding that turns so many pairs.
void check_rope_sections(const vkattn_layer_config &config, uint32_t pairs);

// Streams of positions that the sections take: at least one.
uint32_t position_streams(const vkattn_layer_config &config);

// Where new tokens stand in their sequences.
struct Positions {
    uint32_t offset = 0; // of a sequence's first one
    View past_lengths;   // I32 [sequences], read when the plan runs: takes its place
    View cu_seqlens;     // I32 [sequences + 1]: the tokens are packed, [1,H,total,D]; absent: [B,H,L,D]
    View of_tokens;      // I32 [S,B,L], by which they turn; absent: by where they stand
    uint32_t sequences = 0;
    uint32_t longest = 0; // of them, at most
};

// Returns rows of input [B,H,L,D] on their way to their tokens' positions in output, normalised, if norm has a weight, and rotated by
// them: those of the elements from rotated_from on that have frequencies.
MovedRows rows_at(const View &input, const View &output, const Rotation &rotation, const Positions &positions,
                  uint32_t rotated_from = 0, const RmsNorm &norm = {});

// The same of rows that stay the rows that they are. F32, F16 or BF16, both of one type; element stride 1. Output is other memory where
// they are rotated.
MovedRows rotated_rows(const View &input, const View &output, const Rotation &rotation, const Positions &positions,
                       uint32_t rotated_from = 0, const RmsNorm &norm = {});

} // namespace vkattn
