#include "bench_attention.hpp"

#include "progress.hpp"
#include "quantise.hpp"

#include <algorithm>
#include <numeric>
#include <random>

namespace vkattn::tools {
namespace {

constexpr std::size_t kMaxInputSets = 4;
constexpr std::uint32_t kWarmUpRuns = 2;
constexpr std::uint32_t kMinRepeat = 5;
constexpr std::uint32_t kMaxRepeat = 100;
constexpr double kTargetMs = 3000.0; // how long the runs take together where --repeat is not given

// Query-key pairs of one head that the mask leaves.
double visible_pairs(const AttentionShape &shape) {
    const double q_len = shape.q_len;
    const double kv_len = shape.kv_len;
    if (!shape.causal) return q_len * kv_len;
    const double seeing = std::min(q_len, kv_len); // the last so many queries see kv_len, kv_len - 1, ... keys
    return seeing * kv_len - seeing * (seeing - 1.0) / 2.0;
}

double flops(const AttentionShape &shape, const vkattn_attention_desc &desc) {
    return 2.0 * shape.batch * shape.heads * visible_pairs(shape) *
           static_cast<double>(desc.key.shape[3] + desc.output.shape[3]);
}

double bytes_once(const vkattn_attention_desc &desc) {
    double bytes = 0.0;
    for (const vkattn_tensor *each : {&desc.query, &desc.key, &desc.value, &desc.output})
        bytes += static_cast<double>(vkattn_tensor_bytes(each));
    return bytes;
}

struct InputSet {
    std::vector<Buffer> buffers;
    std::vector<vkattn_binding> bindings;

