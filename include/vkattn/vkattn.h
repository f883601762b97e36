/* vkattn: attention for every Vulkan device.
 *
 * The life of a call:
 *
 *   vkattn_context   wraps a VkDevice (yours or its own)
 *   vkattn_plan      a described problem, checked; kernel chosen; pipelines built; workspace size known
 *   vkattn_record    writes the plan's dispatches into your VkCommandBuffer, with your buffers
 *   vkattn_run       (convenience) records, submits on the context's queue and waits
 *
 * Every structure may be zero-initialised: zero means "absent" or "default" in each member.
 * Everything that can fail on account of the problem fails in the plan, with a message that names the argument, what it
 * is and what was expected: see vkattn_last_error. No function aborts, throws or prints.
 *
 * Thread safety: the library has no shared mutable globals. A context may be used from many threads at once. A plan
 * and a layer are immutable after creation and may be recorded from many threads at once. Destroying an object needs
 * external synchronisation with every use of it. A VkCommandBuffer and its pool are externally synchronised by the
 * caller, as Vulkan demands. Destroy plans, layers and buffers before their context.
 *
 * Not stable before version 1.0: members may be added to structures.
 */
#ifndef VKATTN_VKATTN_H
#define VKATTN_VKATTN_H

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
    VKATTN_ERROR_DEVICE_LOST = -7,
    VKATTN_ERROR_VULKAN = -8,   /* any other Vulkan failure; the message holds the VkResult */
    VKATTN_ERROR_INTERNAL = -9, /* a defect of vkattn: please report it */
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
    VKATTN_TYPE_Q8_0 = 6, /* ggml's blocks of 32 values, 34 bytes each; caches only */
    VKATTN_TYPE_Q4_0 = 7, /* ggml's blocks of 32 values, 18 bytes each; caches only */
    VKATTN_TYPE_MAX_ENUM = 0x7fffffff
} vkattn_type;

/* The layout of a tensor inside a bound buffer region.
 *
 * shape[0..rank-1] are sizes, outermost first; strides are in elements. All strides zero means contiguous.
 * A stride of 0 in a dimension of size > 1 broadcasts (inputs only). offset is in elements, from the bound offset.
 * Rows of quantised tensors are contiguous; their sizes, strides and offsets are multiples of the 32 elements of a block.
 * A tensor of type VKATTN_TYPE_NONE is absent; the rest of it is then ignored. */
typedef struct vkattn_tensor {
    vkattn_type type;
    uint32_t rank; /* 1..4 */
    uint64_t shape[4];
    uint64_t strides[4];
    uint64_t offset;
} vkattn_tensor;

/* Returns the bytes that a bound region must hold for this tensor, counted from the bound offset and rounded up to a
 * multiple of 4 (kernels read whole 32-bit words). 0 for an absent tensor. */
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
    VKATTN_ROLE_COUNT = 23,
    VKATTN_ROLE_MAX_ENUM = 0x7fffffff
} vkattn_role;

/* One buffer region for one role.
 *
 * buffer must have been created with VK_BUFFER_USAGE_STORAGE_BUFFER_BIT
 * offset is in bytes and must be a multiple of 16 (VKATTN_ROLE_WORKSPACE: of vkattn_requirements.workspace_alignment);
 *   the region must hold vkattn_tensor_bytes of the role's tensor */
typedef struct vkattn_binding {
    vkattn_role role;
    VkBuffer buffer;
    VkDeviceSize offset;
} vkattn_binding;

/* ------------------------------------------------------------------------------------------------ devices */

/* The kernels of the operator attention. See vkattn_plan_report for the one a plan took. */
typedef enum vkattn_kernel {
    VKATTN_KERNEL_AUTO = 0,    /* the best one that serves the problem */
    VKATTN_KERNEL_UNFUSED = 1, /* three shaders; the only one that can return weights and scores */
    VKATTN_KERNEL_FLASH = 2,   /* online softmax; nothing of size q_len x kv_len in memory */
    VKATTN_KERNEL_DECODE = 3,  /* few query rows: the keys are split over workgroups, and the parts merged */
    VKATTN_KERNEL_COOPMAT =
        4, /* flash and decode on matrix units (VK_KHR_cooperative_matrix): f16 or bf16 factors, f32 sums */
    VKATTN_KERNEL_COOPMAT2 = 5, /* the same with scores and weights in registers (VK_NV_cooperative_matrix2) */
    VKATTN_KERNEL_COUNT = 6,
    VKATTN_KERNEL_MAX_ENUM = 0x7fffffff
} vkattn_kernel;

/* Returns "auto", "unfused", "flash", ... Never NULL. */
VKATTN_API const char *vkattn_kernel_name(vkattn_kernel kernel);

/* Whether a device can run a kernel, and if not, why. */
typedef struct vkattn_kernel_support {
    vkattn_kernel kernel;
    uint32_t supported;
    char reason[128]; /* "" if supported */
} vkattn_kernel_support;

/* A product of matrices, m x k by k x n, that a subgroup computes on matrix units; sums are F32. */
typedef struct vkattn_matrix_shape {
    uint32_t m, n, k;
    vkattn_type type; /* of the factors: F16 or BF16 */
} vkattn_matrix_shape;

