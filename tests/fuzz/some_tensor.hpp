// Sizes and tensors out of a fuzzer's input: mostly right, some of them far too large.
#pragma once

#include "runtime/problem/tensor.hpp"

#include <fuzzer/FuzzedDataProvider.h>

#include <cstdint>
#include <initializer_list>

inline constexpr vkattn_type kSomeFloats[] = {VKATTN_TYPE_F32, VKATTN_TYPE_F16, VKATTN_TYPE_BF16};

// Any type, and none.
inline vkattn_type some_type(FuzzedDataProvider &data) {
    return static_cast<vkattn_type>(data.ConsumeIntegralInRange<std::size_t>(0, vkattn::stored_types().size()));
}

inline vkattn_type some_cached_type(FuzzedDataProvider &data) {
    const vkattn_type type = some_type(data);
    return vkattn::is_cached(type) ? type : VKATTN_TYPE_F16;
}

inline std::uint64_t some_size(FuzzedDataProvider &data) {
    switch (data.ConsumeIntegralInRange(0, 3)) {
    case 0:
        return data.ConsumeIntegralInRange<std::uint64_t>(1, 8);
    case 1:
        return data.ConsumeIntegralInRange<std::uint64_t>(1, 600);
    case 2:
        return std::uint64_t{1} << data.ConsumeIntegralInRange(0, 33);
    default:
        return data.ConsumeIntegral<std::uint32_t>();
    }
}

inline vkattn_tensor some_tensor(FuzzedDataProvider &data, vkattn_type type,
                                 std::initializer_list<std::uint64_t> shape) {
    vkattn_tensor tensor = vkattn::contiguous(data.ConsumeProbability<float>() < 0.9f ? type : some_type(data), shape);
    if (data.ConsumeBool()) return tensor;
    for (std::uint32_t dim = 0; dim < tensor.rank; ++dim)
        if (data.ConsumeBool()) tensor.strides[dim] = some_size(data) - 1;
    if (data.ConsumeBool()) tensor.offset = some_size(data);
    if (data.ConsumeProbability<float>() < 0.1f) tensor.shape[data.ConsumeIntegralInRange(0, 3)] = some_size(data);
    return tensor;
}
