#include "tools/command/estimate.hpp"

#include "tools/command/commands.hpp"
#include "tools/estimate/report.hpp"
#include "tools/estimate/workspace.hpp"
#include "tools/io/input_error.hpp"
#include "tools/tensors/stored_types.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>

namespace vkattn::tools {
namespace {

vkattn_estimate_info use_of(const EstimateOptions &options) {
    if (options.batch == 0) throw InputError("--batch", "is 0, expected at least 1");
    vkattn_estimate_info use{};
    use.batch = options.batch;
    use.context_len = parse_tokens("--context", options.context);
    use.prefill_len = options.prefill.empty() ? use.context_len : parse_tokens("--prefill", options.prefill);
    if (!options.dtype.empty()) use.weight_type = type_named("--dtype", options.dtype, is_weight);
    if (!options.kv_dtype.empty()) use.cache_type = type_named("--kv-dtype", options.kv_dtype, is_key_value);
    use.memory_bytes = options.memory.empty() ? 0 : parse_bytes("--memory", options.memory);
    use.num_layers = options.num_layers;
    use.with_biases = options.with_biases ? 1 : 0;
    use.causal = options.bidirectional ? 0 : 1;
    return use;
}

// A path, a name with a file's ending, or a folder here; "./mha" is the folder of a variant's name.
bool is_file_name(const std::string &argument) {
    if (argument.find_first_of("/\\") != std::string::npos) return true;
    for (const char *ending : {".json", ".safetensors", ".gguf"})
        if (argument.ends_with(ending)) return true;
    vkattn_layer_config config{};
    const bool is_variant = vkattn_layer_config_from_name(argument.c_str(), 1024, 16, &config) == VKATTN_SUCCESS;
    std::error_code error;
    return !is_variant && std::filesystem::is_directory(argument, error);
}

// The sizes that named variants take: those of the options, else those of the first file.
struct VariantSizes {
    std::uint32_t d_model = 0;
    std::uint32_t num_heads = 0;
    std::uint32_t num_layers = 0;
    vkattn_type weight_type = VKATTN_TYPE_NONE;

