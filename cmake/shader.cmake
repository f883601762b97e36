# GLSL -> SPIR-V, as the compiler writes it, validated where spirv-val is there -> a C++ header, and its line of shader_table.cmake.
include(${CMAKE_CURRENT_LIST_DIR}/shader_table.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/variant_sources.cmake)

# The arguments of a line of the variant table: shaders/CMakeLists.txt.
set(vkattn_line_flags FULL_SUBGROUPS)
set(vkattn_line_words INTERFACE VULKAN)
set(vkattn_line_lists DEFINES EXTENSIONS CALLS OF)

# Writes the header of a module that this build leaves out: what it holds is empty, as embed_spirv.cmake names it.
function(vkattn_empty_shader folder name reason)
    file(CONFIGURE OUTPUT ${folder}/${name}.spv.hpp CONTENT "#pragma once
#include <cstdint>
#include <span>

namespace vkattn {
inline constexpr std::span<const std::uint32_t> @name@_spv{}; // not built
inline constexpr std::span<const std::uint64_t> @name@_packed{};
inline constexpr std::uint32_t @name@_words = 0;
inline constexpr const char *@name@_why = \"@reason@\";
}
" @ONLY)
endfunction()

set(vkattn_table_dir ${PROJECT_BINARY_DIR}/generated/table)
set(vkattn_left_out_dir ${PROJECT_BINARY_DIR}/generated/left_out) # whose headers are found before the others

# The module of a line, or an empty one where the build leaves out a family that it is OF.
function(vkattn_module name source)
    cmake_parse_arguments(PARSE_ARGV 2 arg "${vkattn_line_flags}" "${vkattn_line_words}" "${vkattn_line_lists}")
    foreach(family IN LISTS arg_OF)
        if(NOT VKATTN_${family})
            vkattn_empty_shader(${vkattn_left_out_dir}/vkattn_shaders ${name} "built with VKATTN_${family} off")
            set_property(DIRECTORY APPEND PROPERTY vkattn_left_out_names ${name})
            return()
        endif()
    endforeach()
    file(REMOVE ${vkattn_left_out_dir}/vkattn_shaders/${name}.spv.hpp)
    vkattn_compiled_shader(${name} ${source} ${ARGN})
endfunction()

function(vkattn_shader name source)
    vkattn_table_line(${name} ${source} ${ARGN})
    vkattn_module(${name} ${source} ${ARGN})
endfunction()

# ROLLED: the CPU drivers that emulate would compile loops over matrices too long. Conversions of matrices are not emulated.
function(vkattn_subgroup_shader name source)
    cmake_parse_arguments(PARSE_ARGV 2 arg "${vkattn_line_flags}" "${vkattn_line_words}" "${vkattn_line_lists}")
    vkattn_table_line(${name} ${source} FULL_SUBGROUPS ${ARGN})
    if(NOT VKATTN_EMULATED_SUBGROUPS)
        vkattn_module(${name} ${source} ${ARGN})
    elseif(GL_NV_cooperative_matrix2 IN_LIST arg_EXTENSIONS)
        vkattn_empty_shader(${vkattn_shader_header_dir} ${name} "built with VKATTN_EMULATED_SUBGROUPS on")
    else()
        vkattn_module(${name} ${source} INTERFACE ${arg_INTERFACE} DEFINES EMULATED_SUBGROUPS ROLLED ${arg_DEFINES} CALLS ${arg_CALLS}
            OF ${arg_OF})
    endif()
endfunction()

function(vkattn_variant_shader name source)
    vkattn_table_line(${name} ${source} ${ARGN})
    vkattn_variant_module(${name} ${source} ${ARGN})
    vkattn_empty_shader(${PROJECT_BINARY_DIR}/generated/variant/vkattn_shaders ${name} "a variant alone has it")
endfunction()

# A release holds the headers, see package.cmake; and a build of the same source for another system may take those of one here.
set(VKATTN_COMPILED_SHADERS "" CACHE PATH "The folder 'generated' of another build of this source, whose shaders are taken")
set(vkattn_compiled_shaders "${VKATTN_COMPILED_SHADERS}")
if(NOT vkattn_compiled_shaders AND EXISTS ${PROJECT_SOURCE_DIR}/shaders/compiled)
    set(vkattn_compiled_shaders ${PROJECT_SOURCE_DIR}/shaders/compiled)
endif()
if(vkattn_compiled_shaders)
    if(VKATTN_EMULATED_SUBGROUPS)
        message(FATAL_ERROR "VKATTN_EMULATED_SUBGROUPS is ON, expected OFF: the shaders are compiled")
    endif()
    if(NOT EXISTS ${vkattn_compiled_shaders}/vkattn_shaders/flash.spv.hpp)
        message(FATAL_ERROR "VKATTN_COMPILED_SHADERS is ${vkattn_compiled_shaders}, expected the folder 'generated' of a build of this source")
    endif()
    message(STATUS "Shaders: compiled ones of ${vkattn_compiled_shaders}")
    set(VKATTN_SHADER_INCLUDE_DIR ${vkattn_table_dir} ${vkattn_left_out_dir} ${vkattn_compiled_shaders} PARENT_SCOPE)
    function(vkattn_shader_extension)
    endfunction()
    function(vkattn_compiled_shader name source)
        vkattn_variant_module(${name} ${source} ${ARGN})
    endfunction()
    function(vkattn_shader_target target)
        add_custom_target(${target})
    endfunction()
    return()
endif()

find_program(VKATTN_GLSL_COMPILER NAMES glslangValidator glslang glslc DOC "glslangValidator, glslang or glslc")
find_program(VKATTN_SPIRV_VAL spirv-val DOC "Validates the shaders; optional")
if(NOT VKATTN_GLSL_COMPILER)
    message(FATAL_ERROR "No GLSL compiler found: install glslangValidator (Debian: apt install glslang-tools), glslang "
        "or glslc, or set VKATTN_GLSL_COMPILER to one.")
endif()
if(NOT VKATTN_SPIRV_VAL)
    message(STATUS "spirv-val not found: shaders are built without it (Debian: apt install spirv-tools)")
endif()

set(vkattn_shader_build_dir ${PROJECT_BINARY_DIR}/generated/spirv)
set(vkattn_shader_header_dir ${PROJECT_BINARY_DIR}/generated/vkattn_shaders)
file(MAKE_DIRECTORY ${vkattn_shader_build_dir} ${vkattn_shader_header_dir})
set(VKATTN_SHADER_INCLUDE_DIR ${vkattn_table_dir} ${vkattn_left_out_dir} ${PROJECT_BINARY_DIR}/generated PARENT_SCOPE)

get_filename_component(compiler_name ${VKATTN_GLSL_COMPILER} NAME_WE)
set(vkattn_glsl_flags -I${CMAKE_CURRENT_SOURCE_DIR})
if(VKATTN_SHADER_LINES)
    list(APPEND vkattn_glsl_flags -g)
endif()
if(compiler_name STREQUAL "glslc")
    list(APPEND vkattn_glsl_flags -fshader-stage=compute -MD -MF)
    set(vkattn_glsl_depfile TRUE)
else()
    execute_process(COMMAND ${VKATTN_GLSL_COMPILER} --help OUTPUT_VARIABLE help ERROR_VARIABLE help)
    list(APPEND vkattn_glsl_flags -S comp)
    if(NOT VKATTN_SHADER_LINES)
        list(APPEND vkattn_glsl_flags -g0) # without names
    endif()
    if(help MATCHES "--quiet")
        list(APPEND vkattn_glsl_flags --quiet)
    endif()
    set(vkattn_glsl_depfile FALSE)
    if(help MATCHES "--depfile")
        list(APPEND vkattn_glsl_flags --depfile)
        set(vkattn_glsl_depfile TRUE)
    endif()
endif()

# Sets ARGUMENTS to what makes the module depend on the files it includes, and FLAGS to the compiler's share of it.
function(vkattn_shader_dependencies name arguments flags)
    if(vkattn_glsl_depfile)
        set(${arguments} DEPFILE ${vkattn_shader_build_dir}/${name}.d PARENT_SCOPE)
        set(${flags} ${vkattn_glsl_flags} ${vkattn_shader_build_dir}/${name}.d PARENT_SCOPE)
    else()
        file(GLOB_RECURSE included CONFIGURE_DEPENDS *.glsl *.h)
        set(${arguments} DEPENDS ${included} PARENT_SCOPE)
        set(${flags} ${vkattn_glsl_flags} PARENT_SCOPE)
    endif()
endfunction()

# An extension of GLSL that the compiler may lack. WORDS: what is left out then; TOOL: what has it, with its version. PROBE: a file
# that uses it, where the tools for SPIR-V may lack it as well.
function(vkattn_shader_extension extension words tool)
    cmake_parse_arguments(PARSE_ARGV 3 arg "" "PROBE" "")
    set(probe ${vkattn_shader_build_dir}/${extension})
    set(source ${probe}.comp)
    if(arg_PROBE)
        set(source ${CMAKE_CURRENT_SOURCE_DIR}/${arg_PROBE})
    else()
        file(WRITE ${source} "#version 460\n#extension ${extension} : require\nvoid main() {}\n")
    endif()
    set(flags ${vkattn_glsl_flags})
    if(vkattn_glsl_depfile)
        list(APPEND flags ${probe}.d)
    endif()
    execute_process(COMMAND ${VKATTN_GLSL_COMPILER} --target-env vulkan1.3 ${flags} -o ${probe}.spv ${source}
        RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
    if(arg_PROBE AND VKATTN_SPIRV_VAL AND status EQUAL 0)
        execute_process(COMMAND ${VKATTN_SPIRV_VAL} --target-env vulkan1.3 ${probe}.spv
            RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
    endif()
    if(NOT status EQUAL 0)
        set_property(DIRECTORY APPEND PROPERTY vkattn_missing_extensions ${extension})
        set_property(DIRECTORY APPEND PROPERTY vkattn_missing_words "${words} (needs ${tool})")
    endif()
endfunction()

function(vkattn_compiled_shader name source)
    cmake_parse_arguments(PARSE_ARGV 2 arg "${vkattn_line_flags}" "${vkattn_line_words}" "${vkattn_line_lists}")
    vkattn_variant_module(${name} ${source} ${ARGN})
    set(target vulkan1.1)
    if(arg_VULKAN)
        set(target vulkan${arg_VULKAN})
    endif()
    get_property(missing DIRECTORY PROPERTY vkattn_missing_extensions)
    foreach(extension IN LISTS arg_EXTENSIONS)
        if(extension IN_LIST missing)
            vkattn_empty_shader(${vkattn_shader_header_dir} ${name} "built by a GLSL compiler without ${extension}")
            return()
        endif()
    endforeach()
    set(source ${CMAKE_CURRENT_SOURCE_DIR}/${source})
    set(compiled ${vkattn_shader_build_dir}/${name}.spv)
    set(header ${vkattn_shader_header_dir}/${name}.spv.hpp)
    list(TRANSFORM arg_DEFINES PREPEND -D)

    vkattn_shader_dependencies(${name} dependencies flags)
    add_custom_command(OUTPUT ${compiled}
        COMMAND ${VKATTN_GLSL_COMPILER} --target-env ${target} ${arg_DEFINES} ${flags} -o ${compiled} ${source}
        DEPENDS ${source} ${dependencies}
        COMMENT "Compiling shader ${name}" VERBATIM)

    set(validation "")
    if(VKATTN_SPIRV_VAL)
        set(validation COMMAND ${VKATTN_SPIRV_VAL} --target-env ${target} ${compiled})
    endif()
    set(packed OFF) # of a program that makes its pipelines itself
    if(arg_INTERFACE)
        set(packed ON)
    endif()
    add_custom_command(OUTPUT ${header}
        ${validation}
        COMMAND ${CMAKE_COMMAND} -DINPUT=${compiled} -DOUTPUT=${header} -DNAME=${name} -DPACKED=${packed}
                -P ${PROJECT_SOURCE_DIR}/cmake/embed_spirv.cmake
        DEPENDS ${compiled} ${PROJECT_SOURCE_DIR}/cmake/embed_spirv.cmake
        COMMENT "Embedding shader ${name}" VERBATIM)
    set_property(DIRECTORY APPEND PROPERTY vkattn_shader_headers ${header})
    if(NOT arg_EXTENSIONS) # what every GPU runs
        set_property(DIRECTORY APPEND PROPERTY vkattn_plain_modules ${compiled})
    endif()
endfunction()

# Makes a target that builds every module of this folder's table, and says what it leaves out.
function(vkattn_shader_target target)
    get_property(headers DIRECTORY PROPERTY vkattn_shader_headers)
    add_custom_target(${target} DEPENDS ${headers})
    get_property(missing DIRECTORY PROPERTY vkattn_missing_words)
    if(missing) # scripts/compile shows lines that begin so
        message(NOTICE "vkattn: ${VKATTN_GLSL_COMPILER} is too old for these, which this build leaves out (release tarballs have them compiled):")
        foreach(words IN LISTS missing)
            message(NOTICE "vkattn:   ${words}")
        endforeach()
    endif()
endfunction()
