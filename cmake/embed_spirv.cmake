# cmake -DINPUT=x.spv -DOUTPUT=x.spv.hpp -DNAME=x -DPACKED=ON -P embed_spirv.cmake: writes a SPIR-V module as a C++ array, of words (NAME_spv) or,
# PACKED, of what is deflated (NAME_packed, of NAME_words words; by eight bytes, the first one the lowest, filled up with 0: archives keep
# their digits in fewer bytes than those of bytes by themselves).
file(SIZE "${INPUT}" bytes)
math(EXPR word_count "${bytes} / 4")
math(EXPR remainder "${bytes} % 4")
file(READ "${INPUT}" magic LIMIT 4 HEX)
if(word_count LESS 5 OR NOT remainder EQUAL 0 OR NOT magic STREQUAL "03022307")
    message(FATAL_ERROR "${INPUT} is not a little-endian SPIR-V module")
endif()

string(REPEAT "[0-9a-f]" 64 line_pattern)
if(PACKED)
    file(ARCHIVE_CREATE OUTPUT "${OUTPUT}.gz" PATHS "${INPUT}" FORMAT raw COMPRESSION GZip COMPRESSION_LEVEL 9)
    file(READ "${OUTPUT}.gz" hex HEX)
    file(REMOVE "${OUTPUT}.gz")
    if(NOT hex MATCHES "^1f8b0800") # a header of ten bytes, without a name
        message(FATAL_ERROR "${OUTPUT}.gz begins otherwise, expected a header of gzip without flags")
    endif()
    string(LENGTH "${hex}" length)
    math(EXPR length "${length} - 2 * 18") # the header, and eight bytes of checks behind
    string(SUBSTRING "${hex}" 20 ${length} hex)
    math(EXPR missing "(16 - ${length} % 16) % 16")
    string(REPEAT "0" ${missing} zeros)
    string(REGEX REPLACE "(${line_pattern})" "\\1\n" hex "${hex}${zeros}")
    string(REPEAT "([0-9a-f][0-9a-f])" 8 word_pattern)
    string(REGEX REPLACE "${word_pattern}" "0x\\8\\7\\6\\5\\4\\3\\2\\1," values "${hex}")
    set(array "inline constexpr const char *${NAME}_why = \"\"; // it is built
inline constexpr std::uint32_t ${NAME}_words = ${word_count};
inline constexpr std::uint64_t ${NAME}_packed[] = {")
else()
    file(READ "${INPUT}" hex HEX)
    string(REGEX REPLACE "(${line_pattern})" "\\1\n" hex "${hex}")
    string(REGEX REPLACE "([0-9a-f][0-9a-f])([0-9a-f][0-9a-f])([0-9a-f][0-9a-f])([0-9a-f][0-9a-f])" "0x\\4\\3\\2\\1,"
        values "${hex}")
    set(array "inline constexpr std::uint32_t ${NAME}_spv[${word_count}] = {")
endif()
file(WRITE "${OUTPUT}" "#pragma once
#include <cstdint>

namespace vkattn {
${array}
${values}};
}
")
