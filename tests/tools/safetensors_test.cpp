// Files that lie about themselves get one line that says what is wrong; honest ones come back as they were written.
#include "temporary_folder.hpp"
#include "tools/io/input_error.hpp"
#include "tools/tensors/float_formats.hpp"
#include "tools/tensors/safetensors.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>

namespace fs = std::filesystem;
using namespace vkattn::tools;
using vkattn_test::TemporaryFolder;

namespace {

std::string file_bytes(const std::string &header, std::size_t data_bytes) {
    const std::uint64_t length = header.size();
    std::string bytes(sizeof length, '\0');
    std::memcpy(bytes.data(), &length, sizeof length);
    return bytes + header + std::string(data_bytes, '\0');
}

// Returns the message that reading these bytes fails with, "" if it succeeds.
std::string error_of(const std::string &bytes) {
    const TemporaryFolder folder;
    const fs::path path = folder.file("case.safetensors");
    std::ofstream(path, std::ios::binary) << bytes;
    try {
        read_safetensors(path);
    } catch (const InputError &error) {
        const std::string message = error.what();
        CHECK(message.starts_with(path.string() + ": "));
        CHECK(message.find('\n') == std::string::npos);
        return message;
    }
    return "";
}

std::string error_of_header(const std::string &header, std::size_t data_bytes = 16) {
    return error_of(file_bytes(header, data_bytes));
}

void check_error(const std::string &message, const std::string &part) {
    INFO(message);
    CHECK(message.find(part) != std::string::npos);
    CHECK(message.find("expected") != std::string::npos);
}

std::string tensor_header(const std::string &dtype, const std::string &shape, const std::string &offsets) {
    return R"({"a":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
}

} // namespace

TEST_SUITE_BEGIN("safetensors");

TEST_CASE("a file comes back as it was written") {
    const TemporaryFolder folder;
    const fs::path path = folder.file("out.safetensors");
    Safetensors written;
    written.metadata["vkattn"] = R"({"op": "attention"})";
    const std::vector<double> values{1.5, -2.0, 0.0, 65504.0, 1e-7, 3.25};
    for (const Dtype dtype : {Dtype::kF32, Dtype::kF16, Dtype::kBf16})
        written.tensors[std::string(dtype_name(dtype))] = tensor_of(dtype, {2, 3}, values);
    written.tensors["flags"] = {Dtype::kBool, {3}, {std::byte{1}, std::byte{0}, std::byte{1}}};
    written.tensors["empty"] = {Dtype::kI64, {0, 5}, {}};
    written.tensors["scalar"] = {Dtype::kU8, {}, {std::byte{7}}};
    write_safetensors(path, written);
    write_safetensors(path, written); // over an existing file
    CHECK(folder.entries() == 1);

    const Safetensors read = read_safetensors(path);
    CHECK(read.metadata == written.metadata);
    REQUIRE(read.tensors.size() == written.tensors.size());
    for (const auto &entry : written.tensors) {
        const std::string &name = entry.first;
        const HostTensor &tensor = entry.second;
        INFO(name);
        CHECK(read.tensors.at(name).dtype == tensor.dtype);
        CHECK(read.tensors.at(name).shape == tensor.shape);
        CHECK(read.tensors.at(name).bytes == tensor.bytes);
    }
}

TEST_CASE("a file that cannot be written leaves nothing behind") {
    const TemporaryFolder folder;
    CHECK_THROWS_AS(write_safetensors(folder.file("no-folder") / "out.safetensors", {}), InputError);
    fs::create_directory(folder.file("taken"));
    CHECK_THROWS_AS(write_safetensors(folder.file("taken"), {}), InputError);
    CHECK(folder.entries() == 1);
    CHECK(fs::is_directory(folder.file("taken")));
}

