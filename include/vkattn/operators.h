/* What stands around attention in a model: linear, norm, embedding, rotary embedding and argmax, planned and recorded as attention is. B and L may
 * be 0, and out as well: nothing is then written, and a plan has no dispatches. in, N and rows are at least 1. */
#ifndef VKATTN_OPERATORS_H
#define VKATTN_OPERATORS_H

#include <vkattn/plans.h>

/* Each operator, X(NAME), as bindings may walk them: vkattn_NAME_plan(context, desc, plan) makes a plan of a vkattn_NAME_desc. */
#define VKATTN_OPERATORS(X)                                                                                            \
    X(attention)                                                                                                       \
    X(kv_append)                                                                                                       \
    X(index)                                                                                                           \
    X(mask_indices)                                                                                                    \
    X(merge)                                                                                                           \
    X(linear)                                                                                                          \
    X(norm)                                                                                                            \
    X(embedding)                                                                                                       \
    X(top_k)                                                                                                           \
    X(argmax)                                                                                                          \
    X(linear_attention)                                                                                                \
    X(causal_conv1d)                                                                                                   \
    X(gated_rms_norm)                                                                                                  \
    X(attention_backward)                                                                                              \
    X(linear_backward)                                                                                                 \
    X(norm_backward)                                                                                                   \
    X(rotary_embedding)                                                                                                \
    X(gated_activation)                                                                                                \
    X(gated_activation_backward)                                                                                       \
    X(embedding_backward)                                                                                              \
    X(cross_entropy)                                                                                                   \
    X(squared_norm)                                                                                                    \
    X(optimizer_step)                                                                                                  \
    X(adamw)

