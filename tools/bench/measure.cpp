#include "tools/bench/measure.hpp"

#include "tools/io/progress.hpp"

#include <algorithm>
#include <random>

namespace vkattn::tools {
namespace {

// Random values are repeated after this many, a prime: rows of any head size then differ.
constexpr std::size_t kRandomPeriod = 65'521;

constexpr std::uint32_t kMaxInputSets = 4;
constexpr std::uint32_t kWarmUpRuns = 2; // at least
constexpr std::uint32_t kMinRepeat = 5;
constexpr std::uint32_t kMaxRepeat = 1000;
// Where the number of runs is not given, those before them take so long. A CPU driver's threads may share a core for
// their first tenths of a second, and a GPU is yet to reach its clock.
constexpr double kWarmUpMs = 300.0;

std::uint32_t repeat_count(const RepeatOptions &options, double run_ms) {
    if (options.repeat != 0) return options.repeat;
    return static_cast<std::uint32_t>(
        std::clamp(1e3 * options.seconds / std::max(run_ms, 1e-3), double{kMinRepeat}, double{kMaxRepeat}));
}

} // namespace

double seconds_to_time(const RepeatOptions &options, double run_ms) {
    const double first_ms = std::max((1 + kWarmUpRuns) * run_ms, options.repeat == 0 ? kWarmUpMs : 0.0);
    return (first_ms + repeat_count(options, run_ms) * run_ms) / 1e3;
}

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

Buffer &InputSet::add(const Context &context, vkattn_role role, std::uint64_t bytes) {
    Buffer &buffer = buffers.emplace_back(context.buffer(bytes));
    bindings.push_back(bind(role, buffer));
    return buffer;
}

OperationTimes time_operation(const Context &context, const RepeatOptions &options, double bytes,
                              const std::function<Plan()> &make_plan,
                              const std::function<InputSet(unsigned seed)> &make_inputs) {
    OperationTimes times;
    const Clock::time_point start = Clock::now();
    const Plan plan = make_plan();
    times.first_dispatch_ms = ms_since(start);
    times.kernel = plan.report().kernel_name;
    times.reason = plan.report().reason;
    times.workspace_bytes = plan.requirements().workspace_bytes;
    times.bytes = bytes;
    const double room = static_cast<double>(context.facts().device_memory_bytes) / 4.0;
    const double wanted = options.input_sets != 0 ? options.input_sets : kMaxInputSets;
    times.input_sets = static_cast<std::uint32_t>(
        std::clamp(room / (bytes + static_cast<double>(times.workspace_bytes)), 1.0, wanted));
    std::vector<InputSet> sets;
    for (unsigned seed = 0; seed < times.input_sets; ++seed) {
        sets.push_back(make_inputs(seed));
        if (times.workspace_bytes != 0) sets.back().add(context, VKATTN_ROLE_WORKSPACE, times.workspace_bytes);
    }
    times.first_dispatch_ms += run_once(plan, sets.front().bindings).wall_ms;
    Sample warm;
    const Clock::time_point warm_start = Clock::now();
    for (std::size_t i = 0; i < kWarmUpRuns || (options.repeat == 0 && ms_since(warm_start) < kWarmUpMs); ++i)
        warm = run_once(plan, sets[(i + 1) % sets.size()].bindings);
    std::vector<double> gpu_ms, wall_ms; // gpu_ms stays empty where the device has no timestamps
    times.runs = repeat_count(options, warm.wall_ms);
    for (std::uint32_t i = 0; i < times.runs; ++i) {
        const Sample sample = run_once(plan, sets[i % sets.size()].bindings);
        if (sample.gpu_ms >= 0.0) gpu_ms.push_back(sample.gpu_ms);
        wall_ms.push_back(sample.wall_ms);
        if (options.progress != nullptr) options.progress->runs(i + 1, times.runs);
    }
    times.wall = statistics(wall_ms);
    times.by_gpu = !gpu_ms.empty();
    times.best = times.by_gpu ? statistics(gpu_ms) : times.wall;
    return times;
}

} // namespace vkattn::tools
