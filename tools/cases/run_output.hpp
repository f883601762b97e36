// The file that `vkattn run -o` writes. It says who wrote it, so that it is replaced by a later run and nothing else is.
#pragma once

#include "tools/tensors/safetensors.hpp"

#include <filesystem>
#include <span>
#include <string>

namespace vkattn::tools {

// Throws InputError where the file cannot be written, holds something else than write_run_output writes, or is one of
// `others`, which the same command reads or writes ("": none).
void check_run_output(const std::filesystem::path &file, std::span<const std::string> others);

// Throws InputError.
void write_run_output(const std::filesystem::path &file, TensorMap outputs);

} // namespace vkattn::tools
