/* Results, tensors, devices, contexts, buffers and plans: what all of vkattn.h stands on.
 *
 * How the interface grows. A program that was compiled against one version runs with every later one of the same
 * major version:
 *   What the program fills in begins with struct_size, the structure's size as the program knows it, and may get more members at
 *   its end. Members that a program does not know are 0, which means what was before. What a newer program knows beyond the
 *   library must be 0, else the call fails. In C write VKATTN_SIZED(type) as the first initialiser, as in
 *   vkattn_norm_desc desc = {VKATTN_SIZED(vkattn_norm_desc), .input = ...}; in C++ the structure fills it in by itself.
 *   Zero the rest. A struct_size of 0, or one that no version has, is an error.
 *   Structures without struct_size never change: vkattn_tensor, vkattn_binding, vkattn_semaphore, vkattn_trait, vkattn_weight,
 *   vkattn_rope_scaling, vkattn_recurrent_states, vkattn_bound_plan, vkattn_memory.
 *   What the library fills in may get more members at its end. Calls therefore take its size as the program knows it
 *   (sizeof), of arrays the distance from one to the next. No more than that is written; what the library does not know of it
 *   yet is zeroed.
 *   What the library only shows, by a pointer that it gives, one at a time, may get more members at its end.
 *   Numbers are added to enumerations; those that there are keep their meaning. */
#ifndef VKATTN_CORE_H
#define VKATTN_CORE_H

#include <stddef.h>
#include <stdint.h>
#include <vulkan/vulkan_core.h>

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

/* The first member of what a program fills in, and the first initialiser of such a structure in C. */
#ifdef __cplusplus
#define VKATTN_STRUCT_SIZE(type) uint32_t struct_size = sizeof(type)
#else
#define VKATTN_STRUCT_SIZE(type) uint32_t struct_size
#endif
#define VKATTN_SIZED(type) .struct_size = sizeof(type)

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------ results */

typedef enum vkattn_result {
    VKATTN_SUCCESS = 0,
    VKATTN_ERROR_INVALID_ARGUMENT = -1, /* an argument breaks its documented contract */
    VKATTN_ERROR_UNSUPPORTED = -2,      /* a right request that this device or this build cannot serve */
    VKATTN_ERROR_NO_VULKAN = -3,        /* no Vulkan loader, or it has no usable driver */
    VKATTN_ERROR_NO_DEVICE = -4,        /* no device matches the request */
    VKATTN_ERROR_OUT_OF_HOST_MEMORY = -5,
    VKATTN_ERROR_OUT_OF_DEVICE_MEMORY = -6,
    VKATTN_ERROR_DEVICE_LOST = -7, /* for good: whatever needs the device fails so from then on; see vkattn_wait */
    VKATTN_ERROR_VULKAN = -8,      /* any other Vulkan failure; the message holds the VkResult */
    VKATTN_ERROR_INTERNAL = -9,    /* a defect of vkattn: please report it */
    VKATTN_RESULT_MAX_ENUM = 0x7fffffff
} vkattn_result;

/* Returns the message of the last call that failed on the calling thread: one line, no newline, never NULL, "" if
 * none failed. Valid until the next failing call on this thread. */
VKATTN_API const char *vkattn_last_error(void);

/* Returns the name of a result, for instance "VKATTN_ERROR_UNSUPPORTED". Never NULL. */
VKATTN_API const char *vkattn_result_name(vkattn_result result);

/* Returns the version of the library in use as "major.minor.patch". Never NULL. */
VKATTN_API const char *vkattn_version(void);

/* ------------------------------------------------------------------------------------------------ tensors */

typedef enum vkattn_type {
    VKATTN_TYPE_NONE = 0, /* the tensor is absent */
    VKATTN_TYPE_F32 = 1,
    VKATTN_TYPE_F16 = 2,
    VKATTN_TYPE_BF16 = 3,
    VKATTN_TYPE_BOOL = 4, /* one byte a value, 0 or not 0 */
    VKATTN_TYPE_I32 = 5,
    VKATTN_TYPE_Q8_0 = 6, /* ggml's blocks; which tensors may have it, vkattn_enumerate_types says */
    VKATTN_TYPE_Q4_0 = 7,
    VKATTN_TYPE_Q4_1 = 8,
    VKATTN_TYPE_Q5_0 = 9,
    VKATTN_TYPE_Q5_1 = 10,
    VKATTN_TYPE_IQ4_NL = 11,
    VKATTN_TYPE_F8_E4M3 =
        12, /* OCP's floats of 8 bits, of caches alone; what is beyond the largest is stored as that */
    VKATTN_TYPE_F8_E5M2 = 13,
    VKATTN_TYPE_Q4_K = 14, /* ggml's blocks of 256, of weights alone */
    VKATTN_TYPE_Q5_K = 15,
    VKATTN_TYPE_Q6_K = 16,
    VKATTN_TYPE_MAX_ENUM = 0x7fffffff
} vkattn_type;

typedef enum vkattn_type_kind {
    VKATTN_TYPE_KIND_FLOAT = 1,
    VKATTN_TYPE_KIND_INTEGER = 2,
    VKATTN_TYPE_KIND_BOOL = 3,
    VKATTN_TYPE_KIND_QUANTISED = 4, /* blocks of numbers, which share a scale but in f8 */
    VKATTN_TYPE_KIND_MAX_ENUM = 0x7fffffff
} vkattn_type_kind;

