// Sizes and tensors out of a fuzzer's input: mostly right, some of them far too large.
#pragma once

#include "runtime/problem/tensor.hpp"

#include <fuzzer/FuzzedDataProvider.h>

#include <cstdint>
#include <initializer_list>

constexpr vkattn_type kTypes[] = {VKATTN_TYPE_F32, VKATTN_TYPE_F16,  VKATTN_TYPE_BF16, VKATTN_TYPE_BOOL,
                                  VKATTN_TYPE_I32, VKATTN_TYPE_Q8_0, VKATTN_TYPE_Q4_0, VKATTN_TYPE_NONE};

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
    vkattn_tensor tensor =
        vkattn::contiguous(data.ConsumeProbability<float>() < 0.9f ? type : data.PickValueInArray(kTypes), shape);
    if (data.ConsumeBool()) return tensor;
    for (std::uint32_t dim = 0; dim < tensor.rank; ++dim)
        if (data.ConsumeBool()) tensor.strides[dim] = some_size(data) - 1;
    if (data.ConsumeBool()) tensor.offset = some_size(data);
    if (data.ConsumeProbability<float>() < 0.1f) tensor.shape[data.ConsumeIntegralInRange(0, 3)] = some_size(data);
    return tensor;
}
