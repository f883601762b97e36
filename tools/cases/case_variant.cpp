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

void require_variant_compiler() {}

#else

void require_variant_compiler() {
    throw Error(VKATTN_ERROR_UNSUPPORTED,
                "variant: this build cannot compile functions, expected one with vkattn_jit, which takes "
                "glslang's headers and libraries (Debian: apt install glslang-dev)");
}

Variant make_variant(const Context &, const std::string &) {
    require_variant_compiler();
    return {};
}

std::vector<std::uint8_t> compile_variant(const std::string &, const std::string &) {
    require_variant_compiler();
    return {};
}

#endif

} // namespace vkattn::tools
