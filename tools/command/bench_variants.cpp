// Layers of the same width side by side, measured: a causal prefill and one decode step.
#include "tools/bench/attention_shape.hpp"
#include "tools/bench/measure.hpp"
#include "tools/command/commands.hpp"
#include "tools/devices/device_words.hpp"
#include "tools/io/input_error.hpp"
#include "tools/io/progress.hpp"
#include "tools/io/text.hpp"
#include "tools/tensors/stored_types.hpp"

#include <nlohmann/json.hpp>
#include <vkattn/estimate.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <optional>

namespace vkattn::tools {
namespace {

// Timed runs of a step, where their number is not given: as many as take --seconds. A prefill takes CPUs some ten seconds.
constexpr double kMinRepeat = 3, kMaxRepeat = 5;

struct VariantResult {
    std::string name;
    vkattn_estimate_result estimate{};
    Statistics prefill, decode; // milliseconds
    std::string prefill_kernel, decode_kernel;
    bool by_gpu = false;
};

vkattn_layer_config config_of(const std::string &name, const BenchOptions &options) {
    vkattn_layer_config config{};
    if (vkattn_layer_config_from_name(name.c_str(), options.d_model, options.shape.heads, &config) != VKATTN_SUCCESS)
        throw InputError("--variants " + name, vkattn_last_error());
    if (config.kind != VKATTN_LAYER_MHA && config.kind != VKATTN_LAYER_MLA)
        throw InputError("--variants " + name, "not served by bench, expected mha, mqa, gqa-N or mla");
    return config;
}

using WeightShapes = std::map<std::string, std::vector<std::uint64_t>>;

WeightShapes weight_shapes(const vkattn_layer_config &c) {
    const std::uint64_t width = c.embed_dim, heads = c.num_heads;
    if (c.kind == VKATTN_LAYER_MLA) {
        const std::uint64_t nope = c.qk_nope_head_dim, rope = c.qk_rope_head_dim, values = c.v_head_dim;
        return {{"wq.weight", {heads * (nope + rope), width}},
                {"wkv_a.weight", {c.kv_lora_rank + rope, width}},
                {"kv_norm.weight", {c.kv_lora_rank}},
                {"wkv_b.weight", {heads * (nope + values), c.kv_lora_rank}},
                {"wo.weight", {width, heads * values}}};
    }
    const std::uint64_t head_dim = c.head_dim != 0 ? c.head_dim : width / heads;
    const std::uint64_t kv_heads = c.num_kv_heads != 0 ? c.num_kv_heads : heads;
    return {{"q_proj.weight", {heads * head_dim, width}},
            {"k_proj.weight", {kv_heads * head_dim, width}},
            {"v_proj.weight", {kv_heads * head_dim, width}},
            {"out_proj.weight", {width, heads * head_dim}}};
}

vkattn_tensor shaped(vkattn_type type, const std::vector<std::uint64_t> &shape) {
    vkattn_tensor tensor{};
    tensor.type = type;
    tensor.rank = static_cast<std::uint32_t>(shape.size());
    std::ranges::copy(shape, tensor.shape);
    return tensor;
}

Layer random_layer(const Context &context, const vkattn_layer_config &config, NamedType type) {
    const RandomValues random(1, 1.0 / std::sqrt(static_cast<double>(config.embed_dim)));
    const WeightShapes shapes = weight_shapes(config);
    std::map<std::string, std::vector<std::byte>> data;
    std::vector<vkattn_weight> weights;
    for (const auto &[name, shape] : shapes) {
        std::uint64_t count = 1;
        for (const std::uint64_t size : shape) count *= size;
        data[name] = random.bytes(type.dtype, count);
        weights.push_back(weight(name.c_str(), shaped(type.type, shape), data[name].data(), data[name].size()));
    }
    return context.layer(config, weights);
}

// The tensors of an in-place cache of `len` tokens: K and V, or mla's one latent.
std::vector<vkattn_tensor> cache_of(const vkattn_layer_config &c, vkattn_type type, std::uint64_t batch,
                                    std::uint64_t len) {
    if (c.kind == VKATTN_LAYER_MLA) return {tensor(type, {batch, len, c.kv_lora_rank + c.qk_rope_head_dim})};
    const std::uint64_t kv_heads = c.num_kv_heads != 0 ? c.num_kv_heads : c.num_heads;
    const std::uint64_t head_dim = c.head_dim != 0 ? c.head_dim : c.embed_dim / c.num_heads;
    return std::vector(2, tensor(type, {batch, kv_heads, len, head_dim}));
}

// One call of the layer with its buffers: tokens new tokens after past_len that lie in the cache already.
class Step {
  public:
    Step(const Context &context, const Layer &layer, const vkattn_layer_config &config, NamedType type,
         const BenchOptions &options, std::uint64_t past_len, std::uint64_t tokens, vkattn_kernel kernel)
        : plan_(layer.plan(make_call(config, type, options, past_len, tokens, kernel))) {
        add(context, VKATTN_ROLE_QUERY, call_.query, type);
        add(context, VKATTN_ROLE_OUTPUT, call_.output, type);
        add(context, VKATTN_ROLE_PRESENT_KEY, call_.present_key, type);
        if (call_.present_value.type != VKATTN_TYPE_NONE)
            add(context, VKATTN_ROLE_PRESENT_VALUE, call_.present_value, type);
        const std::uint64_t workspace = plan_.requirements().workspace_bytes;
        if (workspace == 0) return;
        buffers_.push_back(context.buffer(workspace));
        bindings_.push_back(bind(VKATTN_ROLE_WORKSPACE, buffers_.back()));
    }

