# cmake -DINPUT=x.spv -DOUTPUT=x.spv.hpp -DNAME=x -P embed_spirv.cmake: writes a SPIR-V module as a C++ array of words.
file(READ "${INPUT}" hex HEX)
string(LENGTH "${hex}" hex_length)
math(EXPR word_count "${hex_length} / 8")
math(EXPR remainder "${hex_length} % 8")
string(SUBSTRING "${hex}" 0 8 magic)
if(word_count LESS 5 OR NOT remainder EQUAL 0 OR NOT magic STREQUAL "03022307")
    message(FATAL_ERROR "${INPUT} is not a little-endian SPIR-V module")
endif()

string(REPEAT "[0-9a-f]" 64 line_pattern)
string(REGEX REPLACE "(${line_pattern})" "\\1\n" hex "${hex}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])([0-9a-f][0-9a-f])([0-9a-f][0-9a-f])([0-9a-f][0-9a-f])" "0x\\4\\3\\2\\1,"
    words "${hex}")
file(WRITE "${OUTPUT}" "#pragma once
#include <cstdint>

namespace vkattn {
inline constexpr std::uint32_t ${NAME}_spv[${word_count}] = {
${words}};
}
")
