#include "tools/command/commands.hpp"
#include "tools/devices/device_words.hpp"
#include "tools/io/progress.hpp"
#include "tools/io/text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <functional>
#include <iostream>
#include <optional>

namespace vkattn::tools {
namespace {

// number: of this check, from 1.
void print_check(const vkattn_check &check, std::size_t number) {
    const std::string count = std::to_string(check.check_count), place = std::to_string(number);
    std::cout << std::string(count.size() - std::min(count.size(), place.size()), ' ') << place << " of " << count
              << "  " << padded(check.name, 40) << " " << (check.passed != 0 ? "PASS" : "FAIL") << " "
              << decimals(check.milliseconds, 0) << " ms" << (check.passed != 0 ? "" : ": ") << check.reason
              << std::endl; // one sees it go on
}

// Hands over each check as soon as its kernel is judged.
List<vkattn_check> run_checks(const Context &context,
                              const std::function<void(const vkattn_check &, std::size_t)> &tell) {
    std::size_t count = 0;
    std::optional<Waiting> waiting("self-test");
    return context.self_test([&](const vkattn_check &check) {
        waiting.reset(); // nothing else may be printed meanwhile
        tell(check, ++count);
        waiting.emplace("self-test");
    });
}

void print_json(const vkattn_device_facts &facts, const List<vkattn_check> &checks) {
    nlohmann::json list = nlohmann::json::array();
    for (const vkattn_check &check : checks)
        list.push_back({{"name", check.name},
                        {"passed", check.passed != 0},
                        {"reason", check.reason},
                        {"milliseconds", check.milliseconds}});
    const nlohmann::json report = {{"device", facts.name}, {"driver", driver_text(facts)}, {"checks", list}};
    std::cout << report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
}

} // namespace

int selftest_command(const CommonOptions &common, const SelftestOptions &options, ValidationLog &validation) {
    const Context context = make_context(common, validation);
    const SavedOnFailure saved(context, common);
    if (!options.json)
        std::cout << "device: " << context.facts().name << ", driver: " << driver_text(context.facts()) << std::endl;
    const List<vkattn_check> checks = run_checks(context, [&](const vkattn_check &check, std::size_t number) {
        if (!options.json) print_check(check, number);
    });
    const auto passed = std::ranges::count_if(checks, [](const vkattn_check &check) { return check.passed != 0; });
    const auto failed = static_cast<std::ptrdiff_t>(checks.size()) - passed;
    if (options.json)
        print_json(context.facts(), checks);
    else
        std::cout << passed << " passed, " << failed << " failed\n";
    save_context(context, common);
    return failed == 0 ? kExitSuccess : kExitWrong;
}

} // namespace vkattn::tools
