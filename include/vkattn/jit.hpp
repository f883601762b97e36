// jit.hpp: header-only C++20 over jit.h, as vkattn.hpp is over vkattn.h. For programs that link vkattn_jit.
#ifndef VKATTN_JIT_HPP
#define VKATTN_JIT_HPP

#include <vkattn/jit.h>
#include <vkattn/vkattn.hpp>

namespace vkattn {
inline namespace v0 {
namespace detail {

// What the library vkattn_jit made, or its message of why it could not.
template <typename T>
Returned<T> returned_by_jit(vkattn_result result, T value) {
#if defined(__cpp_exceptions)
    if (result != VKATTN_SUCCESS) throw Error(result, vkattn_jit_last_error());
#endif
    return returned(result, std::move(value));
}

} // namespace detail

// Makes a variant of GLSL text, whose modules are compiled when a plan first takes them. name: what messages call the text.
// Without exceptions, vkattn_jit_last_error has the message.
inline Returned<Variant> jit_variant(const Context &context, const std::string &functions,
                                     const std::string &name = "functions") {
    const vkattn_jit_info info{.functions = functions.c_str(), .name = name.c_str()};
    vkattn_variant created = nullptr;
    const vkattn_result result = vkattn_jit_variant_create(context.get(), &info, &created);
    return detail::returned_by_jit(result, Variant(created));
}

// Compiles every module of a variant without a device: the bytes that Context::variant takes, as `vkattn compile-variant`
// writes them.
inline Returned<std::vector<std::uint8_t>> compile_variant(const std::string &functions,
                                                           const std::string &name = "functions") {
    const vkattn_jit_info info{.functions = functions.c_str(), .name = name.c_str()};
    std::vector<std::uint8_t> compiled;
    const auto take = [](void *user, const void *data, std::uint64_t bytes) {
        const auto *first = static_cast<const std::uint8_t *>(data);
        static_cast<std::vector<std::uint8_t> *>(user)->assign(first, first + bytes);
    };
    const vkattn_result result = vkattn_jit_compile(&info, take, &compiled);
    return detail::returned_by_jit(result, std::move(compiled));
}

} // namespace v0
} // namespace vkattn

#endif
