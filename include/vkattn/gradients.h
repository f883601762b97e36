/* Gradients: the backward pass of attention and of what stands around it, planned and recorded as attention is. */
#ifndef VKATTN_GRADIENTS_H
#define VKATTN_GRADIENTS_H

#include <vkattn/attention.h>
#include <vkattn/operators.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The gradients of sum(output * d_output) of an attention problem, in f32 sums (Dao et al., "FlashAttention", 2022, appendix B). Weights are
 * computed again from log_sum_exp: no memory is of size Lq x Lk. Sums have one order: the same call gives the same bits. With dropout_p,
 * the weights that the same description drops.
 *
 * attention    the problem, as vkattn_attention_plan takes it, with output and log_sum_exp, which are read; where both are absent, they are
 *              computed again, in the workspace, by the kernel that it names. Its tensors are bound by its roles. Read before the call
 *              returns. Without block_table, rotations, key_scales, value_scales, attn_weights and qk_matmul_output, and with value;
 *              key and value of type F32, F16 or BF16; its variant without lse_mod and output_mod, and with score_mod_grad (variants.h) where
 *              it has score_mod: others fail with VKATTN_ERROR_UNSUPPORTED
 * d_output     [B,Hq,Lq,Dv], as output: F32, F16 or BF16, any strides; bound as VKATTN_ROLE_D_OUTPUT
 * d_query      [B,Hq,Lq,D], as query; bound as VKATTN_ROLE_D_QUERY
 * d_key        [B,Hkv,Lk,D], as key: of a KV head the sum over the query heads that read it; bound as VKATTN_ROLE_D_KEY
 * d_value      [B,Hkv,Lk,Dv], as value, the same; bound as VKATTN_ROLE_D_VALUE
 * d_attn_mask  of the shape of attn_mask, which is F32 or F16: summed over what the mask was broadcast to; bound as
 *              VKATTN_ROLE_D_ATTN_MASK
 * d_sinks      [Hq] F32, contiguous; bound as VKATTN_ROLE_D_SINKS
 * d_captured_0 to d_captured_3  F32, contiguous, of the shape of captured_0 and so on, which are F32, F16 or BF16; of a variant with
 *              score_mod_grad_captured. Bound as VKATTN_ROLE_D_CAPTURED_0 and so on. What tiles of queries and keys give an element is summed
 *              in integers, 44 bytes of workspace an element, and rounded once
 * Gradients are F32, F16 or BF16 each, of any strides by which no elements overlap, and share no memory with what is read; those that are
 * absent are not computed, and one is there at least. A query or key that nothing sees has gradient 0. Rows of packed tensors that belong
 * to no sequence, or lie beyond max_seqlen_q or max_seqlen_k of theirs, keep their bytes. */
typedef struct vkattn_attention_backward_desc {
    VKATTN_STRUCT_SIZE(vkattn_attention_backward_desc);
    const vkattn_attention_desc *attention;
    vkattn_tensor d_output;
    vkattn_tensor d_query;
    vkattn_tensor d_key;
    vkattn_tensor d_value;
    vkattn_tensor d_attn_mask;
    vkattn_tensor d_sinks;
    vkattn_tensor d_captured_0;
    vkattn_tensor d_captured_1;
    vkattn_tensor d_captured_2;
    vkattn_tensor d_captured_3;
} vkattn_attention_backward_desc;

/* Plans one backward pass. Fails with VKATTN_ERROR_INVALID_ARGUMENT, naming the member, or VKATTN_ERROR_UNSUPPORTED. */
VKATTN_API vkattn_result vkattn_attention_backward_plan(vkattn_context context,
                                                        const vkattn_attention_backward_desc *desc, vkattn_plan *plan);

/* Fills in what a plan of it would take, as vkattn_attention_measure does. */
VKATTN_API vkattn_result vkattn_attention_backward_measure(vkattn_context context,
                                                           const vkattn_attention_backward_desc *desc,
                                                           vkattn_measure *measure);

/* Measures which kernels and which tiles are the fastest for d_query, and for d_key and d_value together, of those that are asked for, as
 * vkattn_tune does for attention: for problems of its kind whose gradients have the same types, those of layers among them.
 * candidates: NULL, or where a list is given of those of d_query and then of those of d_key and d_value, of each of which the first is what
 * a plan takes untuned; empty where neither is asked for, or without queries or keys. */
