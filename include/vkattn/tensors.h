/* Tensors, their types, and where they lie. */
#ifndef VKATTN_TENSORS_H
#define VKATTN_TENSORS_H

#include <vkattn/results.h>
#include <vulkan/vulkan_core.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What numbers are stored as. */
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

/* What a type holds. */
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

/* Lists all types but VKATTN_TYPE_NONE, in the order of their numbers: types, a list of vkattn_type_info. */
VKATTN_API vkattn_result vkattn_enumerate_types(vkattn_list *types);

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
    VKATTN_ROLE_KEY_SCALES = 38, /* of an append: those of cache */
    VKATTN_ROLE_VALUE_SCALES = 39,
    VKATTN_ROLE_NORM_WEIGHT = 40,
    VKATTN_ROLE_DECAY = 41, /* of linear attention: recurrence.h */
    VKATTN_ROLE_BETA = 42,
    VKATTN_ROLE_INITIAL_STATE = 43, /* vkattn_recurrent_states */
    VKATTN_ROLE_FINAL_STATE = 44,
    VKATTN_ROLE_STATE_SLOTS = 45,
    VKATTN_ROLE_TOKEN_STATES = 46,
    VKATTN_ROLE_ACCEPTED = 47,
    VKATTN_ROLE_VALUES = 48, /* of top_k and argmax: the greatest themselves */
    VKATTN_ROLE_TREE_MASK = 49,
    VKATTN_ROLE_POSITIONS = 50, /* of the tokens of a layer's call */
    VKATTN_ROLE_D_OUTPUT = 51,  /* gradients: gradients.h */
    VKATTN_ROLE_D_QUERY = 52,
    VKATTN_ROLE_D_KEY = 53,
    VKATTN_ROLE_D_VALUE = 54,
    VKATTN_ROLE_D_ATTN_MASK = 55,
    VKATTN_ROLE_D_SINKS = 56,
    VKATTN_ROLE_D_INPUT = 57,
    VKATTN_ROLE_D_WEIGHT = 58,
    VKATTN_ROLE_D_BIAS = 59,
    VKATTN_ROLE_D_GATE = 60,
    VKATTN_ROLE_LABELS = 61, /* of cross_entropy */
    VKATTN_ROLE_LOSS = 62,
    VKATTN_ROLE_MEAN_LOSS = 63,
    VKATTN_ROLE_LOSS_SCALE = 64,
    VKATTN_ROLE_SQUARED_NORM = 65, /* of gradients: training.h */
    VKATTN_ROLE_GOOD_STEPS = 66,
    VKATTN_ROLE_FACTOR = 67,
    VKATTN_ROLE_STEP = 68, /* the optimizer's steps so far */
    VKATTN_ROLE_PARAMETER = 69,
    VKATTN_ROLE_GRADIENT = 70,
    VKATTN_ROLE_FIRST_MOMENT = 71,
    VKATTN_ROLE_SECOND_MOMENT = 72,
    VKATTN_ROLE_LEARNING_RATE = 73,
    VKATTN_ROLE_COPY = 74,        /* of a parameter, in another type */
    VKATTN_ROLE_ACTIVATIONS = 75, /* of a layer's forward pass, for its backward pass: layers.h */
    VKATTN_ROLE_D_NORM_WEIGHT = 76,
    VKATTN_ROLE_D_CAPTURED_0 = 77, /* of what functions of a variant read */
    VKATTN_ROLE_D_CAPTURED_1 = 78,
    VKATTN_ROLE_D_CAPTURED_2 = 79,
    VKATTN_ROLE_D_CAPTURED_3 = 80,
    VKATTN_ROLE_COUNT = 81,
    VKATTN_ROLE_MAX_ENUM = 0x7fffffff
} vkattn_role;

/* A part of a buffer.
 *
 * buffer  created with VK_BUFFER_USAGE_STORAGE_BUFFER_BIT
 * offset  in bytes
 * bytes   from there on that may be read and written */
typedef struct vkattn_region {
    VkBuffer buffer;
    VkDeviceSize offset;
    VkDeviceSize bytes;
} vkattn_region;

/* The region of a role. It must hold what vkattn_plan_bindings says of the role, which is vkattn_tensor_bytes of its tensor: a smaller
 * one is refused. Its offset must be a multiple of 16 (or of vkattn_attention_desc.region_alignment; VKATTN_ROLE_WORKSPACE: of
 * vkattn_requirements.workspace_alignment). A role
 * whose tensor has no elements, since a size is 0, may be bound or left out; its buffer is not looked at. */
typedef struct vkattn_binding {
    vkattn_role role;
    vkattn_region region;
} vkattn_binding;

#ifdef __cplusplus
}
#endif

#endif
