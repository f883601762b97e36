// What a device reaches at most, measured: the lines of a roofline (Williams, Waterman and Patterson, 2009).
#pragma once

#include <vkattn/vkattn.hpp>

namespace vkattn::tools {

struct Peaks {
    double flops_per_second = 0.0;        // of f32 multiply-adds outside matrix units, two operations each
    double matrix_flops_per_second = 0.0; // of matrix units, f16 factors and f32 sums; 0 without kernel coopmat
    double bytes_per_second = 0.0;        // read, or read and written, from memory that no cache holds
};

// Measures on the context's queue and waits; takes some tenths of a second, and up to 512 MiB of device memory while it
// runs. Throws InputError.
Peaks measure_peaks(const Context &context);

} // namespace vkattn::tools
