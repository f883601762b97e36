// The vkattn command.
#include "tools/cases/case_variant.hpp"
#include "tools/command/commands.hpp"
#include "tools/command/estimate.hpp"
#include "tools/devices/device_traits.hpp"
#include "tools/io/input_error.hpp"
#include "tools/options/arguments.hpp"
#include "tools/options/help.hpp"
#include "tools/options/operation.hpp"
#include "tools/tensors/stored_types.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <exception>
#include <iostream>
#include <limits>
#include <new>
#include <string_view>
#include <vector>

namespace {

using namespace vkattn::tools;

struct Options {
    CommonOptions common;
    DevicesOptions devices;
    RunOptions run;
    CheckOptions check;
    ShowOptions show;
    SelftestOptions selftest;
    CompileVariantOptions compile_variant;
    PlanOptions plan;
    ShadersOptions shaders;
    TuneOptions tune;
    BenchOptions bench;
    EstimateOptions estimate;
};

// Returns what is wrong with a tolerance, "" if nothing is.
std::string tolerance_error(const std::string &text) {
    double value = -1.0;
    const bool is_number = CLI::detail::lexical_cast(text, value);
    return is_number && value >= 0.0 ? "" : quote_name(text) + " is no tolerance, expected a number from 0";
}

// Pictures are the business of vkattn-plot: says so where one is asked for.
void refuse_picture(CLI::App &command, const std::string &names, const std::string &from, const std::string &kind) {
    const std::string suffixes = kind == "report" ? ".html" : ".png, .svg or .pdf";
    const auto refuse = [names, from, kind, suffixes](const std::string &) {
        throw CLI::ValidationError(names + ": this command draws no pictures, expected 'vkattn " + from +
                                   " --json >FILE', and 'vkattn-plot " + kind + " FILE' to draw it as " + suffixes);
    };
    command.add_option_function<std::string>(names, refuse)->group(""); // not in the help
}

void add_common(CLI::App &command, CommonOptions &common) {
    command.add_option("--device", common.device, "Index or part of the name of a device; default: the best one");
    command
        .add_option("--kernel", common.kernel,
                    "The kernel to take: auto, unfused, flash, decode, latent_decode, coopmat, coopmat2, addresses")
        ->capture_default_str();
    add_file(command, "--saved", common.saved_file,
             "File that keeps what runs learn of the device: read at the start if it is there, written at the end");
    command.add_option("--tune-budget", common.tune_budget,
                       "Milliseconds that may go into measuring what plans take and --saved does not know; default 0");
    command.set_version_flag("--version", std::string("vkattn ") + vkattn_version(), "Print the version and exit");
}

void add_devices(CLI::App &app, Options &options) {
    CLI::App *command = app.add_subcommand("devices", "List every Vulkan device, and the kernels it can run");
    command->add_flag("--json", options.devices.json, "Print a JSON array");
    add_common(*command, options.common);
}

void add_run(CLI::App &app, Options &options) {
    CLI::App *command = app.add_subcommand("run", "Run a case file, or one layer's attention of a checkpoint");
    command->add_option("case", options.run.case_file, "Case file (.safetensors)");
    CheckpointOptions &checkpoint = options.run.checkpoint;
    CLI::Option *model = add_file(*command, "--model", checkpoint.model,
                                  "Hugging Face checkpoint: .safetensors, .index.json or their folder");
    add_file(*command, "--config", checkpoint.config, "Its config.json; default: beside the model")->needs(model);
    command->add_option("--layer", checkpoint.layer, "Layer, from 0; default 0")->needs(model);
    add_file(*command, "--input", checkpoint.input, "The layer's hidden_states (.safetensors)")->needs(model);
    add_file(*command, "-o,--output", options.run.output_file, "Write the outputs to this .safetensors file");
    command
        ->add_option("--outputs", options.run.outputs,
                     "Outputs to compute: output, lse, attn_weights, present_key, present_value, qk_matmul_output")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->capture_default_str();
    add_common(*command, options.common);
}

void add_check(CLI::App &app, Options &options) {
    CLI::App *command = app.add_subcommand("check", "Run case files and compare with the answers in them");
    command->add_option("case", options.check.case_files, "Case files (.safetensors)")->required();
    command
        ->add_option("--tolerance", options.check.tolerance,
                     "Greatest NMSE that passes; default: by the storage type of the case")
        ->check(tolerance_error);
    command->add_flag("--json", options.check.json, "Print a JSON object");
    add_common(*command, options.common);
}

void add_show(CLI::App &app, Options &options) {
    CLI::App *command =
        app.add_subcommand("show", "Show the attention weights of a case file: a map of characters, or JSON");
    ShowOptions &show = options.show;
    command->add_option("case", show.case_file, "Case file (.safetensors)")->required();
    CLI::Option *json = command->add_flag("--json", show.json, "Print the weights as a JSON object");
    add_file(*command, "--tokens", show.tokens_file, "The keys' texts, one a line; default: numbers")->needs(json);
    command->add_option("--sequence", show.sequence, "Sequence of the batch, from 0; default 0");
    command->add_option("--heads", show.heads, "Heads in JSON beside the mean, such as 0,5; default: the first 15")
        ->delimiter(',')
        ->needs(json);
    command->add_flag("--map", show.map, "Print a map of characters even if this is no terminal")->excludes(json);
    refuse_picture(*command, "-o,--output", "show", "weights");
    add_common(*command, options.common);
}

void add_selftest(CLI::App &app, Options &options) {
    CLI::App *command = app.add_subcommand("selftest", "Check the numbers of every kernel that the device can run");
    command->add_flag("--json", options.selftest.json, "Print a JSON object");
    add_common(*command, options.common);
}

void add_compile_variant(CLI::App &app, Options &options) {
    CLI::App *command = app.add_subcommand(
        "compile-variant",
        "Compile functions of your own, as docs/variants.md has them, into every kernel; needs no device");
    add_file(*command, "file", options.compile_variant.file, "GLSL text: see docs/variants.md")->required();
    add_file(*command, "-o,--output", options.compile_variant.output_file, "Write the variant to this file")
        ->required();
    command
        ->add_flag_callback("--is-there", // for vkattn_add_variant of the CMake package
                            [] {
                                require_variant_compiler();
                                throw CLI::Success();
                            })
        ->trigger_on_parse()
        ->group(""); // not in the help
    add_common(*command, options.common);
}

void add_plan(CLI::App &app, Options &options) {
    CLI::App *command =
        app.add_subcommand("plan", "Say which kernel a plan takes for an attention problem, and why; nothing is run");
    add_operation(*command, options.plan);
    command->add_flag("--explain", options.plan.explain,
                      "Say how each kernel would compute the problem, or why it cannot");
    command->add_flag("--json", options.plan.json, "Print a JSON array");
    add_common(*command, options.common);
}

void add_shaders(CLI::App &app, Options &options) {
    CLI::App *command = app.add_subcommand(
        "shaders",
        "Show what the driver's compiler makes of an operation's shaders: registers, spills, code; nothing is run");
    add_operation(*command, options.shaders);
    add_input_norm(*command, options.shaders);
    add_backward(*command, options.shaders);
    CLI::Option *json = command->add_flag("--json", options.shaders.json, "Print a JSON array");
    command->add_flag("--csv", options.shaders.csv, "Print comma-separated values")->excludes(json);
    command->add_flag("--assembly", options.shaders.assembly, "Print the machine code as well");
    add_common(*command, options.common);
}

void add_tune(CLI::App &app, Options &options) {
    CLI::App *command = app.add_subcommand(
        "tune",
        "Measure which kernel and tiles are the fastest for attention problems, their gradients or linear layers");
    add_operation(*command, options.tune);
    add_backward(*command, options.tune);
    const std::vector<CLI::Option *> problem = command->get_options();
    command->parse_complete_callback([problem, &options] {
        options.tune.is_described =
            std::ranges::any_of(problem, [](const CLI::Option *each) { return !each->empty(); });
    });
    command->add_flag("--json", options.tune.json, "Print a JSON array");
    add_file(*command, "--report", options.tune.report_file,
             "Write what was measured, with the device's facts, to a new JSON file for vkattn's authors; without "
             "options that describe a problem, of a list of them, which takes some minutes on a GPU");
    add_common(*command, options.common);
}

void add_bench(CLI::App &app, Options &options) {
    BenchOptions &bench = options.bench;
    CLI::App *command = app.add_subcommand("bench", "Time attention on random inputs");
    add_operation(*command, bench);
    add_input_norm(*command, bench);
    command->add_option("--form", bench.form, "Form of --op linear_attention: auto, recurrent, chunked")
        ->capture_default_str();
    add_backward(*command, bench);
    add_size(*command, "--input-sets", bench.input_sets, "Sets of inputs in turn; default 4, as memory allows");
    add_size(*command, "--repeat", bench.repeat, "Timed runs; default: 5 to 1000, of --seconds together");
    command->add_option("--seconds", bench.seconds, "What the timed runs take together, about")
        ->check(CLI::Range(0.01, 3600.0))
        ->capture_default_str();
    command->add_flag("--roofline", bench.roofline, "Measure the device's peaks too, and say what part is reached");
    CLI::Option *json = command->add_flag("--json", bench.json, "Print a JSON object, of several lengths an array");
    command->add_flag("--csv", bench.csv, "Print comma-separated values")->excludes(json);
    refuse_picture(*command, "--svg", "bench", "bench");
    refuse_picture(*command, "--html", "bench", "report");
    command->add_option("--variants", bench.variants, "Layers side by side: mha, mqa, gqa-N, mla")->delimiter(',');
    add_size(*command, "--d-model", bench.d_model, "Width of the variants; default 2048");
    add_size(*command, "--len", bench.len, "Prompt of the variants, and their cache at the decode step; default 2048");
    add_common(*command, options.common);
}

// Of the commands that are told an operation.
void refuse_options_of_others(const CLI::App &app, const Options &options) {
    const std::pair<const char *, const OperationOptions *> commands[] = {
        {"plan", &options.plan}, {"shaders", &options.shaders}, {"tune", &options.tune}, {"bench", &options.bench}};
    for (const auto &[name, given] : commands)
        if (app.got_subcommand(name))
            vkattn::tools::refuse_options_of_others(*app.get_subcommand(name), *given,
                                                    given == &options.bench && !options.bench.variants.empty());
}

int run_selected(const CLI::App &app, const Options &options, ValidationLog &validation) {
    refuse_options_of_others(app, options);
    if (app.got_subcommand("devices")) return devices_command(options.common, options.devices, validation);
    if (app.got_subcommand("run")) return run_command(options.common, options.run, validation);
    if (app.got_subcommand("check")) return check_command(options.common, options.check, validation);
    if (app.got_subcommand("show")) return show_command(options.common, options.show, validation);
    if (app.got_subcommand("selftest")) return selftest_command(options.common, options.selftest, validation);
    if (app.got_subcommand("compile-variant")) return compile_variant_command(options.compile_variant);
    if (app.got_subcommand("plan")) return plan_command(options.common, options.plan, validation);
    if (app.got_subcommand("shaders")) return shaders_command(options.common, options.shaders, validation);
    if (app.got_subcommand("tune")) return tune_command(options.common, options.tune, validation);
    if (app.got_subcommand("estimate")) return estimate_command(options.common, options.estimate, validation);
    return bench_command(options.common, options.bench, validation);
}

int run_guarded(const CLI::App &app, const Options &options) {
    ValidationLog validation;
    int status = kExitBadInput;
    try {
        traits_of_environment(); // an unknown one is refused by commands that need no device, too
        status = run_selected(app, options, validation);
    } catch (const std::bad_alloc &) {
        print_error("memory: not enough for this problem, expected a smaller one");
    } catch (const std::exception &error) {
        print_error(error.what());
    }
    std::cout.flush();
    if (!std::cout) {
        print_error("standard output: cannot be written, expected room for the result");
        status = kExitBadInput;
    }
    return status == kExitSuccess && validation.count() != 0 ? kExitWrong : status;
}

// Beneath the options in a command's help, and in the manual page.
void add_examples(CLI::App &app) {
    constexpr std::pair<const char *, const char *> kExamples[]{
        {"devices", "vkattn devices\nvkattn devices --json"},
        {"run", "vkattn run case.safetensors -o output.safetensors\n"
                "vkattn run --model DIR --layer 3 --input x.safetensors"},
        {"check", "vkattn check tests/data/*.safetensors"},
        {"show", "vkattn show case.safetensors\n"
                 "vkattn show case.safetensors --json | vkattn-plot weights - -o weights.png"},
        {"selftest", "vkattn selftest --saved vkattn.saved"},
        {"compile-variant", "vkattn compile-variant my_variant.glsl -o my_variant.spv"},
        {"plan", "vkattn plan --heads 32 --kv-heads 8 --q-len 1 --kv-len 32k --dtype f16 --explain"},
        {"shaders", "vkattn shaders --kv-heads 8 --q-len 2048 --kv-len 2048 --dtype f16 --assembly"},
        {"tune", "vkattn tune --kv-heads 8 --q-len 1 --kv-len 1k..64k --saved vkattn.saved\n"
                 "vkattn tune --report gpu.json"},
        {"bench", "vkattn bench --heads 32 --kv-heads 8 --q-len 1 --kv-len 1k..128k --dtype f16 --roofline\n"
                  "vkattn bench --op linear --rows 1,16,512 --in-features 4096 --out-features 4096\n"
                  "vkattn bench --variants mha,mqa,gqa-4,mla --d-model 2048 --heads 32 --len 2048"},
        {"estimate", "vkattn estimate DIR --context 32k --memory 24GiB --kv-dtype q8_0\n"
                     "vkattn estimate gqa-8 mla --d-model 4096 --heads 32 --layers 32 --context 32k"}};
    for (const auto &[name, examples] : kExamples)
        app.get_subcommand(name)->footer(std::string("Examples:\n") + examples);
}

int parse_and_run(int argc, char **argv) {
    Options options;
    CLI::App app("vkattn: attention on any Vulkan device", "vkattn");
    app.allow_windows_style_options(false); // on Windows /like/this is a file, too
    app.require_subcommand(1);
    add_common(app, options.common);
    add_devices(app, options);
    add_run(app, options);
    add_check(app, options);
    add_show(app, options);
    add_selftest(app, options);
    add_compile_variant(app, options);
    add_plan(app, options);
    add_shaders(app, options);
    add_tune(app, options);
    add_bench(app, options);
    CLI::App *estimate = add_estimate_command(app, options.estimate);
    refuse_picture(*estimate, "--svg", "estimate", "estimate");
    add_common(*estimate, options.common);
    add_examples(app);
#if defined(VKATTN_HOMEPAGE_URL)
    app.footer("vkattn is at home at " VKATTN_HOMEPAGE_URL);
#endif
    app.add_flag_callback("--help-man",
                          [&app] {
                              print_manual_page(std::cout, app);
                              throw CLI::Success();
                          })
        ->trigger_on_parse() // before a sub-command is asked for
        ->group("");         // not in the help
    if (argc < 2) {
        std::cout << app.help();
        return kExitSuccess;
    }
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError &error) {
        if (error.get_exit_code() == 0) return app.exit(error); // --help and --version
        print_error("command line: " + command_line_error(app, error));
        return kExitBadInput;
    }
    return run_guarded(app, options);
}

} // namespace

int main(int argc, char **argv) {
    try {
        return parse_and_run(argc, argv);
    } catch (const std::exception &error) {
        print_error(error.what());
        return kExitBadInput;
    }
}