    std::string kernel() const { return plan_.report().kernel_name; }
    Sample run() const { return run_once(plan_, bindings_); }

  private:
    const vkattn_layer_call &make_call(const vkattn_layer_config &config, NamedType type, const BenchOptions &options,
                                       std::uint64_t past_len, std::uint64_t tokens, vkattn_kernel kernel) {
        call_.query = call_.output = tensor(type.type, {options.shape.batch, tokens, config.embed_dim});
        const std::vector<vkattn_tensor> cache = cache_of(config, type.type, options.shape.batch, past_len + tokens);
        call_.present_key = cache.front();
        if (cache.size() > 1) call_.present_value = cache.back();
        call_.past_len = static_cast<std::uint32_t>(past_len);
        call_.mask_flags = VKATTN_MASK_CAUSAL;
        call_.kernel = kernel;
        return call_;
    }

    void add(const Context &context, vkattn_role role, const vkattn_tensor &layout, NamedType type) {
        const std::uint64_t bytes = vkattn_tensor_bytes(&layout);
        buffers_.push_back(context.buffer(bytes));
        RandomValues(static_cast<unsigned>(role)).fill(buffers_.back(), type.dtype, bytes);
        bindings_.push_back(bind(role, buffers_.back()));
    }

    vkattn_layer_call call_{};
    Plan plan_;
    std::vector<Buffer> buffers_;
    std::vector<vkattn_binding> bindings_;
};

// Statistics by the GPU's clock where it has one; the first run, which may compile, is not counted.
Statistics measure_step(const Step &step, const BenchOptions &options, bool &by_gpu, Progress &progress) {
    step.run();
    std::vector<double> milliseconds;
    std::uint32_t repeat = std::max(options.repeat, 1U);
    for (std::uint32_t i = 0; i < repeat; ++i) {
        const Sample sample = step.run();
        by_gpu = sample.gpu_ms >= 0.0;
        milliseconds.push_back(by_gpu ? sample.gpu_ms : sample.wall_ms);
        if (options.repeat == 0 && i == 0)
            repeat = static_cast<std::uint32_t>(
                std::clamp(1e3 * options.seconds / std::max(sample.wall_ms, 1e-3), kMinRepeat, kMaxRepeat));
        progress.runs(i + 1, repeat);
    }
    return statistics(milliseconds);
}

VariantResult measure_variant(const Context &context, const std::string &name, const BenchOptions &options,
                              vkattn_kernel kernel, Progress &progress) {
    const NamedType type = named_type("--dtype", options.shape.dtype, is_float);
    const vkattn_layer_config config = config_of(name, options);
    VariantResult result;
    result.name = name;
    vkattn_estimate_info info{};
    info.batch = options.shape.batch;
    info.context_len = options.len;
    info.weight_type = info.cache_type = type.type;
    check(vkattn_estimate(&config, &info, &result.estimate));
    const Layer layer = random_layer(context, config, type);
    const Step prefill(context, layer, config, type, options, 0, options.len, kernel);
    result.prefill_kernel = prefill.kernel();
    result.prefill = measure_step(prefill, options, result.by_gpu, progress);
    const Step decode(context, layer, config, type, options, options.len - 1, 1, kernel);
    result.decode_kernel = decode.kernel();
    result.decode = measure_step(decode, options, result.by_gpu, progress);
    return result;
}

void print_json(const std::vector<VariantResult> &results, const vkattn_device_facts &facts,
                const BenchOptions &options) {
    nlohmann::json report{{"device", facts.name},        {"driver", driver_text(facts)},
                          {"d_model", options.d_model},  {"heads", options.shape.heads},
                          {"len", options.len},          {"batch", options.shape.batch},
                          {"dtype", options.shape.dtype}};
    for (const VariantResult &each : results)
        report["variants"].push_back({{"variant", each.name},
                                      {"clock", each.by_gpu ? "gpu" : "wall"},
                                      {"prefill_median_ms", each.prefill.median},
                                      {"prefill_min_ms", each.prefill.min},
                                      {"prefill_kernel", each.prefill_kernel},
                                      {"decode_median_ms", each.decode.median},
                                      {"decode_min_ms", each.decode.min},
                                      {"decode_kernel", each.decode_kernel},
                                      {"parameters", each.estimate.parameters},
                                      {"cache_bytes_per_token", each.estimate.cache_bytes_per_token},
                                      {"cache_bytes", each.estimate.cache_bytes}});
    std::cout << report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
}

std::string with_ratio(double value, double first) {
    return decimals(value, 2) + " (" + decimals(first > 0.0 ? value / first : 0.0, 2) + "x)";
}

void print_table(const std::vector<VariantResult> &results, const vkattn_device_facts &facts,
                 const BenchOptions &options) {
    std::cout << facts.name << ", " << driver_text(facts) << "\nd_model " << options.d_model << ", "
              << options.shape.heads << " heads, " << options.len << " tokens, batch " << options.shape.batch << ", "
              << options.shape.dtype << ", by the " << (results.front().by_gpu ? "GPU's" : "wall")
              << " clock; medians, in brackets the ratio to " << results.front().name << "\n\n"
              << padded("variant", 10) << padded("prefill ms", 20) << padded("decode step ms", 20)
              << padded("parameters", 14) << padded("cache bytes/token", 19) << "cache bytes\n";
    const VariantResult &first = results.front();
    for (const VariantResult &each : results)
        std::cout << padded(each.name, 10) << padded(with_ratio(each.prefill.median, first.prefill.median), 20)
                  << padded(with_ratio(each.decode.median, first.decode.median), 20)
                  << padded(std::to_string(each.estimate.parameters), 14)
                  << padded(std::to_string(each.estimate.cache_bytes_per_token), 19) << each.estimate.cache_bytes
                  << "\n";
}

// Fails, naming it, unless every one of options.variants is one that can be measured.
void check_variants(const BenchOptions &options) {
    for (const std::string &name : options.variants) config_of(name, options);
    named_type("--dtype", options.shape.dtype, is_float);
}

std::vector<VariantResult> measure_variants(const Context &context, const BenchOptions &options, vkattn_kernel kernel) {
    std::vector<VariantResult> results;
    Progress progress(options.variants.size());
    const Clock::time_point start = Clock::now();
    try {
        for (const std::string &name : options.variants) {
            std::optional<double> seconds_left; // each takes about as long as the others
            if (!results.empty())
                seconds_left = ms_since(start) / 1e3 / static_cast<double>(results.size()) *
                               static_cast<double>(options.variants.size() - results.size());
            progress.begin(name, seconds_left);
            results.push_back(measure_variant(context, name, options, kernel, progress));
        }
    } catch (const Error &error) {
        throw InputError("bench --variants " + options.variants[results.size()], error.what());
    }
    return results;
}

} // namespace

int bench_variants(const CommonOptions &common, const BenchOptions &options, ValidationLog &validation) {
    check_variants(options);
    const Context context = make_context(common, validation);
    const SavedOnFailure saved(context, common);
    const std::vector<VariantResult> results = measure_variants(context, options, kernel_of(common.kernel));
    if (options.json)
        print_json(results, context.facts(), options);
    else
        print_table(results, context.facts(), options);
    save_context(context, common);
    return kExitSuccess;
}

} // namespace vkattn::tools
