// One attention problem on random inputs, timed.
#pragma once

#include "attention_shape.hpp"
#include "bench_measure.hpp"

namespace vkattn::tools {

// FLOPs are those of the query-key pairs that the mask leaves. Throws InputError, and Error of the library.
OperationTimes time_attention(const Context &context, const AttentionShape &shape, const RepeatOptions &options,
                              vkattn_kernel kernel);

} // namespace vkattn::tools
