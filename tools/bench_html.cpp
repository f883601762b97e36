#include "bench_html.hpp"

#include "svg.hpp"

#include <algorithm>
#include <string_view>

namespace vkattn::tools {
namespace {

constexpr double kGiga = 1e9;

constexpr std::string_view kStyle = R"(
body { font: 15px/1.5 system-ui, sans-serif; color: #222; max-width: 920px; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.5em; } h2 { font-size: 1.15em; margin-top: 2.2em; border-bottom: 1px solid #ddd; }
table { border-collapse: collapse; margin: 1em 0; } th, td { text-align: left; padding: .25em 1em .25em 0; vertical-align: top; }
th { border-bottom: 1px solid #999; font-weight: 600; } td.number, th.number { text-align: right; }
td { border-bottom: 1px solid #eee; } svg { max-width: 100%; height: auto; } .no { color: #888; })";

std::string escaped(std::string_view text) {
    std::string out;
    for (const char c : text) {
        if (c == '&')
            out += "&amp;";
        else if (c == '<')
            out += "&lt;";
        else if (c == '>')
            out += "&gt;";
        else if (c == '"')
            out += "&quot;";
        else
            out += c;
    }
    return out;
}

using Cells = std::vector<std::string>;

std::string row_of(const Cells &cells, const char *tag, std::size_t first_number) {
    std::string row = "<tr>";
    for (std::size_t i = 0; i < cells.size(); ++i)
        row += std::string("<") + tag + (i >= first_number ? " class=\"number\">" : ">") + escaped(cells[i]) + "</" +
               tag + ">";
    return row + "</tr>\n";
}

// Columns from first_number on stand to the right.
std::string table_of(const Cells &head, const std::vector<Cells> &rows, std::size_t first_number) {
    std::string table = "<table>\n";
    if (!head.empty()) table += row_of(head, "th", first_number);
    for (const Cells &row : rows) table += row_of(row, "td", first_number);
    return table + "</table>\n";
}

std::string device_section(const BenchReport &report) {
    const vkattn_device_facts &facts = report.device;
    std::vector<Cells> rows{
        {"driver", driver_text(facts)},
        {"shared memory", format_value(facts.max_shared_memory_bytes, Unit::kBytes)},
        {"invocations of a workgroup", std::to_string(facts.max_workgroup_invocations)},
        {"subgroup", std::to_string(facts.subgroup_size)},
        {"arithmetic, measured", significant(report.peaks->flops_per_second / kGiga, 4) + " GFLOP/s"}};
    if (report.peaks->matrix_flops_per_second > 0)
        rows.push_back(
            {"matrix units, measured", significant(report.peaks->matrix_flops_per_second / kGiga, 4) + " GFLOP/s"});
    rows.push_back({"memory, measured", significant(report.peaks->bytes_per_second / kGiga, 4) + " GB/s"});
    std::vector<Cells> kernels;
    for (std::uint32_t i = 0; i < facts.kernel_count; ++i)
        kernels.push_back({vkattn_kernel_name(facts.kernels[i].kernel),
                           facts.kernels[i].supported != 0 ? "yes" : std::string("no: ") + facts.kernels[i].reason});
    return table_of({}, rows, 2) + table_of({"kernel", "runs here"}, kernels, 2);
}

Cells cells_of(const BenchPoint &point, const Peaks &peaks) {
    const OperationTimes &times = point.times;
    Cells cells{times.kernel};
    for (const BenchSize &size : point.sizes) cells.push_back(std::to_string(size.value));
    cells.insert(cells.end(),
                 {decimals(times.best.median, 3), significant(times.gflops(), 3), significant(times.gbytes_per_s(), 3),
                  decimals(100.0 * times.bound_seconds(peaks) / times.seconds(), 0) + " %"});
    return cells;
}

std::string sweep_section(const BenchReport &report, const Peaks &peaks) {
    std::vector<Cells> rows;
    for (const BenchPoint &point : report.points) rows.push_back(cells_of(point, peaks));
    Cells head{"kernel"};
    for (const BenchSize &size : report.points.front().sizes) head.push_back(size.words);
    head.insert(head.end(), {"median ms", "GFLOP/s", "GB/s", "of roofline"});
    return svg::draw(bench_chart(report)) + table_of(head, rows, 1);
}

svg::Series intensities(const std::string &name, const BenchReport &report) {
    svg::Series series{name, {}};
    for (const BenchPoint &point : report.points)
        series.points.push_back({point.times.flops / point.times.bytes, point.times.gflops()});
    std::ranges::sort(series.points, {}, &svg::Point::x);
    return series;
}

svg::LineChart roofline_chart(const BenchPage &page) {
    const OperationTimes &any = page.decode.points.front().times;
    const double peak = any.peak_flops(*page.decode.peaks) / kGiga;
    const double memory = page.decode.peaks->bytes_per_second / kGiga;
    svg::LineChart chart;
    chart.title = "Roofline";
    chart.subtitle =
        "What arithmetic and memory allow, as two micro-kernels measured them, and what attention reaches.";
    chart.x = {"operations per byte", Unit::kPlain, svg::Scale::kLog};
    chart.y = {"GFLOP/s", Unit::kPlain, svg::Scale::kLog};
    const svg::Series decode = intensities("decode", page.decode), prefill = intensities("prefill", page.prefill);
    const double least = std::min({decode.points.front().x, prefill.points.front().x, peak / memory}) / 2;
    const double most = 2 * std::max({decode.points.back().x, prefill.points.back().x, peak / memory});
    chart.series = {{"roofline", {{least, least * memory}, {peak / memory, peak}, {most, peak}}}, decode, prefill};
    return chart;
}

std::string variants_section(const BenchPage &page) {
    svg::BarChart chart;
    chart.title = "Variants";
    chart.subtitle = page.variants_title;
    svg::BarPanel prefill{"Prefill, ms", Unit::kPlain, {}}, decode{"Decode step, ms", Unit::kPlain, {}},
        cache{"Cache of a token", Unit::kBytes, {}};
    std::vector<Cells> rows;
    for (const VariantResult &each : page.variants) {
        chart.categories.push_back(each.name);
        prefill.values.push_back(each.prefill.median);
        decode.values.push_back(each.decode.median);
        cache.values.push_back(static_cast<double>(each.estimate.cache_bytes_per_token));
        rows.push_back({each.name, each.prefill_kernel, each.decode_kernel, decimals(each.prefill.median, 2),
                        decimals(each.decode.median, 2), format_grouped(each.estimate.parameters),
                        format_grouped(each.estimate.cache_bytes_per_token)});
    }
    chart.panels = {prefill, decode, cache};
    return svg::draw(chart) + table_of({"variant", "prefill by", "decode by", "prefill ms", "decode step ms",
                                        "parameters", "cache bytes/token"},
                                       rows, 3);
}

} // namespace

std::string html_page(const BenchPage &page) {
    const std::string title = std::string("vkattn on ") + page.decode.device.name;
    std::string html = "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/><title>" + escaped(title) +
                       "</title><style>" + std::string(kStyle) + "</style></head><body>\n<h1>" + escaped(title) +
                       "</h1>\n";
    const Peaks &peaks = *page.decode.peaks;
    html += "<h2>Device and kernels</h2>\n" + device_section(page.decode);
    html += "<h2>Roofline</h2>\n" + svg::draw(roofline_chart(page));
    html += "<h2>Decode: few queries, ever more keys</h2>\n" + sweep_section(page.decode, peaks);
    html += "<h2>Prefill: as many queries as keys</h2>\n" + sweep_section(page.prefill, peaks);
    html += "<h2>Variants of attention</h2>\n" + variants_section(page);
    return html + "<p>vkattn " + vkattn_version() + "</p>\n</body></html>\n";
}

} // namespace vkattn::tools
