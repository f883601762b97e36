/* Layers that keep a state of constant size in place of keys and values: linear attention (RetNet, GLA, DeltaNet, the gated delta rule of
 * Qwen3-Next, KDA of Kimi Linear), and what stands around it: a causal convolution over few tokens, and a gated norm. Planned and recorded
 * as attention is. Sizes of tokens, sequences and heads may be 0: nothing is then written but states of sequences without tokens. */
#ifndef VKATTN_RECURRENCE_H
#define VKATTN_RECURRENCE_H

#include <vkattn/operators.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a token adds to the state. */
typedef enum vkattn_linear_attention_rule {
    VKATTN_RULE_DELTA = 0, /* u = beta (v - k S): Schlag et al., 2021 */
    VKATTN_RULE_DECAY = 1, /* u = beta v */
    VKATTN_RULE_MAX_ENUM = 0x7fffffff
} vkattn_linear_attention_rule;

/* How the tokens of a call are taken. */
typedef enum vkattn_linear_attention_form {
    VKATTN_FORM_AUTO = 0,      /* the faster one */
    VKATTN_FORM_RECURRENT = 1, /* token by token: the state is read and written once */
    VKATTN_FORM_CHUNKED = 2,   /* chunks of tokens, whose products are those of matrices (Yang et al., 2024) */
    VKATTN_FORM_MAX_ENUM = 0x7fffffff
} vkattn_linear_attention_form;

#define VKATTN_MAX_DRAFT_TOKENS 16 /* the most that token_states keeps */

/* States of sequences, which may be a pool whose members come and go.
 *
 * initial_state  [states, ...] F32 contiguous, optional (zeros); bound as VKATTN_ROLE_INITIAL_STATE
 * final_state    the same, optional; bound as VKATTN_ROLE_FINAL_STATE. It may be the initial state, bound to the same place. A sequence
 *                without tokens leaves there what it began with
 * state_slots    I32 [sequences] contiguous, optional: which of the states is each sequence's, no two the same; negative ones and those
 *                beyond the states: none, the sequence begins with zeros and writes no state. Absent: states are sequences, in order.
 *                Bound as VKATTN_ROLE_STATE_SLOTS
 * token_states   [states * draft_tokens, ...] F32 contiguous, optional: with state s, token t < draft_tokens leaves its state at
 *                s * draft_tokens + t; what is beyond a sequence's tokens stays as it is. Bound as VKATTN_ROLE_TOKEN_STATES. With
 *                max_seqlen_q (or L) of more than draft_tokens they are read alone, and accepted must be given
 * draft_tokens   1 to VKATTN_MAX_DRAFT_TOKENS with token_states
 * accepted       I32 [sequences] contiguous, optional, with token_states: of the tokens of an earlier call so many are kept: a sequence
 *                begins with what token accepted - 1 left in token_states, which this call may write again; with 0 or less, with its
 *                initial state. Bound as VKATTN_ROLE_ACCEPTED */
typedef struct vkattn_recurrent_states {
    vkattn_tensor initial_state;
    vkattn_tensor final_state;
    vkattn_tensor state_slots;
    vkattn_tensor token_states;
    vkattn_tensor accepted;
    uint32_t draft_tokens;
} vkattn_recurrent_states;

/* For each token t of a sequence, of value head h, whose query and key head is h / (Hv / Hk), all in f32:
 *
 *     S = diag(exp(decay_t)) S
 *     u = beta_t (v_t - k_t S)      VKATTN_RULE_DELTA; beta_t v_t      VKATTN_RULE_DECAY
 *     S = S + k_t^T u
 *     output_t = scale q_t S
 *
 * query, key    [B,Hk,L,Dk], any strides, Dk at most 512; bound as VKATTN_ROLE_QUERY, VKATTN_ROLE_KEY
 * value         [B,Hv,L,Dv], any strides, Hv a multiple of Hk; bound as VKATTN_ROLE_VALUE
 * decay         F32 [B,Hv,L] or, one a channel, [B,Hv,L,Dk], at most 0, any strides, optional (0); bound as VKATTN_ROLE_DECAY
 * beta          F32 [B,Hv,L], any strides, optional (1); bound as VKATTN_ROLE_BETA
 * output        [B,Hv,L,Dv], any strides without overlap; bound as VKATTN_ROLE_OUTPUT
 * query, key, value and output F32, F16 or BF16 each
 * states        [states,Hv,Dk,Dv] each
 * cu_seqlens_q  I32 [sequences + 1] contiguous, optional: the tensors are packed, [1,H,total,D]; bound as VKATTN_ROLE_CU_SEQLENS_Q
 * max_seqlen_q  of packed sequences the longest; 0: not known. Longer ones are cut there
 * scale         finite; left out: 1/sqrt(Dk)
 * qk_l2norm     1: queries and keys are first divided by sqrt(sum of squares + 1e-6) */