VKATTN_API vkattn_result vkattn_tune_attention_backward(vkattn_context context,
                                                        const vkattn_attention_backward_desc *desc,
                                                        vkattn_list *candidates);

/* The gradients of sum(output * d_output), output = input weight^T + bias, in f32 sums of one order: the same call gives the same bits.
 *
 *   d_input = d_output weight + residual      d_weight = d_output^T input      d_bias = the sum of d_output's tokens
 *
 * input     [B,L,in], last stride 1; for d_weight alone; bound as VKATTN_ROLE_INPUT
 * weight    [out,in], any strides; for d_input alone. F32, F16, BF16 or a quantised type that weights of vkattn_linear_desc may have; bound
 *           as VKATTN_ROLE_WEIGHT
 * d_output  [B,L,out], last stride 1; bound as VKATTN_ROLE_D_OUTPUT
 * residual  [B,L,in], last stride 1, optional, with d_input: the gradient of another branch, added to it; bound as VKATTN_ROLE_RESIDUAL
 * d_input   [B,L,in], last stride 1; bound as VKATTN_ROLE_D_INPUT. It may be the residual, bound to the same place with the same layout
 *           and type
 * d_weight  [out,in], last stride 1; bound as VKATTN_ROLE_D_WEIGHT
 * d_bias    [out] contiguous; bound as VKATTN_ROLE_D_BIAS
 * accumulate  1: d_weight and d_bias, which are F32 then, are added to what they hold; else 0
 * F32, F16 or BF16 each, and matrix units take part as in the forward pass: where what is multiplied is of one such type of 16 bits, or
 * F16 and quantised. Gradients whose tensors are absent are not computed, one is there at least, and they share no memory with what is
 * read, but as said. Without tokens d_weight and d_bias become 0, or keep their bytes where they accumulate. */
typedef struct vkattn_linear_backward_desc {
    VKATTN_STRUCT_SIZE(vkattn_linear_backward_desc);
    vkattn_tensor input;
    vkattn_tensor weight;
    vkattn_tensor d_output;
    vkattn_tensor residual;
    vkattn_tensor d_input;
    vkattn_tensor d_weight;
    vkattn_tensor d_bias;
    uint32_t accumulate;
} vkattn_linear_backward_desc;

/* Plans one backward pass. Fails with VKATTN_ERROR_INVALID_ARGUMENT, naming the member, or VKATTN_ERROR_UNSUPPORTED. */
VKATTN_API vkattn_result vkattn_linear_backward_plan(vkattn_context context, const vkattn_linear_backward_desc *desc,
                                                     vkattn_plan *plan);

/* The same of a norm, output = (input - mean) / sqrt(variance + epsilon) * weight + bias, as vkattn_norm_desc has it.
 *
 * input     [B,L,N], last stride 1; bound as VKATTN_ROLE_INPUT
 * weight    [N] contiguous; bound as VKATTN_ROLE_WEIGHT
 * d_output  [B,L,N], last stride 1; bound as VKATTN_ROLE_D_OUTPUT
 * residual  [B,L,N], last stride 1, optional, with d_input: added to it; bound as VKATTN_ROLE_RESIDUAL
 * d_input   [B,L,N], last stride 1; bound as VKATTN_ROLE_D_INPUT. It may be the residual, bound to the same place with the same layout
 *           and type
 * d_weight, d_bias   [N] contiguous; bound as VKATTN_ROLE_D_WEIGHT and VKATTN_ROLE_D_BIAS
 * kind, epsilon   as in the forward pass
 * accumulate      as of vkattn_linear_backward_desc
 * F32, F16 or BF16 each; gradients that are absent, and no tokens, as there. */
typedef struct vkattn_norm_backward_desc {
    VKATTN_STRUCT_SIZE(vkattn_norm_backward_desc);
    vkattn_tensor input;
    vkattn_tensor weight;
    vkattn_tensor d_output;
    vkattn_tensor residual;
    vkattn_tensor d_input;
    vkattn_tensor d_weight;
    vkattn_tensor d_bias;
    vkattn_norm_kind kind;
    vkattn_optional_float epsilon;
    uint32_t accumulate;
} vkattn_norm_backward_desc;

/* Plans one backward pass. Fails with VKATTN_ERROR_INVALID_ARGUMENT, naming the member, or VKATTN_ERROR_UNSUPPORTED. */
VKATTN_API vkattn_result vkattn_norm_backward_plan(vkattn_context context, const vkattn_norm_backward_desc *desc,
                                                   vkattn_plan *plan);

