/* Devices: their facts, and what is known of them beyond. */
#ifndef VKATTN_DEVICES_H
#define VKATTN_DEVICES_H

#include <vkattn/tensors.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The kernels of the operator attention: vkattn_plan_get_report names the one that a plan took, vkattn_explain what each
 * would make of a problem. */
typedef enum vkattn_kernel {
    VKATTN_KERNEL_AUTO = 0,          /* the best one that serves the problem */
    VKATTN_KERNEL_UNFUSED = 1,       /* three shaders; the only one that can return weights and scores */
    VKATTN_KERNEL_FLASH = 2,         /* online softmax; nothing of size q_len x kv_len in memory */
    VKATTN_KERNEL_DECODE = 3,        /* few query rows: the keys are split over workgroups, and the parts merged */
    VKATTN_KERNEL_COOPMAT = 4,       /* on matrix units (VK_KHR_cooperative_matrix): f16 or bf16 factors, f32 sums */
    VKATTN_KERNEL_COOPMAT2 = 5,      /* the same by VK_NV_cooperative_matrix2, where asked for or tuned for */
    VKATTN_KERNEL_LATENT_DECODE = 6, /* decode where V is the first elements of K's rows (MLA absorbed) */
    VKATTN_KERNEL_ADDRESSES = 7,     /* for CPU drivers: K and V through device addresses, no shared memory */
    VKATTN_KERNEL_COUNT = 8,
    VKATTN_KERNEL_MAX_ENUM = 0x7fffffff
} vkattn_kernel;

/* Returns "auto", "unfused", "flash", ... Never NULL. */
VKATTN_API const char *vkattn_kernel_name(vkattn_kernel kernel);

/* Whether a device can run a kernel, and if not, why. */
typedef struct vkattn_kernel_support {
    vkattn_kernel kernel;
    uint32_t supported; /* 0 also where the self-test has left the kernel no storage type */
    const char *reason; /* why not, or what of it has failed the self-test and is off; "" if all is well */
} vkattn_kernel_support;

/* A product of matrices, m x k by k x n, that a subgroup computes on matrix units; sums are F32. */
typedef struct vkattn_matrix_shape {
    uint32_t m, n, k;
    vkattn_type type; /* of the factors: F16 or BF16 */
} vkattn_matrix_shape;

/* Facts of a device. Sizes are bytes unless said otherwise; flags are 0 or 1. vkattn itself does not use storage_8bit,
 * shader_int8, max_push_constants_bytes and portability_subset: they are given for your own shaders and reports. What matrix_shapes
 * and kernels point to, and their texts, belongs to the context or the list that the facts are of. */