TEST_CASE("a file that is missing, a folder, empty or truncated is refused") {
    const TemporaryFolder folder;
    CHECK_THROWS_AS(read_safetensors(folder.file("missing.safetensors")), InputError);
    CHECK_THROWS_AS(read_safetensors(folder.file("")), InputError);
    check_error(error_of(""), "0 bytes long");
    check_error(error_of("\x01\x02\x03"), "3 bytes long");
    const std::string whole = file_bytes(tensor_header("F32", "[2,2]", "[0,16]"), 16);
    REQUIRE(error_of(whole).empty());
    for (std::size_t length = 0; length < whole.size(); ++length) CHECK(!error_of(whole.substr(0, length)).empty());
}

TEST_CASE("a header longer than the file or than the cap is refused before it is read") {
    std::string bytes = file_bytes("{}", 0);
    const std::uint64_t length = 3;
    std::memcpy(bytes.data(), &length, sizeof length);
    check_error(error_of(bytes),
                "is no safetensors file: its first 8 bytes claim a header of 3 bytes, expected at most 2");
    const std::uint64_t huge = std::numeric_limits<std::uint64_t>::max();
    std::memcpy(bytes.data(), &huge, sizeof huge);
    check_error(error_of(bytes), "claim a header of 18446744073709551615 bytes");
}

