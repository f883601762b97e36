// The constants, push constants and tensors of every attention kernel, and the loads of Q, K and V.
// A kernel that reads Q, K and V sixteen bytes at a time defines WITH_VECTORS before.

#include "../interface.h"

ATTENTION_CONSTANTS(VKATTN_CONSTANT)

layout(push_constant, std430) uniform PushBlock { AttentionPush push; };
layout(set = 0, binding = ATTENTION_BINDINGS, std140) uniform ParameterBlock { AttentionParameters parameters; };

#include "bases.glsl"

layout(set = 0, binding = BINDING_QUERY, std430) readonly buffer QueryBuffer { uint query_words[]; };
layout(set = 0, binding = BINDING_KEY, std430) readonly buffer KeyBuffer { uint key_words[]; };
layout(set = 0, binding = BINDING_VALUE, std430) readonly buffer ValueBuffer { uint value_words[]; };
#ifdef WITH_VECTORS
layout(set = 0, binding = BINDING_QUERY, std430) readonly buffer QueryVectors { uvec4 query_vectors[]; };
layout(set = 0, binding = BINDING_KEY, std430) readonly buffer KeyVectors { uvec4 key_vectors[]; };
layout(set = 0, binding = BINDING_VALUE, std430) readonly buffer ValueVectors { uvec4 value_vectors[]; };
#endif
layout(set = 0, binding = BINDING_OUTPUT, std430) buffer OutputBuffer { uint output_words[]; };
layout(set = 0, binding = BINDING_LOG_SUM_EXP, std430) writeonly buffer LogSumExpBuffer { uint log_sum_exp_words[]; };
layout(set = 0, binding = BINDING_ATTN_MASK, std430) readonly buffer AttnMaskBuffer { uint mask_words[]; };
layout(set = 0, binding = BINDING_KEY_PADDING_MASK, std430) readonly buffer KeyPaddingBuffer {
    uint key_padding_words[];
};
layout(set = 0, binding = BINDING_KEY_LENGTHS, std430) readonly buffer KeyLengthsBuffer { int key_lengths[]; };
layout(set = 0, binding = BINDING_PAST_LENGTHS, std430) readonly buffer PastLengthsBuffer { int past_lengths[]; };
layout(set = 0, binding = BINDING_ALIBI_SLOPES, std430) readonly buffer AlibiBuffer { float alibi_slopes[]; };
layout(set = 0, binding = BINDING_SINKS, std430) readonly buffer SinksBuffer { float sinks[]; };
layout(set = 0, binding = BINDING_SCORES, std430) buffer ScoresBuffer { float scores[]; };
layout(set = 0, binding = BINDING_ATTN_WEIGHTS, std430) writeonly buffer WeightsBuffer { float attn_weights[]; };
layout(set = 0, binding = BINDING_QK_MATMUL_OUTPUT, std430) writeonly buffer QkOutputBuffer {
    float qk_matmul_output[];
};
layout(set = 0, binding = BINDING_CU_SEQLENS_Q, std430) readonly buffer CuSeqlensQBuffer { int cu_seqlens_q[]; };
layout(set = 0, binding = BINDING_CU_SEQLENS_K, std430) readonly buffer CuSeqlensKBuffer { int cu_seqlens_k[]; };
layout(set = 0, binding = BINDING_BLOCK_TABLE, std430) readonly buffer BlockTableBuffer { int block_table[]; };
layout(set = 0, binding = BINDING_BLOCK_MASK, std430) readonly buffer BlockMaskBuffer { uint block_mask[]; };

bool has(const uint feature) { return (FEATURES & feature) != 0u; }

#define WORDS query_words
#define BINDING BINDING_QUERY
#define LOAD load_query
#define LOAD4 load_query4
#define LOAD_QUANTISED load_quantised_query
#define VECTORS query_vectors
#define LOAD8 load_query8
#define LOAD8_HALVES load_query8_halves
#define LOAD8_QUANTISED load_quantised_query8
#include "load.glsl"

#define WORDS key_words
#define BINDING BINDING_KEY
#define LOAD load_key
#define LOAD4 load_key4
#define LOAD_QUANTISED load_quantised_key
#define VECTORS key_vectors
#define LOAD8 load_key8
#define LOAD8_HALVES load_key8_halves
#define LOAD8_QUANTISED load_quantised_key8
#include "load.glsl"

#define WORDS value_words
#define BINDING BINDING_VALUE
#define LOAD load_value
#define LOAD4 load_value4
#define LOAD_QUANTISED load_quantised_value
#define VECTORS value_vectors
#define LOAD8 load_value8
#define LOAD8_HALVES load_value8_halves
#define LOAD8_QUANTISED load_quantised_value8
#include "load.glsl"

#include "round.glsl"

#define WORDS output_words
#define BINDING BINDING_OUTPUT
#define STORE store_output
#define STORE2 store_output2
#include "store.glsl"

const float LOG2_E = 1.44269504088896340736;
const float LN_2 = 0.69314718055994530942;
