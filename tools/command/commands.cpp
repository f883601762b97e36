#include "tools/command/commands.hpp"

#include "tools/devices/device_traits.hpp"
#include "tools/io/input_error.hpp"
#include "tools/io/output_file.hpp"
#include "tools/io/text_file.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

namespace vkattn::tools {
namespace {

bool wants_validation() {
    const char *value = std::getenv("VKATTN_VALIDATION");
    return value != nullptr && std::string_view(value) != "" && std::string_view(value) != "0";
}

// What the file holds, once it is known that the end of the command may write there: "" if there is none yet.
std::string read_saved(const CommonOptions &common) {
    const std::string &file = common.saved_file;
    if (file.empty()) return "";
    std::string saved = read_if_there(file);
    if (!saved.empty() && !saved.starts_with("vkattn")) // as vkattn_context_save begins
        throw InputError(file, "holds something else than --saved keeps, which is left as it is; expected a file that "
                               "--saved wrote, or a new name");
    if (common.writes_saved) OutputFile::check(file);
    return saved;
}

// Who ends a program while it tries a shader finds no fault with it.
void end_by(int signal) {
    vkattn_withdraw_trials();
    std::signal(signal, SIG_DFL);
    std::raise(signal);
}

} // namespace

void ValidationLog::receive(void *user, vkattn_severity, const char *message) {
    constexpr std::string_view kOwn = "vkattn: ";
    if (const std::string line = clean_line(message); line.starts_with(kOwn)) {
        std::fprintf(stderr, "vkattn: warning: %s\n", line.c_str() + kOwn.size());
        return;
    }
    ++static_cast<ValidationLog *>(user)->count_;
    std::fprintf(stderr, "vkattn: validation: %s\n", clean_line(message).c_str());
}

Context make_context(const CommonOptions &common, ValidationLog &validation, vkattn_shader_capture capture) {
    vkattn_context_info info{};
    info.device_selector = common.device.c_str();
    info.enable_validation = wants_validation() ? 1 : 0;
    info.message_callback = ValidationLog::receive;
    info.message_user = &validation;
    const std::vector<vkattn_trait> traits = traits_of_environment();
    info.traits = traits.data();
    info.trait_count = static_cast<std::uint32_t>(traits.size());
    const std::string saved = read_saved(common);
    info.saved_data = saved.data();
    info.saved_bytes = saved.size();
    info.capture_shaders = capture;
    info.tune_budget_ms = common.tune_budget;
    const std::string journal_file = common.saved_file + ".journal";
    const bool is_there = std::filesystem::exists(journal_file);
    if (!common.saved_file.empty() && (common.writes_saved || is_there)) {
        info.crash_journal = journal_file.c_str();
        for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, end_by);
    }
    return Context(info);
}

namespace {

// On the error stream, beside what a command prints.
void tell_budget(const vkattn_tune_budget_report &spent) {
    if (spent.classes + spent.left_out == 0) return;
    const std::string left_out = spent.left_out == 0 ? "" : ", " + std::to_string(spent.left_out) + " left out";
    std::fprintf(stderr, "vkattn: tuned within the budget: %u %s%s, %.0f of %.0f ms\n", spent.classes,
                 spent.classes == 1 ? "class" : "classes", left_out.c_str(), spent.spent_ms, spent.budget_ms);
}

} // namespace

void save_context(const Context &context, const CommonOptions &common) {
    tell_budget(context.tune_budget());
    if (common.saved_file.empty()) return;
    const std::vector<std::uint8_t> saved = context.save();
    write_text(common.saved_file, std::string(saved.begin(), saved.end()));
}

SavedOnFailure::~SavedOnFailure() {
    if (std::uncaught_exceptions() == exceptions_) return;
    try {
        save_context(context_, common_);
    } catch (const std::exception &error) {
        print_error(error.what());
    }
}

vkattn_kernel kernel_of(std::string_view name) {
    std::string expected;
    for (int i = 0; i < VKATTN_KERNEL_COUNT; ++i) {
        const auto kernel = static_cast<vkattn_kernel>(i);
        if (name == vkattn_kernel_name(kernel)) return kernel;
        expected += (expected.empty() ? "" : ", ") + std::string(vkattn_kernel_name(kernel));
    }
    throw InputError("--kernel " + std::string(name), "this version has no such kernel, expected one of " + expected);
}

void print_error(std::string_view message) { std::fprintf(stderr, "vkattn: error: %s\n", clean_line(message).c_str()); }

} // namespace vkattn::tools
