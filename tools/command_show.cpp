#include "case_runner.hpp"
#include "commands.hpp"
#include "input_error.hpp"
#include "terminal.hpp"
#include "text_file.hpp"
#include "weights_map.hpp"
#include "weights_picture.hpp"

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

WeightsPicture picture_of(const Weights &weights, const ShowOptions &options, const std::string &title,
                          const std::string &subtitle) {
    WeightsPicture picture{title, subtitle, weights.queries(), weights.keys(), {}, {}, {}};
    picture.key_labels = read_tokens(options.tokens_file, weights.keys());
    if (picture.key_labels.size() >= weights.queries()) // the queries are the last of the sequence
        picture.query_labels.assign(picture.key_labels.end() - static_cast<std::ptrdiff_t>(weights.queries()),
                                    picture.key_labels.end());
    if (weights.heads() > 1)
        picture.panels.push_back(
            {"mean of " + std::to_string(weights.heads()) + " heads", weights.mean(options.sequence)});
    for (const std::uint32_t head : heads_of(options, weights.heads()))
        picture.panels.push_back({"head " + std::to_string(head), weights.head(options.sequence, head)});
    return picture;
}

} // namespace

int show_command(const CommonOptions &common, const ShowOptions &options, ValidationLog &validation) {
    if (!options.output_file.empty() && !can_draw_png()) draw_png({}); // says what is missing
    const CaseFile input = read_case(options.case_file);
    const Context context = make_context(common, validation);
    const CaseResult result =
        run_case(context, input, std::vector<std::string>{"attn_weights"}, kernel_of(common.kernel));
    const auto found = result.outputs.find("attn_weights");
    if (found == result.outputs.end() || found->second.shape.size() != 4)
        throw InputError(options.case_file, "gives no attn_weights, expected an operation that has them");
    const Weights weights(found->second);
    if (options.sequence >= weights.batch())
        throw InputError("--sequence",
                         std::to_string(options.sequence) + ", expected less than " + std::to_string(weights.batch()));
    const std::string title = clean_line(input.name());
    const std::string subtitle = std::to_string(weights.heads()) + " heads, " + std::to_string(weights.queries()) +
                                 " queries, " + std::to_string(weights.keys()) + " keys; sequence " +
                                 std::to_string(options.sequence) + " of " + std::to_string(weights.batch()) +
                                 "; kernel " + result.kernel + " on " + context.facts().name;
    const WeightsPicture picture = picture_of(weights, options, title, subtitle);
    if (!options.output_file.empty()) write_text(options.output_file, draw_png(picture));
    std::cout << title << ": " << subtitle << "\n";
    if (is_terminal(stdout) || options.map)
        std::cout << "mean of the heads; rows are queries, columns keys, the darkest "
                  << significant(*std::ranges::max_element(picture.panels[0].weights), 3) << "\n"
                  << weights_map(picture.panels[0].weights, weights.queries(), weights.keys(), locale_is_utf8());
    if (!options.output_file.empty()) std::cout << "written " << options.output_file << "\n";
    return kExitSuccess;
}

} // namespace vkattn::tools