#ifdef __cplusplus
extern "C" {
#endif

/* What a linear layer applies to its sums. */
typedef enum vkattn_activation {
    VKATTN_ACTIVATION_NONE = 0,
    VKATTN_ACTIVATION_RELU = 1,
    VKATTN_ACTIVATION_GELU = 2, /* the exact (erf) form */
    VKATTN_ACTIVATION_SILU = 3,
    VKATTN_ACTIVATION_LEAKY_RELU = 4, /* slope 0.01 */
    VKATTN_ACTIVATION_GELU_TANH =
        5,                          /* GELU by tanh, as Gemma has it: x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2 */
    VKATTN_ACTIVATION_SIGMOID = 6,  /* 1 / (1 + exp(-x)) */
    VKATTN_ACTIVATION_SOFTPLUS = 7, /* log(1 + exp(x)) */
    VKATTN_ACTIVATION_MAX_ENUM = 0x7fffffff
} vkattn_activation;

/* output = activation(input weight^T + bias) * multiplier + residual, with f32 sums. A gated product (SwiGLU, GeGLU: Shazeer,
 * "GLU Variants Improve Transformer", 2020) is one with the weights of the gate and of what it gates:
 * output = activation(input weight[0]^T + bias[0]) * (input weight[1]^T + bias[1]) + residual.
 *
 * input       [B,L,in], last stride 1, B * L at most 2^29; bound as VKATTN_ROLE_INPUT
 * weight      [out,in] as in PyTorch, gated [2,out,in], any strides; bound as VKATTN_ROLE_WEIGHT
 * bias        [out] contiguous, gated [2,out], last stride 1, optional; bound as VKATTN_ROLE_BIAS
 * multiplier  [B,L,out], last stride 1, optional, of gated products absent; bound as VKATTN_ROLE_MULTIPLIER
 * residual    [B,L,out], last stride 1, optional; bound as VKATTN_ROLE_RESIDUAL
 * output      [B,L,out], last stride 1; bound as VKATTN_ROLE_OUTPUT. It may be the multiplier or the residual, bound to
 *             the same place with the same layout and type, but not the input
 * norm_weight [in] contiguous, optional: RMSNorm of the input before it is multiplied: of each token
 *             x / sqrt(mean(x^2) + norm_epsilon) * norm_weight (Zhang and Sennrich, 2019). Few rows are normalised by the product
 *             itself where that is faster than a dispatch and a barrier; many are in the workspace, in the input's type. Not for
 *             vkattn_tune_linear; bound as VKATTN_ROLE_NORM_WEIGHT
 * norm_epsilon  finite and at least 0; left out: 1e-6
 * F32, F16 or BF16 each; weight also a quantised type of which vkattn_type_info says that weights may have it, as GGUF
 * files hold it: in is then a multiple of its block, and so are the strides and the offset. */
typedef struct vkattn_linear_desc {
    VKATTN_STRUCT_SIZE(vkattn_linear_desc);
    vkattn_tensor input;
    vkattn_tensor weight;
    vkattn_tensor bias;
    vkattn_tensor multiplier;
    vkattn_tensor residual;
    vkattn_tensor output;
    vkattn_activation activation;
    vkattn_tensor norm_weight;
    vkattn_optional_float norm_epsilon;
} vkattn_linear_desc;

/* Plans one product. Fails with VKATTN_ERROR_INVALID_ARGUMENT, naming the member, or VKATTN_ERROR_UNSUPPORTED. */
VKATTN_API vkattn_result vkattn_linear_plan(vkattn_context context, const vkattn_linear_desc *desc, vkattn_plan *plan);

/* Measures which shader and which tiles are the fastest for a product on this device, as vkattn_tune does for attention.
 * Products of such layers (the same features, types and alignment; rows up to the same power of two) take the fastest
 * from then on, those of vkattn_layer_plan too, in this context and, through vkattn_context_save, in later ones.
 * candidates: as vkattn_tune's. */
VKATTN_API vkattn_result vkattn_tune_linear(vkattn_context context, const vkattn_linear_desc *desc,
                                            vkattn_list *candidates);

/* As vkattn_prewarm, of products. */
VKATTN_API vkattn_result vkattn_prewarm_linear(vkattn_context context, const vkattn_linear_desc *descs, uint32_t count,
                                               uint32_t threads);

/* The same as vkattn_attention_measure. */
VKATTN_API vkattn_result vkattn_linear_measure(vkattn_context context, const vkattn_linear_desc *desc,
                                               vkattn_measure *measure);

/* What a norm divides by. */
typedef enum vkattn_norm_kind {
    VKATTN_NORM_RMS = 0,   /* Zhang and Sennrich, 2019 */
    VKATTN_NORM_LAYER = 1, /* Ba, Kiros and Hinton, 2016 */
    VKATTN_NORM_KIND_MAX_ENUM = 0x7fffffff
} vkattn_norm_kind;

/* output = (input - mean) / sqrt(variance + epsilon) * weight + bias + residual of each token, in f32; RMS takes the mean as 0.
 *
 * input    [B,L,N], last stride 1, B * L at most 2^29; bound as VKATTN_ROLE_INPUT
 * weight   [N] contiguous; bound as VKATTN_ROLE_WEIGHT
 * bias     [N] contiguous, optional; bound as VKATTN_ROLE_BIAS
 * residual [B,L,N], last stride 1, optional, for models that normalise what a block gives before they add it (Gemma 2 and 3,
 *          OLMo 2); bound as VKATTN_ROLE_RESIDUAL
 * output   [B,L,N], last stride 1; bound as VKATTN_ROLE_OUTPUT. It may be the input or the residual, bound to the same place with
 *          the same layout and type
 * epsilon  finite and at least 0; left out: 1e-6 for RMS, 1e-5 for LAYER
 * F32, F16 or BF16 each. */
typedef struct vkattn_norm_desc {
    VKATTN_STRUCT_SIZE(vkattn_norm_desc);
    vkattn_tensor input;
    vkattn_tensor weight;
    vkattn_tensor bias;
    vkattn_tensor output;
    vkattn_norm_kind kind;
    vkattn_optional_float epsilon;
    vkattn_tensor residual;
} vkattn_norm_desc;

/* Plans one norm. Fails with VKATTN_ERROR_INVALID_ARGUMENT, naming the member, or VKATTN_ERROR_UNSUPPORTED. */
VKATTN_API vkattn_result vkattn_norm_plan(vkattn_context context, const vkattn_norm_desc *desc, vkattn_plan *plan);

/* output[b,l,:] = weight[tokens[b,l],:]; a token that weight has no row for gives zeros.
 *
 * tokens   [B,L] I32, any strides; read when the commands run; bound as VKATTN_ROLE_TOKENS
 * weight   [rows,N], last stride 1; bound as VKATTN_ROLE_WEIGHT
 * output   [B,L,N], last stride 1; bound as VKATTN_ROLE_OUTPUT
 * Weight and output F32, F16 or BF16 each; weight also quantised, as that of vkattn_linear_desc. */
typedef struct vkattn_embedding_desc {
    VKATTN_STRUCT_SIZE(vkattn_embedding_desc);
    vkattn_tensor tokens;
    vkattn_tensor weight;
    vkattn_tensor output;
} vkattn_embedding_desc;

/* Plans one lookup. Fails with VKATTN_ERROR_INVALID_ARGUMENT, naming the member, or VKATTN_ERROR_UNSUPPORTED. */
VKATTN_API vkattn_result vkattn_embedding_plan(vkattn_context context, const vkattn_embedding_desc *desc,
                                               vkattn_plan *plan);

/* The k greatest numbers of each row, the greatest first; of equal numbers the one of the lower index comes first.
 * NaN is greater than all numbers, as in PyTorch. The same bits every time. k = 1 alone: argmax, below, is faster.
 *
 * input    [B,L,N], F32, F16 or BF16, last stride 1; bound as VKATTN_ROLE_INPUT
 * values   [B,L,k], F32, F16 or BF16, last stride 1; bound as VKATTN_ROLE_VALUES. May be absent
 * indices  [B,L,k] I32, contiguous; bound as VKATTN_ROLE_INDICES. May be absent beside values
 * k is that of values and indices: at least 1, at most N and 2048. */
typedef struct vkattn_top_k_desc {
    VKATTN_STRUCT_SIZE(vkattn_top_k_desc);
    vkattn_tensor input;
    vkattn_tensor values;
    vkattn_tensor indices;
} vkattn_top_k_desc;

/* Plans one selection. Fails with VKATTN_ERROR_INVALID_ARGUMENT, naming the member, or VKATTN_ERROR_UNSUPPORTED. */
VKATTN_API vkattn_result vkattn_top_k_plan(vkattn_context context, const vkattn_top_k_desc *desc, vkattn_plan *plan);

/* Greedy sampling: tokens[b,l] is the n for which input[b,l,n] is greatest, of equal ones the lowest. NaN is greater than
 * all numbers, as in PyTorch: values shows it.
 *
 * input    [B,L,N], last stride 1, B * L at most 2^29; F32, F16 or BF16; bound as VKATTN_ROLE_INPUT
 * tokens   [B,L] I32, any strides; bound as VKATTN_ROLE_TOKENS
 * values   [B,L] F32, any strides, optional: the greatest themselves; bound as VKATTN_ROLE_VALUES */
typedef struct vkattn_argmax_desc {
    VKATTN_STRUCT_SIZE(vkattn_argmax_desc);
    vkattn_tensor input;
    vkattn_tensor tokens;
    vkattn_tensor values;
} vkattn_argmax_desc;

/* Plans one choice. Fails with VKATTN_ERROR_INVALID_ARGUMENT, naming the member, or VKATTN_ERROR_UNSUPPORTED. */
VKATTN_API vkattn_result vkattn_argmax_plan(vkattn_context context, const vkattn_argmax_desc *desc, vkattn_plan *plan);

/* How a rotary embedding was stretched to longer contexts than it was trained for. */
typedef enum vkattn_rope_scaling_kind {
    VKATTN_ROPE_UNSCALED = 0,
    VKATTN_ROPE_LINEAR = 1,   /* every frequency divided by factor */
    VKATTN_ROPE_LLAMA3 = 2,   /* low frequencies divided by factor, high ones kept, a ramp between */
    VKATTN_ROPE_YARN = 3,     /* Peng et al., "YaRN", 2023 */
    VKATTN_ROPE_LONGROPE = 4, /* Ding et al., "LongRoPE", 2024: every frequency divided by a factor of its own */
    VKATTN_ROPE_SCALING_KIND_MAX_ENUM = 0x7fffffff
} vkattn_rope_scaling_kind;

/* factor                 how many times longer; > 0
 * original_max_position  the length of training; LLAMA3 and YARN: > 0; LONGROPE: > 1
 * low_freq_factor, high_freq_factor   LLAMA3: 0 < low < high
 * beta_fast, beta_slow   YARN: rotations within the original length between which the ramp lies; 0 means 32 and 1
 * attention_factor       YARN and LONGROPE: multiplies the rotated vectors; 0 means 1 where factor is at most 1, else of
 *                        YARN 0.1 ln(factor) + 1, of LONGROPE sqrt(1 + ln(factor) / ln(original_max_position))
 * factors                LONGROPE: finite numbers > 0 that divide the frequencies: of pair i the factor i. The models of LongRoPE have
 *                        a list for sequences up to original_max_position and one for longer ones: a layer has one of the two.
 *                        Read before the call returns. Else NULL
 * factor_count           the pairs: half the elements of a head that the embedding rotates; else 0 */
typedef struct vkattn_rope_scaling {
    vkattn_rope_scaling_kind kind;
    float factor;
    uint32_t original_max_position;
    float low_freq_factor;
    float high_freq_factor;
    float beta_fast;
    float beta_slow;
    float attention_factor;
    uint32_t factor_count;
    const float *factors;
} vkattn_rope_scaling;

#define VKATTN_ROPE_SECTIONS 4 /* of the rotated pairs, at most */

/* Rotary embedding (Su et al., "RoFormer", 2021): output is input with the first rotary_dim elements of each row turned, in pairs, by the
 * row's position. What queries and keys take before attention, and with `inverse` what their gradients take after it.
 *
 * input         [B,H,L,D], last stride 1, or with cu_seqlens packed [1,H,total,D]; bound as VKATTN_ROLE_INPUT
 * output        of the same shape, last stride 1; bound as VKATTN_ROLE_OUTPUT. It shares no memory with the input. F32, F16 or BF16 each
 * positions     [S,B,L] I32 contiguous, of packed rows [S,1,total], optional: by what each row turns, in the S streams of rope_sections;
 *               below 0 as 0; bound as VKATTN_ROLE_POSITIONS. Without it row l of a sequence turns by past_len + l
 * past_lengths  [B] I32 contiguous, optional, read when the commands run: takes the place of past_len, sequence by sequence; bound as
 *               VKATTN_ROLE_PAST_LENGTHS
 * cu_seqlens    [B+1] I32 contiguous, optional, as cu_seqlens_q of vkattn_attention_desc; bound as VKATTN_ROLE_CU_SEQLENS_Q. Rows of no
 *               sequence, and those beyond max_seqlen, keep their bytes in output
 * max_seqlen    the longest sequence of packed rows; 0: total
 * past_len      at most 2^29
 * rotary_dim    even, up to D, at most 65536; 0: D
 * rope_theta    finite and above 0
 * rope_interleaved, rope_scaling, rope_sections, rope_sections_interleaved   as in vkattn_layer_config
 * inverse       1: turns back, by the transposed rotation, whose factor of rope_scaling stays the same: of the output's gradient it makes
 *               the input's. Else 0 */
typedef struct vkattn_rotary_embedding_desc {
    VKATTN_STRUCT_SIZE(vkattn_rotary_embedding_desc);
    vkattn_tensor input;
    vkattn_tensor output;
    vkattn_tensor positions;
    vkattn_tensor past_lengths;
    vkattn_tensor cu_seqlens;
    uint32_t max_seqlen;
    uint32_t past_len;
    uint32_t rotary_dim;
    float rope_theta;
    uint32_t rope_interleaved;
    vkattn_rope_scaling rope_scaling;
    uint32_t rope_sections[VKATTN_ROPE_SECTIONS];
    uint32_t rope_sections_interleaved;
    uint32_t inverse;
} vkattn_rotary_embedding_desc;

/* Plans one rotation. Fails with VKATTN_ERROR_INVALID_ARGUMENT, naming the member, or VKATTN_ERROR_UNSUPPORTED. */
VKATTN_API vkattn_result vkattn_rotary_embedding_plan(vkattn_context context, const vkattn_rotary_embedding_desc *desc,
                                                      vkattn_plan *plan);

#ifdef __cplusplus
}
#endif

#endif
