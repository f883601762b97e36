// Files that the command reads and writes: only regular ones are read, and only those of its own are written over.
#include "temporary_folder.hpp"
#include "tools/cases/run_output.hpp"
#include "tools/io/input_error.hpp"
#include "tools/io/output_file.hpp"
#include "tools/io/text_file.hpp"

#include <doctest/doctest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <functional>

#include <sys/stat.h>

namespace fs = std::filesystem;
using namespace vkattn::tools;
using vkattn_test::TemporaryFolder;

namespace {

std::string error_of(const std::function<void()> &action) {
    try {
        action();
    } catch (const InputError &error) {
        return error.what();
    }
    return "no error";
}

std::string error_of_output(const fs::path &file, const std::string &other = "") {
    return error_of([&] { check_run_output(file, std::array{other}); });
}

bool contains(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

} // namespace

TEST_SUITE_BEGIN("run output");

TEST_CASE("an output is written over an earlier one or an empty file, and over nothing else") {
    const TemporaryFolder folder;
    const fs::path file = folder.file("output.safetensors");
    CHECK(error_of_output(file) == "no error");
    CHECK(folder.entries() == 0);
    std::ofstream(file).flush();
    CHECK(error_of_output(file) == "no error");
    write_run_output(file, {{"output", tensor_of(Dtype::kF32, {1}, std::array{2.0})}});
    CHECK(error_of_output(file) == "no error");
    CHECK(values_of(read_safetensors(file).tensors.at("output")) == std::vector{2.0});
    write_safetensors(file, {{}, {{"output", tensor_of(Dtype::kF32, {1}, std::array{2.0})}}});
    CHECK(contains(error_of_output(file), "holds something else than 'vkattn run -o' writes"));
    write_text(file, "a letter");
    CHECK(contains(error_of_output(file), "holds something else than 'vkattn run -o' writes"));
}

TEST_CASE("an output is no other file of the same command, however it is named") {
    const TemporaryFolder folder;
    write_run_output(folder.file("output"), {});
    fs::create_symlink(folder.file("output"), folder.file("link"));
    CHECK(contains(error_of_output(folder.file("output"), folder.file("link").string()), "of the same command"));
    CHECK(contains(error_of_output(folder.file("new"), (folder.file(".") / "new").string()), "of the same command"));
    CHECK(error_of_output(folder.file("output"), folder.file("new").string()) == "no error");
}

TEST_CASE("what is no regular file is neither read nor written") {
    const TemporaryFolder folder;
    const fs::path fifo = folder.file("fifo");
    REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
    for (const fs::path &file : {fifo, fs::path("/dev/zero"), fs::path("/dev/null"), folder.file("")}) {
        INFO(file);
        CHECK(contains(error_of([&] { read_if_there(file); }), "is not a regular file, expected"));
        CHECK(contains(error_of_output(file), "is not a regular file, expected"));
    }
    CHECK(read_if_there(folder.file("none")).empty());
}

TEST_CASE("a file of more than a gigabyte is not read") {
    const TemporaryFolder folder;
    std::ofstream(folder.file("large")).flush();
    fs::resize_file(folder.file("large"), (std::uintmax_t{1} << 30) + 1); // a hole
    CHECK(contains(error_of([&] { read_if_there(folder.file("large")); }), "1073741825 bytes long, expected at most"));
}

TEST_SUITE_END();