/* What a type is stored in, and which tensors may have it.
 *
 * name                         for instance "q8_0"; static
 * block_elements, block_bytes  what is stored together: 1 element, or a block of a quantised type
 * number_bits                  of an element's number
 * has_minimum                  1: an element is scale * number + minimum; 0: scale * number (of iq4_nl, the number's entry
 *                              in ggml's list), or of no quantised type
 * key_value, cache, weight     1: K and V of attention, the cache of an append, weights may have the type */
typedef struct vkattn_type_info {
    vkattn_type type;
    vkattn_type_kind kind;
    const char *name;
    uint32_t block_elements;
    uint32_t block_bytes;
    uint32_t number_bits;
    uint32_t has_minimum;
    uint32_t key_value;
    uint32_t cache;
    uint32_t weight;
} vkattn_type_info;

/* Describes all types but VKATTN_TYPE_NONE, in the order of their numbers.
 * count: in, the elements of infos; out, how many types there are. infos: NULL to ask for the number alone.
 * stride: sizeof(vkattn_type_info). */
VKATTN_API vkattn_result vkattn_enumerate_types(uint32_t *count, vkattn_type_info *infos, size_t stride);

/* The layout of a tensor inside a bound buffer region.
 *
 * shape[0..rank-1] are sizes, outermost first, at most 2^29, and 0 where the operator's comment says so; strides are in
 * elements. All strides zero means contiguous.
 * A stride of 0 in a dimension of size > 1 broadcasts (inputs only). offset is in elements, from the bound offset.
 * From its first element to its last a tensor spans at most 2^32 elements, and at most the device's
 * max_storage_buffer_range of bytes; attention takes larger ones by heads, linear and embedding larger weights by rows.
 * Rows of quantised tensors are contiguous; their sizes, strides and offsets are multiples of the elements of a block:
 * 32, of q4_K, q5_K and q6_K 256 (vkattn_type_info.block_elements). A tensor of type VKATTN_TYPE_NONE is absent; the rest of
 * it is then ignored. */
typedef struct vkattn_tensor {
    vkattn_type type;
    uint32_t rank; /* 1..4 */
    uint64_t shape[4];
    uint64_t strides[4];
    uint64_t offset;
} vkattn_tensor;

/* Returns the bytes that a bound region must hold for this tensor, counted from the bound offset and rounded up to a
 * multiple of 4 (kernels read whole 32-bit words). 0 for an absent tensor, and for one without elements. */
VKATTN_API uint64_t vkattn_tensor_bytes(const vkattn_tensor *tensor);

/* What a bound region is for. The comments give the tensor's meaning; shapes are those of the description. */
typedef enum vkattn_role {
    VKATTN_ROLE_WORKSPACE = 0, /* scratch of vkattn_requirements.workspace_bytes; contents need not survive */
    VKATTN_ROLE_QUERY = 1,
    VKATTN_ROLE_KEY = 2,
    VKATTN_ROLE_VALUE = 3,
    VKATTN_ROLE_OUTPUT = 4,
    VKATTN_ROLE_LOG_SUM_EXP = 5,
    VKATTN_ROLE_ATTN_MASK = 6,
    VKATTN_ROLE_KEY_PADDING_MASK = 7,
    VKATTN_ROLE_KEY_LENGTHS = 8,
    VKATTN_ROLE_PAST_LENGTHS = 9,
    VKATTN_ROLE_ALIBI_SLOPES = 10,
    VKATTN_ROLE_SINKS = 11,
    VKATTN_ROLE_ATTN_WEIGHTS = 12,
    VKATTN_ROLE_QK_MATMUL_OUTPUT = 13,
    VKATTN_ROLE_PAST_KEY = 14,
    VKATTN_ROLE_PAST_VALUE = 15,
    VKATTN_ROLE_PRESENT_KEY = 16,
    VKATTN_ROLE_PRESENT_VALUE = 17,
    VKATTN_ROLE_CU_SEQLENS_Q = 18,
    VKATTN_ROLE_CU_SEQLENS_K = 19,
    VKATTN_ROLE_BLOCK_TABLE = 20,
    VKATTN_ROLE_PARTIAL_OUTPUT = 21,
    VKATTN_ROLE_PARTIAL_LOG_SUM_EXP = 22,
    VKATTN_ROLE_INPUT = 23,
    VKATTN_ROLE_WEIGHT = 24,
    VKATTN_ROLE_BIAS = 25,
    VKATTN_ROLE_MULTIPLIER = 26,
    VKATTN_ROLE_RESIDUAL = 27,
    VKATTN_ROLE_TOKENS = 28,
    VKATTN_ROLE_BLOCK_MASK = 29,
    VKATTN_ROLE_SOURCE = 30, /* of an append: the new rows */
    VKATTN_ROLE_CACHE = 31,  /* of an append: where they go */
    VKATTN_ROLE_KEY_INDICES = 32,
    VKATTN_ROLE_INDICES = 33,    /* of top_k and index: what they found */
    VKATTN_ROLE_CAPTURED_0 = 34, /* what functions of a variant read: variants.h */
    VKATTN_ROLE_CAPTURED_1 = 35,
    VKATTN_ROLE_CAPTURED_2 = 36,
    VKATTN_ROLE_CAPTURED_3 = 37,
    VKATTN_ROLE_KEY_SCALES = 38, /* vkattn_kv_scales; of an append: those of cache */
    VKATTN_ROLE_VALUE_SCALES = 39,
    VKATTN_ROLE_NORM_WEIGHT = 40, /* vkattn_input_norm */
    VKATTN_ROLE_DECAY = 41,       /* of linear attention: recurrence.h */
    VKATTN_ROLE_BETA = 42,
    VKATTN_ROLE_INITIAL_STATE = 43, /* vkattn_recurrent_states */
    VKATTN_ROLE_FINAL_STATE = 44,
    VKATTN_ROLE_STATE_SLOTS = 45,
    VKATTN_ROLE_TOKEN_STATES = 46,
    VKATTN_ROLE_ACCEPTED = 47,
    VKATTN_ROLE_COUNT = 48,
    VKATTN_ROLE_MAX_ENUM = 0x7fffffff
} vkattn_role;

