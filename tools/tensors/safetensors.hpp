// Tensors in host memory, and the files that hold them (https://github.com/huggingface/safetensors, format section).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vkattn::tools {

constexpr std::uint64_t kLengthBytes = 8; // before the header of a file

enum class Dtype { kF64, kF32, kF16, kBf16, kI64, kI32, kU8, kBool };

// Returns the name that safetensors gives the dtype, for instance "BF16".
std::string_view dtype_name(Dtype dtype);
// Returns the dtype of a name that safetensors gives, or nothing if it is none of the above.
std::optional<Dtype> dtype_of(std::string_view name);
std::size_t dtype_bytes(Dtype dtype);
bool is_float(Dtype dtype);

// A contiguous tensor, outermost dimension first, values little-endian as in the file.
struct HostTensor {
    Dtype dtype = Dtype::kF32;
    std::vector<std::uint64_t> shape;
    std::vector<std::byte> bytes;
};

using TensorMap = std::map<std::string, HostTensor>;

struct Safetensors {
    std::map<std::string, std::string> metadata;
    TensorMap tensors;
};

// Returns the bytes of a tensor, or nothing if they do not fit 64 bits.
std::optional<std::uint64_t> tensor_bytes(Dtype dtype, std::span<const std::uint64_t> shape);

// Returns for instance "[2,4,5]".
std::string shape_text(std::span<const std::uint64_t> shape);

// Returns the values of a tensor of any dtype; BOOL as 0 or 1.
std::vector<double> values_of(const HostTensor &tensor);

// Makes a tensor of a float dtype, rounding to nearest. values must match shape.
HostTensor tensor_of(Dtype dtype, std::vector<std::uint64_t> shape, std::span<const double> values);

// Reads a whole file. Checks everything that the header claims against the file before it allocates for it.
// Throws InputError.
Safetensors read_safetensors(const std::filesystem::path &path);

// Writes a whole file under another name in the same folder and renames it: never a partial file. Throws InputError.
void write_safetensors(const std::filesystem::path &path, const Safetensors &content);

} // namespace vkattn::tools
