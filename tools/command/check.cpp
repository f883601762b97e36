#include "tools/cases/case_runner.hpp"
#include "tools/cases/comparison.hpp"
#include "tools/command/commands.hpp"
#include "tools/io/input_error.hpp"
#include "tools/io/text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <iostream>

namespace vkattn::tools {
namespace {

struct CheckedCase {
    std::string name;
    int status = kExitBadInput;
    std::string error; // why it could not be run
    WorstDifference worst;
    double tolerance = 0.0;
    std::string kernel;
};

CheckedCase check_case(const Context &context, const CaseFile &input, std::optional<double> tolerance,
                       vkattn_kernel kernel) {
    const std::vector<std::string> wanted = expected_outputs(input);
    const CaseResult result = run_case(context, input, wanted, kernel);
    CheckedCase checked;
    checked.name = input.name();
    checked.worst = compare_case(input, result.outputs);
    checked.tolerance = tolerance.value_or(default_tolerance(input));
    checked.kernel = result.kernel;
    checked.status = checked.worst.difference.nmse <= checked.tolerance ? kExitSuccess : kExitWrong;
    return checked;
}

// What stops one case must not stop the others.
CheckedCase check_file(const Context &context, const std::string &file, std::optional<double> tolerance,
                       vkattn_kernel kernel) {
    CheckedCase checked;
    checked.name = std::filesystem::path(file).stem().string();
    try {
        return check_case(context, read_case(file), tolerance, kernel);
    } catch (const InputError &error) {
        checked.error = error.what();
    } catch (const std::bad_alloc &) {
        checked.error = file + ": too large, expected a case that fits into memory";
    }
    return checked;
}

void print_case(const CheckedCase &checked) {
    std::cout << padded(clean_line(checked.name), 36) << " ";
    if (checked.status == kExitBadInput) {
        std::cout << "ERROR could not be run" << std::endl; // the reason is on the error stream
        return;
    }
    const Difference &difference = checked.worst.difference;
    std::cout << padded(checked.worst.tensor, 16) << " NMSE " << padded(significant(difference.nmse, 3), 9)
              << " max abs error " << padded(significant(difference.max_abs_error, 3), 9) << " "
              << padded(checked.kernel, 13) << " " << (checked.status == kExitSuccess ? "PASS" : "FAIL") << std::endl;
}

nlohmann::json json_of(const CheckedCase &checked) {
    if (checked.status == kExitBadInput) return {{"name", checked.name}, {"result", "ERROR"}, {"error", checked.error}};
    return {{"name", checked.name},
            {"result", checked.status == kExitSuccess ? "PASS" : "FAIL"},
            {"tensor", checked.worst.tensor},
            {"nmse", checked.worst.difference.nmse},
            {"max_abs_error", checked.worst.difference.max_abs_error},
            {"tolerance", checked.tolerance},
            {"kernel", checked.kernel}};
}

} // namespace

int check_command(const CommonOptions &common, const CheckOptions &options, ValidationLog &validation) {
    const vkattn_kernel kernel = kernel_of(common.kernel);
    const Context context = make_context(common, validation);
    const SavedOnFailure saved(context, common);
    nlohmann::json cases = nlohmann::json::array();
    std::size_t passed = 0;
    int status = kExitSuccess;
    for (const std::string &file : options.case_files) {
        const CheckedCase checked = check_file(context, file, options.tolerance, kernel);
        if (checked.status == kExitSuccess) ++passed;
        if (checked.status == kExitBadInput) print_error(checked.error);
        status = std::max(status, checked.status);
        if (options.json)
            cases.push_back(json_of(checked));
        else
            print_case(checked);
    }
    const std::size_t failed = options.case_files.size() - passed;
    if (options.json) {
        const nlohmann::json report{{"cases", cases}, {"passed", passed}, {"failed", failed}};
        std::cout << report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
    } else {
        std::cout << passed << " passed, " << failed << " failed\n";
    }
    save_context(context, common);
    return status;
}

} // namespace vkattn::tools
