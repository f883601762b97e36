#include "tools/cases/case_variant.hpp"
#include "tools/command/commands.hpp"
#include "tools/io/input_error.hpp"
#include "tools/io/output_file.hpp"
#include "tools/io/text_file.hpp"

#include <filesystem>

namespace vkattn::tools {

int compile_variant_command(const CompileVariantOptions &options) {
    const std::filesystem::path path(options.file);
    if (!std::filesystem::exists(path))
        throw InputError(options.file, "is not there, expected GLSL that defines functions of a variant");
    const std::vector<std::uint8_t> compiled = compile_variant(read_if_there(path), path.filename().string());
    OutputFile output(options.output_file);
    output.write(compiled.data(), compiled.size());
    output.commit();
    return kExitSuccess;
}

} // namespace vkattn::tools
