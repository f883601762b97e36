// The commands of vkattn. Each prints its result, returns the exit status and throws InputError for bad input.
#pragma once

#include "tools/bench/attention_shape.hpp"
#include "tools/bench/linear.hpp"
#include "tools/checkpoints/checkpoint_case.hpp"

#include <vkattn/vkattn.hpp>

#include <atomic>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vkattn::tools {

constexpr int kExitSuccess = 0;
constexpr int kExitWrong = 1;    // a wrong answer, or a message of the validation layers
constexpr int kExitBadInput = 2; // could not be run

// The options that every command takes.
struct CommonOptions {
    std::string device;
    std::string kernel = "auto";
    std::string saved_file;        // "": none
    bool writes_saved = true;      // at its end
    std::uint32_t tune_budget = 0; // milliseconds
};

// Prints the messages of the Vulkan validation layers and counts them. Must outlive the contexts it is given to.
class ValidationLog {
  public:
    static void receive(void *user, vkattn_severity severity, const char *message);
    unsigned count() const { return count_; }

  private:
    std::atomic<unsigned> count_{0};
};

struct DevicesOptions {
    bool json = false;
};

struct RunOptions {
    std::string case_file;        // or
    CheckpointOptions checkpoint; // with a model
    std::string output_file;
    std::vector<std::string> outputs{"output"};
};

struct CheckOptions {
    std::vector<std::string> case_files;
    std::optional<double> tolerance;
    bool json = false;
};

struct ShowOptions {
    std::string case_file;
    std::string tokens_file; // one token a line, for each key; "": numbers
    std::uint32_t sequence = 0;
    std::vector<std::uint32_t> heads; // none: the first ones
    bool json = false;
    bool map = false; // also where the output is no terminal
};

struct SelftestOptions {
    bool json = false;
};

struct CompileVariantOptions {
    std::string file;
    std::string output_file;
};

struct PlanOptions : OperationOptions {
    bool explain = false;
    bool json = false;
};

struct ShadersOptions : OperationOptions {
    bool json = false;
    bool csv = false;
    bool assembly = false;
};

struct TuneOptions : OperationOptions {
    bool json = false;
    std::string report_file;   // "": none
    bool is_described = false; // by options of its own: else a report is of a list of problems
};

struct BenchOptions : OperationOptions, RepeatOptions {
    std::vector<std::string> variants; // not empty: layers side by side, by d_model, heads and len
    std::uint32_t d_model = 2048;
    std::uint32_t len = 2048;
    bool roofline = false;
    bool json = false;
    bool csv = false;
};

int devices_command(const CommonOptions &common, const DevicesOptions &options, ValidationLog &validation);
int run_command(const CommonOptions &common, const RunOptions &options, ValidationLog &validation);
int check_command(const CommonOptions &common, const CheckOptions &options, ValidationLog &validation);
int show_command(const CommonOptions &common, const ShowOptions &options, ValidationLog &validation);
int selftest_command(const CommonOptions &common, const SelftestOptions &options, ValidationLog &validation);
int compile_variant_command(const CompileVariantOptions &options); // needs no device
int plan_command(const CommonOptions &common, const PlanOptions &options, ValidationLog &validation);
int shaders_command(const CommonOptions &common, const ShadersOptions &options, ValidationLog &validation);
int tune_command(const CommonOptions &common, const TuneOptions &options, ValidationLog &validation);
int bench_variants(const CommonOptions &common, const BenchOptions &options, ValidationLog &validation);
int bench_command(const CommonOptions &common, const BenchOptions &options, ValidationLog &validation);

// Creates the context that the options and the environment ask for: VKATTN_VALIDATION=1 turns the layers on,
// VKATTN_DEVICE_TRAITS=name=number,name=number sets traits of the device.
// Throws Error, whose message says what of --device or of the Vulkan installation is wrong; InputError for bad traits.
// It begins with what common.saved_file holds, if there is such a file.
Context make_context(const CommonOptions &common, ValidationLog &validation,
                     vkattn_shader_capture capture = VKATTN_SHADER_CAPTURE_NONE);

// Writes what the context has learned to common.saved_file, if one is named.
void save_context(const Context &context, const CommonOptions &common);

// Does so, too, where an exception ends its block: what the self-test found before a device was lost is not looked for
// again. Both arguments must outlive it.
class SavedOnFailure {
  public:
    SavedOnFailure(const Context &context, const CommonOptions &common) : context_(context), common_(common) {}
    ~SavedOnFailure();
    SavedOnFailure(const SavedOnFailure &) = delete;
    SavedOnFailure &operator=(const SavedOnFailure &) = delete;

  private:
    const Context &context_;
    const CommonOptions &common_;
    int exceptions_ = std::uncaught_exceptions();
};

// Returns the kernel of a name. Throws InputError.
vkattn_kernel kernel_of(std::string_view name);

// Prints "vkattn: error: MESSAGE" as one line on stderr.
void print_error(std::string_view message);

} // namespace vkattn::tools
