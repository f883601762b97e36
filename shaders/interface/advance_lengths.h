/* Counting of appended tokens, what the kernels and the host agree on. */
#ifndef VKATTN_INTERFACE_ADVANCE_LENGTHS_H
#define VKATTN_INTERFACE_ADVANCE_LENGTHS_H

#include "common.h"

#ifdef __cplusplus
namespace vkattn::gpu {
#endif

#define BINDING_ADVANCE_LENGTHS 0
#define ADVANCE_BINDINGS 1

struct AdvancePush {
    uint bases[4];
    uint sequences;
    uint tokens;
    uint capacity;
};

#ifdef __cplusplus
struct AdvanceConstants {
    uint UNUSED = 0; /* a pipeline takes a struct of constants */
};
static_assert(sizeof(AdvancePush) <= 128);
} // namespace vkattn::gpu
#endif

#endif
