// One attention problem on random inputs, timed.
#pragma once

#include "tools/bench/attention_shape.hpp"
#include "tools/bench/measure.hpp"

namespace vkattn::tools {

// FLOPs are those of the query-key pairs that the mask leaves. Throws InputError, and Error of the library.
OperationTimes time_attention(const Context &context, const AttentionShape &shape, const RepeatOptions &options,
                              vkattn_kernel kernel);

} // namespace vkattn::tools