typedef struct vkattn_device_facts {
    VKATTN_STRUCT_SIZE(vkattn_device_facts);
    uint32_t index; /* position in the enumeration; 0 for a wrapped device */
    char name[256];
    char driver_name[256]; /* "" where the driver does not tell */
    char driver_info[256];
    uint32_t vendor_id;
    uint32_t device_id;
    uint32_t driver_version; /* as the driver packs it */
    uint32_t driver_id;      /* VkDriverId, of VK_KHR_driver_properties or Vulkan 1.2; 0: the driver does not tell */
    uint32_t api_version;    /* VK_API_VERSION_* packing; what the context may use */
    VkPhysicalDeviceType device_type;
    uint8_t device_uuid[16];
    uint8_t driver_uuid[16];
    uint64_t device_memory_bytes; /* sum of the device-local heaps */
    uint64_t max_buffer_bytes;    /* of one buffer; 0: the device does not tell */
    uint64_t max_storage_buffer_range;
    uint64_t min_storage_buffer_offset_alignment;
    uint32_t max_storage_buffers_per_stage;
    uint32_t max_push_constants_bytes;
    uint32_t max_shared_memory_bytes;
    uint32_t max_workgroup_invocations;
    uint32_t max_workgroup_count[3];
    uint32_t subgroup_size; /* invocations */
    /* Invocations: the range of subgroup sizes, of VK_EXT_subgroup_size_control or Vulkan 1.3; 0: unknown. */
    uint32_t min_subgroup_size;
    uint32_t max_subgroup_size;
    uint32_t subgroup_features; /* VkSubgroupFeatureFlags in the compute stage, 0 if none */
    /* The number of shader cores, and of subgroups that one core keeps at a time; 0: unknown, the device has none of
     * these extensions.
     *   VK_NV_shader_sm_builtins       streaming multiprocessors, and their warps
     *   VK_AMD_shader_core_properties  compute units, and their wavefronts; the active ones alone with
     *                                  VK_AMD_shader_core_properties2
     *   VK_ARM_shader_core_builtins    shader cores, and their warps */
    uint32_t shader_cores;
    uint32_t max_subgroups_per_core;
    uint32_t push_descriptors;
    uint32_t storage_16bit;
    uint32_t shader_float16;
    uint32_t shader_int8;
    uint32_t storage_8bit;
    uint32_t buffer_device_address;
    uint32_t buffers_have_addresses; /* 1: kernels may read bound buffers through them; see vkattn_context_info */
    uint32_t integer_dot_product;
    /* 1: dot products of four signed with four unsigned bytes are accelerated
     * (integerDotProduct4x8BitPackedMixedSignednessAccelerated of VK_KHR_shader_integer_dot_product or Vulkan 1.3): AMD's
     * are from RDNA3 on. 0: not, or unknown */
    uint32_t mixed_integer_dot_product;
    /* 1: dot products of four signed bytes with four others are accelerated
     * (integerDotProduct4x8BitPackedSignedAccelerated). 0: not, or unknown */
    uint32_t signed_integer_dot_product;
    uint32_t vulkan_memory_model;   /* with device scope */
    uint32_t subgroup_size_control; /* full subgroups of a size that the pipeline asks for */
    uint32_t cooperative_matrix;
    uint32_t cooperative_matrix_reductions; /* conversions and operations per element too: VK_NV_cooperative_matrix2 */
    /* 1: layers keep what lies between their steps in f16 where hidden states are f16, or intermediate_type of a call asks for it
     * (the trait half_workspaces, and shader_float16) */
    uint32_t half_workspaces;
    uint32_t max_loop_iterations; /* of one shader invocation in all its loops, as far as known; 0: no limit */
    uint32_t pipeline_executable_properties; /* 1: the driver can tell what its compiler made of shaders: shaders.h */
    uint32_t portability_subset;             /* 1: an incomplete Vulkan over another API, for instance MoltenVK */
    uint32_t timestamps;                     /* 1: GPU times can be measured */
    double timestamp_period_ns;
    /* Of a context's facts alone: vkattn_enumerate_devices leaves them at 0, since some drivers end the process when
     * they are asked. Its kernels tell of COOPMAT what the other facts say. */
    uint32_t matrix_shape_count;
    uint32_t kernel_count;
    const vkattn_matrix_shape *matrix_shapes;
    const vkattn_kernel_support *kernels;
} vkattn_device_facts;

/* Lists every Vulkan device with its facts, in the order of the loader: devices, a list of vkattn_device_facts, none where there is
 * no device.
 *
 * get_instance_proc_addr may be NULL: the system's Vulkan loader is opened
 * Fails with VKATTN_ERROR_NO_VULKAN without a loader. */
VKATTN_API vkattn_result vkattn_enumerate_devices(PFN_vkGetInstanceProcAddr get_instance_proc_addr,
                                                  vkattn_list *devices);

/* What is known of a device beyond what it reports, and what it reports that can be lowered. Defaults: what vkattn's
 * table says of the device (docs/devices.md), and where it says nothing, what is given here. 0 and 1 are no and
 * yes. */
