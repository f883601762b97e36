#include "text_file.hpp"

#include "input_error.hpp"

#include <fstream>
#include <iterator>

namespace vkattn::tools {

// Under another name first, so that a full disk leaves no half a picture.
void write_text(const std::filesystem::path &path, const std::string &text) {
    std::filesystem::path partial = path;
    partial += ".partial";
    std::error_code error;
    {
        std::ofstream file(partial, std::ios::binary);
        file << text << std::flush;
        if (!file) error = std::make_error_code(std::errc::io_error);
    }
    if (!error) std::filesystem::rename(partial, path, error);
    if (!error) return;
    std::error_code ignored;
    std::filesystem::remove(partial, ignored);
    throw InputError(path.string(), "cannot be written, expected a file in a folder that exists");
}

std::string read_if_there(const std::filesystem::path &path) {
    if (!std::filesystem::exists(path)) return "";
    std::ifstream file(path, std::ios::binary);
    if (!file || std::filesystem::is_directory(path))
        throw InputError(path.string(), "cannot be read, expected a file");
    return std::string(std::istreambuf_iterator<char>(file), {});
}

} // namespace vkattn::tools
