#include <vkattn/vkattn.h>

#include <stdio.h>

enum { LEN = 4, HEAD_DIM = 8, VALUES = LEN * HEAD_DIM, TENSORS = 4 };

static vkattn_result attend(vkattn_context context, vkattn_plan plan, float data[TENSORS][VALUES]) {
    static const vkattn_role roles[TENSORS] = {VKATTN_ROLE_QUERY, VKATTN_ROLE_KEY, VKATTN_ROLE_VALUE,
                                               VKATTN_ROLE_OUTPUT};
    vkattn_buffer buffers[TENSORS] = {NULL};
    vkattn_binding bindings[TENSORS];
    vkattn_result result = VKATTN_SUCCESS;
    for (int i = 0; i < TENSORS && result == VKATTN_SUCCESS; ++i) {
        result = vkattn_buffer_create(context, sizeof data[i], &buffers[i]);
        if (result == VKATTN_SUCCESS) result = vkattn_buffer_write(buffers[i], 0, data[i], sizeof data[i]);
        bindings[i] = (vkattn_binding){.role = roles[i], .region = vkattn_buffer_region(buffers[i])};
    }
    if (result == VKATTN_SUCCESS) result = vkattn_run(plan, bindings, TENSORS, NULL);
    if (result == VKATTN_SUCCESS) result = vkattn_buffer_read(buffers[3], 0, data[3], sizeof data[3]);
    for (int i = 0; i < TENSORS; ++i) vkattn_buffer_destroy(buffers[i]);
    return result;
}

int main(void) {
    const vkattn_tensor tensor = {.type = VKATTN_TYPE_F32, .rank = 4, .shape = {1, 1, LEN, HEAD_DIM}};
    const vkattn_attention_desc desc = {
        VKATTN_SIZED(vkattn_attention_desc), .query = tensor, .key = tensor, .value = tensor, .output = tensor,
        .mask_flags = VKATTN_MASK_CAUSAL};
    static float data[TENSORS][VALUES]; /* query, key, value, output */
    for (int i = 0; i < VALUES; ++i) data[2][i] = (float)(i / HEAD_DIM);

    vkattn_context context = NULL;
    vkattn_plan plan = NULL;
    vkattn_result result = vkattn_context_create(NULL, &context);
    if (result == VKATTN_SUCCESS) result = vkattn_attention_plan(context, &desc, &plan);
    if (result == VKATTN_SUCCESS) result = attend(context, plan, data);
    if (result == VKATTN_SUCCESS)
        printf("query 3 averages its keys to %g\n", data[3][VALUES - 1]);
    else
        fprintf(stderr, "%s: %s\n", vkattn_result_name(result), vkattn_last_error());
    vkattn_plan_destroy(plan);
    vkattn_context_destroy(context);
    return result == VKATTN_SUCCESS ? 0 : 1;
}
