# Builds and runs the project beside this file against an installed vkattn; with the source in place of it, which needs C++, it
# must be told in one line what is missing.
include("${CMAKE_CURRENT_LIST_DIR}/../consume.cmake")
build("${CMAKE_CURRENT_LIST_DIR}" "-DCMAKE_PREFIX_PATH=${PREFIX}")
run("${WORK}/build/consumer")
execute_process(COMMAND ${CMAKE_COMMAND} -S "${CMAKE_CURRENT_LIST_DIR}" -B "${WORK}/source" -G "${GENERATOR}"
    "-DCMAKE_C_COMPILER=${C_COMPILER}" "-DVKATTN_SOURCE=${VKATTN_SOURCE}" RESULT_VARIABLE result OUTPUT_QUIET ERROR_VARIABLE said)
string(REGEX REPLACE "[ \n]+" " " said "${said}")
if(result EQUAL 0 OR NOT said MATCHES "the project that it is a part of has no C\\+\\+, expected project\\(\\.\\.\\. LANGUAGES C CXX\\)")
    message(FATAL_ERROR "configuring vkattn's source within a project without C++ said\n${said}\nexpected the line that is missing")
endif()
