// Drivers that end the process, or lose the device, when they build or run some shaders: started again and again with a crash
// journal, a program comes to serve, tries nothing twice that ended it, and gives right numbers.
#include "application.hpp"
#include "compare.hpp"
#include "corrupted_device.hpp"
#include "device.hpp"
#include "limited_device.hpp"
#include "matrix_vulkan.hpp"
#include "temporary_folder.hpp"

#include "runtime/device/crash_journal.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace vkattn_test;
using vkattn::Attempt;
using vkattn::CrashJournal;

namespace {

std::string text_of(const std::filesystem::path &path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> lines_of(const std::filesystem::path &path) {
    std::vector<std::string> lines;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
}

std::ptrdiff_t lines_with(const std::filesystem::path &path, char event) {
    return std::ranges::count_if(lines_of(path), [&](const std::string &line) { return line.starts_with(event); });
}

// How a child ended.
struct End {
    int status, signal; // 0: by none
};

End end_of(const std::function<void()> &work) {
    std::fflush(nullptr); // the child would say it once more
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        const rlimit no_dump{0, 0};
        setrlimit(RLIMIT_CORE, &no_dump);
        work();
        _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status) ? End{0, WTERMSIG(status)} : End{WEXITSTATUS(status), 0};
}

// ------------------------------------------------------------------------------------------------ a program that is started

constexpr const char *kStart = "a program that others start";

// What the program is told in its environment.
constexpr const char *kJournal = "VKATTN_TEST_JOURNAL", *kLog = "VKATTN_TEST_LOG", *kEffect = "VKATTN_TEST_EFFECT",
                     *kSelfTest = "VKATTN_TEST_SELF_TEST";

std::string told(const char *name) {
    const char *value = std::getenv(name);
    return value == nullptr ? "" : value;
}

End start(const std::filesystem::path &journal, const std::filesystem::path &log, int effect, int self_test) {
    return end_of([&] {
        setenv(kJournal, journal.c_str(), 1);
        setenv(kLog, log.c_str(), 1);
        setenv(kEffect, std::to_string(effect).c_str(), 1);
        setenv(kSelfTest, std::to_string(self_test).c_str(), 1);
        if (std::freopen("/dev/null", "w", stdout) == nullptr || std::freopen("/dev/null", "w", stderr) == nullptr)
            return;
        const std::string cases = std::string("--test-case=") + kStart;
        execl("/proc/self/exe", "vkattn_tests", cases.c_str(), "--no-skip", nullptr);
        _exit(126);
    });
}

AttentionProblem small_problem() {
    std::mt19937 random(7);
    AttentionProblem problem;
    problem.query = normal_tensor(VKATTN_TYPE_F32, {1, 2, 9, 32}, random);
    problem.key = normal_tensor(VKATTN_TYPE_F32, {1, 2, 33, 32}, random);
    problem.value = normal_tensor(VKATTN_TYPE_F32, {1, 2, 33, 32}, random);
    return problem;
}

void serve(const vkattn_context_info &info) {
    const vkattn::Context context(info);
    const AttentionProblem problem = small_problem();
    AttentionResults results;
    results.output = HostTensor(VKATTN_TYPE_F32, {1, 2, 9, 32});
    const vkattn_attention_desc desc = describe(problem, results, VKATTN_KERNEL_AUTO);
    const vkattn::Plan plan = context.attention_plan(desc);
    std::vector<vkattn::Buffer> buffers;
    std::vector<vkattn_binding> bindings;
    for (const Region &region : regions_of(problem, results)) {
        buffers.emplace_back(context.get(), region.tensor->bytes().size());
        buffers.back().write(region.tensor->bytes());
        bindings.push_back(vkattn::bind(region.role, buffers.back()));
    }
    plan.run(bindings);
    for (std::size_t i = 0; i < bindings.size(); ++i)
        if (bindings[i].role == VKATTN_ROLE_OUTPUT) buffers[i].read(results.output.bytes());
    const Comparison result = compare("output", results.output.shape(), reference_attention(problem).output,
                                      results.output.floats(), nmse_bound({VKATTN_TYPE_F32}));
    CHECK_MESSAGE(result.passed, result.report);
}

} // namespace

TEST_SUITE_BEGIN("saved_state");

