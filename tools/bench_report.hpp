// Timed attention problems in words, figures and a picture.
#pragma once

#include "bench_attention.hpp"
#include "svg.hpp"

#include <optional>
#include <ostream>
#include <span>

namespace vkattn::tools {

struct BenchPoint {
    AttentionShape shape;
    AttentionTimes times;
};

struct BenchReport {
    vkattn_device_facts device{};
    std::optional<vkattn_peaks> peaks; // measured for --roofline
    std::vector<BenchPoint> points;    // at least one
};

void print_text(std::ostream &out, const BenchReport &report); // one point at length, several as a table
void print_json(std::ostream &out, const BenchReport &report); // one object, of several an array
void print_csv(std::ostream &out, const BenchReport &report);

// Time against the length that is swept, with the roofline's bound where it was measured. At least two points.
svg::LineChart bench_chart(const BenchReport &report);

} // namespace vkattn::tools
