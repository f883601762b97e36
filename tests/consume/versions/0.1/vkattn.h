/* The declarations of version 0.1: keep.py wrote this. */
#ifndef VKATTN_RESULTS_H
#define VKATTN_RESULTS_H
#include <stddef.h>
#include <stdint.h>
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
#define VKATTN_STRUCT_SIZE(type) uint32_t struct_size = sizeof(type)
#else
#define VKATTN_STRUCT_SIZE(type) uint32_t struct_size
#endif
#define VKATTN_SIZED(type) .struct_size = sizeof(type)
#ifdef __cplusplus
extern "C" {
#endif
typedef enum vkattn_result {
    VKATTN_SUCCESS = 0,
    VKATTN_ERROR_INVALID_ARGUMENT = -1,
    VKATTN_ERROR_UNSUPPORTED = -2,
    VKATTN_ERROR_NO_VULKAN = -3,
    VKATTN_ERROR_NO_DEVICE = -4,
    VKATTN_ERROR_OUT_OF_HOST_MEMORY = -5,
    VKATTN_ERROR_OUT_OF_DEVICE_MEMORY = -6,
    VKATTN_ERROR_DEVICE_LOST = -7,
    VKATTN_ERROR_VULKAN = -8,
    VKATTN_ERROR_INTERNAL = -9,
    VKATTN_ERROR_NO_ROOM = -10,
    VKATTN_ERROR_COMPILE = -11,
    VKATTN_ERROR_TIMEOUT = -12,
    VKATTN_RESULT_MAX_ENUM = 0x7fffffff
} vkattn_result;
typedef struct vkattn_failure {
    vkattn_result result;
    const char *message;
    const char *member;
    uint32_t entry;
    uint32_t line;
    uint32_t column;
} vkattn_failure;
VKATTN_API const vkattn_failure *vkattn_last_failure(void);
VKATTN_API const char *vkattn_last_error(void);
VKATTN_API const char *vkattn_result_name(vkattn_result result);
VKATTN_API const char *vkattn_version(void);
typedef struct vkattn_list_opaque *vkattn_list;
VKATTN_API uint32_t vkattn_list_count(vkattn_list list);
VKATTN_API const void *vkattn_list_get(vkattn_list list, uint32_t index);
VKATTN_API void vkattn_list_destroy(vkattn_list list);
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
#define VKATTN_PRESENT(number)                                                                                         \
    { 1, (number) }
#ifdef __cplusplus
}
#endif
#endif
#ifndef VKATTN_TENSORS_H
#define VKATTN_TENSORS_H
#include <vulkan/vulkan_core.h>
#ifdef __cplusplus
extern "C" {
#endif
typedef enum vkattn_type {
    VKATTN_TYPE_NONE = 0,
    VKATTN_TYPE_F32 = 1,
    VKATTN_TYPE_F16 = 2,
    VKATTN_TYPE_BF16 = 3,
    VKATTN_TYPE_BOOL = 4,
    VKATTN_TYPE_I32 = 5,
    VKATTN_TYPE_Q8_0 = 6,
    VKATTN_TYPE_Q4_0 = 7,
    VKATTN_TYPE_Q4_1 = 8,
    VKATTN_TYPE_Q5_0 = 9,
    VKATTN_TYPE_Q5_1 = 10,
    VKATTN_TYPE_IQ4_NL = 11,
    VKATTN_TYPE_F8_E4M3 = 12,
    VKATTN_TYPE_F8_E5M2 = 13,
    VKATTN_TYPE_Q4_K = 14,
    VKATTN_TYPE_Q5_K = 15,
    VKATTN_TYPE_Q6_K = 16,
    VKATTN_TYPE_MAX_ENUM = 0x7fffffff
} vkattn_type;
typedef enum vkattn_type_kind {
    VKATTN_TYPE_KIND_FLOAT = 1,
    VKATTN_TYPE_KIND_INTEGER = 2,
    VKATTN_TYPE_KIND_BOOL = 3,
    VKATTN_TYPE_KIND_QUANTISED = 4,
    VKATTN_TYPE_KIND_MAX_ENUM = 0x7fffffff
} vkattn_type_kind;
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
VKATTN_API vkattn_result vkattn_enumerate_types(vkattn_list *types);
typedef struct vkattn_tensor {
    vkattn_type type;
    uint32_t rank;
    uint64_t shape[4];
    uint64_t strides[4];
    uint64_t offset;
} vkattn_tensor;
VKATTN_API uint64_t vkattn_tensor_bytes(const vkattn_tensor *tensor);
typedef enum vkattn_role {
    VKATTN_ROLE_WORKSPACE = 0,
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
    VKATTN_ROLE_SOURCE = 30,
    VKATTN_ROLE_CACHE = 31,
    VKATTN_ROLE_KEY_INDICES = 32,
    VKATTN_ROLE_INDICES = 33,
    VKATTN_ROLE_CAPTURED_0 = 34,
    VKATTN_ROLE_CAPTURED_1 = 35,
    VKATTN_ROLE_CAPTURED_2 = 36,
    VKATTN_ROLE_CAPTURED_3 = 37,
    VKATTN_ROLE_KEY_SCALES = 38,
    VKATTN_ROLE_VALUE_SCALES = 39,
    VKATTN_ROLE_NORM_WEIGHT = 40,
    VKATTN_ROLE_DECAY = 41,
    VKATTN_ROLE_BETA = 42,
    VKATTN_ROLE_INITIAL_STATE = 43,
    VKATTN_ROLE_FINAL_STATE = 44,
    VKATTN_ROLE_STATE_SLOTS = 45,
    VKATTN_ROLE_TOKEN_STATES = 46,
    VKATTN_ROLE_ACCEPTED = 47,
    VKATTN_ROLE_VALUES = 48,
    VKATTN_ROLE_TREE_MASK = 49,
    VKATTN_ROLE_POSITIONS = 50,
    VKATTN_ROLE_D_OUTPUT = 51,
    VKATTN_ROLE_D_QUERY = 52,
    VKATTN_ROLE_D_KEY = 53,
    VKATTN_ROLE_D_VALUE = 54,
    VKATTN_ROLE_D_ATTN_MASK = 55,
    VKATTN_ROLE_D_SINKS = 56,
    VKATTN_ROLE_D_INPUT = 57,
    VKATTN_ROLE_D_WEIGHT = 58,
    VKATTN_ROLE_D_BIAS = 59,
    VKATTN_ROLE_D_GATE = 60,
    VKATTN_ROLE_LABELS = 61,
    VKATTN_ROLE_LOSS = 62,
    VKATTN_ROLE_MEAN_LOSS = 63,
    VKATTN_ROLE_LOSS_SCALE = 64,
    VKATTN_ROLE_SQUARED_NORM = 65,
    VKATTN_ROLE_GOOD_STEPS = 66,
    VKATTN_ROLE_FACTOR = 67,
    VKATTN_ROLE_STEP = 68,
    VKATTN_ROLE_PARAMETER = 69,
    VKATTN_ROLE_GRADIENT = 70,
    VKATTN_ROLE_FIRST_MOMENT = 71,
    VKATTN_ROLE_SECOND_MOMENT = 72,
    VKATTN_ROLE_LEARNING_RATE = 73,
    VKATTN_ROLE_COPY = 74,
    VKATTN_ROLE_COUNT = 75,
    VKATTN_ROLE_MAX_ENUM = 0x7fffffff
} vkattn_role;
typedef struct vkattn_region {
    VkBuffer buffer;
    VkDeviceSize offset;
    VkDeviceSize bytes;
} vkattn_region;
typedef struct vkattn_binding {
    vkattn_role role;
    vkattn_region region;
} vkattn_binding;
#ifdef __cplusplus
}
#endif
#endif
#ifndef VKATTN_DEVICES_H
#define VKATTN_DEVICES_H
#ifdef __cplusplus
extern "C" {
#endif
typedef enum vkattn_kernel {
    VKATTN_KERNEL_AUTO = 0,
    VKATTN_KERNEL_UNFUSED = 1,
    VKATTN_KERNEL_FLASH = 2,
    VKATTN_KERNEL_DECODE = 3,
    VKATTN_KERNEL_COOPMAT = 4,
    VKATTN_KERNEL_COOPMAT2 = 5,
    VKATTN_KERNEL_LATENT_DECODE = 6,
    VKATTN_KERNEL_ADDRESSES = 7,
    VKATTN_KERNEL_COUNT = 8,
    VKATTN_KERNEL_MAX_ENUM = 0x7fffffff
} vkattn_kernel;
VKATTN_API const char *vkattn_kernel_name(vkattn_kernel kernel);
typedef struct vkattn_kernel_support {
    vkattn_kernel kernel;
    uint32_t supported;
    const char *reason;
} vkattn_kernel_support;
typedef struct vkattn_matrix_shape {
    uint32_t m, n, k;
    vkattn_type type;
} vkattn_matrix_shape;
typedef struct vkattn_device_facts {
    VKATTN_STRUCT_SIZE(vkattn_device_facts);
    uint32_t index;
    char name[256];
    char driver_name[256];
    char driver_info[256];
    uint32_t vendor_id;
    uint32_t device_id;
    uint32_t driver_version;
    uint32_t driver_id;
    uint32_t api_version;
    VkPhysicalDeviceType device_type;
    uint8_t device_uuid[16];
    uint8_t driver_uuid[16];
    uint64_t device_memory_bytes;
    uint64_t max_buffer_bytes;
    uint64_t max_storage_buffer_range;
    uint64_t min_storage_buffer_offset_alignment;
    uint32_t max_storage_buffers_per_stage;
    uint32_t max_push_constants_bytes;
    uint32_t max_shared_memory_bytes;
    uint32_t max_workgroup_invocations;
    uint32_t max_workgroup_count[3];
    uint32_t subgroup_size;
    uint32_t min_subgroup_size;
    uint32_t max_subgroup_size;
    uint32_t subgroup_features;
    uint32_t shader_cores;
    uint32_t max_subgroups_per_core;
    uint32_t push_descriptors;
    uint32_t storage_16bit;
    uint32_t shader_float16;
    uint32_t shader_int8;
    uint32_t storage_8bit;
    uint32_t buffer_device_address;
    uint32_t buffers_have_addresses;
    uint32_t integer_dot_product;
    uint32_t mixed_integer_dot_product;
    uint32_t signed_integer_dot_product;
    uint32_t vulkan_memory_model;
    uint32_t subgroup_size_control;
    uint32_t cooperative_matrix;
    uint32_t cooperative_matrix_reductions;
    uint32_t half_workspaces;
    uint32_t max_loop_iterations;
    uint32_t pipeline_executable_properties;
    uint32_t portability_subset;
    uint32_t timestamps;
    double timestamp_period_ns;
    uint32_t matrix_shape_count;
    uint32_t kernel_count;
    const vkattn_matrix_shape *matrix_shapes;
    const vkattn_kernel_support *kernels;
} vkattn_device_facts;
VKATTN_API vkattn_result vkattn_enumerate_devices(PFN_vkGetInstanceProcAddr get_instance_proc_addr,
                                                  vkattn_list *devices);
typedef enum vkattn_trait_name {
    VKATTN_TRAIT_MAX_LOOP_ITERATIONS = 0,
    VKATTN_TRAIT_SCALAR_ADDRESS_LOADS = 1,
    VKATTN_TRAIT_MOST_ADDRESSED_LINEAR_ROWS = 2,
    VKATTN_TRAIT_WIDEST_DIVERGENT_ADDRESSES = 3,
    VKATTN_TRAIT_PARALLEL_WORKGROUPS = 4,
    VKATTN_TRAIT_MAX_DISPATCH_MEGAFLOPS = 5,
    VKATTN_TRAIT_UNPACKS_HALVES = 6,
    VKATTN_TRAIT_SPECIALISED_ARRAYS = 7,
    VKATTN_TRAIT_SELF_TEST = 8,
    VKATTN_TRAIT_MATRIX_M = 9,
    VKATTN_TRAIT_MATRIX_N = 10,
    VKATTN_TRAIT_MATRIX_K = 11,
    VKATTN_TRAIT_MATRIX_UNITS = 12,
    VKATTN_TRAIT_WIDEST_MATRIX_SUBGROUP = 13,
    VKATTN_TRAIT_UNROLL_MATRICES = 14,
    VKATTN_TRAIT_MATRIX_OUTPUTS = 15,
    VKATTN_TRAIT_FEWEST_MATRIX_ROWS = 16,
    VKATTN_TRAIT_MAX_SHARED_MEMORY_BYTES = 17,
    VKATTN_TRAIT_MAX_WORKGROUP_INVOCATIONS = 18,
    VKATTN_TRAIT_MAX_PUSH_CONSTANTS_BYTES = 19,
    VKATTN_TRAIT_MAX_STORAGE_BUFFER_RANGE = 20,
    VKATTN_TRAIT_SUBGROUP_FEATURES = 21,
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
    VKATTN_TRAIT_MAX_WORKGROUP_COUNT = 32,
    VKATTN_TRAIT_BYTE_PRODUCTS = 33,
    VKATTN_TRAIT_SUBGROUP_OPERATIONS = 34,
    VKATTN_TRAIT_SPECIALISED_MODULES = 35,
    VKATTN_TRAIT_HALF_WORKSPACES = 36,
    VKATTN_TRAIT_COUNT = 37,
    VKATTN_TRAIT_MAX_ENUM = 0x7fffffff
} vkattn_trait_name;
VKATTN_API const char *vkattn_trait_text(vkattn_trait_name name);
typedef struct vkattn_trait {
    vkattn_trait_name name;
    uint64_t value;
} vkattn_trait;
#ifdef __cplusplus
}
#endif
#endif
#ifndef VKATTN_CONTEXT_H
#define VKATTN_CONTEXT_H
#ifdef __cplusplus
extern "C" {
#endif
typedef struct vkattn_context_opaque *vkattn_context;
typedef enum vkattn_severity {
    VKATTN_SEVERITY_INFO = 0,
    VKATTN_SEVERITY_WARNING = 1,
    VKATTN_SEVERITY_ERROR = 2,
    VKATTN_SEVERITY_MAX_ENUM = 0x7fffffff
} vkattn_severity;
typedef void (*vkattn_message_callback)(void *user, vkattn_severity severity, const char *message);
typedef enum vkattn_shader_capture {
    VKATTN_SHADER_CAPTURE_NONE = 0,
    VKATTN_SHADER_CAPTURE_STATISTICS = 1,
    VKATTN_SHADER_CAPTURE_TEXTS = 2,
    VKATTN_SHADER_CAPTURE_MAX_ENUM = 0x7fffffff
} vkattn_shader_capture;
typedef enum vkattn_memory_use {
    VKATTN_MEMORY_DEVICE = 0,
    VKATTN_MEMORY_UNIFORM = 1,
    VKATTN_MEMORY_UPLOAD = 2,
    VKATTN_MEMORY_READBACK = 3,
    VKATTN_MEMORY_USE_MAX_ENUM = 0x7fffffff
} vkattn_memory_use;
typedef struct vkattn_memory_request {
    VkBuffer buffer;
    VkMemoryRequirements requirements;
    VkMemoryAllocateFlags flags;
    vkattn_memory_use use;
} vkattn_memory_request;
typedef struct vkattn_memory {
    VkDeviceMemory memory;
    VkDeviceSize offset;
    void *mapped;
    void *allocation;
} vkattn_memory;
typedef struct vkattn_memory_callbacks {
    VKATTN_STRUCT_SIZE(vkattn_memory_callbacks);
    VkResult (*allocate)(void *user, const vkattn_memory_request *request, vkattn_memory *memory);
    void (*free)(void *user, const vkattn_memory *memory);
    void *user;
} vkattn_memory_callbacks;
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
VKATTN_API void vkattn_withdraw_trials(void);
VKATTN_API const char *const *vkattn_wanted_extensions(uint32_t *count);
VKATTN_API vkattn_result vkattn_context_create(const vkattn_context_info *info, vkattn_context *context);
VKATTN_API void vkattn_context_destroy(vkattn_context context);
VKATTN_API vkattn_result vkattn_context_facts(vkattn_context context, vkattn_device_facts *facts);
VKATTN_API vkattn_result vkattn_context_save(vkattn_context context, void *data, uint64_t *bytes);
VKATTN_API vkattn_result vkattn_context_handles(vkattn_context context, VkInstance *instance,
                                                VkPhysicalDevice *physical_device, VkDevice *device, VkQueue *queue,
                                                uint32_t *queue_family);
#ifdef __cplusplus
}
#endif
#endif
#ifndef VKATTN_BUFFERS_H
#define VKATTN_BUFFERS_H
#ifdef __cplusplus
extern "C" {
#endif
typedef struct vkattn_buffer_opaque *vkattn_buffer;
VKATTN_API vkattn_result vkattn_buffer_create(vkattn_context context, uint64_t bytes, vkattn_buffer *buffer);
VKATTN_API void vkattn_buffer_destroy(vkattn_buffer buffer);
VKATTN_API VkBuffer vkattn_buffer_handle(vkattn_buffer buffer);
VKATTN_API vkattn_region vkattn_buffer_region(vkattn_buffer buffer);
VKATTN_API vkattn_result vkattn_buffer_write(vkattn_buffer buffer, uint64_t offset, const void *data, uint64_t bytes);
VKATTN_API vkattn_result vkattn_buffer_read(vkattn_buffer buffer, uint64_t offset, void *data, uint64_t bytes);
typedef struct vkattn_semaphore {
    VkSemaphore semaphore;
    uint64_t value;
} vkattn_semaphore;
typedef struct vkattn_sync {
    VKATTN_STRUCT_SIZE(vkattn_sync);
    const vkattn_semaphore *waits;
    uint32_t wait_count;
    const vkattn_semaphore *signals;
    uint32_t signal_count;
} vkattn_sync;
VKATTN_API vkattn_result vkattn_buffer_upload(vkattn_buffer buffer, uint64_t offset, const void *data, uint64_t bytes,
                                              const vkattn_sync *sync);
VKATTN_API vkattn_result vkattn_buffer_download(vkattn_buffer buffer, uint64_t offset, void *data, uint64_t bytes,
                                                const vkattn_sync *sync);
VKATTN_API vkattn_result vkattn_wait(vkattn_context context, uint64_t timeout_ns);
#ifdef __cplusplus
}
#endif
#endif
#ifndef VKATTN_TRIALS_H
#define VKATTN_TRIALS_H
#ifdef __cplusplus
extern "C" {
#endif
typedef struct vkattn_check {
    const char *name;
    uint32_t passed;
    const char *reason;
    double milliseconds;
    uint32_t check_count;
} vkattn_check;
typedef void (*vkattn_check_callback)(void *user, const vkattn_check *check);
VKATTN_API vkattn_result vkattn_self_test(vkattn_context context, vkattn_check_callback callback, void *user,
                                          vkattn_list *checks);
typedef struct vkattn_candidate {
    vkattn_kernel kernel;
    const char *tile;
    double milliseconds;
    uint32_t kept;
    const char *reason;
} vkattn_candidate;
typedef struct vkattn_tune_budget_report {
    VKATTN_STRUCT_SIZE(vkattn_tune_budget_report);
    double budget_ms;
    double spent_ms;
    uint32_t classes;
    uint32_t candidates;
    uint32_t left_out;
} vkattn_tune_budget_report;
VKATTN_API vkattn_result vkattn_context_tune_budget(vkattn_context context, vkattn_tune_budget_report *report);
#ifdef __cplusplus
}
#endif
#endif
#ifndef VKATTN_PLANS_H
#define VKATTN_PLANS_H
#ifdef __cplusplus
extern "C" {
#endif
typedef struct vkattn_plan_opaque *vkattn_plan;
typedef struct vkattn_requirements {
    VKATTN_STRUCT_SIZE(vkattn_requirements);
    uint64_t workspace_bytes;
    uint64_t workspace_alignment;
    uint32_t descriptor_sets;
    uint32_t storage_buffer_descriptors;
    uint32_t uniform_buffer_descriptors;
} vkattn_requirements;
typedef struct vkattn_report {
    VKATTN_STRUCT_SIZE(vkattn_report);
    vkattn_kernel kernel;
    const char *kernel_name;
    const char *reason;
    uint32_t dispatches;
} vkattn_report;
typedef struct vkattn_measure {
    VKATTN_STRUCT_SIZE(vkattn_measure);
    vkattn_kernel kernel;
    uint64_t workspace_bytes;
    uint64_t workspace_alignment;
    uint32_t descriptor_sets;
    uint32_t storage_buffer_descriptors;
    uint32_t uniform_buffer_descriptors;
    uint32_t dispatches;
} vkattn_measure;
typedef struct vkattn_record_info {
    VKATTN_STRUCT_SIZE(vkattn_record_info);
    VkCommandBuffer command_buffer;
    VkDescriptorPool descriptor_pool;
    const vkattn_binding *bindings;
    uint32_t binding_count;
} vkattn_record_info;
VKATTN_API vkattn_result vkattn_plan_requirements(vkattn_plan plan, vkattn_requirements *requirements);
VKATTN_API vkattn_result vkattn_plan_get_report(vkattn_plan plan, vkattn_report *report);
typedef struct vkattn_plan_binding {
    vkattn_role role;
    const char *name;
    uint64_t bytes;
    uint64_t alignment;
    uint32_t is_written;
} vkattn_plan_binding;
VKATTN_API vkattn_result vkattn_plan_bindings(vkattn_plan plan, vkattn_list *bindings);
VKATTN_API const char *vkattn_role_name(vkattn_role role);
VKATTN_API vkattn_result vkattn_record(vkattn_plan plan, const vkattn_record_info *info);
VKATTN_API vkattn_result vkattn_run(vkattn_plan plan, const vkattn_binding *bindings, uint32_t binding_count,
                                    double *gpu_ms);
VKATTN_API vkattn_result vkattn_submit(vkattn_plan plan, const vkattn_binding *bindings, uint32_t binding_count,
                                       const vkattn_sync *sync);
VKATTN_API void vkattn_plan_destroy(vkattn_plan plan);
#ifdef __cplusplus
}
#endif
#endif
#ifndef VKATTN_ATTENTION_H
#define VKATTN_ATTENTION_H
#ifdef __cplusplus
extern "C" {
#endif
typedef enum vkattn_mask_flags {
    VKATTN_MASK_NONE = 0,
    VKATTN_MASK_CAUSAL = 1,
    VKATTN_MASK_WINDOW = 2,
    VKATTN_MASK_KEYS_TO_LAST_QUERY = 4,
    VKATTN_MASK_TIMES_SLOPES = 8,
    VKATTN_MASK_FLAGS_MAX_ENUM = 0x7fffffff
} vkattn_mask_flags;
typedef enum vkattn_causal_alignment {
    VKATTN_CAUSAL_TOP_LEFT = 0,
    VKATTN_CAUSAL_BOTTOM_RIGHT = 1,
    VKATTN_CAUSAL_ALIGNMENT_MAX_ENUM = 0x7fffffff
} vkattn_causal_alignment;
typedef enum vkattn_kv_head_mapping {
    VKATTN_KV_HEADS_GROUPED = 0,
    VKATTN_KV_HEADS_MODULO = 1,
    VKATTN_KV_HEAD_MAPPING_MAX_ENUM = 0x7fffffff
} vkattn_kv_head_mapping;
typedef enum vkattn_score_stage {
    VKATTN_SCORES_SCALED = 0,
    VKATTN_SCORES_CAPPED = 1,
    VKATTN_SCORES_MASKED = 2,
    VKATTN_SCORES_WEIGHTS = 3,
    VKATTN_SCORE_STAGE_MAX_ENUM = 0x7fffffff
} vkattn_score_stage;
typedef enum vkattn_block_state {
    VKATTN_BLOCK_HIDDEN = 0,
    VKATTN_BLOCK_PARTIAL = 1,
    VKATTN_BLOCK_FULL = 2,
    VKATTN_BLOCK_STATE_MAX_ENUM = 0x7fffffff
} vkattn_block_state;
typedef struct vkattn_variant_opaque *vkattn_variant;
#define VKATTN_CAPTURED_TENSORS 4
#define VKATTN_CAPTURED_NUMBERS 4
typedef enum vkattn_rotation {
    VKATTN_ROTATION_NONE = 0,
    VKATTN_ROTATION_HADAMARD = 1,
    VKATTN_ROTATION_MAX_ENUM = 0x7fffffff
} vkattn_rotation;
typedef struct vkattn_attention_desc {
    VKATTN_STRUCT_SIZE(vkattn_attention_desc);
    uint32_t mask_flags;
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
    vkattn_tensor block_mask;
    uint32_t block_q_len;
    uint32_t block_kv_len;
    uint32_t max_seqlen_q;
    uint32_t max_seqlen_k;
    vkattn_score_stage score_stage;
    vkattn_optional_float scale;
    float softcap;
    float dropout_p;
    uint32_t batch_invariant;
    uint64_t dropout_seed;
    vkattn_causal_alignment causal_alignment;
    int32_t window_left;
    int32_t window_right;
    vkattn_optional_uint past_len;
    vkattn_kv_head_mapping kv_head_mapping;
    vkattn_kernel kernel;
    vkattn_type query_rounding;
    vkattn_rotation key_rotation;
    vkattn_rotation value_rotation;
    vkattn_tensor key_scales;
    vkattn_tensor value_scales;
    vkattn_tensor key_indices;
    uint32_t key_block_len;
    vkattn_variant variant;
    vkattn_tensor captured_0;
    vkattn_tensor captured_1;
    vkattn_tensor captured_2;
    vkattn_tensor captured_3;
    float captured_numbers[VKATTN_CAPTURED_NUMBERS];
    uint32_t region_alignment;
    vkattn_tensor tree_mask;
} vkattn_attention_desc;
VKATTN_API vkattn_result vkattn_attention_plan(vkattn_context context, const vkattn_attention_desc *desc,
                                               vkattn_plan *plan);
typedef struct vkattn_option {
    vkattn_kernel kernel;
    uint32_t chosen;
    uint32_t dispatches;
    const char *shape;
    const char *obstacle;
} vkattn_option;
VKATTN_API vkattn_result vkattn_explain(vkattn_context context, const vkattn_attention_desc *desc,
                                        vkattn_list *options);
VKATTN_API vkattn_result vkattn_attention_measure(vkattn_context context, const vkattn_attention_desc *desc,
                                                  vkattn_measure *measure);
VKATTN_API vkattn_result vkattn_prewarm(vkattn_context context, const vkattn_attention_desc *descs, uint32_t count,
                                        uint32_t threads);
VKATTN_API vkattn_result vkattn_tune(vkattn_context context, const vkattn_attention_desc *desc,
                                     vkattn_list *candidates);
typedef struct vkattn_kv_append_desc {
    VKATTN_STRUCT_SIZE(vkattn_kv_append_desc);
    vkattn_tensor source;
    vkattn_tensor cache;
    uint32_t offset;
    vkattn_tensor past_lengths;
    vkattn_tensor cu_seqlens;
    vkattn_tensor block_table;
    uint32_t max_seqlen;
    vkattn_rotation rotation;
    vkattn_tensor scales;
    uint32_t makes_scales;
} vkattn_kv_append_desc;
VKATTN_API vkattn_result vkattn_kv_append_plan(vkattn_context context, const vkattn_kv_append_desc *desc,
                                               vkattn_plan *plan);
typedef enum vkattn_index_activation {
    VKATTN_INDEX_RELU = 0,
    VKATTN_INDEX_IDENTITY = 1,
    VKATTN_INDEX_ACTIVATION_MAX_ENUM = 0x7fffffff
} vkattn_index_activation;
typedef enum vkattn_index_reduce {
    VKATTN_INDEX_SUM = 0,
    VKATTN_INDEX_MAX = 1,
    VKATTN_INDEX_MEAN = 2,
    VKATTN_INDEX_REDUCE_MAX_ENUM = 0x7fffffff
} vkattn_index_reduce;
typedef struct vkattn_index_desc {
    VKATTN_STRUCT_SIZE(vkattn_index_desc);
    vkattn_tensor query;
    vkattn_tensor key;
    vkattn_tensor weights;
    vkattn_tensor indices;
    vkattn_tensor key_lengths;
    vkattn_tensor past_lengths;
    vkattn_tensor cu_seqlens_q;
    vkattn_tensor cu_seqlens_k;
    vkattn_tensor block_table;
    uint32_t max_seqlen_q;
    uint32_t max_seqlen_k;
    vkattn_optional_float scale;
    uint32_t mask_flags;
    vkattn_causal_alignment causal_alignment;
    int32_t window_left;
    int32_t window_right;
    vkattn_optional_uint past_len;
    uint32_t key_block_len;
    vkattn_index_activation activation;
    vkattn_index_reduce head_reduce;
    vkattn_index_reduce block_reduce;
    uint32_t forced_first;
    uint32_t forced_last;
    vkattn_tensor key_scales;
} vkattn_index_desc;
VKATTN_API vkattn_result vkattn_index_plan(vkattn_context context, const vkattn_index_desc *desc, vkattn_plan *plan);
typedef struct vkattn_mask_indices_desc {
    VKATTN_STRUCT_SIZE(vkattn_mask_indices_desc);
    vkattn_tensor attn_mask;
    vkattn_tensor key_indices;
} vkattn_mask_indices_desc;
VKATTN_API vkattn_result vkattn_mask_indices_plan(vkattn_context context, const vkattn_mask_indices_desc *desc,
                                                  vkattn_plan *plan);
typedef struct vkattn_merge_desc {
    VKATTN_STRUCT_SIZE(vkattn_merge_desc);
    uint32_t part_count;
    uint32_t accumulate;
    vkattn_tensor partial_output;
    vkattn_tensor partial_log_sum_exp;
    vkattn_tensor output;
    vkattn_tensor log_sum_exp;
    uint64_t partial_output_stride;
    uint64_t partial_log_sum_exp_stride;
} vkattn_merge_desc;
VKATTN_API vkattn_result vkattn_merge_plan(vkattn_context context, const vkattn_merge_desc *desc, vkattn_plan *plan);
#ifdef __cplusplus
}
#endif
#endif
#ifndef VKATTN_OPERATORS_H
#define VKATTN_OPERATORS_H
#define VKATTN_OPERATORS(X)                                                                                            \
    X(attention)                                                                                                       \
    X(kv_append)                                                                                                       \
    X(index)                                                                                                           \
    X(mask_indices)                                                                                                    \
    X(merge)                                                                                                           \
    X(linear)                                                                                                          \
    X(norm)                                                                                                            \
    X(embedding)                                                                                                       \
    X(top_k)                                                                                                           \
    X(argmax)                                                                                                          \
    X(linear_attention)                                                                                                \
    X(causal_conv1d)                                                                                                   \
    X(gated_rms_norm)                                                                                                  \
    X(attention_backward)                                                                                              \
    X(linear_backward)                                                                                                 \
    X(norm_backward)                                                                                                   \
    X(rotary_embedding)                                                                                                \
    X(gated_activation)                                                                                                \
    X(gated_activation_backward)                                                                                       \
    X(embedding_backward)                                                                                              \
    X(cross_entropy)                                                                                                   \
    X(squared_norm)                                                                                                    \
    X(optimizer_step)                                                                                                  \
    X(adamw)
