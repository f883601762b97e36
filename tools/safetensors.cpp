#include "safetensors.hpp"

#include "float_formats.hpp"
#include "input_error.hpp"
#include "strict_json.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>
#include <random>

namespace vkattn::tools {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors values are little-endian and read as they are");

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000; // the cap of the reference implementation
constexpr int kHeaderDepth = 3;                        // header, tensor, shape

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

// Where a tensor lies, from the first byte after the header.
struct Extent {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
};

class Reader {
  public:
    explicit Reader(const fs::path &path) : source_(path.string()) {
        std::error_code error;
        const fs::file_status status = fs::status(path, error);
        if (!fs::exists(status)) fail("does not exist, expected a safetensors file");
        if (!fs::is_regular_file(status)) fail("is not a regular file, expected a safetensors file");
        file_size_ = fs::file_size(path, error);
        if (error) fail("has no readable size (" + error.message() + "), expected a safetensors file");
        stream_.open(path, std::ios::binary);
        if (!stream_) fail("cannot be opened, expected a readable safetensors file");
    }

    Safetensors read() {
        const Json header = read_header();
        Safetensors content;
        std::vector<std::pair<Extent, std::string>> extents;
        for (const auto &[name, value] : header.items()) {
            if (name == "__metadata__")
                content.metadata = read_metadata(value);
            else
                extents.emplace_back(describe(name, value, content.tensors[name]), name);
        }
        check_extents(extents);
        for (const auto &[extent, name] : extents) read_bytes(extent, name, content.tensors[name]);
        return content;
    }

  private:
    [[noreturn]] void fail(const std::string &message) const { throw InputError(source_, message); }

    Json read_header() {
        if (file_size_ < kLengthBytes)
            fail("is " + std::to_string(file_size_) + " bytes long, expected at least 8 (the header's length)");
        std::uint64_t length = 0;
        stream_.read(reinterpret_cast<char *>(&length), kLengthBytes);
        if (!stream_) fail("cannot be read, expected 8 bytes (the header's length)");
        const std::uint64_t room = std::min(file_size_ - kLengthBytes, kMaxHeaderBytes);
        if (length > room)
            fail("claims a header of " + std::to_string(length) + " bytes, expected at most " + std::to_string(room));
        std::string text(length, '\0');
        stream_.read(text.data(), static_cast<std::streamsize>(length));
        if (!stream_) fail("ends inside its header, expected " + std::to_string(length) + " bytes of it");
        if (!text.starts_with('{')) fail("has a header that is not JSON at byte 1, expected a JSON object");
        data_size_ = file_size_ - kLengthBytes - length;
        return parse_strict_json(text, source_, "header", kHeaderDepth);
    }

    std::map<std::string, std::string> read_metadata(const Json &value) const {
        if (!value.is_object()) fail("__metadata__ is a JSON " + type_of(value) + ", expected an object of strings");
        std::map<std::string, std::string> metadata;
        for (const auto &[key, text] : value.items()) {
            if (!text.is_string())
                fail("__metadata__ " + quote_name(key) + " is a JSON " + type_of(text) + ", expected a string");
            metadata[key] = text.get<std::string>();
        }
        return metadata;
    }

    Extent describe(const std::string &name, const Json &value, HostTensor &tensor) const {
        const std::string subject = "tensor " + quote_name(name);
        if (!value.is_object()) fail(subject + " is a JSON " + type_of(value) + ", expected an object");
        for (const auto &[key, unused] : value.items())
            if (key != "dtype" && key != "shape" && key != "data_offsets")
                fail(subject + " has the key " + quote_name(key) + ", expected dtype, shape and data_offsets");
        tensor.dtype = read_dtype(subject, value);
        tensor.shape = read_numbers(subject, value, "shape");
        const std::vector<std::uint64_t> offsets = read_numbers(subject, value, "data_offsets");
        if (offsets.size() != 2) fail(subject + " has " + std::to_string(offsets.size()) + " data_offsets, expected 2");
        return checked_extent(subject, tensor, {offsets[0], offsets[1]});
    }

    Dtype read_dtype(const std::string &subject, const Json &value) const {
        const auto found = value.find("dtype");
        if (found == value.end() || !found->is_string()) fail(subject + " has no dtype, expected a string");
        const auto &text = found->get_ref<const std::string &>();
        const auto *row = std::ranges::find(kDtypes, std::string_view(text), &DtypeInfo::name);
        if (row == kDtypes.end())
            fail(subject + " has dtype " + quote_name(text) + ", expected F64, F32, F16, BF16, I64, I32, U8 or BOOL");
        return row->dtype;
    }

    std::vector<std::uint64_t> read_numbers(const std::string &subject, const Json &value, const char *key) const {
        const auto found = value.find(key);
        if (found == value.end() || !found->is_array())
            fail(subject + " has no " + key + ", expected an array of numbers");
        std::vector<std::uint64_t> numbers;
        for (const Json &number : *found) {
            if (!number.is_number_unsigned())
                fail(subject + " has a bad number in its " + key + ", expected whole numbers from 0 to 2^64-1");
            numbers.push_back(number.get<std::uint64_t>());
        }
        return numbers;
    }

