#include "tools/estimate/workspace.hpp"

#include "tools/io/input_error.hpp"
#include "tools/tensors/stored_types.hpp"

namespace vkattn::tools {
namespace {

// The in-place cache of a call, of so many tokens in all.
void add_cache(const Estimate &estimate, std::uint64_t tokens, vkattn_layer_call &call) {
    const vkattn_layer_config &c = estimate.model.config;
    const vkattn_type type = estimate.info.cache_type;
    const std::uint64_t batch = estimate.info.batch;
    if (c.kind == VKATTN_LAYER_MLA || c.kind == VKATTN_LAYER_MLA_BLOCK) {
        call.present_key = tensor(type, {batch, tokens, c.kv_lora_rank + c.qk_rope_head_dim});
    } else if (c.kind == VKATTN_LAYER_COMPRESSED_KV) {
        call.present_key = call.present_value = tensor(type, {batch, tokens, c.latent_dim});
    } else if (c.kind == VKATTN_LAYER_MHA) {
        const std::uint64_t heads = c.num_kv_heads != 0 ? c.num_kv_heads : c.num_heads;
        const std::uint64_t size = c.head_dim != 0 ? c.head_dim : c.embed_dim / c.num_heads;
        call.present_key = call.present_value = tensor(type, {batch, heads, tokens, size});
    }
}

bool keeps_cache(const Estimate &estimate) {
    return estimate.has_cache() && estimate.model.config.kind != VKATTN_LAYER_LATENT_MHA;
}

vkattn_layer_call call_of(const Estimate &estimate, std::uint64_t past, std::uint64_t tokens) {
    const vkattn_layer_config &c = estimate.model.config;
    const std::uint64_t batch = estimate.info.batch;
    vkattn_layer_call call{};
    const bool reads_input = c.kind == VKATTN_LAYER_LATENT_QUERY;
    call.query = tensor(estimate.info.weight_type, {batch, tokens, reads_input ? c.input_dim : c.embed_dim});
    call.output = call.query;
    if (reads_input) call.output = tensor(estimate.info.weight_type, {batch, c.num_latents, c.latent_dim});
    if (estimate.info.causal != 0 && !reads_input) call.mask_flags = VKATTN_MASK_CAUSAL;
    call.past_len = static_cast<std::uint32_t>(past);
    if (keeps_cache(estimate)) add_cache(estimate, past + tokens, call);
    return call;
}

std::uint64_t workspace_of(const Context &context, const Estimate &estimate, std::uint64_t past, std::uint64_t tokens) {
    try {
        return context.measure(estimate.model.config, call_of(estimate, past, tokens)).workspace_bytes;
    } catch (const Error &error) {
        throw InputError(estimate.model.name, error.what());
    }
}

} // namespace

void measure_workspaces(const Context &context, std::span<Estimate> estimates) {
    for (Estimate &estimate : estimates) {
        const vkattn_estimate_info &info = estimate.info;
        if (keeps_cache(estimate) && !is_float(info.cache_type)) continue;
        estimate.prefill_workspace = workspace_of(context, estimate, 0, info.prefill_len);
        if (keeps_cache(estimate)) estimate.step_workspace = workspace_of(context, estimate, info.context_len - 1, 1);
    }
}

} // namespace vkattn::tools