/* One buffer region for one role.
 *
 * buffer must have been created with VK_BUFFER_USAGE_STORAGE_BUFFER_BIT
 * offset is in bytes and must be a multiple of 16 (VKATTN_ROLE_WORKSPACE: of vkattn_requirements.workspace_alignment)
 * bytes from there on belong to the region, which must hold vkattn_tensor_bytes of the role's tensor: a smaller one is
 *   refused. 0: to the end of the buffer, of buffers and caches of vkattn's own; yours need their size
 * A role whose tensor has no elements, since a size is 0, may be bound or left out; its buffer is not looked at. */
typedef struct vkattn_binding {
    vkattn_role role;
    VkBuffer buffer;
    VkDeviceSize offset;
    VkDeviceSize bytes;
} vkattn_binding;

/* ------------------------------------------------------------------------------------------------ devices */

/* The kernels of the operator attention: vkattn_plan_report names the one that a plan took, vkattn_explain what each
 * would make of a problem. */
typedef enum vkattn_kernel {
    VKATTN_KERNEL_AUTO = 0,          /* the best one that serves the problem */
    VKATTN_KERNEL_UNFUSED = 1,       /* three shaders; the only one that can return weights and scores */
    VKATTN_KERNEL_FLASH = 2,         /* online softmax; nothing of size q_len x kv_len in memory */
    VKATTN_KERNEL_DECODE = 3,        /* few query rows: the keys are split over workgroups, and the parts merged */
    VKATTN_KERNEL_COOPMAT = 4,       /* on matrix units (VK_KHR_cooperative_matrix): f16 or bf16 factors, f32 sums */
    VKATTN_KERNEL_COOPMAT2 = 5,      /* reserved: refused. COOPMAT does what it did, without its extension */
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
    /* Why not, or what of it has failed the self-test and is off; "" if all is well. Stays until the context is
     * destroyed; of devices without one, for ever. */
    const char *reason;
} vkattn_kernel_support;

/* A product of matrices, m x k by k x n, that a subgroup computes on matrix units; sums are F32. */
typedef struct vkattn_matrix_shape {
    uint32_t m, n, k;
    vkattn_type type; /* of the factors: F16 or BF16 */
} vkattn_matrix_shape;

#define VKATTN_MAX_MATRIX_SHAPES 32
#define VKATTN_MAX_KERNELS 32

/* Facts of a device. Sizes are bytes unless said otherwise; flags are 0 or 1. vkattn itself does not use storage_8bit,
 * shader_int8, max_push_constants_bytes and portability_subset: they are given for your own shaders and reports. */
typedef struct vkattn_device_facts {
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
    uint32_t vulkan_memory_model;   /* with device scope */
    uint32_t subgroup_size_control; /* full subgroups of a size that the pipeline asks for */
    uint32_t cooperative_matrix;
    uint32_t cooperative_matrix_reductions; /* conversions and operations per element too: VK_NV_cooperative_matrix2 */
    uint32_t max_loop_iterations; /* of one shader invocation in all its loops, as far as known; 0: no limit */
    uint32_t pipeline_executable_properties; /* 1: the driver can tell what its compiler made of shaders: shaders.h */
    uint32_t portability_subset;             /* 1: an incomplete Vulkan over another API, for instance MoltenVK */
    uint32_t timestamps;                     /* 1: GPU times can be measured */
    double timestamp_period_ns;
    /* Of a context's facts alone: vkattn_enumerate_devices leaves them at 0, since some drivers end the process when
     * they are asked. Its kernels tell of COOPMAT what the other facts say. */
    uint32_t matrix_shape_count;
    vkattn_matrix_shape matrix_shapes[VKATTN_MAX_MATRIX_SHAPES];
    uint32_t kernel_count;
    vkattn_kernel_support kernels[VKATTN_MAX_KERNELS];
    /* 1: dot products of four signed bytes with four others are accelerated
     * (integerDotProduct4x8BitPackedSignedAccelerated). 0: not, or unknown */
    uint32_t signed_integer_dot_product;
    /* 1: layers keep what lies between their steps in f16 where hidden states are f16, or vkattn_intermediate_type asks for it
     * (the trait half_workspaces, and shader_float16) */
    uint32_t half_workspaces;
} vkattn_device_facts;

/* Lists every Vulkan device with its facts.
 *
 * get_instance_proc_addr may be NULL: the system's Vulkan loader is opened
 * count: in, the room in facts; out, the number of devices. facts may be NULL to ask for the number alone; otherwise
 * at most *count entries are written, in the order of the loader, one every stride bytes (sizeof *facts).
 * Fails with VKATTN_ERROR_NO_VULKAN without a loader; zero devices is a success. */
