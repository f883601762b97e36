/* session MODEL LIBRARY [DEVICE]: runs a model of one Attention node on vkattn, on ones, and writes the sum of its output. */
#include <stdio.h>
#include <stdlib.h>
#include <vkattn_onnxruntime.h>

static const OrtApi *api;

static void require(OrtStatus *status) {
    if (!status) return;
    fprintf(stderr, "%s\n", api->GetErrorMessage(status));
    exit(1);
}

/* Returns a tensor of ones, [1,2,4,8]. */
static OrtValue *ones(void) {
    static const int64_t shape[4] = {1, 2, 4, 8};
    OrtAllocator *allocator = NULL;
    OrtValue *value = NULL;
    float *data = NULL;
    require(api->GetAllocatorWithDefaultOptions(&allocator));
    require(api->CreateTensorAsOrtValue(allocator, shape, 4, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value));
    require(api->GetTensorMutableData(value, (void **)&data));
    for (int each = 0; each < 64; ++each) data[each] = 1.0f;
    return value;
}

int main(int count, char **arguments) {
    if (count < 3) {
        fprintf(stderr, "session MODEL LIBRARY [DEVICE]\n");
        return 2;
    }
    api = OrtGetApiBase()->GetApi(23);
    if (!api) {
        fprintf(stderr, "this ONNX Runtime is older than 1.23\n");
        return 1;
    }
    OrtEnv *env = NULL;
    OrtSessionOptions *options = NULL;
    OrtSession *session = NULL;
    require(api->CreateEnv(ORT_LOGGING_LEVEL_WARNING, "session", &env));
    require(api->CreateSessionOptions(&options));
    require(api->AddSessionConfigEntry(options, "session.disable_cpu_ep_fallback", "1"));
    const char *device = count > 3 ? arguments[3] : NULL;
    OrtStatus *failed = vkattn_onnxruntime_add(api, env, options, arguments[2], device);
    if (failed) { /* and a second call must say the same */
        fprintf(stderr, "%d %s\n", (int)api->GetErrorCode(failed), api->GetErrorMessage(failed));
        api->ReleaseStatus(failed);
        failed = vkattn_onnxruntime_add(api, env, options, arguments[2], device);
        fprintf(stderr, "%d ", failed ? (int)api->GetErrorCode(failed) : 0);
    }
    require(failed);
    require(api->CreateSession(env, arguments[1], options, &session));

    const char *const inputs[] = {"Q", "K", "V"}, *const outputs[] = {"Y"};
    OrtValue *const values[] = {ones(), ones(), ones()};
    OrtValue *output = NULL;
    require(api->Run(session, NULL, inputs, (const OrtValue *const *)values, 3, outputs, 1, &output));
    float *data = NULL, sum = 0.0f;
    require(api->GetTensorMutableData(output, (void **)&data));
    for (int each = 0; each < 64; ++each) sum += data[each];
    printf("sum %g, expected 64\n", (double)sum);

    api->ReleaseValue(output);
    for (int each = 0; each < 3; ++each) api->ReleaseValue(values[each]);
    api->ReleaseSession(session);
    api->ReleaseSessionOptions(options);
    api->ReleaseEnv(env);
    return sum == 64.0f ? 0 : 1;
}
