// One attention problem on random inputs, timed.
#pragma once

#include "tools/bench/attention_shape.hpp"
#include "tools/bench/measure.hpp"

namespace vkattn::tools {

// FLOPs are those of the query-key pairs that the mask leaves. Throws InputError, and Error of the library.
OperationTimes time_attention(const Context &context, const AttentionShape &shape, const RepeatOptions &options,
                              vkattn_kernel kernel);

// The same of its gradients: FLOPs are two and a half times as many, those of five products in place of two.
OperationTimes time_backward(const Context &context, const AttentionShape &shape, const RepeatOptions &options,
                             vkattn_kernel kernel);

// The same of the choice of keys. FLOPs are those of the scores.
OperationTimes time_index(const Context &context, const AttentionShape &shape, const RepeatOptions &options);

} // namespace vkattn::tools
