// Functions of the user's own: score_mod, mask_mod, lse_mod, output_mod and the tensors that they capture. Modules of a variant
// alone have them (vkattn/variants.h): their compiler defines VARIANT_FUNCTIONS, and SCORE_MOD, MASK_MOD, LSE_MOD and OUTPUT_MOD
// as the user's text has them, which it gives as variant_functions.glsl. lse_mod is called in softmax.glsl, and output_mod in
// output.glsl.
#ifndef FUNCTIONS_GLSL
#define FUNCTIONS_GLSL

#include "attention/positions.glsl"

layout(set = 0, binding = BINDING_CAPTURED_0, std430) readonly buffer Captured0Buffer { uint captured_0_words[]; };
layout(set = 0, binding = BINDING_CAPTURED_1, std430) readonly buffer Captured1Buffer { uint captured_1_words[]; };
layout(set = 0, binding = BINDING_CAPTURED_2, std430) readonly buffer Captured2Buffer { uint captured_2_words[]; };
layout(set = 0, binding = BINDING_CAPTURED_3, std430) readonly buffer Captured3Buffer { uint captured_3_words[]; };

// An element of a captured tensor; 0 outside it.
uint captured_word(uint tensor, uint element) {
    if (tensor >= CAPTURED_TENSORS || element >= parameters.captured_elements[tensor]) return 0;
    if (tensor == 0) return captured_0_words[base_bytes(BINDING_CAPTURED_0) / 4 + element];
    if (tensor == 1) return captured_1_words[base_bytes(BINDING_CAPTURED_1) / 4 + element];
    if (tensor == 2) return captured_2_words[base_bytes(BINDING_CAPTURED_2) / 4 + element];
    return captured_3_words[base_bytes(BINDING_CAPTURED_3) / 4 + element];
}

float captured_f32(uint tensor, uint element) { return uintBitsToFloat(captured_word(tensor, element)); }
int captured_i32(uint tensor, uint element) { return int(captured_word(tensor, element)); }

#include "variant_functions.glsl"

// Where a row and a key are, as the functions count them: in the whole call, of which this may be a part.
uint batch_of(Row row) { return parameters.first_batch + row.batch; }
uint head_of(Row row) { return parameters.first_query_head + row.query_head; }
uint query_of(Row row) { return row.position + uint(diagonal_offset(row.batch)); }

#ifdef SCORE_MOD
float modify_score(float score, Row row, Key key) {
    float modified = score_mod(score * LN_2, batch_of(row), head_of(row), query_of(row), key.number);
    return modified < LOWEST_BIAS ? HIDDEN : modified * LOG2_E;
}
#endif

#ifdef MASK_MOD
bool hidden_by_function(Row row, Key key) { return !mask_mod(batch_of(row), head_of(row), query_of(row), key.number); }
#endif

#endif
