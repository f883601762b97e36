// Processes that die while they write a file: it has its old contents or its new ones, never half of either.
#include "temporary_folder.hpp"
#include "tools/io/output_file.hpp"
#include "tools/io/text_file.hpp"
#include "tools/tensors/safetensors.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <random>
#include <string>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace fs = std::filesystem;
namespace tools = vkattn::tools;

namespace {

// Runs `work` in a child; returns the signal that ended it, 0 if it came to its end.
int signal_of_child(const std::function<void()> &work, const std::function<void(pid_t)> &meanwhile = {}) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        work();
        _exit(0);
    }
    if (meanwhile) meanwhile(child);
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

// From now on writing a file's byte `limit` kills the process.
void die_at_byte(std::size_t limit) {
    const rlimit no_dump{0, 0}, size{limit, limit};
    setrlimit(RLIMIT_CORE, &no_dump);
    setrlimit(RLIMIT_FSIZE, &size);
    std::signal(SIGXFSZ, SIG_DFL);
}

tools::Safetensors tensors_of(float value, std::size_t elements) {
    tools::Safetensors content;
    content.metadata["value"] = std::to_string(value);
    content.tensors["t"] =
        tools::tensor_of(tools::Dtype::kF32, {elements}, std::vector<double>(elements, double{value}));
    return content;
}

} // namespace

TEST_SUITE_BEGIN("crash");

TEST_CASE("a program that dies while it writes leaves the old file") {
    const vkattn_test::TemporaryFolder folder;
    const fs::path path = folder.file("saved");
    tools::write_text(path, "the old file");
    const std::string text(70000, 'n');
    for (const std::size_t limit : {0u, 1u, 4096u, 65536u, 69999u}) {
        INFO("at byte ", limit);
        CHECK(signal_of_child([&] {
                  die_at_byte(limit);
                  tools::write_text(path, text);
              }) == SIGXFSZ);
        CHECK(tools::read_if_there(path) == "the old file");
    }
    CHECK(signal_of_child([&] {
              die_at_byte(text.size());
              tools::write_text(path, text);
          }) == 0);
    CHECK(tools::read_if_there(path) == text);
}

TEST_CASE("a program killed at any time leaves the old file or the new one") {
    const vkattn_test::TemporaryFolder folder;
    const fs::path path = folder.file("output.safetensors");
    constexpr std::size_t kElements = 30000;
    const tools::Safetensors files[] = {tensors_of(1.0f, kElements), tensors_of(2.0f, kElements)};
    tools::write_safetensors(path, files[0]);
    std::mt19937 random(11);
    for (int round = 0; round < 100; ++round) {
        const int signal = signal_of_child(
            [&] {
                for (int i = 0;; ++i) tools::write_safetensors(path, files[i % 2]);
            },
            [&](pid_t child) {
                usleep(std::uniform_int_distribution<useconds_t>(0, 4000)(random));
                kill(child, SIGKILL);
            });
        REQUIRE(signal == SIGKILL);
        const tools::Safetensors found = tools::read_safetensors(path); // throws at half a file
        const std::vector<double> values = tools::values_of(found.tensors.at("t"));
        REQUIRE(values.size() == kElements);
        for (const double value : values) REQUIRE(value == values[0]);
        CHECK(found.metadata.at("value") == std::to_string(static_cast<float>(values[0])));
    }
}

TEST_SUITE_END();
