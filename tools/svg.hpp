// Charts as SVG text: no fonts or styles from outside, readable on a light background.
#pragma once

#include "units.hpp"

#include <string>
#include <vector>

namespace vkattn::tools::svg {

enum class Scale { kLinear, kLog };

struct Axis {
    std::string label;
    Unit unit = Unit::kPlain;
    Scale scale = Scale::kLinear; // linear axes start at 0; on log axes every value must be > 0
};

struct Point {
    double x;
    double y;
};

struct Series {
    std::string name;
    std::vector<Point> points; // by rising x
};

// A dashed line across the plot, for a limit or a point of interest.
struct ReferenceLine {
    std::string label;
    double value;
};

struct LineChart {
    std::string title;
    std::string subtitle; // wrapped to the picture's width
    Axis x;
    Axis y;
    std::vector<Series> series; // at least one point in all
    std::vector<ReferenceLine> x_lines;
    std::vector<ReferenceLine> y_lines;
};

// One measure of every category; panels stand side by side, each with an axis of its own from 0.
struct BarPanel {
    std::string title;
    Unit unit = Unit::kPlain;
    std::vector<double> values; // one a category
};

struct BarChart {
    std::string title;
    std::string subtitle;
    std::vector<std::string> categories;
    std::vector<BarPanel> panels;
};

// The lines are named at their right end, in the order of the lines there.
std::string draw(const LineChart &chart);

// The bars run to the right and carry their values.
std::string draw(const BarChart &chart);

} // namespace vkattn::tools::svg
