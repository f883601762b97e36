#include "bench_attention.hpp"
#include "bench_html.hpp"
#include "bench_report.hpp"
#include "commands.hpp"
#include "input_error.hpp"
#include "text_file.hpp"

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
    report.operation = "Attention";
    report.problem = problem_text(shapes);
    for (const AttentionShape &shape : shapes)
        report.points.push_back({{{"batch", "batch", shape.batch},
                                  {"q_len", "query length", shape.q_len},
                                  {"kv_len", "key length", shape.kv_len}},
                                 time_attention(context, shape, options, kernel)});
    return report;
}

BenchReport measure_linear(const Context &context, const BenchOptions &options) {
    BenchReport report = begin_report(context, options);
    const std::vector<LinearShape> shapes = linear_shapes_of(options);
    report.operation = "Linear";
    report.problem = shape_text(shapes.front());
    for (const LinearShape &shape : shapes)
        report.points.push_back({{{"in_features", "input features", shape.in_features},
                                  {"out_features", "output features", shape.out_features},
                                  {"rows", "rows", shape.rows}},
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

// The problem with other lengths, each q_len with the kv_len of its place.
BenchOptions with_lengths(BenchOptions options, std::vector<std::uint32_t> q_lens, std::vector<std::uint32_t> kv_lens) {
    options.q_lens = std::move(q_lens);
    options.kv_lens = std::move(kv_lens);
    options.roofline = true;
    return options;
}

BenchPage measure_page(const Context &context, const BenchOptions &options, vkattn_kernel kernel) {
    const std::vector<std::uint32_t> prompts = {128, 256, 512, 1024};
    const bool sweeps = options.kv_lens.size() > 1;
    BenchPage page;
    page.decode = measure_attention(
        context,
        with_lengths(options, {1}, sweeps ? options.kv_lens : std::vector<std::uint32_t>{1024, 2048, 4096, 8192}),
        kernel);
    BenchOptions prefill = with_lengths(options, prompts, prompts);
    prefill.shape.causal = true;
    prefill.roofline = false; // measured once
    page.prefill = measure_attention(context, prefill, kernel);
    page.prefill.peaks = page.decode.peaks;
    page.variants = measure_variants(context, options, kernel);
    page.variants_title = "Width " + std::to_string(options.d_model) + ", " + std::to_string(options.shape.heads) +
                          " heads, a prompt of " + std::to_string(options.len) + " tokens and a step after it, " +
                          options.shape.dtype + ".";
    return page;
}

int bench_page(const CommonOptions &common, BenchOptions options, ValidationLog &validation) {
    if (options.variants.empty()) options.variants = {"mha", "mqa", "gqa-4", "mla"};
    check_variants(options);
    const Context context = make_context(common, validation);
    try {
        write_text(options.html_file, html_page(measure_page(context, options, kernel_of(common.kernel))));
    } catch (const Error &error) {
        throw InputError("bench --html", error.what());
    }
    std::cout << "written " << options.html_file << "\n";
    save_context(context, common);
    return kExitSuccess;
}

} // namespace

int bench_command(const CommonOptions &common, const BenchOptions &options, ValidationLog &validation) {
    if (!options.html_file.empty()) return bench_page(common, options, validation);
    if (!options.variants.empty()) return bench_variants(common, options, validation);
    const bool linear = is_linear(options, "bench");
    if (!options.svg_file.empty() && (linear ? options.rows.size() : shapes_of(options).size()) < 2)
        throw InputError("--svg", "one length alone, expected several, such as --kv-len 1k..128k");
    const vkattn_kernel kernel = kernel_of(common.kernel);
    const Context context = make_context(common, validation);
    try {
        const BenchReport report =
            linear ? measure_linear(context, options) : measure_attention(context, options, kernel);
        print(report, options);
        if (!options.svg_file.empty()) write_text(options.svg_file, svg::draw(bench_chart(report)));
    } catch (const Error &error) {
        throw InputError("bench", error.what());
    }
    save_context(context, common);
    return kExitSuccess;
}

} // namespace vkattn::tools
