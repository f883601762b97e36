#include "tools/tensors/safetensors.hpp"

#include "tools/io/input_error.hpp"
#include "tools/io/output_file.hpp"
#include "tools/tensors/float_formats.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

namespace vkattn::tools {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors values are little-endian and read as they are");

namespace fs = std::filesystem;
using Json = nlohmann::json;

struct DtypeInfo {
    Dtype dtype;
    std::string_view name;
    std::size_t bytes;
};

constexpr std::array<DtypeInfo, 8> kDtypes{{{Dtype::kF64, "F64", 8},
                                            {Dtype::kF32, "F32", 4},
                                            {Dtype::kF16, "F16", 2},
                                            {Dtype::kBf16, "BF16", 2},
                                            {Dtype::kI64, "I64", 8},
                                            {Dtype::kI32, "I32", 4},
                                            {Dtype::kU8, "U8", 1},
                                            {Dtype::kBool, "BOOL", 1}}};

const DtypeInfo &info_of(Dtype dtype) {
    return *std::ranges::find(kDtypes, dtype, &DtypeInfo::dtype); // every enumerator has its row
}

template <typename T>
T load(const HostTensor &tensor, std::size_t index) {
    T value{};
    std::memcpy(&value, tensor.bytes.data() + index * sizeof(T), sizeof(T));
    return value;
}

template <typename T>
void store(HostTensor &tensor, std::size_t index, T value) {
    std::memcpy(tensor.bytes.data() + index * sizeof(T), &value, sizeof(T));
}

double value_at(const HostTensor &tensor, std::size_t index) {
    switch (tensor.dtype) {
    case Dtype::kF64:
        return load<double>(tensor, index);
    case Dtype::kF32:
        return static_cast<double>(load<float>(tensor, index));
    case Dtype::kF16:
        return static_cast<double>(f16_to_f32(load<std::uint16_t>(tensor, index)));
    case Dtype::kBf16:
        return static_cast<double>(bf16_to_f32(load<std::uint16_t>(tensor, index)));
    case Dtype::kI64:
        return static_cast<double>(load<std::int64_t>(tensor, index));
    case Dtype::kI32:
        return static_cast<double>(load<std::int32_t>(tensor, index));
    case Dtype::kU8:
        return static_cast<double>(load<std::uint8_t>(tensor, index));
    case Dtype::kBool:
        return load<std::uint8_t>(tensor, index) != 0 ? 1.0 : 0.0;
    }
    return 0.0;
}

std::string header_text(const Safetensors &content) {
    Json header = Json::object();
    if (!content.metadata.empty()) header["__metadata__"] = content.metadata;
    std::uint64_t begin = 0;
    for (const auto &[name, tensor] : content.tensors) {
        const std::uint64_t end = begin + tensor.bytes.size();
        header[name] = {{"dtype", dtype_name(tensor.dtype)}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
        begin = end;
    }
    std::string text = header.dump();
    // Values then start at a multiple of 8, so that readers may map the file.
    text.append((kLengthBytes - text.size() % kLengthBytes) % kLengthBytes, ' ');
    return text;
}

} // namespace

std::string_view dtype_name(Dtype dtype) { return info_of(dtype).name; }
std::size_t dtype_bytes(Dtype dtype) { return info_of(dtype).bytes; }

std::optional<Dtype> dtype_of(std::string_view name) {
    const auto *row = std::ranges::find(kDtypes, name, &DtypeInfo::name);
    return row == kDtypes.end() ? std::nullopt : std::optional(row->dtype);
}

bool is_float(Dtype dtype) { return dtype == Dtype::kF32 || dtype == Dtype::kF16 || dtype == Dtype::kBf16; }

std::optional<std::uint64_t> tensor_bytes(Dtype dtype, std::span<const std::uint64_t> shape) {
    if (std::ranges::find(shape, 0U) != shape.end()) return 0;
    std::uint64_t bytes = dtype_bytes(dtype);
    for (const std::uint64_t size : shape) {
        if (bytes > std::numeric_limits<std::uint64_t>::max() / size) return std::nullopt;
        bytes *= size;
    }
    return bytes;
}

std::string shape_text(std::span<const std::uint64_t> shape) {
    std::string text = "[";
    for (const std::uint64_t size : shape) text += (text.size() > 1 ? "," : "") + std::to_string(size);
    return text + "]";
}

std::vector<double> values_of(const HostTensor &tensor) {
    std::vector<double> values(tensor.bytes.size() / dtype_bytes(tensor.dtype));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = value_at(tensor, i);
    return values;
}

HostTensor tensor_of(Dtype dtype, std::vector<std::uint64_t> shape, std::span<const double> values) {
    HostTensor tensor{dtype, std::move(shape), std::vector<std::byte>(values.size() * dtype_bytes(dtype))};
    for (std::size_t i = 0; i < values.size(); ++i) {
        const auto value = static_cast<float>(values[i]);
        if (dtype == Dtype::kF16)
            store(tensor, i, f32_to_f16(value));
        else if (dtype == Dtype::kBf16)
            store(tensor, i, f32_to_bf16(value));
        else if (dtype == Dtype::kF32)
            store(tensor, i, value);
        else
            throw std::invalid_argument("tensor_of makes F32, F16 and BF16 alone");
    }
    return tensor;
}

void write_safetensors(const fs::path &path, const Safetensors &content) {
    const std::string header = header_text(content);
    const std::uint64_t length = header.size();
    OutputFile file(path);
    file.write(&length, kLengthBytes);
    file.write(header.data(), header.size());
    for (const auto &[name, tensor] : content.tensors) file.write(tensor.bytes.data(), tensor.bytes.size());
    file.commit();
}

} // namespace vkattn::tools
