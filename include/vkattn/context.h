/* Contexts: a Vulkan device in use, of its own or yours. */
#ifndef VKATTN_CONTEXT_H
#define VKATTN_CONTEXT_H

#include <vkattn/devices.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A Vulkan device in use. */
typedef struct vkattn_context_opaque *vkattn_context;

/* What a message asks of you. */
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
 *   submit            NULL: vkQueueSubmit. Else called in its place, with submit_user and its arguments, from the threads of the
 *                     calls that use queue or transfer_queue: make it where other threads of yours use them, and hold the lock of
 *                     the queue in it and nowhere around a call of vkattn. It must not call vkattn
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
 *   shared_plan_count plans that the context keeps by their descriptions, those that were used last: making a plan of the same
 *                     description again gives it, without a check or a compilation, as graph executors want it. Descriptions are
 *                     compared by their bytes, so zero what lies between members; of attention's tensors strides that are left
 *                     out are the same as those of a contiguous one. Plans of caches and of layers are not kept. 0: none is
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
    VkResult (*submit)(void *user, VkQueue queue, uint32_t count, const VkSubmitInfo *submits, VkFence fence);
    void *submit_user;
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
    uint32_t shared_plan_count;
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

/* Of vkattn_context_info.tune_budget_ms: what a context may spend on measuring, while an application runs, what vkattn_tune,
 * vkattn_tune_attention_backward and vkattn_tune_linear measure when they are called.
 *
 * Before the first plan of attention, of its gradients or of a linear layer, also of those in layers, of a class that neither this context has
 * measured nor saved_data knows (problems that one choice serves, as vkattn_tune says), its candidates are timed on the
 * context's queue, on buffers of their own, as long as the budget lasts; the plan then takes the fastest. vkattn_context_save
 * keeps what was found: contexts that start from it measure those classes no more. Other threads that make plans of unknown
 * classes wait meanwhile. What only asks (vkattn_layer_measure, vkattn_explain) measures nothing; nor is anything measured for
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

/* Returns the device extensions that make vkattn better where a device has them, count of them: enable those that exist. The array
 * and its texts are static. */
VKATTN_API const char *const *vkattn_wanted_extensions(uint32_t *count);

/* Creates a context. info may be NULL: defaults for every member. On failure *context is NULL. */
VKATTN_API vkattn_result vkattn_context_create(const vkattn_context_info *info, vkattn_context *context);

/* Destroys a context, as objects are destroyed: what has been made with it keeps what it needs, in any order, and the device goes with
 * the last. NULL is ignored. That last destruction waits for what vkattn_submit, vkattn_program_submit and the transfers have
 * submitted; of what you have recorded nothing may then be pending on the device. */
VKATTN_API void vkattn_context_destroy(vkattn_context context);

/* Fills in the facts of the context's device. push_descriptors tells whether the context uses them (a wrapped device must have
 * enabled the extension); the other flags tell what the device has. What they point to stays until the context is destroyed. */
VKATTN_API vkattn_result vkattn_context_facts(vkattn_context context, vkattn_device_facts *facts);

/* What the context has learned, for vkattn_context_info.saved_data of a later run: the driver's compiled pipelines
 * (unless you gave a pipeline_cache), the verdicts of the self-test, and what tuning found.
 * bytes: in, the room in data; out, the size. data may be NULL to ask for the size, which may grow while other threads
 * make plans: fails then with VKATTN_ERROR_NO_ROOM. Of every version the data begin with the text "vkattn". */
VKATTN_API vkattn_result vkattn_context_save(vkattn_context context, void *data, uint64_t *bytes);

/* The Vulkan handles in use, for those who let vkattn make the device. Owned by the context. Any pointer may be
 * NULL. */
VKATTN_API vkattn_result vkattn_context_handles(vkattn_context context, VkInstance *instance,
                                                VkPhysicalDevice *physical_device, VkDevice *device, VkQueue *queue,
                                                uint32_t *queue_family);

#ifdef __cplusplus
}
#endif

#endif
