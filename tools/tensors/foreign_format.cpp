#include "tools/tensors/foreign_format.hpp"

#include <array>
#include <utility>

namespace vkattn::tools {

std::string_view foreign_format(std::string_view first_bytes) {
    using namespace std::string_view_literals;
    constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kFormats{
        {{"GGUF"sv, "a GGUF file, as llama.cpp has them (vkattn-lm computes those)"sv},
         {"PK\x03\x04"sv, "a ZIP file, as PyTorch's .bin and .pt and NumPy's .npz are"sv},
         {"\x93NUMPY"sv, "a NumPy file"sv},
         {"\x89HDF"sv, "an HDF5 file"sv},
         {"\x1f\x8b"sv, "a gzip file"sv},
         {"version "sv, "a pointer of Git LFS, in place of the file that 'git lfs pull' fetches"sv}}};
    for (const auto &[beginning, name] : kFormats)
        if (first_bytes.starts_with(beginning)) return name;
    return "";
}

} // namespace vkattn::tools
