#include "tools/io/output_file.hpp"

#include "tools/io/input_error.hpp"

#include <random>

namespace vkattn::tools {

namespace fs = std::filesystem;

OutputFile::OutputFile(const fs::path &target) : name_(target.string()), target_(target) {
    std::error_code error;
    if (fs::is_symlink(target_, error)) target_ = fs::weakly_canonical(target_, error);
    const fs::file_status status = fs::status(target_, error);
    if (fs::exists(status) && !fs::is_regular_file(status))
        throw InputError(name_, "is not a regular file, expected the name of a file to write");
    temporary_ = target_;
    temporary_ += "." + std::to_string(std::random_device{}()) + ".partial";
    file_.reset(std::fopen(temporary_.string().c_str(), "wbx"));
    if (!file_) fail();
}

OutputFile::~OutputFile() {
    file_.reset();
    std::error_code ignored;
    if (!temporary_.empty()) fs::remove(temporary_, ignored);
}

void OutputFile::write(const void *bytes, std::size_t count) {
    if (count != 0 && std::fwrite(bytes, 1, count, file_.get()) != count) fail();
}

void OutputFile::commit() {
    if (std::fclose(file_.release()) != 0) fail();
    std::error_code error;
    fs::rename(temporary_, target_, error);
    if (error) fail();
    temporary_.clear();
}

void OutputFile::fail() const {
    throw InputError(name_, "cannot be written, expected a folder that can be written to and room in it");
}

} // namespace vkattn::tools
