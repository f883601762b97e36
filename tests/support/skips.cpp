#include "skips.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <set>

namespace vkattn_test {
namespace {

struct Skips {
    std::mutex mutex;
    std::string test_case;                              // that runs
    std::map<std::string, std::set<std::string>> cases; // that left something out, by reason
};

Skips &skips() {
    static Skips instance;
    return instance;
}

// Tells which test case runs.
struct Listener : doctest::IReporter {
    explicit Listener(const doctest::ContextOptions &) {}
    void test_case_start(const doctest::TestCaseData &data) override {
        const std::lock_guard lock(skips().mutex);
        skips().test_case = data.m_name;
    }
    void report_query(const doctest::QueryData &) override {}
    void test_run_start() override {}
    void test_run_end(const doctest::TestRunStats &) override {}
    void test_case_reenter(const doctest::TestCaseData &) override {}
    void test_case_end(const doctest::CurrentTestCaseStats &) override {}
    void test_case_exception(const doctest::TestCaseException &) override {}
    void subcase_start(const doctest::SubcaseSignature &) override {}
    void subcase_end() override {}
    void log_assert(const doctest::AssertData &) override {}
    void log_message(const doctest::MessageData &) override {}
    void test_case_skipped(const doctest::TestCaseData &) override {}
};

REGISTER_LISTENER("skips", 1, Listener);

} // namespace

void skip(const std::string &reason) {
    const std::lock_guard lock(skips().mutex);
    skips().cases[reason].insert(skips().test_case);
}

bool report_skips() {
    for (const auto &[reason, cases] : skips().cases)
        std::printf("skipped in %zu test cases: %s\n", cases.size(), reason.c_str());
    const char *path = std::getenv("VKATTN_TEST_SKIPS");
    if (path == nullptr || skips().cases.empty()) return true;
    std::string lines; // written at once: other programs write there too
    for (const auto &[reason, cases] : skips().cases) lines += std::to_string(cases.size()) + "\t" + reason + "\n";
    std::ofstream file(path, std::ios::app | std::ios::binary);
    file << lines << std::flush;
    if (!file) std::fprintf(stderr, "VKATTN_TEST_SKIPS: %s cannot be written\n", path);
    return static_cast<bool>(file);
}

} // namespace vkattn_test
