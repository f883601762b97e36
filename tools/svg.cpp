#include "svg.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <sstream>
#include <string_view>

namespace vkattn::tools::svg {
namespace {

constexpr double kWidth = 860.0;
constexpr double kPlotHeight = 380.0;
constexpr double kEdge = 24.0;
constexpr double kTitleSize = 19.0;
constexpr double kTextSize = 13.0;
constexpr double kLineHeight = 18.0;
constexpr double kRowHeight = 30.0;
constexpr double kBarHeight = 18.0;
constexpr std::size_t kLongestName = 28;
constexpr std::size_t kMostMarkers = 16;

constexpr const char *kInk = "#1f2328";
constexpr const char *kQuietInk = "#57606a";
constexpr const char *kGrid = "#e3e6ea";
constexpr const char *kFrame = "#8c959f";
// Okabe and Ito's colours, which colour-blind readers can tell apart, the light ones left out or darkened.
constexpr std::array<const char *, 8> kColours{"#0072b2", "#d55e00", "#009e73", "#b5478f",
                                               "#b8860b", "#3a9bd9", "#6a3d9a", "#4d4d4d"};

const char *colour(std::size_t index) { return kColours[index % kColours.size()]; }

// Widths are estimated: the reader's font is unknown. Wide enough for the usual sans-serif faces.
double text_width(std::string_view text, double size = kTextSize) {
    const auto continues = [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0U) == 0x80U; };
    const auto letters =
        static_cast<double>(text.size()) - static_cast<double>(std::count_if(text.begin(), text.end(), continues));
    return letters * size * 0.63;
}

std::string escaped(std::string_view text) {
    std::string result;
    for (const char character : text) {
        switch (character) {
        case '&':
            result += "&amp;";
            break;
        case '<':
            result += "&lt;";
            break;
        case '>':
            result += "&gt;";
            break;
        case '"':
            result += "&quot;";
            break;
        default:
            result += character;
        }
    }
    return result;
}

std::string shortened(const std::string &name) {
    return name.size() <= kLongestName ? name : name.substr(0, kLongestName - 3) + "...";
}

std::vector<std::string> wrapped(const std::string &text, double width) {
    std::vector<std::string> lines;
    std::istringstream words(text);
    for (std::string word; words >> word;) {
        if (lines.empty() || text_width(lines.back() + " " + word) > width)
            lines.push_back(word);
        else
            lines.back() += " " + word;
    }
    return lines;
}

struct TextStyle {
    const char *anchor = "start";
    double size = kTextSize;
    const char *ink = kInk;
    bool is_bold = false;
    bool has_halo = false; // of the background: for text that may lie on lines
};

struct Stroke {
    const char *ink;
    double width = 1.0;
    const char *dashes = "";
};

// Collects the elements; the height is known only at the end.
class Canvas {
  public:
    Canvas() { body_.precision(6); }

    void text(double x, double y, std::string_view content, const TextStyle &style = {}) {
        body_ << "<text x=\"" << x << "\" y=\"" << y << "\" font-size=\"" << style.size << "\" text-anchor=\""
              << style.anchor << "\" fill=\"" << style.ink << '"' << (style.is_bold ? " font-weight=\"600\"" : "")
              << (style.has_halo ? " stroke=\"#ffffff\" stroke-width=\"4\" paint-order=\"stroke\"" : "") << '>'
              << escaped(content) << "</text>\n";
    }

    void text_upwards(double x, double y, std::string_view content) {
        body_ << "<text transform=\"translate(" << x << ' ' << y << ") rotate(-90)\" font-size=\"" << kTextSize
              << "\" text-anchor=\"middle\" fill=\"" << kQuietInk << "\">" << escaped(content) << "</text>\n";
    }

    void line(Point from, Point to, const Stroke &stroke) {
        const std::array<Point, 2> ends{from, to};
        polyline({ends.begin(), ends.end()}, stroke);
    }

    void polyline(const std::vector<Point> &points, const Stroke &stroke) {
        body_ << "<polyline fill=\"none\" stroke=\"" << stroke.ink << "\" stroke-width=\"" << stroke.width << '"';
        if (*stroke.dashes != '\0') body_ << " stroke-dasharray=\"" << stroke.dashes << '"';
        body_ << " points=\"";
        for (const Point &point : points) body_ << point.x << ',' << point.y << ' ';
        body_ << "\"/>\n";
    }

    void circle(Point centre, double radius, const char *ink) {
        body_ << "<circle cx=\"" << centre.x << "\" cy=\"" << centre.y << "\" r=\"" << radius << "\" fill=\"" << ink
              << "\"/>\n";
    }

