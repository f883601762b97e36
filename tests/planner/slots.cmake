# A slot of a walk is not a key: GLSL that takes one for the other does not compile.
# cmake -DROOT=FOLDER -DCOMPILER=GLSLANG -DOUTPUT=FOLDER -P slots.cmake
cmake_minimum_required(VERSION 3.22)

function(compile result argument)
    file(WRITE ${OUTPUT}/slots.comp "#version 460
#extension GL_GOOGLE_include_directive : require
#include \"attention/key_walk.glsl\"
layout(local_size_x = 1) in;
layout(set = 0, binding = BINDING_SCORES, std430) buffer ScoresBuffer { float scores[]; };
void main() {
    Row row = row_of_head(0, 0, 0);
    Slot slot = Slot(1);
    scores[0] = transform_score(scores[0], row, ${argument});
}
")
    set(mode -S comp)
    if(COMPILER MATCHES "glslc")
        set(mode -fshader-stage=compute)
    endif()
    execute_process(COMMAND ${COMPILER} --target-env vulkan1.1 ${mode} -I${ROOT}/shaders -o ${OUTPUT}/slots.spv ${OUTPUT}/slots.comp
        RESULT_VARIABLE status OUTPUT_VARIABLE text ERROR_VARIABLE text)
    set(${result} ${status} PARENT_SCOPE)
    set(text "${text}" PARENT_SCOPE)
endfunction()

compile(status "key_of_slot(row, slot)")
if(NOT status EQUAL 0)
    message(FATAL_ERROR "a slot's key: ${text}, expected GLSL that compiles")
endif()
foreach(argument slot "slot.number" "key_of_slot(row, Key(1))")
    compile(status "${argument}")
    if(status EQUAL 0)
        message(SEND_ERROR "${argument}: compiles as a key, expected an error")
    endif()
endforeach()
