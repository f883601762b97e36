#include "text_file.hpp"

#include "input_error.hpp"
#include "output_file.hpp"

#include <fstream>
#include <iterator>

namespace vkattn::tools {

void write_text(const std::filesystem::path &path, const std::string &text) {
    OutputFile file(path);
    file.write(text.data(), text.size());
    file.commit();
}

std::string read_if_there(const std::filesystem::path &path) {
    if (!std::filesystem::exists(path)) return "";
    std::ifstream file(path, std::ios::binary);
    if (!file || std::filesystem::is_directory(path))
        throw InputError(path.string(), "cannot be read, expected a file");
    return std::string(std::istreambuf_iterator<char>(file), {});
}

} // namespace vkattn::tools
