# cmake -DINPUT=x.spv -DOUTPUT=x.variant.h -DNAME=x -P embed_variant.cmake: writes a compiled variant as a C array of bytes.
file(READ "${INPUT}" hex HEX)
string(LENGTH "${hex}" length)
math(EXPR bytes "${length} / 2")
string(REPEAT "[0-9a-f]" 64 line)
string(REGEX REPLACE "(${line})" "\\1\n" hex "${hex}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," values "${hex}")
file(WRITE "${OUTPUT}" "#pragma once
enum { ${NAME}_variant_bytes = ${bytes} };
static const unsigned char ${NAME}_variant[${NAME}_variant_bytes] = {
${values}};
")
