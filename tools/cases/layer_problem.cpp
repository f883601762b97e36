// Every op but "attention": tensors of a case to a layer and its call.
#include "tools/cases/case_problem.hpp"
#include "tools/io/input_error.hpp"

#include <vkattn/vkattn.hpp>

#include <algorithm>
#include <array>
#include <string_view>

namespace vkattn::tools {
namespace {

constexpr std::array<std::string_view, 14> kLayerInputs{
    "query",      "key",           "value",         "hidden_states",    "attn_mask",  "key_padding_mask", "past_key",
    "past_value", "past_k_latent", "past_v_latent", "nonpad_kv_seqlen", "block_mask", "tree_mask",        "positions"};

// What a layer keeps of the keys and values of earlier calls.
struct CacheNames {
    std::string past_key;
    std::string past_value;
    std::string present_key;
    std::string present_value;
    bool is_single = false; // all in the key: MLA's latents and rotated keys
};

CacheNames cache_names(vkattn_layer_kind kind) {
    if (kind == VKATTN_LAYER_COMPRESSED_KV)
        return {"past_k_latent", "past_v_latent", "present_k_latent", "present_v_latent"};
    if (kind == VKATTN_LAYER_MLA || kind == VKATTN_LAYER_MLA_BLOCK) return {"past_key", "", "present_key", "", true};
    return {"past_key", "past_value", "present_key", "present_value"};
}

std::vector<vkattn_weight> collect_weights(const ProblemBuilder &builder) {
    std::vector<vkattn_weight> weights;
    for (const auto &[name, tensor] : builder.input().tensors) {
        if (std::ranges::find(kLayerInputs, std::string_view(name)) != kLayerInputs.end()) continue;
        if (!is_float(tensor.dtype))
            builder.fail("tensor " + quote_name(name) + " is " + std::string(dtype_name(tensor.dtype)) +
                         ", expected F32, F16 or BF16");
        weights.push_back(vkattn::weight(name.c_str(), builder.contiguous(name, type_of(tensor.dtype), tensor.shape),
                                         tensor.bytes.data(), tensor.bytes.size()));
    }
    return weights;
}

vkattn_tensor add_sequence(ProblemBuilder &builder, vkattn_role role, const std::string &name) {
    const HostTensor &tensor = builder.required_float(name, 3, 3);
    return builder.add(role, builder.contiguous(name, type_of(tensor.dtype), tensor.shape), tensor);
}

// query alone or hidden_states: self attention; key without value: the values are made of the keys' sequence.
void add_sequences(ProblemBuilder &builder, vkattn_layer_call &call) {
    const bool is_self = builder.input().find("hidden_states") != nullptr;
    const bool has_key = builder.input().find("key") != nullptr;
    const bool has_value = builder.input().find("value") != nullptr;
    if (is_self && (has_key || has_value || builder.input().find("query") != nullptr))
        builder.fail("has hidden_states beside query, key or value, expected hidden_states alone or query, key, value");
    if (has_value && !has_key) builder.fail("has value without key, expected key, or key and value");
    call.query = add_sequence(builder, VKATTN_ROLE_QUERY, is_self ? "hidden_states" : "query");
    if (!has_key) return;
    call.key = add_sequence(builder, VKATTN_ROLE_KEY, "key");
    if (builder.input().layer.kind == VKATTN_LAYER_LATENT_MHA && !has_value) return;
    call.value = add_sequence(builder, VKATTN_ROLE_VALUE, has_value ? "value" : "key");
}

vkattn_tensor add_past(ProblemBuilder &builder, vkattn_role role, const std::string &name) {
    const HostTensor *past = builder.input().find(name);
    if (past == nullptr) return {};
    builder.check_float(name, *past, 4, 3);
    return builder.add(role, builder.contiguous(name, type_of(past->dtype), past->shape), *past);
}

void check_past(const ProblemBuilder &builder, const CacheNames &names) {
    const CaseFile &input = builder.input();
    for (const std::string_view name : {"past_key", "past_value", "past_k_latent", "past_v_latent"})
        if (input.find(std::string(name)) != nullptr && name != names.past_key && name != names.past_value)
            builder.fail("tensor '" + std::string(name) + "' is no input of op '" + input.op + "', expected " +
                         names.past_key + (names.is_single ? " alone" : " and " + names.past_value));
    if (names.is_single) return;
    if ((input.find(names.past_key) == nullptr) != (input.find(names.past_value) == nullptr))
        builder.fail("has one of " + names.past_key + " and " + names.past_value + ", expected both or neither");
}

std::uint64_t kv_heads(const vkattn_layer_config &layer) {
    return layer.num_kv_heads != 0 ? layer.num_kv_heads : layer.num_heads;
}

std::uint64_t head_dim(const vkattn_layer_config &layer) {
    if (layer.head_dim != 0) return layer.head_dim;
    return layer.num_heads == 0 ? 0 : layer.embed_dim / layer.num_heads;
}

std::vector<std::uint64_t> cache_shape(const vkattn_layer_config &layer, std::uint64_t batch, std::uint64_t kv_len) {
    if (layer.kind == VKATTN_LAYER_COMPRESSED_KV) return {batch, kv_len, layer.latent_dim};
    if (layer.kind == VKATTN_LAYER_MLA || layer.kind == VKATTN_LAYER_MLA_BLOCK)
        return {batch, kv_len, std::uint64_t{layer.kv_lora_rank} + layer.qk_rope_head_dim};
    return {batch, kv_heads(layer), kv_len, head_dim(layer)};
}

std::vector<std::uint64_t> output_shape(const vkattn_layer_config &layer, const vkattn_tensor &query) {
    if (layer.kind == VKATTN_LAYER_LATENT_QUERY) return {query.shape[0], layer.num_latents, layer.latent_dim};
    return {query.shape[0], query.shape[1], layer.embed_dim};
}

void add_outputs(ProblemBuilder &builder, const CacheNames &names, vkattn_layer_call &call) {
    const vkattn_layer_config &layer = builder.input().layer;
    const HostTensor *past = builder.input().find(names.past_key);
    const std::uint64_t batch = call.query.shape[0];
    const std::uint64_t past_len = past == nullptr ? 0 : past->shape[past->shape.size() - 2];
    const std::uint64_t fresh_len = call.key.type == VKATTN_TYPE_NONE ? call.query.shape[1] : call.key.shape[1];
    const std::uint64_t kv_len = past_len + fresh_len;
    const Dtype dtype = builder.required_float(builder.input().find("query") ? "query" : "hidden_states", 3, 3).dtype;
    const std::vector<std::uint64_t> output = output_shape(layer, call.query);
    call.output = builder.add_output("output", VKATTN_ROLE_OUTPUT, dtype, output);
    if (builder.wants("attn_weights"))
        call.attn_weights = builder.add_output("attn_weights", VKATTN_ROLE_ATTN_WEIGHTS, Dtype::kF32,
                                               {batch, layer.num_heads, output[1], kv_len});
    const bool wants_value = !names.is_single && builder.wants(names.present_value);
    if (!builder.wants(names.present_key) && !wants_value) return;
    const Dtype cached = past == nullptr ? dtype : past->dtype;
    const std::vector<std::uint64_t> cache = cache_shape(layer, batch, kv_len);
    call.present_key = builder.add_output(names.present_key, VKATTN_ROLE_PRESENT_KEY, cached, cache);
    if (names.is_single) return;
    call.present_value = builder.add_output(names.present_value, VKATTN_ROLE_PRESENT_VALUE, cached, cache);
}

void fill_masks(ProblemBuilder &builder, vkattn_layer_call &call) {
    call.attn_mask = builder.add_attn_mask();
    call.block_mask = builder.add_block_mask();
    call.tree_mask = builder.add_integers(VKATTN_ROLE_TREE_MASK, "tree_mask");
    call.key_padding_mask = builder.add_key_padding_mask();
    call.key_lengths = builder.add_integers(VKATTN_ROLE_KEY_LENGTHS, "nonpad_kv_seqlen");
    call.positions = builder.add_integers(VKATTN_ROLE_POSITIONS, "positions");
    const MaskConfig &mask = builder.input().mask;
    call.mask_flags = mask.flags;
    call.causal_alignment = builder.input().causal_alignment();
    call.window_left = mask.window_left;
    call.window_right = mask.window_right;
    call.block_q_len = mask.block_q_len;
    call.block_kv_len = mask.block_kv_len;
}

} // namespace

Problem make_layer_problem(const CaseFile &input, std::span<const std::string> wanted, vkattn_kernel kernel) {
    ProblemBuilder builder(input, wanted);
    const CacheNames names = cache_names(input.layer.kind);
    const std::array<std::string_view, 4> outputs{"output", "attn_weights", names.present_key, names.present_value};
    builder.check_wanted(std::span(outputs).first(names.is_single ? 3 : 4));
    check_past(builder, names);
    LayerProblem layer;
    layer.config = input.layer;
    layer.weights = collect_weights(builder);
    layer.call.kernel = kernel;
    layer.call.past_len = input.start_pos;
    add_sequences(builder, layer.call);
    layer.call.past_key = add_past(builder, VKATTN_ROLE_PAST_KEY, names.past_key);
    if (!names.is_single) layer.call.past_value = add_past(builder, VKATTN_ROLE_PAST_VALUE, names.past_value);
    fill_masks(builder, layer.call);
    add_outputs(builder, names, layer.call);
    return builder.finish(std::move(layer));
}

} // namespace vkattn::tools