    Extent checked_extent(const std::string &subject, const HostTensor &tensor, Extent extent) const {
        const std::string range = std::to_string(extent.begin) + ".." + std::to_string(extent.end);
        if (extent.begin > extent.end || extent.end > data_size_)
            fail(subject + " lies at bytes " + range + ", expected a range within 0.." + std::to_string(data_size_));
        const std::optional<std::uint64_t> needed = tensor_bytes(tensor.dtype, tensor.shape);
        const std::uint64_t given = extent.end - extent.begin;
        if (needed != given)
            fail(subject + " has " + std::to_string(given) + " bytes, expected " +
                 (needed ? std::to_string(*needed) : std::string("more than 2^64")) + " for " +
                 std::string(dtype_name(tensor.dtype)) + " " + shape_text(tensor.shape));
        return extent;
    }

    // The format allows neither overlaps nor holes: the tensors in order of their place tile the data.
    void check_extents(std::vector<std::pair<Extent, std::string>> &extents) const {
        std::ranges::sort(extents, {}, [](const auto &entry) { return std::pair(entry.first.begin, entry.first.end); });
        std::uint64_t reached = 0;
        for (const auto &[extent, name] : extents) {
            if (extent.begin != reached)
                fail("tensor " + quote_name(name) + " begins at byte " + std::to_string(extent.begin) + " and " +
                     (extent.begin < reached ? "overlaps the one before it" : "leaves a gap before it") +
                     ", expected byte " + std::to_string(reached));
            reached = extent.end;
        }
        if (reached != data_size_)
            fail("holds " + std::to_string(data_size_) + " bytes of data, expected " + std::to_string(reached) +
                 " by its tensors");
    }

    void read_bytes(Extent extent, const std::string &name, HostTensor &tensor) {
        tensor.bytes.resize(extent.end - extent.begin);
        stream_.seekg(static_cast<std::streamoff>(file_size_ - data_size_ + extent.begin));
        stream_.read(reinterpret_cast<char *>(tensor.bytes.data()), static_cast<std::streamsize>(tensor.bytes.size()));
        if (!stream_) fail("cannot be read at tensor " + quote_name(name) + ", expected all of its bytes");
    }

    static std::string type_of(const Json &value) { return value.type_name(); }

    std::string source_;
    std::ifstream stream_;
    std::uint64_t file_size_ = 0;
    std::uint64_t data_size_ = 0;
};

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

struct CloseFile {
    void operator()(std::FILE *file) const { std::fclose(file); }
};

// A new file beside its final name, removed again unless it is committed.
class PendingFile {
  public:
    explicit PendingFile(const fs::path &target) : source_(target.string()), target_(target) {
        std::error_code error;
        if (fs::is_symlink(target_, error)) target_ = fs::weakly_canonical(target_, error);
        const fs::file_status status = fs::status(target_, error);
        if (fs::exists(status) && !fs::is_regular_file(status))
            throw InputError(source_, "is not a regular file, expected the name of a file to write");
        temporary_ = target_;
        temporary_ += "." + std::to_string(std::random_device{}()) + ".partial";
        file_.reset(std::fopen(temporary_.string().c_str(), "wbx"));
        if (!file_) fail();
    }
    PendingFile(const PendingFile &) = delete;
    PendingFile &operator=(const PendingFile &) = delete;
    ~PendingFile() {
        file_.reset();
        std::error_code ignored;
        if (!temporary_.empty()) fs::remove(temporary_, ignored);
    }

    void write(const void *bytes, std::size_t count) {
        if (count != 0 && std::fwrite(bytes, 1, count, file_.get()) != count) fail();
    }

    void commit() {
        if (std::fclose(file_.release()) != 0) fail();
        std::error_code error;
        fs::rename(temporary_, target_, error);
        if (error) fail();
        temporary_.clear();
    }

  private:
    [[noreturn]] void fail() const {
        throw InputError(source_, "cannot be written, expected a folder that can be written to and room in it");
    }

    std::string source_;
    fs::path target_;
    fs::path temporary_;
    std::unique_ptr<std::FILE, CloseFile> file_;
};

} // namespace

std::string_view dtype_name(Dtype dtype) { return info_of(dtype).name; }
std::size_t dtype_bytes(Dtype dtype) { return info_of(dtype).bytes; }

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

Safetensors read_safetensors(const fs::path &path) { return Reader(path).read(); }

void write_safetensors(const fs::path &path, const Safetensors &content) {
    const std::string header = header_text(content);
    const std::uint64_t length = header.size();
    PendingFile file(path);
    file.write(&length, kLengthBytes);
    file.write(header.data(), header.size());
    for (const auto &[name, tensor] : content.tensors) file.write(tensor.bytes.data(), tensor.bytes.size());
    file.commit();
}

} // namespace vkattn::tools
