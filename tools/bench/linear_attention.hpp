// Linear attention on random inputs, timed.
#pragma once

#include "tools/bench/linear_shape.hpp"
#include "tools/bench/measure.hpp"

namespace vkattn::tools {

// Of AttentionShape the batch, the heads (of values; kv_heads: of queries and keys), q_len, the head sizes and dtype. The gated delta
// rule with norms, its state in one place.
// Throws InputError, and Error of the library.
OperationTimes time_linear_attention(const Context &context, const AttentionShape &shape, const std::string &form,
                                     const RepeatOptions &options);

} // namespace vkattn::tools