    Buffer &add(const Context &context, vkattn_role role, std::uint64_t bytes) {
        Buffer &buffer = buffers.emplace_back(context.buffer(bytes));
        bindings.push_back(bind(role, buffer));
        return buffer;
    }
};

// Random values, quantised on the device as an append quantises them.
void fill_quantised(const Context &context, const RandomValues &random, const vkattn_tensor &layout, Buffer &buffer) {
    vkattn_kv_append_desc desc{};
    desc.source = desc.cache = layout;
    desc.source.type = VKATTN_TYPE_F32;
    const std::uint64_t bytes = vkattn_tensor_bytes(&desc.source);
    Buffer values = context.buffer(bytes);
    random.fill(values, Dtype::kF32, bytes);
    const vkattn_binding bindings[] = {bind(VKATTN_ROLE_KEY, values), bind(VKATTN_ROLE_PRESENT_KEY, buffer)};
    context.kv_append_plan(desc).run(bindings);
}

// Every page once, in an order that no memory likes.
void fill_block_table(InputSet &set, const Context &context, const ShapedProblem &problem, unsigned seed) {
    std::vector<std::int32_t> pages(problem.desc.key.shape[0]);
    std::iota(pages.begin(), pages.end(), 0);
    std::ranges::shuffle(pages, std::mt19937(seed));
    set.add(context, VKATTN_ROLE_BLOCK_TABLE, vkattn_tensor_bytes(&problem.desc.block_table))
        .write(std::as_bytes(std::span(pages)));
}

InputSet make_input_set(const Context &context, const ShapedProblem &problem, unsigned seed,
                        std::uint64_t workspace_bytes) {
    const RandomValues random(seed);
    InputSet set;
    const auto add_random = [&](vkattn_role role, const vkattn_tensor &layout, Dtype dtype) {
        Buffer &buffer = set.add(context, role, vkattn_tensor_bytes(&layout));
        if (is_quantised(layout.type))
            fill_quantised(context, random, layout, buffer);
        else
            random.fill(buffer, dtype, vkattn_tensor_bytes(&layout));
    };
    add_random(VKATTN_ROLE_QUERY, problem.desc.query, problem.query_type.dtype);
    add_random(VKATTN_ROLE_KEY, problem.desc.key, problem.kv_type.dtype);
    if (problem.desc.value.type != VKATTN_TYPE_NONE)
        add_random(VKATTN_ROLE_VALUE, problem.desc.value, problem.kv_type.dtype);
    if (problem.desc.block_table.type != VKATTN_TYPE_NONE) fill_block_table(set, context, problem, seed);
    set.add(context, VKATTN_ROLE_OUTPUT, vkattn_tensor_bytes(&problem.desc.output));
    if (workspace_bytes != 0) set.add(context, VKATTN_ROLE_WORKSPACE, workspace_bytes);
    return set;
}

// Several sets, so that a cache does not flatter, within a quarter of the device's memory.
std::vector<InputSet> make_input_sets(const Context &context, const ShapedProblem &problem, std::uint32_t wanted,
                                      std::uint64_t workspace_bytes) {
    const double per_set = bytes_once(problem.desc) + static_cast<double>(workspace_bytes);
    const double room = static_cast<double>(context.facts().device_memory_bytes) / 4.0;
    const auto count =
        static_cast<std::size_t>(std::clamp(room / per_set, 1.0, wanted != 0 ? wanted : double{kMaxInputSets}));
    std::vector<InputSet> sets;
    for (unsigned seed = 0; seed < count; ++seed)
        sets.push_back(make_input_set(context, problem, seed, workspace_bytes));
    return sets;
}

struct Runs {
    AttentionTimes times;
    std::vector<double> gpu_ms; // empty: the device has no timestamps
    std::vector<double> wall_ms;
};

std::uint32_t repeat_count(const BenchOptions &options, double run_ms) {
    if (options.repeat != 0) return options.repeat;
    return static_cast<std::uint32_t>(
        std::clamp(kTargetMs / std::max(run_ms, 1e-3), double{kMinRepeat}, double{kMaxRepeat}));
}

Runs measure(const Context &context, const ShapedProblem &problem, const BenchOptions &options) {
    Runs measured;
    const Clock::time_point start = Clock::now();
    const Plan plan = context.attention_plan(problem.desc);
    const double plan_ms = ms_since(start);
    measured.times.workspace_bytes = plan.requirements().workspace_bytes;
    measured.times.kernel = plan.report().kernel_name;
    measured.times.reason = plan.report().reason;
    const std::vector<InputSet> sets =
        make_input_sets(context, problem, options.input_sets, measured.times.workspace_bytes);
    measured.times.input_sets = sets.size();
    measured.times.first_dispatch_ms = plan_ms + run_once(plan, sets.front().bindings).wall_ms;
    Sample warm;
    for (std::uint32_t i = 0; i < kWarmUpRuns; ++i) warm = run_once(plan, sets[(i + 1) % sets.size()].bindings);
    const std::uint32_t repeat = repeat_count(options, warm.wall_ms);
    for (std::uint32_t i = 0; i < repeat; ++i) {
        const Sample sample = run_once(plan, sets[i % sets.size()].bindings);
        if (sample.gpu_ms >= 0.0) measured.gpu_ms.push_back(sample.gpu_ms);
        measured.wall_ms.push_back(sample.wall_ms);
        show_progress(i + 1, repeat);
    }
    return measured;
}

} // namespace

AttentionTimes time_attention(const Context &context, const AttentionShape &shape, const BenchOptions &options,
                              vkattn_kernel kernel) {
    const ShapedProblem problem = problem_of(shape, kernel);
    Runs runs = measure(context, problem, options);
    AttentionTimes &times = runs.times;
    times.runs = runs.wall_ms.size();
    times.wall = statistics(runs.wall_ms);
    times.by_gpu = !runs.gpu_ms.empty();
    times.best = times.by_gpu ? statistics(runs.gpu_ms) : times.wall;
    times.flops = flops(shape, problem.desc);
    times.bytes = bytes_once(problem.desc);
    times.of_16_bits = problem.query_type.type != VKATTN_TYPE_F32;
    return times;
}

} // namespace vkattn::tools
