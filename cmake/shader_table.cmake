# The variant table for C++: "vkattn_shaders/table.hpp" declares a Shader (runtime/vulkan/shader.hpp) for each line of it.

# Notes a line. INTERFACE: the header of shaders/interface whose constants and push constants the shader has. CALLS: see
# variant_sources.cmake.
function(vkattn_table_line name source)
    cmake_parse_arguments(PARSE_ARGV 2 arg "${vkattn_line_flags}" "${vkattn_line_words}" "${vkattn_line_lists}")
    if(NOT arg_INTERFACE) # of a program that makes its pipelines itself
        return()
    endif()
    set(matrices NONE)
    if("GL_EXT_bfloat16" IN_LIST arg_EXTENSIONS)
        set(matrices BF16)
    elseif("GL_KHR_cooperative_matrix" IN_LIST arg_EXTENSIONS)
        set(matrices F16)
    endif()
    vkattn_variant_functions("${arg_CALLS}" calls)
    string(TOLOWER ${arg_FULL_SUBGROUPS} full_subgroups)
    set(interface gpu::${arg_INTERFACE}_interface)
    set_property(DIRECTORY APPEND PROPERTY vkattn_table_names ${name})
    set_property(DIRECTORY APPEND PROPERTY vkattn_table_includes shaders/interface/${arg_INTERFACE}.h vkattn_shaders/${name}.spv.hpp)
    set_property(DIRECTORY APPEND PROPERTY vkattn_table_objects "${name}{\"${name}\", \"${source}\", {${name}_packed, ${name}_words, ${name}_why},
    ${interface}.constants, ${interface}.push_bytes, ${full_subgroups}, VKATTN_TYPE_${matrices}, ${calls}}")
endfunction()

# Writes the table and its definitions, table.cpp, into the folder, which is among VKATTN_SHADER_INCLUDE_DIR.
function(vkattn_shader_table folder)
    foreach(list IN ITEMS names includes objects)
        get_property(${list} DIRECTORY PROPERTY vkattn_table_${list})
    endforeach()
    get_property(left_out DIRECTORY PROPERTY vkattn_left_out_names)
    list(REMOVE_DUPLICATES includes)
    list(JOIN includes "\"\n#include \"" includes)
    list(JOIN names ", " declarations)
    list(JOIN objects ";\nconstinit const Shader " objects)
    list(TRANSFORM names PREPEND &)
    list(JOIN names ", " addresses)
    file(CONFIGURE OUTPUT ${folder}/vkattn_shaders/table.hpp CONTENT "#pragma once
#include \"runtime/vulkan/shader.hpp\"

namespace vkattn::shaders {
extern const Shader @declarations@;
std::span<const Shader *const> table(); // all of them
}
" @ONLY)
    file(CONFIGURE OUTPUT ${folder}/table.cpp CONTENT "// Left out: @left_out@. Other headers are found for these: this line makes builds look for them.
#include \"vkattn_shaders/table.hpp\"
#include \"@includes@\"

namespace vkattn::shaders {
constinit const Shader @objects@;

std::span<const Shader *const> table() {
    static constexpr const Shader *kTable[] = {@addresses@};
    return kTable;
}
}
" @ONLY)
endfunction()
