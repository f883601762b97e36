#include "tools/tensors/safetensors_file.hpp"

#include "tools/io/input_error.hpp"
#include "tools/io/strict_json.hpp"
#include "tools/tensors/foreign_format.hpp"

#include <algorithm>
#include <tuple>

namespace vkattn::tools {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::uint64_t kMaxHeaderBytes = 100'000'000; // the cap of the reference implementation
constexpr int kHeaderDepth = 3;                        // header, tensor, shape

std::string type_of(const Json &value) { return value.type_name(); }

std::string tensor_subject(const std::string &name) { return "tensor " + quote_name(name); }

} // namespace

SafetensorsFile::SafetensorsFile(const fs::path &path) : source_(path.string()) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (!fs::exists(status)) fail("does not exist, expected a safetensors file");
    if (!fs::is_regular_file(status)) fail("is not a regular file, expected a safetensors file");
    file_size_ = fs::file_size(path, error);
    if (error) fail("has no readable size (" + error.message() + "), expected a safetensors file");
    stream_.open(path, std::ios::binary);
    if (!stream_) fail("cannot be opened, expected a readable safetensors file");
    const Json header = read_header();
    for (const auto &[name, value] : header.items()) {
        if (name == "__metadata__")
            read_metadata(value);
        else
            read_entry(name, value);
    }
    check_tiling();
}

void SafetensorsFile::fail(const std::string &message) const { throw InputError(source_, message); }

std::set<std::string> SafetensorsFile::names() const {
    std::set<std::string> names;
    for (const auto &[name, entry] : entries_) names.insert(name);
    return names;
}

Json SafetensorsFile::read_header() {
    if (file_size_ < kLengthBytes)
        fail("is " + std::to_string(file_size_) + " bytes long, expected at least 8 (the header's length)");
    std::uint64_t length = 0;
    stream_.read(reinterpret_cast<char *>(&length), kLengthBytes);
    if (!stream_) fail("cannot be read, expected 8 bytes (the header's length)");
    const auto refuse = [&](const std::string &reason) {
        const std::string_view foreign = foreign_format({reinterpret_cast<const char *>(&length), kLengthBytes});
        fail(foreign.empty()
                 ? reason
                 : "is " + std::string(foreign) + ": a format that is not read, expected a safetensors file");
    };
    const std::uint64_t room = std::min(file_size_ - kLengthBytes, kMaxHeaderBytes);
    if (length > room)
        refuse("is no safetensors file: its first 8 bytes claim a header of " + std::to_string(length) +
               " bytes, expected at most " + std::to_string(room));
    std::string text(length, '\0');
    stream_.read(text.data(), static_cast<std::streamsize>(length));
    if (!stream_) fail("ends inside its header, expected " + std::to_string(length) + " bytes of it");
    if (!text.starts_with('{')) refuse("has a header that is not JSON at byte 1, expected a JSON object");
    data_size_ = file_size_ - kLengthBytes - length;
    return parse_strict_json(text, source_, "header", kHeaderDepth);
}

void SafetensorsFile::read_metadata(const Json &value) {
    if (!value.is_object()) fail("__metadata__ is a JSON " + type_of(value) + ", expected an object of strings");
    for (const auto &[key, text] : value.items()) {
        if (!text.is_string())
            fail("__metadata__ " + quote_name(key) + " is a JSON " + type_of(text) + ", expected a string");
        metadata_[key] = text.get<std::string>();
    }
}

