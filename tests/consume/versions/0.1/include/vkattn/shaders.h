/* What a driver's compiler made of a plan's shaders (VK_KHR_pipeline_executable_properties): registers, spills, code size,
 * occupancy, machine code. These figures are static: they come from compiling, and nothing was run for them. */
#ifndef VKATTN_SHADERS_H
#define VKATTN_SHADERS_H

#include <vkattn/plans.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A specialisation constant that the module reads, and what the pipeline was compiled with. */
typedef struct vkattn_shader_constant {
    const char *name; /* "HEAD_DIM" */
    uint32_t value;
} vkattn_shader_constant;

/* One figure of the driver. Names and meanings are the driver's own; whole numbers above 2^53 are rounded. */
typedef struct vkattn_shader_statistic {
    const char *name; /* "VGPRs" */
    const char *description;
    double value;
} vkattn_shader_statistic;

/* One representation of the driver that is text: "Assembly", "NIR Shader(s)". */
typedef struct vkattn_shader_text {
    const char *name;
    const char *text;
} vkattn_shader_text;

/* One executable of one of the plan's pipelines. Most drivers make one executable a pipeline. */
typedef struct vkattn_shader {
    const char *module;      /* vkattn's name of the SPIR-V module: "flash" */
    const char *executable;  /* the driver's name of the executable: "Compute Shader" */
    uint32_t dispatches;     /* of one recording of the plan */
    uint32_t workgroup_size; /* invocations */
    uint32_t subgroup_size;  /* invocations; 0 where the driver does not say */
    uint32_t spirv_bytes;    /* of the module that the driver was given */
    double
        compile_ms; /* what specialising it and vkCreateComputePipelines took; little where a cache had the pipeline */
    uint32_t constant_count;
    uint32_t statistic_count;
    uint32_t text_count; /* 0 unless the context captures TEXTS, and where the driver gives none (Honeykrisp) */
    const vkattn_shader_constant *constants;
    const vkattn_shader_statistic *statistics;
    const vkattn_shader_text *texts;
} vkattn_shader;

/* Asks the driver what its compiler made of the plan's pipelines, in the order of the dispatches; a pipeline that several
 * dispatches use stands once.
 * shaders: a list of vkattn_shader.
 * Fails with VKATTN_ERROR_UNSUPPORTED unless the context was made with vkattn_context_info.capture_shaders. May be called
 * from any thread; the driver is asked the first time only. */
VKATTN_API vkattn_result vkattn_plan_shaders(vkattn_plan plan, vkattn_list *shaders);

#ifdef __cplusplus
}
#endif

#endif