/* Facts of a device. Sizes are bytes unless said otherwise; flags are 0 or 1. */
typedef struct vkattn_device_facts {
    uint32_t index; /* position in the enumeration; 0 for a wrapped device */
    char name[256];
    char driver_name[256]; /* "" where the driver does not tell */
    char driver_info[256];
    uint32_t vendor_id;
    uint32_t device_id;
    uint32_t driver_version; /* as the driver packs it */
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
    uint32_t subgroup_size;     /* invocations */
    uint32_t subgroup_features; /* VkSubgroupFeatureFlags in the compute stage, 0 if none */
    uint32_t push_descriptors;
    uint32_t storage_16bit;
    uint32_t shader_float16;
    uint32_t shader_int8;
    uint32_t storage_8bit;
    uint32_t buffer_device_address;
    uint32_t
        buffers_have_addresses; /* 1: kernels may read bound buffers through device addresses; see vkattn_context_info */
    uint32_t integer_dot_product;
    uint32_t vulkan_memory_model;   /* with device scope */
    uint32_t subgroup_size_control; /* full subgroups of a size that the pipeline asks for */
    uint32_t cooperative_matrix;
    uint32_t cooperative_matrix_reductions; /* conversions and operations per element too: VK_NV_cooperative_matrix2 */
    uint32_t max_loop_iterations; /* of one shader invocation in all its loops, as far as known; 0: no limit */
    uint32_t portability_subset;  /* 1: an incomplete Vulkan over another API, for instance MoltenVK */
    uint32_t timestamps;          /* 1: GPU times can be measured */
    double timestamp_period_ns;
    uint32_t matrix_shape_count;
    vkattn_matrix_shape matrix_shapes[16];
    uint32_t kernel_count;
    vkattn_kernel_support kernels[8];
} vkattn_device_facts;

/* Lists every Vulkan device with its facts.
 *
 * get_instance_proc_addr may be NULL: the system's Vulkan loader is opened
 * count: in, the room in facts; out, the number of devices. facts may be NULL to ask for the number alone; otherwise
 * at most *count entries are written, in the order of the loader.
 * Fails with VKATTN_ERROR_NO_VULKAN without a loader; zero devices is a success. */
VKATTN_API vkattn_result vkattn_enumerate_devices(PFN_vkGetInstanceProcAddr get_instance_proc_addr, uint32_t *count,
                                                  vkattn_device_facts *facts);

/* ------------------------------------------------------------------------------------------------ context */

typedef struct vkattn_context_opaque *vkattn_context;

/* Receives messages of the Vulkan validation layers, and warnings of vkattn's own. May be called from any thread. */
typedef void (*vkattn_message_callback)(void *user, const char *message);

/* How to make a context: on a device of its own, or around yours.
 *
 * Own device (device is VK_NULL_HANDLE): every optional feature that the kernels can use is enabled where present. If the
 * facts then say buffers_have_addresses, buffers of your own making that plans bind need
 * VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT.
 *   device_selector   NULL or "": the first discrete GPU, else integrated, else virtual, else CPU; digits: that index of
 *                     vkattn_enumerate_devices; otherwise: the first device whose name contains it, ignoring case
 *   enable_validation 1: with VK_LAYER_KHRONOS_validation and its synchronisation validation; messages go to
 *                     message_callback. Fails with VKATTN_ERROR_UNSUPPORTED if the layer is not installed
 *
 * Wrapped device (device is set): nothing is created that the caller did not ask for; the handles must outlive the context.
 *   instance, physical_device, device, queue, queue_family: all required; the queue family must support compute
 *   api_version       the version that the instance and device were created for; at least VK_API_VERSION_1_1
 *   enabled_extensions  the device extensions that device was created with
 *   enabled_features  the chain that device was created with, as far as vkattn is concerned; NULL: none. Kernel coopmat
 *                     needs cooperativeMatrix, vulkanMemoryModel, vulkanMemoryModelDeviceScope and shaderFloat16 (bf16:
 *                     shaderBFloat16Type and shaderBFloat16CooperativeMatrix), and is surer with subgroupSizeControl and
 *                     computeFullSubgroups; coopmat2 needs maintenance4, cooperativeMatrixReductions, -Conversions and
 *                     -PerElementOperations besides
 *   buffers_have_addresses  1: device was created with bufferDeviceAddress enabled, and every buffer that plans bind has
 *                     VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT (and memory allocated for it). Some devices, CPUs above
 *                     all, are several times faster so. 0: no buffer needs it
 *   Features and extensions that help are listed by vkattn_wanted_extensions; none is required.
 *
 * Both:
 *   get_instance_proc_addr  NULL: the system's Vulkan loader is opened. Set it if your application loads Vulkan itself
 *   pipeline_cache    used for every pipeline if not VK_NULL_HANDLE; must outlive the context, and not be externally
 *                     synchronised: threads may compile side by side
 *   lock_queue, unlock_queue  called around every use of the queue by vkattn_run and the buffer transfers; may be NULL
 *                     if no other thread uses the queue
 *   saved_data, saved_bytes  NULL and 0, or what vkattn_context_save gave in an earlier run: pipelines then need not be
 *                     compiled nor kernels tested again. What is of another device, driver or version of the library, or
 *                     damaged, is ignored with a warning to message_callback; keep it where nobody else writes
 *   device_traits     NULL, or what you know better of the device than vkattn's table: "name=number,name=number". It
 *                     follows the environment variable VKATTN_DEVICE_TRAITS, of the same form. Names: those of the
 *                     traits, and of limits and features that can be lowered, to try a poorer device: see README.md,
 *                     "Devices" */
typedef struct vkattn_context_info {
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
    const char *device_traits;
    const void *saved_data;
    uint64_t saved_bytes;
} vkattn_context_info;

/* Lists the device extensions that make vkattn better where a device has them. Enable the ones that exist.
 * count: in, the room in names; out, the number of extensions. names may be NULL. The strings are static. */
VKATTN_API void vkattn_wanted_extensions(uint32_t *count, const char **names);

