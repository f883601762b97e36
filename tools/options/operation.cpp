#include "tools/options/operation.hpp"

#include "tools/io/input_error.hpp"
#include "tools/options/arguments.hpp"
#include "tools/tensors/stored_types.hpp"

#include <CLI/CLI.hpp>

#include <string_view>
#include <utility>

namespace vkattn::tools {
namespace {

constexpr unsigned kAttention = 1, kIndex = 2, kLinear = 4, kStates = 8, kLayers = 16, kEach = 15;

// How each is asked for, in their order.
constexpr const char *kAsked[] = {"attention", "--index", "--op linear", "--op linear_attention", "--variants"};

// Options that not all take.
constexpr std::pair<const char *, unsigned> kTaken[] = {
    {"--batch", kAttention | kIndex | kStates | kLayers},
    {"--heads", kAttention | kIndex | kStates | kLayers},
    {"--kv-heads", kAttention | kStates},
    {"--q-len", kAttention | kIndex | kStates},
    {"--kv-len", kAttention | kIndex},
    {"--page-size", kAttention | kIndex},
    {"--head-dim", kAttention | kIndex | kStates},
    {"--value-in-key", kAttention},
    {"--v-head-dim", kAttention | kStates},
    {"--kv-dtype", kAttention | kIndex},
    {"--block-mask", kAttention},
    {"--visible-blocks", kAttention},
    {"--key-list", kAttention},
    {"--tree", kAttention},
    {"--kv-rotation", kAttention},
    {"--kv-scales", kAttention | kIndex},
    {"--index", kAttention | kIndex},
    {"--variant", kAttention},
    {"--softcap", kAttention},
    {"--alibi", kAttention},
    {"--causal", kAttention | kIndex},
    {"--rows", kLinear},
    {"--in-features", kLinear},
    {"--out-features", kLinear},
    {"--weight-dtype", kLinear},
    {"--input-norm", kLinear},
    {"--gated", kLinear},
    {"--backward", kAttention | kLinear},
    {"--form", kStates},
    {"--kernel", kAttention | kLayers},
    {"--op", kEach},
    {"--input-sets", kEach},
    {"--roofline", kEach},
    {"--csv", kEach},
    {"--d-model", kLayers},
    {"--len", kLayers},
};

constexpr std::pair<const char *, unsigned> kNamed[] = {
    {"attention", kAttention}, {"linear", kLinear}, {"linear_attention", kStates}}; // by --op

bool has(const CLI::App &command, const char *option) { return command.get_option_no_throw(option) != nullptr; }

unsigned operations_of(const CLI::App &command) {
    return kAttention | kIndex | (command.get_name() == "plan" ? 0 : kLinear) | (has(command, "--form") ? kStates : 0) |
           (has(command, "--variants") ? kLayers : 0);
}

// But for what is asked for by the option itself.
std::string words_of(unsigned operations, std::string_view option = "") {
    std::string words;
    for (unsigned i = 0; i < std::size(kAsked); ++i)
        if ((operations >> i & 1) != 0 && kAsked[i] != option)
            words += (words.empty() ? "" : " or ") + std::string(kAsked[i]);
    return words;
}

// Which operation is asked for, of those that the command has.
unsigned operation_of(const CLI::App &command, const OperationOptions &options, bool of_layers) {
    if (of_layers) return kLayers;
    std::string names;
    for (const auto &[name, operation] : kNamed) {
        if ((operations_of(command) & operation) == 0) continue;
        if (options.op == name) return options.shape.index != 0 && operation == kAttention ? kIndex : operation;
        names += (names.empty() ? "" : " or ") + std::string(name);
    }
    throw InputError("--op " + options.op, "not supported by " + command.get_name() + ", expected " + names);
}

void add_shape(CLI::App &command, ShapeOptions &options) {
    AttentionShape &shape = options.shape;
    add_size(command, "--batch", shape.batch, "Sequences; default 1");
    add_size(command, "--heads", shape.heads, "Query heads; default 32");
    add_size(command, "--kv-heads", shape.kv_heads, "KV heads; default: as many as query heads");
    add_sizes(command, "--q-len", options.q_lens,
              "Query length, or several: 512,4k or 1k..16k, by powers of 2; default 1");
    add_sizes(command, "--kv-len", options.kv_lens, "Key length, or several; default 4096");
    add_size(command, "--page-size", shape.page_size, "K and V in pages of so many positions, in random order");
    add_size(command, "--head-dim", shape.head_dim, "Head size of Q and K; default 128");
    command.add_flag("--value-in-key", shape.value_in_key, "V is the first elements of K's rows, as in absorbed MLA");
    add_size(command, "--v-head-dim", shape.v_head_dim, "Head size of V; default: --head-dim");
    command.add_option("--dtype", shape.dtype, "Type of Q and the output: " + type_names(is_float))
        ->capture_default_str();
    command.add_option("--kv-dtype", shape.kv_dtype, "Type of K and V; default: --dtype");
    CLI::Option *blocks = add_size(command, "--block-mask", shape.block_size,
                                   "Hide blocks of so many queries and keys, all but --visible-blocks of them");
    command.add_option("--visible-blocks", shape.visible_blocks, "Percent of the blocks, at random")
        ->capture_default_str()
        ->check(CLI::Range(0, 100))
        ->needs(blocks);
    add_size(command, "--key-list", shape.key_list, "Attend so many keys of each query's own list, at random");
    command.add_flag("--tree", shape.tree, "The queries are a draft in a tree: each sees the past and its own branch");
    command.add_option("--kv-rotation", options.kv_rotation, "How K and V are stored: none, hadamard")
        ->capture_default_str();
    command
        .add_option("--kv-scales", shape.kv_scales,
                    "Scales of K and V of type f8_e4m3 or f8_e5m2: none, tensor, head (of each), row (of each)")
        ->capture_default_str();
    add_size(command, "--index", shape.index,
             "In place of attention, choose so many keys for each query by the scores of --heads heads, at most 2048");
    add_file(command, "--variant", shape.variant,
             "Attention with the functions of this file, GLSL or what compile-variant wrote as .spv");
    command.add_option("--softcap", shape.softcap, "Scores s become C tanh(s / C) of this C; default: they do not")
        ->check(CLI::PositiveNumber);
    command.add_flag("--alibi", shape.alibi, "Biases that are linear in the distance (ALiBi)");
    command.add_flag("--causal", shape.causal, "Causal mask, the last query at the last key");
}

} // namespace

void add_operation(CLI::App &command, OperationOptions &options) {
    command.add_option("--op", options.op, "Operation: attention, linear; of bench also linear_attention")
        ->capture_default_str();
    add_shape(command, options);
    add_sizes(command, "--rows", options.rows, "Rows of linear's input, or several; default 1,16,512");
    add_size(command, "--in-features", options.linear.in_features, "Input features of linear; default 4096");
    add_size(command, "--out-features", options.linear.out_features, "Output features of linear; default 4096");
    command.add_option("--weight-dtype", options.linear.weight_dtype, "Type of linear's weight; default: --dtype");
}

void add_input_norm(CLI::App &command, OperationOptions &options) {
    command.add_flag("--input-norm", options.linear.input_norm, "RMSNorm of linear's input before it is multiplied");
    command.add_flag("--gated", options.linear.gated, "linear of two matrices, SwiGLU: silu(x gate) times x up");
}

void add_backward(CLI::App &command, OperationOptions &options) {
    command.add_flag(
        "--backward", options.shape.backward,
        "The gradients: of Q, K and V, of an output and log-sum-exp; of linear, of its input and a weight of "
        "floats");
}

void refuse_options_of_others(const CLI::App &command, const OperationOptions &options, bool of_layers) {
    const unsigned asked = operation_of(command, options, of_layers);
    for (const auto &[name, taken] : kTaken) {
        if (!has(command, name) || command[name]->empty() || (taken & asked) != 0) continue;
        const std::string others = words_of(taken & operations_of(command), name);
        throw InputError(name, "given with " + words_of(asked) + ", expected " +
                                   (others.empty() ? "none by " + command.get_name() : "it with " + others));
    }
}

} // namespace vkattn::tools