VKATTN_API vkattn_result vkattn_enumerate_devices(PFN_vkGetInstanceProcAddr get_instance_proc_addr, uint32_t *count,
                                                  vkattn_device_facts *facts, size_t stride);

/* ------------------------------------------------------------------------------------------------ context */

typedef struct vkattn_context_opaque *vkattn_context;

typedef enum vkattn_severity {
    VKATTN_SEVERITY_INFO = 0,    /* nothing to do */
    VKATTN_SEVERITY_WARNING = 1, /* the call goes on, but not as asked */
    VKATTN_SEVERITY_ERROR = 2,   /* of the validation layers: Vulkan was used wrongly */
    VKATTN_SEVERITY_MAX_ENUM = 0x7fffffff
} vkattn_severity;

/* Receives messages of the Vulkan validation layers, and vkattn's own, which begin with "vkattn: ": one line, whole. May
 * be called from any thread; the text stays until it returns. */
typedef void (*vkattn_message_callback)(void *user, vkattn_severity severity, const char *message);

/* What the driver keeps of its compilations for vkattn_plan_shaders. */
typedef enum vkattn_shader_capture {
    VKATTN_SHADER_CAPTURE_NONE = 0,
    VKATTN_SHADER_CAPTURE_STATISTICS = 1, /* registers, spills, code size: what the driver counts */
    VKATTN_SHADER_CAPTURE_TEXTS = 2,      /* its texts too: machine code, and representations on the way there */
    VKATTN_SHADER_CAPTURE_MAX_ENUM = 0x7fffffff
} vkattn_shader_capture;

/* What device memory is for. */
typedef enum vkattn_memory_use {
    VKATTN_MEMORY_DEVICE = 0,   /* read and written by kernels and copies: device-local */
    VKATTN_MEMORY_UNIFORM = 1,  /* written by the host, read by kernels: mapped and coherent; small */
    VKATTN_MEMORY_UPLOAD = 2,   /* written by the host, read by copies: mapped and coherent */
    VKATTN_MEMORY_READBACK = 3, /* written by copies, read by the host: mapped, coherent, cached where there is such */
    VKATTN_MEMORY_USE_MAX_ENUM = 0x7fffffff
} vkattn_memory_use;

/* A buffer that wants memory. The library's. */
typedef struct vkattn_memory_request {
    VkBuffer buffer;                   /* not bound yet; vkattn binds it */
    VkMemoryRequirements requirements; /* of the buffer */
    VkMemoryAllocateFlags flags;       /* VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT where the memory must have it, else 0 */
    vkattn_memory_use use;
} vkattn_memory_request;

/* Memory for one buffer, given by the application.
 *
 * mapped      where the host sees the memory from offset on, coherently, until it is freed; NULL: it does not, which
 *             only memory of use DEVICE may say
 * allocation  anything of yours: comes back with the rest when the memory is freed */
typedef struct vkattn_memory {
    VkDeviceMemory memory;
    VkDeviceSize offset;
    void *mapped;
    void *allocation;
} vkattn_memory;

/* Device memory by the application, as an allocator such as VMA gives it: all that the context, its buffers, layers,
 * caches, workspaces, staging and self-tests take. May be called from any thread, and must not call vkattn. Hold no lock
 * around a call of vkattn that these callbacks take.
 *
 * allocate  returns VK_SUCCESS and fills in memory, or a VkResult that says why not
 * free      of what allocate gave; the buffer is destroyed by then */
typedef struct vkattn_memory_callbacks {
    VKATTN_STRUCT_SIZE(vkattn_memory_callbacks);
    VkResult (*allocate)(void *user, const vkattn_memory_request *request, vkattn_memory *memory);
    void (*free)(void *user, const vkattn_memory *memory);
    void *user;
} vkattn_memory_callbacks;

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

