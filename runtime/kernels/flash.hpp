#pragma once

#include "runtime/kernels/choose.hpp"

namespace vkattn {

// flash: every row's keys in turn.
void plan_flash(const AttentionProblem &problem, const DeviceCaps &caps, AttentionChoice &choice);

// decode and latent_decode: the keys of each row split over workgroups and joined by a merge.
void plan_decode(const AttentionProblem &problem, const DeviceCaps &caps, AttentionChoice &choice);

// Whether rows are so few, and keys so many, that splitting the keys is worth its merge.
bool decode_pays(const AttentionProblem &problem, const DeviceCaps &caps);

// Keys that a workgroup may attend in one dispatch, whole tiles of so many: some drivers end a shader's loops.
uint32_t keys_of_dispatch(const AttentionProblem &problem, const DeviceCaps &caps, uint32_t keys_of_tile);

// Parts of each row's keys that fill the device with so many workgroups a part, none above most_keys.
uint32_t parts_to_fill(const AttentionProblem &problem, const DeviceCaps &caps, uint64_t workgroups,
                       uint64_t most_keys);

// What follows once dispatches[0] and the parts are settled: their states and merge, and what one dispatch may hold.
void finish_parts(const AttentionProblem &problem, const DeviceCaps &caps, AttentionChoice &choice);

} // namespace vkattn
