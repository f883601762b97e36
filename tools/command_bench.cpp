#include "bench_attention.hpp"
#include "bench_report.hpp"
#include "commands.hpp"
#include "input_error.hpp"

#include <iostream>

namespace vkattn::tools {
namespace {

BenchReport begin_report(const Context &context, const BenchOptions &options) {
    BenchReport report;
    report.device = context.facts();
    if (options.roofline) report.peaks = measure_peaks(context);
    return report;
}

// The lengths that are not swept: the queries, unless they are.
std::string problem_text(const std::vector<AttentionShape> &shapes) {
    const AttentionShape &first = shapes.front(), &last = shapes.back();
    if (first.kv_len == last.kv_len) return shape_text(first, "kv_len " + std::to_string(first.kv_len));
    const std::string to = first.q_len == last.q_len ? "" : " to " + std::to_string(last.q_len);
    return shape_text(first, "q_len " + std::to_string(first.q_len) + to);
}

BenchReport measure_attention(const Context &context, const BenchOptions &options, vkattn_kernel kernel) {
    BenchReport report = begin_report(context, options);
    const std::vector<AttentionShape> shapes = shapes_of(options);
    report.operation = "attention";
    report.problem = problem_text(shapes);
    for (const AttentionShape &shape : shapes)
        report.points.push_back({{{"batch", shape.batch}, {"q_len", shape.q_len}, {"kv_len", shape.kv_len}},
                                 time_attention(context, shape, options, kernel)});
    return report;
}

BenchReport measure_linear(const Context &context, const BenchOptions &options) {
    BenchReport report = begin_report(context, options);
    const std::vector<LinearShape> shapes = linear_shapes_of(options);
    report.operation = "linear";
    report.problem = shape_text(shapes.front());
    for (const LinearShape &shape : shapes)
        report.points.push_back(
            {{{"in_features", shape.in_features}, {"out_features", shape.out_features}, {"rows", shape.rows}},
             time_linear(context, shape, options)});
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
    const bool linear = is_linear(options, "bench");
    const vkattn_kernel kernel = kernel_of(common.kernel);
    const Context context = make_context(common, validation);
    try {
        const BenchReport report =
            linear ? measure_linear(context, options) : measure_attention(context, options, kernel);
        print(report, options);
    } catch (const Error &error) {
        throw InputError("bench", error.what());
    }
    save_context(context, common);
    return kExitSuccess;
}

} // namespace vkattn::tools
