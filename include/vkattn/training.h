/* What training takes beside gradients: the loss, clipping and loss scaling, AdamW; planned and recorded as attention is. No number of a
 * step comes from the host: a program of one step is recorded once. */
#ifndef VKATTN_TRAINING_H
#define VKATTN_TRAINING_H

#include <vkattn/plans.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Softmax cross-entropy with its gradient: loss[b,l] = log(sum over n of exp(input[b,l,n])) - input[b,l,labels[b,l]], in f32, and
 * mean_loss, their mean over the labels that count. A label counts if it is one of 0 to N-1 and not ignore_label; any other one has
 * loss and gradient 0, whatever its row holds. All sums have one order: the same call gives the same bits.
 *
 * input        the logits, [B,L,N], last stride 1, B * L at most 2^29; F32, F16 or BF16; bound as VKATTN_ROLE_INPUT
 * labels       [B,L] I32, any strides; read when the commands run; bound as VKATTN_ROLE_LABELS
 * loss_scale   [1] F32, optional: what d_input is multiplied by; bound as VKATTN_ROLE_LOSS_SCALE
 * loss         [B,L] F32, any strides, optional; bound as VKATTN_ROLE_LOSS
 * mean_loss    [1] F32, optional: 0 where no label counts; bound as VKATTN_ROLE_MEAN_LOSS
 * d_input      [B,L,N], last stride 1, optional: the gradient of mean_loss * loss_scale; F32, F16 or BF16. It may be the input, bound to
 *              the same place with the same layout and type; bound as VKATTN_ROLE_D_INPUT
 * ignore_label of 0 to N-1; left out: none
 * One of loss, mean_loss and d_input is there at least. Where B or L is 0 nothing is written. */
typedef struct vkattn_cross_entropy_desc {
    VKATTN_STRUCT_SIZE(vkattn_cross_entropy_desc);
    vkattn_tensor input;
    vkattn_tensor labels;
    vkattn_tensor loss_scale;
    vkattn_tensor loss;
    vkattn_tensor mean_loss;
    vkattn_tensor d_input;
    vkattn_optional_uint ignore_label;
} vkattn_cross_entropy_desc;

/* Plans one loss. Fails with VKATTN_ERROR_INVALID_ARGUMENT, naming the member, or VKATTN_ERROR_UNSUPPORTED. */
VKATTN_API vkattn_result vkattn_cross_entropy_plan(vkattn_context context, const vkattn_cross_entropy_desc *desc,
                                                   vkattn_plan *plan);

/* squared_norm = sum of (scale * gradient)^2, in f32 and one order. A norm of several tensors: the first call without accumulate, the
 * others with it. Tensors of one type in one buffer, described as one, take one call.
 *
 * gradient      contiguous; F32, F16 or BF16; bound as VKATTN_ROLE_GRADIENT
 * squared_norm  [1] F32; bound as VKATTN_ROLE_SQUARED_NORM
 * accumulate    1: the sum is added to what squared_norm holds
 * scale         finite; left out: 1. As copy_scale of vkattn_adamw_desc */
typedef struct vkattn_squared_norm_desc {
    VKATTN_STRUCT_SIZE(vkattn_squared_norm_desc);
    vkattn_tensor gradient;
    vkattn_tensor squared_norm;
    uint32_t accumulate;
    vkattn_optional_float scale;
} vkattn_squared_norm_desc;

/* Plans one sum. Fails with VKATTN_ERROR_INVALID_ARGUMENT, naming the member, or VKATTN_ERROR_UNSUPPORTED. */
VKATTN_API vkattn_result vkattn_squared_norm_plan(vkattn_context context, const vkattn_squared_norm_desc *desc,
                                                  vkattn_plan *plan);

