#include "bench_report.hpp"
#include "commands.hpp"
#include "input_error.hpp"
#include "text_file.hpp"

#include <iostream>

namespace vkattn::tools {
namespace {

void check_options(const BenchOptions &options, std::size_t problems) {
    if (options.op != "attention")
        throw InputError("--op " + options.op, "not supported yet by bench in this version, expected attention");
    if (!options.svg_file.empty() && problems < 2)
        throw InputError("--svg", "one length alone, expected several, such as --kv-len 1k..128k");
}

BenchReport measure_all(const Context &context, const BenchOptions &options, vkattn_kernel kernel) {
    BenchReport report;
    report.device = context.facts();
    if (options.roofline) report.peaks = context.measure_peaks();
    for (const AttentionShape &shape : shapes_of(options))
        report.points.push_back({shape, time_attention(context, shape, options, kernel)});
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
    check_options(options, shapes_of(options).size());
    const vkattn_kernel kernel = kernel_of(common.kernel);
    const Context context = make_context(common, validation);
    try {
        const BenchReport report = measure_all(context, options, kernel);
        print(report, options);
        if (!options.svg_file.empty()) write_text(options.svg_file, svg::draw(bench_chart(report)));
    } catch (const Error &error) {
        throw InputError("bench", error.what());
    }
    save_context(context, common);
    return kExitSuccess;
}

} // namespace vkattn::tools
