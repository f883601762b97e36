#include "tools/cases/case_runner.hpp"
#include "tools/cases/run_output.hpp"
#include "tools/command/commands.hpp"
#include "tools/devices/device_words.hpp"
#include "tools/io/input_error.hpp"
#include "tools/io/text.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>
#include <limits>

namespace vkattn::tools {
namespace {

// The finite values of a tensor in three numbers.
struct Summary {
    double min = std::numeric_limits<double>::infinity();
    double max = -std::numeric_limits<double>::infinity();
    double sum = 0.0;
    std::size_t finite = 0;
    std::size_t other = 0;
};

Summary summarize(const HostTensor &tensor) {
    Summary summary;
    for (const double value : values_of(tensor)) {
        if (!std::isfinite(value)) {
            ++summary.other;
            continue;
        }
        summary.min = std::min(summary.min, value);
        summary.max = std::max(summary.max, value);
        summary.sum += value;
        ++summary.finite;
    }
    return summary;
}

void print_tensor(const std::string &name, const HostTensor &tensor) {
    const Summary summary = summarize(tensor);
    std::cout << padded(name, 16) << " " << dtype_name(tensor.dtype) << " " << shape_text(tensor.shape);
    if (summary.finite != 0)
        std::cout << "  min " << significant(summary.min, 6) << "  max " << significant(summary.max, 6) << "  mean "
                  << significant(summary.sum / static_cast<double>(summary.finite), 6);
    if (summary.other != 0) std::cout << "  not finite " << summary.other;
    std::cout << "\n";
}

void print_result(const CaseFile &input, const CaseResult &result, const vkattn_device_facts &facts) {
    std::cout << padded("case", 16) << " " << clean_line(input.name()) << " (op " << input.op << ")\n"
              << padded("device", 16) << " " << facts.name << ", " << driver_text(facts) << "\n"
              << padded("kernel", 16) << " " << kernel_text(result.kernel, result.reason) << "\n";
    for (const auto &[name, tensor] : result.outputs) print_tensor(name, tensor);
    std::cout << padded("time", 16) << " plan " << decimals(result.plan_ms, 2) << " ms, run "
              << decimals(result.run_ms, 2) << " ms";
    if (result.gpu_ms >= 0.0) std::cout << " (on the device " << decimals(result.gpu_ms, 3) << " ms)";
    std::cout << "; workspace " << result.workspace_bytes << " bytes\n";
}

CaseFile read_input(const RunOptions &options) {
    const CheckpointOptions &checkpoint = options.checkpoint;
    if (checkpoint.model.empty() == options.case_file.empty())
        throw InputError("run", "a case file and --model are " +
                                    std::string(checkpoint.model.empty() ? "both missing" : "both given") +
                                    ", expected one of them");
    if (checkpoint.model.empty()) return read_case(options.case_file);
    if (checkpoint.input.empty())
        throw InputError("--input", "missing, expected the safetensors file of --model's hidden_states");
    return read_checkpoint_case(checkpoint);
}

} // namespace

int run_command(const CommonOptions &common, const RunOptions &options, ValidationLog &validation) {
    const vkattn_kernel kernel = kernel_of(common.kernel);
    if (!options.output_file.empty())
        check_run_output(options.output_file,
                         std::array{options.case_file, options.checkpoint.input, common.saved_file});
    const CaseFile input = read_input(options);
    const Context context = make_context(common, validation);
    const SavedOnFailure saved(context, common);
    const CaseResult result = run_case(context, input, options.outputs, kernel);
    if (!options.output_file.empty()) write_run_output(options.output_file, result.outputs);
    print_result(input, result, context.facts());
    if (!options.output_file.empty()) std::cout << padded("written", 16) << " " << options.output_file << "\n";
    save_context(context, common);
    return kExitSuccess;
}

} // namespace vkattn::tools
