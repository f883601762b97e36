#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace vkattn::jit {

// A file of the folder shaders.
struct ShaderText {
    std::string_view name; // in the folder
    std::string_view text;
};

// A line of the variant table that calls functions of a variant.
struct VariantModule {
    const char *name;
    std::string_view source;     // in the folder shaders
    const char *defines;         // lines of #define
    std::string_view extensions; // of GLSL, separated by spaces, that the compiler must know
    uint32_t calls;              // vkattn_variant_functions
};

// Made by cmake/variant_sources.cmake.
std::span<const ShaderText> shader_texts();
std::span<const VariantModule> variant_modules();

} // namespace vkattn::jit
