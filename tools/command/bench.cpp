#include "tools/bench/attention.hpp"
#include "tools/bench/linear_attention.hpp"
#include "tools/bench/report.hpp"
#include "tools/command/commands.hpp"
#include "tools/io/input_error.hpp"
#include "tools/io/progress.hpp"

#include <iostream>
#include <optional>
#include <string>
#include <vector>

namespace vkattn::tools {
namespace {

BenchReport begin_report(const Context &context, const BenchOptions &options) {
    BenchReport report;
    report.device = context.facts();
    if (options.roofline) {
        const Waiting waiting("the device's peaks");
        report.peaks = measure_peaks(context);
    }
    return report;
}

// The lengths that are not swept: the queries, unless they are.
std::string problem_text(const std::vector<AttentionShape> &shapes) {
    const AttentionShape &first = shapes.front(), &last = shapes.back();
    if (first.kv_len == last.kv_len) return shape_text(first, "kv_len " + std::to_string(first.kv_len));
    const std::string to = first.q_len == last.q_len ? "" : " to " + std::to_string(last.q_len);
    return shape_text(first, "q_len " + std::to_string(first.q_len) + to);
}

// What the points from `next` on take, as the one before them suggests. work: of each point, in any unit.
std::optional<double> seconds_left(const BenchReport &report, const RepeatOptions &options,
                                   const std::vector<double> &work, std::size_t next) {
    if (next == 0) return {};
    const double run_ms_of_work = report.points[next - 1].times.wall.median / work[next - 1];
    double seconds = 0.0;
    for (std::size_t i = next; i < work.size(); ++i) seconds += seconds_to_time(options, run_ms_of_work * work[i]);
    return seconds;
}

// Times one point after the other, and says so.
template <class Shape, class Work, class Name, class Time>
void measure_points(BenchReport &report, const std::vector<Shape> &shapes, const RepeatOptions &options,
                    const Work &work_of, const Name &name_of, const Time &time) {
    std::vector<double> work;
    for (const Shape &shape : shapes) work.push_back(work_of(shape));
    Progress progress(shapes.size());
    RepeatOptions told = options;
    told.progress = &progress;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
        progress.begin(name_of(shapes[i]), seconds_left(report, options, work, i));
        report.points.push_back(time(shapes[i], told));
    }
}

BenchReport measure_attention(const Context &context, const BenchOptions &options, vkattn_kernel kernel) {
    BenchReport report = begin_report(context, options);
    const std::vector<AttentionShape> shapes = shapes_of(options);
    const bool backward = options.shape.backward;
    report.operation = options.shape.index != 0 ? "index" : backward ? "attention_backward" : "attention";
    report.problem = problem_text(shapes);
    measure_points(
        report, shapes, options,
        [](const AttentionShape &shape) { return static_cast<double>(shape.q_len) * shape.kv_len; }, lengths_text,
        [&](const AttentionShape &shape, const RepeatOptions &told) {
            return BenchPoint{{{"batch", shape.batch}, {"q_len", shape.q_len}, {"kv_len", shape.kv_len}},
                              shape.index != 0 ? time_index(context, shape, told)
                              : backward       ? time_backward(context, shape, told, kernel)
                                               : time_attention(context, shape, told, kernel)};
        });
    return report;
}

BenchReport measure_linear(const Context &context, const BenchOptions &options) {
    BenchReport report = begin_report(context, options);
    const std::vector<LinearShape> shapes = linear_shapes_of(options);
    report.operation = options.shape.backward ? "linear_backward" : "linear";
    report.problem = shape_text(shapes.front());
    measure_points(
        report, shapes, options, [](const LinearShape &shape) { return static_cast<double>(shape.rows); },
        [](const LinearShape &shape) { return "rows " + std::to_string(shape.rows); },
        [&](const LinearShape &shape, const RepeatOptions &told) {
            return BenchPoint{
                {{"in_features", shape.in_features}, {"out_features", shape.out_features}, {"rows", shape.rows}},
                options.shape.backward ? time_linear_backward(context, shape, told)
                                       : time_linear(context, shape, told)};
        });
    return report;
}

BenchReport measure_linear_attention(const Context &context, const BenchOptions &options) {
    BenchReport report = begin_report(context, options);
    std::vector<AttentionShape> shapes(options.q_lens.size(), options.shape);
    for (std::size_t i = 0; i < shapes.size(); ++i) shapes[i].q_len = options.q_lens[i];
    const AttentionShape &first = shapes.front();
    report.operation = "linear_attention";
    report.problem = "batch " + std::to_string(first.batch) + ", " + std::to_string(first.heads) +
                     " value heads, head size " + std::to_string(first.head_dim) + ", " + first.dtype;
    measure_points(
        report, shapes, options, [](const AttentionShape &shape) { return static_cast<double>(shape.q_len); },
        [](const AttentionShape &shape) { return "q_len " + std::to_string(shape.q_len); },
        [&](const AttentionShape &shape, const RepeatOptions &told) {
            return BenchPoint{{{"batch", shape.batch}, {"heads", shape.heads}, {"q_len", shape.q_len}},
                              time_linear_attention(context, shape, options.form, told)};
        });
    return report;
}

void print(const BenchReport &report, const BenchOptions &options) {
    if (options.json)
        print_json(std::cout, report);
    else if (options.csv)
        print_csv(std::cout, report);
    else
        print_text(std::cout, report);
}

} // namespace

int bench_command(const CommonOptions &common, const BenchOptions &options, ValidationLog &validation) {
    if (!options.variants.empty()) return bench_variants(common, options, validation);
    const bool of_states = options.op == "linear_attention";
    const bool linear = !of_states && is_linear(options);
    const vkattn_kernel kernel = kernel_of(common.kernel);
    const Context context = make_context(common, validation);
    const SavedOnFailure saved(context, common);
    try {
        const BenchReport report = of_states ? measure_linear_attention(context, options)
                                   : linear  ? measure_linear(context, options)
                                             : measure_attention(context, options, kernel);
        print(report, options);
    } catch (const Error &error) {
        throw InputError("bench", error.what());
    }
    save_context(context, common);
    return kExitSuccess;
}

} // namespace vkattn::tools