TEST_CASE("a program that others start" * doctest::skip()) {
    const std::string journal_path = told(kJournal),
                      traits = "specialised_modules=0,matrix_units=0,scalar_address_loads=0,self_test=";
    REQUIRE(journal_path != "");
    ContextRequest request((traits + told(kSelfTest)).c_str());
    request.info.crash_journal = journal_path.c_str();
    if (told(kEffect) == "matrices") { // the driver dies when it is asked for them
        load_vulkan();
        request.info.device_selector = nullptr;
        request.info.get_instance_proc_addr = matrix_vulkan_function;
        matrix_vulkan().dies = true;
        return serve(request.info);
    }
    const CorruptedDevice deadly({.shaders = "flash flash_split flash_halves flash_wide_halves",
                                  .effect = static_cast<Corruption::Effect>(std::atoi(told(kEffect).c_str())),
                                  .log = told(kLog)});
    request.info.get_instance_proc_addr = deadly.get_instance_proc_addr();
    serve(request.info);
}

TEST_CASE("started again and again, a program comes to serve without what ends it") {
    using Effect = Corruption::Effect;
    constexpr std::pair<Effect, int> kDrivers[] = {{Effect::kEndsProcessInBuild, 0},
                                                   {Effect::kEndsProcessInSubmit, 0},
                                                   {Effect::kEndsProcessInSubmit, 1},
                                                   {Effect::kLosesDevice, 0}};
    for (const auto &driver : kDrivers) {
        const Effect effect = driver.first;
        const int self_test = driver.second;
        INFO("effect ", static_cast<int>(effect), ", self-test ", self_test);
        const TemporaryFolder folder;
        const std::filesystem::path journal = folder.file("journal"), log = folder.file("log");
        End end{1, 0};
        int starts = 0;
        while (starts < 8 && (end.status != 0 || end.signal != 0)) {
            end = start(journal, log, static_cast<int>(effect), self_test);
            ++starts;
            if (effect != Effect::kLosesDevice) CHECK((end.signal == SIGABRT || end.signal == 0));
        }
        CHECK(end.status == 0);
        CHECK(end.signal == 0);
        std::vector<std::string> tried = lines_of(log);
        CHECK(tried.size() == static_cast<std::size_t>(starts) - 1);
        CHECK(tried.size() >= 1);
        std::ranges::sort(tried);
        CHECK(std::ranges::adjacent_find(tried) == tried.end()); // nothing twice
        CHECK(lines_with(journal, '!') == starts - 1);
        const std::string before = text_of(journal);
        CHECK(start(journal, log, static_cast<int>(effect), self_test).status == 0);
        CHECK(text_of(journal) == before); // what is known costs nothing
    }
}

TEST_CASE("nothing twice is ended over by a driver that is asked for matrix shapes") {
    const TemporaryFolder folder;
    const std::filesystem::path journal = folder.file("journal");
    const auto start_it = [&] {
        return end_of([&] {
            setenv(kJournal, journal.c_str(), 1);
            setenv(kEffect, "matrices", 1);
            setenv(kSelfTest, "0,matrix_units=1", 1);
            if (std::freopen("/dev/null", "w", stdout) == nullptr) return;
            execl("/proc/self/exe", "vkattn_tests", (std::string("--test-case=") + kStart).c_str(), "--no-skip",
                  nullptr);
        });
    };
    CHECK(start_it().signal == SIGABRT);
    CHECK(start_it().status == 0);
    CHECK(text_of(journal).find("matrix shapes") != std::string::npos);
}

// ------------------------------------------------------------------------------------------------ the file by itself

namespace {

Attempt attempt(std::uint64_t what, std::uint32_t words = 10) {
    return {7, what, vkattn::Stage::kBuild, vkattn::kPathF16, words, "coopmat, 16x16x16"};
}

void try_and(const std::filesystem::path &path, std::vector<Attempt> attempts, const std::function<void()> &then) {
    const auto journal = CrashJournal::open(path.string());
    const std::vector<Attempt> begun = journal->begin(attempts);
    if (begun.size() != attempts.size()) _exit(9);
    then();
}

} // namespace