#ifdef __cplusplus
extern "C" {
#endif
typedef enum vkattn_activation {
    VKATTN_ACTIVATION_NONE = 0,
    VKATTN_ACTIVATION_RELU = 1,
    VKATTN_ACTIVATION_GELU = 2,
    VKATTN_ACTIVATION_SILU = 3,
    VKATTN_ACTIVATION_LEAKY_RELU = 4,
    VKATTN_ACTIVATION_GELU_TANH = 5,
    VKATTN_ACTIVATION_SIGMOID = 6,
    VKATTN_ACTIVATION_SOFTPLUS = 7,
    VKATTN_ACTIVATION_MAX_ENUM = 0x7fffffff
} vkattn_activation;
typedef struct vkattn_linear_desc {
    VKATTN_STRUCT_SIZE(vkattn_linear_desc);
    vkattn_tensor input;
    vkattn_tensor weight;
    vkattn_tensor bias;
    vkattn_tensor multiplier;
    vkattn_tensor residual;
    vkattn_tensor output;
    vkattn_activation activation;
    vkattn_tensor norm_weight;
    vkattn_optional_float norm_epsilon;
} vkattn_linear_desc;
VKATTN_API vkattn_result vkattn_linear_plan(vkattn_context context, const vkattn_linear_desc *desc, vkattn_plan *plan);
VKATTN_API vkattn_result vkattn_tune_linear(vkattn_context context, const vkattn_linear_desc *desc,
                                            vkattn_list *candidates);
VKATTN_API vkattn_result vkattn_prewarm_linear(vkattn_context context, const vkattn_linear_desc *descs, uint32_t count,
                                               uint32_t threads);
VKATTN_API vkattn_result vkattn_linear_measure(vkattn_context context, const vkattn_linear_desc *desc,
                                               vkattn_measure *measure);
typedef enum vkattn_norm_kind {
    VKATTN_NORM_RMS = 0,
    VKATTN_NORM_LAYER = 1,
    VKATTN_NORM_KIND_MAX_ENUM = 0x7fffffff
} vkattn_norm_kind;
typedef struct vkattn_norm_desc {
    VKATTN_STRUCT_SIZE(vkattn_norm_desc);
    vkattn_tensor input;
    vkattn_tensor weight;
    vkattn_tensor bias;
    vkattn_tensor output;
    vkattn_norm_kind kind;
    vkattn_optional_float epsilon;
    vkattn_tensor residual;
} vkattn_norm_desc;
VKATTN_API vkattn_result vkattn_norm_plan(vkattn_context context, const vkattn_norm_desc *desc, vkattn_plan *plan);
typedef struct vkattn_embedding_desc {
    VKATTN_STRUCT_SIZE(vkattn_embedding_desc);
    vkattn_tensor tokens;
    vkattn_tensor weight;
    vkattn_tensor output;
} vkattn_embedding_desc;
VKATTN_API vkattn_result vkattn_embedding_plan(vkattn_context context, const vkattn_embedding_desc *desc,
                                               vkattn_plan *plan);
typedef struct vkattn_top_k_desc {
    VKATTN_STRUCT_SIZE(vkattn_top_k_desc);
    vkattn_tensor input;
    vkattn_tensor values;
    vkattn_tensor indices;
} vkattn_top_k_desc;
VKATTN_API vkattn_result vkattn_top_k_plan(vkattn_context context, const vkattn_top_k_desc *desc, vkattn_plan *plan);
typedef struct vkattn_argmax_desc {
    VKATTN_STRUCT_SIZE(vkattn_argmax_desc);
    vkattn_tensor input;
    vkattn_tensor tokens;
    vkattn_tensor values;
} vkattn_argmax_desc;
VKATTN_API vkattn_result vkattn_argmax_plan(vkattn_context context, const vkattn_argmax_desc *desc, vkattn_plan *plan);
typedef enum vkattn_rope_scaling_kind {
    VKATTN_ROPE_UNSCALED = 0,
    VKATTN_ROPE_LINEAR = 1,
    VKATTN_ROPE_LLAMA3 = 2,
    VKATTN_ROPE_YARN = 3,
    VKATTN_ROPE_LONGROPE = 4,
    VKATTN_ROPE_SCALING_KIND_MAX_ENUM = 0x7fffffff
} vkattn_rope_scaling_kind;
typedef struct vkattn_rope_scaling {
    vkattn_rope_scaling_kind kind;
    float factor;
    uint32_t original_max_position;
    float low_freq_factor;
    float high_freq_factor;
    float beta_fast;
    float beta_slow;
    float attention_factor;
    uint32_t factor_count;
    const float *factors;
} vkattn_rope_scaling;
#define VKATTN_ROPE_SECTIONS 4
typedef struct vkattn_rotary_embedding_desc {
    VKATTN_STRUCT_SIZE(vkattn_rotary_embedding_desc);
    vkattn_tensor input;
    vkattn_tensor output;
    vkattn_tensor positions;
    vkattn_tensor past_lengths;
    vkattn_tensor cu_seqlens;
    uint32_t max_seqlen;
    uint32_t past_len;
    uint32_t rotary_dim;
    float rope_theta;
    uint32_t rope_interleaved;
    vkattn_rope_scaling rope_scaling;
    uint32_t rope_sections[VKATTN_ROPE_SECTIONS];
    uint32_t rope_sections_interleaved;
    uint32_t inverse;
} vkattn_rotary_embedding_desc;
VKATTN_API vkattn_result vkattn_rotary_embedding_plan(vkattn_context context, const vkattn_rotary_embedding_desc *desc,
                                                      vkattn_plan *plan);
#ifdef __cplusplus
}
#endif
#endif
#ifndef VKATTN_RECURRENCE_H
#define VKATTN_RECURRENCE_H
#ifdef __cplusplus
extern "C" {
#endif
typedef enum vkattn_linear_attention_rule {
    VKATTN_RULE_DELTA = 0,
    VKATTN_RULE_DECAY = 1,
    VKATTN_RULE_MAX_ENUM = 0x7fffffff
} vkattn_linear_attention_rule;
typedef enum vkattn_linear_attention_form {
    VKATTN_FORM_AUTO = 0,
    VKATTN_FORM_RECURRENT = 1,
    VKATTN_FORM_CHUNKED = 2,
    VKATTN_FORM_MAX_ENUM = 0x7fffffff
} vkattn_linear_attention_form;
#define VKATTN_MAX_DRAFT_TOKENS 16
typedef struct vkattn_recurrent_states {
    vkattn_tensor initial_state;
    vkattn_tensor final_state;
    vkattn_tensor state_slots;
    vkattn_tensor token_states;
    vkattn_tensor accepted;
    uint32_t draft_tokens;
} vkattn_recurrent_states;
typedef struct vkattn_linear_attention_desc {
    VKATTN_STRUCT_SIZE(vkattn_linear_attention_desc);
    vkattn_tensor query;
    vkattn_tensor key;
    vkattn_tensor value;
    vkattn_tensor decay;
    vkattn_tensor beta;
    vkattn_tensor output;
    vkattn_recurrent_states states;
    vkattn_tensor cu_seqlens_q;
    uint32_t max_seqlen_q;
    vkattn_linear_attention_rule rule;
    vkattn_linear_attention_form form;
    vkattn_optional_float scale;
    uint32_t qk_l2norm;
} vkattn_linear_attention_desc;
VKATTN_API vkattn_result vkattn_linear_attention_plan(vkattn_context context, const vkattn_linear_attention_desc *desc,
                                                      vkattn_plan *plan);
typedef struct vkattn_causal_conv1d_desc {
    VKATTN_STRUCT_SIZE(vkattn_causal_conv1d_desc);
    vkattn_tensor input;
    vkattn_tensor weight;
    vkattn_tensor bias;
    vkattn_tensor output;
    vkattn_recurrent_states states;
    vkattn_tensor cu_seqlens_q;
    uint32_t max_seqlen_q;
    vkattn_activation activation;
} vkattn_causal_conv1d_desc;
VKATTN_API vkattn_result vkattn_causal_conv1d_plan(vkattn_context context, const vkattn_causal_conv1d_desc *desc,
                                                   vkattn_plan *plan);
typedef struct vkattn_gated_rms_norm_desc {
    VKATTN_STRUCT_SIZE(vkattn_gated_rms_norm_desc);
    vkattn_tensor input;
    vkattn_tensor gate;
    vkattn_tensor weight;
    vkattn_tensor output;
    vkattn_optional_float epsilon;
} vkattn_gated_rms_norm_desc;
VKATTN_API vkattn_result vkattn_gated_rms_norm_plan(vkattn_context context, const vkattn_gated_rms_norm_desc *desc,
                                                    vkattn_plan *plan);
#ifdef __cplusplus
}
#endif
#endif
#ifndef VKATTN_GRADIENTS_H
#define VKATTN_GRADIENTS_H
#ifdef __cplusplus
extern "C" {
#endif
typedef struct vkattn_attention_backward_desc {
    VKATTN_STRUCT_SIZE(vkattn_attention_backward_desc);
    const vkattn_attention_desc *attention;
    vkattn_tensor d_output;
    vkattn_tensor d_query;
    vkattn_tensor d_key;
    vkattn_tensor d_value;
    vkattn_tensor d_attn_mask;
    vkattn_tensor d_sinks;
} vkattn_attention_backward_desc;
VKATTN_API vkattn_result vkattn_attention_backward_plan(vkattn_context context,
                                                        const vkattn_attention_backward_desc *desc, vkattn_plan *plan);
VKATTN_API vkattn_result vkattn_attention_backward_measure(vkattn_context context,
                                                           const vkattn_attention_backward_desc *desc,
                                                           vkattn_measure *measure);
typedef struct vkattn_linear_backward_desc {
    VKATTN_STRUCT_SIZE(vkattn_linear_backward_desc);
    vkattn_tensor input;
    vkattn_tensor weight;
    vkattn_tensor d_output;
    vkattn_tensor residual;
    vkattn_tensor d_input;
    vkattn_tensor d_weight;
    vkattn_tensor d_bias;
    uint32_t accumulate;
} vkattn_linear_backward_desc;
VKATTN_API vkattn_result vkattn_linear_backward_plan(vkattn_context context, const vkattn_linear_backward_desc *desc,
                                                     vkattn_plan *plan);
typedef struct vkattn_norm_backward_desc {
    VKATTN_STRUCT_SIZE(vkattn_norm_backward_desc);
    vkattn_tensor input;
    vkattn_tensor weight;
    vkattn_tensor d_output;
    vkattn_tensor residual;
    vkattn_tensor d_input;
    vkattn_tensor d_weight;
    vkattn_tensor d_bias;
    vkattn_norm_kind kind;
    vkattn_optional_float epsilon;
    uint32_t accumulate;
} vkattn_norm_backward_desc;
VKATTN_API vkattn_result vkattn_norm_backward_plan(vkattn_context context, const vkattn_norm_backward_desc *desc,
                                                   vkattn_plan *plan);
typedef struct vkattn_gated_activation_desc {
    VKATTN_STRUCT_SIZE(vkattn_gated_activation_desc);
    vkattn_tensor gate;
    vkattn_tensor input;
    vkattn_tensor output;
    vkattn_activation activation;
} vkattn_gated_activation_desc;
VKATTN_API vkattn_result vkattn_gated_activation_plan(vkattn_context context, const vkattn_gated_activation_desc *desc,
                                                      vkattn_plan *plan);
typedef struct vkattn_gated_activation_backward_desc {
    VKATTN_STRUCT_SIZE(vkattn_gated_activation_backward_desc);
    vkattn_tensor gate;
    vkattn_tensor input;
    vkattn_tensor d_output;
    vkattn_tensor d_gate;
    vkattn_tensor d_input;
    vkattn_activation activation;
} vkattn_gated_activation_backward_desc;
VKATTN_API vkattn_result vkattn_gated_activation_backward_plan(vkattn_context context,
                                                               const vkattn_gated_activation_backward_desc *desc,
                                                               vkattn_plan *plan);
typedef struct vkattn_embedding_backward_desc {
    VKATTN_STRUCT_SIZE(vkattn_embedding_backward_desc);
    vkattn_tensor tokens;
    vkattn_tensor d_output;
    vkattn_tensor d_weight;
    uint32_t accumulate;
} vkattn_embedding_backward_desc;
VKATTN_API vkattn_result vkattn_embedding_backward_plan(vkattn_context context,
                                                        const vkattn_embedding_backward_desc *desc, vkattn_plan *plan);
#ifdef __cplusplus
}
#endif
#endif
#ifndef VKATTN_TRAINING_H
#define VKATTN_TRAINING_H
#ifdef __cplusplus
extern "C" {
#endif
typedef struct vkattn_cross_entropy_desc {
    VKATTN_STRUCT_SIZE(vkattn_cross_entropy_desc);
    vkattn_tensor input;
    vkattn_tensor labels;
    vkattn_tensor loss_scale;
    vkattn_tensor loss;
    vkattn_tensor mean_loss;
    vkattn_tensor d_input;
    vkattn_optional_uint ignore_label;
} vkattn_cross_entropy_desc;
VKATTN_API vkattn_result vkattn_cross_entropy_plan(vkattn_context context, const vkattn_cross_entropy_desc *desc,
                                                   vkattn_plan *plan);
typedef struct vkattn_squared_norm_desc {
    VKATTN_STRUCT_SIZE(vkattn_squared_norm_desc);
    vkattn_tensor gradient;
    vkattn_tensor squared_norm;
    uint32_t accumulate;
    vkattn_optional_float scale;
} vkattn_squared_norm_desc;
VKATTN_API vkattn_result vkattn_squared_norm_plan(vkattn_context context, const vkattn_squared_norm_desc *desc,
                                                  vkattn_plan *plan);
typedef struct vkattn_optimizer_step_desc {
    VKATTN_STRUCT_SIZE(vkattn_optimizer_step_desc);
    vkattn_tensor squared_norm;
    vkattn_tensor loss_scale;
    vkattn_tensor good_steps;
    vkattn_tensor factor;
    vkattn_tensor step;
    vkattn_optional_float max_norm;
    vkattn_optional_float growth_factor;
    vkattn_optional_float backoff_factor;
    uint32_t growth_interval;
} vkattn_optimizer_step_desc;
VKATTN_API vkattn_result vkattn_optimizer_step_plan(vkattn_context context, const vkattn_optimizer_step_desc *desc,
                                                    vkattn_plan *plan);
typedef struct vkattn_adamw_desc {
    VKATTN_STRUCT_SIZE(vkattn_adamw_desc);
    vkattn_tensor parameter;
    vkattn_tensor gradient;
    vkattn_tensor first_moment;
    vkattn_tensor second_moment;
    vkattn_tensor step;
    vkattn_tensor factor;
    vkattn_tensor learning_rate;
    vkattn_tensor copy;
    vkattn_optional_float beta1;
    vkattn_optional_float beta2;
    vkattn_optional_float epsilon;
    vkattn_optional_float weight_decay;
    vkattn_optional_float copy_scale;
} vkattn_adamw_desc;
VKATTN_API vkattn_result vkattn_adamw_plan(vkattn_context context, const vkattn_adamw_desc *desc, vkattn_plan *plan);
#ifdef __cplusplus
}
#endif
#endif
#ifndef VKATTN_LAYERS_H
#define VKATTN_LAYERS_H
#ifdef __cplusplus
extern "C" {
#endif
typedef enum vkattn_layer_kind {
    VKATTN_LAYER_MHA = 0,
    VKATTN_LAYER_LATENT_MHA = 1,
    VKATTN_LAYER_LATENT_QUERY = 2,
    VKATTN_LAYER_MLA = 3,
    VKATTN_LAYER_COMPRESSED_KV = 4,
    VKATTN_LAYER_ENCODER = 5,
    VKATTN_LAYER_MLA_BLOCK = 6,
    VKATTN_LAYER_KIND_COUNT = 7,
    VKATTN_LAYER_KIND_MAX_ENUM = 0x7fffffff
} vkattn_layer_kind;
typedef enum vkattn_mla_form {
    VKATTN_MLA_NAIVE = 0,
    VKATTN_MLA_ABSORB = 1,
    VKATTN_MLA_FORM_MAX_ENUM = 0x7fffffff
} vkattn_mla_form;
typedef struct vkattn_layer_config {
    VKATTN_STRUCT_SIZE(vkattn_layer_config);
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
    uint32_t rope_interleaved;
    vkattn_rope_scaling rope_scaling;
    vkattn_optional_float scale;
    float softcap;
    vkattn_optional_float norm_epsilon;
    uint32_t index_n_heads;
    uint32_t index_head_dim;
    uint32_t index_topk;
    uint32_t index_rope_interleaved;
    uint32_t rotary_dim;
    uint32_t rope_sections[VKATTN_ROPE_SECTIONS];
    uint32_t rope_sections_interleaved;
} vkattn_layer_config;
typedef struct vkattn_weight {
    const char *name;
    vkattn_tensor tensor;
    const void *data;
    uint64_t bytes;
    vkattn_region region;
} vkattn_weight;
typedef struct vkattn_layer_opaque *vkattn_layer;
VKATTN_API vkattn_result vkattn_layer_create(vkattn_context context, const vkattn_layer_config *config,
                                             const vkattn_weight *weights, uint32_t weight_count, vkattn_layer *layer);
VKATTN_API void vkattn_layer_destroy(vkattn_layer layer);
typedef struct vkattn_cache_opaque *vkattn_cache;
typedef enum vkattn_scaling {
    VKATTN_SCALING_NONE = 0,
    VKATTN_SCALING_TENSOR = 1,
    VKATTN_SCALING_HEAD = 2,
    VKATTN_SCALING_ROW = 3,
    VKATTN_SCALING_MAX_ENUM = 0x7fffffff
} vkattn_scaling;
typedef struct vkattn_cache_info {
    VKATTN_STRUCT_SIZE(vkattn_cache_info);
    vkattn_layer layer;
    uint32_t kv_heads;
    uint32_t head_dim;
    uint32_t v_head_dim;
    uint32_t batch;
    uint32_t capacity;
    vkattn_type key_type;
    vkattn_type value_type;
    uint32_t page_len;
    uint32_t page_count;
    vkattn_rotation key_rotation;
    vkattn_rotation value_rotation;
    vkattn_scaling key_scaling;
    vkattn_scaling value_scaling;
    const float *key_scales;
    uint32_t key_scale_count;
    const float *value_scales;
    uint32_t value_scale_count;
} vkattn_cache_info;
typedef enum vkattn_cache_part {
    VKATTN_CACHE_KEYS = 0,
    VKATTN_CACHE_VALUES = 1,
    VKATTN_CACHE_LENGTHS = 2,
    VKATTN_CACHE_BLOCK_TABLE = 3,
    VKATTN_CACHE_KEY_SCALES = 4,
    VKATTN_CACHE_VALUE_SCALES = 5,
    VKATTN_CACHE_PART_MAX_ENUM = 0x7fffffff
} vkattn_cache_part;
VKATTN_API vkattn_result vkattn_cache_create(vkattn_context context, const vkattn_cache_info *info,
                                             vkattn_cache *cache);
VKATTN_API void vkattn_cache_destroy(vkattn_cache cache);
VKATTN_API uint64_t vkattn_cache_bytes(vkattn_cache cache);
VKATTN_API uint32_t vkattn_cache_free_pages(vkattn_cache cache);
VKATTN_API vkattn_result vkattn_cache_lengths(vkattn_cache cache, uint32_t *lengths, uint32_t count);
VKATTN_API vkattn_result vkattn_cache_reserve(vkattn_cache cache, const uint32_t *tokens, uint32_t count);
VKATTN_API vkattn_result vkattn_cache_rewind(vkattn_cache cache, uint32_t sequence, uint32_t length);
VKATTN_API vkattn_result vkattn_cache_keep(vkattn_cache cache, uint32_t sequence, uint32_t length,
                                           const uint32_t *tokens, uint32_t count);
VKATTN_API vkattn_result vkattn_cache_copy_sequence(vkattn_cache from, uint32_t from_sequence, vkattn_cache to,
                                                    uint32_t to_sequence);
VKATTN_API vkattn_result vkattn_cache_share_prefix(vkattn_cache cache, uint32_t from_sequence, uint32_t to_sequence,
                                                   uint32_t length);
VKATTN_API vkattn_result vkattn_cache_read(vkattn_cache cache, vkattn_cache_part part, uint32_t sequence, float *values,
                                           uint64_t count);
VKATTN_API vkattn_result vkattn_cache_tensor(vkattn_cache cache, vkattn_cache_part part, vkattn_tensor *tensor,
                                             vkattn_region *region);
typedef struct vkattn_cache_append_desc {
    VKATTN_STRUCT_SIZE(vkattn_cache_append_desc);
    vkattn_cache cache;
    vkattn_tensor key;
    vkattn_tensor value;
    vkattn_tensor cu_seqlens;
    uint32_t max_seqlen;
} vkattn_cache_append_desc;
VKATTN_API vkattn_result vkattn_cache_append_plan(vkattn_context context, const vkattn_cache_append_desc *desc,
                                                  vkattn_plan *plan);
typedef struct vkattn_layer_call {
    VKATTN_STRUCT_SIZE(vkattn_layer_call);
    vkattn_tensor query;
    vkattn_tensor key;
    vkattn_tensor value;
    vkattn_tensor output;
    vkattn_tensor past_key;
    vkattn_tensor past_value;
    vkattn_tensor present_key;
    vkattn_tensor present_value;
    vkattn_tensor attn_mask;
    vkattn_tensor block_mask;
    uint32_t block_q_len;
    uint32_t block_kv_len;
    vkattn_tensor key_padding_mask;
    vkattn_tensor key_lengths;
    vkattn_tensor attn_weights;
    vkattn_tensor residual;
    uint32_t mask_flags;
    vkattn_causal_alignment causal_alignment;
    int32_t window_left;
    int32_t window_right;
    uint32_t past_len;
    vkattn_kernel kernel;
    vkattn_cache cache;
    vkattn_tensor cu_seqlens;
    uint32_t max_seqlen;
    vkattn_tensor norm_weight;
    vkattn_optional_float norm_epsilon;
    vkattn_type intermediate_type;
    vkattn_tensor tree_mask;
    vkattn_tensor positions;
} vkattn_layer_call;
VKATTN_API vkattn_result vkattn_layer_plan(vkattn_layer layer, const vkattn_layer_call *call, vkattn_plan *plan);
VKATTN_API vkattn_result vkattn_layer_measure(vkattn_context context, const vkattn_layer_config *config,
                                              const vkattn_layer_call *call, vkattn_measure *measure);
#ifdef __cplusplus
}
#endif
#endif
#ifndef VKATTN_PROGRAMS_H
#define VKATTN_PROGRAMS_H
#ifdef __cplusplus
extern "C" {
#endif
typedef struct vkattn_program_opaque *vkattn_program;
typedef struct vkattn_bound_plan {
    vkattn_plan plan;
    const vkattn_binding *bindings;
    uint32_t binding_count;
} vkattn_bound_plan;
typedef struct vkattn_program_info {
    VKATTN_STRUCT_SIZE(vkattn_program_info);
    const vkattn_bound_plan *plans;
    uint32_t plan_count;
} vkattn_program_info;
typedef struct vkattn_program_report {
    VKATTN_STRUCT_SIZE(vkattn_program_report);
    uint64_t workspace_bytes;
    uint32_t plans;
    uint32_t dispatches;
    uint32_t barriers;
    uint32_t submissions;
} vkattn_program_report;
VKATTN_API vkattn_result vkattn_program_create(vkattn_context context, const vkattn_program_info *info,
                                               vkattn_program *program);
VKATTN_API vkattn_result vkattn_program_get_report(vkattn_program program, vkattn_program_report *report);
VKATTN_API vkattn_result vkattn_program_run(vkattn_program program, double *gpu_ms);
VKATTN_API vkattn_result vkattn_program_submit(vkattn_program program, const vkattn_sync *sync);
VKATTN_API void vkattn_program_destroy(vkattn_program program);
#ifdef __cplusplus
}
#endif
#endif
#ifndef VKATTN_SHADERS_H
#define VKATTN_SHADERS_H
#ifdef __cplusplus
extern "C" {
#endif
typedef struct vkattn_shader_constant {
    const char *name;
    uint32_t value;
} vkattn_shader_constant;
typedef struct vkattn_shader_statistic {
    const char *name;
    const char *description;
    double value;
} vkattn_shader_statistic;
typedef struct vkattn_shader_text {
    const char *name;
    const char *text;
} vkattn_shader_text;
typedef struct vkattn_shader {
    const char *module;
    const char *executable;
    uint32_t dispatches;
    uint32_t workgroup_size;
    uint32_t subgroup_size;
    uint32_t spirv_bytes;
    double compile_ms;
    uint32_t constant_count;
    uint32_t statistic_count;
    uint32_t text_count;
    const vkattn_shader_constant *constants;
    const vkattn_shader_statistic *statistics;
    const vkattn_shader_text *texts;
} vkattn_shader;
VKATTN_API vkattn_result vkattn_plan_shaders(vkattn_plan plan, vkattn_list *shaders);
#ifdef __cplusplus
}
#endif
#endif
#ifndef VKATTN_VARIANTS_H
#define VKATTN_VARIANTS_H
#ifdef __cplusplus
extern "C" {
#endif
typedef enum vkattn_variant_functions {
    VKATTN_VARIANT_SCORE_MOD = 1,
    VKATTN_VARIANT_MASK_MOD = 2,
    VKATTN_VARIANT_LSE_MOD = 4,
    VKATTN_VARIANT_OUTPUT_MOD = 8,
    VKATTN_VARIANT_FUNCTIONS_MAX_ENUM = 0x7fffffff
} vkattn_variant_functions;
typedef struct vkattn_variant_request {
    const char *module;
    const char *functions;
    void (*accept)(void *result, const uint32_t *code, size_t words);
    void (*refuse)(void *result, const char *message);
    void *result;
} vkattn_variant_request;
typedef struct vkattn_variant_info {
    VKATTN_STRUCT_SIZE(vkattn_variant_info);
    const void *compiled;
    uint64_t compiled_bytes;
    const char *functions;
    uint32_t defined;
    const char *const *modules;
    uint32_t module_count;
    void (*compile)(void *user, const vkattn_variant_request *request);
    void *user;
    uint64_t shader_texts;
} vkattn_variant_info;
VKATTN_API vkattn_result vkattn_variant_create(vkattn_context context, const vkattn_variant_info *info,
                                               vkattn_variant *variant);
VKATTN_API void vkattn_variant_destroy(vkattn_variant variant);
VKATTN_API vkattn_result vkattn_block_mask_plan(vkattn_context context, const vkattn_attention_desc *desc,
                                                vkattn_plan *plan);
#ifdef __cplusplus
}
#endif
#endif
#ifndef VKATTN_VKATTN_H
#define VKATTN_VKATTN_H
#endif
#ifndef VKATTN_ESTIMATE_H
#define VKATTN_ESTIMATE_H
#ifdef __cplusplus
extern "C" {
#endif
VKATTN_API vkattn_result vkattn_layer_config_from_name(const char *name, uint32_t d_model, uint32_t num_heads,
                                                       vkattn_layer_config *config);
typedef struct vkattn_estimate_info {
    VKATTN_STRUCT_SIZE(vkattn_estimate_info);
    uint32_t batch;
    uint64_t prefill_len;
    uint64_t context_len;
    vkattn_type weight_type;
    vkattn_type cache_type;
    uint64_t memory_bytes;
    uint32_t num_layers;
    uint32_t with_biases;
    uint32_t causal;
    vkattn_scaling key_scaling;
    vkattn_scaling value_scaling;
} vkattn_estimate_info;
typedef struct vkattn_estimate_result {
    VKATTN_STRUCT_SIZE(vkattn_estimate_result);
    uint64_t parameters;
    uint64_t weight_bytes;
    uint64_t cache_bytes_per_token;
    uint64_t cache_bytes;
    double prefill_projection_flops;
    double prefill_attention_flops;
    double decode_projection_flops;
    double decode_attention_flops;
    uint64_t decode_bytes;
    double decode_intensity;
    uint64_t max_context_len;
    uint64_t max_sequences;
} vkattn_estimate_result;
VKATTN_API vkattn_result vkattn_estimate(const vkattn_layer_config *config, const vkattn_estimate_info *info,
                                         vkattn_estimate_result *result);
#ifdef __cplusplus
}
#endif
#endif
#ifndef VKATTN_JIT_H
#define VKATTN_JIT_H
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
typedef struct vkattn_jit_info {
    VKATTN_STRUCT_SIZE(vkattn_jit_info);
    const char *functions;
    const char *name;
} vkattn_jit_info;
VKATTN_JIT_API vkattn_result vkattn_jit_variant_create(vkattn_context context, const vkattn_jit_info *info,
                                                       vkattn_variant *variant);
VKATTN_JIT_API vkattn_result vkattn_jit_compile(const vkattn_jit_info *info,
                                                void (*write)(void *user, const void *data, uint64_t bytes),
                                                void *user);
VKATTN_JIT_API const vkattn_failure *vkattn_jit_last_failure(void);
VKATTN_JIT_API const char *vkattn_jit_last_error(void);
#ifdef __cplusplus
}
#endif
#endif