    void rectangle(Point corner, double width, double height, const char *ink) {
        body_ << "<rect x=\"" << corner.x << "\" y=\"" << corner.y << "\" width=\"" << width << "\" height=\"" << height
              << "\" rx=\"2\" fill=\"" << ink << "\"/>\n";
    }

    // Writes the title and the wrapped subtitle; returns the y below them.
    double heading(const std::string &title, const std::string &subtitle) {
        double y = kEdge + kTitleSize * 0.75;
        text(kEdge, y, title, {.size = kTitleSize, .is_bold = true});
        y += 6.0;
        for (const std::string &row : wrapped(subtitle, kWidth - 2 * kEdge))
            text(kEdge, y += kLineHeight, row, {.ink = kQuietInk});
        return y + 18.0;
    }

    std::string finish(const std::string &title, double height) const {
        std::ostringstream all;
        all << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << kWidth << "\" height=\"" << height
            << "\" viewBox=\"0 0 " << kWidth << ' ' << height
            << "\" font-family=\"system-ui, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif\">\n<title>"
            << escaped(title) << "</title>\n<rect width=\"" << kWidth << "\" height=\"" << height
            << "\" fill=\"#ffffff\"/>\n"
            << body_.str() << "</svg>\n";
        return all.str();
    }

  private:
    std::ostringstream body_;
};

// An axis with its range and ticks fixed.
struct Ruler {
    Unit unit;
    Scale scale;
    double low;
    double high;
    std::vector<double> ticks;

    // 0 at the low end, 1 at the high end.
    double position(double value) const {
        if (scale == Scale::kLinear) return (value - low) / (high - low);
        return std::log(value / low) / std::log(high / low);
    }
    std::string label(double tick) const { return format_value(tick, unit); }
};

bool is_binary(Unit unit) { return unit == Unit::kBytes || unit == Unit::kTokens; }

double linear_step(double high, double most_ticks, Unit unit) {
    const double least = high / most_ticks;
    if (is_binary(unit)) return std::exp2(std::ceil(std::log2(least)));
    const double decade = std::pow(10.0, std::floor(std::log10(least)));
    for (const double factor : {1.0, 2.0, 5.0})
        if (decade * factor >= least * 0.999) return decade * factor;
    return decade * 10.0;
}

Ruler linear_ruler(double high, double most_ticks, Unit unit) {
    if (!(high > 0.0)) high = 1.0;
    const double step = linear_step(high, most_ticks, unit);
    Ruler ruler{unit, Scale::kLinear, 0.0, step * std::ceil(high / step - 1e-9), {}};
    const auto steps = static_cast<int>(std::lround(ruler.high / step));
    for (int index = 0; index <= steps; ++index) ruler.ticks.push_back(step * index);
    return ruler;
}

// From a power of the base to a power of the base, a whole number of ticks apart.
Ruler log_ruler(double low, double high, int most_ticks, Unit unit) {
    const double base = is_binary(unit) ? 2.0 : 10.0;
    const auto first = static_cast<int>(std::floor(std::log(low) / std::log(base) + 1e-9));
    auto last = static_cast<int>(std::ceil(std::log(high) / std::log(base) - 1e-9));
    last = std::max(last, first + 1);
    const int stride = std::max(1, (last - first + most_ticks - 1) / most_ticks);
    Ruler ruler{unit, Scale::kLog, std::pow(base, first), std::pow(base, last), {}};
    for (int power = first; power <= last; power += stride) ruler.ticks.push_back(std::pow(base, power));
    return ruler;
}

struct Range {
    double low = std::numeric_limits<double>::infinity();
    double high = -std::numeric_limits<double>::infinity();

    void cover(double value) {
        low = std::min(low, value);
        high = std::max(high, value);
    }
};

Ruler ruler_for(const Axis &axis, const Range &range, int most_ticks) {
    return axis.scale == Scale::kLog ? log_ruler(range.low, range.high, most_ticks, axis.unit)
                                     : linear_ruler(range.high, most_ticks, axis.unit);
}

Ruler x_ruler(const LineChart &chart) {
    Range range;
    for (const Series &series : chart.series)
        for (const Point &point : series.points) range.cover(point.x);
    for (const ReferenceLine &line : chart.x_lines) range.cover(line.value);
    return ruler_for(chart.x, range, 8);
}

Ruler y_ruler(const LineChart &chart) {
    Range range;
    for (const Series &series : chart.series)
        for (const Point &point : series.points) range.cover(point.y);
    for (const ReferenceLine &line : chart.y_lines) range.cover(line.value);
    return ruler_for(chart.y, range, 8);
}

double widest(const std::vector<std::string> &texts) {
    double width = 0.0;
    for (const std::string &text : texts) width = std::max(width, text_width(text));
    return width;
}

struct Plot {
    Ruler x;
    Ruler y;
    double left;
    double right;
    double top;
    double bottom;

