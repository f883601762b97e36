// Timed problems of one operation in words, figures and a picture.
#pragma once

#include "bench_measure.hpp"
#include "svg.hpp"

#include <optional>
#include <ostream>
#include <span>

namespace vkattn::tools {

struct BenchSize {
    std::string name; // as in JSON
    std::string words;
    std::uint32_t value = 0;
};

struct BenchPoint {
    std::vector<BenchSize> sizes; // the same names in every point; what is swept is the last one that differs
    OperationTimes times;
};

struct BenchReport {
    vkattn_device_facts device{};
    std::optional<Peaks> peaks;     // measured for --roofline
    std::string operation;          // "Attention"
    std::string problem;            // in words, with the sizes that are not swept
    std::vector<BenchPoint> points; // at least one
};

void print_text(std::ostream &out, const BenchReport &report); // one point at length, several as a table
void print_json(std::ostream &out, const BenchReport &report); // one object, of several an array
void print_csv(std::ostream &out, const BenchReport &report);

// Time against the length that is swept, with the roofline's bound where it was measured. At least two points.
svg::LineChart bench_chart(const BenchReport &report);

} // namespace vkattn::tools
