// A prompt, then token after token with one recorded command buffer: the cache's lengths live on the device, so that
// submitting the same commands again goes on with the next token.
#include "random_values.hpp"
#include "recorded_plans.hpp"

#include <cstdio>

namespace {

constexpr std::uint32_t kWidth = 64, kHeads = 4, kKvHeads = 2, kPrompt = 20, kTokens = 12;

vkattn::Layer make_layer(const vkattn::Context &context) {
    vkattn_layer_config config{};
    config.kind = VKATTN_LAYER_MHA;
    config.embed_dim = kWidth;
    config.num_heads = kHeads;
    config.num_kv_heads = kKvHeads;
    config.rope_theta = 10000.0f;
    std::vector<float> weights = random_values(kWidth * kWidth, 7);
    for (float &weight : weights) weight /= 8.0f;
    const auto weight = [&](const char *name, std::uint64_t rows) {
        return vkattn::weight(name, vkattn::tensor(VKATTN_TYPE_F32, {rows, kWidth}), weights.data());
    };
    const std::uint64_t kv_rows = kKvHeads * (kWidth / kHeads);
    return context.layer(config, std::vector{weight("q_proj.weight", kWidth), weight("k_proj.weight", kv_rows),
                                             weight("v_proj.weight", kv_rows), weight("out_proj.weight", kWidth)});
}

vkattn_layer_call call_of(std::uint64_t tokens, vkattn_cache cache) {
    vkattn_layer_call call{};
    call.query = call.output = vkattn::tensor(VKATTN_TYPE_F32, {1, tokens, kWidth});
    call.mask_flags = VKATTN_MASK_CAUSAL;
    call.cache = cache;
    return call;
}

std::vector<float> run_once(const vkattn::Context &context, const vkattn::Plan &plan, const std::vector<float> &input) {
    vkattn::Buffer query = context.buffer(input.size() * sizeof(float));
    const vkattn::Buffer output = context.buffer(input.size() * sizeof(float));
    query.write(input);
    plan.run({vkattn::bind(VKATTN_ROLE_QUERY, query), vkattn::bind(VKATTN_ROLE_OUTPUT, output)});
    std::vector<float> result(input.size());
    output.read(result);
    return result;
}

} // namespace

int main() try {
    const vkattn::Context context;
    const vkattn::Layer layer = make_layer(context);
    const std::vector<float> tokens = random_values((kPrompt + kTokens) * kWidth, 9);
    vkattn_cache_info info{};
    info.layer = layer.get();
    info.batch = 1;
    info.capacity = 64;
    info.key_type = info.value_type = VKATTN_TYPE_F32;
    const vkattn::Cache cache = context.cache(info);

    run_once(context, layer.plan(call_of(kPrompt, cache.get())), {tokens.begin(), tokens.begin() + kPrompt * kWidth});

    const vkattn::Plan plan = layer.plan(call_of(1, cache.get()));
    vkattn::Buffer token = context.buffer(kWidth * sizeof(float));
    const vkattn::Buffer output = context.buffer(kWidth * sizeof(float));
    RecordedPlans step(context,
                       {{plan, {vkattn::bind(VKATTN_ROLE_QUERY, token), vkattn::bind(VKATTN_ROLE_OUTPUT, output)}}});
    std::vector<float> answer(kWidth);
    for (std::uint32_t i = kPrompt; i < kPrompt + kTokens; ++i) {
        token.write(std::span(tokens).subspan(i * kWidth, kWidth));
        cache.reserve(1);
        step.submit_and_wait();
        output.read(answer);
    }

    const std::vector<float> whole = run_once(context, layer.plan(call_of(kPrompt + kTokens, nullptr)), tokens);
    const float difference = largest_difference(answer, {whole.end() - kWidth, whole.end()});
    std::printf("a prompt of %u tokens and %u steps of one recording: largest difference to one prefill %.1e\n",
                kPrompt, kTokens, static_cast<double>(difference));
    return difference < 1e-4f ? 0 : 1;
} catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
