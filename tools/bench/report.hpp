// Timed problems of one operation in words and figures.
#pragma once

#include "tools/bench/measure.hpp"

#include <optional>
#include <ostream>
#include <span>

namespace vkattn::tools {

struct BenchSize {
    std::string name; // as in JSON
    std::uint32_t value = 0;
};

struct BenchPoint {
    std::vector<BenchSize> sizes; // the same names in every point
    OperationTimes times;
};

struct BenchReport {
    vkattn_device_facts device{};
    std::optional<Peaks> peaks;     // measured for --roofline
    std::string operation;          // "attention"
    std::string problem;            // in words, with the sizes that are not swept
    std::vector<BenchPoint> points; // at least one
};

void print_text(std::ostream &out, const BenchReport &report); // one point at length, several as a table
void print_json(std::ostream &out, const BenchReport &report); // one object, of several an array
void print_csv(std::ostream &out, const BenchReport &report);

} // namespace vkattn::tools
