// The next token from the scores of all.
#pragma once

#include <cstdint>
#include <random>
#include <span>

struct Sampling {
    std::uint64_t seed = 1;
    double temperature = 0.7; // 0: always the likeliest
    std::uint32_t top_k = 40; // of the likeliest; 0: of all
};

class Sampler {
  public:
    explicit Sampler(const Sampling &sampling) : sampling_(sampling), random_(sampling.seed) {}
    std::int32_t choose(std::span<const float> logits);

  private:
    Sampling sampling_;
    std::mt19937_64 random_; // whose numbers the standard fixes, unlike those of its distributions
};
