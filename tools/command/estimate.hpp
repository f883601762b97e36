// `vkattn estimate`: what attention variants would cost, side by side, without a device.
#pragma once

#include "tools/command/commands.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace vkattn::tools {

struct EstimateOptions {
    std::vector<std::string> models; // names of variants and of configuration files; none: the usual variants
    std::uint32_t d_model = 0;       // 0: the first file's
    std::uint32_t num_heads = 0;     // 0: the first file's
    std::uint32_t num_layers = 0;    // 0: each file's, else 1
    std::uint32_t batch = 1;
    std::string context = "4096";
    std::string prefill; // "": the context
    std::string dtype;   // "": the file's, else f16
    std::string kv_dtype;
    std::string kv_scales = "none";
    std::string memory; // "": nothing is asked to fit
    std::string mla_form;
    bool with_biases = false;
    bool bidirectional = false;
    bool json = false;
    bool csv = false;
};

// Adds the subcommand "estimate", which fills the options: they must outlive the parsing. Returns it.
CLI::App *add_estimate_command(CLI::App &app, EstimateOptions &options);

// Prints the estimate, returns the exit status and throws InputError for bad input.
// common.device: where workspaces are asked for; "": nowhere.
int estimate_command(CommonOptions common, const EstimateOptions &options, ValidationLog &validation);

} // namespace vkattn::tools