typedef enum vkattn_trait_name {
    /* loop iterations of one shader invocation after which the driver ends its loops, silently; 0, the default: never */
    VKATTN_TRAIT_MAX_LOOP_ITERATIONS = 0,
    /* 1: a load through one device address for a whole workgroup is a cheap scalar load, as on CPU drivers; default 0 */
    VKATTN_TRAIT_SCALAR_ADDRESS_LOADS = 1,
    /* rows up to which linear layers read through device addresses; 0, the default: none */
    VKATTN_TRAIT_MOST_ADDRESSED_LINEAR_ROWS = 2,
    /* invocations of a subgroup that may each load through an address of its own; 0, the default: any number */
    VKATTN_TRAIT_WIDEST_DIVERGENT_ADDRESSES = 3,
    /* workgroups that fill the device; default: 4 for each shader core, 512 (integrated: 128) if that is unknown */
    VKATTN_TRAIT_PARALLEL_WORKGROUPS = 4,
    /* millions of operations that one dispatch may compute, and one submission of vkattn_run and vkattn_submit; what
     * moves data counts as 8 operations an element. 0: any number. Default: on discrete GPUs 30000 for each shader core,
     * 100000 where their number is unknown, 0 on CPUs, else 10000 */
    VKATTN_TRAIT_MAX_DISPATCH_MEGAFLOPS = 5,
    /* 1, the default: the driver's compiler takes unpackHalf2x16 */
    VKATTN_TRAIT_UNPACKS_HALVES = 6,
    /* 1, the default: specialisation constants size a shader's arrays; matters where VKATTN_TRAIT_SPECIALISED_MODULES is 0 */
    VKATTN_TRAIT_SPECIALISED_ARRAYS = 7,
    /* 1, the default but on CPUs: a shader's numbers are checked before a plan first takes it */
    VKATTN_TRAIT_SELF_TEST = 8,
    /* rows of one more matrix shape, of f16, where the driver's dimensions are flexible; 0, the default: none */
    VKATTN_TRAIT_MATRIX_M = 9,
    /* columns of that shape; default 0 */
    VKATTN_TRAIT_MATRIX_N = 10,
    /* what that shape sums over; default 0 */
    VKATTN_TRAIT_MATRIX_K = 11,
    /* 1, the default: matrix units are faster than plain arithmetic, and preferred. 2: they are not; they are taken where
     * a kernel is asked for by its name, and tuning tries them. 0: they are never used, and the driver is not asked for
     * their shapes, over which some end the process */
    VKATTN_TRAIT_MATRIX_UNITS = 12,
    /* invocations of a subgroup up to which the driver compiles matrices; 0, the default: any number */
    VKATTN_TRAIT_WIDEST_MATRIX_SUBGROUP = 13,
    /* 1, the default: loops over matrices are unrolled */
    VKATTN_TRAIT_UNROLL_MATRICES = 14,
    /* f32 sums that an invocation of coopmat holds in registers; default 128 */
    VKATTN_TRAIT_MATRIX_OUTPUTS = 15,
    /* query rows of a KV head from which matrix units are preferred; default 8 */
    VKATTN_TRAIT_FEWEST_MATRIX_ROWS = 16,

    /* From here on: the member of vkattn_device_facts of that name, in its unit; the default is what the device
     * reports, which is also the most. */
    VKATTN_TRAIT_MAX_SHARED_MEMORY_BYTES = 17,
    VKATTN_TRAIT_MAX_WORKGROUP_INVOCATIONS = 18,
    VKATTN_TRAIT_MAX_PUSH_CONSTANTS_BYTES = 19,
    VKATTN_TRAIT_MAX_STORAGE_BUFFER_RANGE = 20, /* bytes */
    VKATTN_TRAIT_SUBGROUP_FEATURES = 21,        /* VkSubgroupFeatureFlags */
    VKATTN_TRAIT_SUBGROUP_SIZE_CONTROL = 22,
    VKATTN_TRAIT_SHADER_FLOAT16 = 23,
    VKATTN_TRAIT_STORAGE_16BIT = 24,
    VKATTN_TRAIT_STORAGE_8BIT = 25,
    VKATTN_TRAIT_PUSH_DESCRIPTORS = 26,
    VKATTN_TRAIT_BUFFERS_HAVE_ADDRESSES = 27,
    VKATTN_TRAIT_COOPERATIVE_MATRIX = 28,
    VKATTN_TRAIT_COOPERATIVE_MATRIX_REDUCTIONS = 29,
    VKATTN_TRAIT_MAX_STORAGE_BUFFERS_PER_STAGE = 30,
    VKATTN_TRAIT_GPU_CLASS = 31,
    VKATTN_TRAIT_MAX_WORKGROUP_COUNT = 32, /* of each axis; larger grids take several dispatches */
    /* 1: dot products of four bytes (integer_dot_product) are preferred where K is q8_0, on GPUs whose shapes have them; the
     * default is the fact signed_integer_dot_product */
    VKATTN_TRAIT_BYTE_PRODUCTS = 33,
    /* 1, the default: subgroup operations are right; 0: no shader with any is taken */
    VKATTN_TRAIT_SUBGROUP_OPERATIONS = 34,
    /* 1, the default: the library specialises each module before the driver sees it: constants are plain, functions inlined, and
     * what constants rule out is left out, which drivers compile several times as fast; 0: the driver is given whole modules */
    VKATTN_TRAIT_SPECIALISED_MODULES = 35,
    /* 1: layers of f16 or bf16 keep what lies between their steps in that type, where the device computes in it; 0: in f32. By
     * itself 1 but on CPUs, which convert at every load */
    VKATTN_TRAIT_HALF_WORKSPACES = 36,
    VKATTN_TRAIT_COUNT = 37,
    VKATTN_TRAIT_MAX_ENUM = 0x7fffffff
} vkattn_trait_name;

/* Returns "max_loop_iterations", "scalar_address_loads", ...: the enumerator in small letters. "unknown" for other
 * numbers. Never NULL. */
VKATTN_API const char *vkattn_trait_text(vkattn_trait_name name);

/* A trait of a device, set: a pair that grows by new names. */
typedef struct vkattn_trait {
    vkattn_trait_name name;
    uint64_t value; /* at most 4294967295, but of max_storage_buffer_range */
} vkattn_trait;

#ifdef __cplusplus
}
#endif

#endif
