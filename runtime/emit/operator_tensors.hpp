#pragma once

#include "runtime/emit/judged.hpp"
#include "runtime/plan/builder.hpp"
#include "runtime/problem/tensor.hpp"

namespace vkattn {

// The tensors of an operator: its table (see shaders/interface/common.h) as a struct of views, and what walks it.

// What is checked of a tensor. Words are contiguous where their form says so; other tensors may have any strides.
enum class TensorForm {
    kOwn,            // nothing: the operator does
    kTokens,         // floats [B,L,N], last stride 1
    kOptionalTokens, // the same, or absent
    kVector,         // floats [N], contiguous, or absent
    kRows,           // floats [B,H,L,D]
    kI32,            // of the type and of the dims, or absent
    kF32,
    kContiguousI32,
    kContiguousF32,
};

enum class TensorAccess { kRead, kWritten };

// A line of a table.
struct TensorRow {
    uint32_t binding;
    const char *name;
    vkattn_role role;
    TensorAccess access;
    TensorForm form;
    const char *dims;
};
template <class Tensors>
struct OperatorTensor : TensorRow {
    View Tensors::*member;
};

template <class Strides>
void copy_strides(const vkattn_tensor &tensor, Strides &strides) {
    for (uint32_t dim = 0; dim < std::size(strides); ++dim) strides[dim] = static_cast<uint32_t>(tensor.strides[dim]);
}

#define VKATTN_TENSOR_MEMBER(OPERATOR, binding, name, NAME, ROLE, Access, Form, dims) View name{};
#define VKATTN_TENSOR_ROW(OPERATOR, binding, name, NAME, ROLE, Access, Form, dims)                                     \
    OperatorTensor<Self>{{binding, #name, VKATTN_ROLE_##ROLE, TensorAccess::k##Access, TensorForm::k##Form, #dims},    \
                         &Self::name},
#define VKATTN_TENSOR_GIVEN(OPERATOR, binding, name, NAME, ROLE, Access, Form, dims)                                   \
    if constexpr (requires { desc.name.strides; }) tensors.name = role_view(desc.name, VKATTN_ROLE_##ROLE);            \
    if constexpr (requires { desc.states.name.strides; })                                                              \
        tensors.name = role_view(desc.states.name, VKATTN_ROLE_##ROLE);
#define VKATTN_TENSOR_WORDS(OPERATOR, binding, name, NAME, ROLE, Access, Form, dims)                                   \
    if constexpr (requires { words.NAME##_FORMAT; }) words.NAME##_FORMAT = format_of((name).tensor);                   \
    if constexpr (requires { words.NAME##_PAIRS; }) words.NAME##_PAIRS = present(name) && in_pairs((name).tensor);     \
    if constexpr (requires { words.HAS_##NAME; }) words.HAS_##NAME = present(name);                                    \
    if constexpr (requires { words.name##_strides; }) copy_strides((name).tensor, words.name##_strides);

// The inside of the struct of an operator's tensors.
#define VKATTN_OPERATOR_TABLE(Tensors, Name, LIST)                                                                     \
    using Self = Tensors;                                                                                              \
    using Constants = gpu::Name##Constants;                                                                            \
    using Push = gpu::Name##Push;                                                                                      \
    static constexpr auto table() { return std::array{LIST(VKATTN_TENSOR_ROW)}; }                                      \
    /* The members of a description, and of its states, that bear their names, unchecked. */                           \
    template <class Desc>                                                                                              \
    static Self of(const Desc &desc) {                                                                                 \
        Self tensors;                                                                                                  \
        LIST(VKATTN_TENSOR_GIVEN) return tensors;                                                                      \
    }                                                                                                                  \
    /* Tells constants, push constants or uniforms what they have of the tensors: formats, strides ... */              \
    template <class Words>                                                                                             \
    void describe(Words &words) const {                                                                                \
        LIST(VKATTN_TENSOR_WORDS)                                                                                      \
    }

#define VKATTN_OPERATOR(Name, LIST)                                                                                    \
    struct Name##Tensors {                                                                                             \
        LIST(VKATTN_TENSOR_MEMBER)                                                                                     \
        VKATTN_OPERATOR_TABLE(Name##Tensors, Name, LIST)                                                               \
    };

template <class Tensors>
void allow_roles(PlanBuilder &builder, const Tensors &tensors) {
    for (const auto &row : Tensors::table()) allow_role(builder, tensors.*row.member);
}

constexpr BindingSet kAllBindings = ~BindingSet{0};
constexpr BindingSet binding_set(std::initializer_list<uint32_t> bindings) {
    BindingSet set = 0;
    for (const uint32_t binding : bindings) set |= BindingSet{1} << binding;
    return set;
}

template <class Tensors>
void bind_tensors(PlanBuilder &builder, Step &step, const Tensors &tensors, BindingSet bindings = kAllBindings) {
    for (const auto &row : Tensors::table())
        if ((bindings >> row.binding & 1) != 0) bind(builder, step, row.binding, tensors.*row.member);
}

// Adds a step that binds the tensors, those of the bindings; its constants and push constants are told of all of them. Fails where
// the self-test has found the shader wrong.
template <class Tensors>
Step &add_step(PlanBuilder &builder, const Shader &shader, const Tensors &tensors,
               typename Tensors::Constants constants, typename Tensors::Push push, BindingSet bindings = kAllBindings) {
    require_right(builder, shader);
    tensors.describe(constants);
    tensors.describe(push);
    Step &step = builder.add_step(shader, constants, push);
    bind_tensors(builder, step, tensors, bindings);
    return step;
}

} // namespace vkattn
