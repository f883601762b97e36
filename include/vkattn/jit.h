/* vkattn_jit, a library beside vkattn: compiles variants of attention (variants.h) from GLSL text, by glslang. It carries the
 * text of vkattn's shaders; vkattn itself knows no compiler. */
#ifndef VKATTN_JIT_H
#define VKATTN_JIT_H

#include <vkattn/variants.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(VKATTN_STATIC)
#define VKATTN_JIT_API
#elif defined(_WIN32)
#if defined(VKATTN_JIT_BUILD)
#define VKATTN_JIT_API __declspec(dllexport)
#else
#define VKATTN_JIT_API __declspec(dllimport)
#endif
#else
#define VKATTN_JIT_API __attribute__((visibility("default")))
#endif

/* What to compile.
 *
 * functions  GLSL (4.60) that defines one of score_mod, mask_mod, lse_mod and output_mod, or several; score_mod_grad beside score_mod, and
 *            score_mod_grad_captured beside that
 *            alone; at most 1 MiB. It declares no resources and no shared memory, and has no barriers and no #include
 * name       what messages call the text; NULL: "functions". A directive #line 1 "NAME" in the text names what follows it */
typedef struct vkattn_jit_info {
    VKATTN_STRUCT_SIZE(vkattn_jit_info);
    const char *functions;
    const char *name;
} vkattn_jit_info;

/* Makes a variant whose modules are compiled when a plan first takes them. A plan fails with VKATTN_ERROR_COMPILE
 * where the text does not compile: vkattn_last_failure then has the line and column.
 * On failure *variant is NULL, and vkattn_jit_last_failure says why. */
VKATTN_JIT_API vkattn_result vkattn_jit_variant_create(vkattn_context context, const vkattn_jit_info *info,
                                                       vkattn_variant *variant);

/* Compiles every module, without a device, and calls write(user, data, bytes) once with the file that
 * vkattn_variant_info.compiled takes. On failure write is not called. */
VKATTN_JIT_API vkattn_result vkattn_jit_compile(const vkattn_jit_info *info,
                                                void (*write)(void *user, const void *data, uint64_t bytes),
                                                void *user);

/* Returns the last call of this library that failed on the calling thread, as vkattn_last_failure has those of vkattn.
 * VKATTN_ERROR_COMPILE: with the line and column of a text that does not compile. Never NULL. */
VKATTN_JIT_API const vkattn_failure *vkattn_jit_last_failure(void);

/* Returns vkattn_jit_last_failure()->message: one line, "" if none failed. */
VKATTN_JIT_API const char *vkattn_jit_last_error(void);

#ifdef __cplusplus
}
#endif

#endif
