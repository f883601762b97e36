#include "tools/io/text_file.hpp"

#include "tools/io/input_error.hpp"
#include "tools/io/output_file.hpp"

#include <cstdint>
#include <fstream>
#include <iterator>

namespace vkattn::tools {

void write_text(const std::filesystem::path &path, const std::string &text) {
    OutputFile file(path);
    file.write(text.data(), text.size());
    file.commit();
}

std::string read_if_there(const std::filesystem::path &path) {
    constexpr std::uintmax_t kMostBytes = std::uintmax_t{1} << 30;
    if (!std::filesystem::exists(path)) return "";
    if (!std::filesystem::is_regular_file(path)) // which may never end
        throw InputError(path.string(), "is not a regular file, expected the name of a file to read");
    if (const std::uintmax_t size = std::filesystem::file_size(path); size > kMostBytes)
        throw InputError(path.string(), "is " + std::to_string(size) + " bytes long, expected at most 1 GiB");
    std::ifstream file(path, std::ios::binary);
    if (!file) throw InputError(path.string(), "cannot be read, expected a file that can be");
    return std::string(std::istreambuf_iterator<char>(file), {});
}

} // namespace vkattn::tools
