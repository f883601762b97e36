# The rooms of runtime/ and the arrows between them: a file includes its own room and those below it alone.
# cmake -DRUNTIME=FOLDER -P house.cmake
set(rooms support problem device vulkan plan kernels ops layers trials api) # from the bottom up
set(above_layers trials) # stands beside layers

file(GLOB_RECURSE files RELATIVE "${RUNTIME}" "${RUNTIME}/*.hpp" "${RUNTIME}/*.cpp")
list(LENGTH files count)
if(count LESS 50)
    message(FATAL_ERROR "${RUNTIME}: ${count} files, expected those of runtime/")
endif()
foreach(file IN LISTS files)
    get_filename_component(room "${file}" DIRECTORY)
    list(FIND rooms "${room}" height)
    if(height LESS 0)
        message(SEND_ERROR "runtime/${file}: in no room of ${rooms}")
    endif()
    file(STRINGS "${RUNTIME}/${file}" lines REGEX "^#include \"runtime/")
    foreach(line IN LISTS lines)
        string(REGEX REPLACE "^#include \"runtime/([a-z]+)/.*" "\\1" included "${line}")
        list(FIND rooms "${included}" included_height)
        if(included_height GREATER height OR included_height LESS 0)
            message(SEND_ERROR "runtime/${file}: ${line}, an arrow that runs up, expected rooms below ${room}")
        endif()
        if(room STREQUAL above_layers AND included STREQUAL "layers")
            message(SEND_ERROR "runtime/${file}: ${line}, expected trials to know no layers")
        endif()
    endforeach()
endforeach()
