/* What every shader and the host agree on: stored types, lists of constants. The headers of this
 * folder are read by GLSL and by C++.
 * A constant list is an X-macro of (id, NAME, default), in the order of the ids from 0 on. In GLSL it declares the
 * specialisation constants, in C++ a struct of them: constant id n is the struct's n-th member. HEADER_interface is what
 * the shaders of a header share; a line of the variant table names the header.
 *
 * A tensor list is an X-macro too, the operator's table, a line each tensor:
 * X(OPERATOR, binding, name, NAME, ROLE, Access, Form, dims)
 *   name    of the member of the operator's description, and in messages; its strides are pushed as name_strides
 *   NAME    of the constants NAME_FORMAT, NAME_PAIRS and HAS_NAME: those of these that the operator has
 *   ROLE    VKATTN_ROLE_ROLE is where callers bind it; WORKSPACE: the plan does
 *   Access  Read or Written
 *   Form    what is checked of it: TensorForm in runtime/emit/operator_tensors.hpp
 *   dims    a letter each; what has one letter has one size
 * In GLSL it declares the bindings, BINDING_OPERATOR_NAME; in C++ those and, by VKATTN_OPERATOR, the struct of the tensors. */
#ifndef VKATTN_INTERFACE_COMMON_H
#define VKATTN_INTERFACE_COMMON_H

#include "stored_types.h"

#ifdef __cplusplus
#include <array>
#include <cstdint>
#include <span>

namespace vkattn::gpu {
using uint = std::uint32_t;
struct alignas(16) uvec4 : std::array<uint, 4> {}; /* as in GLSL: such members stand first */
struct alignas(16) vec4 : std::array<float, 4> {};

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

#ifdef __cplusplus
#define VKATTN_NUMBER(NAME, value) constexpr ::vkattn::gpu::uint NAME = value;
#define VKATTN_BINDINGS(LIST)                                                                                          \
    namespace vkattn {                                                                                                 \
    LIST(VKATTN_BINDING)                                                                                               \
    }
#else
#define VKATTN_NUMBER(NAME, value) const uint NAME = value;
#define VKATTN_BINDINGS(LIST) LIST(VKATTN_BINDING)
#endif
#define VKATTN_BINDING(OPERATOR, binding, name, NAME, ROLE, Access, Form, dims)                                        \
    VKATTN_NUMBER(BINDING_##OPERATOR##_##NAME, binding)

/* of every module that unpacks f16, beside those of its list: the device's trait of that name */
#define CONSTANT_UNPACKS_HALVES 63

/* The first words of all push constants: first_group[3], see workgroup(); then bases, see base_bytes (common/push.glsl). */
#define PUSH_FIRST_GROUP_WORDS 3

#define ELEMENTWISE_WORKGROUP_SIZE 64 /* of advance_lengths */

#endif
