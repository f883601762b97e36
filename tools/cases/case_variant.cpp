#include "tools/cases/case_variant.hpp"

#ifdef VKATTN_HAS_JIT
#include <vkattn/jit.hpp>
#endif

namespace vkattn::tools {

#ifdef VKATTN_HAS_JIT

Variant make_variant(const Context &context, const std::string &functions) { return jit_variant(context, functions); }

std::vector<std::uint8_t> compile_variant(const std::string &functions, const std::string &name) {
    return vkattn::compile_variant(functions, name);
}

#else

namespace {
constexpr const char *kMissing =
    "variant: this build cannot compile functions, expected one with vkattn_jit (Debian: apt install glslang-dev)";
}

Variant make_variant(const Context &, const std::string &) { throw Error(VKATTN_ERROR_UNSUPPORTED, kMissing); }

std::vector<std::uint8_t> compile_variant(const std::string &, const std::string &) {
    throw Error(VKATTN_ERROR_UNSUPPORTED, kMissing);
}

#endif

} // namespace vkattn::tools