/* How to make a context: on a device of its own, or around yours.
 *
 * Own device (device is VK_NULL_HANDLE): every optional feature that the kernels can use is enabled where present, and
 * timelineSemaphore from Vulkan 1.2 on. If the facts then say buffers_have_addresses, buffers of your own making that
 * plans bind need VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT.
 *   device_selector   NULL or "": the first discrete, else integrated, else virtual GPU, else CPU, devices without
 *                     memory last; digits: that index of vkattn_enumerate_devices; otherwise: the first device whose
 *                     name contains it, ignoring case
 *   enable_validation 1: with VK_LAYER_KHRONOS_validation and its synchronisation validation; messages go to
 *                     message_callback. Fails with VKATTN_ERROR_UNSUPPORTED if the layer is not installed
 *
 * Wrapped device (device is set): nothing is created that the caller did not ask for; the handles must outlive the
 *   context. instance, physical_device, device, queue, queue_family: all required; the queue family must support
 *   compute
 *   api_version       the version that the instance and device were created for; at least VK_API_VERSION_1_1
 *   enabled_extensions  the device extensions that device was created with
 *   enabled_features  the chain that device was created with, as far as vkattn is concerned; NULL: none. Kernel coopmat
 *                     needs cooperativeMatrix, vulkanMemoryModel, vulkanMemoryModelDeviceScope, computeFullSubgroups
 *                     and shaderFloat16 (bf16: shaderBFloat16Type and shaderBFloat16CooperativeMatrix), and where
 *                     subgroups have several sizes subgroupSizeControl. Products with quantised weights are faster on
 *                     CPU drivers with storageBuffer16BitAccess. Products of f16 in pairs, of flash and linear
 *                     layers, need shaderMixedFloatDotProductFloat16AccFloat32 and shaderFloat16
 *   buffers_have_addresses  1: device was created with bufferDeviceAddress enabled, and every buffer that plans bind
 *                     has VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT (and memory allocated for it). Refused beside
 *                     enabled_features without that feature. Some devices, CPUs
 *                     above all, are several times faster so. 0: no buffer needs it
 *   transfer_queue, transfer_queue_family   a queue of device for vkattn_buffer_upload and vkattn_buffer_download;
 *                     VK_NULL_HANDLE: they take queue. Buffers that vkattn makes are then shared between the two families
 *   Features and extensions that help are listed by vkattn_wanted_extensions; none is required.
 *
 * Both:
 *   get_instance_proc_addr  NULL: the system's Vulkan loader is opened. Set it if your application loads Vulkan itself
 *   pipeline_cache    used for every pipeline if not VK_NULL_HANDLE; must outlive the context, and not be externally
 *                     synchronised: threads may compile side by side
 *   lock_queue, unlock_queue  called around every use of the queues; may be NULL if nobody else uses them. Do not hold
 *                     what lock_queue takes around these calls, which may use the queues; around all others you may:
 *                       vkattn_run, vkattn_submit, vkattn_program_run, vkattn_program_submit
 *                       vkattn_buffer_write, vkattn_buffer_read, vkattn_buffer_upload, vkattn_buffer_download
 *                       whatever makes a plan, vkattn_explain and vkattn_prewarm: a kernel is tested before its first use,
 *                       and candidates are measured within tune_budget_ms
 *                       vkattn_self_test, vkattn_self_test_each, vkattn_tune, vkattn_tune_linear
 *                       vkattn_layer_create
 *                       vkattn_cache_create, vkattn_cache_reserve, vkattn_cache_rewind, vkattn_cache_copy_sequence,
 *                       vkattn_cache_share_prefix, vkattn_cache_read
 *   memory            NULL: vkattn allocates device memory itself, within the budget that VK_EXT_memory_budget tells where
 *                     the device has it; or callbacks that do, copied
 *   debug_labels      1: every object and every dispatch has a name that RenderDoc, Nsight and validation layers show
 *                     (VK_EXT_debug_utils; a wrapped device's instance must have been created with it). Ignored where
 *                     that is missing
 *   saved_data, saved_bytes  NULL and 0, or what vkattn_context_save gave in an earlier run: pipelines then need not be
 *                     compiled nor kernels tested again. What is of another device, driver or version of the library,
 *                     or damaged, is ignored with a warning to message_callback; keep it where nobody else writes
 *   traits, trait_count  NULL and 0, or what you know better of the device than vkattn's table, and limits and features
 *                     that you lower to try a poorer device. Of a trait that is set twice the last value counts. Fails
 *                     with VKATTN_ERROR_INVALID_ARGUMENT for a limit above the device's own, and for a matrix shape that
 *                     it cannot have
 *   capture_shaders   what the driver keeps of its compilations, for vkattn_plan_shaders (shaders.h). Other than NONE
 *                     fails with VKATTN_ERROR_UNSUPPORTED where the driver lacks
 *                     VK_KHR_pipeline_executable_properties, or a wrapped device was created without the extension or
 *                     its feature pipelineExecutableInfo. Costs memory and some time of compilation, nothing later
 *   crash_journal     NULL, or the path of a crash journal, below: UTF-8, copied. It is made where there is none; keep it where nobody
 *                     else writes. Several contexts and processes may share it. Fails with VKATTN_ERROR_INVALID_ARGUMENT where it
 *                     cannot be read and written, or holds something else
 *   tune_budget_ms    milliseconds, of this context in all, for tuning unasked, below; 0: nothing is measured
 *   tune_gpus_alone   1: nothing is measured on a device of type VK_PHYSICAL_DEVICE_TYPE_CPU, whose driver takes long to compile;
 *                     0: on every device */
typedef struct vkattn_context_info {
    VKATTN_STRUCT_SIZE(vkattn_context_info);
    PFN_vkGetInstanceProcAddr get_instance_proc_addr;
    const char *device_selector;
    uint32_t enable_validation;
    vkattn_message_callback message_callback;
    void *message_user;

    VkInstance instance;
    VkPhysicalDevice physical_device;
    VkDevice device;
    VkQueue queue;
    uint32_t queue_family;
    uint32_t api_version;
    const char *const *enabled_extensions;
    uint32_t enabled_extension_count;
    const VkPhysicalDeviceFeatures2 *enabled_features;
    uint32_t buffers_have_addresses;
    VkPipelineCache pipeline_cache;
    void (*lock_queue)(void *user);
    void (*unlock_queue)(void *user);
    void *lock_user;
    const vkattn_trait *traits;
    uint32_t trait_count;
    const void *saved_data;
    uint64_t saved_bytes;
    vkattn_shader_capture capture_shaders;
    VkQueue transfer_queue;
    uint32_t transfer_queue_family;
    uint32_t debug_labels;
    const vkattn_memory_callbacks *memory;
    const char *crash_journal;
    uint32_t tune_budget_ms;
    uint32_t tune_gpus_alone;
} vkattn_context_info;