/* Creates a context. info may be NULL: defaults for every member. On failure *context is NULL. */
VKATTN_API vkattn_result vkattn_context_create(const vkattn_context_info *info, vkattn_context *context);

/* Destroys a context. NULL is ignored. Waits for nothing: no work of it may be pending on the device. */
VKATTN_API void vkattn_context_destroy(vkattn_context context);

/* Writes the facts of the context's device. push_descriptors tells whether the context uses them (a wrapped device must
 * have enabled the extension); the other flags tell what the device has. */
VKATTN_API vkattn_result vkattn_context_facts(vkattn_context context, vkattn_device_facts *facts);

/* What the context has learned, for vkattn_context_info.saved_data of a later run: the driver's compiled pipelines (unless
 * you gave a pipeline_cache) and the verdicts of the self-test.
 * bytes: in, the room in data; out, the size. data may be NULL to ask for the size, which may grow while other threads
 * make plans: fails then with VKATTN_ERROR_INVALID_ARGUMENT. */
VKATTN_API vkattn_result vkattn_context_save(vkattn_context context, uint64_t *bytes, void *data);

/* One check of the self-test. */
typedef struct vkattn_check {
    char name[64]; /* "flash, many queries" */
    uint32_t passed;
    char reason[128]; /* "" if passed */
    double milliseconds;
} vkattn_check;

/* Checks the numbers of every kernel that the device can run, on small problems, against float64 arithmetic on the host,
 * on the context's queue, and waits. What fails is off for the context from then on: its facts give the reason, and the next
 * kernel takes over. On GPUs each kernel is checked so before a plan first chooses it, which takes the queue then; trait
 * self_test=0 of vkattn_context_info.device_traits says not to.
 * count: in, the room in checks; out, how many there are, 16 at most. checks may be NULL. */
VKATTN_API vkattn_result vkattn_self_test(vkattn_context context, uint32_t *count, vkattn_check *checks);

/* What a device reaches at most, measured: the lines of a roofline (Williams, Waterman and Patterson, 2009). */
typedef struct vkattn_peaks {
    double flops_per_second; /* of f32 multiply-adds outside matrix units, two operations each */
    double bytes_per_second; /* read, or read and written, from memory that no cache holds */
} vkattn_peaks;

/* Measures the peaks on the context's queue and waits; takes some tenths of a second, and up to 512 MiB of device memory
 * while it runs. */
VKATTN_API vkattn_result vkattn_measure_peaks(vkattn_context context, vkattn_peaks *peaks);

/* The Vulkan handles in use, for those who let vkattn make the device. Owned by the context. Any pointer may be NULL. */
VKATTN_API vkattn_result vkattn_context_handles(vkattn_context context, VkInstance *instance,
                                                VkPhysicalDevice *physical_device, VkDevice *device, VkQueue *queue,
                                                uint32_t *queue_family);

/* ------------------------------------------------------------------------------------------------ buffers */

typedef struct vkattn_buffer_opaque *vkattn_buffer;

/* Creates a storage buffer in the best memory of the device (a convenience: any VkBuffer of yours serves as well).
 * bytes must be > 0. Contents are undefined. */
VKATTN_API vkattn_result vkattn_buffer_create(vkattn_context context, uint64_t bytes, vkattn_buffer *buffer);

/* Destroys a buffer. NULL is ignored. The device must have finished with it. */
VKATTN_API void vkattn_buffer_destroy(vkattn_buffer buffer);

/* Returns the Vulkan handle, owned by the buffer. VK_NULL_HANDLE for NULL. */
VKATTN_API VkBuffer vkattn_buffer_handle(vkattn_buffer buffer);

/* Copies bytes from or to host memory and waits. offset + bytes must lie within the buffer; bytes may be 0. */
VKATTN_API vkattn_result vkattn_buffer_write(vkattn_buffer buffer, uint64_t offset, const void *data, uint64_t bytes);
VKATTN_API vkattn_result vkattn_buffer_read(vkattn_buffer buffer, uint64_t offset, void *data, uint64_t bytes);

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
 * reason: one sentence that says why this kernel and why not the better ones */
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
 * descriptor_pool: where the requirements ask for descriptor sets, a pool with room for them; the sets must not be freed
 *   before the command buffer has finished. Ignored otherwise */
typedef struct vkattn_record_info {
    VkCommandBuffer command_buffer;
    VkDescriptorPool descriptor_pool;
    const vkattn_binding *bindings;
    uint32_t binding_count;
} vkattn_record_info;

VKATTN_API void vkattn_plan_requirements(vkattn_plan plan, vkattn_requirements *requirements);
VKATTN_API void vkattn_plan_report(vkattn_plan plan, vkattn_report *report);

/* Records the plan's dispatches. Nothing is recorded on failure. Allocates no device memory, waits for nothing.
 *
 * Synchronisation: inputs must be visible to VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT / VK_ACCESS_SHADER_READ_BIT before;
 * outputs and the workspace are written there (VK_ACCESS_SHADER_WRITE_BIT): the caller places the barrier after. Earlier
 * reads of outputs, and earlier uses of the workspace, must have finished. Barriers between the plan's own dispatches
 * are recorded by vkattn. The command buffer must be recording, outside a render pass, on a compute queue family. */
VKATTN_API vkattn_result vkattn_record(vkattn_plan plan, const vkattn_record_info *info);

/* Records the plan in a command buffer of its own, submits it on the context's queue and waits. Temporarily allocates
 * the workspace if no VKATTN_ROLE_WORKSPACE is bound.
 * gpu_ms, if not NULL, receives the time between timestamps around the dispatches, or a negative value where the queue
 * has no timestamps. */
