#pragma once

#include "runtime/emit/rms_norm.hpp"

#include <span>

namespace vkattn {

// Frequencies of a rotary embedding: an F32 view of 4 words a pair (RopeFrequency of runtime/ops/rope.hpp).
struct Rotation {
    View frequencies; // absent: none
    bool interleaved = false;
};

// Rows of source [B,H,L,D] on their way into target, new rows of a cache among them: see vkattn_kv_append_desc, whose contract this keeps
// but for the types: any of F32, F16, BF16 and quantised types for both.
struct MovedRows {
    View source;
    View target;
    uint32_t offset = 0;
    View past_lengths{}, cu_seqlens{}, block_table{};
    // For bodies that want K and V dense: cu_seqlens and block_table are those of source, of which every row from token
    // `first` on is copied, rows behind a sequence's end as what happens to lie there.
    bool gathers = false;
    // I32 [B], of a gathered source: rows from lengths[b] + beyond on may be left out, nobody reads them
    View lengths{};
    uint32_t beyond = 0;
    uint32_t first = 0;
    uint32_t batch = 0;        // sequences of a gathered source
    uint32_t positions = 0;    // of a sequence, at most; 0: as many as source has
    RmsNorm norm{};            // of their first elements, first
    Rotation rotation{};       // after that, by each row's position in the target, or
    View token_positions{};    // I32 [S,B,L], those that are given; contiguous
    uint32_t rotated_from = 0; // of the elements that have frequencies, the first
    uint32_t hadamard = 0;     // elements of the blocks that are mixed after that, see vkattn_rotation; 0, 1: none
    float mixed_factor = 1;    // of mixed rows
    // F32 [B|1,H|1,L|1,1] each, as key_scales of vkattn_attention_desc
    View source_scales{}, target_scales{};
    bool makes_scales = false; // those of target, of the rows
    // Each row stays the row that it is, as queries do. Then target, of F32, F16 or BF16, may be source where rows are normalised or
    // mixed alone.
    bool keeps_places = false;
};
void add_rows(PlanBuilder &builder, const MovedRows &rows);

// Rows of the same new tokens, in as few dispatches as there can be, without barriers between: of parts in the order queries, which
// keep their places, keys, values those of one type and layout that lie behind each other are one.
void add_rows(PlanBuilder &builder, std::span<const MovedRows> parts);

} // namespace vkattn