/* Of vkattn_context_info.crash_journal, a file that outlives the process when a driver ends it. Before a shader is first built,
 * and before it first runs, a line there says so; another says that it went well. What a process was at when it ended, by
 * itself or with the whole system, and what lost the device, is off in the next contexts with that file, on the same device,
 * driver, traits and version of the library: a driver that crashes costs one start. Shaders that survived once cost nothing
 * more. What saved_data has belongs beside it: the two tell of the same things.
 *
 * The first run of a plan by vkattn_run takes a submission for each of its dispatches' shaders. Of what vkattn_submit and
 * programs run first at once, the shader of the most code is blamed, and the others are tried again. What you submit yourself
 * (vkattn_record) is noted when it is built alone.
 *
 * Orderly ends count for nothing: exit, exceptions, contexts that are destroyed. A process that somebody kills while it tries a
 * shader cannot be told from a crash: call vkattn_withdraw_trials first, in your handler of SIGINT and SIGTERM. What was
 * condemned wrongly is tried again once the file is removed. */

/* Of vkattn_context_info.tune_budget_ms: what a context may spend on measuring, while an application runs, what vkattn_tune and
 * vkattn_tune_linear measure when they are called.
 *
 * Before the first plan of attention or of a linear layer, also of those in layers, of a class that neither this context has
 * measured nor saved_data knows (problems that one choice serves, as vkattn_tune says), its candidates are timed on the
 * context's queue, on buffers of their own, as long as the budget lasts; the plan then takes the fastest. vkattn_context_save
 * keeps what was found: contexts that start from it measure those classes no more. Other threads that make plans of unknown
 * classes wait meanwhile. What only asks (vkattn_layer_workspace, vkattn_explain) measures nothing; nor is anything measured for
 * batch_invariant problems, which follow no tuning, for those with weights or scores, and for variants, and nothing while the
 * device is at what vkattn_submit, vkattn_program_submit or transfers have submitted: the next plan of that class asks again.
 *
 * All counts that comes for the sake of measuring: buffers, building the candidates, their self-tests, their runs. A class has
 * half of what is left. A candidate is begun where what is left allows one as slow as the slowest so far, its compilation among
 * it, so that the whole may exceed the budget by one candidate. Where the end comes between candidates, the fastest of those
 * before is kept. Of a class whose share allows none beside what the plan takes anyway nothing is kept, and this context does not
 * ask for it again; the next one does. A candidate that cannot be built, runs out of memory or gives other numbers is passed
 * over; one that loses the device fails the plan with VKATTN_ERROR_DEVICE_LOST, and what this context saves has its class left
 * to the rule. Use a crash_journal beside it: a candidate over which a driver ends the process is then not tried again. */

/* Tells the process' crash journals that what is being tried now is not to blame for the end of the process. Safe in handlers of
 * signals; may be called at any time. */
VKATTN_API void vkattn_withdraw_trials(void);

/* Lists the device extensions that make vkattn better where a device has them. Enable the ones that exist.
 * count: in, the room in names; out, the number of extensions. names may be NULL. The strings are static. */
VKATTN_API void vkattn_wanted_extensions(uint32_t *count, const char **names);

/* Creates a context. info may be NULL: defaults for every member. On failure *context is NULL. */
VKATTN_API vkattn_result vkattn_context_create(const vkattn_context_info *info, vkattn_context *context);

/* Destroys a context. NULL is ignored. Waits for what vkattn_submit, vkattn_program_submit and the transfers have submitted;
 * of what you have recorded nothing may be pending on the device. */
VKATTN_API void vkattn_context_destroy(vkattn_context context);

/* Writes the facts of the context's device, size bytes of them (sizeof *facts). push_descriptors tells whether the context uses them (a wrapped device must
 * have enabled the extension); the other flags tell what the device has. */
VKATTN_API vkattn_result vkattn_context_facts(vkattn_context context, vkattn_device_facts *facts, size_t size);

/* What the context has learned, for vkattn_context_info.saved_data of a later run: the driver's compiled pipelines
 * (unless you gave a pipeline_cache), the verdicts of the self-test, and what vkattn_tune and vkattn_tune_linear found.
 * bytes: in, the room in data; out, the size. data may be NULL to ask for the size, which may grow while other threads
 * make plans: fails then with VKATTN_ERROR_INVALID_ARGUMENT. Of every version the data begin with the text "vkattn". */
VKATTN_API vkattn_result vkattn_context_save(vkattn_context context, uint64_t *bytes, void *data);

/* One check of the self-test. The texts stay until the thread's next self-test in the context, whose they are, until 1024
 * other threads have run one, or until the callback's return. The same goes for vkattn_candidate and vkattn_option. */
typedef struct vkattn_check {
    const char *name; /* a shader and a path of its code: "decode_subgroups, q8_0" */
    uint32_t passed;
    const char *reason; /* "" if passed */
    double milliseconds;
    uint32_t check_count; /* of the whole self-test, as far as is known: more follow where one fails */
} vkattn_check;

/* Checks the numbers of the shaders that plans take here (attention, copies into caches, linear layers), each path of
 * their code and every matrix shape by itself, on small problems, against float64 arithmetic on the host, on the context's
 * queue, and waits. What fails is off for the context from then on: its facts give the reason, and another shader, matrix
 * shape or kernel takes over. On GPUs each shader is checked before a plan first takes it, which takes the queue then; trait
 * VKATTN_TRAIT_SELF_TEST of 0 says not to. Where memory runs out, the call fails, and nothing is off for it. Where the device
 * is lost, the call fails; what lost it is off for contexts that start from what this one saves.
 * count: in, the room in checks; out, how many were written, or, where checks is NULL, how many there are: on today's
 *   devices VKATTN_MAX_CHECKS at most. vkattn_self_test_each shows any number. stride: sizeof *checks */
