# What runtime/jit compiles with a user's functions: the text of every shader, and of each line of the variant table that has
# CALLS its source, #defines, extensions and the functions. And a number that is another where any of the text is.
set(vkattn_variant_dir ${PROJECT_BINARY_DIR}/generated/variant)

# Sets RESULT to the vkattn_variant_functions of the names, as an expression of C++.
function(vkattn_variant_functions names result)
    list(TRANSFORM names PREPEND VKATTN_VARIANT_)
    list(JOIN names " | " expression)
    if(expression STREQUAL "")
        set(expression 0)
    endif()
    set(${result} "${expression}" PARENT_SCOPE)
endfunction()

# Notes a line.
function(vkattn_variant_module name source)
    cmake_parse_arguments(PARSE_ARGV 2 arg "${vkattn_line_flags}" "${vkattn_line_words}" "${vkattn_line_lists}")
    if(NOT arg_CALLS)
        return()
    endif()
    list(TRANSFORM arg_DEFINES REPLACE "(.+)" "#define \\1\\\\n")
    list(JOIN arg_DEFINES "" defines)
    list(JOIN arg_EXTENSIONS " " extensions)
    vkattn_variant_functions("${arg_CALLS}" calls)
    set_property(DIRECTORY APPEND PROPERTY vkattn_variant_modules "{\"${name}\", \"${source}\", \"${defines}\", \"${extensions}\", ${calls}}")
endfunction()

# A target that makes "vkattn_variant/identity.hpp" and sources.cpp in vkattn_variant_dir.
function(vkattn_variant_sources target)
    file(GLOB_RECURSE texts CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} *.glsl *.comp interface/*.h)
    get_property(modules DIRECTORY PROPERTY vkattn_variant_modules)
    list(JOIN modules ",\n    " modules)
    file(CONFIGURE OUTPUT ${vkattn_variant_dir}/modules.inc CONTENT "${modules}\n" @ONLY)
    set(files ${vkattn_variant_dir}/vkattn_variant/identity.hpp ${vkattn_variant_dir}/sources.cpp)
    list(TRANSFORM texts PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ OUTPUT_VARIABLE paths)
    list(JOIN texts "," names)
    add_custom_command(OUTPUT ${files}
        COMMAND ${CMAKE_COMMAND} -DSOURCE=${CMAKE_CURRENT_SOURCE_DIR} -DOUTPUT=${vkattn_variant_dir} -DNAMES=${names}
                -P ${PROJECT_SOURCE_DIR}/cmake/embed_text.cmake
        DEPENDS ${paths} ${vkattn_variant_dir}/modules.inc ${PROJECT_SOURCE_DIR}/cmake/embed_text.cmake
        COMMENT "Embedding the text of the shaders" VERBATIM)
    add_custom_target(${target} DEPENDS ${files})
endfunction()
