#pragma once

#include "runtime/attention_planner.hpp"

namespace vkattn {

// flash: every row's keys in turn.
void plan_flash(const AttentionProblem &problem, const DeviceCaps &caps, AttentionChoice &choice);

// decode: the keys of each row split over workgroups and joined by a merge.
void plan_decode(const AttentionProblem &problem, const DeviceCaps &caps, AttentionChoice &choice);

// Whether rows are so few, and keys so many, that splitting the keys is worth its merge.
bool decode_pays(const AttentionProblem &problem, const DeviceCaps &caps);

} // namespace vkattn
