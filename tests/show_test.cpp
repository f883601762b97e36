// Pictures of attention weights: the map of characters, and the PNG file as far as its header tells.
#include "skips.hpp"
#include "weights_map.hpp"
#include "weights_picture.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>

using namespace vkattn::tools;

TEST_SUITE_BEGIN("show");

TEST_CASE("a map shows each weight, and of pooled ones the largest") {
    const std::vector<double> causal = {1.0, 0.0, 0.5, 0.5};
    CHECK(weights_map(causal, 2, 2, false) == "  |# |\n  |**|\n");
    CHECK(weights_map(causal, 2, 2, true) == "  |█ |\n  |▓▓|\n");
    std::vector<double> wide(2 * 128);
    wide[128 + 127] = 0.25;
    const std::string map = weights_map(wide, 2, 128, false);
    CHECK(map == "  |" + std::string(64, ' ') + "|\n  |" + std::string(63, ' ') + "#|\n");
    CHECK(weights_map(std::vector<double>(4), 2, 2, false) == "  |  |\n  |  |\n");
}

TEST_CASE("a picture is a PNG file that grows with its panels") {
    if (!can_draw_png()) {
        CHECK_THROWS_WITH(draw_png({}), doctest::Contains("cairo"));
        vkattn_test::skip("no cairo");
        return;
    }
    WeightsPicture picture{"a case", "what it is", 3, 4, {}, {"In", "the", "beginning", "God"}, {}};
    const auto size = [&](std::size_t at) { // of the header chunk, big-endian
        const std::string bytes = draw_png(picture);
        REQUIRE(bytes.starts_with("\x89PNG\r\n\x1a\n"));
        std::uint32_t value = 0;
        for (std::size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(bytes.at(at + i));
        return value;
    };
    picture.panels.push_back({"head 0", std::vector<double>(12, 0.25)});
    const std::uint32_t width = size(16), height = size(20);
    CHECK(width >= 400);
    for (int head = 1; head < 8; ++head) picture.panels.push_back(picture.panels[0]);
    CHECK(size(16) > 2 * width);
    CHECK(size(20) > 3 * height / 2);
    picture.panels.resize(1);
    picture.queries = 1;
    picture.keys = 5000;
    picture.key_labels.clear();
    picture.panels[0].weights.assign(5000, 0.0); // nothing to see is no reason to divide by it
    CHECK(size(16) < 1000);
}

TEST_SUITE_END();
