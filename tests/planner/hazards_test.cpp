// Which dispatches of a program must wait: ranges of buffers, joined as they come, say what all the ranges one by one say.
#include "runtime/programs/hazards.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>
#include <vector>

using namespace vkattn;

namespace {

VkBuffer buffer_of(std::uint64_t number) {
    VkBuffer buffer{};
    std::memcpy(&buffer, &number, std::min(sizeof buffer, sizeof number));
    return buffer;
}

bool conflict(const Access &a, const Access &b) {
    return a.buffer == b.buffer && (a.writes || b.writes) && a.begin < b.end && b.begin < a.end;
}

} // namespace

TEST_SUITE_BEGIN("hazards");

TEST_CASE("joined ranges conflict where one of them does") {
    std::mt19937 random(5);
    std::uniform_int_distribution<std::uint64_t> place(0, 40), length(1, 6), buffer(1, 3);
    std::bernoulli_distribution writes(0.4);
    for (int round = 0; round < 300; ++round) {
        Hazards hazards;
        std::vector<Access> all;
        for (int i = 0; i < 25; ++i) {
            const std::uint64_t begin = place(random);
            const Access next{buffer_of(buffer(random)), begin, begin + length(random), writes(random)};
            const bool expected = std::ranges::any_of(all, [&](const Access &each) { return conflict(each, next); });
            REQUIRE(hazards.conflict({&next, 1}) == expected);
            if (i % 3 == 0) continue; // asked alone
            hazards.add({&next, 1});
            all.push_back(next);
        }
        hazards.clear();
        const Access any{buffer_of(1), 0, 100, true};
        REQUIRE_FALSE(hazards.conflict({&any, 1}));
    }
}

TEST_CASE("many dispatches that need no barrier cost no more each than few") {
    Hazards hazards;
    constexpr std::uint64_t kMany = 200000; // compared two by two they take minutes
    const auto start = std::chrono::steady_clock::now();
    for (std::uint64_t i = 0; i < kMany; ++i) {
        const Access accesses[] = {{buffer_of(1), 0, 64, false}, {buffer_of(2), 32 * i, 32 * i + 16, true}};
        REQUIRE_FALSE(hazards.conflict(accesses));
        hazards.add(accesses);
    }
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(30));
}

TEST_SUITE_END();
