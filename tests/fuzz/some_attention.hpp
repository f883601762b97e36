// A description of attention out of a fuzzer's input.
#pragma once

#include "tests/fuzz/some_tensor.hpp"

#include <algorithm>

inline vkattn_attention_desc some_attention(FuzzedDataProvider &data) {
    const std::uint64_t batch = some_size(data), kv_heads = some_size(data), group = data.ConsumeIntegralInRange(1, 32);
    const std::uint64_t q_len = some_size(data), kv_len = some_size(data);
    const std::uint64_t size = data.ConsumeIntegralInRange(1, 600),
                        v_size = data.ConsumeBool() ? size : some_size(data);
    const vkattn_type type = data.PickValueInArray(kSomeFloats);
    const vkattn_type key_type = some_cached_type(data), value_type = some_cached_type(data);
    vkattn_attention_desc desc{};
    const bool packed_q = data.ConsumeBool(), packed_k = data.ConsumeBool(), paged = data.ConsumeBool();
    const std::uint64_t pages = some_size(data), page = std::uint64_t{1} << data.ConsumeIntegralInRange(0, 9);
    desc.query = some_tensor(data, type, {packed_q ? 1 : batch, kv_heads * group, q_len, size});
    desc.output = some_tensor(data, type, {packed_q ? 1 : batch, kv_heads * group, q_len, v_size});
    desc.key = some_tensor(data, key_type,
                           {paged      ? pages
                            : packed_k ? 1
                                       : batch,
                            kv_heads, paged ? page : kv_len, size});
    desc.value = some_tensor(data, value_type,
                             {paged      ? pages
                              : packed_k ? 1
                                         : batch,
                              kv_heads, paged ? page : kv_len, v_size});
    if (data.ConsumeBool()) desc.value = {};
    if (packed_q) desc.cu_seqlens_q = some_tensor(data, VKATTN_TYPE_I32, {batch + 1});
    if (packed_k) desc.cu_seqlens_k = some_tensor(data, VKATTN_TYPE_I32, {batch + 1});
    if (paged) desc.block_table = some_tensor(data, VKATTN_TYPE_I32, {batch, some_size(data)});
    if (data.ConsumeBool()) desc.max_seqlen_q = static_cast<std::uint32_t>(some_size(data));
    if (data.ConsumeBool()) desc.max_seqlen_k = static_cast<std::uint32_t>(some_size(data));
    if (data.ConsumeBool()) desc.log_sum_exp = some_tensor(data, VKATTN_TYPE_F32, {batch, kv_heads * group, q_len});
    if (data.ConsumeBool()) desc.attn_mask = some_tensor(data, type, {q_len, kv_len});
    if (data.ConsumeBool()) desc.attn_mask = some_tensor(data, VKATTN_TYPE_BOOL, {batch, 1, q_len, kv_len});
    if (data.ConsumeBool()) // in turn, where they are divisors
        desc.attn_mask =
            some_tensor(data, VKATTN_TYPE_F16, {batch, data.ConsumeIntegralInRange(1u, 4u), q_len, kv_len});
    if (data.ConsumeBool()) {
        desc.block_q_len = static_cast<std::uint32_t>(some_size(data)) - 1;
        desc.block_kv_len = data.ConsumeIntegralInRange(1u, 256u);
        const std::uint64_t q_blocks = data.ConsumeBool() ? 1 : q_len / std::max(desc.block_q_len, 1u) + 1;
        desc.block_mask =
            some_tensor(data, VKATTN_TYPE_I32,
                        {1, kv_heads * group, q_blocks, (kv_len + desc.block_kv_len - 1) / desc.block_kv_len});
    }
    if (data.ConsumeBool()) desc.key_padding_mask = some_tensor(data, VKATTN_TYPE_BOOL, {batch, kv_len});
    if (data.ConsumeBool()) desc.key_lengths = some_tensor(data, VKATTN_TYPE_I32, {batch});
    if (data.ConsumeBool()) desc.past_lengths = some_tensor(data, VKATTN_TYPE_I32, {batch});
    if (data.ConsumeBool()) desc.alibi_slopes = some_tensor(data, VKATTN_TYPE_F32, {kv_heads * group});
    if (data.ConsumeBool()) desc.sinks = some_tensor(data, VKATTN_TYPE_F32, {kv_heads * group});
    if (data.ConsumeProbability<float>() < 0.2f)
        desc.attn_weights = some_tensor(data, VKATTN_TYPE_F32, {batch, kv_heads * group, q_len, kv_len});
    const std::uint64_t tree_words = (q_len + 31) / 32;
    if (data.ConsumeBool())
        desc.tree_mask = packed_q ? some_tensor(data, VKATTN_TYPE_I32, {q_len, tree_words})
                                  : some_tensor(data, VKATTN_TYPE_I32, {batch, q_len, tree_words});
    desc.mask_flags = data.ConsumeIntegralInRange(0u, 16u);
    desc.window_left = data.ConsumeIntegral<std::int32_t>();
    desc.window_right = data.ConsumeIntegral<std::int32_t>();
    if (data.ConsumeBool()) desc.past_len = data.ConsumeIntegral<std::uint32_t>();
    if (data.ConsumeBool()) desc.scale = data.ConsumeFloatingPoint<float>();
    desc.softcap = data.ConsumeFloatingPointInRange(0.0f, 100.0f);
    desc.dropout_p = data.ConsumeFloatingPointInRange(0.0f, 1.0f);
    desc.batch_invariant = data.ConsumeBool();
    desc.causal_alignment = static_cast<vkattn_causal_alignment>(data.ConsumeIntegralInRange(0, 2));
    desc.kv_head_mapping = static_cast<vkattn_kv_head_mapping>(data.ConsumeIntegralInRange(0, 2));
    desc.query_rounding = data.PickValueInArray({VKATTN_TYPE_NONE, VKATTN_TYPE_F16, VKATTN_TYPE_BF16});
    desc.region_alignment = data.PickValueInArray({0u, 4u, 8u});
    desc.kernel = static_cast<vkattn_kernel>(data.ConsumeIntegralInRange<int>(0, VKATTN_KERNEL_COUNT));
    return desc;
}
