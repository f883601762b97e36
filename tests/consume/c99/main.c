/* vkattn.h from C99, and nothing else: one causal attention whose answer is known. */
#include <vkattn/vkattn.h>

#include <math.h>
#include <stdio.h>

enum { kLen = 4, kDim = 2, kValues = kLen * kDim };

static int failed(vkattn_result result, const char *what) {
    if (result == VKATTN_SUCCESS) return 0;
    fprintf(stderr, "%s: %s: %s\n", what, vkattn_result_name(result), vkattn_last_error());
    return 1;
}

static vkattn_tensor tensor(void) {
    vkattn_tensor t = {VKATTN_TYPE_F32, 4, {1, 1, kLen, kDim}, {0}, 0};
    return t;
}

/* All queries are zero, so query i weighs its keys 0 to i alike: the mean of 0, 1, ... i is i / 2. */
static int check_output(const float *output) {
    int i;
    for (i = 0; i < kValues; ++i) {
        const float expected = (float)(i / kDim) / 2.0f;
        if (!(fabsf(output[i] - expected) < 1e-6f)) {
            fprintf(stderr, "output[%d] is %g, expected %g\n", i, (double)output[i], (double)expected);
            return 1;
        }
    }
    return 0;
}

static int attend(vkattn_context context, vkattn_buffer queries, vkattn_buffer values, vkattn_buffer output) {
    float host[kValues] = {0};
    vkattn_attention_desc desc = {VKATTN_SIZED(vkattn_attention_desc)};
    vkattn_plan plan = NULL;
    vkattn_binding bindings[4];
    int i;
    int wrong;

    desc.query = desc.key = desc.value = desc.output = tensor();
    desc.mask_flags = VKATTN_MASK_CAUSAL;
    if (failed(vkattn_attention_plan(context, &desc, &plan), "plan")) return 1;

    bindings[0] = (vkattn_binding){.role = VKATTN_ROLE_QUERY, .region = vkattn_buffer_region(queries)};
    bindings[1] = (vkattn_binding){.role = VKATTN_ROLE_KEY, .region = vkattn_buffer_region(values)};
    bindings[2] = (vkattn_binding){.role = VKATTN_ROLE_VALUE, .region = vkattn_buffer_region(values)};
    bindings[3] = (vkattn_binding){.role = VKATTN_ROLE_OUTPUT, .region = vkattn_buffer_region(output)};
    wrong = failed(vkattn_buffer_write(queries, 0, host, sizeof host), "write query");
    for (i = 0; i < kValues; ++i) host[i] = (float)(i / kDim);
    wrong = wrong || failed(vkattn_buffer_write(values, 0, host, sizeof host), "write value") ||
            failed(vkattn_run(plan, bindings, 4, NULL), "run") ||
            failed(vkattn_buffer_read(output, 0, host, sizeof host), "read output") || check_output(host);
    vkattn_plan_destroy(plan);
    return wrong;
}

int main(void) {
    vkattn_context context = NULL;
    vkattn_buffer buffers[3] = {NULL, NULL, NULL};
    vkattn_device_facts facts = {VKATTN_SIZED(vkattn_device_facts)};
    int wrong = 0;
    int i;

    if (failed(vkattn_context_create(NULL, &context), "context")) return 1;
    wrong = failed(vkattn_context_facts(context, &facts), "facts");
    for (i = 0; i < 3; ++i) {
        wrong = wrong || failed(vkattn_buffer_create(context, kValues * sizeof(float), &buffers[i]), "buffer");
    }
    wrong = wrong || attend(context, buffers[0], buffers[1], buffers[2]);
    for (i = 0; i < 3; ++i) vkattn_buffer_destroy(buffers[i]);
    vkattn_context_destroy(context);
    if (!wrong) printf("vkattn %s on %s: right\n", vkattn_version(), facts.name);
    return wrong;
}
