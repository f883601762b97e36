// Functions of the user's own: score_mod and its derivative score_mod_grad, mask_mod, lse_mod, output_mod and the tensors and numbers that
// they capture. Modules of a variant alone have them (vkattn/variants.h): their compiler defines VARIANT_FUNCTIONS, and SCORE_MOD,
// SCORE_MOD_GRAD, SCORE_MOD_GRAD_CAPTURED, MASK_MOD, LSE_MOD and OUTPUT_MOD as the user's text has them, which it gives as variant_functions.glsl. lse_mod is called
// in softmax.glsl, and output_mod in output.glsl.
#ifndef FUNCTIONS_GLSL
#define FUNCTIONS_GLSL

#include "attention/positions.glsl"
#include "formats/f16.glsl"

layout(set = 0, binding = BINDING_CAPTURED_0, std430) readonly buffer Captured0Buffer { uint captured_0_words[]; };
layout(set = 0, binding = BINDING_CAPTURED_1, std430) readonly buffer Captured1Buffer { uint captured_1_words[]; };
layout(set = 0, binding = BINDING_CAPTURED_2, std430) readonly buffer Captured2Buffer { uint captured_2_words[]; };
layout(set = 0, binding = BINDING_CAPTURED_3, std430) readonly buffer Captured3Buffer { uint captured_3_words[]; };

uint captured_format(uint tensor) { return bitfieldExtract(CAPTURED_FORMATS, int(tensor % CAPTURED_TENSORS) * 8, 8); }

bool is_captured(uint tensor, uint element) {
    return tensor < CAPTURED_TENSORS && element < parameters.captured_elements[tensor];
}

// Of a captured tensor's buffer.
uint captured_buffer(uint tensor, uint word) {
    if (tensor == 0) return captured_0_words[word];
    if (tensor == 1) return captured_1_words[word];
    if (tensor == 2) return captured_2_words[word];
    return captured_3_words[word];
}

// Where the tensor begins there, in bytes.
uint captured_base(uint tensor) {
    if (tensor == 0) return base_bytes(BINDING_CAPTURED_0);
    if (tensor == 1) return base_bytes(BINDING_CAPTURED_1);
    if (tensor == 2) return base_bytes(BINDING_CAPTURED_2);
    return base_bytes(BINDING_CAPTURED_3);
}

// An element; 0 outside the tensor.
uint captured_word(uint tensor, uint element) {
    return is_captured(tensor, element) ? captured_buffer(tensor, captured_base(tensor) / 4 + element) : 0u;
}

uint captured_half(uint tensor, uint element) {
    if (!is_captured(tensor, element)) return 0;
    uint half_word = captured_base(tensor) / 2 + element;
    return bitfieldExtract(captured_buffer(tensor, half_word / 2), int(half_word % 2) * 16, 16);
}

float captured_f32(uint tensor, uint element) {
    if (captured_format(tensor) == FORMAT_F16) return f16_value(captured_half(tensor, element));
    if (captured_format(tensor) == FORMAT_BF16) return uintBitsToFloat(captured_half(tensor, element) << 16);
    return uintBitsToFloat(captured_word(tensor, element));
}

int captured_i32(uint tensor, uint element) { return int(captured_word(tensor, element)); }
float captured_number(uint number) { return number < 4 ? parameters.captured_numbers[number] : 0.0; }

#ifdef OF_CAPTURED
#include "attention/captured_sums.glsl"
#else
void add_captured_grad(uint tensor, uint element, float derivative) {}
#endif

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

#ifdef SCORE_MOD_GRAD
// The derivative of modify_score, of the same score.
float slope_of_function(float score, Row row, Key key) {
    return score_mod_grad(score * LN_2, batch_of(row), head_of(row), query_of(row), key.number);
}
#endif

#ifdef MASK_MOD
bool hidden_by_function(Row row, Key key) { return !mask_mod(batch_of(row), head_of(row), query_of(row), key.number); }
#endif

#endif
