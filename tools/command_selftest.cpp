#include "commands.hpp"
#include "progress.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <functional>
#include <iostream>
#include <optional>
#include <vector>

namespace vkattn::tools {
namespace {

void print_check(const vkattn_check &check) {
    std::cout << padded(check.name, 40) << " " << (check.passed != 0 ? "PASS" : "FAIL") << " "
              << decimals(check.milliseconds, 0) << " ms" << (check.passed != 0 ? "" : ": ") << check.reason
              << std::endl; // one sees it go on
}

// Hands over each check as soon as its kernel is judged.
std::vector<vkattn_check> run_checks(const Context &context, const std::function<void(const vkattn_check &)> &tell) {
    struct Run {
        std::function<void(const vkattn_check &)> tell;
        std::vector<vkattn_check> checks;
        std::optional<Waiting> waiting;
    } run{tell, {}, {}};
    run.waiting.emplace("self-test");
    const auto receive = [](void *user, const vkattn_check *each) {
        Run &own = *static_cast<Run *>(user);
        own.waiting.reset(); // nothing else may be printed meanwhile
        own.checks.push_back(*each);
        own.tell(*each);
        own.waiting.emplace("self-test");
    };
    vkattn::check(vkattn_self_test_each(context.get(), receive, &run));
    return run.checks;
}

void print_json(const vkattn_device_facts &facts, const std::vector<vkattn_check> &checks) {
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
    if (!options.json)
        std::cout << "device: " << context.facts().name << ", driver: " << driver_text(context.facts()) << std::endl;
    const std::vector<vkattn_check> checks = run_checks(context, [&](const vkattn_check &check) {
        if (!options.json) print_check(check);
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
