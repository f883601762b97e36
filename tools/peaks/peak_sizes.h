/* Read by GLSL and C++: what one invocation, workgroup or subgroup of the peak shaders does. */
#ifndef VKATTN_PEAK_SIZES_H
#define VKATTN_PEAK_SIZES_H

#define PEAK_INPUT 0 /* bindings */
#define PEAK_OUTPUT 1

#define PEAK_FMA_WORKGROUP_SIZE 64
#define PEAK_FMAS 128 /* of an invocation in one iteration of peak_fma */

#define PEAK_MATRIX_PRODUCTS 8 /* of a subgroup in one iteration of peak_matrix */

#define PEAK_STREAM_BLOCKS 64 /* of 16 bytes: what a workgroup reads in one iteration of peak_stream */
#define PEAK_ADDRESSES_WORKGROUP_SIZE 8
#define PEAK_AHEAD_WORKGROUP_SIZE 256 /* 8 loads each at a time, which divide 64 iterations' blocks */

#endif
