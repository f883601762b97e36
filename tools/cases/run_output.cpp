#include "tools/cases/run_output.hpp"

#include "tools/io/input_error.hpp"
#include "tools/io/output_file.hpp"
#include "tools/tensors/safetensors_file.hpp"

#include <vkattn/vkattn.h>

#include <algorithm>
#include <utility>

namespace vkattn::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char *kWriterKey = "written_by"; // of the metadata
constexpr std::string_view kWriter = "vkattn run ";

bool is_same_file(const fs::path &a, const fs::path &b) {
    std::error_code error;
    if (fs::exists(a, error) && fs::exists(b, error)) return fs::equivalent(a, b, error);
    return fs::weakly_canonical(a, error) == fs::weakly_canonical(b, error);
}

// An empty file holds nothing that could be lost: scripts make some to have a name.
bool is_replaceable(const fs::path &file) {
    if (!fs::exists(file) || fs::file_size(file) == 0) return true;
    try {
        const SafetensorsFile content(file);
        const auto writer = content.metadata().find(kWriterKey);
        return writer != content.metadata().end() && writer->second.starts_with(kWriter);
    } catch (const InputError &) { // no safetensors file
        return false;
    }
}

} // namespace

void check_run_output(const fs::path &file, std::span<const std::string> others) {
    const auto is_output = [&](const std::string &other) { return !other.empty() && is_same_file(file, other); };
    if (const auto other = std::ranges::find_if(others, is_output); other != others.end())
        throw InputError(file.string(),
                         "is the output and " + quote_name(*other) + " of the same command, expected another name");
    OutputFile::check(file);
    if (!is_replaceable(file))
        throw InputError(file.string(), "holds something else than 'vkattn run -o' writes, which is left as it is; "
                                        "expected such a file or a new name");
}

void write_run_output(const fs::path &file, TensorMap outputs) {
    write_safetensors(file, {{{kWriterKey, std::string(kWriter) + vkattn_version()}}, std::move(outputs)});
}

} // namespace vkattn::tools
