// The constants, push constants and uniform block of every attention kernel.
#ifndef ATTENTION_PARAMETERS_GLSL
#define ATTENTION_PARAMETERS_GLSL

#include "attention/lowest_bias.glsl"
#include "interface/attention.h"

ATTENTION_CONSTANTS(VKATTN_CONSTANT)

#define PUSH AttentionPush
#include "common/push.glsl"

layout(set = 0, binding = ATTENTION_BINDINGS, std140) uniform ParameterBlock { AttentionParameters parameters; };

bool has(const uint feature) { return (FEATURES & feature) != 0u; }
bool has_more(const uint feature) { return (MORE_FEATURES & feature) != 0u; }

// Whether rows go through lists of keys.
const bool LISTS_KEYS = (MORE_FEATURES & MORE_FEATURE_KEY_INDICES) != 0u;

// Whether tree_mask says which of the queries' own keys each query sees.
const bool HAS_TREES = (MORE_FEATURES & MORE_FEATURE_TREE_MASK) != 0u;

// Whether elements of K and V have scales beside those of their types.
const bool SCALES_KEYS = (MORE_FEATURES & MORE_FEATURE_KEY_SCALES) != 0u;
const bool SCALES_VALUES = (MORE_FEATURES & MORE_FEATURE_VALUE_SCALES) != 0u;
const bool SCALES_VALUES_BY_KEY = (MORE_FEATURES & MORE_FEATURE_VALUE_SCALES_OF_KEYS) != 0u;

// Slots of the longest sequence, or of a list: see attention/keys.glsl.
uint all_slots() { return LISTS_KEYS ? parameters.key_indices_len * KEY_BLOCK_LEN : parameters.kv_len; }

// Parts that each row's keys are split into.
uint parts() { return has(FEATURE_PARTS) ? parameters.parts : 1; }

// Scores are in units of log 2, for exp2.
const float LOG2_E = 1.44269504088896340736;
const float LN_2 = 0.69314718055994530942;

// Scores stay finite: not every device keeps infinities. A hidden key scores HIDDEN, a row maximum starts at
// LOWEST_MAXIMUM, and exp2(HIDDEN - LOWEST_MAXIMUM) is exactly 0.
const float HIDDEN = -3.0e38;
const float LOWEST_MAXIMUM = -1.0e38;

#endif
