#include "commands.hpp"
#include "progress.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <iostream>

namespace vkattn::tools {
namespace {

void print_table(const std::vector<vkattn_check> &checks) {
    for (const vkattn_check &check : checks)
        std::cout << padded(check.name, 40) << " " << (check.passed != 0 ? "PASS" : "FAIL") << " "
                  << decimals(check.milliseconds, 0) << " ms" << (check.passed != 0 ? "" : ": ") << check.reason
                  << "\n";
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
    const std::vector<vkattn_check> checks = [&] {
        const Waiting waiting("self-test");
        return context.self_test();
    }();
    save_context(context, common);
    const auto passed = std::ranges::count_if(checks, [](const vkattn_check &check) { return check.passed != 0; });
    const auto failed = static_cast<std::ptrdiff_t>(checks.size()) - passed;
    if (options.json) {
        print_json(context.facts(), checks);
    } else {
        std::cout << "device: " << context.facts().name << ", driver: " << driver_text(context.facts()) << "\n";
        print_table(checks);
        std::cout << passed << " passed, " << failed << " failed\n";
    }
    return failed == 0 ? kExitSuccess : kExitWrong;
}

} // namespace vkattn::tools
