/* What every shader and the host agree on: storage formats, quantised blocks, lists of constants. The headers of this
 * folder are read by GLSL and by C++.
 * A constant list is an X-macro of (id, NAME, default), in the order of the ids from 0 on. In GLSL it declares the
 * specialisation constants, in C++ a struct of them: constant id n is the struct's n-th member. HEADER_interface is what
 * the shaders of a header share; a line of the variant table names the header. */
#ifndef VKATTN_INTERFACE_COMMON_H
#define VKATTN_INTERFACE_COMMON_H

#ifdef __cplusplus
#include <array>
#include <cstdint>
#include <span>

namespace vkattn::gpu {
using uint = std::uint32_t;
struct alignas(16) uvec4 : std::array<uint, 4> {}; /* as in GLSL: such members stand first */

struct Interface {
    std::span<const char *const> constants; /* names, in the order of their ids */
    uint push_bytes;
};
} // namespace vkattn::gpu

#define VKATTN_CONSTANT(id, NAME, default_value) uint NAME = default_value;
#define VKATTN_CONSTANT_INDEX(id, NAME, default_value) NAME,
#define VKATTN_CONSTANT_CHECK(id, NAME, default_value)                                                                 \
    static_assert(static_cast<uint>(Index::NAME) == (id), #NAME ": the id is not the place in the list");
#define VKATTN_CONSTANT_NAME(id, NAME, default_value) #NAME,
#define VKATTN_INTERFACE(header, Name, LIST)                                                                           \
    struct Name##Constants {                                                                                           \
        enum class Index : uint { LIST(VKATTN_CONSTANT_INDEX) };                                                       \
        static constexpr const char *kNames[] = {LIST(VKATTN_CONSTANT_NAME)};                                          \
        LIST(VKATTN_CONSTANT)                                                                                          \
        LIST(VKATTN_CONSTANT_CHECK)                                                                                    \
    };                                                                                                                 \
    static_assert(sizeof(Name##Push) <= 128);                                                                          \
    inline constexpr Interface header##_interface{Name##Constants::kNames, sizeof(Name##Push)};
#else
#define VKATTN_CONSTANT(id, NAME, default_value) layout(constant_id = id) const uint NAME = default_value;
#endif

/* storage formats of tensor elements */
#define FORMAT_NONE 0u
#define FORMAT_F32 1u
#define FORMAT_F16 2u
#define FORMAT_BF16 3u
#define FORMAT_BOOL 4u
#define FORMAT_Q8_0 6u
#define FORMAT_Q4_0 7u

/* of every module that unpacks f16, beside those of its list: the device's trait of that name */
#define CONSTANT_UNPACKS_HALVES 63

/* ggml's quantised blocks of 32 values: an f16 scale d, then 32 signed bytes q (value d * q), or 16 bytes of which the
 * low halves are values 0 .. 15 and the high halves values 16 .. 31 (value d * (q - 8)). */
#define QUANTISED_BLOCK 32u
#define Q8_0_BYTES 34u
#define Q4_0_BYTES 18u

/* The first words of all push constants: first_group[3], see workgroup(); then bases, see base_bytes (common/push.glsl). */
#define PUSH_FIRST_GROUP_WORDS 3

#define ELEMENTWISE_WORKGROUP_SIZE 64 /* of rope, kv_append and advance_lengths */

#endif
