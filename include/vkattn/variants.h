/* Variants of attention: functions of your own, in GLSL, that every kernel calls. They are compiled ahead of time, by the
 * command `vkattn compile-variant`, or at run time by the library vkattn_jit (jit.h). docs/variants.md has a gallery of them.
 *
 * A text defines one of these functions or several, and others that they call:
 *
 *     float score_mod(float score, uint batch, uint head, uint query, uint key);  // after softcap, before bias and masks
 *     bool mask_mod(uint batch, uint head, uint query, uint key);                 // true: the query sees the key
 *     float lse_mod(float lse, uint batch, uint head, uint query);                // what weights are exp(score - lse) of
 *     float output_mod(float value, uint batch, uint head, uint query, uint element); // what is stored of the output
 *     float score_mod_grad(float score, uint batch, uint head, uint query, uint key); // the derivative of score_mod by the score
 *     void score_mod_grad_captured(float score, uint batch, uint head, uint query, uint key); // those by what it captures
 *
 * query and key are positions from the sequence's own start, query with the offset of masks and ALiBi added
 * (vkattn_attention_desc); head counts query heads. A score is scale * q k, after softcap. One that score_mod makes -inf, or
 * less than -6e37, has weight 0; of such a key V must be finite. Masks alone hide a key so that it may hold anything.
 * lse is log(sum(exp(score))) of a row's keys and its sink; what lse_mod makes of it, a finite number, takes its place in the
 * weights and in log_sum_exp. It is not called for a row that sees no key. value is an element of the weighted sum of V in f32,
 * of Dv elements, before it is rounded to the type of output; of a row that sees no key 0. Both are called for the whole row,
 * however many parts its keys are in: a merge of calls (vkattn_merge_plan) joins what they made of each.
 * Gradients (vkattn_attention_backward_plan) call score_mod_grad of the score that score_mod was given; nothing else does.
 * Those of captured tensors call score_mod_grad_captured of the same, which says of each element that score_mod reads what score_mod's
 * derivative by it is, and of an element that it reads twice both: elements outside the tensor, and tensors without gradients, count for nothing.
 *
 *     void add_captured_grad(uint tensor, uint element, float derivative);
 *
 * The functions read up to VKATTN_CAPTURED_TENSORS tensors of the call's, which are contiguous, as one row of elements:
 *
 *     float captured_f32(uint tensor, uint element);  // of F32, F16 or BF16; 0 outside the tensor, and of one that is absent
 *     int captured_i32(uint tensor, uint element);    // of I32
 *     float captured_number(uint number);             // of captured_numbers, VKATTN_CAPTURED_NUMBERS of them
 *
 * A function of the text gives one a name: float slope(uint head) { return captured_f32(0, head); } */
#ifndef VKATTN_VARIANTS_H
#define VKATTN_VARIANTS_H

#include <vkattn/attention.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The functions that a text defines: bits. */
typedef enum vkattn_variant_functions {
    VKATTN_VARIANT_SCORE_MOD = 1,
    VKATTN_VARIANT_MASK_MOD = 2,
    VKATTN_VARIANT_LSE_MOD = 4,
    VKATTN_VARIANT_OUTPUT_MOD = 8,
    VKATTN_VARIANT_SCORE_MOD_GRAD = 16,          /* beside score_mod alone */
    VKATTN_VARIANT_SCORE_MOD_GRAD_CAPTURED = 32, /* beside score_mod_grad alone */
    VKATTN_VARIANT_FUNCTIONS_MAX_ENUM = 0x7fffffff
} vkattn_variant_functions;

/* A SPIR-V module that a variant needs: what a compiler is asked. The library's.
 *
 * module   vkattn's name of it, for instance "flash"
 * accept   called with the module's words, which are copied
 * refuse   called with one line that says why it cannot be compiled, "NAME:LINE:COLUMN: what" where a place in functions is at fault:
 *          vkattn_failure then has it; calling neither refuses it, too
 * result   the first argument of both */
typedef struct vkattn_variant_request {
    const char *module;
    const char *functions; /* vkattn_variant_info.functions */
    void (*accept)(void *result, const uint32_t *code, size_t words);
    void (*refuse)(void *result, const char *message);
    void *result;
} vkattn_variant_request;

/* A variant: compiled ahead, or with a compiler that is asked for each module when a plan first takes it.
 *
 * compiled, compiled_bytes  what `vkattn compile-variant` or vkattn_jit_compile wrote: one file that holds the SPIR-V of every
 *                     kernel module with the functions in it, for the version of vkattn whose shaders it was made of. Copied.
 *                     The rest is then NULL and 0
 * functions           the text, which tells the variant from others: variants of the same text share what is compiled, and must
 *                     define the same functions
 * defined             vkattn_variant_functions that it defines, at least one
 * modules             the names of the module_count modules that the compiler can make; kernels that need another do not serve
 * compile             may be called from any thread, until the context is destroyed; user: its first argument. Of several
 *                     variants of a text the first one's is asked
 * shader_texts        which text of vkattn's shaders compile knows: vkattn_jit fills it in. Another than the library's own is
 *                     refused with VKATTN_ERROR_UNSUPPORTED, since its modules would read other arguments */
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

/* Makes a variant. On failure *variant is NULL. What is compiled stays, and is kept by vkattn_context_save, for as long as
 * there is a variant of the text or a plan or program made with one.
 * Fails with VKATTN_ERROR_INVALID_ARGUMENT for a file that is not whole or whose modules are no SPIR-V, with
 * VKATTN_ERROR_UNSUPPORTED for one of another version's shaders. SPIR-V is code, which the driver compiles: take files from
 * those alone whose programs you would run. vkattn_jit_variant_create (jit.h) makes one of a text. */
VKATTN_API vkattn_result vkattn_variant_create(vkattn_context context, const vkattn_variant_info *info,
                                               vkattn_variant *variant);

/* Destroys a variant. NULL is ignored. Plans that were made with it stay as they are; text, modules and pipelines go with the
 * last variant, plan and program that has them. */
VKATTN_API void vkattn_variant_destroy(vkattn_variant variant);

/* Plans what fills in block_mask of a description, from the mask_mod of its variant, on the device: VKATTN_BLOCK_HIDDEN where
 * mask_mod hides every key of a block from every query of it, FULL where it hides none, else PARTIAL. Plans of the same
 * description then visit what is not hidden, and ask mask_mod in partial blocks alone. Positions and captured tensors are
 * those of the description.
 *
 * desc: with a variant that has a mask_mod, and block_mask with as many blocks of queries as there are. A batch or head
 *   dimension of 1, where the description has more, says that mask_mod is the same in all: it is asked for the first,
 *   or, of sequences with lengths or positions of their own, for each: what is FULL is so in all of them. A block may be of any size
 * A run reads past_lengths, key_lengths, cu_seqlens and the captured tensors, as far as the description has them, and writes
 * block_mask; regions of its other roles may be bound, too.
 * Fails as vkattn_attention_plan does. */
VKATTN_API vkattn_result vkattn_block_mask_plan(vkattn_context context, const vkattn_attention_desc *desc,
                                                vkattn_plan *plan);

#ifdef __cplusplus
}
#endif

#endif
