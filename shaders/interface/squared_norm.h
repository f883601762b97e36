/* The sum of a gradient's squares, what the kernel and the host agree on. */
#ifndef VKATTN_INTERFACE_SQUARED_NORM_H
#define VKATTN_INTERFACE_SQUARED_NORM_H

#include "common.h"

/* parts: the sum of each part of the gradient */
#define SQUARED_NORM_TENSORS(X)                                                                                        \
    X(SQUARED_NORM, 0, gradient, GRADIENT, GRADIENT, Read, Own, E)                                                     \
    X(SQUARED_NORM, 1, squared_norm, SQUARED_NORM, SQUARED_NORM, Written, ContiguousF32, S)                            \
    X(SQUARED_NORM, 2, parts, PARTS, WORKSPACE, Written, Own, P)
VKATTN_BINDINGS(SQUARED_NORM_TENSORS)

#ifdef __cplusplus
namespace vkattn::gpu {
#endif

#define SQUARED_NORM_WORKGROUP_SIZE 128  /* a power of two */
#define SQUARED_NORM_PART_ELEMENTS 16384 /* that one workgroup looks at */

/* IN_FOURS: the elements begin at a whole word */
#define SQUARED_NORM_CONSTANTS(X)                                                                                      \
    X(0, GRADIENT_FORMAT, 1)                                                                                           \
    X(1, IN_FOURS, 0)                                                                                                  \
    X(2, WRITES_PARTS, 0)                                                                                              \
    X(3, READS_PARTS, 0)                                                                                               \
    X(4, ACCUMULATES, 0)

struct SquaredNormPush {
    uint first_group[3];
    uint bases[1];
    uint elements;
    uint parts;
    float scale;
};

#ifdef __cplusplus
VKATTN_INTERFACE(squared_norm, SquaredNorm, SQUARED_NORM_CONSTANTS)
} // namespace vkattn::gpu
#endif

#endif