TEST_CASE("a journal blames what a process that was killed was at, of several the one of the most code") {
    const TemporaryFolder folder;
    const std::filesystem::path path = folder.file("journal");
    const auto die = [] { std::raise(SIGKILL); };
    CHECK(end_of([&] { try_and(path, {attempt(1)}, die); }).signal == SIGKILL);
    CHECK(end_of([&] { try_and(path, {attempt(2), attempt(3, 20), attempt(4)}, die); }).signal == SIGKILL);
    std::ofstream(path, std::ios::app) << "+ 0000000"; // and one that ended while it wrote a line
    const auto journal = CrashJournal::open(path.string());
    CHECK(journal->has_failed(attempt(1)));
    CHECK(journal->has_failed(attempt(3)));
    CHECK(!journal->has_failed(attempt(2)));
    REQUIRE(journal->failed(7).size() == 2);
    CHECK(journal->failed(7)[0].shader == "coopmat, 16x16x16");
    CHECK(journal->failed(7)[0].paths == vkattn::kPathF16);
    CHECK(journal->failed(8).empty()); // another device
    const Attempt again[] = {attempt(1), attempt(2)};
    CHECK(journal->begin(again).size() == 1); // what has failed is not begun
    journal->end({&again[1], 1}, CrashJournal::Outcome::kSurvived);
    CHECK(journal->begin(again).empty());
}

TEST_CASE("orderly ends, and who withdraws in a handler of signals, leave nothing to blame") {
    const TemporaryFolder folder;
    const std::filesystem::path path = folder.file("journal");
    CHECK(end_of([&] { try_and(path, {attempt(1)}, [] { std::exit(3); }); }).status == 3);
    CHECK(end_of([&] {
              std::signal(SIGTERM, [](int signal) {
                  vkattn_withdraw_trials();
                  std::signal(signal, SIG_DFL);
                  std::raise(signal);
              });
              try_and(path, {attempt(2)}, [] { std::raise(SIGTERM); });
          }).signal == SIGTERM);
    CHECK(end_of([&] {
              const Attempt tried = attempt(3);
              try {
                  const vkattn::Trying trying(CrashJournal::open(path.string()), {&tried, 1});
                  throw std::bad_alloc();
              } catch (const std::bad_alloc &) {
                  std::raise(SIGKILL);
              }
          }).signal == SIGKILL);
    CHECK(CrashJournal::open(path.string())->failed(7).empty());
}

TEST_CASE("a process that lives is not blamed, and another tries meanwhile without a note") {
    const TemporaryFolder folder;
    const std::filesystem::path path = folder.file("journal");
    int ready[2], leave[2];
    REQUIRE((pipe(ready) == 0 && pipe(leave) == 0));
    const pid_t child = fork();
    if (child == 0) {
        try_and(path, {attempt(1)}, [&] {
            char byte = 'r';
            if (write(ready[1], &byte, 1) != 1 || read(leave[0], &byte, 1) != 1) _exit(1);
        });
        _exit(0);
    }
    char byte = 0;
    REQUIRE(read(ready[0], &byte, 1) == 1);
    const auto journal = CrashJournal::open(path.string());
    CHECK(!journal->has_failed(attempt(1)));
    const Attempt other = attempt(2);
    CHECK(journal->begin({&other, 1}).empty());
    REQUIRE(write(leave[1], &byte, 1) == 1);
    waitpid(child, nullptr, 0);                     // it ends without an outcome
    CHECK(journal->begin({&other, 1}).size() == 1); // now
    CHECK(journal->has_failed(attempt(1)));
    journal->end({&other, 1}, CrashJournal::Outcome::kSurvived);
    for (const int end : {ready[0], ready[1], leave[0], leave[1]}) close(end);
}

TEST_CASE("a journal that cannot be one is refused, and left as it is") {
    const TemporaryFolder folder;
    const std::filesystem::path path = folder.file("poem");
    std::ofstream(path) << "roses are red\n";
    ContextRequest request;
    request.info.crash_journal = path.c_str();
    const auto message = [&] {
        vkattn_context made = nullptr;
        CHECK(vkattn_context_create(&request.info, &made) == VKATTN_ERROR_INVALID_ARGUMENT);
        return std::string(vkattn_last_error());
    };
    CHECK(message().find(path.string() + ": holds something else") == 0);
    CHECK(text_of(path) == "roses are red\n");
    const std::string nowhere = folder.file("no folder/journal").string();
    request.info.crash_journal = nowhere.c_str();
    CHECK(message().find(nowhere + ": cannot be opened") == 0);
    request.info.crash_journal = "";
    CHECK(message() == "crash_journal: \"\", expected the name of a file, or NULL");
}

TEST_SUITE_END();