TEST_CASE("a header that is not a JSON object of tensors is refused") {
    check_error(error_of_header(""), "not JSON");
    check_error(error_of_header("[1,2]"), "not JSON at byte 1");
    check_error(error_of_header("{\"a\":"), "not JSON");
    check_error(error_of_header("{\"a\xff\":1}"), "not JSON");
    check_error(error_of_header(R"({"a":1e999})"), "out of range");
    check_error(error_of_header(R"({"a":7})"), "tensor 'a' is a JSON number");
    check_error(error_of_header(R"({"a":{"b":{"c":{"d":[]}}}})"), "nested too deep");
    check_error(error_of_header("{\"a\":" + std::string(100'000, '[')), "nested too deep");
    check_error(error_of_header(R"({"__metadata__":{"n":1}})", 0), "expected a string");
    check_error(error_of_header(R"({"__metadata__":[]})", 0), "expected an object of strings");
}

TEST_CASE("a name that is there twice is refused") {
    const std::string entry = R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
    check_error(error_of_header("{" + entry + "," + entry + "}", 1), "has 'a' twice");
}

TEST_CASE("reading eight times the tensors takes some eight times as long, not sixty-four") {
    const TemporaryFolder folder;
    const auto seconds_for = [&](std::size_t tensors) {
        Safetensors content;
        for (std::size_t i = 0; i < tensors; ++i)
            content.tensors["tensor " + std::to_string(i)] = {Dtype::kF32, {0}, {}};
        write_safetensors(folder.file("many.safetensors"), content);
        double least = std::numeric_limits<double>::infinity();
        for (int turn = 0; turn < 3; ++turn) { // other programs run meanwhile
            const auto start = std::chrono::steady_clock::now();
            CHECK(read_safetensors(folder.file("many.safetensors")).tensors.size() == tensors);
            least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
        }
        return least;
    };
    const double few = seconds_for(5'000), many = seconds_for(40'000);
    CHECK_MESSAGE(many < 24.0 * few, few, " s and ", many, " s");
}

TEST_CASE("a tensor with a missing, unknown or wrong entry is refused") {
    check_error(error_of_header(R"({"a":{"shape":[1],"data_offsets":[0,1]}})", 1), "no dtype");
    check_error(error_of_header(R"({"a":{"dtype":"U8","data_offsets":[0,1]}})", 1), "no shape");
    check_error(error_of_header(R"({"a":{"dtype":"U8","shape":[1]}})", 1), "no data_offsets");
    check_error(error_of_header(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1}})", 1), "key 'x'");
    check_error(error_of_header(tensor_header("F8_E4M3", "[16]", "[0,16]")), "dtype 'F8_E4M3'");
    check_error(error_of_header(tensor_header("F32", "[-4]", "[0,16]")), "bad number in its shape");
    check_error(error_of_header(tensor_header("F32", "[4.0]", "[0,16]")), "bad number in its shape");
    check_error(error_of_header(tensor_header("F32", "[99999999999999999999]", "[0,16]")), "bad number");
    check_error(error_of_header(tensor_header("F32", "[4]", "[0,8,16]")), "3 data_offsets");
}

TEST_CASE("sizes that overflow or disagree with the offsets are refused") {
    check_error(error_of_header(tensor_header("F32", "[3]", "[0,16]")), "has 16 bytes, expected 12");
    check_error(error_of_header(tensor_header("F32", "[4294967296,4294967296,4]", "[0,16]")), "more than 2^64");
    check_error(error_of_header(tensor_header("F32", "[4611686018427387904]", "[0,0]"), 0), "more than 2^64");
    check_error(error_of_header(tensor_header("F32", "[4]", "[16,0]")), "lies at bytes 16..0");
    check_error(error_of_header(tensor_header("F32", "[4]", "[8,24]")), "expected a range within 0..16");
    check_error(error_of_header(tensor_header("F32", "[4]", "[0,18446744073709551615]")), "within 0..16");
}

TEST_CASE("tensors that overlap, leave a gap or leave data over are refused") {
    const auto two = [](const std::string &first, const std::string &second) {
        return R"({"a":{"dtype":"U8","shape":[8],"data_offsets":)" + first +
               R"(},"b":{"dtype":"U8","shape":[8],"data_offsets":)" + second + "}}";
    };
    CHECK(error_of_header(two("[8,16]", "[0,8]")).empty());
    check_error(error_of_header(two("[0,8]", "[4,12]")), "overlaps");
    check_error(error_of_header(two("[0,8]", "[0,8]")), "overlaps");
    check_error(error_of_header(two("[0,8]", "[9,17]"), 17), "leaves a gap");
    check_error(error_of_header(two("[1,9]", "[9,17]"), 17), "leaves a gap");
    check_error(error_of_header(two("[0,8]", "[8,16]"), 17), "holds 17 bytes of data, expected 16");
}

TEST_CASE("a hostile name stays one short line") {
    const std::string name = "x\\n\\u001b[31m" + std::string(10'000, 'y');
    const std::string message = error_of_header("{\"" + name + "\":7}");
    check_error(message, "\\x0a\\x1b[31myyy");
    CHECK(message.size() < 1000);
}

TEST_CASE("f16 keeps every value of its own and rounds others to the nearest, ties to even") {
    for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
        const float value = f16_to_f32(static_cast<std::uint16_t>(bits));
        if (std::isnan(value))
            CHECK(std::isnan(f16_to_f32(f32_to_f16(value))));
        else if (f32_to_f16(value) != bits)
            FAIL_CHECK("f16 ", bits, " comes back as ", f32_to_f16(value));
    }
    CHECK(f32_to_f16(1.0F) == 0x3c00);
    CHECK(f32_to_f16(1.0F + 0x1p-11F) == 0x3c00); // a tie: down to even
    CHECK(f32_to_f16(1.0F + 0x3p-11F) == 0x3c02); // a tie: up to even
    CHECK(f32_to_f16(65519.0F) == 0x7bff);
    CHECK(f32_to_f16(65520.0F) == 0x7c00);
    CHECK(f32_to_f16(0x1p-25F) == 0x0000); // a tie between 0 and the least subnormal
    CHECK(f32_to_f16(-0x1.8p-24F) == 0x8002);
    CHECK(f32_to_f16(0x1.fffp-15F) == 0x0400); // up to the least normal
}

TEST_CASE("bf16 keeps every value of its own and rounds others to the nearest, ties to even") {
    for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
        const float value = bf16_to_f32(static_cast<std::uint16_t>(bits));
        if (std::isnan(value))
            CHECK(std::isnan(bf16_to_f32(f32_to_bf16(value))));
        else if (f32_to_bf16(value) != bits)
            FAIL_CHECK("bf16 ", bits, " comes back as ", f32_to_bf16(value));
    }
    CHECK(f32_to_bf16(1.0F + 0x1p-8F) == 0x3f80);
    CHECK(f32_to_bf16(1.0F + 0x3p-8F) == 0x3f82);
    CHECK(f32_to_bf16(std::numeric_limits<float>::max()) == 0x7f80);
}

TEST_SUITE_END();