    Point at(double x_value, double y_value) const {
        return {left + x.position(x_value) * (right - left), bottom - y.position(y_value) * (bottom - top)};
    }
};

Plot lay_out(const LineChart &chart, double top) {
    Plot plot{x_ruler(chart), y_ruler(chart), 0.0, 0.0, top, top + kPlotHeight};
    std::vector<std::string> labels;
    for (const double tick : plot.y.ticks) labels.push_back(plot.y.label(tick));
    std::vector<std::string> names;
    for (const Series &series : chart.series) names.push_back(shortened(series.name));
    plot.left = kEdge + kLineHeight + 8.0 + widest(labels) + 8.0;
    plot.right = kWidth - kEdge - widest(names) - 44.0;
    return plot;
}

void draw_axes(Canvas &canvas, const LineChart &chart, const Plot &plot) {
    for (const double tick : plot.y.ticks) {
        const double y = plot.at(plot.x.low, tick).y;
        canvas.line({plot.left, y}, {plot.right, y}, {.ink = kGrid});
        canvas.text(plot.left - 8.0, y + 4.5, plot.y.label(tick), {.anchor = "end", .ink = kQuietInk});
    }
    for (const double tick : plot.x.ticks) {
        const double x = plot.at(tick, plot.y.low).x;
        canvas.line({x, plot.bottom}, {x, plot.bottom + 5.0}, {.ink = kFrame});
        canvas.text(x, plot.bottom + 21.0, plot.x.label(tick), {.anchor = "middle", .ink = kQuietInk});
    }
    canvas.line({plot.left, plot.bottom}, {plot.right, plot.bottom}, {.ink = kFrame});
    canvas.text((plot.left + plot.right) / 2, plot.bottom + 45.0, chart.x.label,
                {.anchor = "middle", .ink = kQuietInk});
    canvas.text_upwards(kEdge + 10.0, (plot.top + plot.bottom) / 2, chart.y.label);
}

void draw_reference_lines(Canvas &canvas, const LineChart &chart, const Plot &plot) {
    const Stroke stroke{.ink = kQuietInk, .width = 1.2, .dashes = "2 4"};
    for (const ReferenceLine &line : chart.y_lines) {
        const double y = plot.at(plot.x.low, line.value).y;
        canvas.line({plot.left, y}, {plot.right, y}, stroke);
    }
    for (const ReferenceLine &line : chart.x_lines) {
        const double x = plot.at(line.value, plot.y.low).x;
        canvas.line({x, plot.top}, {x, plot.bottom}, stroke);
    }
}

// After the series, which may cross them.
void draw_reference_labels(Canvas &canvas, const LineChart &chart, const Plot &plot) {
    for (const ReferenceLine &line : chart.y_lines) {
        const double y = plot.at(plot.x.low, line.value).y;
        const bool is_at_top = y - plot.top < kLineHeight + 4.0;
        canvas.text(plot.left + 8.0, is_at_top ? y + kLineHeight : y - 6.0, line.label,
                    {.ink = kQuietInk, .has_halo = true});
    }
    for (const ReferenceLine &line : chart.x_lines) {
        const double x = plot.at(line.value, plot.y.low).x;
        const bool fits_right = x + 8.0 + text_width(line.label) < plot.right;
        canvas.text(fits_right ? x + 7.0 : x - 7.0, plot.bottom - 8.0, line.label,
                    {.anchor = fits_right ? "start" : "end", .ink = kQuietInk, .has_halo = true});
    }
}

bool coincide(const Series &a, const Series &b) {
    return std::ranges::equal(a.points, b.points,
                              [](const Point &p, const Point &q) { return p.x == q.x && p.y == q.y; });
}

void draw_series(Canvas &canvas, const LineChart &chart, const Plot &plot, std::size_t index) {
    const Series &series = chart.series[index];
    // A later line over an equal one is dashed, so that both show.
    const bool hides_another =
        std::any_of(chart.series.begin(), chart.series.begin() + static_cast<std::ptrdiff_t>(index),
                    [&](const Series &earlier) { return coincide(earlier, series); });
    std::vector<Point> points;
    for (const Point &point : series.points) points.push_back(plot.at(point.x, point.y));
    canvas.polyline(points, {.ink = colour(index), .width = 2.2, .dashes = hides_another ? "7 7" : ""});
    if (points.size() > kMostMarkers || hides_another) return;
    for (const Point &point : points) canvas.circle(point, 3.2, colour(index));
}

// Moves labels apart, keeping their order: each at least a line below the one before, the last within the plot.
std::vector<double> spread(std::vector<double> wanted, double bottom) {
    for (std::size_t i = 1; i < wanted.size(); ++i) wanted[i] = std::max(wanted[i], wanted[i - 1] + kLineHeight);
    double limit = bottom;
    for (std::size_t i = wanted.size(); i-- > 0;) {
        wanted[i] = std::min(wanted[i], limit);
        limit = wanted[i] - kLineHeight;
    }
    return wanted;
}

void draw_names(Canvas &canvas, const LineChart &chart, const Plot &plot) {
    std::vector<std::size_t> order;
    for (std::size_t index = 0; index < chart.series.size(); ++index)
        if (!chart.series[index].points.empty()) order.push_back(index);
    const auto end_of = [&](std::size_t index) {
        const Point last = chart.series[index].points.back();
        return plot.at(last.x, last.y);
    };
    std::ranges::stable_sort(order, {}, [&](std::size_t index) { return end_of(index).y; });
    std::vector<double> wanted;
    for (const std::size_t index : order) wanted.push_back(end_of(index).y);
    const std::vector<double> placed = spread(wanted, plot.bottom);
    for (std::size_t i = 0; i < order.size(); ++i) {
        const Point end = end_of(order[i]);
        canvas.line({end.x + 5.0, end.y}, {plot.right + 28.0, placed[i]}, {.ink = colour(order[i]), .width = 1.0});
        canvas.text(plot.right + 34.0, placed[i] + 4.5, shortened(chart.series[order[i]].name),
                    {.ink = colour(order[i]), .is_bold = true});
    }
}

struct PanelFrame {
    double left;
    double right;
    double top;
};

void draw_panel(Canvas &canvas, const BarPanel &panel, const PanelFrame &frame, const char *ink) {
    std::vector<std::string> labels;
    for (const double value : panel.values) labels.push_back(format_value(value, panel.unit));
    const double most = panel.values.empty() ? 0.0 : *std::ranges::max_element(panel.values);
    const Ruler ruler = linear_ruler(most, 4, panel.unit);
    // The longest bar may be as long as the axis: its value stands right of it.
    const double end = frame.right - widest(labels) - 8.0;
    const double bottom = frame.top + kRowHeight * static_cast<double>(panel.values.size());
    canvas.text(frame.left, frame.top - 10.0, panel.title, {.is_bold = true});
    for (const double tick : ruler.ticks) {
        const double x = frame.left + ruler.position(tick) * (end - frame.left);
        canvas.line({x, frame.top}, {x, bottom}, {.ink = tick == 0.0 ? kFrame : kGrid});
        canvas.text(x, bottom + 17.0, ruler.label(tick),
                    {.anchor = tick == 0.0 ? "start" : "middle", .size = 11.5, .ink = kQuietInk});
    }
    for (std::size_t row = 0; row < panel.values.size(); ++row) {
        const double y = frame.top + kRowHeight * static_cast<double>(row);
        const double width = ruler.position(panel.values[row]) * (end - frame.left);
        canvas.rectangle({frame.left, y + (kRowHeight - kBarHeight) / 2}, width, kBarHeight, ink);
        canvas.text(frame.left + width + 6.0, y + kRowHeight / 2 + 4.5, labels[row], {.has_halo = true});
    }
}

} // namespace

