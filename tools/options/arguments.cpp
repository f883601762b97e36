#include "tools/options/arguments.hpp"

#include <CLI/CLI.hpp>

#include <limits>
#include <string_view>

namespace vkattn::tools {
namespace {

std::uint32_t parse_size(const std::string &option, const std::string &text) {
    std::uint64_t size = 0;
    std::size_t digits = 0;
    for (; digits < text.size() && digits < 10 && text[digits] >= '0' && text[digits] <= '9'; ++digits)
        size = size * 10 + static_cast<std::uint64_t>(text[digits] - '0');
    const std::string suffix = text.substr(digits);
    if (suffix == "k" || suffix == "K") size *= 1024;
    const bool is_known = suffix.empty() || suffix == "k" || suffix == "K";
    if (digits == 0 || !is_known || size == 0 || size > std::numeric_limits<std::uint32_t>::max())
        throw CLI::ValidationError(option + ": '" + text +
                                   "' is no size, expected a whole number from 1, such as 4096 or 4k");
    return static_cast<std::uint32_t>(size);
}

std::vector<std::uint32_t> parse_sizes(const std::string &option, const std::string &text) {
    constexpr std::string_view kTo = "..";
    std::vector<std::uint32_t> sizes;
    for (const std::string &part : CLI::detail::split(text, ',')) {
        const std::size_t to = part.find(kTo);
        const std::uint64_t first = parse_size(option, part.substr(0, to));
        const std::uint64_t last = to == std::string::npos ? first : parse_size(option, part.substr(to + kTo.size()));
        if (last < first)
            throw CLI::ValidationError(option + ": '" + part + "' falls, expected a range that rises, such as 1k..16k");
        for (std::uint64_t size = first; size <= last; size *= 2) sizes.push_back(static_cast<std::uint32_t>(size));
    }
    return sizes;
}

} // namespace

CLI::Option *add_file(CLI::App &command, const std::string &name, std::string &file, const std::string &help) {
    return command.add_option(name, file, help)->type_name("FILE")->check([](const std::string &given) {
        return given.empty() ? std::string("is empty, expected the name of a file") : std::string();
    });
}

CLI::Option *add_size(CLI::App &command, const std::string &name, std::uint32_t &size, const std::string &help) {
    return command
        .add_option_function<std::string>(
            name, [&size, name](const std::string &text) { size = parse_size(name, text); }, help)
        ->type_name("SIZE");
}

void add_sizes(CLI::App &command, const std::string &name, std::vector<std::uint32_t> &sizes, const std::string &help) {
    command
        .add_option_function<std::string>(
            name, [&sizes, name](const std::string &text) { sizes = parse_sizes(name, text); }, help)
        ->type_name("SIZES");
}

} // namespace vkattn::tools
