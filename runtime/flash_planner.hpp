#pragma once

#include "runtime/attention_planner.hpp"

namespace vkattn {

// flash: every row's keys in turn.
void plan_flash(const AttentionProblem &problem, const DeviceCaps &caps, AttentionChoice &choice);

// decode and latent_decode: the keys of each row split over workgroups and joined by a merge.
void plan_decode(const AttentionProblem &problem, const DeviceCaps &caps, AttentionChoice &choice);

// Whether rows are so few, and keys so many, that splitting the keys is worth its merge.
bool decode_pays(const AttentionProblem &problem, const DeviceCaps &caps);

// Trips of a loop around `body` others each time, with the last look at its condition: what some drivers bound.
constexpr uint64_t loop_trips(uint64_t count, uint64_t body = 0) { return 1 + count * (1 + body); }

// Trips of the loops of blocks_of (shaders/lib/mask.glsl) over so many of a KV head's rows and so many keys, at most; 0
// without a block mask.
uint64_t block_trips(const AttentionProblem &problem, uint64_t rows, uint64_t keys);

// The same of keys_exist (lib/sequence.glsl) over so many keys, and of dropping so many weights (lib/dropout.glsl).
uint64_t page_trips(const AttentionProblem &problem, uint64_t keys);
uint64_t dropout_trips(const AttentionProblem &problem, uint64_t weights);

// Parts of each row's keys that fill the device with so many workgroups a part, none above most_keys.
uint32_t parts_to_fill(const AttentionProblem &problem, const DeviceCaps &caps, uint64_t workgroups,
                       uint64_t most_keys);

// What follows once dispatches[0] and the parts are settled: their states and merge, and what one dispatch may hold.
void finish_parts(const AttentionProblem &problem, const DeviceCaps &caps, AttentionChoice &choice);

} // namespace vkattn
