# cmake -DSOURCE=FOLDER -DOUTPUT=FOLDER -DNAMES=FILE,... -P embed_text.cmake: writes text files as C++ strings, for runtime/jit,
# and the first 64 bits of their SHA-256, and of the modules'.
string(REPLACE "," ";" NAMES "${NAMES}")
file(SHA256 ${OUTPUT}/modules.inc hash) # their names, #defines and functions
set(hashes "modules ${hash}\n")
set(entries "")
foreach(name IN LISTS NAMES)
    file(SHA256 ${SOURCE}/${name} hash)
    string(APPEND hashes "${name} ${hash}\n")
    file(READ ${SOURCE}/${name} text)
    set(literals "")
    string(LENGTH "${text}" length)
    foreach(at RANGE 0 ${length} 8000) # compilers bound the length of a literal
        string(SUBSTRING "${text}" ${at} 8000 part)
        string(APPEND literals "R\"glsl(${part})glsl\"\n")
    endforeach()
    string(APPEND entries "{\"${name}\",\n${literals}\"\"sv},\n") # a suffix knows the length; compilers bound the steps of counting it
endforeach()
string(SHA256 hash "${hashes}")
string(SUBSTRING "${hash}" 0 16 hash)
set(identity "#pragma once
#include <cstdint>

namespace vkattn {
inline constexpr std::uint64_t kShaderTexts = 0x${hash}u; // another where the text of any shader is
}
")
file(MAKE_DIRECTORY ${OUTPUT}/vkattn_variant)
file(WRITE ${OUTPUT}/vkattn_variant/identity.hpp "${identity}")
file(WRITE ${OUTPUT}/sources.cpp "#include \"runtime/jit/sources.hpp\"

#include <vkattn/variants.h>

namespace vkattn::jit {
namespace {
using namespace std::string_view_literals;

constexpr ShaderText kTexts[] = {
${entries}};

constexpr VariantModule kModules[] = {
#include \"modules.inc\"
};
} // namespace

std::span<const ShaderText> shader_texts() { return kTexts; }
std::span<const VariantModule> variant_modules() { return kModules; }
} // namespace vkattn::jit
")
