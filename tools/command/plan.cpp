#include "tools/command/commands.hpp"
#include "tools/devices/device_words.hpp"
#include "tools/io/input_error.hpp"
#include "tools/io/text.hpp"

#include <nlohmann/json.hpp>

#include <iostream>

namespace vkattn::tools {
namespace {

using OrderedJson = nlohmann::ordered_json;

// A problem, what a plan takes for it, and what every kernel would make of it.
struct Planned {
    std::string problem;
    vkattn_report report;
    vkattn_requirements requirements;
    List<vkattn_option> options;
};

OrderedJson json_of(const vkattn_option &option) {
    return {{"kernel", vkattn_kernel_name(option.kernel)},
            {"chosen", option.chosen != 0},
            {"serves", option.obstacle[0] == '\0'},
            {"shape", option.shape},
            {"dispatches", option.dispatches},
            {"obstacle", option.obstacle}};
}

OrderedJson json_of(const Planned &planned) {
    OrderedJson json = {{"problem", planned.problem},
                        {"kernel", planned.report.kernel_name},
                        {"reason", planned.report.reason},
                        {"dispatches", planned.report.dispatches},
                        {"workspace_bytes", planned.requirements.workspace_bytes}};
    for (const vkattn_option &option : planned.options) json["options"].push_back(json_of(option));
    return json;
}

void print_option(const vkattn_option &option) {
    std::cout << (option.chosen != 0 ? "  * " : "    ") << padded(vkattn_kernel_name(option.kernel), 14);
    if (option.obstacle[0] != '\0')
        std::cout << "no: " << option.obstacle << "\n";
    else
        std::cout << option.shape << (option.shape[0] != '\0' ? ", " : "") << option.dispatches
                  << (option.dispatches == 1 ? " dispatch\n" : " dispatches\n");
}

void print_text(const Planned &planned) {
    std::cout << planned.problem << "\n  " << kernel_text(planned.report.kernel_name, planned.report.reason) << "\n  "
              << planned.report.dispatches << (planned.report.dispatches == 1 ? " dispatch, " : " dispatches, ")
              << planned.requirements.workspace_bytes << " bytes of workspace\n";
    for (const vkattn_option &option : planned.options) print_option(option);
    std::cout << "\n";
}

} // namespace

int plan_command(const CommonOptions &common, const PlanOptions &options, ValidationLog &validation) {
    if (options.explain && options.shape.index != 0)
        throw InputError("--explain", "of the choice of keys, expected attention");
    const vkattn_kernel kernel = kernel_of(common.kernel);
    const Context context = make_context(common, validation);
    const SavedOnFailure saved(context, common);
    const vkattn_device_facts facts = context.facts();
    if (!options.json) std::cout << facts.name << ", " << driver_text(facts) << "\n\n";
    OrderedJson all = OrderedJson::array();
    for (const AttentionShape &shape : shapes_of(options)) {
        const Plan plan = plan_of(context, shape, kernel);
        Planned planned{shape_text(shape, lengths_text(shape)), plan.report(), plan.requirements(), {}};
        if (options.explain) planned.options = context.explain(problem_of(context, shape, kernel).desc);
        if (options.json)
            all.push_back(json_of(planned));
        else
            print_text(planned);
    }
    if (options.json) std::cout << all.dump(2, ' ', false, OrderedJson::error_handler_t::replace) << "\n";
    save_context(context, common);
    return kExitSuccess;
}

} // namespace vkattn::tools
