/* What an optimizer's step is multiplied by, and whether it is taken, what the kernel and the host agree on. */
#ifndef VKATTN_INTERFACE_OPTIMIZER_STEP_H
#define VKATTN_INTERFACE_OPTIMIZER_STEP_H

#include "common.h"

#define OPTIMIZER_STEP_TENSORS(X)                                                                                      \
    X(OPTIMIZER_STEP, 0, squared_norm, SQUARED_NORM, SQUARED_NORM, Read, ContiguousF32, S)                             \
    X(OPTIMIZER_STEP, 1, loss_scale, LOSS_SCALE, LOSS_SCALE, Written, ContiguousF32, S)                                \
    X(OPTIMIZER_STEP, 2, good_steps, GOOD_STEPS, GOOD_STEPS, Written, ContiguousI32, S)                                \
    X(OPTIMIZER_STEP, 3, factor, FACTOR, FACTOR, Written, ContiguousF32, S)                                            \
    X(OPTIMIZER_STEP, 4, step, STEP, STEP, Written, ContiguousI32, S)
VKATTN_BINDINGS(OPTIMIZER_STEP_TENSORS)

#ifdef __cplusplus
namespace vkattn::gpu {
#endif

#define OPTIMIZER_STEP_CONSTANTS(X)                                                                                    \
    X(0, HAS_LOSS_SCALE, 0)                                                                                            \
    X(1, HAS_GOOD_STEPS, 0)

struct OptimizerStepPush {
    uint first_group[3];
    uint bases[2];
    float max_norm; /* 0: none */
    float growth_factor;
    float backoff_factor;
    uint growth_interval;
};

#ifdef __cplusplus
VKATTN_INTERFACE(optimizer_step, OptimizerStep, OPTIMIZER_STEP_CONSTANTS)
} // namespace vkattn::gpu
#endif

#endif
