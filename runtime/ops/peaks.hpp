#pragma once

#include "runtime/context/context.hpp"

namespace vkattn {

// Measures what the device reaches at most: shaders/peaks/peak_fma.comp, peak_matrix.comp, peak_stream.comp and a buffer
// copy. Takes some tenths of a second, and memory while it runs.
vkattn_peaks measure_peaks(Context &context);

} // namespace vkattn