std::string draw(const LineChart &chart) {
    Canvas canvas;
    const Plot plot = lay_out(chart, canvas.heading(chart.title, chart.subtitle));
    draw_axes(canvas, chart, plot);
    draw_reference_lines(canvas, chart, plot);
    for (std::size_t index = 0; index < chart.series.size(); ++index) draw_series(canvas, chart, plot, index);
    draw_reference_labels(canvas, chart, plot);
    draw_names(canvas, chart, plot);
    return canvas.finish(chart.title, plot.bottom + 45.0 + kEdge);
}

std::string draw(const BarChart &chart) {
    Canvas canvas;
    const double top = canvas.heading(chart.title, chart.subtitle) + 20.0;
    std::vector<std::string> names;
    for (const std::string &category : chart.categories) names.push_back(shortened(category));
    const double left = kEdge + widest(names) + 12.0;
    const double stride =
        (kWidth - kEdge - left + kEdge) / static_cast<double>(std::max<std::size_t>(1, chart.panels.size()));
    for (std::size_t row = 0; row < names.size(); ++row)
        canvas.text(left - 12.0, top + kRowHeight * (static_cast<double>(row) + 0.5) + 4.5, names[row],
                    {.anchor = "end"});
    for (std::size_t index = 0; index < chart.panels.size(); ++index) {
        const double start = left + stride * static_cast<double>(index);
        draw_panel(canvas, chart.panels[index], {start, start + stride - kEdge, top}, colour(index));
    }
    return canvas.finish(chart.title, top + kRowHeight * static_cast<double>(names.size()) + 17.0 + kEdge);
}

} // namespace vkattn::tools::svg
