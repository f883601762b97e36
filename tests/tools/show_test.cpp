// The map of characters that shows attention weights.
#include "tools/command/weights_map.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

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

TEST_SUITE_END();
