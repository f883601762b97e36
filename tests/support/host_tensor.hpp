// A strided tensor in host memory, laid out exactly as a device buffer region will be.
#pragma once

#include <vkattn/vkattn.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace vkattn_test {

using Shape = std::vector<std::uint64_t>;

// Written to every byte of an output that no element covers; it must survive the run.
inline constexpr std::uint8_t kGapByte = 0xa5;
// All ones is a NaN in every floating-point type.
inline constexpr std::uint8_t kPoisonByte = 0xff;

// The row of the library's table; all zeros of VKATTN_TYPE_NONE.
inline const vkattn_type_info &type_info(vkattn_type type) {
    static const vkattn::List<vkattn_type_info> types = vkattn::enumerate_types();
    static const vkattn_type_info none{};
    return type == VKATTN_TYPE_NONE ? none : types[static_cast<std::size_t>(type) - 1];
}

inline bool is_quantised(vkattn_type type) { return type_info(type).kind == VKATTN_TYPE_KIND_QUANTISED; }

// Bytes of so many elements: of a quantised type whole blocks.
inline std::size_t type_bytes(vkattn_type type, std::size_t elements) {
    const vkattn_type_info &info = type_info(type);
    return info.block_elements == 0 ? 0 : elements / info.block_elements * info.block_bytes;
}

inline std::string type_name(vkattn_type type) { return type == VKATTN_TYPE_NONE ? "none" : type_info(type).name; }

// What rows are appended in, and the quantised ones among them.
inline std::vector<vkattn_type> cached_types() {
    std::vector<vkattn_type> types;
    for (const vkattn_type_info &info : vkattn::enumerate_types())
        if (info.cache != 0) types.push_back(info.type);
    return types;
}

inline std::vector<vkattn_type> quantised_types() {
    std::vector<vkattn_type> types = cached_types();
    std::erase_if(types, [](vkattn_type type) { return !is_quantised(type); });
    return types;
}

// What weights of linear and embedding may be stored in beside floats.
inline std::vector<vkattn_type> quantised_weight_types() {
    std::vector<vkattn_type> types;
    for (const vkattn_type_info &info : vkattn::enumerate_types())
        if (info.kind == VKATTN_TYPE_KIND_QUANTISED && info.weight != 0) types.push_back(info.type);
    return types;
}

// Rounds to nearest, ties to even (the default rounding mode of nearbyint).
inline std::uint16_t f16_from_float(float value) {
    const auto sign = static_cast<unsigned>(std::signbit(value)) << 15;
    const double magnitude = std::fabs(static_cast<double>(value));
    if (std::isnan(value)) return static_cast<std::uint16_t>(sign | 0x7e00u);
    if (magnitude >= 65520.0) return static_cast<std::uint16_t>(sign | 0x7c00u);
    if (magnitude < 0x1p-14) {
        return static_cast<std::uint16_t>(sign + static_cast<unsigned>(std::nearbyint(magnitude * 0x1p24)));
    }
    const int exponent = std::ilogb(magnitude);
    const auto mantissa = static_cast<unsigned>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
    // A mantissa rounded up to 2048 carries into the exponent by itself.
    return static_cast<std::uint16_t>(sign + (static_cast<unsigned>(exponent + 15) << 10) + (mantissa - 1024u));
}

inline float float_from_f16(std::uint16_t bits) {
    const int exponent = (bits >> 10) & 0x1f;
    const int mantissa = bits & 0x3ff;
    const float sign = (bits & 0x8000) != 0 ? -1.0f : 1.0f;
    if (exponent == 0x1f) {
        return mantissa != 0 ? std::numeric_limits<float>::quiet_NaN() : sign * std::numeric_limits<float>::infinity();
    }
    if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), -24);
    return sign * std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
}

inline std::uint16_t bf16_from_float(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
    return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

inline float float_from_bf16(std::uint16_t bits) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

} // namespace vkattn_test

#include "quantised.hpp"
#include "super_blocks.hpp"

namespace vkattn_test {

class HostTensor {
  public:
    HostTensor() = default;

    HostTensor(vkattn_type type, Shape shape) : HostTensor(type, std::move(shape), Shape{}, 0) {}

