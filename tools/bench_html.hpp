// A page that shows what a device does: its facts and kernels, a sweep, the roofline, variants of attention.
#pragma once

#include "bench_report.hpp"
#include "bench_variants.hpp"

namespace vkattn::tools {

struct BenchPage {
    BenchReport decode;  // few queries against ever longer keys; at least two points, with peaks
    BenchReport prefill; // as many queries as keys; at least two points
    std::vector<VariantResult> variants;
    std::string variants_title; // their sizes
};

// Returns one HTML file that needs nothing else.
std::string html_page(const BenchPage &page);

} // namespace vkattn::tools