#define VKATTN_MAX_CHECKS 256
VKATTN_API vkattn_result vkattn_self_test(vkattn_context context, uint32_t *count, vkattn_check *checks, size_t stride);

/* Receives a check, in the thread of the self-test, which waits. It must not call the context, nor throw. */
typedef void (*vkattn_check_callback)(void *user, const vkattn_check *check);

/* The same, for those who show its progress: calls callback with each check once it is done. */
VKATTN_API vkattn_result vkattn_self_test_each(vkattn_context context, vkattn_check_callback callback, void *user);

/* One way of computing a problem, as vkattn_tune and vkattn_tune_linear tried it. The texts stay until the thread's next
 * tuning in the context, whose they are. */
typedef struct vkattn_candidate {
    vkattn_kernel kernel; /* VKATTN_KERNEL_AUTO of linear layers, whose tile names the shader */
    const char *tile;     /* "16x16x16 matrices, 4 x 1 subgroups, 64 keys, 2 parts" */
    double milliseconds;  /* of one run, a median; 0 where reason is given */
    uint32_t kept;        /* 1: what plans of such problems take from now on */
    const char *reason;   /* why it cannot be used; "" if it can */
} vkattn_candidate;

#define VKATTN_MAX_CANDIDATES 128

/* What has become of a context's tune_budget_ms.
 *
 * budget_ms   of the context: tune_budget_ms, or 0 where nothing is measured
 * spent_ms    so far; may exceed budget_ms by what one candidate took
 * classes     that were measured and are kept
 * candidates  that were timed for them
 * left_out    classes whose share of the budget allowed no candidate beside what the plan takes untuned */
typedef struct vkattn_tune_budget_report {
    double budget_ms;
    double spent_ms;
    uint32_t classes;
    uint32_t candidates;
    uint32_t left_out;
} vkattn_tune_budget_report;

/* Writes what the budget has gone into so far, by any thread; size: sizeof *report. Fails with VKATTN_ERROR_INVALID_ARGUMENT
 * for NULL. */
VKATTN_API vkattn_result vkattn_context_tune_budget(vkattn_context context, vkattn_tune_budget_report *report,
                                                    size_t size);

/* The Vulkan handles in use, for those who let vkattn make the device. Owned by the context. Any pointer may be
 * NULL. */
VKATTN_API vkattn_result vkattn_context_handles(vkattn_context context, VkInstance *instance,
                                                VkPhysicalDevice *physical_device, VkDevice *device, VkQueue *queue,
                                                uint32_t *queue_family);

/* ------------------------------------------------------------------------------------------------ buffers */

typedef struct vkattn_buffer_opaque *vkattn_buffer;

/* Creates a storage buffer in the best memory of the device (a convenience: any VkBuffer of yours serves as well).
 * Contents are undefined. bytes may be 0: the buffer then has room for nothing that is promised. */
VKATTN_API vkattn_result vkattn_buffer_create(vkattn_context context, uint64_t bytes, vkattn_buffer *buffer);

/* Destroys a buffer. NULL is ignored. The device must have finished with it. */
VKATTN_API void vkattn_buffer_destroy(vkattn_buffer buffer);

/* Returns the Vulkan handle, owned by the buffer. VK_NULL_HANDLE for NULL. */
VKATTN_API VkBuffer vkattn_buffer_handle(vkattn_buffer buffer);

/* Copies bytes from or to host memory and waits: first, on every device, for all that vkattn_wait waits for, so that a
 * read sees what was submitted before and a write does not change what that reads. Do not call them while something
 * submitted waits for a semaphore that the calling thread has yet to signal. What you recorded and submitted yourself
 * must be done before. What was written is visible to what is submitted on the context's queue later, by you too.
 * offset + bytes must lie within the buffer; bytes may be 0. */
VKATTN_API vkattn_result vkattn_buffer_write(vkattn_buffer buffer, uint64_t offset, const void *data, uint64_t bytes);
VKATTN_API vkattn_result vkattn_buffer_read(vkattn_buffer buffer, uint64_t offset, void *data, uint64_t bytes);

/* A semaphore that a submission waits for or signals.
 *
 * value   of a timeline semaphore: what it must reach, or is set to; of a binary one ignored: 0 */
typedef struct vkattn_semaphore {
    VkSemaphore semaphore;
    uint64_t value;
} vkattn_semaphore;

/* What a submission waits for before it begins, and what it signals when it is done. Timeline semaphores need the device's
 * feature timelineSemaphore. */
typedef struct vkattn_sync {
    VKATTN_STRUCT_SIZE(vkattn_sync);
    const vkattn_semaphore *waits;
    uint32_t wait_count;
    const vkattn_semaphore *signals;
    uint32_t signal_count;
} vkattn_sync;

/* Copy as vkattn_buffer_write and vkattn_buffer_read do, but only submit, on the transfer queue where there is one.
 *
 * upload    data is read before the call returns
 * download  data is written by some call of this context until vkattn_wait returns: leave it alone until then
 * sync      NULL: nothing to wait for or signal. Nothing else orders these copies against other submissions. What a
 *           semaphore orders is also visible; a wait covers transfers and compute shaders */
VKATTN_API vkattn_result vkattn_buffer_upload(vkattn_buffer buffer, uint64_t offset, const void *data, uint64_t bytes,
                                              const vkattn_sync *sync);