typedef struct vkattn_linear_attention_desc {
    VKATTN_STRUCT_SIZE(vkattn_linear_attention_desc);
    vkattn_tensor query;
    vkattn_tensor key;
    vkattn_tensor value;
    vkattn_tensor decay;
    vkattn_tensor beta;
    vkattn_tensor output;
    vkattn_recurrent_states states;
    vkattn_tensor cu_seqlens_q;
    uint32_t max_seqlen_q;
    vkattn_linear_attention_rule rule;
    vkattn_linear_attention_form form;
    vkattn_optional_float scale;
    uint32_t qk_l2norm;
} vkattn_linear_attention_desc;

/* Plans one linear attention. Fails with VKATTN_ERROR_INVALID_ARGUMENT, naming the member, or VKATTN_ERROR_UNSUPPORTED. */
VKATTN_API vkattn_result vkattn_linear_attention_plan(vkattn_context context, const vkattn_linear_attention_desc *desc,
                                                      vkattn_plan *plan);

/* output[t,c] = activation(sum over j of weight[c,j] input[t - K + 1 + j,c] + bias[c]), where what is before a sequence's first token is in its
 * initial state: its last inputs before, the latest one last.
 *
 * input         [B,L,C], last stride 1; bound as VKATTN_ROLE_INPUT
 * weight        [C,K] contiguous, K from 2 to 4; bound as VKATTN_ROLE_WEIGHT
 * bias          [C] contiguous, optional; bound as VKATTN_ROLE_BIAS
 * output        [B,L,C], last stride 1, not the input; bound as VKATTN_ROLE_OUTPUT
 * F32, F16 or BF16 each
 * states        [states,K-1,C] each
 * cu_seqlens_q  I32 [sequences + 1] contiguous, optional: input and output are packed, [1,total,C]; bound as VKATTN_ROLE_CU_SEQLENS_Q
 * max_seqlen_q  of packed sequences the longest; 0: not known
 * activation    VKATTN_ACTIVATION_NONE or VKATTN_ACTIVATION_SILU */
typedef struct vkattn_causal_conv1d_desc {
    VKATTN_STRUCT_SIZE(vkattn_causal_conv1d_desc);
    vkattn_tensor input;
    vkattn_tensor weight;
    vkattn_tensor bias;
    vkattn_tensor output;
    vkattn_recurrent_states states;
    vkattn_tensor cu_seqlens_q;
    uint32_t max_seqlen_q;
    vkattn_activation activation;
} vkattn_causal_conv1d_desc;

/* Plans one convolution. Fails with VKATTN_ERROR_INVALID_ARGUMENT, naming the member, or VKATTN_ERROR_UNSUPPORTED. */
VKATTN_API vkattn_result vkattn_causal_conv1d_plan(vkattn_context context, const vkattn_causal_conv1d_desc *desc,
                                                   vkattn_plan *plan);

/* output = input / sqrt(mean(input^2) + epsilon) * weight * silu(gate) of each row: of a head of linear attention's output.
 *
 * input    [B,L,N], last stride 1, B * L at most 2^29; bound as VKATTN_ROLE_INPUT
 * gate     [B,L,N], last stride 1; bound as VKATTN_ROLE_MULTIPLIER
 * weight   [N] contiguous; bound as VKATTN_ROLE_WEIGHT
 * output   [B,L,N], last stride 1; bound as VKATTN_ROLE_OUTPUT. It may be the input or the gate, bound to the same place with the same
 *          layout and type
 * epsilon  finite and at least 0; left out: 1e-6
 * F32, F16 or BF16 each. Heads of [B,H,L,N] are rows: [B*H,L,N], or with strides. */
typedef struct vkattn_gated_rms_norm_desc {
    VKATTN_STRUCT_SIZE(vkattn_gated_rms_norm_desc);
    vkattn_tensor input;
    vkattn_tensor gate;
    vkattn_tensor weight;
    vkattn_tensor output;
    vkattn_optional_float epsilon;
} vkattn_gated_rms_norm_desc;

/* Plans one gated norm. Fails with VKATTN_ERROR_INVALID_ARGUMENT, naming the member, or VKATTN_ERROR_UNSUPPORTED. */
VKATTN_API vkattn_result vkattn_gated_rms_norm_plan(vkattn_context context, const vkattn_gated_rms_norm_desc *desc,
                                                    vkattn_plan *plan);

#ifdef __cplusplus
}
#endif

#endif
