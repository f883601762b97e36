#include "tools/cases/case_runner.hpp"
#include "tools/command/commands.hpp"
#include "tools/command/weights_map.hpp"
#include "tools/devices/device_words.hpp"
#include "tools/io/input_error.hpp"
#include "tools/io/terminal.hpp"
#include "tools/io/text.hpp"
#include "tools/io/text_file.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <iostream>

namespace vkattn::tools {
namespace {

constexpr std::uint32_t kMostHeads = 15; // that are drawn without being asked for, beside the mean

// [B,H,Lq,Lk]
class Weights {
  public:
    explicit Weights(const HostTensor &tensor) : shape_(tensor.shape), values_(values_of(tensor)) {}
    std::uint64_t batch() const { return shape_[0]; }
    std::uint64_t heads() const { return shape_[1]; }
    std::uint64_t queries() const { return shape_[2]; }
    std::uint64_t keys() const { return shape_[3]; }

    std::vector<double> head(std::uint64_t sequence, std::uint64_t head) const {
        const auto first =
            values_.begin() + static_cast<std::ptrdiff_t>((sequence * heads() + head) * queries() * keys());
        return {first, first + static_cast<std::ptrdiff_t>(queries() * keys())};
    }

    std::vector<double> mean(std::uint64_t sequence) const {
        std::vector<double> sum(queries() * keys());
        for (std::uint64_t h = 0; h < heads(); ++h)
            std::ranges::transform(sum, head(sequence, h), sum.begin(), std::plus<>());
        for (double &value : sum) value /= static_cast<double>(heads());
        return sum;
    }

  private:
    std::vector<std::uint64_t> shape_;
    std::vector<double> values_;
};

std::vector<std::string> read_tokens(const std::string &file, std::uint64_t keys) {
    if (file.empty()) return {};
    if (!std::filesystem::exists(file)) throw InputError(file, "cannot be read, expected one token a line");
    const std::string text = read_if_there(file);
    std::vector<std::string> tokens;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        tokens.push_back(clean_line(text.substr(at, std::min<std::size_t>(end - at, 24))));
        at = end + 1;
    }
    if (tokens.size() != keys)
        throw InputError(file, "has " + std::to_string(tokens.size()) + " lines, expected " + std::to_string(keys) +
                                   ", one for each key");
    return tokens;
}

std::vector<std::uint32_t> heads_of(const ShowOptions &options, std::uint64_t heads) {
    std::vector<std::uint32_t> chosen = options.heads;
    for (const std::uint32_t head : chosen)
        if (head >= heads)
            throw InputError("--heads", std::to_string(head) + ", expected less than " + std::to_string(heads));
    if (chosen.empty())
        for (std::uint32_t head = 0; head < std::min<std::uint64_t>(heads, kMostHeads); ++head) chosen.push_back(head);
    return chosen;
}

// The texts of the queries, which are the last of the sequence; none without texts for all.
std::vector<std::string> query_labels(const std::vector<std::string> &key_labels, std::uint64_t queries) {
    if (key_labels.size() < queries) return {};
    return {key_labels.end() - static_cast<std::ptrdiff_t>(queries), key_labels.end()};
}

nlohmann::ordered_json panel(const std::string &title, const std::vector<double> &weights, std::uint64_t keys) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (auto row = weights.begin(); row != weights.end(); row += static_cast<std::ptrdiff_t>(keys))
        rows.push_back(std::vector<double>(row, row + static_cast<std::ptrdiff_t>(keys)));
    return {{"title", title}, {"weights", std::move(rows)}};
}

std::string mean_title(const Weights &weights) { return "mean of " + std::to_string(weights.heads()) + " heads"; }

void print_weights_json(const Weights &weights, const ShowOptions &options, const std::string &name,
                        const std::string &kernel, const vkattn_device_facts &device) {
    const std::vector<std::string> tokens = read_tokens(options.tokens_file, weights.keys());
    nlohmann::ordered_json json{{"name", name},
                                {"device", device.name},
                                {"driver", driver_text(device)},
                                {"kernel", kernel},
                                {"sequence", options.sequence},
                                {"batch", weights.batch()},
                                {"heads", weights.heads()},
                                {"queries", weights.queries()},
                                {"keys", weights.keys()},
                                {"query_labels", query_labels(tokens, weights.queries())},
                                {"key_labels", tokens}};
    if (weights.heads() > 1)
        json["panels"].push_back(panel(mean_title(weights), weights.mean(options.sequence), weights.keys()));
    for (const std::uint32_t head : heads_of(options, weights.heads()))
        json["panels"].push_back(
            panel("head " + std::to_string(head), weights.head(options.sequence, head), weights.keys()));
    // a line without indentation, which would make many more bytes of a matrix
    std::cout << json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
}

void print_weights(const Weights &weights, const ShowOptions &options, const std::string &name,
                   const std::string &kernel, const vkattn_device_facts &device) {
    std::cout << name << ": " << weights.heads() << " heads, " << weights.queries() << " queries, " << weights.keys()
              << " keys; sequence " << options.sequence << " of " << weights.batch() << "; kernel " << kernel << " on "
              << device.name << "\n";
    if (!is_terminal(stdout) && !options.map) {
        std::cout << "no terminal, hence no map: --map draws it all the same, --json gives the weights\n";
        return;
    }
    const std::vector<double> mean = weights.mean(options.sequence);
    if (mean.empty()) return;
    std::cout << "mean of the heads; rows are queries, columns keys, the darkest "
              << significant(*std::ranges::max_element(mean), 3) << "\n"
              << weights_map(mean, weights.queries(), weights.keys(), locale_is_utf8());
}

} // namespace

int show_command(const CommonOptions &common, const ShowOptions &options, ValidationLog &validation) {
    const CaseFile input = read_case(options.case_file);
    const Context context = make_context(common, validation);
    const SavedOnFailure saved(context, common);
    const CaseResult result =
        run_case(context, input, std::vector<std::string>{"attn_weights"}, kernel_of(common.kernel));
    const auto found = result.outputs.find("attn_weights");
    if (found == result.outputs.end() || found->second.shape.size() != 4)
        throw InputError(options.case_file, "gives no attn_weights, expected an operation that has them");
    const Weights weights(found->second);
    if (options.sequence >= weights.batch())
        throw InputError("--sequence",
                         std::to_string(options.sequence) + ", expected less than " + std::to_string(weights.batch()));
    (options.json ? print_weights_json : print_weights)(weights, options, clean_line(input.name()), result.kernel,
                                                        context.facts());
    save_context(context, common);
    return kExitSuccess;
}

} // namespace vkattn::tools