VKATTN_API vkattn_result vkattn_run(vkattn_plan plan, const vkattn_binding *bindings, uint32_t binding_count,
                                    double *gpu_ms);

/* Destroys a plan. NULL is ignored. Every command buffer that holds it must have finished. */
VKATTN_API void vkattn_plan_destroy(vkattn_plan plan);

/* ------------------------------------------------------------------------------------------------ attention */

typedef enum vkattn_mask_flags {
    VKATTN_MASK_NONE = 0,
    VKATTN_MASK_CAUSAL = 1, /* key j is visible to query i when j <= i + offset */
    VKATTN_MASK_WINDOW = 2, /* i + offset - window_left <= j <= i + offset + window_right */
    VKATTN_MASK_KEYS_TO_LAST_QUERY =
        4, /* j < offset + q_len: what lies behind in a cache of fixed capacity is hidden */
    VKATTN_MASK_FLAGS_MAX_ENUM = 0x7fffffff
} vkattn_mask_flags;

/* Where the diagonal lies when there is no past: offset 0, or kv_len - q_len. */
typedef enum vkattn_causal_alignment {
    VKATTN_CAUSAL_TOP_LEFT = 0,     /* PyTorch, ONNX */
    VKATTN_CAUSAL_BOTTOM_RIGHT = 1, /* FlashAttention */
    VKATTN_CAUSAL_ALIGNMENT_MAX_ENUM = 0x7fffffff
} vkattn_causal_alignment;

/* Which KV head query head h reads: h / (q_heads / kv_heads), or h % kv_heads. */
typedef enum vkattn_kv_head_mapping {
    VKATTN_KV_HEADS_GROUPED = 0,
    VKATTN_KV_HEADS_MODULO = 1,
    VKATTN_KV_HEAD_MAPPING_MAX_ENUM = 0x7fffffff
} vkattn_kv_head_mapping;

/* At which stage qk_matmul_output is taken (ONNX Attention, opset 25). */
typedef enum vkattn_score_stage {
    VKATTN_SCORES_SCALED = 0,  /* scale * Q K^T */
    VKATTN_SCORES_CAPPED = 1,  /* after softcap */
    VKATTN_SCORES_MASKED = 2,  /* after bias and masks; -inf where hidden */
    VKATTN_SCORES_WEIGHTS = 3, /* after softmax */
    VKATTN_SCORE_STAGE_MAX_ENUM = 0x7fffffff
} vkattn_score_stage;

/* One attention problem:
 *
 *     scores  = scale * Q K^T;  softcap;  + ALiBi and additive mask;  -inf where hidden
 *     weights = softmax(scores), with exp(sink) in the denominator if sinks are given
 *     output  = weights V;      lse = log(sum(exp(scores)))
 *
 * Sizes: B batch, Hq and Hkv query and KV heads, Lq and Lk query and key length, D and Dv head sizes, all >= 1.
 * query  [B,Hq,Lq,D], output [B,Hq,Lq,Dv]; key [B,Hkv,Lk,D]; value [B,Hkv,Lk,Dv]: required, rank 4; F32, F16 or BF16
 *        each, any strides ([B,L,H,D] storage is a choice of strides). Hq % Hkv == 0. D and Dv at most 576
 * value may be absent: V is then the first Dv (that of output) elements of each row of K, as in DeepSeek's absorbed MLA,
 *        and is read once for both where that helps
 * log_sum_exp [B,Hq,Lq] F32 contiguous: natural log, sink included, -inf for a query that sees no key (sink or not)
 * attn_mask  BOOL (non-zero = attend), F32 or F16 (added to the scores); [Lq|1,Lm], [B|1,Lq|1,Lm] (all heads) or
 *        [B|1,Hq|1,Lq|1,Lm] with Lm <= Lk: keys from Lm on are hidden; the last stride must be 1. An additive value
 *        of -inf, or below -1e38, hides the key
 * key_padding_mask [B,Lk] BOOL, non-zero = ignore the key
 * key_lengths [B] I32: keys j >= key_lengths[b] are hidden (values are clamped to 0..Lk)
 * past_lengths [B] I32: takes the place of past_len for each sequence (values are clamped to 0..2^30)
 * alibi_slopes [Hq] F32: adds -slope * |i + offset - j|;  sinks [Hq] F32: one logit per query head
 * attn_weights [B,Hq,Lq,Lk] F32 contiguous; qk_matmul_output the same, taken at score_stage: only kernel unfused
 * scale  0 means 1/sqrt(D);  softcap 0 means none; both finite
 * dropout_p  0 <= p < 1: each weight is zeroed with this probability, the others multiplied by 1/(1-p); log_sum_exp knows
 *        nothing of it, attn_weights are those after it. Which ones, Philox4x32-10 says: word j%4 of counter (j/4, i, h, b)
 *        under key dropout_seed (low word first), for query i, key j, query head h, batch entry or sequence b; a weight is
 *        dropped if its word is below p * 2^32. Every kernel drops the same
 * batch_invariant  1: the bits of a sequence's results do not depend on the other sequences of the call, on how many there
 *        are or how long they or the buffers; kernel flash without splits, possibly slower
 * offset of masks and ALiBi: past_lengths[b] if given, else past_len if > 0, else by causal_alignment
 * window_left, window_right: -1 means unbounded; read only with VKATTN_MASK_WINDOW
 *
 * Sequences of unequal length, all optional and freely combined; B is then the number of sequences. Kernel unfused has
 * none of it:
 * cu_seqlens_q [B+1] I32: queries lie packed, without padding, those of sequence b in rows cu_seqlens_q[b] to
 *        cu_seqlens_q[b+1] - 1. query [1,Hq,total,D], output [1,Hq,total,Dv], log_sum_exp [Hq,total]. Lq is
 *        max_seqlen_q, the longest sequence (0: total): what is longer is cut off. Masks count positions from the
 *        sequence's own start
 * cu_seqlens_k [B+1] I32: the same of keys: key [1,Hkv,total,D], value [1,Hkv,total,Dv]; Lk is max_seqlen_k (0: total)
 * block_table [B,N] I32: K and V lie in pages: key [pages,Hkv,P,D], value [pages,Hkv,P,Dv] with any strides, P a power of
 *        two and at least 8; positions n*P to n*P + P - 1 of sequence b lie in page block_table[b][n]. Lk is N * P; give
 *        key_lengths or past_lengths with VKATTN_MASK_KEYS_TO_LAST_QUERY, since pages behind them are not read. Not with
 *        cu_seqlens_k
 * With any of them, VKATTN_CAUSAL_BOTTOM_RIGHT is each sequence's own: its keys (key_lengths included) less its queries.
 * Lengths and page numbers are read when the commands run, so a recorded command buffer serves any lengths up to the
 * maxima; whatever they say, nothing outside the tensors is read or written.
 *
 * A query that sees no key has output 0, weights 0 and log_sum_exp -inf. Keys and values that no query sees may hold
 * anything, NaN included. */