void SafetensorsFile::read_entry(const std::string &name, const Json &value) {
    const std::string subject = tensor_subject(name);
    if (!value.is_object()) fail(subject + " is a JSON " + type_of(value) + ", expected an object");
    for (const auto &[key, unused] : value.items())
        if (key != "dtype" && key != "shape" && key != "data_offsets")
            fail(subject + " has the key " + quote_name(key) + ", expected dtype, shape and data_offsets");
    const auto dtype = value.find("dtype");
    if (dtype == value.end() || !dtype->is_string()) fail(subject + " has no dtype, expected a string");
    const auto read_numbers = [&](const char *key) {
        const auto found = value.find(key);
        if (found == value.end() || !found->is_array())
            fail(subject + " has no " + key + ", expected an array of numbers");
        for (const Json &number : *found)
            if (!number.is_number_unsigned())
                fail(subject + " has a bad number in its " + key + ", expected whole numbers from 0 to 2^64-1");
        return found->get<std::vector<std::uint64_t>>();
    };
    const std::vector<std::uint64_t> shape = read_numbers("shape");
    const std::vector<std::uint64_t> offsets = read_numbers("data_offsets");
    if (offsets.size() != 2) fail(subject + " has " + std::to_string(offsets.size()) + " data_offsets, expected 2");
    const Entry entry{dtype->get<std::string>(), shape, offsets[0], offsets[1]};
    check_extent(subject, entry);
    entries_.emplace(name, entry);
}

void SafetensorsFile::check_extent(const std::string &subject, const Entry &entry) const {
    const std::string range = std::to_string(entry.begin) + ".." + std::to_string(entry.end);
    if (entry.begin > entry.end || entry.end > data_size_)
        fail(subject + " lies at bytes " + range + ", expected a range within 0.." + std::to_string(data_size_));
    const std::optional<Dtype> dtype = dtype_of(entry.dtype_name);
    if (!dtype) return; // other tensors of the file can be read all the same
    const std::optional<std::uint64_t> needed = tensor_bytes(*dtype, entry.shape);
    const std::uint64_t given = entry.end - entry.begin;
    if (needed != given)
        fail(subject + " has " + std::to_string(given) + " bytes, expected " +
             (needed ? std::to_string(*needed) : std::string("more than 2^64")) + " for " + entry.dtype_name + " " +
             shape_text(entry.shape));
}

// The format allows neither overlaps nor holes: the tensors in order of their place tile the data.
void SafetensorsFile::check_tiling() const {
    std::vector<std::tuple<std::uint64_t, std::uint64_t, std::string>> extents;
    for (const auto &[name, entry] : entries_) extents.emplace_back(entry.begin, entry.end, name);
    std::ranges::sort(extents);
    std::uint64_t reached = 0;
    for (const auto &[begin, end, name] : extents) {
        if (begin != reached)
            fail(tensor_subject(name) + " begins at byte " + std::to_string(begin) + " and " +
                 (begin < reached ? "overlaps the one before it" : "leaves a gap before it") + ", expected byte " +
                 std::to_string(reached));
        reached = end;
    }
    if (reached != data_size_)
        fail("holds " + std::to_string(data_size_) + " bytes of data, expected " + std::to_string(reached) +
             " by its tensors");
}

HostTensor SafetensorsFile::read(const std::string &name) {
    const Entry &entry = entries_.at(name);
    const std::optional<Dtype> dtype = dtype_of(entry.dtype_name);
    if (!dtype)
        fail(tensor_subject(name) + " has dtype " + quote_name(entry.dtype_name) +
             ", expected F64, F32, F16, BF16, I64, I32, U8 or BOOL");
    HostTensor tensor{*dtype, entry.shape, std::vector<std::byte>(entry.end - entry.begin)};
    stream_.seekg(static_cast<std::streamoff>(file_size_ - data_size_ + entry.begin));
    stream_.read(reinterpret_cast<char *>(tensor.bytes.data()), static_cast<std::streamsize>(tensor.bytes.size()));
    if (!stream_) fail("cannot be read at " + tensor_subject(name) + ", expected all of its bytes");
    return tensor;
}

TensorMap SafetensorsFile::read_all() {
    TensorMap tensors;
    for (const auto &[name, entry] : entries_) tensors.emplace(name, read(name));
    return tensors;
}

Safetensors read_safetensors(const fs::path &path) {
    SafetensorsFile file(path);
    return {file.metadata(), file.read_all()};
}

} // namespace vkattn::tools
