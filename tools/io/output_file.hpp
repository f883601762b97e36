#pragma once

#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

namespace vkattn::tools {

// A file that appears under its name whole or not at all, however the program ends: it is written under another name in
// the same folder, and renamed. What it replaces stays until then. Every member throws InputError, naming the file.
class OutputFile {
  public:
    explicit OutputFile(const std::filesystem::path &target);
    // Fails as writing the file would for want of a folder or of the right to it, and leaves no trace.
    static void check(const std::filesystem::path &target) { const OutputFile untold(target); }
    OutputFile(const OutputFile &) = delete;
    OutputFile &operator=(const OutputFile &) = delete;
    // Removes what was not committed.
    ~OutputFile();

    void write(const void *bytes, std::size_t count);
    void commit();

  private:
    struct Close {
        void operator()(std::FILE *file) const { std::fclose(file); }
    };

    [[noreturn]] void fail() const;

    std::string name_; // as the caller says it
    std::filesystem::path target_;
    std::filesystem::path temporary_;
    std::unique_ptr<std::FILE, Close> file_;
};

} // namespace vkattn::tools
