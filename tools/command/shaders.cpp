#include "tools/command/commands.hpp"
#include "tools/devices/device_words.hpp"
#include "tools/devices/shader_json.hpp"
#include "tools/io/csv.hpp"
#include "tools/io/input_error.hpp"
#include "tools/io/progress.hpp"
#include "tools/io/text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <functional>
#include <iostream>

namespace vkattn::tools {
namespace {

using OrderedJson = nlohmann::ordered_json;

// A problem in words, and its plan.
struct PlannedProblem {
    std::string text;
    std::function<Plan(const Context &)> plan;
};

std::vector<PlannedProblem> problems_of(const CommonOptions &common, const ShadersOptions &options) {
    std::vector<PlannedProblem> problems;
    if (is_linear(options)) {
        for (const LinearShape &shape : linear_shapes_of(options))
            problems.push_back(
                {std::to_string(shape.rows) + " rows, " + shape_text(shape), [=](const Context &context) {
                     const ShapedLinear layer = problem_of(shape);
                     return options.shape.backward ? context.linear_backward_plan(gradients_of(layer))
                                                   : context.linear_plan(layer.desc);
                 }});
        return problems;
    }
    const vkattn_kernel kernel = kernel_of(common.kernel);
    for (const AttentionShape &shape : shapes_of(options))
        problems.push_back({shape_text(shape, lengths_text(shape)),
                            [=](const Context &context) { return plan_of(context, shape, kernel); }});
    return problems;
}

struct ReportedPlan {
    std::string problem;
    Plan plan;
    List<vkattn_shader> shaders;
};

OrderedJson json_of(const ReportedPlan &reported, const vkattn_device_facts &facts) {
    const vkattn_report report = reported.plan.report();
    OrderedJson shaders = OrderedJson::array();
    for (const vkattn_shader &shader : reported.shaders) shaders.push_back(to_json(shader));
    return {{"device", facts.name},
            {"driver", driver_text(facts)},
            {"problem", reported.problem},
            {"kernel", report.kernel_name},
            {"reason", report.reason},
            {"dispatches", report.dispatches},
            {"workspace_bytes", reported.plan.requirements().workspace_bytes},
            {"shaders", shaders}};
}

// A row for each statistic, since their names differ from driver to driver.
void add_rows(std::vector<OrderedJson> &rows, const ReportedPlan &reported, const vkattn_device_facts &facts) {
    for (const vkattn_shader &shader : reported.shaders) {
        const auto add = [&](const char *statistic, const OrderedJson &value) {
            rows.push_back({{"device", facts.name},
                            {"driver", driver_text(facts)},
                            {"problem", reported.problem},
                            {"kernel", reported.plan.report().kernel_name},
                            {"module", shader.module},
                            {"executable", shader.executable},
                            {"statistic", statistic},
                            {"value", value}});
        };
        add("dispatches", shader.dispatches);
        add("workgroup_size", shader.workgroup_size);
        add("subgroup_size", shader.subgroup_size);
        add("spirv_bytes", shader.spirv_bytes);
        add("compile_ms", shader.compile_ms);
        for (const vkattn_shader_statistic &each : std::span(shader.statistics, shader.statistic_count))
            add(each.name, number(each.value));
    }
}

void print_assembly(const vkattn_shader &shader) {
    const std::span texts(shader.texts, shader.text_count);
    if (std::ranges::none_of(texts, is_assembly))
        throw InputError("--assembly", "the driver gives no assembly of " + std::string(shader.module) +
                                           ", expected a driver that does");
    for (const vkattn_shader_text &each : texts)
        if (is_assembly(each))
            std::cout << "\n    " << each.name << " of " << shader.module << "\n" << each.text << "\n";
}

void print_text(const ReportedPlan &reported, const ShadersOptions &options) {
    const vkattn_report report = reported.plan.report();
    std::cout << reported.problem << "\n  " << kernel_text(report.kernel_name, report.reason) << "\n";
    for (const vkattn_shader &shader : reported.shaders) {
        std::cout << "\n  " << shader.module << ": " << shader.executable << ", "
                  << (shader.dispatches == 1 ? "1 dispatch" : std::to_string(shader.dispatches) + " dispatches")
                  << ", workgroup of " << shader.workgroup_size;
        if (shader.subgroup_size != 0) std::cout << ", subgroups of " << shader.subgroup_size;
        std::cout << ", " << shader.spirv_bytes << " bytes of SPIR-V compiled in " << significant(shader.compile_ms, 3)
                  << " ms\n";
        for (const vkattn_shader_statistic &each : std::span(shader.statistics, shader.statistic_count))
            std::cout << "    " << padded(each.name, 32) << " " << number(each.value).dump() << "\n";
        if (options.assembly) print_assembly(shader);
    }
    std::cout << "\n" << std::flush;
}

} // namespace

int shaders_command(const CommonOptions &common, const ShadersOptions &options, ValidationLog &validation) {
    const std::vector<PlannedProblem> problems = problems_of(common, options);
    const Context context = make_context(
        common, validation, options.assembly ? VKATTN_SHADER_CAPTURE_TEXTS : VKATTN_SHADER_CAPTURE_STATISTICS);
    const vkattn_device_facts facts = context.facts();
    if (!options.json && !options.csv)
        std::cout << facts.name << ", " << driver_text(facts)
                  << "\nWhat the driver's compiler says; static figures, nothing was run.\n\n";
    OrderedJson all = OrderedJson::array();
    std::vector<OrderedJson> rows;
    for (const PlannedProblem &problem : problems) {
        try {
            const Waiting waiting("compiling " + problem.text);
            Plan plan = problem.plan(context);
            List<vkattn_shader> shaders = plan.shaders();
            const ReportedPlan reported{problem.text, std::move(plan), std::move(shaders)};
            if (options.json)
                all.push_back(json_of(reported, facts));
            else if (options.csv)
                add_rows(rows, reported, facts);
            else
                print_text(reported, options);
        } catch (const Error &error) {
            throw InputError("shaders", error.what());
        }
    }
    if (options.json) std::cout << all.dump(2, ' ', false, OrderedJson::error_handler_t::replace) << "\n";
    if (options.csv) write_csv(std::cout, rows);
    save_context(context, common);
    return kExitSuccess;
}

} // namespace vkattn::tools
