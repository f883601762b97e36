#pragma once

#include "runtime/kernels/kernel.hpp"

namespace vkattn {

// How shaders/kernels/decode.comp divides a problem.
struct DecodeTile {
    const Shader *shader;
    uint32_t workgroup;     // invocations
    uint32_t subgroup_size; // to ask for, where sums go through subgroups
    uint32_t columns;       // invocations that read a row of K together: a group
    uint32_t rows;          // query rows of a workgroup
    uint32_t keys;          // of a group at a time
    bool query_staged;      // in shared memory, and not in registers
};

constexpr uint32_t kRowsOfDecodeShader = 8; // of a KV head, that share each read of K and V through a core's cache

// Whether a dispatch of the shader's is meant.
bool is_decode(const AttentionShape::Dispatch &dispatch);

// Keys that a workgroup of the dispatch takes at a time.
uint32_t keys_of_step(const AttentionShape::Dispatch &dispatch);

// Rows of a KV head's latents up to which the shader is faster than flash, which stages them.
uint32_t most_latent_rows(const DeviceCaps &caps);

DecodeTile decode_tile(const AttentionProblem &problem, const DeviceCaps &caps);

// Its dispatch, in one part.
AttentionShape::Dispatch decode_dispatch(const AttentionProblem &problem, const DecodeTile &tile);

} // namespace vkattn
