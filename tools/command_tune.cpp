#include "commands.hpp"
#include "input_error.hpp"
#include "progress.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <iostream>

namespace vkattn::tools {
namespace {

std::string lengths_text(const AttentionShape &shape) {
    return "q_len " + std::to_string(shape.q_len) + ", kv_len " + std::to_string(shape.kv_len);
}

void print_table(const AttentionShape &shape, const std::vector<vkattn_candidate> &candidates) {
    std::cout << shape_text(shape, lengths_text(shape)) << "\n";
    const double untuned = candidates.front().milliseconds;
    for (const vkattn_candidate &candidate : candidates) {
        std::cout << "  " << padded(vkattn_kernel_name(candidate.kernel), 13) << " " << padded(candidate.tile, 52)
                  << " ";
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

nlohmann::ordered_json to_json(const AttentionShape &shape, const std::vector<vkattn_candidate> &candidates) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const vkattn_candidate &candidate : candidates)
        list.push_back({{"kernel", vkattn_kernel_name(candidate.kernel)},
                        {"tile", candidate.tile},
                        {"milliseconds", candidate.milliseconds},
                        {"kept", candidate.kept != 0},
                        {"reason", candidate.reason}});
    return {{"problem", shape_text(shape, lengths_text(shape))}, {"candidates", list}};
}

} // namespace

int tune_command(const CommonOptions &common, const TuneOptions &options, ValidationLog &validation) {
    const vkattn_kernel kernel = kernel_of(common.kernel);
    const std::vector<AttentionShape> shapes = shapes_of(options);
    const Context context = make_context(common, validation);
    nlohmann::ordered_json report = nlohmann::ordered_json::array();
    if (!options.json) std::cout << context.facts().name << ", " << driver_text(context.facts()) << "\n";
    for (const AttentionShape &shape : shapes) {
        std::vector<vkattn_candidate> candidates;
        try {
            const Waiting waiting("tuning " + lengths_text(shape));
            candidates = context.tune(problem_of(shape, kernel).desc);
        } catch (const Error &error) {
            throw InputError("tune", error.what());
        }
        save_context(context, common); // what is measured is kept, whatever comes next
        if (options.json)
            report.push_back(to_json(shape, candidates));
        else
            print_table(shape, candidates);
    }
    if (options.json) std::cout << report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
    if (common.saved_file.empty() && !options.json) std::cout << "nothing is kept without --saved FILE\n";
    return kExitSuccess;
}

} // namespace vkattn::tools
