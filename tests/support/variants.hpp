// Variants of attention for tests, of builds that have vkattn_jit.
#pragma once

#include "device.hpp"

#include <string>

namespace vkattn_test {

// Gives the problem the variant of a text, which lives as long as it.
void set_variant(AttentionProblem &problem, const std::string &text,
                 const vkattn::Context &context = test_device().context());

// Gives the problem a variant that has every function, each of which reads a captured tensor and counts all that it is given.
void set_every_function(AttentionProblem &problem, std::mt19937 &random,
                        const vkattn::Context &context = test_device().context());

// The same of a variant that has those that gradients take: score_mod, score_mod_grad and mask_mod.
void set_score_functions(AttentionProblem &problem, std::mt19937 &random,
                         const vkattn::Context &context = test_device().context());

} // namespace vkattn_test
