#pragma once

#include "runtime/plan.hpp"

namespace vkattn {

// A caller's description, checked; layouts normalised.
struct Merge {
    uint32_t parts;
    vkattn_tensor partial_output, partial_log_sum_exp, output, log_sum_exp;
    uint64_t partial_output_stride, partial_log_sum_exp_stride;
    bool accumulates;
};

// Fails with VKATTN_ERROR_INVALID_ARGUMENT, naming the member, what it is and what was expected.
Merge check_merge(const vkattn_merge_desc &desc);

// Joins the parts where the caller binds them: see vkattn_merge_desc.
void add_merge(Plan &plan, const Merge &merge);

} // namespace vkattn
