#include "tools/command/commands.hpp"
#include "tools/devices/device_words.hpp"
#include "tools/io/input_error.hpp"
#include "tools/io/output_file.hpp"
#include "tools/io/progress.hpp"
#include "tools/io/text.hpp"
#include "tools/io/text_file.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iostream>

namespace vkattn::tools {
namespace {

// A problem, in words, and how to tune it.
struct TunedProblem {
    std::string lengths, text;
    std::function<List<vkattn_candidate>(const Context &)> tune;
};

TunedProblem tuned(const AttentionShape &shape, vkattn_kernel kernel) {
    return {lengths_text(shape), shape_text(shape, lengths_text(shape)),
            [=](const Context &context) { return context.tune(problem_of(context, shape, kernel).desc); }};
}

// Of a shape's gradients those of queries, or those of keys and values.
TunedProblem tuned_gradients(const AttentionShape &shape, vkattn_kernel kernel, bool of_queries) {
    return {lengths_text(shape),
            shape_text(shape, lengths_text(shape)) + (of_queries ? ": d_query" : ": d_key and d_value"),
            [=](const Context &context) {
                ShapedProblem problem = problem_of(context, shape, kernel);
                vkattn_attention_backward_desc desc = gradients_of(problem, shape);
                if (of_queries)
                    desc.d_key = desc.d_value = {};
                else
                    desc.d_query = {};
                return context.tune(desc);
            }};
}

void add(std::vector<TunedProblem> &problems, const AttentionShape &shape, vkattn_kernel kernel) {
    if (!shape.backward) return problems.push_back(tuned(shape, kernel));
    for (const bool of_queries : {true, false}) problems.push_back(tuned_gradients(shape, kernel, of_queries));
}

TunedProblem tuned(const LinearShape &shape) {
    const std::string rows = std::to_string(shape.rows) + (shape.rows == 1 ? " row" : " rows");
    return {rows, rows + ", " + shape_text(shape),
            [=](const Context &context) { return context.tune(problem_of(shape).desc); }};
}

// What a report is of, if nothing else is asked for: prompts, single tokens over a cache, latent attention, gradients, linear layers.
std::vector<TunedProblem> problems_of_report(vkattn_kernel kernel) {
    AttentionShape prompt, token, latent;
    prompt.kv_heads = token.kv_heads = 8;
    prompt.q_len = prompt.kv_len = 2048;
    latent.heads = 128;
    latent.kv_heads = 1;
    latent.head_dim = 576;
    latent.v_head_dim = 512;
    latent.value_in_key = true;
    std::vector<AttentionShape> shapes;
    for (const std::uint32_t head_dim : {64, 128, 256}) shapes.emplace_back(prompt).head_dim = head_dim;
    shapes.emplace_back(prompt).dtype = "f32";
    for (const char *kv_dtype : {"f16", "q8_0", "q4_0"}) shapes.emplace_back(token).kv_dtype = kv_dtype;
    for (const std::uint32_t q_len : {1, 32}) shapes.emplace_back(latent).q_len = q_len;
    for (const std::uint32_t head_dim : {64, 128}) {
        AttentionShape &gradients = shapes.emplace_back(prompt);
        gradients.head_dim = head_dim;
        gradients.causal = gradients.backward = true;
    }
    std::vector<TunedProblem> problems;
    for (const AttentionShape &shape : shapes) add(problems, shape, kernel);
    LinearShape linear;
    for (const std::uint32_t rows : {1, 16, 512}) {
        linear.rows = rows;
        problems.push_back(tuned(linear));
    }
    return problems;
}

std::vector<TunedProblem> problems_of(const CommonOptions &common, const TuneOptions &options) {
    const vkattn_kernel kernel = kernel_of(common.kernel);
    if (!options.report_file.empty() && !options.is_described) return problems_of_report(kernel);
    if (options.shape.index != 0) throw InputError("--index", "has no tiles to tune, expected attention");
    std::vector<TunedProblem> problems;
    if (is_linear(options)) {
        if (options.shape.backward)
            throw InputError("--backward",
                             "given with --op linear, expected attention: linear layers' gradients are products, too");
        for (const LinearShape &shape : linear_shapes_of(options)) problems.push_back(tuned(shape));
    } else {
        for (const AttentionShape &shape : shapes_of(options)) add(problems, shape, kernel);
    }
    return problems;
}

void print_table(const TunedProblem &problem, const List<vkattn_candidate> &candidates) {
    std::cout << problem.text << "\n";
    const double untuned = candidates.front().milliseconds;
    std::size_t width = 0;
    for (const vkattn_candidate &candidate : candidates) width = std::max(width, std::strlen(candidate.tile));
    for (const vkattn_candidate &candidate : candidates) {
        std::cout << "  ";
        if (candidate.kernel != VKATTN_KERNEL_AUTO) std::cout << padded(vkattn_kernel_name(candidate.kernel), 14);
        std::cout << padded(candidate.tile, width) << " ";
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

nlohmann::ordered_json json_of(const TunedProblem &problem, const List<vkattn_candidate> &candidates) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const vkattn_candidate &candidate : candidates)
        list.push_back({{"kernel", vkattn_kernel_name(candidate.kernel)},
                        {"tile", candidate.tile},
                        {"milliseconds", candidate.milliseconds},
                        {"kept", candidate.kept != 0},
                        {"reason", candidate.reason}});
    return {{"problem", problem.text}, {"candidates", list}};
}

void check_report_file(const std::string &file) {
    if (file.empty()) return;
    if (std::filesystem::exists(file)) throw InputError("--report " + file, "is there already, expected a new file");
    OutputFile::check(file);
}

// Without what tells one device of a kind from another.
nlohmann::ordered_json report_of(const Context &context, const nlohmann::ordered_json &problems) {
    nlohmann::json device = to_json(context.facts(), VKATTN_KERNEL_AUTO);
    for (const char *name : {"index", "device_uuid", "driver_uuid"}) device.erase(name);
    return {
        {"format", "vkattn tune report 1"}, {"vkattn", vkattn_version()}, {"device", device}, {"problems", problems}};
}

std::string text_of(const nlohmann::ordered_json &json) {
    return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

// Of a report's list, what the device cannot have is told and passed over.
nlohmann::ordered_json tune_one(const Context &context, const TunedProblem &problem, const TuneOptions &options) {
    try {
        List<vkattn_candidate> candidates;
        {
            const Waiting waiting("tuning " + problem.lengths);
            candidates = problem.tune(context);
        }
        if (!options.json) print_table(problem, candidates);
        return json_of(problem, candidates);
    } catch (const Error &error) {
        if (options.report_file.empty() || options.is_described) throw InputError("tune", error.what());
        if (!options.json) std::cout << problem.text << "\n  " << error.what() << "\n" << std::flush;
        return {{"problem", problem.text}, {"error", error.what()}};
    }
}

} // namespace

int tune_command(const CommonOptions &common, const TuneOptions &options, ValidationLog &validation) {
    const std::vector<TunedProblem> problems = problems_of(common, options);
    check_report_file(options.report_file);
    const Context context = make_context(common, validation);
    const SavedOnFailure saved(context, common);
    nlohmann::ordered_json results = nlohmann::ordered_json::array();
    if (!options.json) std::cout << context.facts().name << ", " << driver_text(context.facts()) << "\n";
    for (const TunedProblem &problem : problems) {
        results.push_back(tune_one(context, problem, options));
        save_context(context, common); // what is measured is kept, whatever comes next
    }
    if (options.json) std::cout << text_of(results);
    if (!options.report_file.empty()) write_text(options.report_file, text_of(report_of(context, results)));
    if (common.saved_file.empty() && options.report_file.empty() && !options.json)
        std::cout << "nothing is kept without --saved FILE\n";
    return kExitSuccess;
}

} // namespace vkattn::tools
