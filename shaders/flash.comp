// Attention with online softmax: nothing of size q_len x kv_len is written (Dao et al., "FlashAttention", 2022).
//
// query [B,Hq,Lq,D], key [B,Hkv,Lk,D], value [B,Hkv,Lk,Dv] -> output [B,Hq,Lq,Dv], log_sum_exp [B,Hq,Lq]
// grid: (row tiles of a KV head's GROUP * Lq rows, times PARTS, Hkv, B); one invocation owns one row, with Q and the running output
// in private arrays. No shared memory, barrier or subgroup operation: K and V addresses are uniform in the workgroup.
// Long contexts take several dispatches in turn, each over keys first_key .. last_key - 1; the rows' states wait in
// scores as lib/flash_row.glsl says, so that a dispatch's work is bounded. Few rows take PARTS
// workgroups each, whose states merge_parts joins.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;

#include "lib/attention_bindings.glsl"
#include "lib/work.glsl"
#include "lib/mask.glsl"
#include "lib/score.glsl"
#include "lib/softmax.glsl"
#include "lib/states.glsl"
#include "lib/flash_row.glsl"

void main() {
    uint rows = GROUP * parameters.q_len;
    uint first_row = gl_WorkGroupID.x / PARTS * WORKGROUP_SIZE;
    uint part = gl_WorkGroupID.x % PARTS;
    uint last_row = min(first_row + WORKGROUP_SIZE, rows) - 1;
    uint row_number = first_row + gl_LocalInvocationID.x;
    // invocations beyond the last row repeat it and write nothing: loads stay uniform and inside the tensors
    Row row = row_of_group(gl_WorkGroupID.z, gl_WorkGroupID.y, min(row_number, last_row));
    KeyRange range = seen_by_any(row.batch, first_row / GROUP, last_row / GROUP);
    KeyRange full = seen_by_all(row.batch, first_row / GROUP, last_row / GROUP);
    range = KeyRange(max(range.begin, push.first_key), min(range.end, push.last_key));
    attend_row(row, part, part_of_range(range, part, PARTS), full, row_number <= last_row);
}
