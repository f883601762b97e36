/* How calls fail, lists of what they found, and how the interface grows: what all of vkattn.h stands on.
 *
 * A program that was compiled against one version runs with every later one of the same major version:
 *   What a program fills in, or has filled in, begins with struct_size, the structure's size as the program knows it, and may get
 *   more members at its end. Of what a program fills in, members that it does not know are 0, which means what was before; what
 *   a newer program knows beyond the library must be 0, else the call fails. Of what the library fills in, no more than
 *   struct_size bytes are written; what the library does not know of it yet is zeroed. In C write VKATTN_SIZED(type) as the first
 *   initialiser, as in vkattn_norm_desc desc = {VKATTN_SIZED(vkattn_norm_desc), .input = ...}; in C++ the structure fills it in by
 *   itself. Zero the rest, and what lies between members. A struct_size of 0, or one that no version has, is an error that names the
 *   structure.
 *   Shown by the library one by one, by a pointer, in a vkattn_list or to a callback, and with more members at their end some day:
 *   vkattn_failure, vkattn_type_info, vkattn_plan_binding, vkattn_option, vkattn_check, vkattn_candidate, vkattn_memory_request,
 *   vkattn_variant_request, vkattn_shader.
 *   Structures that never change: vkattn_optional_float, vkattn_optional_uint, vkattn_region, vkattn_tensor, vkattn_binding,
 *   vkattn_semaphore, vkattn_trait, vkattn_weight, vkattn_weight_gradient, vkattn_rope_scaling, vkattn_recurrent_states, vkattn_bound_plan,
 *   vkattn_memory; and of arrays that the library shows: vkattn_kernel_support, vkattn_matrix_shape, vkattn_shader_constant,
 *   vkattn_shader_statistic, vkattn_shader_text.
 *   Numbers are added to enumerations; those that there are keep their meaning. */
#ifndef VKATTN_RESULTS_H
#define VKATTN_RESULTS_H

#include <stddef.h>
#include <stdint.h>

/* Of these headers; vkattn_version tells the library's. */
#define VKATTN_VERSION_MAJOR 0
#define VKATTN_VERSION_MINOR 1
#define VKATTN_VERSION_PATCH 0

#if defined(VKATTN_STATIC)
#define VKATTN_API
#elif defined(_WIN32)
#if defined(VKATTN_BUILD)
#define VKATTN_API __declspec(dllexport)
#else
#define VKATTN_API __declspec(dllimport)
#endif
#else
#define VKATTN_API __attribute__((visibility("default")))
#endif

/* The first member of what crosses, and the first initialiser of such a structure in C. */
#ifdef __cplusplus
#define VKATTN_STRUCT_SIZE(type) uint32_t struct_size = sizeof(type)
#else
#define VKATTN_STRUCT_SIZE(type) uint32_t struct_size
#endif
#define VKATTN_SIZED(type) .struct_size = sizeof(type)

#ifdef __cplusplus
extern "C" {
#endif

/* How a call ended; what to do about it. */
typedef enum vkattn_result {
    VKATTN_SUCCESS = 0,
    VKATTN_ERROR_INVALID_ARGUMENT = -1, /* an argument breaks its documented contract: mend the call */
    VKATTN_ERROR_UNSUPPORTED = -2, /* a right request that this device or this build cannot serve: ask for another */
    VKATTN_ERROR_NO_VULKAN = -3,   /* no Vulkan loader, or it has no usable driver */
    VKATTN_ERROR_NO_DEVICE = -4,   /* no device matches the request */
    VKATTN_ERROR_OUT_OF_HOST_MEMORY = -5,
    VKATTN_ERROR_OUT_OF_DEVICE_MEMORY = -6,
    VKATTN_ERROR_DEVICE_LOST = -7, /* for good: whatever needs the device fails so from then on; see vkattn_wait */
    VKATTN_ERROR_VULKAN = -8,      /* any other Vulkan failure; the message holds the VkResult */
    VKATTN_ERROR_INTERNAL = -9,    /* a defect of vkattn: please report it */
    VKATTN_ERROR_NO_ROOM =
        -10, /* a cache, its pages or the room that the caller gave are full: make room, and call again */
    VKATTN_ERROR_COMPILE = -11, /* a text of yours does not compile: vkattn_failure has its line and column */
    VKATTN_ERROR_TIMEOUT = -12, /* not done in time: nothing is lost, wait again */
    VKATTN_RESULT_MAX_ENUM = 0x7fffffff
} vkattn_result;

/* What is known of a failed call.
 *
 * message  one line, no newline; never NULL
 * member   what of the arguments is at fault, as the message names it: "query.shape", "descs[2].scale"; "" where it is none of
 *          them
 * entry    of plans, descriptions, bindings: which of the array, from 0; UINT32_MAX: none, or the call takes no array. What is wrong
 *          with weights is said of all of them, by name
 * line, column   of the text that does not compile, from 1; 0: the compiler does not say */
typedef struct vkattn_failure {
    vkattn_result result;
    const char *message;
    const char *member;
    uint32_t entry;
    uint32_t line;
    uint32_t column;
} vkattn_failure;

/* Returns what is known of the last call that failed on the calling thread; where none has, result is VKATTN_SUCCESS and the texts
 * are "". Never NULL; stays until the next failing call on this thread. */
VKATTN_API const vkattn_failure *vkattn_last_failure(void);

/* Returns vkattn_last_failure()->message. */
VKATTN_API const char *vkattn_last_error(void);

/* Returns the name of a result, for instance "VKATTN_ERROR_UNSUPPORTED". Never NULL. */
VKATTN_API const char *vkattn_result_name(vkattn_result result);

/* Returns the version of the library in use as "major.minor.patch". Never NULL. */
VKATTN_API const char *vkattn_version(void);

/* What a call has found: any number of structures of the type that the call names, with their texts. Yours, until you destroy it;
 * nothing else ends it. May be read from many threads at once. */
typedef struct vkattn_list_opaque *vkattn_list;

/* Returns how many there are. 0 for NULL. */
VKATTN_API uint32_t vkattn_list_count(vkattn_list list);

/* Returns the structure of that number, from 0, which belongs to the list. NULL beyond the last. */
VKATTN_API const void *vkattn_list_get(vkattn_list list, uint32_t index);

/* Destroys a list. NULL is ignored. */
VKATTN_API void vkattn_list_destroy(vkattn_list list);

/* Numbers that may be left out, where 0 is a number like others. All zero: left out. In C .scale = VKATTN_PRESENT(0.5f); in C++ a
 * number is assigned. */
typedef struct vkattn_optional_float {
    uint32_t present;
    float value;
#ifdef __cplusplus
    constexpr vkattn_optional_float() : present(0), value(0) {}
    constexpr vkattn_optional_float(float number) : present(1), value(number) {}
#endif
} vkattn_optional_float;
typedef struct vkattn_optional_uint {
    uint32_t present;
    uint32_t value;
#ifdef __cplusplus
    constexpr vkattn_optional_uint() : present(0), value(0) {}
    constexpr vkattn_optional_uint(uint32_t number) : present(1), value(number) {}
#endif
} vkattn_optional_uint;

/* An optional number that is given, in C. */
#define VKATTN_PRESENT(number)                                                                                         \
    { 1, (number) }

#ifdef __cplusplus
}
#endif

#endif
