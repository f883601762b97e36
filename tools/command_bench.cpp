#include "bench_measure.hpp"
#include "commands.hpp"
#include "input_error.hpp"
#include "quantise.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <iostream>

namespace vkattn::tools {
namespace {

constexpr std::size_t kMaxInputSets = 4;
constexpr std::uint32_t kWarmUpRuns = 2;
constexpr std::uint32_t kMinRepeat = 5;
constexpr std::uint32_t kMaxRepeat = 100;
constexpr double kTargetMs = 3000.0; // how long the runs take together where --repeat is not given

struct BenchProblem {
    vkattn_attention_desc desc{};
    NamedType query_type{};
    NamedType kv_type{};
};

BenchProblem make_problem(const BenchOptions &options, vkattn_kernel kernel) {
    if (options.op != "attention")
        throw InputError("--op " + options.op, "not supported yet by bench in this version, expected attention");
    const std::uint32_t kv_heads = options.kv_heads != 0 ? options.kv_heads : options.heads;
    const std::uint32_t v_head_dim = options.v_head_dim != 0 ? options.v_head_dim : options.head_dim;
    BenchProblem problem;
    problem.query_type = type_named("--dtype", options.dtype);
    problem.kv_type = options.kv_dtype.empty() ? problem.query_type : kv_type_named("--kv-dtype", options.kv_dtype);
    vkattn_attention_desc &desc = problem.desc;
    desc.query = tensor(problem.query_type.type, {options.batch, options.heads, options.q_len, options.head_dim});
    desc.key = tensor(problem.kv_type.type, {options.batch, kv_heads, options.kv_len, options.head_dim});
    if (!options.value_in_key)
        desc.value = tensor(problem.kv_type.type, {options.batch, kv_heads, options.kv_len, v_head_dim});
    desc.output = tensor(problem.query_type.type, {options.batch, options.heads, options.q_len, v_head_dim});
    if (options.causal) desc.mask_flags = VKATTN_MASK_CAUSAL;
    // With the last query at the last key, as in decoding and in prefill with a cache.
    desc.causal_alignment = VKATTN_CAUSAL_BOTTOM_RIGHT;
    desc.kernel = kernel;
    return problem;
}

// Query-key pairs of one head that the mask leaves.
double visible_pairs(const BenchOptions &options) {
    const double q_len = options.q_len;
    const double kv_len = options.kv_len;
    if (!options.causal) return q_len * kv_len;
    const double seeing = std::min(q_len, kv_len); // the last so many queries see kv_len, kv_len - 1, ... keys
    return seeing * kv_len - seeing * (seeing - 1.0) / 2.0;
}

double flops(const BenchOptions &options, const vkattn_attention_desc &desc) {
    return 2.0 * options.batch * options.heads * visible_pairs(options) *
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

InputSet make_input_set(const Context &context, const BenchProblem &problem, unsigned seed,
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
    set.add(context, VKATTN_ROLE_OUTPUT, vkattn_tensor_bytes(&problem.desc.output));
    if (workspace_bytes != 0) set.add(context, VKATTN_ROLE_WORKSPACE, workspace_bytes);
    return set;
}

// Several sets, so that a cache does not flatter, within a quarter of the device's memory.
std::vector<InputSet> make_input_sets(const Context &context, const BenchProblem &problem, std::uint32_t wanted,
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

struct Measurement {
    double first_dispatch_ms = 0.0; // the plan, with its pipelines, and the first run
    std::uint64_t workspace_bytes = 0;
    std::string kernel;
    std::string reason;
    std::size_t input_sets = 0;
    std::vector<double> gpu_ms; // empty: the device has no timestamps
    std::vector<double> wall_ms;
};

std::uint32_t repeat_count(const BenchOptions &options, double run_ms) {
    if (options.repeat != 0) return options.repeat;
    return static_cast<std::uint32_t>(
        std::clamp(kTargetMs / std::max(run_ms, 1e-3), double{kMinRepeat}, double{kMaxRepeat}));
}

Measurement measure(const Context &context, const BenchProblem &problem, const BenchOptions &options) {
    Measurement measured;
    const Clock::time_point start = Clock::now();
    const Plan plan = context.attention_plan(problem.desc);
    const double plan_ms = ms_since(start);
    measured.workspace_bytes = plan.requirements().workspace_bytes;
    measured.kernel = plan.report().kernel_name;
    measured.reason = plan.report().reason;
    const std::vector<InputSet> sets = make_input_sets(context, problem, options.input_sets, measured.workspace_bytes);
    measured.input_sets = sets.size();
    measured.first_dispatch_ms = plan_ms + run_once(plan, sets.front().bindings).wall_ms;
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

struct Result {
    Measurement measured;
    bool by_gpu = false;
    Statistics best; // by the GPU's clock where it has one
    Statistics wall;
    double gflops = 0.0;
    double gbytes_per_s = 0.0;
};

Result evaluate(Measurement measured, const BenchOptions &options, const vkattn_attention_desc &desc) {
    Result result;
    result.wall = statistics(measured.wall_ms);
    result.by_gpu = !measured.gpu_ms.empty();
    result.best = result.by_gpu ? statistics(measured.gpu_ms) : result.wall;
    // A timestamp of coarse ticks can read 0.
    const double seconds = std::max(result.best.median, 1e-6) / 1e3;
    result.gflops = flops(options, desc) / seconds / 1e9;
    result.gbytes_per_s = bytes_once(desc) / seconds / 1e9;
    result.measured = std::move(measured);
    return result;
}

void print_json(const Result &result, const vkattn_device_facts &facts) {
    const nlohmann::json report{{"device", facts.name},
                                {"driver", driver_text(facts)},
                                {"kernel", result.measured.kernel},
                                {"clock", result.by_gpu ? "gpu" : "wall"},
                                {"median_ms", result.best.median},
                                {"min_ms", result.best.min},
                                {"spread_percent", result.best.spread_percent()},
                                {"wall_median_ms", result.wall.median},
                                {"wall_min_ms", result.wall.min},
                                {"repeat", result.measured.wall_ms.size()},
                                {"input_sets", result.measured.input_sets},
                                {"gflops", result.gflops},
                                {"gbytes_per_s", result.gbytes_per_s},
                                {"first_dispatch_ms", result.measured.first_dispatch_ms},
                                {"workspace_bytes", result.measured.workspace_bytes}};
    std::cout << report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
}

void print_times(const char *name, const Statistics &times) {
    std::cout << padded(name, 12) << " median " << decimals(times.median, 4) << " ms, min " << decimals(times.min, 4)
              << " ms, spread " << decimals(times.spread_percent(), 0) << " %\n";
}

void print_text(const Result &result, const vkattn_device_facts &facts) {
    std::cout << padded("device", 12) << " " << facts.name << ", " << driver_text(facts) << "\n"
              << padded("kernel", 12) << " " << kernel_text(result.measured.kernel, result.measured.reason) << "\n"
              << padded("runs", 12) << " " << result.measured.wall_ms.size() << " over " << result.measured.input_sets
              << " input sets\n";
    if (result.by_gpu)
        print_times("gpu", result.best);
    else
        std::cout << padded("gpu", 12) << " this device has no timestamps\n";
    print_times("wall", result.wall);
    std::cout << padded("rate", 12) << " " << significant(result.gflops, 4) << " GFLOP/s, "
              << significant(result.gbytes_per_s, 4) << " GB/s\n"
              << padded("first", 12) << " " << decimals(result.measured.first_dispatch_ms, 1)
              << " ms to plan and run once\n"
              << padded("workspace", 12) << " " << result.measured.workspace_bytes << " bytes\n";
}

} // namespace

int bench_command(const CommonOptions &common, const BenchOptions &options, ValidationLog &validation) {
    if (!options.variants.empty()) return bench_variants(common, options, validation);
    const BenchProblem problem = make_problem(options, kernel_of(common.kernel));
    const Context context = make_context(common, validation);
    try {
        const Result result = evaluate(measure(context, problem, options), options, problem.desc);
        if (options.json)
            print_json(result, context.facts());
        else
            print_text(result, context.facts());
    } catch (const Error &error) {
        throw InputError("bench", error.what());
    }
    return kExitSuccess;
}

} // namespace vkattn::tools
