# Builds and runs the project beside this file against an installed vkattn; JIT: with the compiler
# of variants, where the build has it, else the project must be told that it is missing. A command that compiles no variants is
# refused when the project is configured.
include("${CMAKE_CURRENT_LIST_DIR}/../consume.cmake")
build("${CMAKE_CURRENT_LIST_DIR}" "-DCMAKE_PREFIX_PATH=${PREFIX}" -DWITH_JIT=${JIT})
expect_output("1 -2 3 0.25" "${WORK}/build/consumer")

function(expect_refusal pattern) # expect_refusal(PATTERN DEFINITION...): of a configuration
    execute_process(COMMAND ${CMAKE_COMMAND} -S "${CMAKE_CURRENT_LIST_DIR}" -B "${WORK}/refused" -G "${GENERATOR}"
        "-DCMAKE_C_COMPILER=${C_COMPILER}" "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}" "-DCMAKE_PREFIX_PATH=${PREFIX}" ${ARGN}
        RESULT_VARIABLE result OUTPUT_QUIET ERROR_VARIABLE said)
    string(REGEX REPLACE "[ \n]+" " " said "${said}")
    if(result EQUAL 0 OR NOT said MATCHES "${pattern}")
        message(FATAL_ERROR "configuring with ${ARGN} said\n${said}\nexpected a match of: ${pattern}")
    endif()
endfunction()
if(JIT)
    expect_output("none of score_mod, mask_mod" "${WORK}/build/functions")
else()
    expect_refusal("no vkattn::vkattn_jit: it was built without glslang" -DWITH_JIT=ON)
endif()
expect_refusal("vkattn_add_variant: .* compiles no variants" -DVARIANT=own.glsl "-DVKATTN_COMMAND=${CMAKE_COMMAND}") # a command that is another
