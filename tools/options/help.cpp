#include "tools/options/help.hpp"

#include "tools/io/input_error.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <string_view>
#include <vector>

namespace vkattn::tools {
namespace {

// What names, letters and lines mean to roff is taken from them.
std::string escaped(std::string_view text) {
    std::string result;
    for (const char letter : text) {
        if (letter == '\\')
            result += "\\e";
        else if (letter == '-')
            result += "\\-";
        else
            result += letter;
    }
    return result.starts_with('.') || result.starts_with('\'') ? "\\&" + result : result;
}

std::vector<const CLI::Option *> shown_options(const CLI::App &command) {
    return command.get_options([](const CLI::Option *option) { return !option->get_group().empty(); });
}

bool has_option(const CLI::App &command, const CLI::Option &option) {
    return std::ranges::any_of(shown_options(command), [&](const CLI::Option *each) {
        return each->get_name(false, true) == option.get_name(false, true);
    });
}

void print_option(std::ostream &out, const CLI::Option &option) {
    const std::string name = option.nonpositional() ? option.get_name(false, true) : option.get_name(true);
    out << ".TP\n.B " << escaped(name);
    if (option.get_items_expected_max() != 0) out << " \\fI" << escaped(option.get_type_name()) << "\\fR";
    out << '\n' << escaped(option.get_description());
    if (!option.get_default_str().empty()) out << "; default " << escaped(option.get_default_str());
    out << ".\n";
}

void print_examples(std::ostream &out, const std::string &footer) {
    if (footer.empty()) return;
    out << ".PP\n.nf\n";
    for (const std::string &line : CLI::detail::split(footer, '\n')) out << escaped(line) << '\n';
    out << ".fi\n";
}

void print_command(std::ostream &out, const CLI::App &app, const CLI::App &command) {
    out << ".SS vkattn " << command.get_name() << '\n' << escaped(command.get_description()) << ".\n";
    for (const CLI::Option *option : shown_options(command))
        if (!has_option(app, *option)) print_option(out, *option);
    print_examples(out, command.get_footer());
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), 0);
    for (std::size_t i = 0; i < a.size(); ++i) {
        std::size_t diagonal = row[0]++;
        for (std::size_t j = 0; j < b.size(); ++j) {
            const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
            diagonal = row[j + 1];
            row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
        }
    }
    return row.back();
}

std::string joined(const std::vector<std::string> &names, const char *between) {
    std::string text;
    for (const std::string &name : names) text += (text.empty() ? "" : between) + name;
    return text;
}

// Options that the given one begins; else those that differ in two letters at most.
std::vector<std::string> like_options(const CLI::App &command, const std::string &given) {
    std::vector<std::string> longer, alike;
    const std::string core = given.substr(std::min(given.find_first_not_of('-'), given.size()));
    for (const CLI::Option *option : shown_options(command)) {
        for (const std::string &name : option->get_lnames()) {
            if (!core.empty() && name.starts_with(core))
                longer.push_back("--" + name);
            else if (core.size() > 2 && edit_distance(core, name) <= 2)
                alike.push_back("--" + name);
        }
    }
    return longer.empty() ? alike : longer;
}

std::vector<std::string> command_names(const CLI::App &app) {
    std::vector<std::string> names;
    for (const CLI::App *command : app.get_subcommands([](const CLI::App *) { return true; }))
        names.push_back(command->get_name());
    return names;
}

std::string unknown_option(const CLI::App &command, const std::string &word) {
    const std::string option = word.substr(0, word.find('='));
    const std::vector<std::string> alike = like_options(command, option);
    return quote_name(option) + " is no option of " + command.get_name() +
           (alike.empty() ? "" : " (did you mean " + joined(alike, " or ") + "?)");
}

std::string unknown_command(const CLI::App &app, const std::string &word) {
    const std::vector<std::string> names = command_names(app);
    std::vector<std::string> alike;
    std::ranges::copy_if(names, std::back_inserter(alike),
                         [&](const std::string &name) { return word.size() > 2 && edit_distance(word, name) <= 2; });
    return quote_name(word) + " is no command" +
           (alike.empty() ? "" : " (did you mean " + joined(alike, " or ") + "?)") + ", expected one of " +
           joined(names, ", ");
}

} // namespace

void print_manual_page(std::ostream &out, const CLI::App &app) {
    out << R"(.\" Made by vkattn --help-man.
.TH VKATTN 1 "" "vkattn" "User Commands"
.SH NAME
vkattn \- attention on any Vulkan device
.SH SYNOPSIS
.B vkattn
.I COMMAND
.RI [ OPTION ...]
.RI [ ARGUMENT ...]
.SH DESCRIPTION
Computes attention in Vulkan compute shaders, on GPUs and on CPU drivers: runs case files and compares them with the answers in
them, tells which kernel a problem takes and why, measures, and estimates what attention variants cost.
.SH COMMANDS
)";
    for (const CLI::App *command : app.get_subcommands([](const CLI::App *) { return true; }))
        print_command(out, app, *command);
    out << ".SH OPTIONS OF EVERY COMMAND\n";
    for (const CLI::Option *option : shown_options(app)) print_option(out, *option);
    out << R"(.SH ENVIRONMENT
.TP
.B VK_DRIVER_FILES
The Vulkan loader's list of drivers.
.TP
.B VKATTN_DEVICE_TRAITS
Traits of the device, as
.IR name = number ,...
.TP
.B VKATTN_VALIDATION
1: run under the Vulkan validation layer.
.SH EXIT STATUS
0 if all went well, 1 if an answer was wrong or the validation layer said something, 2 if something could not be done; one line
on the standard error stream says why.
.SH SEE ALSO
.BR vkattn\-plot (1)
)";
}

std::string command_line_error(const CLI::App &app, const CLI::ParseError &error) {
    const std::vector<CLI::App *> commands = const_cast<CLI::App &>(app).get_subcommands();
    const CLI::App &command = commands.empty() ? app : *commands.front();
    const std::string help = "'vkattn " + (commands.empty() ? "" : command.get_name() + " ") + "--help'";
    const std::vector<std::string> words = app.remaining(true);
    const auto is_option = [](const std::string &word) { return word.starts_with('-'); };
    const auto word = std::ranges::find_if_not(words, is_option);
    if (commands.empty() && word != words.end()) return unknown_command(app, *word);
    std::string message = error.what();
    const auto option = std::ranges::find_if(words, is_option);
    if (option != words.end() && dynamic_cast<const CLI::ExtrasError *>(&error) != nullptr)
        message = unknown_option(command, *option);
    const bool says_expected = message.find("expected ") != std::string::npos;
    return message + (says_expected ? "" : ", expected what " + help + " lists");
}

} // namespace vkattn::tools