    // Empty strides mean contiguous, and reach the library as zeros.
    HostTensor(vkattn_type type, Shape shape, Shape strides, std::uint64_t offset = 0)
        : shape_(std::move(shape)), strides_(std::move(strides)) {
        view_.type = type;
        view_.rank = static_cast<std::uint32_t>(shape_.size());
        view_.offset = offset;
        for (std::size_t d = 0; d < shape_.size(); ++d) view_.shape[d] = shape_[d];
        for (std::size_t d = 0; d < strides_.size(); ++d) view_.strides[d] = strides_[d];
        if (strides_.empty()) strides_ = contiguous_strides(shape_);
        for (const std::uint64_t size : shape_)
            if (size == 0) return; // no bytes
        std::uint64_t last = offset;
        for (std::size_t d = 0; d < shape_.size(); ++d) last += (shape_[d] - 1) * strides_[d];
        const std::uint64_t bytes = type_bytes(type, last + 1);
        bytes_.assign((bytes + 3) / 4 * 4, kPoisonByte);
    }

    static Shape contiguous_strides(const Shape &shape) {
        Shape strides(shape.size(), 1);
        for (std::size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
        return strides;
    }

    bool present() const { return view_.type != VKATTN_TYPE_NONE; }
    vkattn_type type() const { return view_.type; }
    const vkattn_tensor &view() const { return view_; }
    const Shape &shape() const { return shape_; }
    std::span<const std::uint8_t> bytes() const { return bytes_; }
    std::span<std::uint8_t> bytes() { return bytes_; }

    std::uint64_t elements() const {
        std::uint64_t count = present() ? 1 : 0;
        for (const std::uint64_t size : shape_) count *= size;
        return count;
    }

    // index counts the elements in row-major order of the shape, whatever the strides.
    float get(std::uint64_t index) const {
        if (is_quantised(view_.type)) return decode(index);
        const std::uint8_t *source = bytes_.data() + byte_of(index);
        switch (view_.type) {
        case VKATTN_TYPE_F32:
            return load<float>(source);
        case VKATTN_TYPE_F16:
            return float_from_f16(load<std::uint16_t>(source));
        case VKATTN_TYPE_BF16:
            return float_from_bf16(load<std::uint16_t>(source));
        case VKATTN_TYPE_BOOL:
            return *source != 0 ? 1.0f : 0.0f;
        default:
            return static_cast<float>(load<std::int32_t>(source));
        }
    }

    void set(std::uint64_t index, float value) {
        std::uint8_t *target = bytes_.data() + byte_of(index);
        switch (view_.type) {
        case VKATTN_TYPE_F32:
            store(target, value);
            break;
        case VKATTN_TYPE_F16:
            store(target, f16_from_float(value));
            break;
        case VKATTN_TYPE_BF16:
            store(target, bf16_from_float(value));
            break;
        case VKATTN_TYPE_BOOL:
            store(target, static_cast<std::uint8_t>(value != 0.0f));
            break;
        default: // the largest int32_t is not a float: the next one up means it
            store(target, static_cast<std::int32_t>(std::clamp<double>(value, INT32_MIN, INT32_MAX)));
            break;
        }
    }

    // The bytes of the block that begins with the element.
    std::span<std::uint8_t> block(std::uint64_t index) {
        return {bytes_.data() + byte_of(index), type_info(view_.type).block_bytes};
    }

    // Quantises a block of 32 elements, the first of which is `index`.
    void set_block(std::uint64_t index, std::span<const float, kBlockElements> values) {
        codec_of(view_.type).encode(values, bytes_.data() + byte_of(index));
    }

    std::vector<double> values() const {
        std::vector<double> result(elements());
        for (std::uint64_t i = 0; i < result.size(); ++i) result[i] = static_cast<double>(get(i));
        return result;
    }

    std::vector<float> floats() const {
        std::vector<float> result(elements());
        for (std::uint64_t i = 0; i < result.size(); ++i) result[i] = get(i);
        return result;
    }

    // NaN in every element, the gap pattern everywhere else: what an output holds before a run.
    void poison_as_output() {
        std::fill(bytes_.begin(), bytes_.end(), kGapByte);
        for (std::uint64_t i = 0; i < elements(); ++i) {
            std::memset(bytes_.data() + byte_of(i), kPoisonByte, type_bytes(view_.type, 1));
        }
    }

    // The bytes of gaps that no longer hold the gap pattern.
    std::uint64_t damaged_gap_bytes() const {
        std::vector<bool> covered(bytes_.size(), false);
        for (std::uint64_t i = 0; i < elements(); ++i) {
            for (std::size_t k = 0; k < type_bytes(view_.type, 1); ++k) covered[byte_of(i) + k] = true;
        }
        std::uint64_t damaged = 0;
        for (std::size_t i = 0; i < bytes_.size(); ++i) damaged += !covered[i] && bytes_[i] != kGapByte ? 1u : 0u;
        return damaged;
    }

  private:
    template <typename T>
    static T load(const std::uint8_t *source) {
        T value;
        std::memcpy(&value, source, sizeof value);
        return value;
    }

    template <typename T>
    static void store(std::uint8_t *target, T value) {
        std::memcpy(target, &value, sizeof value);
    }

    std::uint64_t element_of(std::uint64_t index) const {
        std::uint64_t element = view_.offset;
        for (std::size_t d = shape_.size(); d-- > 0;) {
            element += index % shape_[d] * strides_[d];
            index /= shape_[d];
        }
        return element;
    }

    std::size_t byte_of(std::uint64_t index) const { return type_bytes(view_.type, element_of(index)); }

    float decode(std::uint64_t index) const {
        if (is_super_block(view_.type))
            return super_block_value(view_.type, bytes_.data() + byte_of(index), element_of(index) % 256);
        return codec_of(view_.type).decode(bytes_.data() + byte_of(index), element_of(index) % kBlockElements);
    }

    vkattn_tensor view_{};
    Shape shape_;
    Shape strides_;
    std::vector<std::uint8_t> bytes_;
};

inline void fill_normal(HostTensor &tensor, std::mt19937 &random, float deviation = 1.0f) {
    std::normal_distribution<float> normal(0.0f, deviation);
    if (is_super_block(tensor.type())) {
        for (std::uint64_t i = 0; i < tensor.elements(); i += type_info(tensor.type()).block_elements)
            fill_super_block(tensor.type(), tensor.block(i), random, deviation);
        return;
    }
    if (is_quantised(tensor.type())) {
        std::array<float, kBlockElements> block;
        for (std::uint64_t i = 0; i < tensor.elements(); i += kBlockElements) {
            for (float &value : block) value = normal(random);
            tensor.set_block(i, block);
        }
        return;
    }
    for (std::uint64_t i = 0; i < tensor.elements(); ++i) tensor.set(i, normal(random));
}

inline HostTensor normal_tensor(vkattn_type type, Shape shape, Shape strides, std::mt19937 &random,
                                float deviation = 1.0f) {
    HostTensor tensor(type, std::move(shape), std::move(strides));
    fill_normal(tensor, random, deviation);
    return tensor;
}

inline HostTensor normal_tensor(vkattn_type type, Shape shape, std::mt19937 &random, float deviation = 1.0f) {
    return normal_tensor(type, std::move(shape), {}, random, deviation);
}

// The first `columns` elements of each row; of quantised ones in f32.
inline HostTensor first_columns(const HostTensor &tensor, std::uint64_t columns) {
    const std::uint64_t width = tensor.shape().back();
    Shape shape(tensor.shape().begin(), tensor.shape().end() - 1);
    shape.push_back(columns);
    HostTensor result(is_quantised(tensor.type()) ? VKATTN_TYPE_F32 : tensor.type(), shape);
    for (std::uint64_t i = 0; i < result.elements(); ++i) result.set(i, tensor.get(i / columns * width + i % columns));
    return result;
}

inline HostTensor tensor_of(vkattn_type type, Shape shape, std::span<const float> values) {
    HostTensor tensor(type, std::move(shape));
    for (std::uint64_t i = 0; i < tensor.elements(); ++i) tensor.set(i, values[i]);
    return tensor;
}

} // namespace vkattn_test
