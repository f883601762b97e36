# vkattn_add_variant(TARGET FILE.glsl): compiles a variant of attention when the target is built, for programs that ship no compiler.
# The target can include "FILE.variant.h", which has it as FILE_variant, an array of FILE_variant_bytes bytes for
# vkattn_variant_info.compiled. The command `vkattn` of the same version does it: VKATTN_COMMAND names it, where it is not found.
set_property(GLOBAL PROPERTY vkattn_variant_script ${CMAKE_CURRENT_LIST_DIR}/embed_variant.cmake)
# Of the package, which includes this file: what another package sets afterwards is not vkattn's.
set_property(GLOBAL PROPERTY vkattn_variant_prefix "${PACKAGE_PREFIX_DIR}")
set_property(GLOBAL PROPERTY vkattn_variant_version "${vkattn_VERSION}")

# Fails unless the command is of the package's version: what another one compiles would be refused when the program runs.
function(vkattn_check_command command version)
    execute_process(COMMAND ${command} --version OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE status)
    if(version AND NOT (status STREQUAL "0" AND found STREQUAL "vkattn ${version}"))
        message(FATAL_ERROR "vkattn_add_variant: ${command} is \"${found}\", expected \"vkattn ${version}\", as the package: set VKATTN_COMMAND")
    endif()
endfunction()

function(vkattn_add_variant target file)
    get_property(vkattn_variant_script GLOBAL PROPERTY vkattn_variant_script)
    get_property(prefix GLOBAL PROPERTY vkattn_variant_prefix)
    get_property(version GLOBAL PROPERTY vkattn_variant_version)
    if(TARGET vkattn_command)
        if(NOT TARGET vkattn_jit)
            message(FATAL_ERROR "vkattn_add_variant: vkattn is built without vkattn_jit, expected glslang's headers (Debian: apt install glslang-dev)")
        endif()
        set(command vkattn_command)
    else()
        find_program(VKATTN_COMMAND vkattn DOC "The command vkattn, which compiles variants" HINTS "${prefix}/bin")
        if(NOT VKATTN_COMMAND)
            message(FATAL_ERROR "vkattn_add_variant: no command vkattn, expected it installed, or named by VKATTN_COMMAND")
        endif()
        execute_process(COMMAND ${VKATTN_COMMAND} compile-variant --is-there RESULT_VARIABLE status ERROR_VARIABLE said OUTPUT_QUIET)
        if(NOT status EQUAL 0)
            string(STRIP "${said}" said)
            message(FATAL_ERROR "vkattn_add_variant: ${VKATTN_COMMAND} compiles no variants (${said}), expected one of this version that does, "
                "or another named by VKATTN_COMMAND")
        endif()
        set(command ${VKATTN_COMMAND})
        vkattn_check_command(${command} "${version}")
    endif()
    get_filename_component(path ${file} ABSOLUTE)
    get_filename_component(stem ${file} NAME_WE)
    string(MAKE_C_IDENTIFIER ${stem} name)
    set(folder ${CMAKE_CURRENT_BINARY_DIR}/vkattn_variants)
    add_custom_command(OUTPUT ${folder}/${stem}.variant.h
        COMMAND ${CMAKE_COMMAND} -E make_directory ${folder}
        COMMAND ${command} compile-variant ${path} -o ${folder}/${stem}.spv
        COMMAND ${CMAKE_COMMAND} -DINPUT=${folder}/${stem}.spv -DOUTPUT=${folder}/${stem}.variant.h -DNAME=${name}
                -P ${vkattn_variant_script}
        DEPENDS ${path} ${command} ${vkattn_variant_script}
        COMMENT "Compiling variant ${stem}" VERBATIM)
    target_sources(${target} PRIVATE ${folder}/${stem}.variant.h)
    target_include_directories(${target} PRIVATE ${folder})
endfunction()