typedef struct vkattn_attention_desc {
    vkattn_tensor query;
    vkattn_tensor key;
    vkattn_tensor value;
    vkattn_tensor output;
    vkattn_tensor log_sum_exp;
    vkattn_tensor attn_mask;
    vkattn_tensor key_padding_mask;
    vkattn_tensor key_lengths;
    vkattn_tensor past_lengths;
    vkattn_tensor alibi_slopes;
    vkattn_tensor sinks;
    vkattn_tensor attn_weights;
    vkattn_tensor qk_matmul_output;
    vkattn_tensor cu_seqlens_q;
    vkattn_tensor cu_seqlens_k;
    vkattn_tensor block_table;
    uint32_t max_seqlen_q;
    uint32_t max_seqlen_k;
    vkattn_score_stage score_stage;
    float scale;
    float softcap;
    float dropout_p;
    uint32_t batch_invariant;
    uint64_t dropout_seed;
    uint32_t mask_flags; /* vkattn_mask_flags */
    vkattn_causal_alignment causal_alignment;
    int32_t window_left;
    int32_t window_right;
    uint32_t past_len;
    vkattn_kv_head_mapping kv_head_mapping;
    vkattn_kernel kernel; /* VKATTN_KERNEL_AUTO, or one to insist on: an error if it cannot serve */
} vkattn_attention_desc;

/* Checks a problem, chooses a kernel and builds its pipelines (the first of a kind compiles: up to seconds on CPU drivers).
 * On failure *plan is NULL. */
VKATTN_API vkattn_result vkattn_attention_plan(vkattn_context context, const vkattn_attention_desc *desc,
                                               vkattn_plan *plan);

/* Rows to write into a cache: what appends K or V, in the cache's storage type. Quantised caches are rounded as ggml's
 * reference quantiser rounds.
 *
 * source        [B,H,L,D], F32, F16 or BF16, any strides; bound as VKATTN_ROLE_KEY
 * cache         [B,H,capacity,D], F32, F16, BF16, Q8_0 or Q4_0; bound as VKATTN_ROLE_PRESENT_KEY. Rows that are not
 *               written keep their bytes
 * offset        cache position of the first row
 * past_lengths  I32 [B], optional: takes the place of offset, sequence by sequence, read when the commands run
 * cu_seqlens    I32 [B+1], optional: source is packed, [1,H,total,D], as cu_seqlens_q of vkattn_attention_desc says; L is
 *               max_seqlen (0: total)
 * block_table   I32 [B,N], optional: cache is a pool of pages [pages,H,P,D], as in vkattn_attention_desc; the capacity is
 *               N * P
 * With offset, offset + L must be at most the capacity; with past_lengths, rows beyond the capacity are dropped. */
typedef struct vkattn_kv_append_desc {
    vkattn_tensor source;
    vkattn_tensor cache;
    uint32_t offset;
    vkattn_tensor past_lengths;
    vkattn_tensor cu_seqlens;
    vkattn_tensor block_table;
    uint32_t max_seqlen;
} vkattn_kv_append_desc;

/* Plans one append. Fails with VKATTN_ERROR_INVALID_ARGUMENT, naming the member, or VKATTN_ERROR_UNSUPPORTED. */
VKATTN_API vkattn_result vkattn_kv_append_plan(vkattn_context context, const vkattn_kv_append_desc *desc,
                                               vkattn_plan *plan);

/* Attention over disjoint sets of keys, joined: the output and log_sum_exp of each set give those of their union, as if
 * one call had seen all the keys (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018). For keys
 * split over devices, and for a prefix that many sequences share.
 *
 * part_count           sets, at least 1
 * partial_output       [B,Hq,Lq,Dv], that of the first set; F32, F16 or BF16, any strides; the next begins
 *                      partial_output_stride elements later; bound as VKATTN_ROLE_PARTIAL_OUTPUT
 * partial_log_sum_exp  [B,Hq,Lq] F32, any strides; the next set's begins partial_log_sum_exp_stride elements later; bound
 *                      as VKATTN_ROLE_PARTIAL_LOG_SUM_EXP. -inf: the set saw no key, and its output is not read. A sink
 *                      may be in one set only
 * output               [B,Hq,Lq,Dv], F32, F16 or BF16, any strides
 * log_sum_exp          [B,Hq,Lq] F32 contiguous, optional
 * accumulate           1: output and log_sum_exp hold one more set already, and are replaced by the union
 * Rows without any key become output 0, log_sum_exp -inf. */