VKATTN_API vkattn_result vkattn_buffer_download(vkattn_buffer buffer, uint64_t offset, void *data, uint64_t bytes,
                                                const vkattn_sync *sync);

/* Waits until all is done that vkattn_submit, vkattn_program_submit, vkattn_buffer_upload and vkattn_buffer_download have
 * submitted in this context before, by any thread. Does not use the queues. Once a call has failed with VKATTN_ERROR_DEVICE_LOST, this one
 * and all that submit work fail with it at once, and what was not downloaded by then never is: destroy the context. A
 * device that cannot be waited for, although it does not say that it is lost, is taken for lost; what it may still work
 * on is then never destroyed. */
VKATTN_API vkattn_result vkattn_wait(vkattn_context context);

/* ------------------------------------------------------------------------------------------------ plans */

typedef struct vkattn_plan_opaque *vkattn_plan;

/* What recording a plan needs from the caller.
 *
 * workspace_bytes     0: no VKATTN_ROLE_WORKSPACE needed. Exact: what the plan's own tensors take, nothing to spare
 * workspace_alignment what the workspace's bound offset must be a multiple of: 16 to 256, a power of two
 * descriptor_sets, storage_buffer_descriptors, uniform_buffer_descriptors   what one vkattn_record takes from
 *                     vkattn_record_info.descriptor_pool; all 0 on devices with push descriptors, which need no pool */
typedef struct vkattn_requirements {
    uint64_t workspace_bytes;
    uint64_t workspace_alignment;
    uint32_t descriptor_sets;
    uint32_t storage_buffer_descriptors;
    uint32_t uniform_buffer_descriptors;
} vkattn_requirements;

/* The choice that a plan made. The strings belong to the plan.
 *
 * kernel: AUTO for plans without attention
 * reason: one sentence that says why this kernel, and of each better one that the device can run why not
 *   (vkattn_explain tells of those that it cannot run, too); of linear, which shader and why. "" for other plans without
 *   attention */
typedef struct vkattn_report {
    vkattn_kernel kernel;
    const char *kernel_name;
    const char *reason;
    uint32_t dispatches; /* compute dispatches of one recording */
} vkattn_report;

/* How to record a plan.
 *
 * bindings: one per role that the plan's description names, and VKATTN_ROLE_WORKSPACE if the plan needs one; any order.
 *   A missing, repeated or unexpected role is an error that names it
 * descriptor_pool: where the requirements ask for descriptor sets, a pool with room for them; the sets must not be
 *   freed before the command buffer has finished. Ignored otherwise */
typedef struct vkattn_record_info {
    VKATTN_STRUCT_SIZE(vkattn_record_info);
    VkCommandBuffer command_buffer;
    VkDescriptorPool descriptor_pool;
    const vkattn_binding *bindings;
    uint32_t binding_count;
} vkattn_record_info;

/* Write what recording needs, and the choice made; size: sizeof of the structure. NULL of either is ignored. */
VKATTN_API void vkattn_plan_requirements(vkattn_plan plan, vkattn_requirements *requirements, size_t size);
VKATTN_API void vkattn_plan_report(vkattn_plan plan, vkattn_report *report, size_t size);

/* Records the plan's dispatches. Nothing is recorded on failure. Allocates no device memory, waits for nothing.
 *
 * Synchronisation: inputs must be visible to VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT / VK_ACCESS_SHADER_READ_BIT before;
 * outputs and the workspace are written there (VK_ACCESS_SHADER_WRITE_BIT): the caller places the barrier after.
 * Earlier reads of outputs, and earlier uses of the workspace, must have finished. Barriers between the plan's own
 * dispatches are recorded by vkattn. The command buffer must be recording, outside a render pass, on a compute queue
 * family. All of the plan's work is in the caller's submission, which systems end after some seconds: see
 * docs/performance.md, watchdogs. */
VKATTN_API vkattn_result vkattn_record(vkattn_plan plan, const vkattn_record_info *info);

/* Records the plan in a command buffer of its own, submits it on the context's queue and waits. Temporarily allocates
 * the workspace if no VKATTN_ROLE_WORKSPACE is bound. Work above VKATTN_TRAIT_MAX_DISPATCH_MEGAFLOPS takes several command
 * buffers and submissions, one after the other.
 * gpu_ms, if not NULL, receives the time between timestamps around the dispatches, or a negative value where the queue
 * has no timestamps. */
VKATTN_API vkattn_result vkattn_run(vkattn_plan plan, const vkattn_binding *bindings, uint32_t binding_count,
                                    double *gpu_ms);

/* Records the plan in a command buffer of the context's own and submits it on the context's queue, without a wait; long
 * work in several, as vkattn_run does: the first waits for what sync says, the last signals.
 * bindings: as vkattn_run's; the workspace, where none is bound, is kept until the device is done. Submissions on a queue
 * start in order; each waits for the writes of compute shaders and transfers submitted there earlier, so that plans need
 * no semaphores between each other. sync: NULL, or what else to wait for, and what to signal.
 * Neither the plan nor what is bound may be destroyed before the device is done: a signalled semaphore or vkattn_wait
 * says so. */
VKATTN_API vkattn_result vkattn_submit(vkattn_plan plan, const vkattn_binding *bindings, uint32_t binding_count,
                                       const vkattn_sync *sync);

/* Destroys a plan. NULL is ignored. Every command buffer that holds it must have finished. */
VKATTN_API void vkattn_plan_destroy(vkattn_plan plan);

#ifdef __cplusplus
}
#endif

#endif
