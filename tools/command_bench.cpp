#include "bench_report.hpp"
#include "commands.hpp"
#include "input_error.hpp"
#include "text_file.hpp"

#include <iostream>

namespace vkattn::tools {
namespace {

// The problems that the lengths ask for: two lists of the same size go together, else every key length with every query
// length.
std::vector<BenchOptions> problems_of(const BenchOptions &options) {
    std::vector<BenchOptions> problems;
    const auto add = [&](std::uint32_t q_len, std::uint32_t kv_len) {
        problems.push_back(options);
        problems.back().q_len = q_len;
        problems.back().kv_len = kv_len;
    };
    if (options.q_lens.size() == options.kv_lens.size())
        for (std::size_t i = 0; i < options.q_lens.size(); ++i) add(options.q_lens[i], options.kv_lens[i]);
    else if (options.q_lens.size() == 1 || options.kv_lens.size() == 1)
        for (const std::uint32_t kv_len : options.kv_lens)
            for (const std::uint32_t q_len : options.q_lens) add(q_len, kv_len);
    else
        throw InputError("--q-len, --kv-len", std::to_string(options.q_lens.size()) + " and " +
                                                  std::to_string(options.kv_lens.size()) +
                                                  " lengths, expected as many of both, or one of either");
    return problems;
}

void check_options(const BenchOptions &options, std::size_t problems) {
    if (options.op != "attention")
        throw InputError("--op " + options.op, "not supported yet by bench in this version, expected attention");
    if (!options.svg_file.empty() && problems < 2)
        throw InputError("--svg", "one length alone, expected several, such as --kv-len 1k..128k");
}

BenchReport measure_all(const Context &context, const std::vector<BenchOptions> &problems, vkattn_kernel kernel) {
    BenchReport report;
    report.device = context.facts();
    if (problems.front().roofline) report.peaks = context.measure_peaks();
    for (const BenchOptions &problem : problems)
        report.points.push_back({problem, time_attention(context, problem, kernel)});
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
    const std::vector<BenchOptions> problems = problems_of(options);
    check_options(options, problems.size());
    const vkattn_kernel kernel = kernel_of(common.kernel);
    const Context context = make_context(common, validation);
    try {
        const BenchReport report = measure_all(context, problems, kernel);
        print(report, options);
        if (!options.svg_file.empty()) write_text(options.svg_file, svg::draw(bench_chart(report)));
    } catch (const Error &error) {
        throw InputError("bench", error.what());
    }
    return kExitSuccess;
}

} // namespace vkattn::tools