typedef struct vkattn_merge_desc {
    uint32_t part_count;
    uint32_t accumulate;
    vkattn_tensor partial_output;
    vkattn_tensor partial_log_sum_exp;
    vkattn_tensor output;
    vkattn_tensor log_sum_exp;
    uint64_t partial_output_stride;
    uint64_t partial_log_sum_exp_stride;
} vkattn_merge_desc;

/* Plans one merge. Fails with VKATTN_ERROR_INVALID_ARGUMENT, naming the member, or VKATTN_ERROR_UNSUPPORTED. */
VKATTN_API vkattn_result vkattn_merge_plan(vkattn_context context, const vkattn_merge_desc *desc, vkattn_plan *plan);

/* ------------------------------------------------------------------------------------------------ layers */

typedef enum vkattn_layer_kind {
    VKATTN_LAYER_MHA = 0,           /* MHA, MQA, GQA */
    VKATTN_LAYER_LATENT_MHA = 1,    /* K and V in one shared latent head, lifted by up_proj per head */
    VKATTN_LAYER_LATENT_QUERY = 2,  /* learned latent queries read the sequence (Perceiver) */
    VKATTN_LAYER_MLA = 3,           /* DeepSeek multi-head latent attention */
    VKATTN_LAYER_COMPRESSED_KV = 4, /* joint projection, latents lifted by one decompress_matrix */
    VKATTN_LAYER_ENCODER = 5,       /* attention and feed-forward with LayerNorm */
    VKATTN_LAYER_MLA_BLOCK = 6,     /* x + mla(rms(x)), then + mlp(rms(x)) */
    VKATTN_LAYER_KIND_COUNT = 7,
    VKATTN_LAYER_KIND_MAX_ENUM = 0x7fffffff
} vkattn_layer_kind;

typedef enum vkattn_activation {
    VKATTN_ACTIVATION_NONE = 0,
    VKATTN_ACTIVATION_RELU = 1,
    VKATTN_ACTIVATION_GELU = 2, /* the exact (erf) form */
    VKATTN_ACTIVATION_SILU = 3,
    VKATTN_ACTIVATION_LEAKY_RELU = 4, /* slope 0.01 */
    VKATTN_ACTIVATION_MAX_ENUM = 0x7fffffff
} vkattn_activation;

typedef enum vkattn_mla_form {
    VKATTN_MLA_NAIVE = 0,  /* per-head K and V are expanded from the latent */
    VKATTN_MLA_ABSORB = 1, /* attention in the latent space; W_UK folded into the query, W_UV applied after */
    VKATTN_MLA_FORM_MAX_ENUM = 0x7fffffff
} vkattn_mla_form;

/* How a rotary embedding was stretched to longer contexts than it was trained for. */
typedef enum vkattn_rope_scaling_kind {
    VKATTN_ROPE_UNSCALED = 0,
    VKATTN_ROPE_LINEAR = 1, /* every frequency divided by factor */
    VKATTN_ROPE_LLAMA3 = 2, /* low frequencies divided by factor, high ones kept, a ramp between */
    VKATTN_ROPE_YARN = 3,   /* Peng et al., "YaRN", 2023 */
    VKATTN_ROPE_SCALING_KIND_MAX_ENUM = 0x7fffffff
} vkattn_rope_scaling_kind;

/* factor                 how many times longer; > 0
 * original_max_position  the length of training; LLAMA3 and YARN: > 0
 * low_freq_factor, high_freq_factor   LLAMA3: 0 < low < high
 * beta_fast, beta_slow   YARN: rotations within the original length between which the ramp lies; 0 means 32 and 1
 * attention_factor       YARN: multiplies the rotated vectors; 0 means 0.1 ln(factor) + 1 */
typedef struct vkattn_rope_scaling {
    vkattn_rope_scaling_kind kind;
    float factor;
    uint32_t original_max_position;
    float low_freq_factor;
    float high_freq_factor;
    float beta_fast;
    float beta_slow;
    float attention_factor;
} vkattn_rope_scaling;

/* The sizes of a layer. Members that a kind does not list are ignored.
 *
 * every kind       num_heads: query heads; rope_theta: base of the rotary embedding; rope_interleaved; rope_scaling;
 *                  scale (0: 1/sqrt of the size of Q and K heads); softcap (0: none); norm_epsilon (0: the kind's own)
 * MHA              embed_dim; num_kv_heads (0: num_heads), num_heads % num_kv_heads == 0; head_dim (0: embed_dim /
 *                  num_heads, which must divide); kv_head_mapping; rope_theta 0: no rotary embedding, else on Q and K
 * LATENT_MHA       embed_dim; latent_dim (= head size; embed_dim % num_heads == 0)
 * LATENT_QUERY     input_dim (width of the sequence); latent_dim (width of the latents, % num_heads == 0); num_latents
 * MLA              embed_dim ("dim"); qk_nope_head_dim, qk_rope_head_dim, v_head_dim; q_lora_rank (0: none);
 *                  kv_lora_rank; mla_form; rope_theta
 * COMPRESSED_KV    embed_dim ("d_model"); latent_dim; decompress_lora_rank (0: none); rope_theta (on Q only)
 * ENCODER          those of MHA; ffn_dim; activation; norm_first (1: pre-norm, 0: post-norm); LayerNorm eps 1e-5
 * MLA_BLOCK        those of MLA; mlp_ratio (hidden width = embed_dim * mlp_ratio); GELU; RMSNorm eps 1e-6 */
