#pragma once

#include "runtime/kernels/choose.hpp"

namespace vkattn {

// Why a problem does not suit the matrix kernels (coopmat or coopmat2) on a device that can run them; "" if it does.
std::string coopmat_obstacle(const AttentionProblem &problem, const DeviceCaps &caps, vkattn_kernel kernel);

// Whether the rows fill matrices well enough.
bool coopmat_pays(const AttentionProblem &problem, const DeviceCaps &caps);

// coopmat and coopmat2: every row's keys in turn, or in parts joined by a merge.
void plan_coopmat(const AttentionProblem &problem, const DeviceCaps &caps, AttentionChoice &choice);

} // namespace vkattn
