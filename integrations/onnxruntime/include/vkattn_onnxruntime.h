/* vkattn as an execution provider of ONNX Runtime, in one call. Nothing is linked: ONNX Runtime loads the library. */
#ifndef VKATTN_ONNXRUNTIME_H
#define VKATTN_ONNXRUNTIME_H

#include <onnxruntime_c_api.h>
#include <string.h>

/* Registers the library in the environment, where that has not been done, and gives its device to a session's options. The
 * processor remains for the nodes that it does not take.
 *
 * library  path of the library that this folder builds
 * device   NULL: the first; else a part of the device's name, as Vulkan has it
 * Returns NULL, or a status to release: ORT_NOT_FOUND where there is no such device. Calls for one environment come one after the other. */
static inline OrtStatus *vkattn_onnxruntime_add(const OrtApi *api, OrtEnv *env, OrtSessionOptions *options,
                                                const ORTCHAR_T *library, const char *device) {
    static const char *const provider = "VkattnExecutionProvider";
    for (int registered = 0;; registered = 1) {
        const OrtEpDevice *const *devices = NULL;
        size_t count = 0;
        int is_known = 0;
        OrtStatus *failed = api->GetEpDevices(env, &devices, &count);
        if (failed) return failed;
        for (size_t each = 0; each < count; ++each) {
            if (strcmp(api->EpDevice_EpName(devices[each]), provider) != 0) continue;
            is_known = 1;
            const char *name = api->GetKeyValue(api->EpDevice_EpMetadata(devices[each]), "vulkan_device_name");
            if (device && (!name || !strstr(name, device))) continue;
            return api->SessionOptionsAppendExecutionProvider_V2(options, env, &devices[each], 1, NULL, NULL, 0);
        }
        if (is_known || registered)
            return api->CreateStatus(ORT_NOT_FOUND, "vkattn: no such Vulkan device, expected one");
        /* It may be registered without a device, which nothing tells: no session uses it then, and it is registered anew. */
        OrtStatus *was_not = api->UnregisterExecutionProviderLibrary(env, provider);
        if (was_not) api->ReleaseStatus(was_not);
        failed = api->RegisterExecutionProviderLibrary(env, provider, library);
        if (failed) return failed;
    }
}

#endif