/* Decides on the optimizer's step, on the device: what gradients are multiplied by, whether the step is taken, and the next loss scale, as
 * torch.nn.utils.clip_grad_norm_ and torch.amp.GradScaler do. With norm = sqrt(squared_norm) / loss_scale:
 *   factor = min(1, max_norm / (norm + 1e-6)) / loss_scale, and step is one more; or, where squared_norm is not finite, factor = 0, by
 *   which vkattn_adamw_plan leaves all as it is, and step stays.
 *
 * squared_norm    [1] F32: that of all gradients, which loss_scale has multiplied; bound as VKATTN_ROLE_SQUARED_NORM
 * loss_scale      [1] F32, optional: 1 where absent; bound as VKATTN_ROLE_LOSS_SCALE
 * good_steps      [1] I32, optional, beside loss_scale alone: steps since loss_scale changed or one was not taken, 0 at first. Where it is
 *                 there, loss_scale is multiplied by backoff_factor where a step is not taken, and by growth_factor, unless that is not
 *                 finite, after growth_interval steps that are; bound as VKATTN_ROLE_GOOD_STEPS
 * factor          [1] F32; bound as VKATTN_ROLE_FACTOR
 * step            [1] I32, 0 at first: steps that were taken; bound as VKATTN_ROLE_STEP
 * max_norm        above 0; left out: gradients are not clipped
 * growth_factor   at least 1; left out: 2
 * backoff_factor  above 0 and at most 1; left out: 0.5
 * growth_interval 0: 2000 */
typedef struct vkattn_optimizer_step_desc {
    VKATTN_STRUCT_SIZE(vkattn_optimizer_step_desc);
    vkattn_tensor squared_norm;
    vkattn_tensor loss_scale;
    vkattn_tensor good_steps;
    vkattn_tensor factor;
    vkattn_tensor step;
    vkattn_optional_float max_norm;
    vkattn_optional_float growth_factor;
    vkattn_optional_float backoff_factor;
    uint32_t growth_interval;
} vkattn_optimizer_step_desc;

/* Plans one decision. Fails with VKATTN_ERROR_INVALID_ARGUMENT, naming the member, or VKATTN_ERROR_UNSUPPORTED. */
VKATTN_API vkattn_result vkattn_optimizer_step_plan(vkattn_context context, const vkattn_optimizer_step_desc *desc,
                                                    vkattn_plan *plan);

/* One step of AdamW (Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2019), as torch.optim.AdamW takes it, in f32. With
 * g = gradient * factor * copy_scale and t = step:
 *   first_moment = beta1 * first_moment + (1 - beta1) * g, second_moment = beta2 * second_moment + (1 - beta2) * g^2,
 *   parameter = parameter * (1 - learning_rate * weight_decay)
 *               - learning_rate * (first_moment / (1 - beta1^t)) / (sqrt(second_moment / (1 - beta2^t)) + epsilon)
 *
 * parameter      F32; bound as VKATTN_ROLE_PARAMETER
 * gradient       F32, F16 or BF16; bound as VKATTN_ROLE_GRADIENT
 * first_moment   F32, zeros at first; bound as VKATTN_ROLE_FIRST_MOMENT
 * second_moment  the same; bound as VKATTN_ROLE_SECOND_MOMENT
 * step           [1] I32, at least 1; bound as VKATTN_ROLE_STEP
 * factor         [1] F32, optional, 1 where absent; 0: nothing is written; bound as VKATTN_ROLE_FACTOR
 * learning_rate  [1] F32; bound as VKATTN_ROLE_LEARNING_RATE
 * copy           F32, F16 or BF16, optional: parameter * copy_scale, what the layers read, of which gradient then is the gradient; bound as
 *                VKATTN_ROLE_COPY
 * beta1, beta2   at least 0 and below 1; left out: 0.9 and 0.999
 * epsilon        at least 0; left out: 1e-8
 * weight_decay   at least 0; left out: 0.01
 * copy_scale     finite; left out: 1. For instance LoRA's alpha / r
 * parameter, gradient, moments and copy are contiguous, of one shape, and share no memory. Tensors that lie in one buffer each, one after the
 * other, may be described as one: all elements are treated alike. */
typedef struct vkattn_adamw_desc {
    VKATTN_STRUCT_SIZE(vkattn_adamw_desc);
    vkattn_tensor parameter;
    vkattn_tensor gradient;
    vkattn_tensor first_moment;
    vkattn_tensor second_moment;
    vkattn_tensor step;
    vkattn_tensor factor;
    vkattn_tensor learning_rate;
    vkattn_tensor copy;
    vkattn_optional_float beta1;
    vkattn_optional_float beta2;
    vkattn_optional_float epsilon;
    vkattn_optional_float weight_decay;
    vkattn_optional_float copy_scale;
} vkattn_adamw_desc;

/* Plans one step. Fails with VKATTN_ERROR_INVALID_ARGUMENT, naming the member, or VKATTN_ERROR_UNSUPPORTED. */
VKATTN_API vkattn_result vkattn_adamw_plan(vkattn_context context, const vkattn_adamw_desc *desc, vkattn_plan *plan);

#ifdef __cplusplus
}
#endif

#endif
