// Sweeps: problems drawn at random, each from its number alone, and made smaller as long as they fail.
//
// VKATTN_SWEEP_PROBLEMS: how many of each kind (15); VKATTN_SWEEP_SEED: from which number on (1); VKATTN_SWEEP_TELL=1: each
// number on standard output before it is tried, for drivers that end the process.
#pragma once

#include "device.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

namespace vkattn_test {

class Random {
  public:
    explicit Random(unsigned seed) : engine_(seed) {}
    std::uint64_t up_to(std::uint64_t most) { return std::uniform_int_distribution<std::uint64_t>(1, most)(engine_); }
    bool one_in(unsigned n) { return up_to(n) == 1; }
    template <typename T>
    T any(std::initializer_list<T> values) {
        return values.begin()[up_to(values.size()) - 1];
    }
    template <typename T>
    T any(const std::vector<T> &values) {
        return values[up_to(values.size()) - 1];
    }

  private:
    std::mt19937 engine_;
};

// What pipelines are compiled for is drawn apart from the rest, and shared by all numbers that leave the same
// remainder: most of a problem's time goes into compiling.
struct Draws {
    static constexpr unsigned kKinds = 256;
    explicit Draws(unsigned seed) : compiled(seed % kKinds), free(seed + kKinds) {}
    Random compiled, free;
};

inline unsigned sweep_number(const char *name, unsigned otherwise) {
    const char *value = std::getenv(name);
    return value != nullptr ? static_cast<unsigned>(std::strtoul(value, nullptr, 10)) : otherwise;
}

// complaints_of(seed): what is wrong with the problem of that number, "" for nothing.
// One kind after the other, each on a device of its own where kinds repeat, which close() makes way for: what is compiled
// is not kept for all of them.
template <typename Complaints, typename Close>
void sweep(Complaints &&complaints_of, Close &&close) {
    const unsigned first = sweep_number("VKATTN_SWEEP_SEED", 1), count = sweep_number("VKATTN_SWEEP_PROBLEMS", 15);
    const bool tells = sweep_number("VKATTN_SWEEP_TELL", 0) != 0;
    for (unsigned kind = first; kind < first + std::min(count, Draws::kKinds); ++kind) {
        for (unsigned seed = kind; seed < first + count; seed += Draws::kKinds) {
            if (tells) std::printf("VKATTN_SWEEP_SEED=%u\n", seed), std::fflush(stdout);
            const std::string complaints = complaints_of(seed);
            if (!complaints.empty()) FAIL_CHECK("VKATTN_SWEEP_SEED=" << seed << ", " << complaints);
        }
        if (count > Draws::kKinds) close();
    }
    MESSAGE(count << " problems, from number " << first << " on");
}

// On the device under test.
template <typename Complaints>
void sweep(Complaints &&complaints_of) {
    sweep(complaints_of, [] { CHECK(close_test_device().empty()); });
}

// Takes each reduction that leaves a problem that still fails, until none does.
template <typename Draw, typename Fails>
Draw smallest(Draw failing, const std::vector<std::function<void(Draw &)>> &reductions, Fails &&fails) {
    for (bool smaller = true; smaller;) {
        smaller = false;
        for (const auto &reduce : reductions) {
            Draw tried = failing;
            reduce(tried);
            if (tried == failing || !fails(tried)) continue;
            failing = tried;
            smaller = true;
        }
    }
    return failing;
}

} // namespace vkattn_test
