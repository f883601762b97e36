#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace vkattn::jit {

// Texts of functions, which anybody may have written: case files carry them. All of this takes any bytes.

// The functions of a variant that a text defines: bits of vkattn_variant_functions.
uint32_t defined_functions(std::string_view text);

// Lines of #define for functions that a text defines.
std::string defines_of(std::string_view text);

// Why no compiler is given the text: one line, which begins with "NAME:LINE:COLUMN: " where a place in it is at fault. "": it is.
std::string fault_of_text(std::string_view text);

// "NAME:LINE:COLUMN: what" of the first error of a log of glslang's. The column is that of the token which the error quotes.
std::string first_error(std::string_view log, std::string_view text);

} // namespace vkattn::jit
