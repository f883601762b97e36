// What was deflated: stored, by fixed codes, by codes of its own, damaged.
#include "runtime/support/inflate.hpp"
#include "vkattn_shaders/table.hpp"

#include <doctest/doctest.h>

#include <random>
#include <string>

using namespace vkattn;

namespace {

std::string inflated(std::vector<std::uint8_t> deflated, std::size_t bytes) {
    const std::vector<std::byte> result = inflate(deflated, bytes);
    return {reinterpret_cast<const char *>(result.data()), result.size()};
}

// zlib's, of "hello hello hello\n".
const std::vector<std::uint8_t> kHello = {0xcb, 0x48, 0xcd, 0xc9, 0xc9, 0x57, 0xc8, 0x40, 0x90, 0x5c, 0x00};

} // namespace

TEST_CASE("blocks that are stored, and of fixed codes with a copy that overlaps itself") {
    CHECK(inflated(kHello, 18) == "hello hello hello\n");
    CHECK(inflated({1, 3, 0, 0xfc, 0xff, 'a', 'b', 'c'}, 3) == "abc");
    CHECK(inflated({0, 1, 0, 0xfe, 0xff, 'a', 1, 1, 0, 0xfe, 0xff, 'b'}, 2) == "ab"); // the last of two
    CHECK(inflated({1, 0, 0, 0xff, 0xff}, 0).empty());
}

TEST_CASE("what was deflated is refused where it is damaged, or of another size") {
    const auto refuses = [](std::vector<std::uint8_t> deflated, std::size_t bytes) {
        CHECK_THROWS_AS(inflate(deflated, bytes), InflateError);
    };
    refuses({}, 18);
    refuses(kHello, 17);
    refuses(kHello, 19);
    refuses({1, 3, 0, 0xfc, 0xfe, 'a', 'b', 'c'}, 3); // a length whose complement is not there
    refuses({7}, 1);                                  // a block of no kind
    for (std::size_t length = 0; length < kHello.size() - 1; ++length)
        refuses({kHello.begin(), kHello.begin() + static_cast<std::ptrdiff_t>(length)}, 18);
}

TEST_CASE("any bytes are refused or inflated, and nothing is read beyond them") { // AddressSanitizer watches
    std::mt19937 random(3);
    for (int round = 0; round < 2000; ++round) {
        std::vector<std::uint8_t> bytes(1 + random() % 200);
        for (std::uint8_t &byte : bytes) byte = static_cast<std::uint8_t>(random());
        const std::size_t size = random() % 4096;
        const auto is_well = [&] {
            try {
                return inflate(bytes, size).size() == size;
            } catch (const InflateError &error) {
                return *error.what() != '\0';
            }
        };
        CHECK(is_well());
    }
}

TEST_CASE("each shader is kept in fewer bytes than its words have, which come back") {
    for (const Shader *shader : shaders::table()) {
        if (!is_built(*shader)) continue;
        INFO("shader ", std::string(shader->name));
        const std::vector<std::uint32_t> words = shader->code.words();
        REQUIRE(words.size() == shader->code.word_count());
        CHECK(words[0] == 0x07230203u);
        CHECK(module_fault(words).empty());
        CHECK(2 * shader->code.stored().size() < words.size() * sizeof words[0]);
    }
}