typedef struct vkattn_layer_config {
    vkattn_layer_kind kind;
    uint32_t embed_dim;
    uint32_t input_dim;
    uint32_t num_heads;
    uint32_t num_kv_heads;
    uint32_t head_dim;
    vkattn_kv_head_mapping kv_head_mapping;
    uint32_t latent_dim;
    uint32_t num_latents;
    uint32_t qk_nope_head_dim;
    uint32_t qk_rope_head_dim;
    uint32_t v_head_dim;
    uint32_t q_lora_rank;
    uint32_t kv_lora_rank;
    vkattn_mla_form mla_form;
    uint32_t decompress_lora_rank;
    uint32_t ffn_dim;
    vkattn_activation activation;
    uint32_t norm_first;
    uint32_t mlp_ratio;
    float rope_theta;
    uint32_t rope_interleaved; /* 1: pairs (2i, 2i+1); 0: rotate-half pairs (i, i + D/2) */
    vkattn_rope_scaling rope_scaling;
    float scale;
    float softcap;
    float norm_epsilon;
} vkattn_layer_config;

/* One named weight in host memory; copied by vkattn_layer_create. Contiguous, F32, F16 or BF16. */
typedef struct vkattn_weight {
    const char *name;     /* for instance "q_proj.weight" */
    vkattn_tensor tensor; /* strides and offset are ignored */
    const void *data;
} vkattn_weight;

typedef struct vkattn_layer_opaque *vkattn_layer;

/* Creates a layer and uploads its weights once. Linears are [out, in]; each has an optional .bias [out].
 *
 * MHA            q_proj [num_heads*head_dim, embed_dim], k_proj and v_proj [num_kv_heads*head_dim, embed_dim], out_proj
 *                [embed_dim, num_heads*head_dim]; q_norm.weight and k_norm.weight [head_dim], optional: RMSNorm of each
 *                head before the rotary embedding (eps 1e-6)
 * LATENT_MHA     q_proj [num_heads*latent_dim, embed_dim], kv_proj [2*latent_dim, embed_dim] (K latent, then V latent),
 *                up_proj [embed_dim, latent_dim]
 * LATENT_QUERY   latents [num_latents, latent_dim], q_proj and out_proj [latent_dim, latent_dim], k_proj and v_proj
 *                [latent_dim, input_dim]
 * MLA            wq [num_heads*(nope+rope), embed_dim], or wq_a [q_lora_rank, embed_dim], q_norm.weight [q_lora_rank], wq_b
 *                [num_heads*(nope+rope), q_lora_rank]; wkv_a [kv_lora_rank+rope, embed_dim], kv_norm.weight [kv_lora_rank],
 *                wkv_b [num_heads*(nope+v), kv_lora_rank] (per head: nope rows, then v rows), wo [embed_dim, num_heads*v]
 * COMPRESSED_KV  uqkv_proj [embed_dim+2*latent_dim, embed_dim], latent_proj [latent_dim, latent_dim], decompress_matrix
 *                [latent_dim, embed_dim], with a rank decompress_lora_a [latent_dim, rank] and decompress_lora_b [rank,
 *                embed_dim]; out_proj [embed_dim, embed_dim]
 * ENCODER        self_attn. and the names of MHA; ffn.fc1 [ffn_dim, embed_dim], ffn.fc2 [embed_dim, ffn_dim]; norm1 and
 *                norm2 .weight [embed_dim], .bias optional
 * MLA_BLOCK      attention. and the names of MLA; mlp.fc1 [embed_dim*mlp_ratio, embed_dim], mlp.fc2 [embed_dim,
 *                embed_dim*mlp_ratio]; norm1.weight and norm2.weight [embed_dim]
 * Missing, unknown and misshapen weights are all named in one message. On failure *layer is NULL. */
VKATTN_API vkattn_result vkattn_layer_create(vkattn_context context, const vkattn_layer_config *config,
                                             const vkattn_weight *weights, uint32_t weight_count, vkattn_layer *layer);

/* Destroys a layer. NULL is ignored. Destroy its plans first. */
VKATTN_API void vkattn_layer_destroy(vkattn_layer layer);

/* ------------------------------------------------------------------------------------------------ caches */

/* Keys and values of earlier tokens on the device, with room for a fixed number of them, and the number that each
 * sequence holds. A call of a layer that names a cache reads those numbers on the device, appends its tokens there and
 * counts them as its last step: a recorded command buffer, submitted again, goes on with the next token. */
typedef struct vkattn_cache_opaque *vkattn_cache;

/* layer       takes the sizes from it: MHA, ENCODER (K and V heads), MLA, MLA_BLOCK (one head of kv_lora_rank +
 *             qk_rope_head_dim, no values of its own), COMPRESSED_KV (the two latents). NULL: from the next three
 * kv_heads, head_dim, v_head_dim   for the operator attention; v_head_dim 0: the values are a part of the keys
 * batch       sequences; capacity: tokens of each, at most 2^29
 * key_type, value_type   F32, F16, BF16, Q8_0, Q4_0, independent of each other; quantised: sizes multiples of 32 */
typedef struct vkattn_cache_info {
    vkattn_layer layer;
    uint32_t kv_heads;
    uint32_t head_dim;
    uint32_t v_head_dim;
    uint32_t batch;
    uint32_t capacity;
    vkattn_type key_type;
    vkattn_type value_type;
} vkattn_cache_info;

typedef enum vkattn_cache_part {
    VKATTN_CACHE_KEYS = 0,    /* [batch, heads, capacity, head_dim] */
    VKATTN_CACHE_VALUES = 1,  /* [batch, heads, capacity, v_head_dim] */
    VKATTN_CACHE_LENGTHS = 2, /* I32 [batch]: past_lengths of the operators */
    VKATTN_CACHE_PART_MAX_ENUM = 0x7fffffff
} vkattn_cache_part;