/* output = activation(gate) * input, what feed-forward layers gate (Shazeer, "GLU Variants Improve Transformer", 2020): as
 * vkattn_linear_desc's gated product, of products that are kept for the backward pass. Without input: activation(gate).
 *
 * gate    [B,L,N], last stride 1; bound as VKATTN_ROLE_MULTIPLIER
 * input   [B,L,N], last stride 1, optional; bound as VKATTN_ROLE_INPUT
 * output  [B,L,N], last stride 1; bound as VKATTN_ROLE_OUTPUT. It may be gate or input, bound to the same place with the same layout
 *         and type
 * B * L at most 2^29; F32, F16 or BF16 each. */
typedef struct vkattn_gated_activation_desc {
    VKATTN_STRUCT_SIZE(vkattn_gated_activation_desc);
    vkattn_tensor gate;
    vkattn_tensor input;
    vkattn_tensor output;
    vkattn_activation activation;
} vkattn_gated_activation_desc;

/* Plans one product. Fails with VKATTN_ERROR_INVALID_ARGUMENT, naming the member, or VKATTN_ERROR_UNSUPPORTED. */
VKATTN_API vkattn_result vkattn_gated_activation_plan(vkattn_context context, const vkattn_gated_activation_desc *desc,
                                                      vkattn_plan *plan);

/* Its gradients: d_gate = activation'(gate) * input * d_output, d_input = activation(gate) * d_output. Where relu and leaky relu have a
 * corner, at 0, the slope is that of negative numbers, as in PyTorch.
 *
 * gate, input  as vkattn_gated_activation_desc has them
 * d_output     [B,L,N], last stride 1; bound as VKATTN_ROLE_D_OUTPUT
 * d_gate       [B,L,N], last stride 1; bound as VKATTN_ROLE_D_GATE
 * d_input      [B,L,N], last stride 1, beside input alone; bound as VKATTN_ROLE_D_INPUT
 * One of d_gate and d_input is there at least. Each may be one of gate, input and d_output, which the other is not, bound to the same
 * place with the same layout and type. F32, F16 or BF16 each. */
typedef struct vkattn_gated_activation_backward_desc {
    VKATTN_STRUCT_SIZE(vkattn_gated_activation_backward_desc);
    vkattn_tensor gate;
    vkattn_tensor input;
    vkattn_tensor d_output;
    vkattn_tensor d_gate;
    vkattn_tensor d_input;
    vkattn_activation activation;
} vkattn_gated_activation_backward_desc;

/* Plans both. Fails with VKATTN_ERROR_INVALID_ARGUMENT, naming the member, or VKATTN_ERROR_UNSUPPORTED. */
VKATTN_API vkattn_result vkattn_gated_activation_backward_plan(vkattn_context context,
                                                               const vkattn_gated_activation_backward_desc *desc,
                                                               vkattn_plan *plan);

/* The gradient of embedding's weight: d_weight[r,:] is the sum of d_output[b,l,:] over the positions whose token is r, in f32 and in the
 * order of the positions: the same call gives the same bits. Tokens that d_weight has no row for are left out.
 * Comparing the tokens takes B * L squared steps of integers beside the sums.
 *
 * tokens      [B,L] I32, any strides; read when the commands run; bound as VKATTN_ROLE_TOKENS
 * d_output    [B,L,N], last stride 1; bound as VKATTN_ROLE_D_OUTPUT
 * d_weight    [rows,N], last stride 1; bound as VKATTN_ROLE_D_WEIGHT
 * accumulate  0: rows that no token names are zeros; 1: sums are added to what d_weight holds, which is F32 then
 * F32, F16 or BF16 each. B * L is at most 2^29, and on devices whose loops end less than
 * vkattn_device_facts.max_loop_iterations. */
typedef struct vkattn_embedding_backward_desc {
    VKATTN_STRUCT_SIZE(vkattn_embedding_backward_desc);
    vkattn_tensor tokens;
    vkattn_tensor d_output;
    vkattn_tensor d_weight;
    uint32_t accumulate;
} vkattn_embedding_backward_desc;

/* Plans one sum. Fails with VKATTN_ERROR_INVALID_ARGUMENT, naming the member, or VKATTN_ERROR_UNSUPPORTED. */
VKATTN_API vkattn_result vkattn_embedding_backward_plan(vkattn_context context,
                                                        const vkattn_embedding_backward_desc *desc, vkattn_plan *plan);

#ifdef __cplusplus
}
#endif

#endif