    void fill_from(const EstimateModel &model) {
        const vkattn_layer_config &config = model.config;
        const bool reads_input = config.kind == VKATTN_LAYER_LATENT_QUERY;
        if (d_model == 0) d_model = reads_input ? config.latent_dim : config.embed_dim;
        if (num_heads == 0) num_heads = config.num_heads;
        if (num_layers == 0) num_layers = model.num_layers;
        weight_type = model.weight_type;
    }
    void check() const {
        if (d_model == 0) throw InputError("--d-model", "is missing, expected the width of the model");
        if (num_heads == 0) throw InputError("--heads", "is missing, expected the number of query heads");
    }
};

// Who asks for what no variant is called is told that first, rather than which sizes are missing.
void check_variant_name(const std::string &name) {
    constexpr std::uint32_t kWidth = 1U << 14, kHeads = 1; // of which every name but gqa-N makes a layer
    if (!name.starts_with("gqa-")) named_model(name, kWidth, kHeads);
}

std::vector<EstimateModel> models_of(const EstimateOptions &options) {
    VariantSizes sizes{.d_model = options.d_model, .num_heads = options.num_heads, .num_layers = options.num_layers};
    std::vector<EstimateModel> files;
    for (const std::string &argument : options.models)
        if (is_file_name(argument)) files.push_back(read_model(argument));
    if (!files.empty()) sizes.fill_from(files.front());
    if (options.models.empty()) {
        sizes.check();
        return usual_models(sizes.d_model, sizes.num_heads);
    }
    std::vector<EstimateModel> models;
    auto next_file = files.begin();
    for (const std::string &argument : options.models) {
        if (is_file_name(argument)) {
            models.push_back(std::move(*next_file++));
            continue;
        }
        if (sizes.d_model == 0 || sizes.num_heads == 0) check_variant_name(argument);
        sizes.check();
        models.push_back(named_model(argument, sizes.d_model, sizes.num_heads));
        models.back().num_layers = sizes.num_layers;
        models.back().weight_type = sizes.weight_type;
    }
    return models;
}

void set_mla_form(const std::string &form, std::span<EstimateModel> models) {
    if (form.empty()) return;
    if (form != "naive" && form != "absorb")
        throw InputError("--mla-form", quote_name(form) + " is not a form, expected naive or absorb");
    for (EstimateModel &model : models) model.config.mla_form = form == "naive" ? VKATTN_MLA_NAIVE : VKATTN_MLA_ABSORB;
}

void add_sizes(CLI::App &command, EstimateOptions &options) {
    command.add_option("model", options.models,
                       "config.json of Hugging Face or the folder that it lies in, a JSON file with \"op\" and its "
                       "keys, or a variant: mha, mqa, "
                       "gqa-N (N KV heads), mla, latent_mha, latent_query, compressed_kv, encoder_layer, mla_block; "
                       "default: the usual variants");
    command.add_option("--d-model", options.d_model, "Width of the model, for variants; default: the first file's");
    command.add_option("--heads", options.num_heads, "Query heads, for variants; default: the first file's");
    command.add_option("--layers", options.num_layers, "Layers; default: the file's, else 1");
    command.add_option("--mla-form", options.mla_form, "naive or absorb; default: the file's, else absorb");
    command.add_flag("--biases", options.with_biases, "Count a bias for every linear layer and LayerNorm");
}

void add_use(CLI::App &command, EstimateOptions &options) {
    command.add_option("--batch", options.batch, "Sequences at once; default 1");
    command.add_option("--context", options.context, "Tokens of each sequence in the cache, such as 32k; default 4k");
    command.add_option("--prefill", options.prefill, "Tokens of each prompt; default: the context");
    command.add_option("--dtype", options.dtype,
                       "Type of the weights: " + type_names(is_weight) + "; default: the file's, else f16");
    command.add_option("--kv-dtype", options.kv_dtype,
                       "Type of the cache: " + type_names(is_key_value) + "; default: the weights'");
    command
        .add_option("--kv-scales", options.kv_scales,
                    "Scales of a cache of type f8_e4m3 or f8_e5m2: none, row (of each token and head)")
        ->check(CLI::IsMember({"none", "row"}))
        ->capture_default_str();
    command.add_option("--memory", options.memory,
                       "Memory for weights and cache, such as 2GiB: says which variants fit");
    command.add_flag("--bidirectional", options.bidirectional, "Prefill without a causal mask");
}

void add_output(CLI::App &command, EstimateOptions &options) {
    CLI::Option *json = command.add_flag("--json", options.json, "Print a JSON object");
    command.add_flag("--csv", options.csv, "Print comma-separated values")->excludes(json);
}

} // namespace

CLI::App *add_estimate_command(CLI::App &app, EstimateOptions &options) {
    CLI::App *command =
        app.add_subcommand("estimate", "Estimate what attention variants cost, and which of them fit a memory");
    add_sizes(*command, options);
    add_use(*command, options);
    add_output(*command, options);
    return command;
}

int estimate_command(CommonOptions common, const EstimateOptions &options, ValidationLog &validation) {
    const vkattn_estimate_info use = use_of(options);
    std::vector<EstimateModel> models = models_of(options);
    set_mla_form(options.mla_form, models);
    std::vector<Estimate> estimates = estimate_all(models, use, options.kv_scales == "row");
    common.writes_saved = false;
    if (!common.device.empty()) measure_workspaces(make_context(common, validation), estimates);
    if (options.json)
        print_json(std::cout, estimates);
    else if (options.csv)
        print_csv(std::cout, estimates);
    else
        print_table(std::cout, estimates);
    return kExitSuccess;
}

} // namespace vkattn::tools
