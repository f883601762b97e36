#include "bench_measure.hpp"

#include <algorithm>
#include <random>

namespace vkattn::tools {
namespace {

// Random values are repeated after this many, a prime: rows of any head size then differ.
constexpr std::size_t kRandomPeriod = 65'521;

} // namespace

double ms_since(Clock::time_point start) {
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

RandomValues::RandomValues(unsigned seed, double deviation) {
    std::mt19937 engine(seed);
    std::normal_distribution<double> normal(0.0, deviation);
    values_.resize(kRandomPeriod);
    std::ranges::generate(values_, [&] { return normal(engine); });
}

void RandomValues::fill(Buffer &buffer, Dtype dtype, std::uint64_t bytes) const {
    const std::vector<std::byte> block = tensor_of(dtype, {values_.size()}, values_).bytes;
    for (std::uint64_t begin = 0; begin < bytes; begin += block.size())
        buffer.write(std::span(block).first(std::min<std::uint64_t>(block.size(), bytes - begin)), begin);
}

std::vector<std::byte> RandomValues::bytes(Dtype dtype, std::uint64_t count) const {
    const std::vector<std::byte> block = tensor_of(dtype, {values_.size()}, values_).bytes;
    const std::uint64_t wanted = count * (block.size() / values_.size());
    std::vector<std::byte> all;
    all.reserve(wanted);
    while (all.size() < wanted) {
        const auto part = static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(block.size(), wanted - all.size()));
        all.insert(all.end(), block.begin(), block.begin() + part);
    }
    return all;
}

Sample run_once(const Plan &plan, std::span<const vkattn_binding> bindings) {
    const Clock::time_point start = Clock::now();
    const double gpu_ms = plan.run(bindings);
    return {gpu_ms, ms_since(start)};
}

Statistics statistics(std::vector<double> values) {
    std::ranges::sort(values);
    const std::size_t middle = values.size() / 2;
    const double median = values.size() % 2 != 0 ? values[middle] : (values[middle - 1] + values[middle]) / 2.0;
    return {median, values.front(), values.back()};
}

} // namespace vkattn::tools