/* Creates an empty cache and allocates its device memory, all of it. The layer may be destroyed before the cache.
 * On failure *cache is NULL. */
VKATTN_API vkattn_result vkattn_cache_create(vkattn_context context, const vkattn_cache_info *info,
                                             vkattn_cache *cache);

/* Destroys a cache. NULL is ignored. Destroy the plans of calls that name it first; nothing may be pending. */
VKATTN_API void vkattn_cache_destroy(vkattn_cache cache);

/* Returns the bytes of device memory. 0 for NULL. */
VKATTN_API uint64_t vkattn_cache_bytes(vkattn_cache cache);

/* Writes the tokens that each sequence holds as far as the host has counted: batch numbers. */
VKATTN_API vkattn_result vkattn_cache_lengths(vkattn_cache cache, uint32_t *lengths);

/* Counts an append of so many tokens to every sequence, before the commands that make it are submitted.
 * Fails with VKATTN_ERROR_INVALID_ARGUMENT, and counts nothing, if a sequence has no room: nothing must then be submitted.
 * vkattn_run calls it; after vkattn_record, call it before each submission. Whatever the host says, kernels never write
 * beyond the capacity. */
VKATTN_API vkattn_result vkattn_cache_reserve(vkattn_cache cache, uint32_t tokens);

/* Forgets all tokens of a sequence but its first `length`. No commands of the cache may be pending, here and below. */
VKATTN_API vkattn_result vkattn_cache_rewind(vkattn_cache cache, uint32_t sequence, uint32_t length);

/* Makes a sequence hold what another holds, of the same cache or of one with the same heads, sizes and types in the same
 * context. Waits. */
VKATTN_API vkattn_result vkattn_cache_copy_sequence(vkattn_cache from, uint32_t from_sequence, vkattn_cache to,
                                                    uint32_t to_sequence);

/* Reads KEYS or VALUES of a sequence as f32, dequantised: [heads, length, size], count numbers in all. Waits. */
VKATTN_API vkattn_result vkattn_cache_read(vkattn_cache cache, vkattn_cache_part part, uint32_t sequence, float *values,
                                           uint64_t count);

/* Gives the layout and the buffer of a part, at offset 0, to bind it in plans of the operators. Owned by the cache. */
VKATTN_API vkattn_result vkattn_cache_tensor(vkattn_cache cache, vkattn_cache_part part, vkattn_tensor *tensor,
                                             VkBuffer *buffer);

/* ------------------------------------------------------------------------------------------------ calls of layers */

/* One use of a layer: the tensors around it.
 *
 * query [B,Lq,width] is the layer's input, output its result: F32, F16 or BF16 each, last stride 1. Widths are embed_dim,
 *   but for LATENT_QUERY: query [B,Lk,input_dim], output [B,num_latents,latent_dim]
 * key and value [B,Lk,embed_dim]: MHA, for cross attention; LATENT_MHA takes key alone. Absent: taken from query
 * past_key, past_value: the cache so far, P tokens, copied in front of the new ones; both or neither
 * present_key, present_value: receive the whole cache, P + Lk tokens; both or neither. With past_len = P and no past_key,
 *   their first P tokens are taken as already there: an in-place cache
 *   MHA, ENCODER: [B,Hkv,P,head_dim]; COMPRESSED_KV: the two latents [B,P,latent_dim]; MLA, MLA_BLOCK: past_key and
 *   present_key alone, [B,P,kv_lora_rank+qk_rope_head_dim]. F32, F16 or BF16
 * attn_mask, key_padding_mask, key_lengths, attn_weights, mask_flags, causal_alignment, windows: as in
 *   vkattn_attention_desc, with Lk counting the past
 * cache: in place of past_* and present_*: the call's tokens are appended to it. Lk is then its capacity, of which keys
 *   beyond the tokens held are hidden, and its lengths are the positions; past_len must be 0 and key and value absent.
 *   The plan must be destroyed before the cache
 * past_len: tokens in the cache before this call, and the position of the first new one; must equal P where past_key is
 *   given (or be 0: taken from it) */
typedef struct vkattn_layer_call {
    vkattn_tensor query;
    vkattn_tensor key;
    vkattn_tensor value;
    vkattn_tensor output;
    vkattn_tensor past_key;
    vkattn_tensor past_value;
    vkattn_tensor present_key;
    vkattn_tensor present_value;
    vkattn_tensor attn_mask;
    vkattn_tensor key_padding_mask;
    vkattn_tensor key_lengths;
    vkattn_tensor attn_weights;
    uint32_t mask_flags;
    vkattn_causal_alignment causal_alignment;
    int32_t window_left;
    int32_t window_right;
    uint32_t past_len;
    vkattn_kernel kernel;
    vkattn_cache cache;
} vkattn_layer_call;

/* Plans one use of a layer: the whole layer then records as one plan. On failure *plan is NULL. */
VKATTN_API vkattn_result vkattn_layer_plan(vkattn_layer layer, const vkattn_layer_call *call, vkattn_plan *plan);

/* Writes the workspace that such a call takes on this device, exactly as vkattn_requirements says it of the plan, without
 * the layer: its weights, optional ones apart, are only thought of. Compiles and allocates nothing. */
VKATTN_API vkattn_result vkattn_layer_workspace(vkattn_context context, const vkattn_layer_config *config,
                                                const vkattn_layer_call *call, uint64_t *workspace_bytes);

#ifdef __cplusplus
}
#endif

#endif
