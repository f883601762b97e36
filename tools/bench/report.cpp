#include "tools/bench/report.hpp"

#include "tools/devices/device_words.hpp"
#include "tools/io/csv.hpp"
#include "tools/io/text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace vkattn::tools {
namespace {

constexpr double kGiga = 1e9;

// Percent of what the peaks allow.
double percent_of_roofline(const OperationTimes &times, const Peaks &peaks) {
    return 100.0 * times.bound_seconds(peaks) / times.seconds();
}

const char *bound_text(const OperationTimes &times, const Peaks &peaks) {
    return times.bound_by_memory(peaks) ? "memory" : "arithmetic";
}

nlohmann::ordered_json json_of(const BenchPoint &point, const BenchReport &report) {
    const OperationTimes &times = point.times;
    nlohmann::ordered_json json{{"device", report.device.name}, {"driver", driver_text(report.device)}};
    for (const BenchSize &size : point.sizes) json[size.name] = size.value;
    json.update({{"kernel", times.kernel},
                 {"clock", times.by_gpu ? "gpu" : "wall"},
                 {"median_ms", times.best.median},
                 {"min_ms", times.best.min},
                 {"spread_percent", times.best.spread_percent()},
                 {"wall_median_ms", times.wall.median},
                 {"wall_min_ms", times.wall.min},
                 {"repeat", times.runs},
                 {"input_sets", times.input_sets},
                 {"gflops", times.gflops()},
                 {"gbytes_per_s", times.gbytes_per_s()},
                 {"first_dispatch_ms", times.first_dispatch_ms},
                 {"workspace_bytes", times.workspace_bytes},
                 {"op", report.operation},
                 {"problem", report.problem},
                 {"flops", times.flops},
                 {"bytes", times.bytes}});
    if (report.peaks) {
        json["peak_gflops"] = report.peaks->flops_per_second / kGiga;
        json["peak_matrix_gflops"] = report.peaks->matrix_flops_per_second / kGiga;
        json["peak_gbytes_per_s"] = report.peaks->bytes_per_second / kGiga;
        json["percent_of_roofline"] = percent_of_roofline(times, *report.peaks);
        json["bound_ms"] = times.bound_seconds(*report.peaks) * 1e3;
        json["bound_by"] = bound_text(times, *report.peaks);
    }
    return json;
}

void print_times(std::ostream &out, const char *name, const Statistics &times) {
    out << padded(name, 12) << " median " << decimals(times.median, 4) << " ms, min " << decimals(times.min, 4)
        << " ms, spread " << decimals(times.spread_percent(), 0) << " %\n";
}

std::string peaks_text(const Peaks &peaks) {
    const double matrices = peaks.matrix_flops_per_second / kGiga;
    return significant(peaks.flops_per_second / kGiga, 4) + " GFLOP/s" +
           (matrices > 0.0 ? ", " + significant(matrices, 4) + " on matrix units," : "") + " and " +
           significant(peaks.bytes_per_second / kGiga, 4) + " GB/s measured";
}

void print_device(std::ostream &out, const BenchReport &report) {
    out << padded("device", 12) << " " << report.device.name << ", " << driver_text(report.device) << "\n";
}

void print_point(std::ostream &out, const BenchReport &report) {
    const OperationTimes &times = report.points.front().times;
    print_device(out, report);
    out << padded("kernel", 12) << " " << kernel_text(times.kernel, times.reason) << "\n"
        << padded("runs", 12) << " " << times.runs << " over " << times.input_sets << " input sets\n";
    if (times.by_gpu)
        print_times(out, "gpu", times.best);
    else
        out << padded("gpu", 12) << " this device has no timestamps\n";
    print_times(out, "wall", times.wall);
    out << padded("rate", 12) << " " << significant(times.gflops(), 4) << " GFLOP/s, "
        << significant(times.gbytes_per_s(), 4) << " GB/s\n";
    if (report.peaks)
        out << padded("roofline", 12) << " " << decimals(percent_of_roofline(times, *report.peaks), 0)
            << " %, bound by " << bound_text(times, *report.peaks) << ": " << peaks_text(*report.peaks) << "\n";
    out << padded("first", 12) << " " << decimals(times.first_dispatch_ms, 1) << " ms to plan and run once\n"
        << padded("workspace", 12) << " " << times.workspace_bytes << " bytes\n";
}

using Cells = std::vector<std::string>;

Cells cells_of(const BenchPoint &point, const BenchReport &report) {
    const OperationTimes &times = point.times;
    Cells cells;
    for (const BenchSize &size : point.sizes) cells.push_back(std::to_string(size.value));
    cells.insert(cells.end(), {times.kernel, decimals(times.best.median, 4), decimals(times.best.min, 4),
                               decimals(times.best.spread_percent(), 0) + " %", significant(times.gflops(), 4),
                               significant(times.gbytes_per_s(), 4), decimals(times.first_dispatch_ms, 1)});
    if (report.peaks) {
        cells.push_back(decimals(percent_of_roofline(times, *report.peaks), 0) + " %");
        cells.push_back(bound_text(times, *report.peaks));
    }
    return cells;
}

void print_table(std::ostream &out, const BenchReport &report) {
    print_device(out, report);
    out << padded("clock", 12) << " " << (report.points.front().times.by_gpu ? "gpu" : "wall") << "\n";
    if (report.peaks) out << padded("roofline", 12) << " " << peaks_text(*report.peaks) << "\n";
    std::vector<Cells> rows(1);
    for (const BenchSize &size : report.points.front().sizes) rows.front().push_back(size.name);
    rows.front().insert(rows.front().end(), {"kernel", "median ms", "min ms", "spread", "GFLOP/s", "GB/s", "first ms"});
    if (report.peaks) rows.front().insert(rows.front().end(), {"of roofline", "bound by"});
    for (const BenchPoint &point : report.points) rows.push_back(cells_of(point, report));
    out << "\n";
    for (const Cells &row : rows) {
        std::string line;
        for (std::size_t column = 0; column < row.size(); ++column) {
            std::size_t width = 0;
            for (const Cells &other : rows) width = std::max(width, other[column].size());
            line += padded(row[column], width + 2);
        }
        line.erase(line.find_last_not_of(' ') + 1);
        out << line << "\n";
    }
}

} // namespace

void print_text(std::ostream &out, const BenchReport &report) {
    (report.points.size() == 1 ? print_point : print_table)(out, report);
}

void print_json(std::ostream &out, const BenchReport &report) {
    nlohmann::ordered_json json = nlohmann::ordered_json::array();
    for (const BenchPoint &point : report.points) json.push_back(json_of(point, report));
    const nlohmann::ordered_json &shown = report.points.size() == 1 ? json.front() : json;
    out << shown.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
}

void print_csv(std::ostream &out, const BenchReport &report) {
    std::vector<nlohmann::ordered_json> rows;
    for (const BenchPoint &point : report.points) rows.push_back(json_of(point, report));
    write_csv(out, rows);
}

} // namespace vkattn::tools
