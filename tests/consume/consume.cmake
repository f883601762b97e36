# What the projects that use vkattn from outside share. Scripts that include it are run with -D of: WORK, a folder of their
# own; VKATTN_SOURCE; VKATTN_BUILD, a build of it, and PREFIX, where that is installed; CONFIG, GENERATOR, C_COMPILER, CXX_COMPILER, C_FLAGS,
# CXX_FLAGS; SHADERS, the folder of compiled ones, or nothing.

function(run)
    execute_process(COMMAND ${ARGV} WORKING_DIRECTORY "${WORK}" RESULT_VARIABLE result OUTPUT_VARIABLE output
        ERROR_VARIABLE output)
    if(NOT result EQUAL 0)
        string(REPLACE ";" " " command "${ARGV}")
        message(FATAL_ERROR "${command}\nended with ${result}:\n${output}")
    endif()
    set(output "${output}" PARENT_SCOPE)
endfunction()

function(build source) # build(SOURCE_FOLDER [CMAKE_ARGUMENT...]): in WORK/build
    run(${CMAKE_COMMAND} -S "${source}" -B "${WORK}/build" -G "${GENERATOR}" "-DCMAKE_BUILD_TYPE=${CONFIG}"
        "-DCMAKE_C_COMPILER=${C_COMPILER}" "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}"
        "-DCMAKE_C_FLAGS=${C_FLAGS} -Wall -Wextra -Werror"
        "-DCMAKE_CXX_FLAGS=${CXX_FLAGS} -Wall -Wextra -Werror" ${ARGN})
    run(${CMAKE_COMMAND} --build "${WORK}/build" --config "${CONFIG}")
endfunction()

function(expect_output pattern) # expect_output(PATTERN COMMAND...)
    run(${ARGN})
    message(STATUS "${output}")
    if(NOT output MATCHES "${pattern}")
        message(FATAL_ERROR "${ARGN} printed\n${output}\nexpected a match of: ${pattern}")
    endif()
endfunction()

file(REMOVE_RECURSE "${WORK}")
file(MAKE_DIRECTORY "${WORK}")
