#include "commands.hpp"
#include "input_error.hpp"
#include "progress.hpp"

#include <nlohmann/json.hpp>

#include <functional>
#include <iostream>

namespace vkattn::tools {
namespace {

std::string lengths_text(const AttentionShape &shape) {
    return "q_len " + std::to_string(shape.q_len) + ", kv_len " + std::to_string(shape.kv_len);
}

// A problem, in words, and how to tune it.
struct TunedProblem {
    std::string lengths, text;
    std::function<std::vector<vkattn_candidate>(const Context &)> tune;
};

TunedProblem tuned(const AttentionShape &shape, vkattn_kernel kernel) {
    return {lengths_text(shape), shape_text(shape, lengths_text(shape)),
            [=](const Context &context) { return context.tune(problem_of(shape, kernel).desc); }};
}

TunedProblem tuned(const LinearShape &shape) {
    const std::string rows = std::to_string(shape.rows) + (shape.rows == 1 ? " row" : " rows");
    return {rows, rows + ", " + shape_text(shape),
            [=](const Context &context) { return context.tune(problem_of(shape).desc); }};
}

std::vector<TunedProblem> problems_of(const CommonOptions &common, const TuneOptions &options) {
    const vkattn_kernel kernel = kernel_of(common.kernel);
    std::vector<TunedProblem> problems;
    if (is_linear(options, "tune"))
        for (const LinearShape &shape : linear_shapes_of(options)) problems.push_back(tuned(shape));
    else
        for (const AttentionShape &shape : shapes_of(options)) problems.push_back(tuned(shape, kernel));
    return problems;
}

void print_table(const TunedProblem &problem, const std::vector<vkattn_candidate> &candidates) {
    std::cout << problem.text << "\n";
    const double untuned = candidates.front().milliseconds;
    for (const vkattn_candidate &candidate : candidates) {
        std::cout << "  ";
        if (candidate.kernel != VKATTN_KERNEL_AUTO) std::cout << padded(vkattn_kernel_name(candidate.kernel), 14);
        std::cout << padded(candidate.tile, 52) << " ";
        if (candidate.reason[0] != '\0')
            std::cout << candidate.reason;
        else
            std::cout << decimals(candidate.milliseconds, 3) << " ms, "
                      << significant(untuned / candidate.milliseconds, 3) << "x"
                      << (&candidate == &candidates.front() ? ", untuned" : "")
                      << (candidate.kept != 0 ? ", kept" : "");
        std::cout << "\n";
    }
    std::cout << std::flush;
}

nlohmann::ordered_json to_json(const TunedProblem &problem, const std::vector<vkattn_candidate> &candidates) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const vkattn_candidate &candidate : candidates)
        list.push_back({{"kernel", vkattn_kernel_name(candidate.kernel)},
                        {"tile", candidate.tile},
                        {"milliseconds", candidate.milliseconds},
                        {"kept", candidate.kept != 0},
                        {"reason", candidate.reason}});
    return {{"problem", problem.text}, {"candidates", list}};
}

} // namespace

int tune_command(const CommonOptions &common, const TuneOptions &options, ValidationLog &validation) {
    const std::vector<TunedProblem> problems = problems_of(common, options);
    const Context context = make_context(common, validation);
    nlohmann::ordered_json report = nlohmann::ordered_json::array();
    if (!options.json) std::cout << context.facts().name << ", " << driver_text(context.facts()) << "\n";
    for (const TunedProblem &problem : problems) {
        std::vector<vkattn_candidate> candidates;
        try {
            const Waiting waiting("tuning " + problem.lengths);
            candidates = problem.tune(context);
        } catch (const Error &error) {
            throw InputError("tune", error.what());
        }
        save_context(context, common); // what is measured is kept, whatever comes next
        if (options.json)
            report.push_back(to_json(problem, candidates));
        else
            print_table(problem, candidates);
    }
    if (options.json) std::cout << report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
    if (common.saved_file.empty() && !options.json) std::cout << "nothing is kept without --saved FILE\n";
    return kExitSuccess;
}

} // namespace vkattn::tools
