#include "tools/cases/case_variant.hpp"

#ifdef VKATTN_HAS_JIT
#include <vkattn/jit.h>
#endif

namespace vkattn::tools {

#ifdef VKATTN_HAS_JIT

VariantHandle make_variant(const Context &context, const std::string &functions) {
    const vkattn_jit_info info{functions.c_str(), nullptr, nullptr};
    vkattn_variant variant = nullptr;
    if (vkattn_jit_variant_create(context.get(), &info, &variant) != VKATTN_SUCCESS)
        throw Error(VKATTN_ERROR_INVALID_ARGUMENT, vkattn_jit_last_error());
    return {variant, vkattn_variant_destroy};
}

std::vector<std::byte> compile_variant(const std::string &functions, const std::string &name) {
    const vkattn_jit_info info{functions.c_str(), name.c_str(), nullptr};
    std::vector<std::byte> compiled;
    const auto take = [](void *user, const void *data, std::uint64_t bytes) {
        const auto *first = static_cast<const std::byte *>(data);
        static_cast<std::vector<std::byte> *>(user)->assign(first, first + bytes);
    };
    if (vkattn_jit_compile(&info, take, &compiled) != VKATTN_SUCCESS)
        throw Error(VKATTN_ERROR_INVALID_ARGUMENT, vkattn_jit_last_error());
    return compiled;
}

#else

namespace {
constexpr const char *kMissing =
    "variant: this build cannot compile functions, expected one with vkattn_jit (Debian: apt install glslang-dev)";
}

VariantHandle make_variant(const Context &, const std::string &) { throw Error(VKATTN_ERROR_UNSUPPORTED, kMissing); }

std::vector<std::byte> compile_variant(const std::string &, const std::string &) {
    throw Error(VKATTN_ERROR_UNSUPPORTED, kMissing);
}

#endif

} // namespace vkattn::tools
