/* Peak measurements, what the kernels and the host agree on. */
#ifndef VKATTN_INTERFACE_PEAK_H
#define VKATTN_INTERFACE_PEAK_H

#include "common.h"

#ifdef __cplusplus
namespace vkattn::gpu {
#endif

#define BINDING_PEAK_INPUT 0
#define BINDING_PEAK_OUTPUT 1
#define PEAK_BINDINGS 2

#define PEAK_WORKGROUP_SIZE 64 /* of peak_fma */
#define PEAK_ADDRESSES_WORKGROUP_SIZE 8
#define PEAK_BLOCKS_OF_TRIP 64 /* of 16 bytes, of peak_stream */
#define FMAS_OF_PEAK_TRIP 128
#define MATRICES_OF_PEAK_TRIP 8
/* of peak_matrix */
#define PEAK_CONSTANTS(X)                                                                                              \
    X(0, WORKGROUP_SIZE, 64)                                                                                           \
    X(1, MATRIX_M, 16)                                                                                                 \
    X(2, MATRIX_N, 16)                                                                                                 \
    X(3, MATRIX_K, 16)

struct PeakPush {
    uint bases[4];
    uint trips;
    uint input_address[2]; /* low word first */
};

#ifdef __cplusplus
VKATTN_CONSTANT_STRUCT(PeakConstants, PEAK_CONSTANTS)
static_assert(sizeof(PeakPush) <= 128);
} // namespace vkattn::gpu
#endif

#endif
